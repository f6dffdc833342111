//! CronJob: a Job or a BroadcastJob at the times of a schedule. Takes every manifest of a batch/v1
//! CronJob.

mod dst_policy;
mod schedule;
mod status;
mod templates;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use dst_policy::DstPolicy;
pub use status::{CronJobStatus, MAX_RAN_NOW, RunReference, ScheduleInForce};

/// `spec.successfulJobsHistoryLimit` when it is absent.
pub const DEFAULT_SUCCESSFUL_JOBS_HISTORY_LIMIT: i32 = 3;

/// `spec.failedJobsHistoryLimit` when it is absent.
pub const DEFAULT_FAILED_JOBS_HISTORY_LIMIT: i32 = 1;

/// Characters the name of a CronJob has at most: its jobs append up to 11, and theirs end at 63.
pub const MAX_NAME_LENGTH: usize = 52;

/// `spec.jitterSeconds` at most: a day.
pub const MAX_JITTER_SECONDS: i32 = 86_400;

/// When runs are started, what a run is, and what becomes of those that cannot start in time.
#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "CronJob",
    doc = "CronJob starts a Job or a BroadcastJob at the times of a schedule. It takes every \
           manifest of a batch/v1 CronJob.",
    namespaced,
    shortname = "ccj",
    category = "carillon",
    status = "CronJobStatus",
    printcolumn(
        name = "Schedule",
        type_ = "string",
        json_path = ".spec.schedule",
        description = "When runs are started"
    ),
    printcolumn(
        name = "Timezone",
        type_ = "string",
        json_path = ".spec.timeZone",
        description = "Time zone of the schedule"
    ),
    printcolumn(
        name = "Suspend",
        type_ = "boolean",
        json_path = ".spec.suspend",
        description = "True: no further run is started"
    ),
    printcolumn(
        name = "Active",
        type_ = "integer",
        json_path = ".status.running",
        description = "Runs that have not ended"
    ),
    printcolumn(
        name = "Last-Schedule",
        type_ = "date",
        json_path = ".status.lastScheduleTime",
        description = "Time since the last run was due"
    ),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextScheduleTime",
        description = "When the next run is due"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.summary",
        description = "Scheduled, Suspended, or why the CronJob is stalled"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Missed",
        type_ = "integer",
        json_path = ".status.missedRuns",
        description = "Runs that were due and never started",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].reason"#,
        description = "Reason of the first condition that is true",
        priority = 1
    ),
    printcolumn(
        name = "Concurrency",
        type_ = "string",
        json_path = ".spec.concurrencyPolicy",
        description = "What happens when a run is due while another has not ended",
        priority = 1
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".spec..containers[0].image",
        description = "Image of the first container",
        priority = 1
    ),
    // Only judged on creation: a name cannot be repaired, and an old object must stay deletable.
    validation = Rule::new("oldSelf.hasValue() || self.metadata.name.size() <= 52")
        .message(
            "metadata.name must be no more than 52 characters, because the names of its jobs \
             append 11: choose a shorter name"
        )
        .optional_old_self(true),
    validation = Rule::new(
        "!has(self.spec.broadcastJobTemplate) || !self.metadata.name.contains('.') || \
         oldSelf.hasValue() && has(oldSelf.value().spec.broadcastJobTemplate)"
    )
    .message(
        "metadata.name must not have dots with broadcastJobTemplate, because a BroadcastJob's \
         cannot: choose a name with - instead"
    )
    .optional_old_self(true)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.jobTemplate) != has(self.broadcastJobTemplate)")
        .message(
            "must have exactly one of jobTemplate and broadcastJobTemplate: jobTemplate runs a \
             Job, broadcastJobTemplate a BroadcastJob"
        ),
    validation = Rule::new("!has(self.timeZone) || !self.schedule.contains('TZ')")
        .message(
            "cannot be used together with TZ or CRON_TZ in schedule: remove those from schedule"
        )
        .field_path(".timeZone"),
    validation = Rule::new("self.missedRunPolicy != 'All' || self.concurrencyPolicy != 'Replace'")
        .message(
            "must not be All with concurrencyPolicy Replace, which would start runs only to stop \
             them: set missedRunPolicy: Latest or another concurrencyPolicy"
        )
        .field_path(".missedRunPolicy")
)]
pub struct CronJobSpec {
    /// When runs are started, as in a batch/v1 CronJob: five fields (minute, hour, day of month,
    /// month, day of week, e.g. `30 2 * * mon-fri`), or one of @yearly, @annually, @monthly,
    /// @weekly, @daily, @midnight, @hourly, or `@every` with a duration such as `@every 1h30m`.
    /// 1024 characters at most.
    #[schemars(schema_with = "schedule::schema")]
    pub schedule: String,
    /// Time zone of the schedule by its IANA name, e.g. Europe/Berlin. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schedule::time_zone_schema")]
    pub time_zone: Option<String>,
    /// Seconds, 0 or more, after its time within which a run must be started; after that it counts
    /// as missed. Default: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more seconds; for no deadline leave the field out")
    )]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when a run is due while another has not ended. Allow: both run. Forbid: the new
    /// one waits, or is missed. Replace: the old one is deleted.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    #[schemars(schema_with = "concurrency_policies")]
    pub concurrency_policy: ConcurrencyPolicy,
    /// True: no further run is started; those that run are left alone.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub suspend: bool,
    /// The Job (batch/v1) that is a run: its metadata.labels, metadata.annotations and spec. May be
    /// changed at any time, for later runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "templates::job")]
    pub job_template: Option<Value>,
    /// The BroadcastJob that is a run, in place of jobTemplate: its metadata.labels,
    /// metadata.annotations and spec. May be changed at any time, for later runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "templates::broadcast_job")]
    pub broadcast_job_template: Option<Value>,
    /// Runs that succeeded of which the jobs are kept, 0 or more.
    #[serde(
        default = "default_successful_jobs_history_limit",
        deserialize_with = "successful_jobs_history_limit"
    )]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; 0 means that none is kept")
    )]
    pub successful_jobs_history_limit: i32,
    /// Runs that failed of which the jobs are kept, 0 or more.
    #[serde(
        default = "default_failed_jobs_history_limit",
        deserialize_with = "failed_jobs_history_limit"
    )]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; 0 means that none is kept")
    )]
    pub failed_jobs_history_limit: i32,
    /// Every run starts this much later at most, 0 to 86400 seconds: each CronJob by its own share,
    /// always the same. Keeps those with one schedule from starting all at once. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0 && self <= 86400")
            .message("must be 0 to 86400 seconds, which is a day")
    )]
    pub jitter_seconds: Option<i32>,
    /// What happens to runs that could not be started in time (suspended, operator down, another
    /// run in the way) once one can. Latest: the last of them is started. Skip: none of them. All:
    /// each of them, oldest first. startingDeadlineSeconds applies in any case.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub missed_run_policy: MissedRunPolicy,
    /// What happens when clocks change. AsWritten: a time that comes twice has two runs, one that does
    /// not come has none. Once: one run, and those that do not come have one together, at the first
    /// instant after the change.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub dst_policy: DstPolicy,
}

/// What happens when a run is due while another has not ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
    #[serde(alias = "")]
    Allow,
    /// The new one waits, or is missed.
    Forbid,
    /// The old one is deleted.
    Replace,
}

/// What happens to runs that could not be started in time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum MissedRunPolicy {
    /// The last of them is started.
    #[default]
    Latest,
    /// None of them is started.
    Skip,
    /// Each of them is started, oldest first.
    All,
}

/// The native kind takes the empty word for the default, and templating tools write it.
fn concurrency_policies(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Allow", "Forbid", "Replace", ""]})
}

fn default_successful_jobs_history_limit() -> i32 {
    DEFAULT_SUCCESSFUL_JOBS_HISTORY_LIMIT
}

fn default_failed_jobs_history_limit() -> i32 {
    DEFAULT_FAILED_JOBS_HISTORY_LIMIT
}

fn successful_jobs_history_limit<'de, D: Deserializer<'de>>(field: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(field)?.unwrap_or(DEFAULT_SUCCESSFUL_JOBS_HISTORY_LIMIT))
}

fn failed_jobs_history_limit<'de, D: Deserializer<'de>>(field: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(field)?.unwrap_or(DEFAULT_FAILED_JOBS_HISTORY_LIMIT))
}
