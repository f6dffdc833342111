//! What a manifest would do on many nodes: the real operator works in a simulated cluster, whose clock jumps from one
//! event to the next.
//!
//! Planner, records, writes and their order are those of production. Nodes, containers and the API server are not:
//! see [`Assumptions`].

mod api_server;
mod assumptions;
mod attempts;
mod distribution;
mod live_pods;
mod named;
mod nodes;
mod report;
mod run;
mod share;
mod subject;
mod unknown_fields;

pub use self::assumptions::Assumptions;
pub use self::distribution::Distribution;
pub use self::nodes::{generate, like};
pub use self::report::{AtLimit, End, Node, Report, Requests, Sample};
pub use self::run::run;
pub use self::share::Share;
