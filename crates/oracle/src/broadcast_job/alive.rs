//! Which pods an instance may still take for running.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use super::world::MadeFor;
use crate::history::Step;
use crate::object::{self, PODS};
use crate::verdict::Assumptions;

/// The pods of each job that had not ended, and until when.
#[derive(Debug, Default)]
pub(crate) struct Alive<'h> {
    pods: HashMap<&'h str, HashMap<&'h str, Until>>,
    made_for: MadeFor<'h>,
}

/// `None`: until now.
type Until = Option<(u64, Timestamp)>;
/// A pod without the label by which it is watched is asked for once a minute.
const ASKED_EVERY: SignedDuration = SignedDuration::from_mins(1);

impl<'h> Alive<'h> {
    /// To be told of every step.
    pub(crate) fn follow(&mut self, step: &'h Step) {
        if &*step.key.resource != PODS {
            return;
        }
        let Some(pod) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        self.made_for.follow(pod);
        let Some(job) = self.made_for.job_of(pod) else {
            return;
        };
        let pods = self.pods.entry(job).or_default();
        if step.new.is_none() || object::has_ended(pod) {
            if let Some(until @ None) = pods.get_mut(object::uid(pod)) {
                let label = ["metadata", "labels", object::UID_LABEL];
                let is_watched = object::at(pod, &label).is_some_and(|of| of == job);
                let late = if is_watched {
                    SignedDuration::ZERO
                } else {
                    ASKED_EVERY
                };
                *until = Some((step.rev, step.at.saturating_add(late).unwrap_or(step.at)));
            }
        } else {
            pods.insert(object::uid(pod), None);
        }
    }

    /// How many an instance that acts at `now` may know of at most.
    pub(crate) fn most(&self, job: &str, assumptions: &Assumptions, now: &Step) -> usize {
        let pods = self.pods.get(job).into_iter().flat_map(HashMap::values);
        let known = |until: &&Until| until.is_none_or(|until| assumptions.may_see(now, until));
        pods.filter(known).count()
    }
}
