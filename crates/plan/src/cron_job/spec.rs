//! A stored CronJob as the planner reads it: total, whatever was stored.

use std::sync::Arc;

use carillon_api::cron_job::ScheduleInForce;
use carillon_api::{ConcurrencyPolicy, CronJobStatus, DstPolicy, MissedRunPolicy};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::child::ChildKind;
use crate::condition::whole_seconds;
use crate::meta::Meta;
use crate::name;
use crate::object_key::{ApiKind, CRON_JOB, NATIVE_CRON_JOB, ObjectKey};
use crate::schedule::{Schedule, zone};
use crate::written::Written;

/// Whose CronJob it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Api {
    /// `carillon.dev/v1alpha1`.
    #[default]
    Carillon,
    /// `batch/v1`: behaves as with kube-controller-manager, and its status has only what that writes.
    Native,
}

impl Api {
    /// That of an object.
    pub fn of(key: &ObjectKey) -> Self {
        let native = (key.api_version, key.kind) == NATIVE_CRON_JOB;
        if native { Self::Native } else { Self::Carillon }
    }

    /// `apiVersion` and `kind` of its CronJobs.
    pub fn kind(self) -> ApiKind {
        match self {
            Self::Carillon => CRON_JOB,
            Self::Native => NATIVE_CRON_JOB,
        }
    }
}

/// A CronJob.
#[derive(Clone, Debug)]
pub struct CronJob {
    /// Its metadata.
    pub meta: Meta,
    /// Whose it is.
    pub api: Api,
    /// Value of the annotation `carillon.dev/run-now`.
    pub run_now: Option<String>,
    /// When it runs, or why that cannot be told.
    pub timetable: Result<Arc<Schedule>, Unusable>,
    /// `spec.schedule`, as written.
    pub written: String,
    /// `spec.timeZone`.
    pub zone: Option<String>,
    /// `spec.dstPolicy`.
    pub dst: DstPolicy,
    /// `startingDeadlineSeconds`.
    pub deadline: Option<SignedDuration>,
    /// What a run means for those before it.
    pub concurrency: ConcurrencyPolicy,
    /// Which missed runs are made up for.
    pub missed: MissedRunPolicy,
    /// Nothing is started by schedule.
    pub suspended: bool,
    /// How much later than its schedule this CronJob runs: its share of `jitterSeconds`, the same
    /// for ever.
    pub offset: SignedDuration,
    /// What a run is.
    pub child: ChildKind,
    /// `jobTemplate` or `broadcastJobTemplate`, as written.
    pub template: Written,
    /// How many children that completed are kept; `None`: all.
    pub keep_complete: Option<usize>,
    /// How many children that failed are kept; `None`: all.
    pub keep_failed: Option<usize>,
    /// The stored status.
    pub status: CronJobStatus,
}

/// Why a CronJob has no timetable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unusable {
    /// There is no such zone.
    TimeZone(String),
    /// The schedule means nothing.
    Schedule(String),
}

impl CronJob {
    /// Reads a stored object. What is missing has its default; what cannot be used makes the
    /// timetable unusable, with field, value and remedy.
    pub fn read(meta: Meta, run_now: Option<String>, spec: &Value, status: &Value) -> Self {
        let text = |field: &str| spec.get(field).and_then(Value::as_str);
        let number = |field: &str| spec.get(field).and_then(Value::as_i64);
        let written = text("schedule").unwrap_or_default();
        let zone = text("timeZone").map(str::to_owned);
        let dst = match text("dstPolicy") {
            Some("Once") => DstPolicy::Once,
            _ => DstPolicy::AsWritten,
        };
        let (child, template) = match spec.get("broadcastJobTemplate") {
            Some(template) if template.is_object() => (ChildKind::BroadcastJob, template),
            _ => (
                ChildKind::Job,
                spec.get("jobTemplate").unwrap_or(&Value::Null),
            ),
        };
        let keep = |field| number(field).map(|limit| usize::try_from(limit).unwrap_or(0));
        let offset = share(&meta, number("jitterSeconds").unwrap_or(0));
        Self {
            timetable: timetable(written, zone.as_deref(), dst),
            written: written.to_owned(),
            zone,
            dst,
            deadline: number("startingDeadlineSeconds").map(SignedDuration::from_secs),
            concurrency: match text("concurrencyPolicy") {
                Some("Forbid") => ConcurrencyPolicy::Forbid,
                Some("Replace") => ConcurrencyPolicy::Replace,
                _ => ConcurrencyPolicy::Allow,
            },
            missed: match text("missedRunPolicy") {
                Some("Skip") => MissedRunPolicy::Skip,
                Some("All") => MissedRunPolicy::All,
                _ => MissedRunPolicy::Latest,
            },
            suspended: spec.get("suspend") == Some(&Value::Bool(true)),
            offset,
            child,
            template: template.into(),
            keep_complete: keep("successfulJobsHistoryLimit"),
            keep_failed: keep("failedJobsHistoryLimit"),
            status: stored(status),
            api: Api::of(&meta.owner),
            run_now,
            meta,
        }
    }

    /// The same with another status, and metadata of the same object.
    #[must_use]
    pub fn later(&self, meta: Meta, run_now: Option<String>, status: &Value) -> Self {
        Self {
            status: stored(status),
            meta,
            run_now,
            ..self.clone()
        }
    }

    /// The schedule of the spec, as it is noted in the status.
    pub(super) fn in_force(&self, since: Timestamp) -> ScheduleInForce {
        ScheduleInForce {
            schedule: self.written.clone(),
            time_zone: self.zone.clone(),
            dst_policy: self.dst,
            since: whole_seconds(since),
        }
    }

    /// Up to when it is decided what became of each tick.
    pub fn decided_until(&self, status: &CronJobStatus) -> Timestamp {
        let last = [&status.last_schedule_time, &status.last_missed_time];
        let last = last.into_iter().flatten().map(|time| time.0).max();
        let noted = status.schedule_in_force.as_ref();
        match noted.map_or(self.meta.created, |noted| noted.since.0) {
            _ if self.is_native() => last.unwrap_or(self.meta.created),
            since => since.max(last.unwrap_or(since)),
        }
    }

    /// Its own clock: the machine's, less its share of the jitter. A tick is due when this has reached it.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        now.checked_sub(self.offset).unwrap_or(now)
    }

    /// Whether it is served as kube-controller-manager would.
    pub fn is_native(&self) -> bool {
        self.api == Api::Native
    }
}

/// The status, or of one that cannot be read what can.
fn stored(status: &Value) -> CronJobStatus {
    CronJobStatus::deserialize(status).unwrap_or_else(|_| {
        let fields = status.as_object().into_iter().flatten();
        let fields = fields.map(|(key, value)| json!({key: value}));
        let sound = fields.filter(|field| CronJobStatus::deserialize(field).is_ok());
        let sound = sound
            .filter_map(|field| field.as_object().cloned())
            .flatten();
        serde_json::from_value(Value::Object(sound.collect())).unwrap_or_default()
    })
}

/// The timetable of a schedule as it was written.
pub(super) fn timetable(
    written: &str,
    zone: Option<&str>,
    dst: DstPolicy,
) -> Result<Arc<Schedule>, Unusable> {
    let zone = zone.map(zone::load).transpose();
    let zone = zone.map_err(|error| Unusable::TimeZone(format!("spec.timeZone: {error}")))?;
    let schedule = Schedule::parse(written)
        .map_err(|error| Unusable::Schedule(format!("spec.schedule: {error}")))?;
    let schedule = match zone {
        Some(zone) => schedule.in_zone(zone),
        None => schedule,
    };
    Ok(Arc::new(match dst {
        DstPolicy::AsWritten => schedule,
        DstPolicy::Once => schedule.once_per_wall_clock(),
    }))
}

/// The same for one object for ever, and spread evenly over many.
fn share(meta: &Meta, jitter: i64) -> SignedDuration {
    let Ok(jitter) = u64::try_from(jitter) else {
        return SignedDuration::ZERO;
    };
    let bits = name::bits(&Sha256::digest(meta.owner.uid.to_string()));
    SignedDuration::from_secs((bits % (jitter + 1)) as i64)
}
