//! DaemonSets of carillon.dev.
//!
//! The part that each invariant has about them. Native ones are not judged here.

pub mod budget;
pub mod once;
pub mod ownership;
pub mod revisions;
pub mod settled;
pub mod stopping;
pub(crate) mod world;
