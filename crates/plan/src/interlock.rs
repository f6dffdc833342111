//! The interlock: a second opinion on every plan, before any of it is carried out.
//!
//! A plan is checked against the snapshot it was made from, by rules that are about what may never
//! happen and not about what should. Nothing of the planner is used here, so that a mistake of one
//! is not a mistake of both. The cost is that of one walk over the plan, and what is open.
//!
//! Each rule is about what a plan *does*. A snapshot that is odd already (somebody changed a slice,
//! somebody made a look-alike pod) trips nothing as long as the plan leaves it alone.

pub mod cron_job;
mod family;
pub mod job;
mod log;
mod pods;
mod status;

use std::fmt;

use carillon_api::condition::{reasons, types};
use jiff::{SignedDuration, Timestamp};

use self::log::Log;
use crate::broadcast_job::action::{Action, Note, OnError, Plan, Step};
use crate::broadcast_job::{Index, Job, Snapshot};
use crate::condition;
use crate::pod::printable;

/// How soon a job whose plan was refused is planned again, if nothing happens before.
pub const TRIPPED_RECHECK: SignedDuration = SignedDuration::from_secs(60);

/// The rules, as they are named in messages and metrics.
pub mod rules {
    /// A node has at most one pod of the job that has not ended.
    pub const ONE_PER_NODE: &str = "one_per_node";
    /// A pod is created only for a reservation that is stored, by a plan that has asked whether it still
    /// is, and a slice only for a job of which that is known.
    pub const RESERVED_FIRST: &str = "reserved_first";
    /// A node that has succeeded is never served again.
    pub const RUN_ONCE: &str = "run_once";
    /// The attempts on nodes of one name are counted up, and no two have the same pod.
    pub const ATTEMPTS: &str = "attempts";
    /// No more pods than parallelism allows exist or are promised.
    pub const PARALLELISM: &str = "parallelism";
    /// A plan creates a bounded number of pods.
    pub const POD_CHANGES: &str = "pod_changes";
    /// A job that is paused, unusable, failing, ended or being deleted starts nothing.
    pub const STARTS: &str = "starts";
    /// A terminal state is never left.
    pub const TERMINAL: &str = "terminal";
    /// A job ends behind a seal, with every attempt over.
    pub const END: &str = "end";
    /// Nothing is added to a sealed log, and no seal is broken.
    pub const SEAL: &str = "seal";
    /// Slices are only appended to; what is final stays as it is.
    pub const APPEND_ONLY: &str = "append_only";
    /// An attempt is over when its pod has ended, was told to stop or is gone; and what a pod has not
    /// done is its end only if an earlier step has asked whether that is still so.
    pub const OUTCOME: &str = "outcome";
    /// Counts of the status follow the records.
    pub const COUNTS: &str = "counts";
    /// Pods are deleted by uid and resourceVersion, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Pods are released by uid, and only when their outcome is stored.
    pub const RELEASE: &str = "release";
    /// Of a job and its retries one has the turn, and none serves a node that another one has served or may
    /// still serve.
    pub const FAMILY: &str = "family";
    /// A job is deleted only when its time to live is over and nobody needs its results.
    pub const TIME_TO_LIVE: &str = "time_to_live";

    /// All of them.
    pub const ALL: [&str; 17] = [
        ONE_PER_NODE,
        RESERVED_FIRST,
        RUN_ONCE,
        ATTEMPTS,
        PARALLELISM,
        POD_CHANGES,
        STARTS,
        TERMINAL,
        END,
        SEAL,
        APPEND_ONLY,
        OUTCOME,
        COUNTS,
        DELETE,
        RELEASE,
        FAMILY,
        TIME_TO_LIVE,
    ];
}

/// Why a plan must not be carried out: a mistake of the planner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trip {
    /// The rule, one of [`rules::ALL`].
    pub rule: &'static str,
    /// The object, what the plan does with it, and what is expected instead.
    pub what: String,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Trip {}

fn trip<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Trip> {
    let what = what.into();
    Err(Trip { rule, what })
}

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

/// What is done instead of a plan that was refused: the stored status says so, nothing else.
pub fn refuse(job: &Job, trip: &Trip, now: Timestamp) -> Plan {
    let (reason, message) = (reasons::INTERLOCK_TRIPPED, printable(&trip.to_string()));
    let mut plan = Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        ..Plan::default()
    };
    let mut status = job.status.clone();
    let conditions = &mut status.conditions;
    condition::set(
        conditions,
        types::STALLED,
        true,
        reason,
        &message,
        job.generation,
        now,
    );
    if status != job.status {
        plan.notes.push(Note {
            warning: true,
            reason,
            action: "Stalling",
            message,
        });
        let write = Action::WriteStatus(Box::new(status));
        plan.steps.push(Step::needed(vec![write]));
    }
    plan
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
                    self.stopping |= status::stops(status);
                }
                _ => {}
            }
        }
    }
}

/// Whether a condition of the stored status is True.
fn is(job: &Job, type_: &str) -> bool {
    status::holds(&job.status, type_)
}
