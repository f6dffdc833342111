//! What must hold: invariants over every revision of a cluster.
//!
//! A [`History`] is every state a cluster was in, one per revision of its store. Each invariant is
//! one function over it. Nothing here is shared with the operator: should both be wrong, then not
//! in the same way.

pub mod audit;
pub mod broadcast_job;
mod check;
pub mod cron_job;
pub mod daemon_set;
pub mod determinism;
pub mod etcd;
mod failure_policy;
pub mod history;
pub mod hygiene;
mod invariant;
pub mod isolation;
pub mod job;
mod object;
mod quantity;
mod requests;
#[cfg(test)]
mod scene;
pub mod silence;
mod template;
mod verdict;
mod writes;

pub use broadcast_job::world::State;
pub use check::{check, check_all};
pub use history::{History, Key, Request, Step};
pub use invariant::Invariant;
pub use verdict::{Assumptions, Checked, Predicate, Report, StepPredicate, Verdict, Violation};
