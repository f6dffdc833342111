//! What people ask about BroadcastJobs, and what to write for what they want of them.

pub mod alike;
mod durations;
pub mod estimate;
pub mod explain;
pub mod family;
pub mod kin;
pub mod ledger;
mod next_step;
pub mod outcomes;
pub mod pace;
pub mod pause;
pub mod place;
pub mod preview;
pub mod progress;
pub mod retry;
pub mod squares;

#[cfg(test)]
pub(super) mod samples;
