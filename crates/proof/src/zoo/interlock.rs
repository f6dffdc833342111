//! An interlock that only looks on.

use std::cell::Cell;

use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::interlock::{self, Trip};
use carillon_plan::{cron_job, job};
use jiff::Timestamp;

thread_local! {
    pub(super) static TRIPPED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The interlock, which is heard and not obeyed: what comes of the plan is for the oracle to find.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
pub(super) fn look_on(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    if let Err(trip) = interlock::broadcast_job::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}

/// The same of CronJobs.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
pub(super) fn look_on_runs(
    snapshot: &cron_job::Snapshot<'_>,
    plan: &cron_job::action::Plan,
    now: Timestamp,
) -> Result<(), Trip> {
    if let Err(trip) = interlock::cron_job::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}

/// The same of Jobs.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
pub(super) fn look_on_jobs(
    snapshot: &job::Snapshot<'_>,
    plan: &job::action::Plan,
    now: Timestamp,
) -> Result<(), Trip> {
    if let Err(trip) = interlock::job::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}
