//! What is read of the objects we watch: a few fields, in compact rows.
//!
//! Unknown fields (managedFields above all) are skipped while parsing and never allocated.
//! Nothing here fails on odd content; what cannot be used is left out.

mod broadcast_job;
mod child;
mod cron_job;
mod node;
mod pod;
mod slice;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carillon_plan::Uid;
use jiff::Timestamp;
use serde::Deserialize;

pub use self::broadcast_job::SlimBroadcastJob;
pub use self::child::SlimNativeJob;
pub use self::cron_job::{Carillon, Native, Side, SlimCronJob};
pub use self::node::SlimNode;
pub use self::pod::SlimPod;
pub use self::slice::SlimSlice;

/// Metadata of any object, with those of its labels that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound = "L: Deserialize<'de> + Default"
)]
pub struct SlimMeta<L = Labels> {
    /// Name.
    pub name: String,
    /// Namespace, empty for cluster objects.
    pub namespace: String,
    /// Uid.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
    /// Generation.
    pub generation: i64,
    /// When the object was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set once the object is deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds the kubelet gives.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Finalizers.
    pub finalizers: Option<Vec<String>>,
    /// Owners.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Labels.
    pub labels: Option<L>,
    /// Annotations.
    pub annotations: Option<Annotations>,
}

/// The labels we set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// Name of the BroadcastJob.
    #[serde(rename = "carillon.dev/broadcastjob-name")]
    pub job_name: String,
    /// Uid of the BroadcastJob.
    #[serde(rename = "carillon.dev/broadcastjob-uid")]
    pub job_uid: String,
    /// Place of a result slice in the order.
    #[serde(rename = "carillon.dev/slice-index")]
    pub slice_index: String,
}

/// All labels, as nodes need them.
type AllLabels = BTreeMap<String, String>;

/// The annotations we read.
#[derive(Debug, Default, Deserialize)]
pub struct Annotations {
    /// `carillon.dev/resume`.
    #[serde(rename = "carillon.dev/resume", default)]
    pub resume: Option<String>,
    /// `carillon.dev/retry`.
    #[serde(rename = "carillon.dev/retry", default)]
    pub retry: Option<String>,
    /// `carillon.dev/run-now`.
    #[serde(rename = "carillon.dev/run-now", default)]
    pub run_now: Option<String>,
    /// `batch.kubernetes.io/cronjob-scheduled-timestamp`.
    #[serde(rename = "batch.kubernetes.io/cronjob-scheduled-timestamp", default)]
    pub scheduled: Option<String>,
    /// `cronjob.kubernetes.io/instantiate`, as `kubectl create job --from` sets it.
    #[serde(rename = "cronjob.kubernetes.io/instantiate", default)]
    pub instantiate: Option<String>,
}

/// An owner.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner.
    pub uid: String,
    /// Whether it is the controller.
    pub controller: Option<bool>,
}

impl<L> SlimMeta<L> {
    /// Uid, if the object has a usable one.
    pub fn uid(&self) -> Option<Uid> {
        self.uid.parse().ok()
    }

    /// resourceVersion as a number; they are comparable within one kind (KEP-5504).
    pub fn rv(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// The BroadcastJob that controls the object.
    pub fn broadcast_job(&self) -> Option<Uid> {
        self.controller("BroadcastJob")?.uid.parse().ok()
    }

    /// The CronJob that controls the object.
    pub fn cron_job(&self) -> Option<Uid> {
        self.controller("CronJob")?.uid.parse().ok()
    }

    /// The controller, if it is of this kind.
    pub fn controller(&self, kind: &str) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true) && owner.kind == kind)
    }
}

/// Shares equal strings: node names, label keys and values, reasons.
#[derive(Debug, Default)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    /// The shared copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }

    /// Drops what nobody uses any more.
    pub fn sweep(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_api::names::{
        ANNOTATION_RESUME, ANNOTATION_RETRY, LABEL_BROADCAST_JOB_UID, LABEL_SLICE_INDEX,
    };
    use serde_json::json;

    #[test]
    fn the_keys_read_are_those_the_api_names() {
        let meta: SlimMeta = serde_json::from_value(json!({
            "annotations": {ANNOTATION_RESUME: "7", ANNOTATION_RETRY: "n/1", "a": "b"},
            "labels": {LABEL_BROADCAST_JOB_UID: "u", LABEL_SLICE_INDEX: "4"},
        }))
        .unwrap();
        let annotations = meta.annotations.unwrap();
        assert_eq!(annotations.resume.as_deref(), Some("7"));
        assert_eq!(annotations.retry.as_deref(), Some("n/1"));
        let labels = meta.labels.unwrap();
        assert_eq!((&*labels.job_uid, &*labels.slice_index), ("u", "4"));
    }
}
