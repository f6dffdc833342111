//! What is done for one object at a time, and how each kind has it done.

pub mod broadcast_job;
mod controller;
pub mod core;
pub mod cron_job;
pub mod job;
mod kind;
mod left_behind;
pub mod orphan_pod;
pub mod refusals;
pub mod relists;
mod replay;
mod served;

pub use self::controller::Controller;
pub use self::kind::{Follow, Learnt, RulesOf, ServedKind, Synced, Verify};
pub use self::replay::{Irreproducible, replay};
pub use self::served::{Build, Running, SERVED, Served};

/// What decides, for each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Of BroadcastJobs.
    pub broadcast_job: broadcast_job::Rules,
    /// Of CronJobs.
    pub cron_job: cron_job::Rules,
    /// Of Jobs.
    pub job: job::Rules,
}
