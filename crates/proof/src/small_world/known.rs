//! What the planner is known to do wrong, mended from outside so that the search can go on.
//!
//! Each entry of [`KNOWN`] is a world in which the product's own planner breaks a law; a test
//! expects it to. Whoever repairs the planner deletes the entry with its mend, and the last one
//! this file.

use std::collections::BTreeSet;

use carillon_plan::action::{Action, Plan, Step};
use carillon_plan::broadcast_job::{self, Snapshot};
use carillon_plan::node::Nodes;
use carillon_plan::parallelism::Parallelism;
use jiff::Timestamp;

use super::World;
use super::worlds::{DELETION, REPLACEMENT, TWO_NODES, product};

/// Worlds in which the product breaks a law, and the law.
pub const KNOWN: [(World, &str); 3] = [
    // A pod that is recorded but missing in the view takes no place among `parallelism`.
    (
        World {
            planner: product,
            ..TWO_NODES
        },
        "pods and reservations are never more than parallelism",
    ),
    // A creation that arrives when the pod of its name has come and gone makes a second one,
    // which is neither stopped nor let go: its record names the uid of the first.
    (
        World {
            planner: product,
            ..DELETION
        },
        "a leader alone brings the job to its end and lets every pod go",
    ),
    // A node that joins, or is replaced, between the seal and the end is reserved for in the
    // sealed slice, which is refused for ever: the job never ends.
    (
        World {
            planner: product,
            ..REPLACEMENT
        },
        "a leader alone brings the job to its end and lets every pod go",
    ),
];

/// The product's planner with what is known mended.
pub fn mended(_leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut job = snapshot.job.clone();
    if let Parallelism::Count(count) = job.parallelism {
        job.parallelism = Parallelism::Count(count.saturating_sub(missing(snapshot) as u32));
    }
    let nodes = nodes_to_serve(snapshot);
    let mut plan = broadcast_job::plan(
        &Snapshot {
            job: &job,
            nodes: &nodes,
            ..*snapshot
        },
        now,
    );
    remove_seconds(snapshot, &mut plan);
    plan
}

/// Pods that were seen once, and run as long as nobody has asked.
fn missing(snapshot: &Snapshot<'_>) -> usize {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    records
        .filter(|record| !record.is_final() && !snapshot.pods.contains_key(&record.pod))
        .filter_map(|record| record.pod_uid)
        .filter(|uid| !snapshot.gone.contains(uid))
        .count()
}

/// Once the log is sealed, only nodes that are in it.
fn nodes_to_serve(snapshot: &Snapshot<'_>) -> Nodes {
    let mut nodes = snapshot.nodes.clone();
    if snapshot.slices.last().is_some_and(|slice| slice.sealed) {
        let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
        let known: BTreeSet<_> = records
            .map(|record| (record.node.clone(), record.node_uid))
            .collect();
        nodes.retain(|name, node| known.contains(&(name.clone(), node.uid)));
    }
    nodes
}

/// Stops and lets go pods of a name whose record is final and names another uid.
fn remove_seconds(snapshot: &Snapshot<'_>, plan: &mut Plan) {
    let (mut stops, mut releases) = (Vec::new(), Vec::new());
    for record in snapshot.slices.iter().flat_map(|slice| &slice.records) {
        let Some(pod) = snapshot.pods.get(&record.pod) else {
            continue;
        };
        if !record.is_final() || record.pod_uid.is_none_or(|uid| uid == pod.uid) {
            continue;
        }
        if !pod.phase.has_ended() && pod.deletion.is_none() {
            stops.push(Action::DeletePod {
                pod: record.pod.clone(),
                uid: pod.uid,
                rv: pod.rv,
            });
        }
        if pod.tracked {
            releases.push(Action::ReleasePod {
                pod: record.pod.clone(),
                uid: pod.uid,
            });
        }
    }
    for actions in [stops, releases] {
        if !actions.is_empty() {
            plan.steps.push(Step::wanted(actions));
        }
    }
}
