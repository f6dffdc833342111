//! S1 and S2: an index runs once at a time and not again, and a name is used once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::indexes::leniently;
use super::object::{self as of_job, index_of};
use super::world::{Job, Jobs};
use crate::history::History;
use crate::invariant::Invariant::{S1, S2};
use crate::object::{has_ended, name, text, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S1. Where a pod with an index is created for a Job (by us, or by nobody knows whom), no other pod of
/// this index runs: none that has not ended and was not told to stop; where pods are replaced only when
/// they have ended, none that has not ended. Pods that others made, or that came late, do not count.
pub fn one_pod_per_index(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some((job, pod)) = jobs.created(step)
            && let Some(index) = index_of(pod).filter(|_| of_job::is_indexed(job.last))
        {
            let other = other_of_index(job, index);
            checked.require(other.is_none(), || {
                let other = other.unwrap_or_default();
                Violation::at(S1, step, format!("index {index} runs already: {other}"))
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

fn other_of_index(job: &Job<'_>, index: i64) -> Option<String> {
    let only_failed = of_job::replaces_only_failed(&job.last["spec"]);
    let runs = |pod: &Value| {
        if only_failed {
            !has_ended(pod)
        } else {
            of_job::is_live(pod)
        }
    };
    let mut present = job.present().map(|(_, pod)| pod);
    let other = present.find(|pod| pod.ours && index_of(pod.last) == Some(index) && runs(pod.last));
    other.map(|pod| pod.key.to_string())
}

/// S2. Where a pod is created for a Job (by us, or by nobody knows whom):
/// - no pod of its name was ever listed in `uncountedTerminatedPods` of the Job;
/// - its index is in neither `completedIndexes` nor `failedIndexes` in the state before.
pub fn a_name_and_an_index_once(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    // Names of the pods that were counted, by uid of the Job.
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for step in &history.steps {
        if let Some((job, pod)) = jobs.created(step) {
            let names = used.get(uid(job.last));
            let again = names.is_some_and(|names| names.contains(name(pod)));
            checked.require(!again, || {
                let what = format!("{} had the name of a pod that was counted", step.key);
                Violation::at(S2, step, what)
            })?;
            let done = index_of(pod).and_then(|index| {
                let mut fields = ["completedIndexes", "failedIndexes"].into_iter();
                let has = |field: &&str| {
                    leniently(text(job.last, &["status", field]), i64::MAX).contains(&index)
                };
                Some((index, fields.find(has)?))
            });
            checked.require(done.is_none(), || {
                let (index, field) = done.unwrap_or_default();
                Violation::at(S2, step, format!("index {index} is in {field}"))
            })?;
        }
        jobs.apply(step);
        note_names(&jobs, step, &mut used);
    }
    Ok(checked)
}

/// The names of pods that a status has just listed.
fn note_names<'h>(
    jobs: &Jobs<'h>,
    step: &'h crate::history::Step,
    used: &mut BTreeMap<&'h str, BTreeSet<&'h str>>,
) {
    let Some(object) = step.new.as_deref() else {
        return;
    };
    if let Some(job) = jobs.all.get(uid(object)) {
        let lists = ["succeeded", "failed"];
        let uids = lists
            .iter()
            .flat_map(|list| of_job::uncounted(object, list));
        let pods = uids.filter_map(|uid| job.pods.get(uid));
        used.entry(uid(object))
            .or_default()
            .extend(pods.map(|pod| &*pod.key.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn indexed(fields: &Value) -> Scene {
        let mut all = json!({"completionMode": "Indexed", "completions": 3});
        for (key, value) in fields.as_object().unwrap() {
            all[key] = value.clone();
        }
        Scene::new().sum(all)
    }

    #[test]
    fn an_index_runs_once_at_a_time() {
        let first = || indexed(&json!({})).sum_starts_index(1, 0);
        holds(S1, &first().sum_starts_index(2, 1), &strict());
        breaks(
            S1,
            &first().sum_starts_index(2, 0),
            &strict(),
            "index 0 runs already",
        );
        let told = || first().sum_stops("kubectl", 1);
        holds(S1, &told().sum_starts_index(2, 0), &strict());
        let waits = indexed(&json!({"podReplacementPolicy": "Failed"}));
        let waits = waits.sum_starts_index(1, 0).sum_stops("kubectl", 1);
        let early = waits.clone().sum_starts_index(2, 0);
        breaks(S1, &early, &strict(), "index 0 runs already");
        holds(
            S1,
            &waits.sum_phase(1, "Failed").sum_starts_index(2, 0),
            &strict(),
        );
    }

    #[test]
    fn an_index_that_is_done_runs_no_more() {
        let done = || indexed(&json!({})).sum_ran_index(1, 0, "0");
        holds(S2, &done().sum_starts_index(2, 1), &strict());
        breaks(
            S2,
            &done().sum_starts_index(2, 0),
            &strict(),
            "is in completedIndexes",
        );
        let failed = done().sum_status(|status| status["failedIndexes"] = json!("1"));
        breaks(
            S2,
            &failed.sum_starts_index(2, 1),
            &strict(),
            "is in failedIndexes",
        );
    }

    #[test]
    fn a_pod_that_is_counted_leaves_its_name_to_nobody() {
        let ran = || {
            Scene::new()
                .sum(json!({}))
                .sum_ran(1)
                .remove("kubectl", ("pods", "sum-1"))
        };
        holds(S2, &ran().sum_starts(2), &strict());
        let again = ran();
        let mut pod = again.sum_pod(2, None);
        pod["metadata"]["name"] = json!("sum-1");
        breaks(S2, &again.make_sum_pod(pod), &strict(), "that was counted");
        let removed = Scene::new().sum(json!({})).sum_starts(1);
        let removed = removed.remove("kubectl", ("pods", "sum-1"));
        holds(S2, &removed.sum_starts(1), &strict());
    }
}
