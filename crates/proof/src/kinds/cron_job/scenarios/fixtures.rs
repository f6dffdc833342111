//! What scenarios of CronJobs are made of.

use carillon_sim::actors::JOB_FATE;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::scenario::{Ends, SECOND, Step, View};

pub(super) use crate::kinds::cron_job::subject::scenario as plain;

/// So many minutes after the run began.
pub(super) fn minutes(minutes: i64) -> Ends {
    Ends::After(SignedDuration::from_mins(minutes))
}

/// A template for Jobs to which this happens, see [`JOB_FATE`].
pub(super) fn jobs_that(fate: &str) -> Value {
    json!({"metadata": {"annotations": {JOB_FATE: fate}}})
}

/// So many seconds after the step before, or after the run began.
pub(super) fn after(seconds: i64, act: fn(&View<'_>)) -> Step {
    Step {
        when: |_| true,
        after: SECOND * seconds as i32,
        act,
    }
}
