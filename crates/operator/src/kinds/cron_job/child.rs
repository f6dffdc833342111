//! What CronJobs start: Jobs of batch/v1, and BroadcastJobs.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::cron_job::{Child, Ended};
use carillon_plan::object_key::JOB;
use jiff::Timestamp;
use serde::Deserialize;

use crate::slim::SlimMeta;
use crate::store::watched;

/// A Job of batch/v1 where only runs of CronJobs matter. See [`SlimJob`](crate::kinds::job::SlimJob).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimNativeJob {
    /// Metadata.
    pub metadata: SlimMeta,
    status: RunStatus,
}

watched!(SlimNativeJob);

/// The part of a status that Jobs and BroadcastJobs have in common.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::kinds) struct RunStatus {
    start_time: Option<Timestamp>,
    completion_time: Option<Timestamp>,
    conditions: Option<Vec<RunCondition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RunCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    last_transition_time: Option<Timestamp>,
}

impl SlimNativeJob {
    /// Whom it concerns, see [`SlimMeta::family`], and what has to be known of it.
    pub fn child(&self) -> Option<(Arc<ObjectKey>, Child)> {
        let family = self.metadata.family(JOB)?;
        Some((family, child(&self.metadata, &self.status)?))
    }
}

/// What has to be known of a run.
pub(in crate::kinds) fn child(meta: &SlimMeta, status: &RunStatus) -> Option<Child> {
    let annotations = meta.annotations.as_ref();
    Some(Child {
        uid: meta.uid()?,
        rv: meta.rv(),
        held: meta.is_held_run(),
        deleting: meta.deletion_timestamp.is_some(),
        retried: false,
        by_hand: annotations.is_some_and(|annotations| annotations.instantiate.is_some()),
        scheduled: annotations
            .and_then(|annotations| annotations.scheduled.as_ref())
            .and_then(|time| time.parse().ok()),
        request: annotations.and_then(|annotations| annotations.run_now.as_deref().map(Box::from)),
        started: status.start_time,
        ended: status.ended(),
    })
}

impl RunStatus {
    fn ended(&self) -> Option<Ended> {
        let conditions = self.conditions.iter().flatten().map(|condition| {
            let words = [&*condition.type_, &*condition.status, &*condition.reason];
            (words, condition.last_transition_time)
        });
        Ended::read(conditions, self.completion_time)
    }
}
