//! Pods with the label of a BroadcastJob that it does not control: somebody has taken them from it, or has made
//! them.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::broadcast_job::{TakenPod, TakenPods};

use super::owned::Rows;
use super::{Key, Tables, Wake};
use crate::slim::SlimPod;
use crate::watch::Listed;

impl Rows for TakenPods {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Tables {
    /// The pods with the label of a job that it does not control.
    pub fn taken_pods(&self, job: &ObjectKey) -> Option<&TakenPods> {
        self.taken_pods.of(job)
    }

    /// Whose the label of a pod says it is, if that does not control it.
    pub(super) fn taken_from(&self, pod: &Listed) -> Option<Arc<ObjectKey>> {
        let job = pod.labelled_job()?;
        pod.taken_from(&job)?;
        // The name is a label, too; the job of this uid is known by its own.
        let of_uid =
            |known: &&Arc<ObjectKey>| known.uid == job.uid && known.namespace == job.namespace;
        let known = self.jobs.contains_key(&job);
        let known = (!known).then(|| self.jobs.keys().find(of_uid)).flatten();
        let job = known.cloned().unwrap_or_else(|| Arc::new(job));
        pod.taken_from(&job).map(|_| job)
    }

    pub(super) fn enter_taken_pod(&mut self, pod: &SlimPod, wakes: &mut Vec<Wake>) {
        let Some(job) = self.taken_from(&pod.metadata) else {
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
