//! What does happen: the process `carillon` watches, gates, plans and applies.
//!
//! Data goes one way: watch → gate → snapshot → plan → apply → status, and back through watch.
//! Decisions are `carillon-plan`'s; an `if` about a spec does not belong here.

pub mod apply;
pub mod args;
pub mod check;
pub mod clock;
pub mod controllers;
pub mod event;
pub mod fence;
pub mod flight_recorder;
#[cfg(test)]
mod fuzz;
pub mod gate;
pub mod http;
pub mod instance;
pub mod kinds;
pub mod lease;
pub mod metrics;
pub mod parts;
pub mod protobuf;
pub mod queue;
pub mod request;
pub mod run;
pub mod share;
pub mod slim;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod watch;
pub mod writes;
