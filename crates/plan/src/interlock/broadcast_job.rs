//! The interlock of BroadcastJobs.

mod family;
mod log;
mod pods;
pub mod rules;
mod status;
mod stored;

use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use self::log::Log;
use self::stored::{is, stops};
use super::TRIPPED_RECHECK;
use super::trip::{Trip, trip};
use crate::broadcast_job::action::{Action, OnError, Plan, Step};
use crate::broadcast_job::{BroadcastJob, Index, Snapshot};
use crate::pod::printable;

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    if plan.steps.is_empty() {
        return Ok(());
    }
    let mut fresh = None;
    let (snapshot, index) = snapshot.indexed(&mut fresh);
    let mut check = Check {
        snapshot: &snapshot,
        index,
        now,
        log: Log::of(snapshot.slices, index.records()),
        stopping: is(snapshot.job, types::FAILURE_TARGET) || is(snapshot.job, types::FAILED),
        statuses: 0,
        desired: snapshot.job.status.desired,
        created: Vec::new(),
    };
    for step in &plan.steps {
        for action in &step.actions {
            check.action(action, step)?;
        }
        check.after(step);
    }
    check.starts()
}

/// What is done instead of a plan that was refused: the stored status says so.
pub fn refuse(job: &BroadcastJob, trip: &Trip, now: Timestamp) -> Plan {
    let (reason, message) = (reasons::INTERLOCK_TRIPPED, printable(&trip.to_string()));
    Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        ..job.stalled(reason, &message, now).unwrap_or_default()
    }
}

/// What is known once the steps so far are carried out.
struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    /// What there is without looking at all of it.
    index: &'a Index,
    now: Timestamp,
    log: Log<'a>,
    /// The decision that the job fails is stored.
    stopping: bool,
    statuses: usize,
    /// Nodes to serve, by the status as it will be.
    desired: i32,
    /// Pod and node of each creation.
    created: Vec<(&'a str, &'a str)>,
}

impl<'a> Check<'a> {
    fn action(&mut self, action: &'a Action, step: &Step) -> Result<(), Trip> {
        match action {
            // Questions change nothing.
            Action::CheckTemplate { .. }
            | Action::ConfirmGone { .. }
            | Action::ConfirmJob
            | Action::ConfirmSlice { .. }
            | Action::ConfirmPod { .. } => Ok(()),
            Action::WriteSlice(write) => {
                if step.on_error != OnError::Stop {
                    let index = write.index;
                    return trip(
                        rules::RESERVED_FIRST,
                        format!(
                            "slice {index}: the plan goes on when this write fails; expected that it stops"
                        ),
                    );
                }
                self.log.check(self.snapshot, write, self.now)
            }
            Action::CreatePod { pod, node, slice } => self.create(pod, node, *slice),
            Action::DeletePod { pod, uid, rv } => self.delete(pod, *uid, *rv),
            Action::LabelPod { pod, uid } => self.label(pod, *uid),
            Action::ReleasePod { pod, uid } => self.release(pod, *uid),
            Action::WriteStatus(status) => self.status(status),
            Action::CloseLog { name, uid, write } => self.close(name, *uid, write, step),
            Action::JoinFamily {
                first,
                uid,
                rv,
                retries,
            } => self.join(first, *uid, *rv, retries),
            Action::DeleteJob => self.delete_job(),
        }
    }

    /// The actions of one step run side by side: only the later steps can rely on them.
    fn after(&mut self, step: &'a Step) {
        for action in &step.actions {
            match action {
                Action::WriteSlice(write) => self.log.enter(write),
                Action::ConfirmJob if step.on_error == OnError::Stop => self.log.job_is_there(),
                Action::ConfirmSlice { index, rv } if step.on_error == OnError::Stop => {
                    self.log.is_as_read(*index, *rv);
                }
                Action::ConfirmPod { pod, seen } if step.on_error == OnError::Stop => {
                    self.log.pod_is_as_read(self.snapshot, pod, *seen);
                }
                Action::WriteStatus(status) if step.on_error == OnError::Stop => {
                    self.stopping |= stops(status);
                }
                _ => {}
            }
        }
    }
}
