//! Every state that a small world can get into: a few nodes, two leaders, old views, a crash.
//!
//! The planner is the real one. Around it is a model of everything else: the store, the scheduler
//! and kubelets, a user, and two leaders that both believe to lead, always. Neither the gate nor
//! the lease nor the life of a plan is modelled: safety must not rest on them.
//!
//! Each plan is made from any mixture of versions: of each kind (job, slices, pods, nodes) one of
//! those that there were, whatever the leader saw before. So every plan is one after a stale
//! restart. A plan may rest for as long as it likes between two of its requests, and be dropped
//! at any of them. That a plan rests before its first request need not be tried: made later
//! from the same old versions it is the same plan.
//!
//! A state is a handful of numbers: whatever is larger (a slice, the set of pods, the rest of a
//! plan) is kept once and called by its number. The search is breadth-first, so that the first
//! violation found has a shortest path.

mod api_server;
mod digest;
mod explore;
mod finish;
mod intern;
mod law;
mod leader;
mod model;
pub mod mutant;
mod names;
mod outcome;
mod path;
mod plan;
mod request;
mod store;
#[cfg(test)]
mod tests;
mod turn;
mod violation;
mod world;
pub mod worlds;

pub use self::explore::{Limits, explore};
pub use self::outcome::{Finding, Outcome};
pub use self::path::{PathStep, replay};
pub use self::violation::Violation;
pub use self::world::{Budget, Planner, Server, World};
