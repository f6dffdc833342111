//! What people ask about a job, answered from what is stored: pure structs, ready to be printed.
//!
//! Nothing here renders, and nothing here decides what happens: the rules are those of the planner.
//! The fields serialise in camelCase, and are what `kubectl carillon -o json` prints.

pub mod cron_job;
pub mod explain;
pub mod family;
pub mod ledger;
pub mod node_checks;
pub mod outcomes;
pub mod pause;
pub mod place;
pub mod preview;
pub mod progress;
pub mod read;
pub mod retry;
pub mod uninstall;

#[cfg(test)]
mod samples;
