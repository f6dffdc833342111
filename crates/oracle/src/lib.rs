//! What must hold: invariants over every revision of a cluster.
//!
//! A [`History`] is every state a cluster was in, one per revision of its store. Each invariant is
//! one function over it. Nothing here is shared with the operator: should both be wrong, then not
//! in the same way.

mod alive;
pub mod amplification;
pub mod audit;
mod back_off;
mod check;
pub mod content;
pub mod counting;
pub mod cron_job;
pub mod deletion;
mod desired;
pub mod determinism;
mod eligible;
pub mod etcd;

mod failure_policy;
mod family;
pub mod finalizer;
pub mod history;
pub mod hygiene;
mod invariant;
pub mod isolation;
pub mod job;
mod judge;
pub mod liveness;
mod object;
pub mod once;
pub mod outcome;
pub mod ownership;
pub mod parallelism;
mod requests;
pub mod same_end;
#[cfg(test)]
mod scene;
pub mod silence;
mod standing;
pub mod stopping;
pub mod terminal;
mod window;
mod world;

pub use check::{check, check_all};
pub use history::{History, Key, Request, Step};
pub use invariant::Invariant;
pub use judge::{Assumptions, Checked, Predicate, Report, StepPredicate, Verdict, Violation};
pub use world::State;
