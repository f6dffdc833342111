//! Pods with the label of a BroadcastJob that it does not control: somebody has taken them from it, or has made
//! them.

use std::sync::Arc;

use carillon_plan::broadcast_job::{TakenPod, TakenPods};
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::PodRow;
use carillon_plan::{ObjectKey, name};

use super::tables::CONTROLLER;
use crate::slim::{NamesJob, SlimMeta, SlimPod};
use crate::store::owned::Rows;
use crate::store::{Tables, Wake};

impl Rows for TakenPods {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Whose a pod may be that was taken from it: the job that controls it, if its label says something else; else
/// the one that its labels name, if its own name does, too, which nobody can change. Nothing else decides it:
/// whatever comes first, the pod or its job, it is the same.
pub(super) fn taken_from<L: NamesJob>(pod: &SlimMeta<L>) -> Option<Arc<ObjectKey>> {
    // The others are not watched where no Job is served.
    pod.labels
        .as_ref()
        .filter(|labels| !labels.job_uid().is_empty())?;
    if let Some(owner) = pod.owner(BROADCAST_JOB) {
        return (!pod.is_labelled(&owner)).then_some(owner);
    }
    let job = pod.labelled_job()?;
    name::is_pod_of(&job.name, &pod.name).then_some(job)
}

impl Tables {
    /// `earlier`: what was known of the pod while it was another's.
    pub(super) fn enter_taken_pod(
        &mut self,
        pod: &SlimPod,
        earlier: Option<&PodRow>,
        wakes: &mut Vec<Wake>,
    ) {
        let Some(job) = taken_from(&pod.metadata) else {
            return;
        };
        let why = pod.metadata.taken_from(&job).unwrap_or_default();
        let Some((name, mut row)) = pod.row(&mut self.strings) else {
            return;
        };
        let uid = row.uid;
        let pods = self.broadcast_jobs.taken_pods.enter(&job, uid);
        let old = pods.get(&name).filter(|old| old.pod.uid == uid);
        if let Some(old) = old.map(|old| &old.pod).or(earlier) {
            row.remember(old);
        }
        let taken = TakenPod {
            pod: row,
            why: why.into(),
            asked: None,
        };
        let replaced = pods.insert(name, taken).filter(|old| old.pod.uid != uid);
        if let Some(other) = replaced {
            self.broadcast_jobs.taken_pods.forget(other.pod.uid);
        }
        wakes.push(Wake::soon(CONTROLLER, job));
    }

    /// The pod is gone, or is no longer one that was taken. Its row, if there was one.
    pub(super) fn forget_taken_pod<L>(
        &mut self,
        pod: &SlimMeta<L>,
        wakes: &mut Vec<Wake>,
    ) -> Option<PodRow> {
        let mut taken = None;
        let job = self.broadcast_jobs.taken_pods.leave(pod.uid()?, |pods| {
            taken = pods.remove(&*pod.name);
        });
        wakes.extend(job.map(|job| Wake::soon(CONTROLLER, job)));
        taken.map(|taken| taken.pod)
    }
}
