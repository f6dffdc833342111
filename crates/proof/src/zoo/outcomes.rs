//! Bugs of judgement: what a pod means for its node, and what was counted.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::HashMap;
use std::sync::Arc;

use carillon_api::NodeState;
use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{Snapshot, plan};
use carillon_plan::pod::{PodPhase, over_limit};
use jiff::Timestamp;

use super::cases::calm;
use super::mutant::Mutant;
use super::sight::{actions, of_pods, of_records};

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a pod that is being deleted counts as done",
            "kruise D6",
            &["S4", "L4", "L1"],
            vec![calm("a running pod is deleted and takes its time to stop")],
        )
        .plans::<BroadcastJobs>(drained_is_done),
        Mutant::new(
            "what was done is what pods are left",
            "kruise D5",
            &["S2", "S4"],
            vec![calm("a finished pod is deleted and its node stays done")],
        )
        .plans::<BroadcastJobs>(pods_are_the_state),
        Mutant::new(
            "a node that is cordoned after its pod succeeded was not served",
            "kruise D4",
            &["S2", "S4"],
            vec![calm(
                "a node is cordoned after its pod succeeded and uncordoned later",
            )],
        )
        .plans::<BroadcastJobs>(cordoned_is_undone),
        Mutant::new(
            "the outcome of a pod is judged again as long as the pod is there",
            "k/k#125410",
            &["S4"],
            vec![calm("a pod that succeeded says later that it failed")],
        )
        .plans::<BroadcastJobs>(judges_again),
        Mutant::new(
            "a pod over its restart limit counts as failed and runs on",
            "kruise D8, D9",
            &["S1", "S3", "S4", "L1"],
            vec![calm(
                "a crash loop is stopped at its limit and one restart is not",
            )],
        )
        .plans::<BroadcastJobs>(over_limit_is_over),
        Mutant::new(
            "a disruption counts as a failure",
            "kruise D23, #2363",
            &["S4", "L7", "L1"],
            vec![calm("a running pod is deleted and its node is tried again")],
        )
        .plans::<BroadcastJobs>(disruption_is_failure),
        Mutant::new(
            "pods that could not be created are counted as active",
            "kruise D19, #2414",
            &["S4", "L4"],
            vec![calm("a quota is full when the job begins")],
        )
        .plans::<BroadcastJobs>(counts_what_it_wants),
        Mutant::new(
            "a pod that has not started counts as failed before it is told to stop",
            "Carillon, seed 702262",
            &["S4", "L4"],
            vec![calm("pods start when their time to start is over")],
        )
        .plans::<BroadcastJobs>(gives_up_at_once),
        Mutant::new(
            "on which node a pod has run is not looked at",
            "Carillon, issue 22",
            &["S4"],
            vec![calm("a pod is bound to another node than its own")],
        )
        .plans::<BroadcastJobs>(runs_anywhere),
    ]
}

fn drained_is_done(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_records(snapshot, now, |record| {
        let pod = snapshot.pods.get(&record.pod);
        let leaves = pod.is_some_and(|pod| pod.deletion.is_some() && !pod.phase.has_ended());
        if leaves && !record.is_final() {
            record.state = NodeState::Skipped;
        }
    })
}

fn pods_are_the_state(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_records(snapshot, now, |record| {
        if record.state == NodeState::Succeeded && !snapshot.pods.contains_key(&record.pod) {
            record.state = NodeState::Disrupted;
        }
    })
}

fn cordoned_is_undone(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_records(snapshot, now, |record| {
        let node = snapshot.nodes.get(&record.node);
        if record.state == NodeState::Succeeded && node.is_some_and(|node| node.unschedulable) {
            record.state = NodeState::Disrupted;
        }
    })
}

fn judges_again(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_records(snapshot, now, |record| {
        if snapshot.pods.contains_key(&record.pod) {
            record.state = NodeState::Started;
        }
    })
}

fn over_limit_is_over(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let limit = snapshot.job.restart_limit;
    of_records(snapshot, now, |record| {
        let pod = snapshot.pods.get(&record.pod);
        if pod.is_some_and(|pod| over_limit(pod, limit)) && !record.is_final() {
            record.state = NodeState::Failed;
            record.reason = "RestartLimitExceeded".into();
        }
    })
}

fn disruption_is_failure(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_pods(snapshot, now, |_, pod| {
        if pod.phase == PodPhase::Failed {
            pod.deletion = None;
            pod.interrupted = false;
            pod.disrupted = false;
        }
    })
}

fn runs_anywhere(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let nodes: HashMap<&str, _> = records.map(|record| (&*record.pod, &record.node)).collect();
    of_pods(snapshot, now, |name, pod| {
        if let Some(node) = nodes.get(name)
            && pod.node.is_some()
        {
            pod.node = Some(Arc::clone(node));
        }
    })
}

fn gives_up_at_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        let Action::WriteSlice(write) = action else {
            continue;
        };
        write.edit(|records| {
            for record in records {
                if record.state == NodeState::Started && !record.reason.is_empty() {
                    record.state = NodeState::Failed;
                }
            }
        });
    }
    plan
}

fn counts_what_it_wants(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let wanted = actions(&mut plan).filter(|action| matches!(action, Action::CreatePod { .. }));
    let wanted = wanted.count() as i32;
    let refused = snapshot.creation_problem.is_some();
    for action in actions(&mut plan) {
        if let Action::WriteStatus(status) = action
            && refused
        {
            status.active += wanted;
        }
    }
    plan
}
