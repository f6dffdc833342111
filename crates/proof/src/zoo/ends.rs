//! Bugs of ends: deadlines, pauses, times to live, and what stays once it is said.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::HashMap;

use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{Snapshot, plan};
use jiff::Timestamp;

use super::cases::{at, calm};
use super::mutant::Mutant;
use super::sight::{actions, of_job, of_pods, of_records};
use crate::blow::{Blow, Point};

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "the deadline is armed only when the job starts",
            "kruise D12, #1409",
            &["L1", "L2"],
            vec![at(
                "the deadline passes while a pod hangs",
                18,
                Blow::Kill(Point::AfterReply),
            )],
        )
        .plans::<BroadcastJobs>(arms_once),
        Mutant::new(
            "the time to live is waited for by nobody",
            "kruise D12, D14",
            &["L1"],
            vec![calm("the time to live removes the job and all of it")],
        )
        .plans::<BroadcastJobs>(never_wakes),
        Mutant::new(
            "the deadline is judged by when the controller looks",
            "kruise D18, #1704",
            &["S6", "L1", "L7"],
            vec![at(
                "every node succeeds long before the deadline",
                9,
                Blow::Stop,
            )],
        )
        .plans::<BroadcastJobs>(judges_by_its_own_clock),
        Mutant::new(
            "an end is no end when a node joins",
            "k/k batch/v1 Job: an end is an end (status rules of 1.31)",
            // The API server itself refuses a status without the end that is stored.
            &["S6", "L4"],
            vec![calm(
                "a node joins and the job is edited after it has ended",
            )],
        )
        .plans::<BroadcastJobs>(forgets_its_end),
        Mutant::new(
            "a job that paused cannot be resumed",
            "kruise D10",
            &["L1"],
            vec![calm("a failure pauses the job and its user resumes it")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| of_job(snapshot, now, |job| job.resume = None)),
        Mutant::new(
            "failed attempts do not count against their limit",
            "k/k#27997, 84k pods",
            &["S12", "L1"],
            vec![calm("a node fails as often as it may and is given up")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            of_job(snapshot, now, |job| job.policies.backoff_limit = usize::MAX)
        }),
        Mutant::new(
            "no wait before a node is tried again",
            "k/k#27997 class: the back-off is reset",
            &["S12"],
            vec![calm("a node fails twice and then succeeds")],
        )
        .plans::<BroadcastJobs>(never_waits),
    ]
}

fn arms_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    if snapshot.job.status.start_time.is_some() {
        plan.wake = None;
    }
    plan
}

fn never_wakes(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    Plan {
        wake: None,
        ..plan(snapshot, now)
    }
}

fn judges_by_its_own_clock(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_pods(snapshot, now, |_, pod| {
        if let Some(end) = &mut pod.end {
            end.finished = None;
        }
    })
}

fn forgets_its_end(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut slices = snapshot.slices.to_vec();
    for slice in &mut slices {
        slice.sealed = false;
    }
    let open = Snapshot {
        slices: &slices,
        index: None,
        ..*snapshot
    };
    of_job(&open, now, |job| {
        let status = &mut job.status;
        status.conditions.retain(|c| c.type_ != "Complete");
        status.completion_time = None;
    })
}

fn never_waits(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut ends = HashMap::new();
    let mut plan = of_records(snapshot, now, |record| {
        if let Some(end) = &mut record.finished {
            ends.insert(record.pod.clone(), *end);
            *end = Timestamp::UNIX_EPOCH;
        }
    });
    // Only the wait is forgotten, and not the time of the end.
    for action in actions(&mut plan) {
        let Action::WriteSlice(write) = action else {
            continue;
        };
        write.edit(|records| {
            for record in records {
                if let (Some(end), Some(time)) = (ends.get(&record.pod), &mut record.finished) {
                    *time = *end;
                }
            }
        });
    }
    plan
}
