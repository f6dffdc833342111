//! Jobs of batch/v1 that are served in the place of kube-controller-manager.

mod ends;
mod failures;
mod fixtures;
mod indexed;
mod policies;
mod running;
mod suspended;
mod users;

use crate::scenario::Scenario;

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
