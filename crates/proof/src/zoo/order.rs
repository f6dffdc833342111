//! Bugs of order: what must be stored before what is done.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use carillon_plan::broadcast_job::action::{Action, Plan, Step};
use carillon_plan::broadcast_job::{Snapshot, plan};
use jiff::Timestamp;

use super::cases::{at, calm};
use super::mutant::Mutant;
use super::sight::{actions, leave_out, put_first};
use crate::blow::{Blow, Point};

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "pods are created before they are reserved",
            "k/k#130683, #120790; Sieve: no write-ahead intent",
            &["S2", "S3"],
            vec![at("every node succeeds", 3, Blow::Kill(Point::AfterReply))],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            first(snapshot, now, |a| matches!(a, Action::CreatePod { .. }))
        }),
        Mutant::new(
            "pods are released before their outcome is stored",
            "KEP-2307: finalizer removed before uncounted is stored",
            &["S5"],
            vec![calm("every node succeeds")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            first(snapshot, now, |a| matches!(a, Action::ReleasePod { .. }))
        }),
        Mutant::new(
            "counters move before the records are stored",
            "k/k#130103",
            &["S4"],
            vec![calm("every node succeeds")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            first(snapshot, now, |a| matches!(a, Action::WriteStatus(_)))
        }),
        Mutant::new(
            "pods are stopped before the decision to fail is stored",
            "batch/v1 Job before FailureTarget; kruise D13",
            &["S9"],
            vec![calm("the deadline passes while a pod hangs")],
        )
        .plans::<BroadcastJobs>(stops_at_once),
        Mutant::new(
            "a reservation is taken for a pod that was started",
            "Sieve: rabbitmq cluster-operator#782",
            &["L1"],
            vec![at("every node succeeds", 3, Blow::Kill(Point::BeforeSend))],
        )
        .plans::<BroadcastJobs>(never_keeps_promises),
        Mutant::new(
            "pods are released only by the plan that records their outcome",
            "Sieve: cassandra-operator#398",
            &["L1", "L7"],
            vec![at("every node succeeds", 7, Blow::Kill(Point::AfterReply))],
        )
        .plans::<BroadcastJobs>(releases_once),
        Mutant::new(
            "a job ends without a seal",
            "k/k#59848 class: a stale leader after the end",
            &["S6", "S4"],
            vec![calm(
                "a node joins and the job is edited after it has ended",
            )],
        )
        .plans::<BroadcastJobs>(never_seals),
    ]
}

fn first(snapshot: &Snapshot<'_>, now: Timestamp, which: fn(&Action) -> bool) -> Plan {
    let mut plan = plan(snapshot, now);
    put_first(&mut plan, which);
    plan
}

fn stops_at_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let decides = actions(&mut plan).any(|action| match action {
        Action::WriteStatus(status) => {
            let mut conditions = status.conditions.iter();
            conditions.any(|c| c.type_ == "FailureTarget" && c.status == "True")
        }
        _ => false,
    });
    if decides {
        let pods = snapshot.pods.iter();
        let running = pods.filter(|(_, pod)| !pod.phase.has_ended() && pod.deletion.is_none());
        let stop = running.map(|(name, pod)| Action::DeletePod {
            pod: name.clone(),
            uid: pod.uid,
            rv: pod.rv,
        });
        plan.steps.insert(0, Step::wanted(stop.collect()));
    }
    plan
}

fn never_keeps_promises(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    leave_out(&mut plan, |action| match action {
        Action::CreatePod { pod, .. } => {
            let mut records = snapshot.slices.iter().flat_map(|slice| &slice.records);
            records.any(|record| record.pod == *pod)
        }
        _ => false,
    });
    plan
}

fn releases_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    leave_out(&mut plan, |action| match action {
        Action::ReleasePod { pod, .. } => {
            let mut records = snapshot.slices.iter().flat_map(|slice| &slice.records);
            records.any(|record| record.pod == *pod && record.is_final())
        }
        _ => false,
    });
    plan
}

fn never_seals(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        if let Action::WriteSlice(write) = action {
            write.sealed = false;
        }
    }
    leave_out(
        &mut plan,
        |action| matches!(action, Action::WriteSlice(w) if w.is_empty()),
    );
    plan
}
