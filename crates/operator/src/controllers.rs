//! One file per kind: gate, snapshot, plan, apply for one object at a time.

mod after_deletion;
pub mod broadcast_job;
pub mod core;
pub mod cron_job;
pub mod job;
pub mod orphan_pod;
pub mod refusals;
pub mod relists;
mod replay;

pub use self::replay::Irreproducible;

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
