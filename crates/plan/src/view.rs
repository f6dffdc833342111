//! What people ask about a job, answered from what is stored: pure structs, ready to be printed.
//!
//! Nothing here renders, and nothing here decides what happens: the rules are those of the planner.
//! The fields serialise in camelCase, and are what `kubectl carillon -o json` prints.

pub mod ledger;
pub mod outcomes;
pub mod progress;
pub mod read;

#[cfg(test)]
mod samples;
