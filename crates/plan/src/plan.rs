//! What a plan consists of, whatever kind it is for.

use std::io::Write;

use jiff::{SignedDuration, Timestamp};

/// An API server gives a request a minute (`--request-timeout`): what was sent has arrived by then, or never does.
pub const REQUEST_LIFE: SignedDuration = SignedDuration::from_secs(60);

/// What should happen now. Steps are done in order; a crash between any two writes must leave a
/// state from which the next plan goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<A> {
    /// In order.
    pub steps: Vec<Step<A>>,
    /// Plan again at this time at the latest. Computed anew by every plan from stored state.
    pub wake: Option<Timestamp>,
    /// More is to be done as soon as this plan is applied and seen.
    pub again: bool,
    /// Events to publish once the plan is applied.
    pub notes: Vec<Note>,
}

impl<A> Default for Plan<A> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            wake: None,
            again: false,
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
impl<A> Plan<A> {
    /// Whether it does nothing and is due again already: whoever follows it spins.
    pub(crate) fn spins(&self, now: Timestamp) -> bool {
        let is_due = self.wake.is_some_and(|wake| wake <= now);
        is_due && !self.again && self.steps.is_empty()
    }
}

/// One write, or one question only the API server can answer.
pub trait Act {
    /// The action's word in logs and metrics.
    fn word(&self) -> &'static str;
    /// What it is done to, for people; `None` where the word says it all.
    fn object(&self) -> Option<String>;
    /// Writes all of it, for a digest.
    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()>;
}

/// Actions that may be done side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<A> {
    /// In the order they are tried.
    pub actions: Vec<A>,
    /// What a failed action means.
    pub on_error: OnError,
    /// Try 1, then 2, then 4, … at a time; the first batch with a failure is the last.
    pub slow_start: bool,
}

/// What a failed action of a step means for the plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnError {
    /// The later steps rely on this one: stop.
    Stop,
    /// The later steps stand on their own: go on, and plan again after a back-off.
    GoOn,
}

impl<A> Step<A> {
    /// A step the later ones rely on.
    pub fn needed(actions: Vec<A>) -> Self {
        Self {
            actions,
            on_error: OnError::Stop,
            slow_start: false,
        }
    }

    /// A step the later ones do not rely on.
    pub fn wanted(actions: Vec<A>) -> Self {
        Self {
            actions,
            on_error: OnError::GoOn,
            slow_start: false,
        }
    }

    /// Creations, slowly at first: if the first is refused, hundreds more would be too.
    pub fn slowly(actions: Vec<A>) -> Self {
        Self {
            actions,
            on_error: OnError::GoOn,
            slow_start: true,
        }
    }
}

/// An event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// True: a person may have to act.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// What the operator was doing.
    pub action: &'static str,
    /// For people.
    pub message: String,
    /// What it is about, where several in a row may be of the same words: pods of one name, one after the other.
    pub about: Option<String>,
}
