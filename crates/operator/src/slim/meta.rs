//! Metadata, of whatever object.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::names::{
    FINALIZER_RUN_TRACKING, LABEL_BROADCAST_JOB_NAME, LABEL_BROADCAST_JOB_UID,
};
use carillon_plan::job::FINALIZER_JOB_TRACKING;
use carillon_plan::meta::Meta;
use carillon_plan::object_key::{ApiKind, BROADCAST_JOB, CRON_JOB, NATIVE_CRON_JOB};
use carillon_plan::pod::printable;
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;
use serde::Deserialize;

use super::time;

/// Of a template or spec that has more bytes no more than its size is kept: it is read again when it is
/// needed. A few hundred large objects would fill the memory otherwise.
pub const KEPT_BYTES: usize = 16 << 10;

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
    #[serde(deserialize_with = "time::optional")]
    pub creation_timestamp: Option<Timestamp>,
    /// Set once the object is deleted.
    #[serde(deserialize_with = "time::optional")]
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

/// What is read of the reply to a write.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Written {
    /// Name, which may have been made by the API server.
    pub name: String,
    /// When the object was created.
    #[serde(deserialize_with = "time::optional")]
    pub creation_timestamp: Option<Timestamp>,
    uid: String,
    resource_version: String,
}

impl Written {
    /// Uid, if the object has a usable one.
    pub fn uid(&self) -> Option<Uid> {
        self.uid.parse().ok()
    }

    /// resourceVersion as a number.
    pub fn rv(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
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

/// All labels, as nodes and pods need them.
pub type AllLabels = BTreeMap<String, String>;

/// Labels that name a BroadcastJob.
pub trait NamesJob {
    /// Uid of the BroadcastJob, empty without one.
    fn job_uid(&self) -> &str;
    /// Name of the BroadcastJob, empty without one.
    fn job_name(&self) -> &str;
}

impl NamesJob for Labels {
    fn job_uid(&self) -> &str {
        &self.job_uid
    }

    fn job_name(&self) -> &str {
        &self.job_name
    }
}

impl NamesJob for AllLabels {
    fn job_uid(&self) -> &str {
        self.get(LABEL_BROADCAST_JOB_UID).map_or("", |uid| uid)
    }

    fn job_name(&self) -> &str {
        self.get(LABEL_BROADCAST_JOB_NAME).map_or("", |name| name)
    }
}

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
    /// `deprecated.daemonset.template.generation`, which the API server keeps.
    #[serde(rename = "deprecated.daemonset.template.generation", default)]
    pub template_generation: Option<String>,
    /// `cronjob.kubernetes.io/instantiate`, as `kubectl create job --from` sets it.
    #[serde(rename = "cronjob.kubernetes.io/instantiate", default)]
    pub instantiate: Option<String>,
    /// `lifecycle.apps.kruise.io/timestamp`.
    #[serde(rename = "lifecycle.apps.kruise.io/timestamp", default)]
    pub lifecycle_timestamp: Option<String>,
    /// `batch.kubernetes.io/job-completion-index`.
    #[serde(rename = "batch.kubernetes.io/job-completion-index", default)]
    pub completion_index: Option<String>,
    /// `batch.kubernetes.io/job-index-failure-count`.
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count", default)]
    pub index_failures: Option<String>,
    /// `batch.kubernetes.io/job-index-ignored-failure-count`.
    #[serde(
        rename = "batch.kubernetes.io/job-index-ignored-failure-count",
        default
    )]
    pub index_ignored_failures: Option<String>,
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

    /// What a planner knows of it, if it is of this kind. `None` without a usable uid.
    pub fn meta(&self, kind: ApiKind) -> Option<Meta> {
        Some(Meta {
            owner: self.key(kind)?,
            generation: self.generation,
            rv: self.rv(),
            deleting: self.deletion_timestamp.is_some(),
            created: self.creation_timestamp.unwrap_or_default(),
        })
    }

    /// Who the object is, if it has a usable uid.
    pub fn key(&self, kind: ApiKind) -> Option<Arc<ObjectKey>> {
        Some(ObjectKey::of(
            kind,
            &*self.namespace,
            &*self.name,
            self.uid()?,
        ))
    }

    /// Who controls the object, if that is of this kind. An owner is always of the same namespace,
    /// whatever uid the reference has.
    pub fn owner(&self, kind: ApiKind) -> Option<Arc<ObjectKey>> {
        let owner = self.controller(kind)?;
        let uid = owner.uid.parse().ok()?;
        Some(ObjectKey::of(kind, &*self.namespace, &*owner.name, uid))
    }

    /// Whether this is who controls the object.
    pub fn is_controlled_by(&self, owner: &ObjectKey) -> bool {
        let reference = self.controller((owner.api_version, owner.kind));
        self.namespace == owner.namespace
            && reference.is_some_and(|reference| {
                reference.name == owner.name && reference.uid.parse() == Ok(owner.uid)
            })
    }

    /// The controller of the object, whatever it is.
    fn any_controller(&self) -> Option<&OwnerReference> {
        let mut owners = self.owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true))
    }

    /// The CronJob of either API that controls the object.
    pub fn cron_job(&self) -> Option<Arc<ObjectKey>> {
        let of = |kind| self.owner(kind);
        of(CRON_JOB).or_else(|| of(NATIVE_CRON_JOB))
    }

    /// Whom an object of this kind concerns that may be a run: the CronJob that controls it. One that we
    /// hold and that has lost its CronJob concerns itself: nobody else would let it go.
    pub fn family(&self, kind: ApiKind) -> Option<Arc<ObjectKey>> {
        let held = || self.key(kind).filter(|_| self.is_held_run());
        self.cron_job().or_else(held)
    }

    /// Whether it carries our finalizer for runs.
    pub fn is_held_run(&self) -> bool {
        self.has_finalizer(FINALIZER_RUN_TRACKING)
    }

    /// Whether the object may not be counted as a pod of a Job yet.
    pub fn is_tracked_pod(&self) -> bool {
        self.has_finalizer(FINALIZER_JOB_TRACKING)
    }

    /// Whether it carries a finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        let mut finalizers = self.finalizers.iter().flatten();
        finalizers.any(|finalizer| finalizer == name)
    }

    /// Whether anything controls the object.
    pub fn has_controller(&self) -> bool {
        self.any_controller().is_some()
    }

    /// The controller, if it is of this group and kind: other groups may have a kind of that name.
    pub fn controller(&self, kind: ApiKind) -> Option<&OwnerReference> {
        let mut owners = self.owners(kind);
        owners.find(|owner| owner.controller == Some(true))
    }

    /// Whether anything of this group and kind owns the object.
    pub fn has_owner(&self, kind: ApiKind) -> bool {
        self.owners(kind).next().is_some()
    }

    fn owners(&self, (api_version, kind): ApiKind) -> impl Iterator<Item = &OwnerReference> {
        let owners = self.owner_references.iter().flatten();
        owners.filter(move |owner| {
            owner.kind == kind && group(&owner.api_version) == group(api_version)
        })
    }
}

impl<L: NamesJob> SlimMeta<L> {
    /// Whether a pod is labelled as one of a job. The label is how pods are found, the reference is whose they
    /// are. Where the two differ somebody else has written one of them.
    pub fn is_labelled(&self, job: &ObjectKey) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|labels| labels.job_uid().parse() == Ok(job.uid))
    }

    /// What of a pod that a BroadcastJob has made is not as it was, if somebody has taken it from the job.
    pub fn taken_from(&self, job: &ObjectKey) -> Option<String> {
        if !self.is_controlled_by(job) {
            return Some(match self.any_controller() {
                Some(other) => printable(&format!(
                    "it is controlled by {} {}",
                    other.kind, other.name
                )),
                None => "nothing controls it".to_owned(),
            });
        }
        let lost = || format!("its label {LABEL_BROADCAST_JOB_UID} is not that of the job");
        (!self.is_labelled(job)).then(lost)
    }

    /// The BroadcastJob that the labels of a pod or a slice name.
    pub fn labelled_job(&self) -> Option<Arc<ObjectKey>> {
        let labels = self.labels.as_ref()?;
        let uid = labels.job_uid().parse().ok()?;
        let (namespace, name) = (&*self.namespace, labels.job_name());
        Some(ObjectKey::of(BROADCAST_JOB, namespace, name, uid))
    }
}

/// The group of an `apiVersion`, empty for core.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_api::names::{
        ANNOTATION_RESUME, ANNOTATION_RETRY, LABEL_BROADCAST_JOB_UID, LABEL_SLICE_INDEX,
    };
    use carillon_plan::job::pod_body::{
        ANNOTATION_FAILURES, ANNOTATION_IGNORED_FAILURES, COMPLETION_INDEX,
    };
    use serde_json::json;

    #[test]
    fn the_keys_read_are_those_the_api_names() {
        let meta: SlimMeta = serde_json::from_value(json!({
            "annotations": {
                ANNOTATION_RESUME: "7", ANNOTATION_RETRY: "n/1", "a": "b", COMPLETION_INDEX: "1",
                ANNOTATION_FAILURES: "2", ANNOTATION_IGNORED_FAILURES: "3",
            },
            "labels": {LABEL_BROADCAST_JOB_UID: "u", LABEL_SLICE_INDEX: "4"},
        }))
        .unwrap();
        let annotations = meta.annotations.unwrap();
        assert_eq!(annotations.resume.as_deref(), Some("7"));
        assert_eq!(annotations.retry.as_deref(), Some("n/1"));
        assert_eq!(annotations.completion_index.as_deref(), Some("1"));
        assert_eq!(annotations.index_failures.as_deref(), Some("2"));
        assert_eq!(annotations.index_ignored_failures.as_deref(), Some("3"));
        let labels = meta.labels.unwrap();
        assert_eq!((&*labels.job_uid, &*labels.slice_index), ("u", "4"));
    }
}
