//! Which pods an instance may still take for running.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::history::Step;
use crate::judge::Assumptions;
use crate::object::{self, PODS};

/// The pods of each job that had not ended, and until when.
#[derive(Debug, Default)]
pub(crate) struct Alive<'h>(HashMap<&'h str, HashMap<&'h str, Until>>);

/// `None`: until now.
type Until = Option<(u64, Timestamp)>;

impl<'h> Alive<'h> {
    /// To be told of every step.
    pub(crate) fn follow(&mut self, step: &'h Step) {
        if &*step.key.resource != PODS {
            return;
        }
        let Some(pod) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let Some(job) = object::job_of(pod) else {
            return;
        };
        let pods = self.0.entry(job).or_default();
        if step.new.is_none() || object::has_ended(pod) {
            if let Some(until @ None) = pods.get_mut(object::uid(pod)) {
                *until = Some((step.rev, step.at));
            }
        } else {
            pods.insert(object::uid(pod), None);
        }
    }

    /// How many an instance that acts at `now` may know of at most.
    pub(crate) fn most(&self, job: &str, assumptions: &Assumptions, now: &Step) -> usize {
        let pods = self.0.get(job).into_iter().flat_map(HashMap::values);
        let known = |until: &&Until| until.is_none_or(|until| assumptions.may_see(now, until));
        pods.filter(known).count()
    }
}
