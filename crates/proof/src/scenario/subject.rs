//! The kinds that scenarios are about.

/// What a scenario is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject {
    /// A BroadcastJob.
    BroadcastJob,
    /// A CronJob of carillon.dev.
    CronJob,
    /// A CronJob of batch/v1.
    NativeCronJob,
    /// A Job of batch/v1 that names us as its controller.
    Job,
    /// A Job of batch/v1 that names nobody, in a cluster without another controller for it.
    NativeJob,
}

impl Subject {
    /// The resource it is of.
    pub fn resource(self) -> &'static str {
        match self {
            Self::BroadcastJob => "broadcastjobs.carillon.dev",
            Self::CronJob => "cronjobs.carillon.dev",
            Self::NativeCronJob => "cronjobs.batch",
            Self::Job | Self::NativeJob => "jobs.batch",
        }
    }

    /// Whether it is a Job of batch/v1.
    pub fn is_job(self) -> bool {
        matches!(self, Self::Job | Self::NativeJob)
    }

    /// Whether it starts runs.
    pub fn is_cron_job(self) -> bool {
        matches!(self, Self::CronJob | Self::NativeCronJob)
    }
}
