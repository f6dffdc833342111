//! What people ask about BroadcastJobs, and what to write for what they want of them.

pub mod explain;
pub mod family;
pub mod ledger;
pub mod outcomes;
pub mod pause;
pub mod place;
pub mod preview;
pub mod progress;
pub mod retry;

#[cfg(test)]
pub(super) mod samples;
