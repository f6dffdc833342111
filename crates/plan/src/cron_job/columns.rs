//! What kubectl's columns ACTIVE and STATUS show. They follow from the rest of the status.

use carillon_api::CronJobStatus;
use carillon_api::condition::types;

use crate::condition;

/// Sets `status.running` and `status.summary` of a CronJob of carillon.dev.
pub(crate) fn fill(status: &mut CronJobStatus) {
    status.running = status.active.len() as i32;
    let scheduled = || condition::find(&status.conditions, types::SCHEDULED);
    let reason = || scheduled().map(|scheduled| scheduled.reason.clone());
    let summary = condition::stalled(&status.conditions).or_else(reason);
    status.summary = summary.unwrap_or_default();
}
