//! What DaemonSets are put through.

mod history;
mod hooks;
mod native;
mod nodes;
mod pods;
mod updates;

use crate::scenario::Scenario;

/// Each scenario.
pub(super) fn all() -> Vec<Scenario> {
    [
        nodes::all(),
        pods::all(),
        updates::all(),
        updates::held(),
        hooks::all(),
        history::all(),
        native::all(),
    ]
    .concat()
}
