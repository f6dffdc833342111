//! What a namespace shows of the Job of a scenario.

use carillon_tests::lab::is;
use serde_json::Value;

use crate::parity::watched::Here;

/// What keeps a pod until it has been counted.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Where a pod says which index it is for.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

impl Here {
    /// The Job as it is, if it is.
    pub(crate) fn job(&self) -> Option<&Value> {
        self.all("jobs").first()
    }

    /// A number of the Job's status; 0 where there is none.
    pub(crate) fn count(&self, field: &str) -> i64 {
        let job = self.job();
        job.and_then(|job| job["status"][field].as_i64())
            .unwrap_or(0)
    }

    /// Whether the Job has this condition.
    pub(crate) fn is(&self, condition: &str) -> bool {
        self.job().is_some_and(|job| is(job, condition))
    }

    /// Whether the Job was looked at: the first sync writes how many are ready.
    pub(crate) fn is_served(&self) -> bool {
        let job = self.job();
        job.is_some_and(|job| job["status"]["ready"].is_number())
    }

    /// Whether the Job is gone after it was there.
    pub(crate) fn is_gone(&self) -> bool {
        self.job().is_none() && self.seen("jobs").next().is_some()
    }

    /// Whether the Job is finished or gone, and no pod waits to be counted.
    pub(crate) fn has_ended(&self) -> bool {
        (self.is("Complete") || self.is("Failed") || self.is_gone())
            && !self.pods().iter().any(is_held)
    }

    /// Whether the last condition of the Job was told as an event. They come in order, but later than
    /// what they tell of.
    pub(crate) fn has_told(&self) -> bool {
        let conditions = self
            .seen("jobs")
            .last()
            .map(|seen| &seen.object["status"]["conditions"]);
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        conditions.all(|condition| {
            let is_true = condition["status"] == "True";
            match condition["type"].as_str() {
                Some("Complete") => self.told("Completed"),
                Some("Failed") => self.told(condition["reason"].as_str().unwrap_or_default()),
                Some("Suspended") => self.told(if is_true { "Suspended" } else { "Resumed" }),
                _ => true,
            }
        })
    }
}

/// Whether a pod has the finalizer of its Job.
pub(crate) fn is_held(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == TRACKING))
}

/// The completion index of a pod.
pub(crate) fn index_of(pod: &Value) -> Option<u32> {
    pod["metadata"]["annotations"][INDEX].as_str()?.parse().ok()
}
