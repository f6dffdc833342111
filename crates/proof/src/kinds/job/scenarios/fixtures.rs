//! What scenarios of Jobs are made of.

use carillon_sim::actors::{Fate, Work};

use crate::scenario::{SECOND, Step, View};

pub(super) use crate::kinds::job::subject::scenario as plain;

/// The container ends after so many seconds.
pub(super) fn after(seconds: i32, code: i32) -> Fate {
    Fate::ends(SECOND * seconds, code)
}

pub(super) fn hangs() -> Fate {
    Fate {
        works: vec![Work::Hangs],
        ..after(1, 0)
    }
}

/// A pod that does not stop before it is killed.
pub(super) fn stubborn(fate: Fate) -> Fate {
    Fate {
        obeys: None,
        ..fate
    }
}

/// So many seconds after the step before and this.
pub(super) fn later(when: fn(&View<'_>) -> bool, seconds: i32, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SECOND * seconds,
        act,
    }
}
