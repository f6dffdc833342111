//! L1, L2, L4 and L6: when nothing happens any more a Job has ended as it should, or runs what it wants.

use jiff::Timestamp;

use super::indexes::leniently;
use super::object::{self as of_job, completions, count, uncounted};
use super::tracking::wanted;
use super::world::{Job, Jobs};
use crate::failure_policy;
use crate::history::History;
use crate::invariant::Invariant::{self, L1, L2, L4, L6};
use crate::object::{condition, is_terminal, is_true, reason, text, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L1, for a run that is `over`. Every Job that is left, that nobody has deleted, and whose status others
/// have not written:
/// - has `Complete` because enough pods have succeeded (of a work queue: one), or with the reason
///   `SuccessPolicy` and at least one when that was met; or has `Failed` for a reason that is true of its counts, its
///   time or its pods;
/// - or is suspended, says so, and no pod of it runs;
/// - or runs as many pods as it wants, and no more.
pub fn every_job_is_settled(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        settled_by(L1, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L6, for a run that is `over` and had `permanent_faults`: what L1 says.
pub fn every_job_is_settled_under_pressure(
    history: &History,
    assumptions: &Assumptions,
) -> Verdict {
    if assumptions.over && assumptions.permanent_faults {
        settled_by(L6, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L2, for a run that was `healed`: what L1 says is so when the bound is over, counted from the last
/// fault.
pub fn every_job_is_settled_in_time(history: &History, assumptions: &Assumptions) -> Verdict {
    let Some((healed, bound)) = assumptions.healed else {
        return Ok(Checked::all_of(history));
    };
    let due = healed.checked_add(bound).unwrap_or(Timestamp::MAX);
    settled_by(L2, history, assumptions, due)
}

fn settled_by(
    invariant: Invariant,
    history: &History,
    assumptions: &Assumptions,
    until: Timestamp,
) -> Verdict {
    let mut checked = Checked::all_of(history);
    let (jobs, last) = Jobs::at(history, assumptions, until);
    for job in jobs
        .all
        .values()
        .filter(|job| job.is_alive() && !job.edited)
    {
        let wrong = unsettled(job);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", job.key, wrong.unwrap_or_default());
            Violation::in_state(invariant, last, job.key, Some(job.last), what)
        })?;
    }
    Ok(checked)
}

fn unsettled(job: &Job<'_>) -> Option<String> {
    let spec = &job.last["spec"];
    if is_true(job.last, "Failed") {
        return unfounded(job);
    }
    let succeeded = count(job.last, "succeeded");
    if is_true(job.last, "Complete") {
        // More may have been asked for since.
        let versions = job.versions.iter().map(|(_, job)| &job["spec"]);
        let enough = match versions.filter_map(completions).min() {
            Some(all) => succeeded >= all,
            None => succeeded > 0,
        };
        let early = reason(job.last, "Complete") == Some("SuccessPolicy") && met_by_a_success(job);
        return (!enough && !early).then(|| format!("it is Complete with {succeeded} successes"));
    }
    let (live, wanted) = (job.live().count() as i64, wanted(job.last));
    if spec["suspend"] == true {
        let said = is_true(job.last, "Suspended");
        let rests = said && live == 0;
        return (!rests).then(|| format!("it is suspended: {said}, and {live} pods run"));
    }
    // A work queue that had a success starts nothing more.
    let drains = completions(spec).is_none() && succeeded > 0;
    let served = live == wanted || drains && live > 0;
    let idle = wanted == 0 && completions(spec).is_some_and(|all| succeeded < all);
    let right = served && (live > 0 || idle || spec["parallelism"] == 0);
    (!right).then(|| format!("it has not ended, {live} pods run and {wanted} should"))
}

/// Whether something had succeeded when `SuccessCriteriaMet` came: it was counted, or a pod of the Job had
/// ended so and was still to be counted. With fewer completions since, the count may be cut, or never come.
fn met_by_a_success(job: &Job<'_>) -> bool {
    let mut versions = job.versions.iter();
    let Some((met, then)) = versions.find(|(_, job)| is_true(job, "SuccessCriteriaMet")) else {
        return false;
    };
    let to_count = || {
        let mut ends = job.pods.values().filter_map(|pod| pod.ended);
        ends.any(|(phase, at)| phase == "Succeeded" && at <= *met)
    };
    count(then, "succeeded") > 0 || uncounted(then, "succeeded").next().is_some() || to_count()
}

/// Why a failure should not have been. It is judged when `FailureTarget` comes, and stays whatever becomes
/// of the Job until its pods have ended: with fewer completions, `failedIndexes` and pods that are still
/// to be counted are cut.
fn unfounded(job: &Job<'_>) -> Option<String> {
    let failed = condition(job.last, "Failed")?;
    let reason = text(failed, &["reason"]);
    let mut versions = job.versions.iter();
    let first = versions.position(|(_, job)| is_true(job, "FailureTarget"));
    // The Job was different for those who decided than it is now.
    let until = first.map_or(job.versions.len(), |first| first + 1);
    let versions = &job.versions[..until];
    let ((rev, _), then) = versions.last().copied()?;
    let specs = || versions.iter().map(|(_, job)| &job["spec"]);
    let (spec, status) = (&job.last["spec"], &job.last["status"]);
    let indexes = leniently(text(then, &["status", "failedIndexes"]), i64::MAX).len() as i64;
    let true_ = match reason {
        "BackoffLimitExceeded" => {
            let limits = specs().map(|spec| spec["backoffLimit"].as_i64().unwrap_or(6));
            let restarts = spec["template"]["spec"]["restartPolicy"] == "OnFailure";
            let failed = failed_until(job, rev);
            limits.min().is_none_or(|limit| failed > limit) || restarts
        }
        "DeadlineExceeded" => {
            let end = time(failed, &["lastTransitionTime"]);
            // Its time counts from when it was resumed; before that it has all of it.
            let resumed = condition(then, "Suspended").and_then(|suspended| {
                let is_resumed = suspended["status"] != "True";
                let since = time(suspended, &["lastTransitionTime"]);
                if is_resumed { since } else { end }
            });
            let start = time(status, &["startTime"]).max(resumed);
            let seconds = spec["activeDeadlineSeconds"].as_i64().unwrap_or(i64::MAX);
            start
                .zip(end)
                .is_some_and(|(start, end)| end.duration_since(start).as_secs() >= seconds)
        }
        "MaxFailedIndexesExceeded" => {
            let most = specs().filter_map(|spec| spec["maxFailedIndexes"].as_i64());
            most.min().is_some_and(|most| indexes > most)
        }
        "FailedIndexes" => indexes > 0,
        "PodFailurePolicy" => job
            .pods
            .values()
            .any(|pod| failure_policy::action(spec, pod.last, true) == Some("FailJob")),
        _ => false,
    };
    (!true_).then(|| format!("it has failed, and {reason} is not so"))
}

/// Pods that had failed by a revision, or were told to stop, and that no rule ignores.
fn failed_until(job: &Job<'_>, rev: u64) -> i64 {
    let spec = &job.last["spec"];
    let failed = job.pods.values().filter(|pod| {
        let since = match (pod.ended, pod.told) {
            (Some(("Succeeded", ended)), told) => told.filter(|told| *told < ended),
            (ended, told) => ended.map(|(_, since)| since).into_iter().chain(told).min(),
        };
        let counts = since.is_some_and(|since| since.0 <= rev);
        counts && failure_policy::action(spec, pod.last, true) != Some("Ignore")
    });
    failed.count() as i64
}

/// L4, for a run that is `over`. The status of every Job that is left, that nobody has deleted, and whose
/// status others have not written, says what is so:
/// - `active` is the number of its pods that run, `terminating` of those that were told to stop and
///   have not ended, `ready` of those that run and are Ready;
/// - no uid is left to be counted of a pod without the tracking finalizer;
/// - of one that has ended these are none, and without indexes, users and limits each pod that has
///   succeeded is counted.
pub fn status_is_what_happened(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let (jobs, last) = Jobs::at(history, assumptions, Timestamp::MAX);
    for job in jobs
        .all
        .values()
        .filter(|job| job.is_alive() && !job.edited)
    {
        let wrong = miscounted(job);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", job.key, wrong.unwrap_or_default());
            Violation::in_state(L4, last, job.key, Some(job.last), what)
        })?;
    }
    Ok(checked)
}

fn miscounted(job: &Job<'_>) -> Option<String> {
    let present = || job.present().map(|(_, pod)| pod).filter(|pod| pod.ours);
    let live = || present().filter(|pod| of_job::is_live(pod.last));
    let stopping =
        present().filter(|pod| !crate::object::has_ended(pod.last) && !of_job::is_live(pod.last));
    let found = [
        ("active", live().count()),
        (
            "ready",
            live().filter(|pod| is_true(pod.last, "Ready")).count(),
        ),
        ("terminating", stopping.count()),
    ];
    let ended = is_terminal(job.last);
    let wrong = found.iter().find(|(field, found)| {
        let found = if ended { 0 } else { *found };
        count(job.last, field) != found as i64
    });
    if let Some((field, found)) = wrong {
        let said = count(job.last, field);
        return Some(format!("{field} is {said}, and there are {found}"));
    }
    let left = ["succeeded", "failed"]
        .into_iter()
        .flat_map(|list| uncounted(job.last, list))
        .find(|uid| {
            let pod = job.pods.get(uid).filter(|pod| pod.gone.is_none());
            pod.is_none_or(|pod| !of_job::is_tracked(pod.last))
        });
    if let Some(uid) = left {
        return Some(format!("{uid} is still to be counted"));
    }
    lost_success(job)
}

/// A success of a Job without indexes that is in no counter: none but the kubelet ended its pod, before
/// anybody told it to stop, or took the finalizer from it, as from one too many.
fn lost_success(job: &Job<'_>) -> Option<String> {
    if of_job::is_indexed(job.last) || !is_terminal(job.last) {
        return None;
    }
    let listed = job.listed();
    let mut own = job.pods.iter().filter(|(_, pod)| {
        let told = pod.told.into_iter().chain(pod.freed).min();
        let first = told.is_none_or(|told| pod.ended.is_some_and(|(_, at)| at < told));
        let selected = of_job::selects(job.last, pod.last);
        pod.ours && selected && pod.ended.is_some_and(|(phase, _)| phase == "Succeeded") && first
    });
    let lost = own.find(|(uid, _)| !listed.contains(*uid) && !was_scaled(job))?;
    Some(format!("{} has succeeded and is not counted", lost.1.key))
}

/// Whether a pod may have been one too many when it ended.
fn was_scaled(job: &Job<'_>) -> bool {
    let mut specs = job.versions.iter().map(|(_, job)| &job["spec"]);
    let first = specs.next();
    specs.any(|spec| {
        first.is_some_and(|first| {
            spec["parallelism"] != first["parallelism"] || spec["suspend"] != first["suspend"]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::scene::begun;
    use crate::scene::{Scene, breaks, holds, over, strict};
    use serde_json::{Value, json};

    fn one_active(scene: Scene) -> Scene {
        scene.sum_status(|status| status["active"] = json!(1))
    }

    #[test]
    fn a_job_ends_when_enough_have_succeeded() {
        holds(L1, &Scene::summed(), &over());
        let early = Scene::new().sum(json!({})).sum_ran(1).sum_completes();
        breaks(L1, &early, &over(), "it is Complete with 1 successes");
        let open = Scene::new().sum(json!({})).sum_ran(1).sum_ran(2);
        breaks(L1, &open, &over(), "has not ended");
        breaks(L1, &begun(), &over(), "1 pods run and 2 should");
        holds(L1, &begun().sum_starts(2), &over());
        let none = Scene::new().sum(json!({"parallelism": 0}));
        holds(L1, &none, &over());
        let queue = Scene::new()
            .sum(json!({"completions": Value::Null}))
            .sum_ran(1);
        breaks(L1, &queue, &over(), "has not ended");
        holds(L1, &queue.clone().sum_completes(), &over());
        holds(L1, &queue.sum_starts(2), &over());
    }

    #[test]
    fn a_success_policy_was_met_by_a_success_which_fewer_completions_may_cut() {
        let spec = json!({"completionMode": "Indexed", "completions": 3});
        let succeeds = |scene: Scene, number: i64| {
            scene.sum_status(|status| status["succeeded"] = json!(number))
        };
        let met = |scene: Scene| scene.sum_is("SuccessCriteriaMet", "", "SuccessPolicy");
        let ends = |scene: Scene| scene.sum_is("SuccessCriteriaMet", "Complete", "SuccessPolicy");
        let job = || Scene::new().sum(spec.clone());
        let cut = succeeds(met(succeeds(job(), 1)), 0);
        holds(L1, &ends(cut), &over());
        let ended = |phase: &str| job().sum_starts_index(1, 2).sum_phase(1, phase);
        let uncounted = met(ended("Succeeded")).sum_frees(1);
        holds(L1, &ends(uncounted), &over());
        let failed = ends(met(ended("Failed")).sum_frees(1));
        breaks(L1, &failed, &over(), "it is Complete with 0 successes");
        let late = met(job().sum_starts_index(1, 2)).sum_phase(1, "Succeeded");
        breaks(
            L1,
            &ends(late.sum_frees(1)),
            &over(),
            "it is Complete with 0 successes",
        );
        let none = ends(met(job()));
        breaks(L1, &none, &over(), "it is Complete with 0 successes");
    }

    #[test]
    fn a_failure_has_a_reason_that_is_true() {
        let fails = |fields: Value, reason: &str| {
            let job = Scene::new().sum(fields).sum_starts(1);
            let job = job.sum_ended(1, "Failed", "failed").later(60);
            job.sum_is("FailureTarget", "Failed", reason)
        };
        let codes = json!({"operator": "In", "values": [1]});
        let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": codes}]});
        for (fields, reason) in [
            (json!({"backoffLimit": 0}), "BackoffLimitExceeded"),
            (json!({"activeDeadlineSeconds": 30}), "DeadlineExceeded"),
            (json!({"podFailurePolicy": policy}), "PodFailurePolicy"),
        ] {
            holds(L1, &fails(fields, reason), &over());
            let wrong = fails(json!({"activeDeadlineSeconds": 900}), reason);
            breaks(L1, &wrong, &over(), "is not so");
        }
        breaks(L1, &fails(json!({}), "FailedIndexes"), &over(), "is not so");
        breaks(L1, &fails(json!({}), "Whatever"), &over(), "is not so");
    }

    #[test]
    fn a_failure_has_a_reason_that_was_true_when_it_was_told() {
        let told = |scene: Scene, reason| scene.sum_is("FailureTarget", "", reason);
        let fails = |scene: Scene, reason| scene.sum_is("FailureTarget", "Failed", reason);
        let reason = "MaxFailedIndexesExceeded";
        let each = json!({"completionMode": "Indexed", "completions": 3, "maxFailedIndexes": 0});
        let failed = Scene::new()
            .sum(each)
            .sum_starts_index(1, 1)
            .sum_phase(1, "Failed");
        let index = |scene: Scene, indexes: &str| {
            scene.sum_status(|status| status["failedIndexes"] = json!(indexes))
        };
        let shrunk = |scene: Scene| scene.edit_sum(|job| job["spec"]["completions"] = json!(1));
        let in_time = index(shrunk(told(index(failed.clone(), "1"), reason)), "");
        holds(L1, &fails(in_time, reason), &over());
        let early = index(told(failed, reason), "1");
        breaks(L1, &fails(early, reason), &over(), "is not so");
        let reason = "BackoffLimitExceeded";
        let twice = || Scene::new().sum(json!({"backoffLimit": 1})).sum_starts(1);
        let twice = || twice().sum_starts(2).sum_phase(1, "Failed");
        let uncounted = told(twice().sum_phase(2, "Failed"), reason);
        holds(L1, &fails(uncounted, reason), &over());
        let early = told(twice(), reason).sum_phase(2, "Failed");
        breaks(L1, &fails(early, reason), &over(), "is not so");
        let other = told(twice().sum_phase(2, "Succeeded"), reason);
        let other = other.sum_stops("kubectl", 2);
        breaks(L1, &fails(other, reason), &over(), "is not so");
    }

    #[test]
    fn the_time_of_a_job_counts_from_when_it_was_resumed() {
        let reason = "DeadlineExceeded";
        let suspended = |scene: Scene, word: &str, seconds: i64| {
            let scene = scene.later(seconds);
            let now = scene.now().to_string();
            let told = json!([{"type": "Suspended", "status": word, "lastTransitionTime": now}]);
            scene.sum_status(|status| status["conditions"] = told)
        };
        // As it is told first, that stays beside the condition of the suspension.
        let fails = |scene: Scene, seconds: i64| {
            let scene = scene.later(seconds);
            let now = scene.now().to_string();
            let target = json!({"type": "FailureTarget", "status": "True", "reason": reason,
                "lastTransitionTime": now});
            let told = scene.sum_status(|status| {
                let conditions = status["conditions"].as_array_mut();
                conditions.unwrap().push(target);
            });
            told.sum_is("FailureTarget", "Failed", reason)
        };
        let job = || Scene::new().sum(json!({"activeDeadlineSeconds": 30}));
        let resumed = || suspended(suspended(job(), "True", 0), "False", 60);
        // Two steps take a second each.
        holds(L1, &fails(resumed(), 28), &over());
        breaks(L1, &fails(resumed(), 27), &over(), "is not so");
        let still = suspended(job(), "True", 0);
        breaks(L1, &fails(still, 60), &over(), "is not so");
    }

    #[test]
    fn a_suspended_job_rests_and_says_so() {
        let suspend = |scene: Scene| scene.edit_sum(|job| job["spec"]["suspend"] = json!(true));
        let told = |scene: Scene| {
            scene.sum_status(|status| {
                status["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
            })
        };
        let empty = || suspend(Scene::new().sum(json!({})));
        breaks(L1, &empty(), &over(), "it is suspended: false");
        holds(L1, &told(empty()), &over());
        breaks(L1, &told(suspend(begun())), &over(), "1 pods run");
    }

    #[test]
    fn it_is_so_in_time_and_under_pressure() {
        let scene = begun();
        let bound = |seconds| Assumptions {
            healed: Some((scene.now(), jiff::SignedDuration::from_secs(seconds))),
            ..strict()
        };
        let late = scene.clone().later(60).sum_starts(2);
        holds(L2, &late, &bound(90));
        assert!(every_job_is_settled_in_time(&late.history(), &bound(30)).is_err());
        let pressed = Assumptions {
            permanent_faults: true,
            ..over()
        };
        holds(L6, &late, &pressed);
        breaks(L6, &scene, &pressed, "1 pods run and 2 should");
    }

    #[test]
    fn the_last_status_says_what_is_so() {
        holds(L4, &Scene::summed(), &over());
        holds(L4, &one_active(begun()), &over());
        breaks(L4, &begun(), &over(), "active is 0, and there are 1");
        let stopping = begun().sum_stops("kubectl", 1);
        breaks(L4, &stopping, &over(), "terminating is 0");
        let ready = one_active(begun()).edit("kubelet", ("pods", "sum-1"), |pod| {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        });
        breaks(L4, &ready, &over(), "ready is 0");
        let listed = begun().sum_phase(1, "Succeeded").sum_lists(1, "succeeded");
        breaks(L4, &listed.sum_frees(1), &over(), "still to be counted");
        let lost = begun()
            .sum_phase(1, "Succeeded")
            .edit("kubectl", ("pods", "sum-1"), |pod| {
                pod["metadata"]["finalizers"] = json!([]);
            });
        let lost = lost.sum_ran(2).sum_ran(3).sum_completes();
        breaks(L4, &lost, &over(), "sum-1 has succeeded and is not counted");
        let too_many = begun().sum_frees(1).sum_phase(1, "Succeeded");
        let too_many = too_many.sum_ran(2).sum_ran(3).sum_completes();
        holds(L4, &too_many, &over());
    }
}
