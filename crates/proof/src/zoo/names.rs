//! Bugs of identity: what tells a pod, an attempt or a node from another.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::HashMap;

use carillon_api::NodeState;
use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{Snapshot, plan};
use carillon_plan::name;
use carillon_plan::record::Record;
use jiff::Timestamp;

use super::cases::{at, calm};
use super::mutant::Mutant;
use super::sight::{actions, of_nodes, put_first};
use crate::blow::{Blow, Point};

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "pods have random names and are recorded once they exist",
            "kruise D7, PR#449 refused",
            &["S1", "S2"],
            vec![at("every node succeeds", 3, Blow::Kill(Point::AfterReply))],
        )
        .plans::<BroadcastJobs>(random_names),
        Mutant::new(
            "the attempt is no part of a pod's name",
            "kruise D7",
            &["S2"],
            vec![calm("a running pod is deleted and its node is tried again")],
        )
        .plans::<BroadcastJobs>(first_attempts_only),
        Mutant::new(
            "a node is its name, whatever its uid",
            "Sieve fig. 5; kruise D21",
            &["L1", "L4"],
            vec![calm("a node that was served is replaced under its name")],
        )
        .plans::<BroadcastJobs>(nodes_by_name),
    ]
}

fn random_names(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let stored = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let mut names: HashMap<Box<str>, Box<str>> = stored
        .map(|record| (record.pod.clone(), record.pod.clone()))
        .collect();
    let mut rename = |pod: &str| {
        let random = || format!("{pod}-{:04x}", fastrand::u16(..)).into();
        names.entry(pod.into()).or_insert_with(random).clone()
    };
    for action in actions(&mut plan) {
        match action {
            Action::CreatePod { pod, .. } => *pod = rename(pod),
            Action::WriteSlice(write) => {
                write.edit(|records| {
                    for record in records {
                        record.pod = rename(&record.pod);
                    }
                });
            }
            _ => {}
        }
    }
    put_first(&mut plan, |action| {
        matches!(action, Action::CreatePod { .. })
    });
    plan
}

fn first_attempts_only(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let owner = &snapshot.job.meta.owner;
    let first = |node: &str| name::pod(&owner.name, owner.uid, node, 1);
    for action in actions(&mut plan) {
        match action {
            Action::CreatePod { pod, node, .. } => *pod = first(node).into(),
            Action::WriteSlice(write) => {
                let is_new = |record: &&mut Record| record.state == NodeState::Started;
                write.edit(|records| {
                    for record in records.iter_mut().filter(is_new) {
                        record.pod = first(&record.node).into();
                    }
                });
            }
            _ => {}
        }
    }
    plan
}

fn nodes_by_name(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let known: HashMap<&str, _> = records.map(|r| (&*r.node, r.node_uid)).collect();
    of_nodes(snapshot, now, |name, node| {
        node.uid = known.get(&**name).copied().unwrap_or(node.uid);
    })
}
