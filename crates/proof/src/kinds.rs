//! The kinds that are proved, one row each.

pub mod broadcast_job;
pub mod cron_job;
pub mod daemon_set;
mod hangs;
pub mod job;
mod proved;

pub use self::proved::ProvedKind;
use crate::scenario::Scenario;

/// All of them.
pub static KINDS: [&ProvedKind; 4] = [
    &broadcast_job::KIND,
    &cron_job::KIND,
    &daemon_set::KIND,
    &job::KIND,
];

/// Every scenario.
pub fn scenarios() -> Vec<Scenario> {
    KINDS.iter().flat_map(|kind| (kind.scenarios)()).collect()
}

/// Scenarios that are only what they say while the operator runs.
pub fn undisturbed() -> Vec<Scenario> {
    KINDS.iter().flat_map(|kind| (kind.undisturbed)()).collect()
}
