//! What people ask about DaemonSets, of carillon.dev and of apps/v1, and what to write for what they want of them.

pub mod change;
pub mod explain;
pub mod history;
pub mod known;
pub mod look;
pub mod preview;
pub mod progress;
pub mod read;
pub mod squares;

#[cfg(test)]
pub(super) mod samples;

use crate::daemon_set::DaemonSet;

/// As in `daemonset.carillon.dev/NAME`.
pub fn resource(set: &DaemonSet) -> &'static str {
    if set.native {
        "daemonset.apps"
    } else {
        "daemonset.carillon.dev"
    }
}

/// The name as a command of kubectl takes it, which tells the API: `cds/agent`.
pub(super) fn short(set: &DaemonSet) -> String {
    let kind = if set.native { "ds" } else { "cds" };
    format!("{kind}/{}", set.meta.owner.name)
}
