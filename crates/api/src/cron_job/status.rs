//! What a CronJob has done so far.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dst_policy::DstPolicy;

/// Values `status.handledRunNow` holds at most.
pub const MAX_RAN_NOW: usize = 10;

/// What the CronJob has done so far.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobStatus {
    /// `metadata.generation` this status was computed for.
    #[serde(
        default,
        deserialize_with = "crate::observed_generation::read",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// Scheduled: runs are started when the schedule says so. Stalled: it needs a person. RequestIgnored: an
    /// annotation that asks for a run cannot be read.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Runs that have not ended. One without a uid is promised: it is about to be created.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub active: Vec<RunReference>,
    /// Number of runs in `active`, for kubectl's table.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub running: i32,
    /// Scheduled, Suspended, or why the CronJob is stalled (`Stalled: UnknownTimeZone`), for kubectl's
    /// table.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub summary: String,
    /// Time of the schedule for which a run was last started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When a run last ended successfully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// When a run last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_time: Option<Time>,
    /// When the next run is due. Absent while none will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// Runs that were due and never started.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "is_zero"
    )]
    pub missed_runs: i64,
    /// Time of the schedule up to which missed runs are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_missed_time: Option<Time>,
    /// The schedule that runs are started by, and since when: an edit is no reason to make up for times
    /// before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_in_force: Option<ScheduleInForce>,
    /// The last words of the annotation `carillon.dev/run-now` for which a run was started (what stands
    /// there after the uid), at most 10, oldest first.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub handled_run_now: Vec<String>,
}

/// A schedule as it was when its edit was seen.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleInForce {
    /// `spec.schedule`.
    pub schedule: String,
    /// `spec.timeZone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// `spec.dstPolicy`.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub dst_policy: DstPolicy,
    /// Times of it after this one have a run or are counted as missed; earlier ones are not its own.
    pub since: Time,
}

/// The Job or BroadcastJob of a run.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReference {
    /// `batch/v1` or `carillon.dev/v1alpha1`.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub api_version: String,
    /// Job or BroadcastJob.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub kind: String,
    /// Namespace of the CronJob.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub namespace: String,
    /// Name of the job.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub name: String,
    /// Uid of the job. Absent: the job is promised, and was not seen yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// resourceVersion of the job when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(value: &i64) -> bool {
    *value == 0
}
