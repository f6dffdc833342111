//! What must hold: invariants over every revision of a cluster.
//!
//! A [`History`] is every state a cluster was in, one per revision of its store. Each invariant is
//! one function over it. Nothing here is shared with the operator: should both be wrong, then not
//! in the same way.

pub mod counting;
mod desired;
mod eligible;
pub mod history;
mod invariant;
mod judge;
mod object;
pub mod once;
pub mod parallelism;
#[cfg(test)]
mod scene;
pub mod terminal;
mod world;

pub use history::{History, Key, Request, Step};
pub use invariant::{Invariant, check, check_all};
pub use judge::{Assumptions, Checked, Predicate, Report, Verdict, Violation};
pub use world::State;
