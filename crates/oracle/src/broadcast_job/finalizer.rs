//! S5: no outcome is lost with its pod.

use super::world::{Job, World};
use crate::history::History;
use crate::invariant::Invariant::S5;
use crate::object;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S5. Where our finalizer is taken off a pod (or a pod that has it leaves the store) by a request
/// of ours, or by one that is not known, one of these was so in the state before:
/// - a final record of the job names the pod and its uid;
/// - a final record names the pod and no uid: the attempt was given up, and the pod came late; or
///   another uid, and the request that made the pod is known to have been late;
/// - no record names the pod and the log is sealed: it came after the end;
/// - the job is gone, or somebody has deleted it.
///
/// And as long as the job is there, the pod has ended or was told to stop: it would run on, and nobody
/// would try again to stop it.
pub fn nothing_is_lost(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        if let Some(pod) = step.old.as_deref()
            && object::loses_finalizer(step)
            && !assumptions.others(step)
        {
            let job = world.job_of(pod).and_then(|uid| world.jobs.get(uid));
            let job = job.filter(|job| job.is_alive());
            let record = job.and_then(|job| job.records.get(object::name(pod)));
            let stored = match (job, record) {
                (None, _) => true,
                (Some(_), Some(record)) => {
                    let uid = record.pod_uid();
                    let named = uid.is_empty() || uid == object::uid(pod);
                    record.is_final() && (named || world.came_late(pod))
                }
                (Some(job), None) => Job::is_sealed(job),
            };
            checked.require(stored, || {
                let record =
                    record.map_or_else(|| "none".to_owned(), |record| record.0.to_string());
                let what = format!(
                    "pod {} ({}) was released before its outcome was stored; its record: {record}",
                    object::name(pod),
                    object::uid(pod),
                );
                Violation::at(S5, step, what)
            })?;
            let over = object::has_ended(pod) || object::is_deleting(pod);
            checked.require(over || job.is_none() || step.new.is_none(), || {
                let (name, uid) = (object::name(pod), object::uid(pod));
                let what =
                    format!("pod {name} ({uid}) was released, and nobody has told it to stop");
                Violation::at(S5, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{JOBS, PODS};
    use crate::scene::{Scene, breaks, holds, pod_name};
    use serde_json::json;

    fn ended() -> Scene {
        let scene = Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        scene.create("n1", 1).phase("n1", 1, "Succeeded")
    }

    #[test]
    fn a_pod_whose_outcome_is_stored_may_go() {
        holds(S5, &Scene::good(), &Assumptions::default());
    }

    #[test]
    fn a_pod_may_not_go_before() {
        let strict = Assumptions::default();
        breaks(
            S5,
            &ended().release("n1", 1),
            &strict,
            "before its outcome was stored",
        );
        breaks(
            S5,
            &ended().release("n1", 1).nobody(),
            &strict,
            "was released",
        );
        let gone = ended().delete_pod("kubectl", "n1", 1).release("n1", 1);
        breaks(S5, &gone, &strict, "was released");
        let seen = ended().record("n1", 1, |r| r["podUID"] = json!("pod-n1-1"));
        breaks(S5, &seen.release("n1", 1), &strict, "was released");
    }

    #[test]
    fn the_record_of_another_pod_of_that_name_is_not_enough() {
        let other = ended().ended("n1", 1, "Succeeded", "");
        let other = other.record("n1", 1, |record| record["podUID"] = json!("another"));
        breaks(
            S5,
            &other.release("n1", 1),
            &Assumptions::default(),
            "was released",
        );
    }

    #[test]
    fn a_pod_that_came_late_may_go() {
        let given_up = ended().record("n1", 1, |record| record["state"] = json!("Skipped"));
        holds(S5, &given_up.release("n1", 1), &Assumptions::default());
        let stray = Scene::new().node("n1").job(json!({})).create("n1", 1);
        breaks(
            S5,
            &stray.clone().release("n1", 1),
            &Assumptions::default(),
            "was released",
        );
        let after_the_end = stray.seal();
        breaks(
            S5,
            &after_the_end.clone().release("n1", 1),
            &Assumptions::default(),
            "nobody has told it to stop",
        );
        let stopped = after_the_end.delete_pod("carillon", "n1", 1);
        holds(S5, &stopped.release("n1", 1), &Assumptions::default());
    }

    #[test]
    fn a_deleted_job_keeps_no_pod_and_others_may_do_what_they_want() {
        let gone = ended().remove("kubectl", (JOBS, "fix")).release("n1", 1);
        holds(S5, &gone, &Assumptions::default());
        let deleting = ended().edit("kubectl", (JOBS, "fix"), |job| {
            job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        holds(S5, &deleting.release("n1", 1), &Assumptions::default());
        let name = pod_name("n1", 1);
        let stripped = ended().edit("kubectl", (PODS, &name), |pod| {
            pod["metadata"]["finalizers"] = json!([]);
        });
        let verdict = nothing_is_lost(&stripped.history(), &Assumptions::default());
        assert_eq!(verdict.unwrap().evaluations, 0);
    }
}
