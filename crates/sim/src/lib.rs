//! What would happen: an in-memory API server, scheduler, kubelet and clock.
//!
//! [`Server`] answers as a Kubernetes API server does, on tokio's clock, and keeps every revision.
//! [`Client`] is a `tower` service in front of it, with [`faults`]; [`Actor`] is a user, a scheduler
//! or a kubelet that acts at once. Where it differs from a real API server, it is wrong: a test
//! sends the same requests to both.

mod actor;
pub mod actors;
mod call;
mod changes;
mod client;
mod clock;
mod kind;
mod patch;
mod selector;
mod server;
mod status;
mod store;

pub use actor::{Actor, Delete, Propagation};
pub use call::Call;
pub use changes::Changes;
pub use client::{Client, Gate, ResponseBody, faults};
pub use clock::Clock;
pub use kind::Kind;
pub use server::{Admission, Server};
pub use status::Status;
