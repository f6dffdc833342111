//! The same for Jobs: what a plan for one must never do.

mod pod_counts;
mod pods;
mod status;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use carillon_api::condition::reasons;
use jiff::{SignedDuration, Timestamp};

use self::pod_counts::PodCounts;
use self::stored::{Stored, ended, is_ending};
use super::TRIPPED_RECHECK;
use super::trip::{Trip, trip};
use crate::job::action::{Action, Note, OnError, Plan, Step};
use crate::job::{JobPod, Snapshot};
use crate::uid::Uid;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    pub use super::super::left_behind::rules::LEFT_BEHIND;

    /// Pods are created or adopted, and Jobs deleted, by a plan that has asked whether the Job is as it
    /// was judged.
    pub const CONFIRMED_FIRST: &str = "confirmed_first";
    /// A Job that is suspended, being deleted, ending or over creates no pod.
    pub const STARTS: &str = "starts";
    /// No more pods run than parallelism and what is left to do allow, and no plan creates and removes.
    pub const PARALLELISM: &str = "parallelism";
    /// A pod that may still come to be, since its creation had no answer, keeps its place: none is created in it
    /// under another name.
    pub const UNANSWERED: &str = "unanswered";
    /// An index has one pod at a time, and none once it has succeeded or failed.
    pub const ONE_PER_INDEX: &str = "one_per_index";
    /// A uid is counted when its pod is released, once, and each counter grows by those that leave its list.
    pub const COUNTS: &str = "counts";
    /// What a Job has come to is never taken back.
    pub const TERMINAL: &str = "terminal";
    /// A Job ends when none of its pods runs and all are counted, and is complete with as many successes as
    /// it asks for.
    pub const END: &str = "end";
    /// Pods are stopped by uid, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Pods that have ended are released by uid, and only when that is stored, or stored by a step before.
    pub const RELEASE: &str = "release";
    /// A Job is deleted only when its time to live is over.
    pub const TIME_TO_LIVE: &str = "time_to_live";

    /// All of them.
    pub const ALL: [&str; 12] = [
        CONFIRMED_FIRST,
        STARTS,
        PARALLELISM,
        UNANSWERED,
        ONE_PER_INDEX,
        COUNTS,
        TERMINAL,
        END,
        DELETE,
        RELEASE,
        TIME_TO_LIVE,
        LEFT_BEHIND,
    ];
}

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let mut check = Check {
        snapshot,
        now,
        stored: Stored::of(&snapshot.job.status),
        pods: PodCounts::of(snapshot),
        current: false,
        ends: is_ending(&snapshot.job.status)
            || actions().any(|action| match action {
                Action::WriteStatus(write) => is_ending(&write.status),
                _ => false,
            }),
        names: BTreeSet::new(),
        indexes: BTreeSet::new(),
        removes: false,
    };
    for step in &plan.steps {
        for action in &step.actions {
            check.action(action, step)?;
        }
    }
    check.unanswered()
}

/// What is done instead of a plan that must not be carried out: it is told, and looked at again. The
/// status of a Job has no place for it.
pub fn refuse(trip: &Trip, now: Timestamp) -> Plan {
    Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        notes: vec![Note {
            warning: true,
            reason: reasons::INTERLOCK_TRIPPED,
            action: "Planning",
            message: format!("the interlock refused a plan ({trip}); please report it"),
            about: None,
        }],
        ..Plan::default()
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    /// As stored when an action is done.
    stored: Stored<'a>,
    pods: PodCounts,
    /// The plan has asked whether it sees the present.
    current: bool,
    /// The Job is ending, or does so by this plan.
    ends: bool,
    names: BTreeSet<&'a str>,
    indexes: BTreeSet<u32>,
    /// The plan removes pods that are too many.
    removes: bool,
}

impl<'a> Check<'a> {
    fn action(&mut self, action: &'a Action, step: &Step) -> Result<(), Trip> {
        match action {
            Action::ConfirmCurrent => {
                self.current = step.on_error == OnError::Stop;
                Ok(())
            }
            Action::AdoptPod { name, .. } => self.confirmed(name),
            Action::ConfirmAbsent { .. } | Action::DisownPod { .. } => Ok(()),
            Action::CreatePod(pod) => self.create(pod),
            Action::RemovePod { name, uid, .. } => self.remove(name, *uid),
            Action::StopPod { name, uid } => {
                self.judged(rules::DELETE, name, *uid)?;
                if self.ends {
                    return Ok(());
                }
                let why = format!("{name} is stopped, and the Job goes on");
                trip(rules::DELETE, why)
            }
            Action::ReleasePod { name, uid, .. } => self.release(name, *uid),
            Action::WriteStatus(write) => {
                self.write(&write.status)?;
                if step.on_error == OnError::Stop {
                    self.stored = Stored::of(&write.status);
                }
                Ok(())
            }
            Action::DeleteJob => self.delete_job(),
        }
    }

    /// Pods whose creation had no answer, and that are not there.
    fn may_come(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let Snapshot { pods, free, .. } = *self.snapshot;
        let unanswered = self.snapshot.unanswered.keys().map(|name| &**name);
        unanswered.filter(|name| !pods.contains_key(*name) && !free.contains_key(*name))
    }

    fn unanswered(&self) -> Result<(), Trip> {
        let others = self.may_come().filter(|name| !self.names.contains(*name));
        let others: Vec<&str> = others.collect();
        let Some(first) = others.first().filter(|_| !self.names.is_empty()) else {
            return Ok(());
        };
        let many = self.names.len() + others.len();
        if self.pods.has_no_room_for(many) {
            let why =
                format!("{many} pods may come to be, {first} among them, and there is no room");
            return trip(rules::UNANSWERED, why);
        }
        let indexed = self.snapshot.job.spec.is_indexed();
        // A name ends with a hash, and before it is the index.
        let place = |name: &'a str| name.rsplit_once('-').map(|(place, _)| place);
        let same = |name: &&&'a str| others.iter().any(|other| place(other) == place(name));
        match self.names.iter().filter(|_| indexed).find(same) {
            Some(name) => {
                let why = format!("{name} is created, and one of its index may still come to be");
                trip(rules::UNANSWERED, why)
            }
            None => Ok(()),
        }
    }

    fn confirmed(&self, what: &str) -> Result<(), Trip> {
        if self.current {
            return Ok(());
        }
        let why = format!("nobody has asked whether the Job is as it was, before {what}");
        trip(rules::CONFIRMED_FIRST, why)
    }

    /// The pod of this name, if it is the one that was judged.
    fn judged(&self, rule: &'static str, name: &str, uid: Uid) -> Result<&'a JobPod, Trip> {
        let pod = self.snapshot.pods.get(name).filter(|pod| pod.uid == uid);
        let why = || format!("{name} ({uid}) is not the pod that was judged");
        pod.ok_or_else(|| Trip { rule, what: why() })
    }

    fn delete_job(&self) -> Result<(), Trip> {
        self.confirmed("the Job is deleted")?;
        let job = self.snapshot.job;
        let ended = ended(&job.status);
        let ended = ended.and_then(|ended| ended.last_transition_time.as_ref());
        let lives = job.spec.ttl_seconds_after_finished;
        let due = lives.zip(ended).map(|(seconds, ended)| {
            let over = ended
                .0
                .checked_add(SignedDuration::from_secs(seconds.into()));
            over.unwrap_or(Timestamp::MAX)
        });
        if due.is_some_and(|due| due <= self.now) {
            return Ok(());
        }
        let why = "the Job is deleted before its time is over";
        trip(rules::TIME_TO_LIVE, why)
    }
}
