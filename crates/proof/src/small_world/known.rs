//! What the planner is known to do wrong, mended from outside so that the search can go on.
//!
//! Each entry of [`KNOWN`] is a world in which the product's own planner breaks a law; a test
//! expects it to. Whoever repairs the planner deletes the entry with its mend, and the last one
//! this file.

use std::collections::BTreeSet;

use carillon_api::NodeState;
use carillon_api::condition::results;
use carillon_plan::action::{Action, Plan, Step};
use carillon_plan::broadcast_job::{self, Snapshot};
use carillon_plan::node::Nodes;
use carillon_plan::parallelism::Parallelism;
use jiff::Timestamp;

use super::World;
use super::worlds::{DELETION, LOST_NODE, REPLACEMENT, TWO_NODES};

const NONE: u8 = 0;
const PLACE: u8 = 1;
const SECOND: u8 = 2;
const LOST: u8 = 3;
const SEALED: u8 = 4;

/// Worlds in which the product, were all else mended, breaks a law, and the law.
pub const KNOWN: [(World, &str); 4] = [
    // A pod that is recorded but missing in the view takes no place among `parallelism`.
    (
        World {
            planner: mended_but::<PLACE>,
            ..TWO_NODES
        },
        "pods and reservations are never more than parallelism",
    ),
    // A creation that arrives when the pod of its name has come and gone makes a second one,
    // which is neither stopped nor let go: its record names the uid of the first.
    (
        World {
            planner: mended_but::<SECOND>,
            ..DELETION
        },
        "a leader alone brings the job to its end and lets every pod go",
    ),
    // The attempt of a lost node is over while its pod lingers. A view in which that pod is missing
    // takes it to be gone, unasked, and the node gets a second one.
    (
        World {
            planner: mended_but::<LOST>,
            ..LOST_NODE
        },
        "at most one pod that has not ended on each node",
    ),
    // Between the seal and the end a node joins, is replaced or uncordoned, or a leader that knew
    // of fewer nodes has set the seal: a reservation in the sealed slice is planned, which is
    // refused for ever, and the job never ends.
    (
        World {
            planner: mended_but::<SEALED>,
            ..REPLACEMENT
        },
        "a leader alone brings the job to its end and lets every pod go",
    ),
];

/// The product's planner with all that is known mended.
pub fn mended(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    mended_but::<NONE>(leader, snapshot, now)
}

fn mended_but<const LEFT: u8>(_: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut job = snapshot.job.clone();
    if let Parallelism::Count(count) = job.parallelism
        && LEFT != PLACE
    {
        job.parallelism = Parallelism::Count(count.saturating_sub(missing(snapshot) as u32));
    }
    let mut nodes = snapshot.nodes.clone();
    if LEFT != LOST {
        spare_lost(snapshot, &mut nodes);
    }
    if LEFT != SEALED {
        keep_to_the_seal(snapshot, &mut nodes);
    }
    let mut plan = broadcast_job::plan(
        &Snapshot {
            job: &job,
            nodes: &nodes,
            ..*snapshot
        },
        now,
    );
    if LEFT != SECOND {
        remove_seconds(snapshot, &mut plan);
    }
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

/// No further attempt where a lost pod may linger.
fn spare_lost(snapshot: &Snapshot<'_>, nodes: &mut Nodes) {
    for record in snapshot.slices.iter().flat_map(|slice| &slice.records) {
        let asked = record
            .pod_uid
            .is_none_or(|uid| snapshot.gone.contains(&uid));
        let lingers = !asked && !snapshot.pods.contains_key(&record.pod);
        if &*record.reason == results::NODE_LOST
            && lingers
            && let Some(node) = nodes.get_mut(&record.node)
        {
            node.unschedulable = true;
        }
    }
}

/// Once the log is sealed, only nodes that have an outcome.
fn keep_to_the_seal(snapshot: &Snapshot<'_>, nodes: &mut Nodes) {
    if !snapshot.slices.last().is_some_and(|slice| slice.sealed) {
        return;
    }
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let done: BTreeSet<_> = records
        .filter(|record| matches!(record.state, NodeState::Succeeded | NodeState::Failed))
        .map(|record| (record.node.clone(), record.node_uid))
        .collect();
    nodes.retain(|name, node| done.contains(&(name.clone(), node.uid)));
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
