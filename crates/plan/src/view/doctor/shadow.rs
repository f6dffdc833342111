//! What Carillon's planner would do now with an object of Kubernetes that kube-controller-manager serves. Of an object
//! with which that one is done, each action is a difference between the two.

pub mod job;
pub mod job_pods;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Check, Finding, Severity, count, some};
use crate::cron_job::Children;
use crate::cron_job::action::Action as CronAction;
use crate::daemon_set::action::Action as SetAction;
use crate::daemon_set::{DaemonSet, Snapshot, plan};
use crate::plan::Act;
use crate::view::cron_job::foresee::planned;
use crate::view::cron_job::read::StoredCron;
use crate::view::daemon_set::known::Known;
use crate::view::read::entries;

/// The name of the check.
pub const CHECK: &str = "shadow";
const WRITES_STATUS: &str = "write its status";

/// What would be done with one object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shadow {
    /// `DaemonSet ops/agent`.
    pub place: String,
    /// Each thing that would be done: the verb, and to what.
    pub done: Vec<(String, String)>,
    /// The object was changed, and kube-controller-manager has not acted on it yet.
    pub is_behind: bool,
    /// What nothing is said of, and why.
    pub not_compared: Option<&'static str>,
    /// The status as it is stored.
    status: Value,
    /// Where it is told what differs between the two.
    known: &'static str,
}

impl Shadow {
    /// What is still said of the object, which was looked at again a moment later. Who has written the status meanwhile
    /// is at work: of another status nothing is said.
    #[must_use]
    pub fn still(&self, mut again: Self) -> Self {
        let is_idle = self.status == again.status;
        let before: HashSet<_> = self.done.iter().collect();
        again
            .done
            .retain(|one| before.contains(one) && (is_idle || one.0 != WRITES_STATUS));
        again
    }

    /// What is said of an object that could not be read again a moment later.
    #[must_use]
    pub fn unread(self) -> Self {
        Self {
            done: Vec::new(),
            not_compared: Some("it was gone, or could not be read, a moment later"),
            ..self
        }
    }

    /// Whether there is anything to say.
    pub fn says_nothing(&self) -> bool {
        self.done.is_empty() && self.not_compared.is_none()
    }
}

/// Of a DaemonSet of apps/v1. `None`: its pods or its revisions may not be read.
pub fn daemon_set(known: &Known, now: Timestamp) -> Option<Shadow> {
    let (pods, _) = (known.pods.as_ref()?, known.revisions.as_ref()?);
    let snapshot = Snapshot {
        free: &pods.free,
        ..known.snapshot()
    };
    let set = &known.stored.set;
    let planned = plan(&snapshot, now);
    let actions = planned.steps.iter().flat_map(|step| &step.actions);
    let owner = &set.meta.owner;
    Some(Shadow {
        place: format!("DaemonSet {}/{}", owner.namespace, owner.name),
        done: actions.filter_map(|action| of_set(set, action)).collect(),
        is_behind: set.status.observed_generation != Some(set.meta.generation),
        not_compared: None,
        status: json!(set.status),
        known: "docs/daemonset.md#coming-from-kube-controller-manager",
    })
}

fn of_set(set: &DaemonSet, action: &SetAction) -> Option<(String, String)> {
    let (verb, object) = match action {
        SetAction::ConfirmCurrent => return None,
        SetAction::CreatePod(pod) => ("create a pod".to_owned(), format!("on {}", pod.node)),
        SetAction::DeletePod {
            name, node, why, ..
        } => {
            let why = why.word().replace('_', " ");
            (format!("delete a pod ({why})"), format!("{name} on {node}"))
        }
        SetAction::WriteStatus(status) => {
            let changes = changes(&json!(set.status), &json!(status));
            if changes.is_empty() {
                return None;
            }
            (WRITES_STATUS.to_owned(), changes)
        }
        other => (other.word().replace('_', " "), other.object()?),
    };
    Some((verb, object))
}

/// Of a CronJob of batch/v1, of which all Jobs are known.
pub fn cron_job(stored: &StoredCron, children: &Children, now: Timestamp) -> Shadow {
    let cron = &stored.cron;
    let owner = &cron.meta.owner;
    let planned = planned(cron, children, now);
    let actions = planned.steps.iter().flat_map(|step| &step.actions);
    let done = actions.filter_map(|action| {
        let (verb, object) = match action {
            // Questions, which change nothing.
            CronAction::TryChild(_)
            | CronAction::ConfirmGone { .. }
            | CronAction::ConfirmCurrent => {
                return None;
            }
            CronAction::WriteStatus(status) => {
                let changes = changes(&json!(cron.status), &json!(status));
                if changes.is_empty() {
                    return None;
                }
                (WRITES_STATUS.to_owned(), changes)
            }
            other => (other.word().replace('_', " "), other.object()?),
        };
        Some((verb, object))
    });
    Shadow {
        place: format!("CronJob {}/{}", owner.namespace, owner.name),
        done: done.collect(),
        status: json!(cron.status),
        known: "docs/cronjob.md#native-cronjobs",
        ..Shadow::default()
    }
}

/// `numberReady 2 -> 3`, of each field that is another.
fn changes(old: &Value, new: &Value) -> String {
    let fields: BTreeSet<&str> = entries(old)
        .chain(entries(new))
        .map(|(key, _)| key)
        .collect();
    let changed = fields.into_iter().filter(|key| old[*key] != new[*key]);
    let word = |value: &Value| match value {
        Value::Null => "(none)".to_owned(),
        value => value.to_string(),
    };
    let changed: Vec<String> = changed
        .map(|key| format!("{key} {} -> {}", word(&old[key]), word(&new[key])))
        .collect();
    changed.join(", ")
}

/// How many objects were looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Looked {
    /// DaemonSets.
    pub sets: usize,
    /// CronJobs.
    pub crons: usize,
    /// Jobs.
    pub jobs: usize,
}

/// Says where the two differ. `shadows`: those of which something was said twice, a moment apart. `left_out`: which
/// objects were not looked at, and why.
pub fn check(looked: Looked, shadows: &[Shadow], left_out: &[String]) -> Check {
    let differing = shadows.iter().filter(|shadow| !shadow.done.is_empty());
    let mut findings: Vec<Finding> = differing.map(difference).collect();
    let otherwise = findings.len();
    let unsure = |one: &&Shadow| one.done.is_empty() && one.not_compared.is_some();
    let unsure = shadows.iter().filter(unsure).count();
    let objects = looked.sets + looked.crons + looked.jobs;
    let mut found = format!(
        "{}, {}, {}: {} as now, {otherwise} otherwise",
        count(looked.sets, "DaemonSet"),
        count(looked.crons, "CronJob"),
        count(looked.jobs, "Job"),
        objects.saturating_sub(otherwise + unsure),
    );
    if unsure > 0 {
        let _ = write!(found, ", {unsure} not compared");
    }
    findings.extend(not_compared(shadows));
    let left_out = Some(left_out.join("; ")).filter(|why| !why.is_empty());
    Check::made(CHECK, found, findings).without(left_out)
}

/// What nothing is said of, once for each reason.
fn not_compared(shadows: &[Shadow]) -> impl Iterator<Item = Finding> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for shadow in shadows {
        if let Some(why) = shadow.not_compared {
            by_reason.entry(why).or_default().push(shadow.place.clone());
        }
    }
    by_reason.into_iter().map(|(why, places)| {
        let what = format!("not compared: {why}");
        Finding::new(CHECK, Severity::Info, some(&places), what)
    })
}

fn difference(shadow: &Shadow) -> Finding {
    let mut by_verb: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (verb, object) in &shadow.done {
        by_verb.entry(verb).or_default().push(object.clone());
    }
    let words = by_verb.into_iter().map(|(verb, objects)| {
        let times = match objects.len() {
            1 => String::new(),
            more => format!(" {more} times"),
        };
        format!("{verb}{times}: {}", some(&objects))
    });
    let words = words.collect::<Vec<_>>().join("; ");
    let (severity, so_far) = if shadow.is_behind {
        (
            Severity::Info,
            ". kube-controller-manager has not acted on its last change yet either",
        )
    } else {
        (Severity::Warning, "")
    };
    let what = format!("Carillon would {words}{so_far}");
    let known = format!("what is known to differ, and why: {}", shadow.known);
    Finding::new(CHECK, severity, &*shadow.place, what).or(known, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::daemon_set::samples::{at, known, nodes, object, pod, revision};
    use crate::view::doctor::Outcome;

    const ONE_SET: Looked = Looked {
        sets: 1,
        crons: 0,
        jobs: 0,
    };

    fn native(spec: &Value, counts: [i32; 4]) -> Value {
        let mut set = object("apps/v1", spec);
        let [desired, current, ready, updated] = counts;
        set["status"] = json!({
            "observedGeneration": 3, "desiredNumberScheduled": desired, "currentNumberScheduled": current,
            "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": updated,
            "numberMisscheduled": 0,
        });
        set
    }

    fn owned(mut object: Value) -> Value {
        object["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps/v1");
        object
    }

    fn shadow(set: &Value, pods: &[Value]) -> Shadow {
        let pods: Vec<Value> = pods.iter().cloned().map(owned).collect();
        let known = known(set, &[owned(revision(1, "new"))], &pods, &nodes(3, 3));
        daemon_set(&known, at(100)).unwrap()
    }

    #[test]
    fn with_a_daemon_set_that_is_done_nothing_would_be_done() {
        let pods = [pod(1, "new", true), pod(2, "new", true)];
        let shadow = shadow(&native(&json!({}), [2, 2, 2, 2]), &pods);
        assert_eq!(
            (shadow.done.as_slice(), shadow.is_behind),
            (&[] as &[_], false),
            "{shadow:?}"
        );
        let check = check(ONE_SET, &[shadow], &[]);
        assert_eq!(check.result, Outcome::Ok);
        assert_eq!(
            check.found,
            "1 DaemonSet, 0 CronJobs, 0 Jobs: 1 as now, 0 otherwise"
        );
    }

    #[test]
    fn each_thing_that_would_be_done_is_a_difference() {
        let lacks = shadow(&native(&json!({}), [2, 2, 2, 2]), &[pod(1, "new", true)]);
        let words: Vec<String> = lacks
            .done
            .iter()
            .map(|(verb, object)| format!("{verb} {object}"))
            .collect();
        assert_eq!(words[0], "create a pod on n2", "{words:?}");
        assert!(
            words[1].contains("currentNumberScheduled 2 -> 1"),
            "{words:?}"
        );
        let check = check(ONE_SET, &[lacks], &[]);
        assert_eq!(check.result, Outcome::Warning);
        assert!(
            check.findings[0]
                .what
                .starts_with("Carillon would create a pod: on n2; write its status:")
        );
    }

    #[test]
    fn one_that_was_just_changed_is_only_told() {
        let mut set = native(&json!({}), [2, 2, 2, 2]);
        set["metadata"]["generation"] = json!(4);
        let behind = shadow(&set, &[pod(1, "new", true)]);
        assert!(behind.is_behind);
        let check = check(ONE_SET, &[behind], &[]);
        assert_eq!(check.result, Outcome::Info);
    }

    #[test]
    fn what_may_not_be_read_gives_no_shadow() {
        let mut known = known(&native(&json!({}), [0; 4]), &[], &[], &[]);
        known.revisions = None;
        assert_eq!(daemon_set(&known, at(0)), None);
    }
}
