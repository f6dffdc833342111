//! BroadcastJobs.

use carillon_plan::broadcast_job::{Job, JobMeta};
use carillon_plan::cron_job::Child;
use carillon_plan::{Owner, Uid};
use serde::Deserialize;
use serde_json::Value;

use super::SlimMeta;
use super::child::{RunStatus, child};

/// A BroadcastJob: few, and read whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimBroadcastJob {
    /// Metadata.
    pub metadata: SlimMeta,
    spec: Value,
    status: Value,
}

impl SlimBroadcastJob {
    /// The job as the planner reads it.
    pub fn job(&self) -> Option<Job> {
        let meta = &self.metadata;
        let owner = Owner {
            api_version: carillon_api::names::API_VERSION,
            kind: "BroadcastJob",
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid()?,
        };
        let annotations = meta.annotations.as_ref();
        let meta = JobMeta {
            owner,
            generation: meta.generation,
            rv: meta.rv(),
            deleting: meta.deletion_timestamp.is_some(),
            resume: annotations.and_then(|annotations| annotations.resume.clone()),
            retry: annotations.and_then(|annotations| annotations.retry.clone()),
        };
        Some(Job::read(meta, &self.spec, &self.status))
    }

    /// Whom it concerns as a run, see [`SlimMeta::family`], and what has to be known of it.
    pub fn child(&self) -> Option<(Uid, Child)> {
        // Most are nobody's run.
        let family = self.metadata.family()?;
        let status = RunStatus::deserialize(&self.status).unwrap_or_default();
        Some((family, child(&self.metadata, &status)?))
    }
}
