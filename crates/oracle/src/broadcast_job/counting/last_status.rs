//! L4: the last status says what happened.

use std::collections::{BTreeSet, HashMap};

use super::{Outcomes, Tally};
use crate::broadcast_job::desired::Desired;
use crate::broadcast_job::standing::{self, Standing, standings};
use crate::broadcast_job::world::World;
use crate::history::History;
use crate::invariant::Invariant::L4;
use crate::object::{self, PODS, Record, number, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L4, for a run that is `over`. The last status of each job that is left, and that nobody has
/// deleted, is what a recount gives:
/// - `succeeded`, `failed`, `retrying`, `disrupted` and `acknowledgedFailedNodes` are what the records add
///   up to: a node has failed when it is not tried again, and its failure is acknowledged when its
///   record says so;
/// - `succeeded` is not less than the nodes on which a pod succeeded of its own accord, as the
///   records assign pods to nodes;
/// - `active` is the number of its pods that are recorded as Started and have not ended;
/// - `observedGeneration` is the generation;
/// - while the job is open and not Stalled: `desired` is the number of nodes that have a record (and
///   are not both interrupted and gone) or are eligible.
pub fn status_is_what_happened(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let mut world = World::new(assumptions);
    let mut pods = Outcomes::default();
    let mut desired: HashMap<&str, Desired<'_>> = HashMap::new();
    for step in &history.steps {
        world.apply(step);
        if &*step.key.resource == PODS {
            pods.remember(step);
        }
        for uid in world.concerned(step) {
            desired.entry(uid).or_default().follow(&world, uid, step);
        }
    }
    for (uid, job) in world.jobs.iter().filter(|(_, job)| job.is_alive()) {
        let tally = Tally::of(job);
        let by_themselves = pods.by_themselves.get(uid).into_iter().flatten();
        let nodes: BTreeSet<_> = by_themselves
            .filter_map(|(name, pod)| job.records.get(name).filter(|r| pod.is_of(**r)))
            .map(|record| (record.node(), record.node_uid()))
            .collect();
        let active = job.records.values().filter(|record| {
            let pod = job.pods.get(record.pod());
            !record.is_final() && pod.is_some_and(|pod| !object::has_ended(pod))
        });
        let failing = object::is_terminal(job.last) || object::is_true(job.last, "FailureTarget");
        let once = text(job.last, &["spec", "executionPolicy"]) == "AtMostOnce";
        let stand = standings(&world, job);
        let failed = stand.iter().filter(|(.., s)| *s == Standing::Failed);
        let again = stand.iter().filter(|(_, tried, s)| {
            let ran = tried.ran.map(Record::state);
            *s == Standing::Again && (ran == Some("Failed") || once && ran.is_some())
        });
        let (failed, again) = (failed.count() as i64, again.count() as i64);
        // Who fails tries nothing again.
        let (failed, retrying) = if failing {
            (failed + again, 0)
        } else {
            (failed, again)
        };
        let mut expected = vec![
            ("succeeded", tally.succeeded),
            ("disrupted", tally.interrupted),
            ("active", active.count() as i64),
            (
                "observedGeneration",
                number(job.last, &["metadata", "generation"]),
            ),
        ];
        // What an edit after its end means for a node, a job that has ended does not say.
        if !object::is_terminal(job.last) {
            let accepted = standing::accepted(&stand) as i64;
            expected.extend([
                ("failed", failed),
                ("retrying", retrying),
                ("acknowledgedFailedNodes", accepted),
            ]);
        }
        // One that is only paused by its failures still counts.
        let stalled =
            object::reason(job.last, "Stalled").is_some_and(|why| why != "PausedByFailure");
        if !object::is_terminal(job.last) && !stalled {
            let count = desired.get(uid).map_or(0, Desired::count);
            expected.push(("desired", count as i64));
        }
        let bad = |what: String| {
            Violation::in_state(L4, history.steps.last(), job.key, Some(job.last), what)
        };
        for (field, count) in expected {
            let says = number(job.last, &["status", field]);
            checked.require(says == count, || {
                bad(format!(
                    "{field} of {} is {says} and should be {count}",
                    job.key
                ))
            })?;
        }
        let counted = number(job.last, &["status", "succeeded"]);
        checked.require(nodes.len() as i64 <= counted, || {
            bad(format!(
                "pods succeeded on {nodes:?}, and {} says {counted}",
                job.key
            ))
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::broadcast_job::counting::tests::{ran, succeeded};
    use crate::scene::{Scene, breaks, holds, strict};

    #[test]
    fn the_last_status_is_what_a_recount_gives() {
        let over = Assumptions {
            over: true,
            ..strict()
        };
        let good = || Scene::good().status(|status| status["observedGeneration"] = json!(1));
        holds(L4, &good(), &over);
        for field in ["succeeded", "disrupted", "active", "observedGeneration"] {
            let wrong = good().status(|status| status[field] = json!(7));
            breaks(L4, &wrong, &over, &format!("{field} of"));
        }
        let open = |desired| {
            let scene = Scene::new()
                .node("n1")
                .node("n2")
                .cordon("n2", true)
                .job(json!({}));
            scene.succeed("n1", 1).counts(1, 0).status(|status| {
                status["desired"] = json!(desired);
                status["observedGeneration"] = json!(1);
            })
        };
        holds(L4, &open(1), &over);
        breaks(L4, &open(2), &over, "desired of");
        let forgotten = succeeded().record("n1", 1, |record| record["state"] = json!("Disrupted"));
        let forgotten = forgotten.status(|status| {
            *status = json!({"observedGeneration": 1, "disrupted": 1, "desired": 2});
        });
        breaks(L4, &forgotten, &over, "pods succeeded on");
    }

    #[test]
    fn a_node_has_failed_when_it_is_not_tried_again_and_is_acknowledged_when_its_record_says_so() {
        let over = Assumptions {
            over: true,
            ..strict()
        };
        let once = |failed| {
            let scene = ran("Running", json!({"executionPolicy": "AtMostOnce"})).bind("n1", 1);
            let scene =
                scene
                    .delete_pod("kubectl", "n1", 1)
                    .ended("n1", 1, "Disrupted", "PodDeleted");
            scene.status(|status| {
                *status = json!({"observedGeneration": 1, "disrupted": 1, "desired": 2, "failed": failed});
            })
        };
        holds(L4, &once(1), &over);
        breaks(L4, &once(0), &over, "failed of");
        let retrying = |failed, retrying| {
            let scene = ran("Failed", json!({"backoffLimitPerNode": 1}));
            scene.ended("n1", 1, "Failed", "X").status(|status| {
                *status = json!({"observedGeneration": 1, "desired": 2, "failed": failed, "retrying": retrying});
            })
        };
        holds(L4, &retrying(0, 1), &over);
        breaks(L4, &retrying(1, 0), &over, "failed of");
        breaks(L4, &retrying(0, 0), &over, "retrying of");
        let accepted = |count| {
            let scene = ran("Failed", json!({})).ended("n1", 1, "Failed", "X");
            let scene = scene.record("n1", 1, |record| record["accepted"] = json!(true));
            scene.status(|status| {
                *status = json!({"observedGeneration": 1, "desired": 2, "failed": 1,
                    "acknowledgedFailedNodes": count});
            })
        };
        holds(L4, &accepted(1), &over);
        breaks(L4, &accepted(0), &over, "acknowledgedFailedNodes of");
    }
}
