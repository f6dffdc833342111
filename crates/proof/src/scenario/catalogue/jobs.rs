//! Jobs of batch/v1 that are served in the place of kube-controller-manager.

mod ends;
mod failures;
mod indexed;
mod policies;
mod running;
mod suspended;
mod users;

use carillon_sim::actors::{Fate, Work};

use super::{Delete, Ends, Propagation, SECOND, Same, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    [
        running::all(),
        indexed::all(),
        failures::all(),
        policies::all(),
        suspended::all(),
        users::all(),
        ends::all(),
    ]
    .concat()
}

fn plain(name: &'static str) -> Scenario {
    Scenario::of_job(name)
}

/// The container ends after so many seconds.
fn after(seconds: i32, code: i32) -> Fate {
    Fate::ends(SECOND * seconds, code)
}

fn hangs() -> Fate {
    Fate {
        works: vec![Work::Hangs],
        ..after(1, 0)
    }
}

/// A pod that does not stop before it is killed.
fn stubborn(fate: Fate) -> Fate {
    Fate {
        obeys: None,
        ..fate
    }
}

/// So many seconds after the step before and this.
fn later(when: fn(&View<'_>) -> bool, seconds: i32, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SECOND * seconds,
        act,
    }
}
