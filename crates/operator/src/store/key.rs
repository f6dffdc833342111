//! Whom a change concerns: an object, and the controller that looks after it.

use std::sync::Arc;

use carillon_plan::ObjectKey;

/// Names of controllers, in logs, metrics and flags.
pub mod controller {
    /// Of BroadcastJobs.
    pub const BROADCAST_JOB: &str = "broadcastjob";
    /// Of CronJobs of both APIs.
    pub const CRON_JOB: &str = "cronjob";
    /// Of Jobs of batch/v1.
    pub const JOB: &str = "job";
    /// Of pods of no Job.
    pub const ORPHAN_POD: &str = "job_orphan_pod";
}

/// An object that a controller looks after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Key {
    /// A BroadcastJob.
    BroadcastJob(Arc<ObjectKey>),
    /// A CronJob, of carillon.dev or of batch/v1.
    CronJob(Arc<ObjectKey>),
    /// A Job of batch/v1.
    Job(Arc<ObjectKey>),
    /// A pod of none.
    OrphanPod(Arc<ObjectKey>),
}

impl Key {
    /// The controller that looks after it.
    pub fn controller(&self) -> &'static str {
        match self {
            Self::BroadcastJob(_) => controller::BROADCAST_JOB,
            Self::CronJob(_) => controller::CRON_JOB,
            Self::Job(_) => controller::JOB,
            Self::OrphanPod(_) => controller::ORPHAN_POD,
        }
    }

    /// The object.
    pub fn object(&self) -> &Arc<ObjectKey> {
        match self {
            Self::BroadcastJob(key)
            | Self::CronJob(key)
            | Self::Job(key)
            | Self::OrphanPod(key) => key,
        }
    }
}

/// Which object a change concerns, and whether it can wait for others of its kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Wake {
    /// At once.
    Now(Key),
    /// Together with what else happens within the batch period.
    Soon(Key),
}
