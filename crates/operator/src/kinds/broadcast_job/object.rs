//! BroadcastJobs.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::Written;
use carillon_plan::broadcast_job::{BroadcastJob, Requests};
use carillon_plan::cron_job::Child;
use carillon_plan::object_key::BROADCAST_JOB;
use serde::Deserialize;

use crate::kinds::cron_job::child::{RunStatus, child};
use crate::slim::{KEPT_BYTES, SlimMeta};
use crate::store::watched;

/// A BroadcastJob: few, and read whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimBroadcastJob {
    /// Metadata.
    pub metadata: SlimMeta,
    spec: Written,
    status: Written,
}

watched!(SlimBroadcastJob);

impl SlimBroadcastJob {
    /// The job as the planner reads it.
    pub fn job(&self) -> Option<BroadcastJob> {
        let meta = self.metadata.meta(BROADCAST_JOB)?;
        let annotations = self.metadata.annotations.as_ref();
        let requests = Requests {
            resume: annotations.and_then(|annotations| annotations.resume.clone()),
            retry: annotations.and_then(|annotations| annotations.retry.clone()),
        };
        let job = BroadcastJob::read(meta, requests, &self.spec.value(), &self.status.value());
        let template = job.template.at_most(KEPT_BYTES);
        Some(BroadcastJob { template, ..job })
    }

    /// Whom it concerns as a run, see [`SlimMeta::family`], and what has to be known of it.
    pub fn child(&self) -> Option<(Arc<ObjectKey>, Child)> {
        // Most are nobody's run.
        let family = self.metadata.family(BROADCAST_JOB)?;
        let status: RunStatus = self.status.read();
        Some((family, child(&self.metadata, &status)?))
    }
}
