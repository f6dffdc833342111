//! What is done for one object at a time, and how each kind has it done.

pub mod broadcast_job;
mod controller;
pub mod core;
pub mod cron_job;
mod irreproducible;
pub mod job;
mod kind;
mod left_behind;
pub mod orphan_pod;
pub mod refusals;
pub mod relists;
mod replay;
mod rules;
mod served;

pub use self::controller::Controller;
pub use self::irreproducible::Irreproducible;
pub use self::kind::{Follow, Learnt, RulesOf, ServedKind, Synced, Verify};
pub use self::replay::replay;
pub use self::rules::Rules;
pub use self::served::{Build, Running, SERVED, Served};
