//! Pods with the label of a BroadcastJob that it does not control: somebody has taken them from it, or has made
//! them.

use std::sync::Arc;

use carillon_plan::broadcast_job::{TakenPod, TakenPods};
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::{ObjectKey, name};

use super::owned::Rows;
use super::{Key, Tables, Wake};
use crate::slim::SlimPod;
use crate::watch::Listed;

impl Rows for TakenPods {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Whose a pod may be that was taken from it: the job that controls it, if its label says something else; else
/// the one that its labels name, if its own name does, too, which nobody can change. Nothing else decides it:
/// whatever comes first, the pod or its job, it is the same.
pub(super) fn taken_from(pod: &Listed) -> Option<Arc<ObjectKey>> {
    pod.labels.as_ref()?;
    if let Some(owner) = pod.owner(BROADCAST_JOB) {
        return (!pod.is_labelled(&owner)).then_some(owner);
    }
    let job = pod.labelled_job()?;
    name::is_pod_of(&job.name, &pod.name).then(|| Arc::new(job))
}

impl Tables {
    /// The pods with the label of a job that it does not control.
    pub fn taken_pods(&self, job: &ObjectKey) -> Option<&TakenPods> {
        self.taken_pods.of(job)
    }

    pub(super) fn enter_taken_pod(&mut self, pod: &SlimPod, wakes: &mut Vec<Wake>) {
        let Some(job) = taken_from(&pod.metadata) else {
            return;
        };
        let why = pod.metadata.taken_from(&job).unwrap_or_default();
        let Some((name, mut row)) = pod.row(&mut self.strings) else {
            return;
        };
        let uid = row.uid;
        let pods = self.taken_pods.enter(&job, uid);
        if let Some(old) = pods.get(&name).filter(|old| old.pod.uid == uid) {
            row.remember(&old.pod);
        }
        let taken = TakenPod {
            pod: row,
            why: why.into(),
            asked: None,
        };
        let replaced = pods.insert(name, taken).filter(|old| old.pod.uid != uid);
        if let Some(other) = replaced {
            self.taken_pods.forget(other.pod.uid);
        }
        wakes.push(Wake::Soon(Key::BroadcastJob(job)));
    }

    /// The pod is gone, or is no longer one that was taken.
    pub(super) fn forget_taken_pod(&mut self, pod: &Listed, wakes: &mut Vec<Wake>) {
        let Some(uid) = pod.uid() else { return };
        let job = self.taken_pods.leave(uid, |pods| {
            pods.remove(&*pod.name);
        });
        wakes.extend(job.map(|job| Wake::Soon(Key::BroadcastJob(job))));
    }
}
