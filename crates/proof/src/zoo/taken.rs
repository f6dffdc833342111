//! Bugs about pods that somebody has taken from their job.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::BTreeMap;

use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{Snapshot, Taken, TakenPods, plan};
use jiff::Timestamp;

use super::cases::calm;
use super::mutant::Mutant;

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a pod that was taken from its job is taken for gone",
            "any controller to which a pod that its selector does not match any more is deleted",
            &["S1"],
            vec![calm("a pod loses its owner while it runs")],
        )
        .plans::<BroadcastJobs>(takes_them_for_gone),
        Mutant::new(
            "a pod that was taken from its job is waited for and not looked at",
            "Carillon before decision 0034",
            &["L1"],
            vec![calm("a pod loses its label while it runs")],
        )
        .plans::<BroadcastJobs>(does_not_look),
    ]
}

fn takes_them_for_gone(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut gone = snapshot.gone.clone();
    gone.extend(snapshot.taken.watched.values().map(|taken| taken.pod.uid));
    gone.extend(snapshot.taken.asked.keys());
    let sight = Snapshot {
        gone: &gone,
        ..*snapshot
    };
    plan(&sight, now)
}

fn does_not_look(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let nothing = Taken {
        watched: &TakenPods::new(),
        asked: &BTreeMap::new(),
    };
    let sight = Snapshot {
        taken: nothing,
        ..*snapshot
    };
    plan(&sight, now)
}
