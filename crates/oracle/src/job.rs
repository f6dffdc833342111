//! Jobs of batch/v1 that the operator serves in the place of kube-controller-manager.
//!
//! The part that each invariant has about them. Jobs that others serve are not judged.

pub mod content;
pub mod cost;
pub mod counting;
pub mod deletion;
mod indexes;
pub(crate) mod object;
pub mod once;
pub mod ownership;
pub mod parallelism;
#[cfg(test)]
pub(crate) mod scene;
pub mod settled;
pub mod status_rules;
pub mod stopping;
pub mod terminal;
pub mod tracking;
mod world;
