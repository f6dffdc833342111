//! BroadcastJobs and their retries.

mod alive;
pub mod amplification;
mod back_off;
mod conditions;
pub mod content;
pub mod counting;
pub mod deletion;
mod desired;
pub(crate) mod eligible;
mod family;
pub mod finalizer;
pub mod liveness;
pub mod once;
pub mod outcome;
pub mod ownership;
pub mod parallelism;
pub mod same_end;
mod standing;
pub mod stopping;
pub mod terminal;
mod window;
pub(crate) mod world;
