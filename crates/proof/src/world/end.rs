//! How a run ends.

use std::collections::{BTreeMap, BTreeSet};

use carillon_oracle::{History, Step};
use carillon_sim::Actor;
use jiff::SignedDuration;
use serde_json::Value;

use super::service_account::ours;
use crate::scenario::{NAMESPACE, Same, View};
use crate::tenant::Tenant;

/// What a CronJob notes that does not depend on when a run came to its end.
const NOTES: [&str; 4] = [
    "lastScheduleTime",
    "lastMissedTime",
    "missedRuns",
    "handledRunNow",
];

/// The end of a run, as far as it must not depend on what went wrong.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// Types and reasons of the conditions that say how it went.
    pub conditions: BTreeSet<(String, String)>,
    /// Desired, succeeded, failed.
    pub counts: [i64; 3],
    /// Of a Job: the indexes that have succeeded, and those that have failed.
    pub indexes: [Value; 2],
    /// State of the last attempt on each node.
    pub nodes: BTreeMap<String, String>,
    /// Pods and runs that still carry our finalizer.
    pub held: usize,
    /// Names of all runs that a CronJob ever started.
    pub started: BTreeSet<String>,
    /// Names of those that are kept.
    pub kept: BTreeSet<String>,
    /// How many its status says are active.
    pub active: usize,
    /// What it notes.
    pub notes: BTreeMap<&'static str, Value>,
    /// When it came: after so long, leases, events and a tenant apart. It is no part of how it is.
    pub after: SignedDuration,
}

impl End {
    /// The end that has come.
    pub(super) fn of(admin: &Actor, history: &History, tenant: Option<Tenant>) -> Self {
        let view = View::new(admin);
        let (pods, children) = (view.pods(), view.children());
        let all = pods.iter().chain(&children);
        let mut end = Self {
            counts: ["desired", "succeeded", "failed"].map(|field| view.count(field)),
            indexes: ["completedIndexes", "failedIndexes"].map(|field| {
                let status = view.job().map(|job| job["status"][field].clone());
                status.unwrap_or_default()
            }),
            held: all
                .filter(|object| object["metadata"]["finalizers"].is_array())
                .count(),
            after: took(history, tenant),
            started: history
                .steps
                .iter()
                .filter(|step| *step.key.namespace == *NAMESPACE)
                .filter_map(started)
                .collect(),
            kept: children
                .iter()
                .map(|child| text(&child["metadata"], "name"))
                .collect(),
            ..Self::default()
        };
        let cron = view.cron();
        let served = [view.job(), cron.clone()];
        for object in served.iter().flatten() {
            let conditions = object["status"]["conditions"].as_array();
            let conditions = conditions.into_iter().flatten();
            let said = conditions.filter(|condition| says_how_it_went(condition));
            end.conditions
                .extend(said.map(|condition| (text(condition, "type"), text(condition, "reason"))));
        }
        for slice in view.slices() {
            for result in slice["results"].as_array().into_iter().flatten() {
                end.nodes
                    .insert(text(result, "nodeName"), text(result, "state"));
            }
        }
        if let Some(status) = cron.as_ref().map(|cron| &cron["status"]) {
            end.active = status["active"].as_array().map_or(0, Vec::len);
            let noted = NOTES.map(|note| (note, status[note].clone()));
            end.notes = noted.into();
        }
        end
    }

    /// Whether a disturbed run ended as the undisturbed one did. Where a run was started `late`, by a
    /// request that was overtaken, that is kept or active as well, in the place of another.
    pub fn is_as(&self, clean: &Self, same: Same, late: bool) -> bool {
        let (mut found, mut wanted) = (self.clone(), clean.clone());
        found.after = wanted.after;
        if late {
            for end in [&mut found, &mut wanted] {
                end.kept.clear();
                end.active = 0;
            }
        }
        match same {
            Same::Everything => found == wanted,
            Same::Condition => {
                let of = |end: Self| (end.conditions, end.held, end.active);
                of(found) == of(wanted)
            }
            Same::Type => {
                let types = |end: &Self| -> BTreeSet<String> {
                    let types = end.conditions.iter().map(|(type_, _)| type_.clone());
                    types.collect()
                };
                let of = |end: Self| (types(&end), end.held, end.active);
                of(found) == of(wanted)
            }
        }
    }
}

/// How long it took until the last change.
fn took(history: &History, tenant: Option<Tenant>) -> SignedDuration {
    let tenant = tenant.map_or("", Tenant::namespace);
    let counts = |step: &&Step| {
        let resource = &*step.key.resource;
        let aside = resource.starts_with("leases.") || resource.starts_with("events.");
        !aside && (step.key.namespace.is_empty() || *step.key.namespace != *tenant)
    };
    let last = history.steps.iter().rev().find(counts);
    let first = history.steps.first();
    let times = first.zip(last);
    times.map_or(SignedDuration::ZERO, |(first, last)| {
        last.at.duration_since(first.at)
    })
}

fn says_how_it_went(condition: &Value) -> bool {
    let type_ = text(condition, "type");
    let always = type_ == "Scheduled";
    let ends = ["Complete", "Failed", "Stalled"].contains(&type_.as_str());
    always || ends && condition["status"] == "True"
}

/// The name of the run that a step of the operator started.
pub fn started(step: &Step) -> Option<String> {
    let child = step.new.as_ref().filter(|_| step.old.is_none())?;
    let by_us = step.by.as_deref().is_some_and(ours);
    let is_child = child["metadata"]["ownerReferences"][0]["kind"] == "CronJob";
    (by_us && is_child).then(|| step.key.name.to_string())
}

fn text(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}
