//! S4: each pod is counted exactly once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::indexes::{Indexes, leniently};
use super::object::{self as of_job, count};
use super::world::{Job, Jobs};
use crate::history::History;
use crate::invariant::Invariant::S4;
use crate::object::{is_true, phase, text, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S4. In every write of the status of a Job by us (or by nobody knows whom), unless others have
/// written it before:
/// - a uid that comes into `uncountedTerminatedPods` is that of a pod of the Job, was in none of its
///   lists before, and comes to `succeeded` only of a pod that has succeeded; to `failed` only of
///   one that has failed, that was told to stop, or whose Job fails;
/// - a uid leaves its list only when its pod no longer carries the finalizer, and never comes back;
/// - `failed` grows by as many as leave `failed`, and without indexes `succeeded` by as many as leave
///   `succeeded`;
/// - with indexes `succeeded` is the number of `completedIndexes` (or stays as it was, where the API
///   server does not let it fall); an index comes to these only by a
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
    // The API server lets it fall only while completions and parallelism are the same.
    let spec = &new["spec"];
    let kept = spec["completions"] != spec["parallelism"]
        && succeeded == count(job.last, "succeeded")
        && succeeded > completed.len() as i64;
    if succeeded != completed.len() as i64 && !kept {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::scene::begun;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn ended() -> Scene {
        begun().sum_phase(1, "Succeeded")
    }

    #[test]
    fn a_pod_is_listed_released_and_counted() {
        holds(S4, &Scene::summed(), &strict());
        let told = begun().sum_stops("kubectl", 1).sum_lists(1, "failed");
        holds(S4, &told, &strict());
        let failing = begun().sum_status(|status| {
            status["conditions"] = json!([{"type": "FailureTarget", "status": "True"}]);
            status["uncountedTerminatedPods"]["failed"] = json!(["sum-pod-1"]);
        });
        holds(S4, &failing, &strict());
    }

    #[test]
    fn what_is_listed_has_ended_so_and_was_not_counted() {
        breaks(
            S4,
            &begun().sum_lists(1, "succeeded"),
            &strict(),
            "and has not",
        );
        breaks(
            S4,
            &begun().sum_lists(1, "failed"),
            &strict(),
            "and has not",
        );
        breaks(
            S4,
            &ended().sum_lists(1, "failed"),
            &strict(),
            "and has not",
        );
        breaks(
            S4,
            &begun().sum_lists(9, "failed"),
            &strict(),
            "is no pod of the Job",
        );
        let both = ended().sum_status(|status| {
            let one = json!(["sum-pod-1"]);
            status["uncountedTerminatedPods"] = json!({"succeeded": one, "failed": one});
        });
        breaks(S4, &both, &strict(), "listed twice");
        let again = Scene::new()
            .sum(json!({}))
            .sum_ran(1)
            .sum_lists(1, "succeeded");
        breaks(S4, &again, &strict(), "was counted before");
    }

    #[test]
    fn a_pod_is_counted_once_it_is_released_and_as_one() {
        let listed = || ended().sum_lists(1, "succeeded");
        let held = listed().sum_counts(1, "succeeded");
        breaks(S4, &held, &strict(), "still has the finalizer");
        let freed = || listed().sum_frees(1);
        let forgotten = freed().sum_status(|status| {
            status["uncountedTerminatedPods"] = json!({});
        });
        breaks(S4, &forgotten, &strict(), "grew by 0, and 1 uids");
        let double = freed().sum_status(|status| {
            status["uncountedTerminatedPods"] = json!({});
            status["succeeded"] = json!(2);
        });
        breaks(S4, &double, &strict(), "grew by 2");
        let fallen = Scene::new()
            .sum(json!({}))
            .sum_starts(1)
            .sum_ended(1, "Failed", "failed");
        let fallen = fallen.sum_status(|status| status["failed"] = json!(0));
        breaks(S4, &fallen, &strict(), "failed grew by -1");
    }

    #[test]
    fn an_index_is_counted_by_a_pod_that_has_ended_so() {
        let indexed = || Scene::new().sum(json!({"completionMode": "Indexed", "completions": 3}));
        let ran = indexed()
            .sum_ran_index(1, 0, "0")
            .sum_ran_index(2, 2, "0,2");
        holds(S4, &ran, &strict());
        let early = indexed().sum_starts_index(1, 0).sum_status(|status| {
            status["completedIndexes"] = json!("0");
            status["succeeded"] = json!(1);
        });
        breaks(S4, &early, &strict(), "of which no pod has ended so");
        let failed = indexed().sum_ran_index(1, 0, "0").sum_status(|status| {
            status["failedIndexes"] = json!("1");
        });
        breaks(S4, &failed, &strict(), "failedIndexes has 1");
        let lost = ran.clone().sum_status(|status| {
            status["completedIndexes"] = json!("0");
            status["succeeded"] = json!(1);
        });
        breaks(S4, &lost, &strict(), "completedIndexes lost 2");
        let other = ran
            .clone()
            .sum_status(|status| status["succeeded"] = json!(3));
        breaks(S4, &other, &strict(), "succeeded is 3 with 2 indexes");
        let shrunk = ran.edit_sum(|job| job["spec"]["completions"] = json!(1));
        let kept = shrunk.sum_status(|status| status["completedIndexes"] = json!("0"));
        holds(S4, &kept, &strict());
    }

    #[test]
    fn a_status_that_others_have_written_is_not_judged() {
        let edited = begun().edit_sum(|job| job["status"]["failed"] = json!(7));
        let judged = edited.sum_status(|status| status["failed"] = json!(0));
        counted_exactly_once(&judged.history(), &strict()).unwrap();
    }
}
