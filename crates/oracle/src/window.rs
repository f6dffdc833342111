//! A number of a spec over time, and what somebody may take for it who sees an old view.

use jiff::Timestamp;

use crate::history::Step;
use crate::judge::Assumptions;

/// Since when, and how much.
#[derive(Debug, Default)]
pub(crate) struct Window(Vec<((u64, Timestamp), usize)>);

impl Window {
    /// It has this value from this step on.
    pub(crate) fn follow(&mut self, step: &Step, value: usize) {
        if self.0.last().is_none_or(|(_, last)| *last != value) {
            self.0.push(((step.rev, step.at), value));
        }
    }

    /// The most that an instance acting now may take for it, or has taken for it at some time `since` then.
    pub(crate) fn most(
        &self,
        assumptions: &Assumptions,
        now: &Step,
        since: Option<&(u64, Timestamp)>,
    ) -> usize {
        let mut most = 0;
        for (from, value) in self.0.iter().rev() {
            most = most.max(*value);
            // Everybody has seen this value, so that none before it counts.
            let known = !assumptions.may_see(now, *from);
            if known && since.is_none_or(|since| from.0 <= since.0) {
                break;
            }
        }
        most
    }
}
