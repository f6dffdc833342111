//! What the conditions of a CronJob of carillon.dev say.

use carillon_api::CronJobStatus;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use super::request::Asked;
use super::spec::{CronJob, Unusable};
use crate::condition;

/// Why nothing will run by schedule; `None` when it will. A time is looked for after each of `from`.
pub(super) fn obstacle(cron: &CronJob, from: [Timestamp; 2]) -> Option<(&'static str, String)> {
    let schedule = match &cron.timetable {
        Err(Unusable::TimeZone(error)) => return Some((reasons::UNKNOWN_TIME_ZONE, error.clone())),
        _ if cron.suspended => {
            let message = "spec.suspend is true; set it to false to go on".to_owned();
            return Some((reasons::SUSPENDED, message));
        }
        Err(Unusable::Schedule(error)) => return Some((reasons::INVALID_SCHEDULE, error.clone())),
        Ok(schedule) => schedule,
    };
    let never = from.iter().all(|from| schedule.next(*from).is_none());
    never.then(|| {
        let message = "spec.schedule: no time matches it; look at day of month and month";
        (reasons::NEVER_FIRES, message.to_owned())
    })
}

/// Sets them. `rests` is when the status allows the next run at the earliest, where that is far off.
pub(super) fn set(
    cron: &CronJob,
    status: &mut CronJobStatus,
    obstacle: Option<&(&'static str, String)>,
    problem: Option<(&str, &str)>,
    rests: Option<Timestamp>,
    now: Timestamp,
) {
    let generation = cron.meta.generation;
    let conditions = &mut status.conditions;
    let message = rests.map_or_else(String::new, |until| {
        format!(
            "no run is started before {until}: up to then status says what became of each; if a \
             wrong clock wrote that, create the CronJob anew"
        )
    });
    let mut set = |type_, on, reason: &str, message: &str| {
        condition::set(conditions, type_, on, reason, message, generation, now);
    };
    match obstacle {
        Some((reason, message)) => set(types::SCHEDULED, false, reason, message),
        None => set(types::SCHEDULED, true, reasons::SCHEDULED, &message),
    }
    // Somebody has to act, or nothing will ever run. To be suspended is somebody's wish.
    let stalled = obstacle
        .filter(|(reason, _)| *reason != reasons::SUSPENDED)
        .map(|(reason, message)| (*reason, message.as_str()))
        .or(problem);
    let was = |type_| condition::is_true(&cron.status.conditions, type_);
    match stalled {
        Some((reason, message)) => set(types::STALLED, true, reason, message),
        None if was(types::STALLED) => set(types::STALLED, false, reasons::RESUMED, ""),
        None => {}
    }
    let ignored = types::REQUEST_IGNORED;
    match cron.asked() {
        Asked::Unreadable(said) => set(ignored, true, reasons::UNREADABLE_REQUEST, &said),
        _ if was(ignored) => set(ignored, false, reasons::NOTHING_IGNORED, ""),
        _ => {}
    }
    // kubectl shows the reason of the first that is true.
    conditions.sort_by_key(|condition| condition.type_ != types::STALLED);
}
