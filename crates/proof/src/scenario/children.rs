//! A CronJob and what it has started, as its users see them, and what they may do to them.

use std::sync::Arc;

use carillon_sim::Delete;
use serde_json::{Value, json};

use super::names::{CRON, NAMESPACE};
use super::view::View;

/// Resources of CronJobs.
const CRON_JOBS: [&str; 2] = ["cronjobs.carillon.dev", "cronjobs.batch"];
/// Resources of what a CronJob starts.
const CHILDREN: [&str; 2] = ["jobs", "broadcastjobs"];
/// The finalizer of a child that is not yet recorded.
const HOLD: &str = "carillon.dev/run-tracking";

impl View<'_> {
    /// The CronJob.
    pub fn cron(&self) -> Option<Arc<Value>> {
        let mut kinds = CRON_JOBS.into_iter();
        kinds.find_map(|resource| self.actor().get(resource, NAMESPACE, CRON).ok())
    }

    fn cron_resource(&self) -> &'static str {
        let of_batch = self
            .cron()
            .is_some_and(|cron| cron["apiVersion"] == "batch/v1");
        CRON_JOBS[usize::from(of_batch)]
    }

    /// Changes the CronJob.
    pub fn patch_cron(&self, patch: &Value) {
        let resource = self.cron_resource();
        drop(self.actor().patch_merge(resource, NAMESPACE, CRON, patch));
    }

    /// Changes its spec.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub fn edit_cron(&self, spec: Value) {
        self.patch_cron(&json!({"spec": spec}));
    }

    /// Asks for a run by a word.
    pub fn ask(&self, word: &str) {
        let cron = self.cron();
        let uid = cron
            .as_deref()
            .and_then(|cron| cron["metadata"]["uid"].as_str());
        self.write_request(&format!("{}/{word}", uid.unwrap_or_default()));
    }

    /// Writes what asks for a run, whatever it is.
    pub fn write_request(&self, value: &str) {
        self.patch_cron(&json!({"metadata": {"annotations": {"carillon.dev/run-now": value}}}));
    }

    /// Deletes the CronJob.
    pub fn delete_cron(&self, how: &Delete) {
        let resource = self.cron_resource();
        drop(self.actor().delete(resource, NAMESPACE, CRON, how));
    }

    /// What it has started and what is still there, by name.
    pub fn children(&self) -> Vec<Arc<Value>> {
        let list = |resource| {
            self.actor()
                .list(resource, NAMESPACE, "")
                .unwrap_or_default()
        };
        let mut children: Vec<_> = CHILDREN.into_iter().flat_map(list).collect();
        children.retain(|child| child["metadata"]["ownerReferences"][0]["kind"] == "CronJob");
        children
    }

    /// The newest of them.
    pub fn newest_child(&self) -> Option<Arc<Value>> {
        let children = self.children().into_iter();
        children.max_by_key(|child| {
            let created = child["metadata"]["creationTimestamp"].as_str();
            created.map(str::to_owned)
        })
    }

    /// Deletes a child.
    pub fn delete_child(&self, child: &Value, how: &Delete) {
        let name = child["metadata"]["name"].as_str().unwrap_or_default();
        let resource = if child["kind"] == "Job" {
            CHILDREN[0]
        } else {
            CHILDREN[1]
        };
        drop(self.actor().delete(resource, NAMESPACE, name, how));
    }
}

/// Whether it is not yet recorded.
pub(crate) fn is_held(child: &Value) -> bool {
    let finalizers = child["metadata"]["finalizers"].as_array();
    finalizers.into_iter().flatten().any(|f| f == HOLD)
}

/// Whether a child has started and not yet ended.
pub(crate) fn is_running(child: &Value) -> bool {
    let conditions = child["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let over = conditions.any(|c| c["type"] == "Complete" || c["type"] == "Failed");
    child["status"]["startTime"].is_string() && !over
}
