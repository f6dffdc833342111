//! Bugs of retries: what a job does not know of the others of its family.

use carillon_api::NodeState;
use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use carillon_plan::Uid;
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{Family, Member, Snapshot, plan};
use carillon_plan::pod::Pods;
use carillon_plan::record::Slice;
use jiff::Timestamp;

use super::cases::calm;
use super::mutant::Mutant;
use super::sight::of_job;

const THREE_TIMES: &str = "a retry is made three times";
const AGAIN: &str = "a retry fails and is made again by who knows and who does not";
const AT_WORK: &str = "the retry that has its turn is deleted";
const OURS: &str = "carillon, before spec.retryOf";

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a retry is a job like any other",
            OURS,
            &["S1", "S2"],
            vec![calm(THREE_TIMES)],
        )
        .plans::<BroadcastJobs>(has_no_family),
        Mutant::new(
            "a retry does not wait for its turn",
            OURS,
            &["S1", "S2"],
            vec![calm(THREE_TIMES)],
        )
        .plans::<BroadcastJobs>(takes_the_turn),
        Mutant::new(
            "a retry runs nodes that another one has served",
            OURS,
            &["S2"],
            vec![calm(THREE_TIMES)],
        )
        .plans::<BroadcastJobs>(forgets_successes),
        Mutant::new(
            "a request that is made twice is carried out twice",
            OURS,
            &["S2"],
            vec![calm(AGAIN)],
        )
        .plans::<BroadcastJobs>(knows_all),
        Mutant::new(
            "what a retry has done is gone with it",
            "carillon, an idea that was not followed: whoever is gone has done nothing",
            &["S1", "S2"],
            vec![calm(AT_WORK)],
        )
        .plans::<BroadcastJobs>(forgets_who_is_gone),
    ]
}

fn has_no_family(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let alone = Snapshot {
        family: None,
        ..*snapshot
    };
    plan(&alone, now)
}

/// As if it stood first in the list.
fn takes_the_turn(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let (job, Some(family)) = (snapshot.job, snapshot.family) else {
        return plan(snapshot, now);
    };
    let own = Member {
        name: &job.meta.owner.name,
        uid: job.meta.owner.uid,
        job: Some(job),
        slices: snapshot.slices,
        pods: snapshot.pods,
        taken: Some(snapshot.taken.watched),
        problem: None,
    };
    let family = Family {
        retries: vec![own],
        ..family.clone()
    };
    let first = Snapshot {
        family: Some(&family),
        ..*snapshot
    };
    plan(&first, now)
}

/// As if every success had been that of a machine that was replaced.
fn forgets_successes(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let Some(family) = snapshot.family else {
        return plan(snapshot, now);
    };
    let elsewhere = |member: &Member<'_>| -> Vec<Slice> {
        let mut slices = member.slices.to_vec();
        for record in slices.iter_mut().flat_map(|slice| &mut slice.records) {
            record.node_uid = Uid::MAX;
        }
        slices
    };
    let first = family
        .first
        .iter()
        .map(elsewhere)
        .next()
        .unwrap_or_default();
    let retries: Vec<Vec<Slice>> = family.retries.iter().map(elsewhere).collect();
    let mut family = family.clone();
    if let Some(member) = &mut family.first {
        member.slices = &first;
    }
    for (member, slices) in family.retries.iter_mut().zip(&retries) {
        member.slices = slices;
    }
    let forgetful = Snapshot {
        family: Some(&family),
        ..*snapshot
    };
    plan(&forgetful, now)
}

fn knows_all(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_job(snapshot, now, |job| {
        if let Some(first) = &mut job.retry_of {
            first.known_retries = usize::MAX;
        }
    })
}

/// As if a retry that is gone had done nothing, and everybody knew.
fn forgets_who_is_gone(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let Some(family) = snapshot.family else {
        return plan(snapshot, now);
    };
    let nothing_done = |member: &Member<'_>| -> Vec<Slice> {
        let mut slices = member.slices.to_vec();
        for slice in slices.iter_mut().filter(|_| member.job.is_none()) {
            slice.sealed = true;
            for record in &mut slice.records {
                record.state = NodeState::Failed;
                record.finished = Some(now);
            }
        }
        slices
    };
    let retries: Vec<Vec<Slice>> = family.retries.iter().map(nothing_done).collect();
    let no_pods = Pods::default();
    let mut family = family.clone();
    for (member, slices) in family.retries.iter_mut().zip(&retries) {
        member.slices = slices;
        if member.job.is_none() {
            member.pods = &no_pods;
        }
    }
    let forgetful = Snapshot {
        family: Some(&family),
        ..*snapshot
    };
    knows_all(&forgetful, now)
}
