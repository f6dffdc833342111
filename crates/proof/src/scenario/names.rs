//! Names that are the same in every scenario.

/// Namespace of every scenario.
pub const NAMESPACE: &str = "work";
/// Name of every scenario's job.
pub const JOB: &str = "job";
/// Name of every scenario's CronJob.
pub const CRON: &str = "cron";
