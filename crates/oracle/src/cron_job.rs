//! CronJobs of carillon.dev and of batch/v1, and what they start.
//!
//! The part that each invariant has about them; both kinds are judged by the same rules.

pub mod conditions;
pub mod content;
pub mod cost;
pub mod deletion;
pub mod ending;
pub mod hold;
pub(crate) mod object;
pub mod once;
pub mod ownership;
pub mod policy;
#[cfg(test)]
pub(crate) mod scene;
pub mod schedule;
pub mod settled;
mod world;
