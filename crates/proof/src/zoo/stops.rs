//! Bugs of stopping: pods that are stopped and should not be, and the other way round.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::BTreeSet;

use carillon_plan::broadcast_job::action::{Action, Plan, Step};
use carillon_plan::broadcast_job::{Snapshot, plan};
use jiff::Timestamp;

use super::cases::{at, calm, under};
use super::mutant::Mutant;
use super::sight::{leave_out, of_job, of_nodes, of_pods};
use crate::blow::{Blow, Point};
use crate::disturbance::Disturbance;
use crate::wire::Wire;

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a running pod is stopped when its node is cordoned",
            "kruise D3",
            &["S9"],
            vec![calm("a node is cordoned while its pod runs")],
        )
        .plans::<BroadcastJobs>(cordon_stops),
        Mutant::new(
            "restarts are not looked at",
            "kruise D8",
            &["L1"],
            vec![calm(
                "a crash loop is stopped at its limit and one restart is not",
            )],
        )
        .plans::<BroadcastJobs>(|snapshot, now| of_pods(snapshot, now, |_, pod| pod.restarts = 0)),
        Mutant::new(
            "pods of a job that fails run on",
            "kruise D13",
            &["L1"],
            vec![calm("the deadline passes while a pod hangs")],
        )
        .plans::<BroadcastJobs>(never_stops),
        Mutant::new(
            "one silent node holds up all others",
            "kruise D2, #1446; k/k#63465 class",
            &["L1"],
            vec![calm("a lost node gives up its place to the others")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            of_nodes(snapshot, now, |_, node| node.not_ready_since = None)
        }),
        Mutant::new(
            "a pod that vanished keeps its place",
            "kruise D15",
            &["L1"],
            vec![calm("a running pod is taken out of the store by force")],
        )
        .plans::<BroadcastJobs>(never_gone),
        Mutant::new(
            "lists come from a cache, and a pod that is not in it is gone",
            "k/k#59848; ECK cloud-on-k8s#4956",
            &["S1", "S2", "S9", "S12"],
            vec![under(
                "every node succeeds",
                Disturbance {
                    without_lease: true,
                    restart_at_revision: Some(15),
                    ..at("every node succeeds", 6, Blow::Kill(Point::AfterReply)).disturbance
                },
            )],
        )
        .speaks(Wire {
            cached: Some(|call| call.resource() == "pods"),
            ..Wire::default()
        })
        .plans::<BroadcastJobs>(never_asks),
        Mutant::new(
            "a job that is being deleted is worked on",
            "kruise D31",
            &["S6", "S11", "L3", "L1"],
            vec![calm("the job is deleted in the foreground while it runs")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            of_job(snapshot, now, |job| job.meta.deleting = false)
        }),
    ]
}

fn cordon_stops(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let pods = snapshot.pods.iter();
    let misfits = pods.filter(|(_, pod)| {
        let node = pod.node.as_ref().and_then(|node| snapshot.nodes.get(node));
        pod.deletion.is_none()
            && !pod.phase.has_ended()
            && node.is_some_and(|node| node.unschedulable)
    });
    let stop: Vec<Action> = misfits
        .map(|(name, pod)| Action::DeletePod {
            pod: name.clone(),
            uid: pod.uid,
            rv: pod.rv,
        })
        .collect();
    if !stop.is_empty() {
        plan.steps.push(Step::wanted(stop));
    }
    plan
}

fn never_stops(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    leave_out(&mut plan, |action| {
        matches!(action, Action::DeletePod { .. })
    });
    plan
}

fn never_gone(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let gone = BTreeSet::new();
    let blind = Snapshot {
        gone: &gone,
        ..*snapshot
    };
    plan(&blind, now)
}

fn never_asks(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let gone = records.filter_map(|record| record.pod_uid).collect();
    let sure = Snapshot {
        gone: &gone,
        ..*snapshot
    };
    plan(&sure, now)
}
