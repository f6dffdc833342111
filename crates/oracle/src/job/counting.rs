//! S4: each pod is counted exactly once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::indexes::{Indexes, leniently};
use super::object::{self as of_job, count};
use super::world::{Job, Jobs};
use crate::history::History;
use crate::invariant::Invariant::S4;
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{is_true, phase, text, uid};

/// S4. In every write of the status of a Job by us (or by nobody knows whom), unless others have
/// written it before:
/// - a uid that comes into `uncountedTerminatedPods` is that of a pod of the Job, was in none of its
///   lists before, and comes to `succeeded` only of a pod that has succeeded; to `failed` only of
///   one that has failed, that was told to stop, or whose Job fails;
/// - a uid leaves its list only when its pod no longer carries the finalizer, and never comes back;
/// - `failed` grows by as many as leave `failed`, and without indexes `succeeded` by as many as leave
///   `succeeded`;
/// - with indexes `succeeded` is the number of `completedIndexes`; an index comes to these only by a
///   pod that has succeeded, to `failedIndexes` only by one that has failed or was told to stop; and
///   leaves them only when it is no longer below `completions`.
pub fn counted_exactly_once(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    let mut counted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for step in &history.steps {
        if let Some((job, new)) = jobs.written(step) {
            let counted = counted.entry(uid(new)).or_default();
            let wrong = uncounted(job, new, counted)
                .or_else(|| counters(job, new))
                .or_else(|| indexes(job, new));
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S4, step, what)
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

/// What comes into the lists and what leaves them.
fn uncounted<'h>(job: &Job<'h>, new: &'h Value, counted: &mut BTreeSet<&'h str>) -> Option<String> {
    let old = job.last;
    let mut known = BTreeSet::new();
    for list in ["succeeded", "failed"] {
        for uid in of_job::uncounted(new, list) {
            if !known.insert(uid) {
                return Some(format!("{uid} is listed twice"));
            }
            if counted.contains(uid) {
                return Some(format!("{uid} is listed as {list} and was counted before"));
            }
            if of_job::uncounted(old, list).any(|old| old == uid) {
                continue;
            }
            let Some(pod) = job.pods.get(uid) else {
                return Some(format!(
                    "{uid} is listed as {list} and is no pod of the Job"
                ));
            };
            let phases = [pod.ended.map(|(phase, _)| phase), Some(phase(pod.last))];
            let is = |phase| phases.contains(&Some(phase));
            let right = if list == "succeeded" {
                is("Succeeded")
            } else {
                is("Failed") || pod.told.is_some() || is_true(new, "FailureTarget")
            };
            if !right {
                return Some(format!("{} is listed as {list} and has not", pod.key));
            }
        }
        for uid in of_job::uncounted(old, list) {
            if of_job::uncounted(new, list).any(|new| new == uid) {
                continue;
            }
            let pod = job.pods.get(uid).filter(|pod| pod.gone.is_none());
            if let Some(pod) = pod.filter(|pod| of_job::is_tracked(pod.last)) {
                return Some(format!(
                    "{} is counted and still has the finalizer",
                    pod.key
                ));
            }
            counted.insert(uid);
        }
    }
    None
}

fn counters(job: &Job<'_>, new: &Value) -> Option<String> {
    let lists: &[&str] = if of_job::is_indexed(new) {
        &["failed"]
    } else {
        &["succeeded", "failed"]
    };
    lists.iter().find_map(|list| {
        let left = of_job::uncounted(job.last, list);
        let left = left.filter(|uid| of_job::uncounted(new, list).all(|new| new != *uid));
        let (left, grown) = (
            left.count() as i64,
            count(new, list) - count(job.last, list),
        );
        (grown != left).then(|| format!("{list} grew by {grown}, and {left} uids were listed"))
    })
}

fn indexes(job: &Job<'_>, new: &Value) -> Option<String> {
    if !of_job::is_indexed(new) {
        return None;
    }
    let read = |job: &Value, field| leniently(text(job, &["status", field]), i64::MAX);
    let end = of_job::completions(&new["spec"]).unwrap_or(0);
    let completed: Indexes = read(new, "completedIndexes");
    let succeeded = count(new, "succeeded");
    if succeeded != completed.len() as i64 {
        return Some(format!(
            "succeeded is {succeeded} with {} indexes",
            completed.len()
        ));
    }
    for field in ["completedIndexes", "failedIndexes"] {
        let (old, new) = (read(job.last, field), read(new, field));
        let lost = old.difference(&new).find(|index| **index < end);
        if let Some(index) = lost {
            return Some(format!("{field} lost {index}"));
        }
        let without = new.difference(&old).find(|index| {
            let mut pods = job.pods.values();
            !pods.any(|pod| {
                let of_index = of_job::index_of(pod.last) == Some(**index);
                let phases = [pod.ended.map_or("", |(phase, _)| phase), phase(pod.last)];
                let ended = if field == "completedIndexes" {
                    phases.contains(&"Succeeded")
                } else {
                    phases.contains(&"Failed") || pod.told.is_some()
                };
                of_index && ended
            })
        });
        if let Some(index) = without {
            return Some(format!("{field} has {index}, of which no pod has ended so"));
        }
    }
    None
}
