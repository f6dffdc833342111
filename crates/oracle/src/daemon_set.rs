//! DaemonSets of carillon.dev, and those of apps/v1 where we serve them.
//!
//! The part that each invariant has about them.

pub mod budget;
pub mod content;
pub mod cost;
pub mod hook;
pub mod once;
pub mod ownership;
pub mod revisions;
#[cfg(test)]
mod scene;
pub mod settled;
pub mod stopping;
mod told;
pub mod world;
