//! One step of the script of a scenario.

use jiff::SignedDuration;

use super::view::View;

/// What scripts are timed in.
pub(crate) const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// When something is done, and what.
#[derive(Clone, Copy)]
pub struct Step {
    /// Looked at after every change. A step waits for the one before it.
    pub when: fn(&View<'_>) -> bool,
    /// How long after that.
    pub after: SignedDuration,
    /// What is done; errors are for the user to see.
    pub act: fn(&View<'_>),
}

/// A step without a delay.
pub(crate) fn step(when: fn(&View<'_>) -> bool, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SignedDuration::ZERO,
        act,
    }
}
