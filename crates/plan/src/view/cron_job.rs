//! What people ask about a CronJob: when it runs, what clock changes do to that, what its runs were
//! like, and what to write to start, stop or resume it.

pub mod clock_change;
pub mod month;
pub mod next;
pub mod overlap;
pub mod progress;
pub mod read;
pub mod runs;
pub mod suspend;
pub mod trigger;

pub(super) mod foresee;

#[cfg(test)]
mod samples;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

use self::read::StoredCron;
use crate::cron_job::{Api, Unusable};
use crate::schedule::Schedule;

/// The name of a zone, as people know it.
pub fn zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) if !zone.is_unknown() => name.to_owned(),
        None if !zone.is_unknown() => "local".to_owned(),
        // A machine without a zone is on UTC.
        _ => "UTC".to_owned(),
    }
}

/// RFC 3339 with the offset of a zone.
pub(super) fn local(time: Timestamp, zone: &TimeZone) -> String {
    let local = time.to_zoned(zone.clone());
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// The timetable of a CronJob, or what is wrong with it, in words that name the field.
pub fn timetable(stored: &StoredCron, now: Timestamp) -> Result<&Schedule, String> {
    let schedule = match &stored.cron.timetable {
        Ok(schedule) => schedule,
        Err(Unusable::Schedule(error) | Unusable::TimeZone(error)) => return Err(error.clone()),
    };
    if schedule.next(now).is_none() {
        return Err(format!(
            "spec.schedule: {:?} never comes, no time matches it; look at day of \
             month and month",
            stored.cron.written
        ));
    }
    Ok(schedule)
}

/// From where to step, to meet the ticks after `at`. The phase of `@every` is that of the last
/// decided tick; others have none.
fn step_from(stored: &StoredCron, schedule: &Schedule, at: Timestamp, now: Timestamp) -> Timestamp {
    if !stored.is_every() {
        return at;
    }
    let phase = stored.decided_until().unwrap_or(now);
    if phase <= at {
        return schedule.latest(phase, at).unwrap_or(phase);
    }
    let Some(distance) = schedule.next(phase).map(|next| next.duration_since(phase)) else {
        return phase;
    };
    let distance = distance.as_secs().max(1);
    let back = phase.duration_since(at).as_secs();
    let steps = back / distance + i64::from(back % distance != 0);
    Timestamp::from_second(phase.as_second() - steps * distance).unwrap_or(at)
}

/// As in `cronjob.carillon.dev/NAME`.
pub fn resource(api: Api) -> &'static str {
    match api {
        Api::Carillon => "cronjob.carillon.dev",
        Api::Native => "cronjob.batch",
    }
}

/// `apiVersion` of a CronJob.
pub fn api_version(api: Api) -> &'static str {
    api.kind().0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn write_api<S: Serializer>(api: &Api, to: S) -> Result<S::Ok, S::Error> {
    api_version(*api).serialize(to)
}

/// What a CronJob is called, and what it says about its times.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Heading {
    /// `apiVersion`.
    #[serde(rename = "apiVersion", serialize_with = "write_api")]
    pub api: Api,
    /// Namespace.
    pub namespace: String,
    /// Name; empty for a schedule without a CronJob.
    pub name: String,
    /// `spec.schedule`.
    pub schedule: String,
    /// Name of the zone it is evaluated in.
    pub time_zone: String,
    /// `dstPolicy` is Once.
    pub once: bool,
    /// `spec.suspend`: nothing is started by schedule.
    pub suspended: bool,
    /// `spec.jitterSeconds`: every run starts later by a share of it.
    pub jitter_seconds: i64,
    /// That share of this CronJob; absent before it is stored.
    pub delay_seconds: Option<i64>,
}

impl Heading {
    fn of(stored: &StoredCron, schedule: &Schedule) -> Self {
        let owner = &stored.cron.meta.owner;
        Self {
            api: stored.cron.api,
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            schedule: stored.cron.written.clone(),
            time_zone: zone_name(schedule.zone()),
            once: stored.is_once(),
            suspended: stored.cron.suspended,
            jitter_seconds: stored.jitter,
            delay_seconds: stored.exists().then(|| stored.cron.offset.as_secs()),
        }
    }
}
