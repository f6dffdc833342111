//! What stays when Carillon goes: finalizers that only it takes off, and Jobs that only it serves.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carillon_api::names::{FINALIZER_RESULT_TRACKING, FINALIZER_RUN_TRACKING};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::job::{FINALIZER_JOB_TRACKING, MANAGED_BY};
use crate::object_key::{self, ObjectKey};

/// Finalizers that are ours wherever they stand.
const OURS: [&str; 2] = [FINALIZER_RESULT_TRACKING, FINALIZER_RUN_TRACKING];

/// Kinds whose objects carry finalizers of ours. They are read in this order: whose a pod is, is known
/// from the Jobs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// BroadcastJobs, as runs of CronJobs.
    BroadcastJob,
    /// Jobs of batch/v1, as runs of CronJobs.
    Job,
    /// Pods of BroadcastJobs and of Jobs.
    Pod,
}

impl Kind {
    /// In the order in which they are read.
    pub const ALL: [Self; 3] = [Self::BroadcastJob, Self::Job, Self::Pod];

    /// As manifests have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BroadcastJob => "BroadcastJob",
            Self::Job => "Job",
            Self::Pod => "Pod",
        }
    }
}

/// What is read of an object. Of BroadcastJobs and pods the metadata is enough.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    managed_by: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Object {
    /// Whether anything of it can stay. Most objects have nothing of ours, and need not be kept.
    pub fn matters(&self) -> bool {
        self.is_managed_by_us() || self.metadata.finalizers.iter().flatten().next().is_some()
    }

    fn is_managed_by_us(&self) -> bool {
        self.spec.managed_by.as_deref() == Some(MANAGED_BY)
    }

    fn has_ended(&self) -> bool {
        let conditions = self.status.conditions.iter().flatten();
        let mut true_ones = conditions.filter(|condition| condition.status == "True");
        true_ones.any(|condition| matches!(&*condition.kind, "Complete" | "Failed"))
    }

    /// As a Job of batch/v1.
    fn job(&self) -> Option<Arc<ObjectKey>> {
        let Meta {
            namespace, name, ..
        } = &self.metadata;
        let uid = self.metadata.uid.parse().ok()?;
        Some(ObjectKey::of(object_key::JOB, namespace, name, uid))
    }

    /// Its controller, if that is a Job of batch/v1, and at which place of the list it stands.
    fn controlling_job(&self) -> Option<(usize, Arc<ObjectKey>)> {
        let owners = self.metadata.owner_references.iter().flatten();
        let (at, owner) = owners
            .enumerate()
            .find(|(_, owner)| owner.controller == Some(true))?;
        let (version, kind) = object_key::JOB;
        if owner.api_version != version || owner.kind != kind {
            return None;
        }
        let uid = owner.uid.parse().ok()?;
        let namespace = &*self.metadata.namespace;
        let key = ObjectKey::of(object_key::JOB, namespace, &*owner.name, uid);
        Some((at, key))
    }
}

/// A finalizer of ours, on one object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Held {
    /// Kind of the object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The finalizer.
    pub finalizer: &'static str,
    /// Whether the object is deleted, and waits.
    pub deleted: bool,
    uid: String,
    /// Its place in the list.
    at: usize,
    /// Of the finalizer of pods of Jobs, which others use, too: place and uid of the Job that makes it ours.
    job: Option<(usize, String)>,
}

impl Held {
    /// A JSON patch that takes it off, and nothing else: it is refused (422) when the finalizer is not
    /// at its place any more, or the object is another one.
    pub fn patch(&self) -> Value {
        let test = |path: String, value: &str| json!({"op": "test", "path": path, "value": value});
        let finalizer = format!("/metadata/finalizers/{}", self.at);
        let mut patch = vec![test("/metadata/uid".to_owned(), &self.uid)];
        if let Some((at, job)) = &self.job {
            patch.push(test(format!("/metadata/ownerReferences/{at}/uid"), job));
        }
        patch.push(test(finalizer.clone(), self.finalizer));
        patch.push(json!({"op": "remove", "path": finalizer}));
        Value::Array(patch)
    }
}

/// A Job with our `spec.managedBy` that has not ended and is not deleted: without us nobody goes on with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unserved {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    uid: String,
    version: String,
}

impl Unserved {
    /// `DeleteOptions` that delete this Job as it was read, and then its pods.
    pub fn delete_options(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": self.uid, "resourceVersion": self.version},
        })
    }
}

/// All that stays.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// Finalizers.
    pub held: Vec<Held>,
    /// Jobs.
    pub unserved: Vec<Unserved>,
    /// Jobs with our `spec.managedBy`, also those that have ended.
    ours: HashSet<Arc<ObjectKey>>,
}

impl Leftovers {
    /// Takes in an object. Those of [`Kind::ALL`] come in that order.
    pub fn read(&mut self, kind: Kind, object: &Object) {
        let meta = &object.metadata;
        if kind == Kind::Job && object.is_managed_by_us() {
            self.ours.extend(object.job());
            if !object.has_ended() && meta.deletion_timestamp.is_none() {
                self.unserved.push(Unserved {
                    namespace: meta.namespace.clone(),
                    name: meta.name.clone(),
                    uid: meta.uid.clone(),
                    version: meta.resource_version.clone(),
                });
            }
        }
        let held = self.of(kind, object);
        self.held.extend(held);
    }

    /// The same finalizer on the same object as it is now, if it is still there and still ours.
    pub fn again(&self, held: &Held, now: &Object) -> Option<Held> {
        let mut all = self.of(held.kind, now).into_iter();
        all.find(|now| now.uid == held.uid && now.finalizer == held.finalizer)
    }

    fn of(&self, kind: Kind, object: &Object) -> Vec<Held> {
        let meta = &object.metadata;
        let job = object
            .controlling_job()
            .filter(|(_, job)| kind == Kind::Pod && self.ours.contains(job))
            .map(|(at, job)| (at, job.uid.to_string()));
        let held = |(at, finalizer): (usize, &String)| {
            let ours = OURS.into_iter().find(|ours| ours == finalizer);
            let (finalizer, job) = match ours {
                Some(ours) => (ours, None),
                None if finalizer == FINALIZER_JOB_TRACKING => {
                    (FINALIZER_JOB_TRACKING, Some(job.clone()?))
                }
                None => return None,
            };
            Some(Held {
                kind,
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                finalizer,
                deleted: meta.deletion_timestamp.is_some(),
                uid: meta.uid.clone(),
                at,
                job,
            })
        };
        let finalizers = meta.finalizers.iter().flatten().enumerate();
        finalizers.filter_map(held).collect()
    }

    /// What is held, by namespace, kind and finalizer.
    pub fn groups(&self) -> BTreeMap<(&str, Kind, &'static str), Vec<&Held>> {
        let mut groups: BTreeMap<_, Vec<&Held>> = BTreeMap::new();
        for held in &self.held {
            let group = (held.namespace.as_str(), held.kind, held.finalizer);
            groups.entry(group).or_default().push(held);
        }
        groups
    }

    /// Jobs that nobody goes on with, by namespace.
    pub fn unserved_by_namespace(&self) -> BTreeMap<&str, Vec<&Unserved>> {
        let mut groups: BTreeMap<_, Vec<&Unserved>> = BTreeMap::new();
        for job in &self.unserved {
            groups.entry(&*job.namespace).or_default().push(job);
        }
        groups
    }

    /// Whether nothing stays.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.unserved.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
    const OTHER: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";
    const POD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000003";

    fn read(object: &Value) -> Object {
        serde_json::from_value(object.clone()).unwrap()
    }

    fn job(namespace: &str, uid: &str, managed_by: &str, condition: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": "sum", "uid": uid, "resourceVersion": "7"},
            "spec": {"managedBy": managed_by, "template": {"spec": {}}},
            "status": {"conditions": [{"type": condition, "status": "True"}]},
        })
    }

    fn pod(namespace: &str, owner: &str, finalizers: &[&str]) -> Value {
        json!({"metadata": {
            "namespace": namespace, "name": "sum-a", "uid": POD, "finalizers": finalizers,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": OTHER},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": owner, "controller": true},
            ],
        }})
    }

    fn leftovers(objects: &[(Kind, Value)]) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for (kind, object) in objects {
            leftovers.read(*kind, &read(object));
        }
        leftovers
    }

    #[test]
    fn our_finalizers_are_found_on_each_kind_and_foreign_ones_are_not() {
        let both = ["example.com/keep", FINALIZER_RUN_TRACKING];
        let meta = json!({"metadata": {"namespace": "ops", "name": "x", "uid": OTHER, "finalizers": both,
            "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let found = leftovers(&[
            (Kind::BroadcastJob, meta.clone()),
            (Kind::Job, meta),
            (
                Kind::Pod,
                pod(
                    "ops",
                    OTHER,
                    &[FINALIZER_RESULT_TRACKING, "foregroundDeletion"],
                ),
            ),
        ]);
        let groups: Vec<_> = found.groups().into_keys().collect();
        assert_eq!(
            groups,
            [
                ("ops", Kind::BroadcastJob, FINALIZER_RUN_TRACKING),
                ("ops", Kind::Job, FINALIZER_RUN_TRACKING),
                ("ops", Kind::Pod, FINALIZER_RESULT_TRACKING),
            ]
        );
        let deleted: Vec<bool> = found.held.iter().map(|held| held.deleted).collect();
        assert_eq!(deleted, [true, true, false]);
        assert_eq!(
            found.held[0].patch(),
            json!([
                {"op": "test", "path": "/metadata/uid", "value": OTHER},
                {"op": "test", "path": "/metadata/finalizers/1", "value": FINALIZER_RUN_TRACKING},
                {"op": "remove", "path": "/metadata/finalizers/1"},
            ])
        );
    }

    #[test]
    fn the_mark_of_pods_of_jobs_is_ours_only_on_a_pod_of_a_job_that_is() {
        let jobs = [
            (Kind::Job, job("ops", JOB, MANAGED_BY, "Complete")),
            (
                Kind::Job,
                job("ops", OTHER, "kueue.x-k8s.io/multikueue", "Suspended"),
            ),
        ];
        let of = |namespace: &str, owner: &str| {
            let mut objects = jobs.to_vec();
            objects.push((Kind::Pod, pod(namespace, owner, &[FINALIZER_JOB_TRACKING])));
            leftovers(&objects).held
        };
        assert_eq!(of("ops", OTHER), [], "another controller's");
        assert_eq!(of("evil", JOB), [], "a uid of another namespace");
        let ours = of("ops", JOB);
        assert_eq!(ours.len(), 1, "{ours:?}");
        let tests = ours[0].patch();
        assert_eq!(
            tests[1],
            json!({"op": "test", "path": "/metadata/ownerReferences/1/uid", "value": JOB})
        );
    }

    #[test]
    fn a_job_of_ours_is_left_unserved_until_it_has_ended() {
        let mut deleted = job("ops", OTHER, MANAGED_BY, "Suspended");
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let found = leftovers(&[
            (Kind::Job, job("ops", JOB, MANAGED_BY, "Suspended")),
            (Kind::Job, job("ops", OTHER, MANAGED_BY, "Failed")),
            (Kind::Job, deleted),
            (
                Kind::Job,
                job("ops", OTHER, "kubernetes.io/job-controller", "Suspended"),
            ),
        ]);
        assert_eq!(found.unserved.len(), 1, "{found:?}");
        assert!(!found.is_empty());
        let options = found.unserved[0].delete_options();
        assert_eq!(
            options["preconditions"],
            json!({"uid": JOB, "resourceVersion": "7"})
        );
        assert!(leftovers(&[(Kind::Job, job("ops", OTHER, MANAGED_BY, "Failed"))]).is_empty());
    }

    #[test]
    fn after_a_conflict_the_finalizer_is_looked_for_where_it_is_now() {
        let found = leftovers(&[(
            Kind::Pod,
            pod("ops", OTHER, &["a/b", FINALIZER_RESULT_TRACKING]),
        )]);
        let held = &found.held[0];
        let again = |object: &Value| found.again(held, &read(object));
        let moved = again(&pod("ops", OTHER, &[FINALIZER_RESULT_TRACKING, "c/d"])).unwrap();
        assert_eq!(moved.patch()[2]["path"], "/metadata/finalizers/0");
        assert_eq!(again(&pod("ops", OTHER, &["a/b"])), None, "released");
        let mut renamed = pod("ops", OTHER, &[FINALIZER_RESULT_TRACKING]);
        renamed["metadata"]["uid"] = json!(JOB);
        assert_eq!(again(&renamed), None, "another pod of that name");
    }

    #[test]
    fn whatever_is_stored_is_read() {
        for odd in [
            json!({}),
            json!({"metadata": {"finalizers": null, "ownerReferences": null}}),
            json!({"metadata": {"uid": "no uid"}, "spec": {"managedBy": MANAGED_BY}}),
            json!({"metadata": {"finalizers": [""]}, "status": {"conditions": null}}),
        ] {
            for kind in Kind::ALL {
                let _ = leftovers(&[(kind, odd.clone())]);
            }
        }
    }
}
