//! S6: an end is an end.

use std::collections::HashSet;

use serde_json::Value;

use super::world::{Job, World, record_changes};
use crate::history::{History, Step};
use crate::invariant::Invariant::S6;
use crate::object::{self, JOBS, SLICES, at, list, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S6. For every job:
/// - Complete, Failed and FailureTarget never go from True to something else;
/// - Complete and Failed are never both True;
/// - `startTime` and `completionTime` are written once; `completionTime` is not before `startTime`
///   and is there exactly when the job is Complete or Failed;
/// - `status.retries` only grows, at its end;
/// - the log of reservations is sealed when the job becomes Complete or Failed;
/// - `sealed` never goes back, and once a slice is sealed no record is added to any;
/// - once the job is Complete or Failed no pod of it is created. With `late_requests` the pod of a
///   reservation that was made before may still come.
///
/// A job whose status was edited by others is not judged from there on.
pub fn terminal_is_absorbing(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut edited: HashSet<&str> = HashSet::new();
    for step in &history.steps {
        if let Some((uid, pod)) = world.created_pod(step)
            && let Some(job) = world.jobs.get(uid)
            && !edited.contains(uid)
        {
            let reserved = job.records.contains_key(object::name(pod));
            let may = !object::is_terminal(job.last) || assumptions.late_requests && reserved;
            checked.require(may, || {
                let what = format!(
                    "pod {} was created after the end of {}",
                    object::name(pod),
                    job.key
                );
                Violation::at(S6, step, what)
            })?;
        }
        if let (JOBS, Some(old), Some(new)) = (&*step.key.resource, &step.old, &step.new) {
            if assumptions.others(step) && old["status"] != new["status"] {
                edited.insert(object::uid(new));
            }
            if !edited.contains(object::uid(new)) {
                status_is_absorbing(&mut checked, step, old, new)?;
                let sealed = world.jobs.get(object::uid(new)).is_some_and(Job::is_sealed);
                let ends = object::is_terminal(new) && !object::is_terminal(old);
                checked.require(sealed || !ends, || {
                    let what = format!("{} ended and its log is not sealed", step.key);
                    Violation::at(S6, step, what)
                })?;
            }
        }
        if &*step.key.resource == SLICES && !assumptions.others(step) {
            log_stays_sealed(&mut checked, &world, step)?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn status_is_absorbing(
    checked: &mut Checked,
    step: &Step,
    old: &Value,
    new: &Value,
) -> Result<(), Box<Violation>> {
    let bad = |what: String| Violation::at(S6, step, what);
    for type_ in ["Complete", "Failed", "FailureTarget"] {
        let stays = !object::is_true(old, type_) || object::is_true(new, type_);
        checked.require(stays, || bad(format!("{type_} was True and is no longer")))?;
    }
    let both = object::is_true(new, "Complete") && object::is_true(new, "Failed");
    checked.require(!both, || bad("the job is Complete and Failed".to_owned()))?;
    let retries = |job| list(job, &["status", "retries"]);
    let grows = retries(new).starts_with(retries(old));
    checked.require(grows, || {
        bad(format!(
            "retries were {:?} and are {:?}",
            retries(old),
            retries(new)
        ))
    })?;
    for field in ["startTime", "completionTime"] {
        let of = |job| at(job, &["status", field]).filter(|time| !time.is_null());
        let stays = of(old).is_none_or(|was| of(new) == Some(was));
        checked.require(stays, || {
            bad(format!("{field} was {:?} and is {:?}", of(old), of(new)))
        })?;
    }
    let completed = time(new, &["status", "completionTime"]);
    let started = time(new, &["status", "startTime"]);
    checked.require(completed.is_some() == object::is_terminal(new), || {
        bad(format!(
            "completionTime is {completed:?} and the job has{} ended",
            if object::is_terminal(new) { "" } else { " not" }
        ))
    })?;
    let in_order = completed.is_none_or(|end| started.is_some_and(|start| start <= end));
    checked.require(in_order, || {
        bad(format!(
            "completionTime {completed:?} is before startTime {started:?}"
        ))
    })
}

fn log_stays_sealed(
    checked: &mut Checked,
    world: &World<'_>,
    step: &Step,
) -> Result<(), Box<Violation>> {
    let Some(new) = step.new.as_deref() else {
        return Ok(());
    };
    let bad = |what: String| Violation::at(S6, step, what);
    let unsealed =
        step.old.as_deref().is_some_and(|old| old["sealed"] == true) && new["sealed"] != true;
    checked.require(!unsealed, || {
        bad("sealed was true and is no longer".to_owned())
    })?;
    let job = object::log_of(new).and_then(|uid| world.jobs.get(uid));
    if !job.is_some_and(Job::is_sealed) {
        return Ok(());
    }
    let added = record_changes(step)
        .into_iter()
        .find(|change| change.old.is_none());
    checked.require(added.is_none(), || {
        bad(format!(
            "a record was added after the log was sealed: {}",
            added
                .and_then(|change| change.new)
                .map_or(String::new(), |record| record.0.to_string())
        ))
    })?;
    let grown = list(new, &["results"]).len()
        > step
            .old
            .as_deref()
            .map_or(0, |old| list(old, &["results"]).len());
    checked.require(!grown, || {
        bad("the slice grew after the log was sealed".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::JOBS;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    #[test]
    fn a_job_that_ends_in_order_holds() {
        holds(S6, &Scene::good(), &strict());
    }

    #[test]
    fn an_end_that_is_taken_back_is_found() {
        let back = Scene::good().status(|status| {
            status["conditions"][0]["status"] = json!("False");
            status["completionTime"] = Value::Null;
        });
        breaks(S6, &back, &strict(), "Complete was True");
        let target = Scene::new().node("n1").job(json!({}));
        let target = target.condition("FailureTarget", "True", "MaxFailedNodesExceeded");
        let target = target.condition("FailureTarget", "False", "MaxFailedNodesExceeded");
        breaks(S6, &target, &strict(), "FailureTarget was True");
    }

    #[test]
    fn a_job_does_not_end_in_two_ways() {
        let both = Scene::good().condition("Failed", "True", "MaxFailedNodesExceeded");
        breaks(S6, &both, &strict(), "Complete and Failed");
    }

    #[test]
    fn times_are_written_once_and_in_order() {
        let again = Scene::good().status(|s| s["completionTime"] = json!("2027-01-01T00:00:00Z"));
        breaks(S6, &again, &strict(), "completionTime was");
        let started = Scene::good().status(|s| s["startTime"] = json!("2025-01-01T00:00:00Z"));
        breaks(S6, &started, &strict(), "startTime was");
        let open = || Scene::new().node("n1").job(json!({})).counts(0, 0).seal();
        let before = open().later(60).status(|status| {
            status["completionTime"] = json!("2025-01-01T00:00:00Z");
            status["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        });
        breaks(S6, &before, &strict(), "is before startTime");
        let without = open().condition("Complete", "True", "AllNodesSucceeded");
        breaks(S6, &without, &strict(), "completionTime is None");
        let early = open().status(|s| s["completionTime"] = json!("2027-01-01T00:00:00Z"));
        breaks(S6, &early, &strict(), "has not ended");
    }

    #[test]
    fn a_request_that_is_known_to_be_late_is_not_held_against_us() {
        let late = Scene::good().node("n3").create("n3", 1);
        let known = Assumptions {
            late: std::sync::Arc::new(|step| step.old.is_none()),
            ..strict()
        };
        holds(S6, &late, &known);
    }

    #[test]
    fn nothing_is_started_after_the_end() {
        let late = Scene::good().node("n3").create("n3", 1);
        breaks(S6, &late, &strict(), "created after the end");
        let lenient = Assumptions {
            late_requests: true,
            ..strict()
        };
        breaks(S6, &late, &lenient, "created after the end");
        let given_up = Scene::new()
            .node("n1")
            .job(json!({}))
            .reserve("n1", 1)
            .record("n1", 1, |record| record["state"] = json!("Skipped"))
            .seal()
            .end("Failed", "MaxFailedNodesExceeded", 0, 0)
            .create("n1", 1);
        breaks(S6, &given_up, &strict(), "created after the end");
        holds(S6, &given_up, &lenient);
    }

    #[test]
    fn a_log_is_sealed_before_the_end_and_stays_so() {
        let open = Scene::new().node("n1").job(json!({})).succeed("n1", 1);
        let unsealed = open.clone().end("Complete", "AllNodesSucceeded", 1, 0);
        breaks(S6, &unsealed, &strict(), "its log is not sealed");
        let grown = open.node("n2").seal();
        breaks(
            S6,
            &grown.clone().reserve("n2", 1),
            &strict(),
            "after the log was sealed",
        );
        let opened = grown.slice(|slice| slice["sealed"] = json!(false));
        breaks(S6, &opened, &strict(), "sealed was true");
    }

    #[test]
    fn what_others_edited_is_not_held_against_us() {
        let edited = Scene::good().edit("kubectl", (JOBS, "fix"), |job| {
            job["status"] = json!({});
        });
        holds(S6, &edited.node("n3").create("n3", 1), &strict());
    }
}
