//! What must hold: invariants over every revision of a cluster.
//!
//! A [`History`] is every state a cluster was in, one per revision of its store. Each invariant is
//! one function over it. Nothing here is shared with the operator: should both be wrong, then not
//! in the same way.

pub mod history;

pub use history::{History, Key, Request, Step};
