//! What Carillon would do now with a Job that kube-controller-manager serves.
//!
//! All that a planner has to know of a Job is stored, but for the back-off: each process remembers for itself when pods
//! have failed. It is told what pods tell that are still there. Where that may be less than kube-controller-manager
//! remembers, nothing is said of new pods.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use serde_json::{Value, json};

use super::{Shadow, WRITES_STATUS, changes};
use crate::job::action::{Action, Plan};
use crate::job::backoff::BackoffRecord;
use crate::job::unanswered::Unanswered;
use crate::job::{CompletionMode, Job, JobPod, JobPods, Limits, Snapshot, is_ours, plan};
use crate::object_key::{JOB, ObjectKey};
use crate::plan::Act;
use crate::pod::PodPhase;
use crate::view::read::{list, metadata, text};
use crate::written::Written;

/// Why nothing is said of new pods.
pub const BACKOFF_UNKNOWN: &str = "whether new pods are due: some that have failed are gone, and kube-controller-manager \
     alone remembers when; it waits up to ten minutes";
/// Why nothing is said of the end of a Job.
pub const END_UNKNOWN: &str = "how it has ended: its status does not say what was decided, as that of Kubernetes \
     before 1.31, and its counts alone do not lead there";
/// Why nothing is said of a Job at all.
pub const MODE_UNKNOWN: &str = "anything: it has a completion mode that Carillon does not know";

/// How a Job may end: what is decided first, and what says that it has happened.
const ENDS: [(&str, &str); 2] = [
    ("SuccessCriteriaMet", "Complete"),
    ("FailureTarget", "Failed"),
];

/// A Job of which a shadow can be made.
#[derive(Clone, Debug)]
pub struct StoredJob {
    job: Job,
    /// When its status was last written.
    written: Option<Timestamp>,
}

impl StoredJob {
    /// Reads a Job. `None`: it is not one that kube-controller-manager serves.
    pub fn read(object: &Value) -> Option<Self> {
        let meta = metadata(JOB, &object["metadata"]);
        let mut job = Job::read(meta, &object["spec"], &object["status"]);
        let by = job.spec.managed_by.as_deref();
        if !is_ours(by, true) || is_ours(by, false) {
            return None;
        }
        // No pod is made of it here, and there may be many.
        job.template = Written::default();
        let entries = list(&object["metadata"]["managedFields"]);
        let of_status = entries.filter(|one| one["subresource"] == "status");
        let times = of_status.filter_map(|one| text(&one["time"]).parse().ok());
        Some(Self {
            job,
            written: times.max(),
        })
    }

    /// Who it is.
    pub fn owner(&self) -> &ObjectKey {
        &self.job.meta.owner
    }
}

/// What would be done with a Job. `free`: the pods of its namespace that nothing controls.
pub fn job(stored: &StoredJob, pods: &JobPods, free: &JobPods, now: Timestamp) -> Shadow {
    let job = &stored.job;
    let owner = stored.owner();
    let mut shadow = Shadow {
        place: format!("Job {}/{}", owner.namespace, owner.name),
        status: json!(job.status),
        known: "docs/job.md#what-is-different",
        ..Shadow::default()
    };
    if let CompletionMode::Unknown(_) = job.spec.mode {
        shadow.not_compared = Some(MODE_UNKNOWN);
        return shadow;
    }
    let with = |backoff: &BackoffRecord| {
        let planned = planned(job, (pods, free), backoff, now);
        done(job, &planned)
    };
    let seen = seen(job, pods);
    let longest = longest(stored, pods, seen, now);
    shadow.done = with(&seen);
    let latest: HashSet<_> = with(&longest).into_iter().collect();
    let soonest = shadow.done.len();
    shadow.done.retain(|one| latest.contains(one));
    if shadow.done.len() < soonest {
        shadow.not_compared = Some(BACKOFF_UNKNOWN);
    }
    match ended_otherwise(job) {
        Ended::AsItWouldHere => {}
        Ended::Otherwise(how) => shadow.done.push(how),
        Ended::Unknown => shadow.not_compared = Some(END_UNKNOWN),
    }
    shadow
}

fn planned(
    job: &Job,
    (pods, free): (&JobPods, &JobPods),
    backoff: &BackoffRecord,
    now: Timestamp,
) -> Plan {
    plan(
        &Snapshot {
            job,
            pods,
            free,
            backoff,
            unanswered: &Unanswered::new(),
            limits: &Limits::default(),
        },
        now,
    )
}

/// Whether what became of a pod was known when the status was last written.
fn is_known(job: &Job, pod: &JobPod) -> bool {
    let uids = job.status.uncounted_terminated_pods.as_ref();
    let uid = pod.uid.to_string();
    let has = |uids: Option<&Vec<String>>| uids.is_some_and(|uids| uids.contains(&uid));
    !pod.tracked
        || uids.is_some_and(|uids| has(uids.succeeded.as_ref()) || has(uids.failed.as_ref()))
}

/// The back-off, as far as pods tell that are still there. Those that are new to the status the planner adds itself.
fn seen(job: &Job, pods: &JobPods) -> BackoffRecord {
    let known = || pods.values().filter(|pod| is_known(job, pod));
    let succeeded = known().filter(|pod| pod.phase == PodPhase::Succeeded);
    let failed = known().filter(|pod| pod.has_failed(job.spec.replaces_only_failed));
    BackoffRecord::default().after(
        succeeded.filter_map(|pod| pod.finished),
        failed.filter_map(|pod| pod.finished),
    )
}

/// The most that kube-controller-manager may remember: all failures that it has counted, and that the last of them was
/// when it has last written the status.
fn longest(
    stored: &StoredJob,
    pods: &JobPods,
    seen: BackoffRecord,
    now: Timestamp,
) -> BackoffRecord {
    let job = &stored.job;
    let failed =
        |pod: &&JobPod| is_known(job, pod) && pod.has_failed(job.spec.replaces_only_failed);
    let there = pods.values().filter(failed).count();
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let uncounted = uncounted.and_then(|uids| uids.failed.as_ref());
    let counted = usize::try_from(job.status.failed.unwrap_or(0)).unwrap_or(0);
    let counted = counted + uncounted.map_or(0, Vec::len);
    let rules = job.spec.failure_rules.iter().flatten();
    // Ignored failures are in no count.
    let ignores = rules.clone().any(|rule| rule.action == "Ignore");
    if counted <= there && !ignores {
        return seen;
    }
    let counted = u32::try_from(counted).unwrap_or(u32::MAX);
    BackoffRecord {
        failures: if ignores {
            u32::MAX
        } else {
            counted.max(seen.failures)
        },
        last: Some(stored.written.unwrap_or(now)).max(seen.last),
    }
}

/// Each thing that a plan does: the verb with the field that it follows from, and to what.
fn done(job: &Job, plan: &Plan) -> Vec<(String, String)> {
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let running = actions()
        .filter(|action| matches!(action, Action::RemovePod { .. }))
        .count();
    let mut all = Vec::new();
    for action in actions() {
        let object = action.object().unwrap_or_default();
        match action {
            Action::ConfirmCurrent | Action::ConfirmAbsent { .. } => {}
            Action::WriteStatus(write) => {
                all.extend(conditions(&job.status, &write.status));
                let changes = counts(&job.status, &write.status);
                if !changes.is_empty() {
                    all.push((WRITES_STATUS.to_owned(), changes));
                }
            }
            Action::CreatePod(pod) => {
                let object = match pod.index {
                    Some(index) => format!("{object} for index {index}"),
                    None => object,
                };
                all.push((format!("create a pod ({})", wanted(job)), object));
            }
            Action::RemovePod { .. } if job.spec.suspend => {
                all.push(("delete a pod (spec.suspend)".to_owned(), object));
            }
            Action::RemovePod { .. } => {
                let why = format!("{running} more than {}", wanted(job));
                all.push((format!("delete a pod ({why})"), object));
            }
            Action::StopPod { .. } => {
                all.push(("delete a pod (the Job ends)".to_owned(), object));
            }
            Action::AdoptPod { .. } => {
                all.push(("adopt a pod (spec.selector)".to_owned(), object));
            }
            Action::DisownPod { .. } => {
                all.push(("give a pod away (spec.selector)".to_owned(), object));
            }
            Action::ReleasePod { .. } => {
                let verb = if job.has_finished() || job.meta.deleting {
                    "let a pod go (finalizer batch.kubernetes.io/job-tracking)"
                } else {
                    "count a pod, and take its finalizer"
                };
                all.push((verb.to_owned(), object));
            }
            Action::DeleteJob => {
                let seconds = job.spec.ttl_seconds_after_finished.unwrap_or(0);
                let since = format!("spec.ttlSecondsAfterFinished {seconds}");
                all.push(("delete it".to_owned(), since));
            }
        }
    }
    all
}

/// How many pods are wanted, in the words of the spec.
fn wanted(job: &Job) -> String {
    let parallelism = format!("spec.parallelism {}", job.spec.parallelism);
    match job.spec.completions {
        Some(completions) => format!("{parallelism}, spec.completions {completions}"),
        None => parallelism,
    }
}

/// Conditions that are new or say something else, as what would be done.
fn conditions(old: &JobStatus, new: &JobStatus) -> Vec<(String, String)> {
    let says = |one: &JobCondition| (one.type_.clone(), one.status.clone(), one.reason.clone());
    let known: HashSet<_> = old.conditions.iter().flatten().map(says).collect();
    let new = new.conditions.iter().flatten();
    let new = new.filter(|one| !known.contains(&says(one)));
    let mut all: Vec<(String, String)> = new.map(condition).collect();
    all.dedup();
    all
}

fn condition(one: &JobCondition) -> (String, String) {
    let reason = one.reason.as_deref().unwrap_or_default();
    let verb = match &*one.type_ {
        "SuccessCriteriaMet" | "Complete" => "complete it",
        "FailureTarget" | "Failed" => "fail it",
        "Suspended" if one.status == "True" => {
            return ("suspend it".to_owned(), "spec.suspend".to_owned());
        }
        "Suspended" => return ("resume it".to_owned(), "spec.suspend".to_owned()),
        other => return (format!("write condition {other}"), one.status.clone()),
    };
    let object = match field_of(reason) {
        Some(field) => format!("{reason} ({field})"),
        None => reason.to_owned(),
    };
    (verb.to_owned(), object)
}

/// The field that ends a Job for this reason.
fn field_of(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "CompletionsReached" => "spec.completions",
        "SuccessPolicy" => "spec.successPolicy",
        "PodFailurePolicy" => "spec.podFailurePolicy",
        "BackoffLimitExceeded" => "spec.backoffLimit",
        "DeadlineExceeded" => "spec.activeDeadlineSeconds",
        "MaxFailedIndexesExceeded" => "spec.maxFailedIndexes",
        "FailedIndexes" => "spec.backoffLimitPerIndex",
        _ => return None,
    })
}

/// What else of the status would be another. What is not there is none; times are of the moment, and what is not
/// counted yet is told with the pods.
fn counts(old: &JobStatus, new: &JobStatus) -> String {
    let plain = |status: &JobStatus| {
        let mut status = json!(status);
        let Some(fields) = status.as_object_mut() else {
            return status;
        };
        for other in ["conditions", "uncountedTerminatedPods"] {
            fields.remove(other);
        }
        for count in ["active", "ready", "terminating", "succeeded", "failed"] {
            fields.entry(count).or_insert(json!(0));
        }
        for indexes in ["completedIndexes", "failedIndexes"] {
            fields.entry(indexes).or_insert(json!(""));
        }
        for time in ["startTime", "completionTime"] {
            if let Some(value) = fields.get_mut(time) {
                *value = json!("set");
            }
        }
        status
    };
    changes(&plain(old), &plain(new))
}

/// Whether a Job that has ended would have ended so here.
#[derive(Debug, Eq, PartialEq)]
enum Ended {
    /// Or it has not ended.
    AsItWouldHere,
    Otherwise((String, String)),
    Unknown,
}

fn ended_otherwise(job: &Job) -> Ended {
    let Some(told) = job.ended() else {
        return Ended::AsItWouldHere;
    };
    let at = told.last_transition_time.as_ref().map(|time| time.0);
    let mut before = job.clone();
    let conditions = before.status.conditions.get_or_insert_default();
    conditions.retain(|one| !ENDS.iter().any(|(_, terminal)| one.type_ == *terminal));
    let is_decided = ENDS.iter().any(|(interim, _)| before.has(interim));
    // Its pods may be gone, and those that are there were counted.
    let none = JobPods::default();
    let planned = planned(
        &before,
        (&none, &none),
        &BackoffRecord::default(),
        at.unwrap_or_default(),
    );
    let mut actions = planned.steps.iter().flat_map(|step| &step.actions);
    let status = actions.find_map(|action| match action {
        Action::WriteStatus(write) => Some(&write.status),
        _ => None,
    });
    let here = ENDS.iter().find_map(|(interim, terminal)| {
        let all = status?.conditions.iter().flatten();
        let mut true_ones = all.filter(|one| one.status == "True");
        let found = true_ones.find(|one| one.type_ == *interim)?;
        Some((*terminal, found.reason.as_deref().unwrap_or_default()))
    });
    let reason = told.reason.as_deref().unwrap_or_default();
    match here {
        Some((type_, why)) if type_ == told.type_ && (why == reason || !is_decided) => {
            Ended::AsItWouldHere
        }
        Some((type_, why)) if is_decided => {
            let object = format!("{type_} {why}, and not {} {reason}", told.type_);
            Ended::Otherwise(("have ended it as was decided".to_owned(), object))
        }
        _ => Ended::Unknown,
    }
}

#[cfg(test)]
mod tests;
