//! S12: what a Job may cost, and that it waits after a failure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{self as of_job, JOBS, index_of};
use super::world::{Job, Jobs};
use crate::history::{History, Step};
use crate::invariant::Invariant::S12;
use crate::object::{self, PODS, at, list, text, time};
use crate::requests::Requests;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// How long a Job waits after its first failure, at the least.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(10);
const FAILURES: [&str; 2] = [
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/job-index-ignored-failure-count",
];

/// S12. For every Job:
/// - a pod of it is written at most `writes_per_pod` times by us;
/// - our writes of it and of its pods are at most a base, plus so many for each of its pods, and for
///   each change of it or of a pod by others: `writes_per_job`;
/// - an instance that has written of a failed pod creates none sooner than 10 s after that has ended,
///   doubled for each further failure since the last success up to 10 minutes;
/// - with a limit for each index this is so of each index, whoever creates: its pod says how often the
///   index has failed before.
pub fn bounded_cost(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    let mut writes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut of_pods = Requests::default();
    let mut told: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for step in &history.steps {
        if let Some((job, pod)) = jobs.created(step) {
            let hasty = too_soon(job, pod, &told, assumptions, step);
            checked.require(hasty.is_none(), || {
                Violation::at(S12, step, hasty.unwrap_or_default())
            })?;
        }
        if let (Some((job, new)), Some(by)) = (jobs.written(step), step.by.as_deref()) {
            let uids = of_job::uncounted(new, "failed");
            let uids =
                uids.filter(|uid| of_job::uncounted(job.last, "failed").all(|old| old != *uid));
            told.entry((object::uid(new), &*by.agent))
                .or_default()
                .extend(uids);
        }
        jobs.apply(step);
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            continue;
        };
        if !assumptions.ours(step) {
            continue;
        }
        let job = match &*step.key.resource {
            JOBS if super::ownership::is_judged_here(step, assumptions) => {
                jobs.all.get(object::uid(object))
            }
            PODS => jobs.of_pod(object),
            _ => None,
        };
        let Some(job) = job else { continue };
        if &*step.key.resource == PODS {
            let writes = of_pods.count(object::uid(object), step);
            checked.require(writes <= assumptions.writes_per_pod, || {
                let what = format!("{} was written {writes} times", step.key);
                Violation::at(S12, step, what)
            })?;
        }
        let writes = writes.entry(object::uid(job.last)).or_default();
        *writes += 1;
        let (base, each) = assumptions.writes_per_job;
        let (pods, provoked) = (job.pods.len() as u64, job.provoked);
        let most = base + each * (pods + provoked);
        checked.require(*writes <= most, || {
            let what = format!(
                "{writes} writes for {} with {pods} pods, after {provoked} changes by others; {most} are allowed",
                job.key
            );
            Violation::at(S12, step, what)
        })?;
    }
    Ok(checked)
}

fn too_soon(
    job: &Job<'_>,
    pod: &Value,
    told: &BTreeMap<(&str, &str), Vec<&str>>,
    assumptions: &Assumptions,
    step: &Step,
) -> Option<String> {
    let (last, failures) = if at(job.last, &["spec", "backoffLimitPerIndex"]).is_some() {
        let annotations = &pod["metadata"]["annotations"];
        let counts = FAILURES
            .iter()
            .map(|key| text(annotations, &[key]).parse::<u32>());
        let failures = counts.filter_map(Result::ok).sum();
        let of_index = job
            .pods
            .values()
            .filter(|other| index_of(other.last) == index_of(pod) && object::has_ended(other.last));
        // The one it replaces, which is not the last where a user has interfered.
        (
            of_index.filter_map(|other| end_of(other.last)).min(),
            failures,
        )
    } else {
        let by = step.by.as_deref()?;
        let known = told.get(&(object::uid(job.last), &*by.agent))?;
        let ends = |phase: &'static str| {
            let pods = job.pods.iter();
            let pods = pods.filter(move |(_, pod)| object::phase(pod.last) == phase);
            pods.filter_map(|(uid, pod)| Some((*uid, end_of(pod.last)?)))
        };
        let success = ends("Succeeded").map(|(_, end)| end).max();
        let failed = ends("Failed").filter(|(uid, _)| known.contains(uid));
        let failed: Vec<Timestamp> = failed
            .map(|(_, end)| end)
            .filter(|end| success.is_none_or(|success| *end > success))
            .collect();
        (failed.iter().max().copied(), failed.len() as u32)
    };
    let last = last.filter(|_| failures > 0)?;
    let doubled = FIRST_WAIT.checked_mul(1 << (failures - 1).min(10));
    let wait = doubled.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
    let due = last + wait - assumptions.clock_skew;
    (step.at < due).then(|| {
        format!(
            "{} was created {:#} after the last of {failures} failures, {wait:#} are to be waited",
            step.key,
            step.at.duration_since(last)
        )
    })
}

/// When the last container of a pod ended.
fn end_of(pod: &Value) -> Option<Timestamp> {
    let statuses = list(pod, &["status", "containerStatuses"]).iter();
    let ends = statuses.filter_map(|status| time(status, &["state", "terminated", "finishedAt"]));
    ends.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn failed(scene: Scene, n: i64) -> Scene {
        scene.sum_starts(n).sum_ended(n, "Failed", "failed")
    }

    #[test]
    fn writes_are_bounded() {
        let tight = Assumptions {
            writes_per_pod: 2,
            writes_per_job: (0, 8),
            ..strict()
        };
        let ran = || Scene::new().sum(json!({})).sum_ran(1);
        holds(S12, &ran(), &tight);
        let storm = (0..30).fold(ran(), |scene, n| scene.sum_status(|s| s["n"] = json!(n)));
        assert!(bounded_cost(&storm.history(), &tight).is_err());
        let again = ran().sum_stops("carillon", 1);
        breaks(S12, &again, &tight, "was written 3 times");
    }

    #[test]
    fn a_failure_is_waited_for_by_who_has_counted_it() {
        let once = || failed(Scene::new().sum(json!({"completions": 9})), 1);
        breaks(
            S12,
            &once().sum_starts(2),
            &strict(),
            "10s are to be waited",
        );
        holds(S12, &once().later(10).sum_starts(2), &strict());
        let twice = || failed(once().later(10), 2);
        breaks(
            S12,
            &twice().later(10).sum_starts(3),
            &strict(),
            "20s are to be waited",
        );
        holds(S12, &twice().later(20).sum_starts(3), &strict());
        // Whoever comes new does not know it.
        holds(
            S12,
            &once().by("carillon-other", "create").sum_starts(2),
            &strict(),
        );
        let success = Scene::new().sum(json!({"completions": 9})).sum_starts(2);
        let success = failed(success, 1).sum_phase(2, "Succeeded");
        holds(S12, &success.sum_starts(3), &strict());
    }

    #[test]
    fn with_limits_by_index_each_waits_for_its_own() {
        let fields = json!({"completionMode": "Indexed", "backoffLimitPerIndex": 3});
        let first = Scene::new().sum(fields).sum_starts_index(1, 0);
        let first = || first.clone().sum_phase(1, "Failed");
        let next = |scene: Scene| {
            let mut pod = scene.sum_pod(2, Some(0));
            pod["metadata"]["annotations"][FAILURES[0]] = json!("1");
            scene.make_sum_pod(pod)
        };
        breaks(S12, &next(first()), &strict(), "10s are to be waited");
        holds(S12, &next(first().later(10)), &strict());
    }
}
