//! BroadcastJobs.

mod edits;
mod ends;
mod fixtures;
mod nodes;
mod pods;
mod policies;
pub(crate) mod retries;
mod running;
mod taken;
mod users;

use crate::scenario::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    [
        running::all(),
        users::all(),
        pods::all(),
        nodes::all(),
        ends::all(),
        edits::all(),
        policies::all(),
        retries::all(),
        taken::all(),
    ]
    .concat()
}

pub(super) fn undisturbed() -> Vec<Scenario> {
    taken::undisturbed()
}
