//! The scenarios.

pub(crate) mod broadcast_job;
mod cron_job;
mod job;

use crate::scenario::Scenario;

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [broadcast_job::all(), cron_job::all(), job::all()].concat()
}

/// Scenarios that are only what they say while the operator runs.
pub fn undisturbed() -> Vec<Scenario> {
    broadcast_job::undisturbed()
}
