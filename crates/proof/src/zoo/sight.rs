//! Plans made from something else than what is there.

use std::sync::Arc;

use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{BroadcastJob, Snapshot, plan};
use carillon_plan::node::NodeRow;
use carillon_plan::pod::PodRow;
use carillon_plan::record::Record;
use jiff::Timestamp;

/// The plan for another job.
pub(super) fn of_job(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    change: impl FnOnce(&mut BroadcastJob),
) -> Plan {
    let mut job = snapshot.job.clone();
    change(&mut job);
    plan(
        &Snapshot {
            job: &job,
            index: None,
            ..*snapshot
        },
        now,
    )
}

/// The plan for other pods.
pub(super) fn of_pods(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    mut change: impl FnMut(&str, &mut PodRow),
) -> Plan {
    let mut pods = snapshot.pods.clone();
    for (name, pod) in &mut pods {
        change(name, pod);
    }
    plan(
        &Snapshot {
            pods: &pods,
            index: None,
            ..*snapshot
        },
        now,
    )
}

/// The plan for other nodes.
pub(super) fn of_nodes(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    mut change: impl FnMut(&Arc<str>, &mut NodeRow),
) -> Plan {
    let mut nodes = snapshot.nodes.clone();
    for (name, node) in &mut nodes {
        change(name, node);
    }
    plan(
        &Snapshot {
            nodes: &nodes,
            index: None,
            ..*snapshot
        },
        now,
    )
}

/// The plan after other attempts.
pub(super) fn of_records(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    mut change: impl FnMut(&mut Record),
) -> Plan {
    let mut slices = snapshot.slices.to_vec();
    for record in slices.iter_mut().flat_map(|slice| &mut slice.records) {
        change(record);
    }
    plan(
        &Snapshot {
            slices: &slices,
            index: None,
            ..*snapshot
        },
        now,
    )
}

/// The actions of a plan, to be changed.
pub(super) fn actions(plan: &mut Plan) -> impl Iterator<Item = &mut Action> {
    plan.steps.iter_mut().flat_map(|step| &mut step.actions)
}

/// Takes actions out of a plan.
pub(super) fn leave_out(plan: &mut Plan, mut which: impl FnMut(&Action) -> bool) {
    for step in &mut plan.steps {
        step.actions.retain(|action| !which(action));
    }
    plan.steps.retain(|step| !step.actions.is_empty());
}

/// Puts the steps that have such an action before all others.
pub(super) fn put_first(plan: &mut Plan, which: fn(&Action) -> bool) {
    plan.steps
        .sort_by_key(|step| !step.actions.iter().any(which));
}
