//! What should happen: a snapshot and the time go in, a plan comes out.
//!
//! Everything here is pure and total. There is no client, no clock, no randomness and no hidden
//! state, so the same snapshot always gives the same plan, and a decision made in production can
//! be repeated in a test. Bad input ends as a condition with a reason, never as an error.

// No clock, no environment, no order of a hash map: `clippy.toml` has what is forbidden, tests aside.
#![cfg_attr(not(test), warn(clippy::iter_over_hash_type))]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod broadcast_job;
mod claim;
pub mod condition;
pub mod cron_job;
pub mod daemon_set;
pub mod digest;
pub mod eligibility;
pub mod failure_rules;
#[cfg(test)]
mod fuzz;
pub mod interlock;
pub mod job;
pub mod left_behind;
pub mod max_failed_nodes;
pub mod meta;
pub mod name;
pub mod node;
mod nodes_by_reason;
pub mod object;
pub mod object_key;
pub mod parallelism;
pub mod placement;
pub mod plan;
pub mod pod;
pub mod pod_body;
pub mod printable;
pub mod quantity;
pub mod record;
pub mod record_index;
pub mod schedule;
pub mod selector;
pub mod uid;
pub mod view;
pub mod written;

pub use object_key::ObjectKey;
pub use plan::{Act, Note, OnError, Plan, Step};
pub use uid::Uid;
pub use written::Written;
