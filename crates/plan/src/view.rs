//! What people ask, answered from what is stored: pure structs, ready to be printed.
//!
//! Nothing here renders, and nothing here decides what happens: the rules are those of the planner.
//! The fields serialise in camelCase, and are what `kubectl carillon -o json` prints.

pub mod broadcast_job;
pub mod cron_job;
pub mod daemon_set;
pub mod decision;
pub mod doctor;
pub mod groups;
pub mod job;
pub mod node_checks;
pub mod read;
pub mod refusal;
pub mod remedy;
pub mod squares;
pub mod uninstall;

/// The one in the middle of numbers that are in order; of two the lower.
fn median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}
