//! What a spec says over time, and what somebody may take for it who sees an old view.

use jiff::Timestamp;

use crate::history::Step;
use crate::verdict::Assumptions;

/// Since when, and what.
#[derive(Debug)]
pub(crate) struct Window<T>(Vec<((u64, Timestamp), T)>);

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Window<T> {
    /// It has this value from this step on.
    pub(crate) fn follow(&mut self, step: &Step, value: T) {
        if self.0.last().is_none_or(|(_, last)| *last != value) {
            self.0.push(((step.rev, step.at), value));
        }
    }

    /// What an instance acting now may take for it, or has taken for it at some time `since` then: the last first.
    pub(crate) fn seen<'a>(
        &'a self,
        assumptions: &'a Assumptions,
        now: &'a Step,
        since: Option<&'a (u64, Timestamp)>,
    ) -> impl Iterator<Item = &'a T> {
        let mut all_know = false;
        self.0.iter().rev().map_while(move |(from, value)| {
            if all_know {
                return None;
            }
            let known = !assumptions.may_see(now, *from);
            all_know = known && since.is_none_or(|since| from.0 <= since.0);
            Some(value)
        })
    }
}

impl Window<usize> {
    pub(crate) fn most(
        &self,
        assumptions: &Assumptions,
        now: &Step,
        since: Option<&(u64, Timestamp)>,
    ) -> usize {
        let seen = self.seen(assumptions, now, since);
        seen.copied().max().unwrap_or(0)
    }
}
