//! A leader: what it was told, and the plan that it carries out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carillon_plan::Uid;
use carillon_plan::broadcast_job::action::{Action, OnError};
use carillon_plan::broadcast_job::{BroadcastJob, DISPUTED, TakenPod};
use jiff::{SignedDuration, Timestamp};

/// What a leader was told about a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub(super) gone: BTreeSet<Uid>,
    pub(super) asked: BTreeMap<Uid, TakenPod>,
    pub(super) created: BTreeMap<Box<str>, Uid>,
    pub(super) conflicts: BTreeSet<Box<str>>,
    pub(super) disputed: BTreeSet<Box<str>>,
    disputed_since: Option<Timestamp>,
}

impl Memory {
    pub(super) fn learn_disputed(&mut self, pod: Box<str>, now: Timestamp) {
        self.disputed_since.get_or_insert(now);
        self.disputed.insert(pod);
    }

    pub(super) fn forget_disputed(&mut self, now: Timestamp) {
        let old = |since: &mut Timestamp| now.duration_since(*since) >= DISPUTED;
        if self.disputed_since.take_if(old).is_some() {
            self.disputed.clear();
        }
    }
}

/// A plan that is being carried out.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) job: BroadcastJob,
    pub(super) made_at: Timestamp,
    /// Pods that its own records name.
    pub(super) own: BTreeSet<Uid>,
    /// When it asked for the job.
    pub(super) asked_for_job: Option<Timestamp>,
    /// Slices that its creations rely on: index and version.
    pub(super) relies_on: BTreeMap<u32, u64>,
    pub(super) created: usize,
    pub(super) steps: VecDeque<(VecDeque<Action>, OnError)>,
    pub(super) failed: bool,
}

impl Running {
    /// The next action. `None`: nothing is left to do.
    pub(super) fn next(&mut self) -> Option<(Action, OnError)> {
        loop {
            let (actions, on_error) = self.steps.front_mut()?;
            if let Some(action) = actions.pop_front() {
                return Some((action, *on_error));
            }
            self.steps.pop_front();
            if self.failed {
                return None;
            }
        }
    }

    /// Whether the plan is too old for creations.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        now.duration_since(self.made_at) >= SignedDuration::from_secs(10)
    }
}

/// A process that leads, or believes to.
#[derive(Debug, Default)]
pub(super) struct Leader {
    pub(super) memory: BTreeMap<Uid, Memory>,
    pub(super) running: Option<Running>,
}
