//! CronJobs.

use super::Scenario;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario::of_cron_job("each tick starts a job")]
}
