//! What the API server, kubelets, the scheduler and garbage collection do with what is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::node::NodeRow;
use carillon_plan::pod::{Deletion, End, PodPhase};
use jiff::SignedDuration;

use super::objects::{Of, Pod, SliceObject};
use super::world::World;

const GRACE_SECONDS: i64 = 30;

impl World {
    pub(super) fn add_node(&mut self, name: &str) {
        let node = NodeRow {
            uid: self.uid(Of::Node),
            ..NodeRow::default()
        };
        self.nodes.change().insert(name.into(), node);
    }

    pub(super) fn remove_job(&mut self, job: Uid) {
        self.jobs.change().remove(&job);
        let now = self.now;
        self.past.gone.entry(job).or_insert(now);
    }

    /// A pod as it was created.
    pub(super) fn put(&mut self, pod: Pod) {
        self.past.pods.insert(pod.row.uid, pod.clone());
        self.pods.change().insert(pod.name.clone(), pod);
    }

    pub(super) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let version = self.version();
        if let Some(mut pod) = self.pod(name).cloned() {
            change(&mut pod);
            pod.row.rv = version;
            self.put(pod);
        }
    }

    pub(super) fn remove_pod(&mut self, name: &str) {
        self.pods.change().remove(name);
    }

    /// Removes a pod that was deleted, as soon as nothing holds it any more. True if it did.
    pub(super) fn remove_if_over(&mut self, name: &str) -> bool {
        let over = self.pod(name).is_some_and(|pod| {
            let ended = pod.row.phase.has_ended() || pod.row.node.is_none();
            ended && pod.row.deletion.is_some() && !pod.row.tracked
        });
        if over {
            self.remove_pod(name);
        }
        over
    }

    pub(super) fn delete_pod(&mut self, name: &str) {
        let grace = SignedDuration::from_secs(GRACE_SECONDS);
        let deletion = self.now.saturating_add(grace).map(|due| Deletion {
            due,
            grace_seconds: GRACE_SECONDS,
        });
        if self.pod(name).is_some_and(|pod| pod.row.deletion.is_none()) {
            self.change_pod(name, |pod| {
                pod.row.interrupted |= !pod.row.phase.has_ended();
                pod.row.deletion = deletion.ok();
            });
        }
        self.remove_if_over(name);
    }

    /// Takes our finalizer off. True if it was there.
    pub(super) fn release(&mut self, name: &str, uid: Uid) -> bool {
        let there = self.pod(name).filter(|pod| pod.row.uid == uid);
        let Some(pod) = there.filter(|pod| pod.row.tracked).cloned() else {
            return false;
        };
        self.change_pod(name, |pod| pod.row.tracked = false);
        self.judge_release(&pod);
        self.remove_if_over(name);
        true
    }

    pub(super) fn end_pod(&mut self, name: &str, exit_code: i32) {
        let finished = Some(self.now);
        self.change_pod(name, |pod| {
            pod.row.phase = if exit_code == 0 {
                PodPhase::Succeeded
            } else {
                PodPhase::Failed
            };
            pod.row.end = Some(Box::new(End {
                exit_code: Some(exit_code),
                finished,
                ..End::default()
            }));
        });
        if let Some(pod) = self.pod(name).cloned() {
            self.say(format!("{name} on {} ends with {exit_code}", pod.node));
            if exit_code == 0 && !pod.row.interrupted {
                let node = (pod.node, pod.node_uid);
                self.past.succeeded.insert(node, pod.row.uid);
            }
        }
        self.remove_if_over(name);
    }

    /// A pod that waits goes on: it is bound, or started.
    pub(super) fn bind_or_start(&mut self, name: &str) {
        let Some(pod) = self.pod(name).cloned() else {
            return;
        };
        let node = self.nodes.now().get(&pod.node).cloned();
        let Some(node) = node.filter(|node| node.uid == pod.node_uid) else {
            return;
        };
        if pod.row.node.is_none() {
            if pod.row.deletion.is_none() && !node.unschedulable {
                self.say(format!("{name} is bound to {}", pod.node));
                let to: Arc<str> = pod.node;
                self.change_pod(name, |pod| pod.row.node = Some(to));
            }
        } else if pod.row.phase == PodPhase::Pending && node.not_ready_since.is_none() {
            self.say(format!("{name} starts on {}", pod.node));
            self.judge_start(&pod);
            let now = self.now;
            self.change_pod(name, |pod| {
                pod.row.phase = PodPhase::Running;
                pod.row.started = Some(now);
            });
        }
    }

    /// Garbage collection, of everything or of some. True if it found something.
    pub(super) fn collect(&mut self, all: bool) -> bool {
        let before = self.length();
        for name in self.pod_names() {
            let unwanted = self.pod(&name).is_some_and(|pod| {
                pod.owned && pod.row.deletion.is_none() && self.staying(pod.of).is_none()
            });
            if unwanted && (all || self.rng.bool()) {
                self.say(format!("{name} is collected"));
                self.delete_pod(&name);
            }
        }
        let slices: Vec<SliceObject> = self.slices.now().values().cloned().collect();
        for slice in slices.iter().filter(|slice| !slice.owners.is_empty()) {
            let wanted = slice.owners.iter().any(|job| self.staying(*job).is_some());
            if !wanted && (all || self.rng.bool()) {
                let (of, index) = (slice.of, slice.slice.index);
                self.say(format!("slice {index} of {} is collected", self.name(of)));
                self.slices.change().remove(&(of, index));
            }
        }
        let jobs = self.jobs.now().iter();
        let deleting: Vec<Uid> = jobs
            .filter(|(_, job)| job.deleting)
            .map(|(uid, _)| *uid)
            .collect();
        for job in deleting {
            let pods = self.pods.now().values();
            let slices = self.slices.now().values();
            let alone = BTreeSet::from([job]);
            let held = pods.filter(|pod| pod.owned).any(|pod| pod.of == job)
                || slices.map(|slice| &slice.owners).any(|o| *o == alone);
            if !held {
                self.say(format!("{} is gone", self.name(job)));
                self.remove_job(job);
            }
        }
        self.length() > before
    }

    /// What a leader does for jobs that are gone: it lets their pods go. True if there were any.
    pub(super) fn after_deletion(&mut self, leader: usize) -> bool {
        let gone = |job: Uid| !self.jobs.now().contains_key(&job);
        let pods = self.pods.now().values();
        let pods = pods.filter(|pod| pod.label && gone(pod.of));
        let mut held: Vec<(Box<str>, Uid)> =
            pods.map(|pod| (pod.name.clone(), pod.row.uid)).collect();
        let slices = self.slices.now().values().filter(|slice| gone(slice.of));
        let records = slices.flat_map(|slice| &slice.slice.records);
        let open = records.filter(|record| !record.is_final());
        held.extend(open.filter_map(|record| Some((record.pod.clone(), record.pod_uid?))));
        let memory = self.leaders[leader].memory.iter();
        let forgotten = memory.filter(|(job, _)| gone(**job));
        let created = forgotten.flat_map(|(_, memory)| memory.created.iter());
        held.extend(created.map(|(name, uid)| (name.clone(), *uid)));
        let before = self.length();
        for (name, uid) in held {
            if self.release(&name, uid) {
                self.say(format!("L{leader} lets {name} go: its job is gone"));
            }
        }
        self.length() > before
    }
}
