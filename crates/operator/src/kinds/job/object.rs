//! Jobs of batch/v1, which may be runs of CronJobs.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::Written;
use carillon_plan::cron_job::Child;
use carillon_plan::job::{Job, Spec, is_ours};
use carillon_plan::object_key::JOB;
use k8s_openapi::api::batch::v1::JobStatus;
use serde::Deserialize;

use crate::kinds::cron_job::child::{RunStatus, child};
use crate::slim::{KEPT_BYTES, SlimMeta};
use crate::store::watched;

/// A Job, read whole. Where Jobs are not served a [`SlimNativeJob`](crate::kinds::cron_job::SlimNativeJob) is read instead.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimJob {
    /// Metadata.
    pub metadata: SlimMeta,
    spec: Written,
    status: Written,
}

watched!(SlimJob);

/// Who is to serve a Job.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    managed_by: Option<String>,
}

impl SlimJob {
    /// As [`SlimNativeJob::child`](crate::kinds::cron_job::SlimNativeJob::child).
    pub fn child(&self) -> Option<(Arc<ObjectKey>, Child)> {
        let family = self.metadata.family(JOB)?;
        let status: RunStatus = self.status.read();
        Some((family, child(&self.metadata, &status)?))
    }

    /// The Job as the planner reads it; of one that is not ours (`native`: see [`is_ours`]) only that
    /// it is there, and whose it is.
    pub fn job(&self, native: bool) -> Option<Job> {
        let meta = self.metadata.meta(JOB)?;
        let Managed { managed_by } = self.spec.read();
        if is_ours(managed_by.as_deref(), native) {
            let job = Job::read_written(meta, &self.spec, &self.status);
            let template = job.template.at_most(KEPT_BYTES);
            return Some(Job { template, ..job });
        }
        let spec = Spec {
            managed_by,
            ..Spec::default()
        };
        Some(Job {
            meta,
            spec,
            template: Written::default(),
            status: JobStatus::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::cron_job::child::SlimNativeJob;
    use carillon_plan::job::MANAGED_BY;
    use serde_json::json;

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    #[test]
    fn a_job_is_read_with_its_template_as_written_and_with_its_status() {
        let object = json!({
            "metadata": {"name": "sum", "namespace": "ops", "uid": UID, "resourceVersion": "41",
                "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"parallelism": 3, "template": {"spec": {"later": [1]}}},
            "status": {"active": 2, "later": true},
        });
        let read: SlimJob = serde_json::from_value(object).unwrap();
        let job = read.job(true).unwrap();
        let meta = &job.meta;
        assert_eq!((meta.generation, meta.rv, meta.deleting), (2, 41, false));
        let owner = &meta.owner;
        assert_eq!((owner.api_version, owner.kind), ("batch/v1", "Job"));
        assert_eq!((job.spec.parallelism, job.status.active), (3, Some(2)));
        assert_eq!(job.template.value(), json!({"spec": {"later": [1]}}));
        assert!(read.child().is_none());
    }

    #[test]
    fn of_a_job_that_is_not_ours_little_is_kept() {
        for (native, managed_by, kept) in [
            (true, None, true),
            (false, None, false),
            (false, Some(MANAGED_BY), true),
            (true, Some("example.com/other"), false),
        ] {
            let object = json!({
                "metadata": {"name": "sum", "namespace": "ops", "uid": UID, "resourceVersion": "41"},
                "spec": {"managedBy": managed_by, "template": {"spec": {}}},
            });
            let read: SlimJob = serde_json::from_value(object).unwrap();
            let job = read.job(native).unwrap();
            assert_eq!(
                job.template.value().is_object(),
                kept,
                "{native} {managed_by:?}"
            );
            assert_eq!(
                (job.meta.rv, job.spec.managed_by.as_deref()),
                (41, managed_by)
            );
        }
    }

    #[test]
    fn a_run_of_a_cron_job_is_the_same_however_much_is_read_of_it() {
        let object = json!({
            "metadata": {"name": "night-1", "namespace": "ops", "uid": UID,
                "finalizers": ["carillon.dev/run-tracking"]},
            "spec": {},
            "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [
                {"type": "Complete", "status": "True"}]},
        });
        let whole: SlimJob = serde_json::from_value(object.clone()).unwrap();
        let slim: SlimNativeJob = serde_json::from_value(object).unwrap();
        assert!(whole.child().is_some());
        assert_eq!(whole.child(), slim.child());
    }
}
