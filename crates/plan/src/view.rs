//! What people ask, answered from what is stored: pure structs, ready to be printed.
//!
//! Nothing here renders, and nothing here decides what happens: the rules are those of the planner.
//! The fields serialise in camelCase, and are what `kubectl carillon -o json` prints.

pub mod broadcast_job;
pub mod cron_job;
pub mod read;
pub mod uninstall;
