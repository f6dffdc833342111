//! S5: no pod is released before it is counted.

use serde_json::Value;

use super::indexes::leniently;
use super::object::{self as of_job, completions, index_of};
use super::world::{Job, Jobs, Pod};
use crate::failure_policy;
use crate::history::{History, Step};
use crate::invariant::Invariant::S5;
use crate::object::{self, PODS, is_terminal, is_true, phase, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S5. Where the tracking finalizer is taken off a pod of a Job (or a pod that has it leaves the store)
/// by a request of ours, or by one that is not known, one of these was so in the state before:
/// - `uncountedTerminatedPods` of the Job has or had its uid;
/// - it has succeeded, and `completedIndexes` or `failedIndexes` have or had its index;
/// - it has an index that is not below `completions`, or none where it should have one;
/// - it has failed, and the first rule of the failure policy that matches says `Ignore`;
/// - it had not ended (in the window of what we may have seen), and it was one too many: the Job was
///   suspended, had `SuccessCriteriaMet`, its index had another pod, or more pods ran than
///   `parallelism` or what was left to do allowed;
/// - the Job has ended, is gone, or somebody has deleted it, or the pod is none of those it selects;
/// - somebody else made it, or the request that made it is known to have been late.
pub fn counted_before_it_goes(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some(pod) = step.old.as_deref()
            && lets_go(step)
            && !assumptions.others(step)
            && let Some(job) = jobs.of_pod(pod)
        {
            let known = job.pods.get(object::uid(pod));
            let free = known.is_none_or(|known| may_go(&jobs, job, known, step));
            checked.require(free, || {
                let (key, uid) = (&step.key, object::uid(pod));
                Violation::at(
                    S5,
                    step,
                    format!("{key} ({uid}) was released before it was counted"),
                )
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

/// Whether a step takes the finalizer off a pod, or a pod that has it out of the store.
fn lets_go(step: &Step) -> bool {
    let tracked =
        |pod: &Option<std::sync::Arc<Value>>| pod.as_deref().is_some_and(of_job::is_tracked);
    &*step.key.resource == PODS && tracked(&step.old) && !tracked(&step.new)
}

fn may_go(jobs: &Jobs<'_>, job: &Job<'_>, known: &Pod<'_>, step: &Step) -> bool {
    let (pod, spec) = (known.last, &job.last["spec"]);
    let selected = of_job::selects(job.last, pod);
    if !known.ours || !selected || !job.is_alive() || is_terminal(job.last) {
        return true;
    }
    if job.listed().contains(object::uid(pod)) {
        return true;
    }
    let index = index_of(pod);
    if of_job::is_indexed(job.last) {
        let out = index.is_none_or(|index| Some(index) >= completions(spec));
        // What was counted may be forgotten when there are fewer completions.
        let versions = || job.versions.iter().map(|(_, job)| job);
        let over = index.is_some_and(|index| {
            ["completedIndexes", "failedIndexes"].iter().any(|field| {
                let lists = versions().map(|job| text(job, &["status", field]));
                lists
                    .filter(|list| !list.is_empty())
                    .any(|list| leniently(list, i64::MAX).contains(&index))
            })
        });
        if out || over && phase(pod) == "Succeeded" {
            return true;
        }
    }
    if phase(pod) == "Failed" && failure_policy::action(spec, pod, true) == Some("Ignore") {
        return true;
    }
    let ran = known
        .ended
        .is_none_or(|(_, since)| jobs.assumptions.may_see(step, since));
    ran && is_one_too_many(jobs, job, known, step)
}

/// Whether there was a reason to remove a pod that runs.
pub(super) fn is_one_too_many(
    jobs: &Jobs<'_>,
    job: &Job<'_>,
    known: &Pod<'_>,
    step: &Step,
) -> bool {
    let index = index_of(known.last);
    let twice = index.is_some() && {
        let mut others = job.pods.values().filter(|pod| pod.key != known.key);
        others.any(|pod| index_of(pod.last) == index && pod.ended.is_none())
    };
    // Those that have just gone, or ended, may be counted in.
    let many = job.pods.values().filter(|pod| {
        let over = [pod.told, pod.gone, pod.ended.map(|(_, since)| since)];
        let mut over = over.into_iter().flatten();
        pod.ours && over.all(|since| jobs.assumptions.may_see(step, since))
    });
    let many = many.count() as i64;
    twice
        || jobs.seen(job, step).any(|seen| {
            let spec = &seen["spec"];
            let out = completions(spec).is_some_and(|end| index.is_some_and(|index| index >= end));
            let most = wanted(seen);
            spec["suspend"] == true || is_true(seen, "SuccessCriteriaMet") || out || many > most
        })
}

/// How many pods a Job wants, by its status.
pub(super) fn wanted(job: &Value) -> i64 {
    let spec = &job["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let left = completions(spec).map_or(i64::MAX, |all| {
        if of_job::is_indexed(job) {
            let done = leniently(text(job, &["status", "completedIndexes"]), all);
            return all - done.len() as i64;
        }
        let uncounted = of_job::uncounted(job, "succeeded").count() as i64;
        all - of_job::count(job, "succeeded") - uncounted
    });
    parallelism.min(left).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn running() -> Scene {
        Scene::new().sum(json!({})).sum_starts(1).sum_starts(2)
    }

    #[test]
    fn a_pod_goes_when_it_is_listed() {
        holds(S5, &Scene::summed(), &strict());
        let ended = || running().sum_phase(1, "Succeeded");
        breaks(
            S5,
            &ended().sum_frees(1),
            &strict(),
            "before it was counted",
        );
        breaks(
            S5,
            &running().sum_frees(1),
            &strict(),
            "before it was counted",
        );
        let gone = ended().remove("carillon", ("pods", "sum-1"));
        breaks(S5, &gone, &strict(), "before it was counted");
        let others = ended().remove("kubectl", ("pods", "sum-1"));
        counted_before_it_goes(&others.history(), &strict()).unwrap();
    }

    #[test]
    fn a_pod_that_is_one_too_many_goes_uncounted() {
        let fewer = || running().edit_sum(|job| job["spec"]["parallelism"] = json!(1));
        holds(S5, &fewer().sum_frees(2), &strict());
        let suspended = running().edit_sum(|job| job["spec"]["suspend"] = json!(true));
        holds(S5, &suspended.sum_frees(1), &strict());
        let met = running().sum_is("SuccessCriteriaMet", "", "SuccessPolicy");
        holds(S5, &met.sum_frees(1), &strict());
        // Both at once are one too many.
        let both = fewer().sum_frees(2).sum_stops("carillon", 2).sum_frees(1);
        breaks(S5, &both, &strict(), "sum-1");
        // It has ended meanwhile, and nobody could know.
        let ended = fewer().sum_phase(2, "Succeeded").sum_frees(2);
        breaks(S5, &ended, &strict(), "before it was counted");
        let lagging = Assumptions {
            lag_revisions: 3,
            ..strict()
        };
        holds(S5, &ended, &lagging);
    }

    #[test]
    fn an_index_is_its_own_count_and_an_ignored_failure_has_none() {
        let fields = json!({"completionMode": "Indexed", "completions": 2});
        let indexed = Scene::new().sum(fields);
        holds(S5, &indexed.clone().sum_ran_index(1, 0, "0"), &strict());
        let early = indexed
            .clone()
            .sum_starts_index(1, 0)
            .sum_phase(1, "Succeeded");
        breaks(S5, &early.sum_frees(1), &strict(), "before it was counted");
        let out = indexed.sum_starts_index(1, 7).sum_phase(1, "Failed");
        holds(S5, &out.sum_frees(1), &strict());
        let codes = json!({"operator": "In", "values": [1]});
        let policy = |action| {
            let rules = json!([{"action": action, "onExitCodes": codes}]);
            let job = Scene::new().sum(json!({"podFailurePolicy": {"rules": rules}}));
            job.sum_starts(1).sum_phase(1, "Failed").sum_frees(1)
        };
        holds(S5, &policy("Ignore"), &strict());
        breaks(S5, &policy("Count"), &strict(), "before it was counted");
    }

    #[test]
    fn nobody_counts_the_pods_of_a_job_that_is_gone() {
        let gone = running().remove_sum("kubectl").sum_frees(1);
        holds(S5, &gone, &strict());
    }
}
