//! Bugs of memory: what a process believes without having read it.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::cell::RefCell;
use std::collections::BTreeSet;

use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{Snapshot, plan};
use jiff::Timestamp;

use super::cases::{calm, stale};
use super::mutant::Mutant;
use super::sight::{actions, leave_out};
use crate::case::Case;
use crate::wire::Wire;

thread_local! {
    static KNOWN: RefCell<BTreeSet<Box<str>>> = const { RefCell::new(BTreeSet::new()) };
}

/// Every run begins without memory.
pub(super) fn forget() {
    KNOWN.with_borrow_mut(BTreeSet::clear);
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "nothing is done until every pod that was created is seen",
            "kruise D1, #1289",
            &["L1"],
            vec![calm("a quota is full for a while")],
        )
        .plans::<BroadcastJobs>(expects_for_ever),
        Mutant::new(
            "nodes served are remembered by the name of the job",
            "k/k#142142, #131917",
            &["L1"],
            vec![calm("the job is deleted and created again under its name")],
        )
        .plans::<BroadcastJobs>(remembers_by_name),
        Mutant::new(
            "a pod is created by whoever remembers its reservation",
            "Sieve: stale controllers act on what they saw",
            &["S2"],
            vec![stale(
                "a finished pod is deleted and its node stays done",
                11,
                16,
            )],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            let asks = |action: &Action| {
                matches!(action, Action::ConfirmSlice { .. } | Action::ConfirmJob)
            };
            unasked(snapshot, now, asks)
        }),
        Mutant::new(
            "a job is begun by whoever remembers it",
            "Sieve: stale controllers act on what they saw",
            &["S2", "S11"],
            vec![stale("the job is deleted while it runs", 13, 14)],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            unasked(snapshot, now, |action| matches!(action, Action::ConfirmJob))
        }),
        Mutant::new(
            "a node that is gone stays in the cache",
            "etcd#18089, #19179; a relist that loses deletes",
            &["L1", "L4"],
            vec![unaudited("a node goes away while its pod runs")],
        )
        .speaks(Wire {
            overlooks: Some(|event| event.kind == "DELETED" && &*event.key.resource == "nodes"),
            ..Wire::default()
        }),
        Mutant::new(
            "a pod that is gone stays in the cache",
            "etcd#18089, #19179; a relist that loses deletes",
            &["L1", "L4"],
            vec![unaudited(
                "a running pod is taken out of the store by force",
            )],
        )
        .speaks(Wire {
            overlooks: Some(|event| event.kind == "DELETED" && &*event.key.resource == "pods"),
            ..Wire::default()
        }),
    ]
}

/// Nobody looks for what the watches have lost: the audit of the caches would mend it.
fn unaudited(scenario: &str) -> Case {
    let mut case = calm(scenario);
    case.disturbance.without_audit = true;
    case
}

/// The plan without these questions.
fn unasked(snapshot: &Snapshot<'_>, now: Timestamp, which: fn(&Action) -> bool) -> Plan {
    let mut plan = plan(snapshot, now);
    leave_out(&mut plan, which);
    plan
}

fn expects_for_ever(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    KNOWN.with_borrow_mut(|expected| {
        expected.retain(|pod| !snapshot.pods.contains_key(pod));
        if !expected.is_empty() {
            return Plan::default();
        }
        let mut plan = plan(snapshot, now);
        expected.extend(actions(&mut plan).filter_map(|action| match action {
            Action::CreatePod { pod, .. } => Some(pod.clone()),
            _ => None,
        }));
        plan
    })
}

fn remembers_by_name(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let own: BTreeSet<&str> = records.map(|record| &*record.node).collect();
    let mut nodes = snapshot.nodes.clone();
    KNOWN.with_borrow_mut(|served| {
        nodes.retain(|name, _| own.contains(&**name) || !served.contains(&**name));
        served.extend(own.into_iter().map(Box::from));
    });
    let blind = Snapshot {
        nodes: &nodes,
        index: None,
        ..*snapshot
    };
    plan(&blind, now)
}
