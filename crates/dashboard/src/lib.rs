//! What a person watches: the cluster as pages, live.
//!
//! [`cluster`] keeps what is looked at, by watches that all readers share. [`page`] makes pages of it, with the
//! views of `carillon-plan`. [`server`] serves them to a browser on loopback.

pub mod actions;
pub mod cluster;
pub mod decisions;
pub mod page;
pub mod server;
