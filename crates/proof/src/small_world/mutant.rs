//! Mistakes, to show that the search would find them: each breaks one rule that the argument for
//! two leaders rests on.

use std::collections::BTreeSet;

use carillon_api::NodeState;
use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::{Action, Plan, Step};
use carillon_plan::record::Record;
use carillon_plan::{Uid, name};
use jiff::Timestamp;

use super::world::{Server, World};
use super::worlds::{
    CORDON, DELETION, FAIL_FAST, LATE_START, REPLACEMENT, TWO_NODES, WITHDRAWN, product,
};

/// The mistakes, each in a world that is large enough for it, with the law it breaks first.
pub const MUTANTS: [(World, &str); 13] = [
    (
        World {
            name: "pod names depend on the leader",
            planner: names_by_leader,
            same_plan: false,
            ..TWO_NODES
        },
        "no pod is created that was not reserved",
    ),
    (
        World {
            name: "slices are written without resourceVersion",
            server: Server {
                slice_version: false,
                ..TWO_NODES.server
            },
            ..TWO_NODES
        },
        "records are only added, and never change once they are final",
    ),
    (
        World {
            name: "pods are created before they are reserved",
            planner: creates_first,
            ..TWO_NODES
        },
        "no pod is created that was not reserved",
    ),
    (
        World {
            name: "pods are deleted without preconditions",
            server: Server {
                delete_preconditions: false,
                ..CORDON.server
            },
            ..CORDON
        },
        "a pod that runs is stopped only when its job is failing or its attempt is over",
    ),
    (
        World {
            name: "pods are released before their outcome is stored",
            planner: releases_first,
            ..TWO_NODES
        },
        "a pod is released only after its outcome is stored",
    ),
    (
        World {
            name: "jobs end without a seal",
            planner: never_seals,
            ..REPLACEMENT
        },
        "nothing is reserved after the seal or the end",
    ),
    (
        World {
            name: "leaders take nodes in different orders",
            planner: orders_by_leader,
            ..TWO_NODES
        },
        "the same view gives the same plan, whoever leads",
    ),
    (
        World {
            name: "the attempt is no part of the pod's name",
            planner: first_attempts_only,
            ..DELETION
        },
        "a pod is released only after its outcome is stored",
    ),
    (
        World {
            name: "status is written without resourceVersion",
            server: Server {
                status_version: false,
                ..FAIL_FAST.server
            },
            ..FAIL_FAST
        },
        "an end is an end",
    ),
    (
        World {
            name: "a pod that is not in the view is taken to be gone",
            planner: never_asks,
            ..TWO_NODES
        },
        "an attempt is over only when its pod has ended or was told to stop",
    ),
    (
        World {
            name: "a pod that has not started is given up before it is told to stop",
            planner: gives_up_at_once,
            ..LATE_START
        },
        "an attempt is over only when its pod has ended or was told to stop",
    ),
    (
        World {
            name: "a promise is taken back as soon as it is not wanted",
            planner: withdraws_at_once,
            ..WITHDRAWN
        },
        "at most once: where a pod was bound there is no further one",
    ),
    (
        World {
            name: "a promise is taken back without asking for its pod",
            planner: withdraws_blindly,
            ..WITHDRAWN
        },
        "at most once: where a pod was bound there is no further one",
    ),
];

/// With every write of a slice checked, in which order leaders take nodes is a matter of taste.
pub const HARMLESS: World = World {
    name: "leaders take nodes in different orders, which nobody forbids",
    planner: orders_by_leader,
    same_plan: false,
    ..TWO_NODES
};

fn names_by_leader(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = product(leader, snapshot, now);
    for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
        if let Action::CreatePod { pod, .. } = action {
            *pod = format!("{pod}-{leader}").into();
        }
    }
    plan
}

fn creates_first(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    put_first(product(leader, snapshot, now), |action| {
        matches!(action, Action::CreatePod { .. })
    })
}

fn releases_first(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    put_first(product(leader, snapshot, now), |action| {
        matches!(action, Action::ReleasePod { .. })
    })
}

fn put_first(mut plan: Plan, which: fn(&Action) -> bool) -> Plan {
    let (first, then): (Vec<Step>, Vec<Step>) = plan
        .steps
        .into_iter()
        .partition(|step| step.actions.iter().all(which));
    plan.steps = first.into_iter().chain(then).collect();
    plan
}

fn never_seals(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = product(leader, snapshot, now);
    for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
        if let Action::WriteSlice(write) = action {
            write.sealed = false;
        }
    }
    plan
}

/// The second leader starts with the last node.
fn orders_by_leader(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut nodes = snapshot.nodes.clone();
    if leader == 1 {
        let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
        let known: BTreeSet<&str> = records.map(|record| &*record.node).collect();
        let last = nodes
            .keys()
            .rev()
            .find(|name| !known.contains(&***name))
            .cloned();
        nodes.retain(|name, _| known.contains(&**name) || Some(name) == last.as_ref());
    }
    let snapshot = Snapshot {
        nodes: &nodes,
        index: None,
        ..*snapshot
    };
    product(leader, &snapshot, now)
}

fn first_attempts_only(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = product(leader, snapshot, now);
    let owner = &snapshot.job.meta.owner;
    let first = |node: &str| name::pod(&owner.name, owner.uid, node, 1);
    for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
        match action {
            Action::CreatePod { pod, node, .. } => *pod = first(node).into(),
            Action::WriteSlice(write) => {
                let new = |record: &&mut Record| record.state == NodeState::Started;
                write.edit(|records| {
                    for record in records.iter_mut().filter(new) {
                        record.pod = first(&record.node).into();
                    }
                });
            }
            _ => {}
        }
    }
    plan
}

fn never_asks(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let gone: BTreeSet<Uid> = records.filter_map(|record| record.pod_uid).collect();
    let snapshot = Snapshot {
        gone: &gone,
        ..*snapshot
    };
    product(leader, &snapshot, now)
}

/// What is only meant is stored as if it had come true.
fn at_once(mut plan: Plan, seen: bool, state: NodeState) -> Plan {
    for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
        let Action::WriteSlice(write) = action else {
            continue;
        };
        write.edit(|records| {
            for record in records {
                let meant = record.state == NodeState::Started && !record.reason.is_empty();
                if meant && seen == record.pod_uid.is_some() {
                    record.state = state;
                }
            }
        });
    }
    plan
}

fn gives_up_at_once(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    at_once(product(leader, snapshot, now), true, NodeState::Failed)
}

fn withdraws_at_once(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    at_once(product(leader, snapshot, now), false, NodeState::Disrupted)
}

fn withdraws_blindly(leader: usize, snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = product(leader, snapshot, now);
    let asks = |action: &Action| matches!(action, Action::ConfirmPod { .. });
    plan.steps.retain(|step| !step.actions.iter().any(asks));
    plan
}
