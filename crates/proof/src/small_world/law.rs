//! What must hold: of every state of the store, and of every request that changes it.

use carillon_api::NodeState;

use super::model::Model;
use super::request::{Request, Verdict};
use super::store::{Content, Entry, Nodes, Phase, Pod, Store, Why};
use super::violation::Violation;

fn broken(law: &'static str, detail: String) -> Result<(), Violation> {
    Err(Violation { law, detail })
}

impl Model {
    /// Whether a state of the store is as it must be.
    pub(super) fn judge(&mut self, store: Store) -> Result<(), Violation> {
        let key = (store.pods, store.slices, store.status);
        if let Some(known) = self.judged.get(&key) {
            return known.clone().map_or(Ok(()), Err);
        }
        let verdict = self.judge_anew(store);
        self.judged.insert(key, verdict.clone().err());
        verdict
    }

    fn judge_anew(&self, store: Store) -> Result<(), Violation> {
        let pods = self.pods.at(store.pods);
        let occupying: Vec<(&Pod, Option<&Entry>)> = pods
            .iter()
            .filter(|pod| pod.occupies())
            .map(|pod| (pod, self.entry(store.slices, pod.name)))
            .filter(|(pod, entry)| self.world.strict || !disowned(pod, *entry))
            .collect();
        for (at, (pod, _)) in occupying.iter().enumerate() {
            let twin = occupying[..at]
                .iter()
                .find(|(other, _)| other.node == pod.node);
            if let Some((twin, _)) = twin {
                return broken(
                    "at most one pod that has not ended on each node",
                    format!("{} and {}", self.pod_text(twin), self.pod_text(pod)),
                );
            }
        }
        let reserved = self
            .entries(store.slices)
            .filter(|entry| !entry.is_final() && entry.pod_uid.is_none())
            .filter(|entry| pods.iter().all(|pod| pod.name != entry.pod || pod.gone))
            .count();
        // Pods of lost nodes hold up no others; that is documented.
        let held = occupying
            .iter()
            .filter(|(_, entry)| !entry.is_some_and(|entry| entry.why == Why::NodeLost))
            .count();
        if reserved + held > self.world.parallelism as usize {
            return broken(
                "pods and reservations are never more than parallelism",
                format!("{held} pods and {reserved} reservations"),
            );
        }
        let verdict = Verdict::read(store.status);
        if verdict.ended() && self.entries(store.slices).any(|entry| !entry.is_final()) {
            return broken("an ended job has no open attempt", String::new());
        }
        Ok(())
    }

    /// All attempts of the store.
    pub(super) fn entries(&self, slices: u32) -> impl Iterator<Item = &Entry> {
        let list = self.slices.at(slices).iter();
        list.flat_map(|number| &self.contents.at(*number).entries)
    }

    /// The last attempt that names this pod.
    pub(super) fn entry(&self, slices: u32, pod: u8) -> Option<&Entry> {
        self.entries(slices).filter(|entry| entry.pod == pod).last()
    }

    /// Whether what a request did may be done.
    pub(super) fn judge_request(
        &self,
        before: Store,
        request: &Request,
        after: Store,
    ) -> Result<(), Violation> {
        match *request {
            Request::Slice {
                index, to, seals, ..
            } => {
                let old = self.slices.at(before.slices).get(usize::from(index));
                let old = old.map(|number| self.contents.at(*number));
                let blank = Content {
                    filled: if index == 0 { self.world.filled } else { 0 },
                    ..Content::default()
                };
                let (old, new) = (old.unwrap_or(&blank), self.contents.at(to));
                let ended = Verdict::read(before.status).ended();
                grows_only(old, new, ended)?;
                let open = |at: usize| old.entries.get(at).is_some_and(|entry| !entry.is_final());
                let over = new.entries.iter().enumerate();
                for (_, entry) in over.filter(|(at, entry)| open(*at) && entry.is_final()) {
                    self.judge_end(before, entry)?;
                }
                match seals {
                    Some(nodes) if !old.sealed => self.judge_seal(after, nodes),
                    _ => Ok(()),
                }
            }
            Request::Confirm { .. } | Request::ConfirmPod { .. } => Ok(()),
            Request::Create { pod, .. } => self.judge_create(before, after, pod),
            Request::Delete { pod, .. } => self.judge_delete(before, pod),
            Request::Release { pod, .. } => self.judge_release(before, pod),
            Request::Status {
                to,
                succeeded,
                failed,
                ..
            } => {
                self.judge_counts(before, succeeded, failed)?;
                self.judge_status(before, to, usize::from(succeeded + failed))
            }
        }
    }

    /// An attempt is over when its pod has ended or was told to stop, and as that has ended.
    fn judge_end(&self, before: Store, entry: &Entry) -> Result<(), Violation> {
        let Some((name, incarnation)) = entry.pod_uid else {
            return Ok(());
        };
        let pod = self.pod(before.pods, name);
        let Some(pod) = pod.filter(|pod| !pod.gone && pod.incarnation == incarnation) else {
            return Ok(());
        };
        if pod.phase == Phase::Active && pod.deleted.is_none() {
            return broken(
                "an attempt is over only when its pod has ended or was told to stop",
                self.pod_text(&pod),
            );
        }
        let succeeded = pod.phase == Phase::Succeeded && !pod.ended_late;
        if succeeded != (entry.state == NodeState::Succeeded) {
            return broken(
                "a pod that has succeeded by itself is a success, and no other is",
                format!("{} is recorded as {:?}", self.pod_text(&pod), entry.state),
            );
        }
        Ok(())
    }

    fn judge_create(&self, before: Store, after: Store, pod: u8) -> Result<(), Violation> {
        let name = self.names.name(pod);
        let Some(entry) = self.entry(before.slices, pod) else {
            return broken("no pod is created that was not reserved", name.to_owned());
        };
        // The reservation was given up while the request was under way. That no server refuses
        // it is documented; the pod is stopped and not counted.
        if entry.is_final() && !self.world.strict {
            return Ok(());
        }
        if entry.is_final() {
            return broken(
                "no pod is created for an attempt that is over",
                name.to_owned(),
            );
        }
        let served = self.entries(before.slices).any(|other| {
            (other.node, other.generation) == (entry.node, entry.generation)
                && other.state == NodeState::Succeeded
        });
        if served {
            return broken(
                "no node that has succeeded is served again",
                name.to_owned(),
            );
        }
        let ran = |other: &&Entry| {
            let same = (other.node, other.generation) == (entry.node, entry.generation);
            let bound = self
                .pod(before.pods, other.pod)
                .is_some_and(|pod| pod.bound);
            same && other.pod != pod && bound
        };
        if self.world.at_most_once
            && let Some(other) = self.entries(before.slices).find(ran)
        {
            return broken(
                "at most once: where a pod was bound there is no further one",
                format!("{name} after {}", self.names.name(other.pod)),
            );
        }
        if self.pod(after.pods, pod).is_some_and(|p| p.incarnation > 0) {
            return broken("a pod name is used once", name.to_owned());
        }
        Ok(())
    }

    fn judge_delete(&self, before: Store, name: u8) -> Result<(), Violation> {
        let Some(pod) = self.pod(before.pods, name) else {
            return Ok(());
        };
        let runs = pod.occupies() && pod.bound && pod.deleted.is_none();
        let failing = Verdict::read(before.status).failing;
        let entry = self.entry(before.slices, name);
        let given_up = !pod.started && entry.is_some_and(|entry| entry.why == Why::NotStarted);
        if runs && !failing && !given_up && !disowned(&pod, entry) {
            return broken(
                "a pod that runs is stopped only when its job is failing or its attempt is over",
                self.pod_text(&pod),
            );
        }
        Ok(())
    }

    fn judge_release(&self, before: Store, name: u8) -> Result<(), Violation> {
        let stored = match self.entry(before.slices, name) {
            Some(entry) => entry.is_final(),
            None => self.sealed(before),
        };
        if stored {
            return Ok(());
        }
        broken(
            "a pod is released only after its outcome is stored",
            self.names.name(name).to_owned(),
        )
    }

    fn sealed(&self, store: Store) -> bool {
        let last = self.slices.at(store.slices).last();
        last.is_some_and(|number| self.contents.at(*number).sealed)
    }

    /// Counts of a status that is about to be written.
    pub(super) fn judge_counts(
        &self,
        store: Store,
        succeeded: u16,
        failed: u16,
    ) -> Result<(), Violation> {
        let filled = usize::from(self.world.filled);
        for (counted, state, filled) in [
            (succeeded, NodeState::Succeeded, filled),
            (failed, NodeState::Failed, 0),
        ] {
            let recorded = self
                .entries(store.slices)
                .filter(|entry| entry.state == state)
                .count();
            if usize::from(counted) > recorded + filled {
                return broken(
                    "status counts no more than the records say",
                    format!("{counted} {state:?} of {recorded}"),
                );
            }
        }
        Ok(())
    }

    fn judge_status(&self, before: Store, to: u8, counted: usize) -> Result<(), Violation> {
        let (old, new) = (Verdict::read(before.status), Verdict::read(to));
        let undone = old.failing && !new.failing
            || old.complete && !new.complete
            || old.failed && !new.failed;
        if undone || new.complete && (new.failed || new.failing) {
            return broken("an end is an end", format!("{old:?} became {new:?}"));
        }
        let outcomes = self
            .entries(before.slices)
            .filter(|e| has_outcome(e))
            .count();
        let wanted = outcomes + usize::from(self.world.filled);
        if new.complete && !old.complete && counted != wanted {
            return broken(
                "a complete job has counted every outcome",
                format!("{counted} of {wanted}"),
            );
        }
        Ok(())
    }

    /// Unless the job fails, it is sealed when each node it is to serve has an outcome: in a record,
    /// or, since earlier slices are written side by side with the seal, in a pod that is held.
    fn judge_seal(&self, after: Store, nodes: Nodes) -> Result<(), Violation> {
        let failed = |entry: &Entry| entry.state == NodeState::Failed;
        if self.world.fail_fast && self.entries(after.slices).any(failed) {
            return Ok(());
        }
        for node in (0..self.world.nodes).filter(|node| !nodes.cordoned(*node)) {
            let identity = (node, nodes.generation(node));
            let ended = |entry: &Entry| {
                let pod = self.pod(after.pods, entry.pod);
                !entry.is_final() && pod.is_some_and(|p| p.tracked && p.phase != Phase::Active)
            };
            let served = self.entries(after.slices).any(|entry| {
                (entry.node, entry.generation) == identity && (has_outcome(entry) || ended(entry))
            });
            if !served {
                return broken(
                    "a job is sealed when each node it is to serve has an outcome",
                    format!("n{node}"),
                );
            }
        }
        Ok(())
    }

    pub(super) fn pod_text(&self, pod: &Pod) -> String {
        let name = self.names.name(pod.name);
        format!("{name} on n{}", pod.node)
    }
}

fn has_outcome(entry: &Entry) -> bool {
    matches!(entry.state, NodeState::Succeeded | NodeState::Failed)
}

/// A pod of an attempt that was given up before the pod was seen.
fn disowned(pod: &Pod, entry: Option<&Entry>) -> bool {
    entry.is_none_or(|entry| entry.is_final() && entry.pod_uid != Some((pod.name, pod.incarnation)))
}

fn grows_only(old: &Content, new: &Content, ended: bool) -> Result<(), Violation> {
    let law = "records are only added, and never change once they are final";
    if new.filled != old.filled || new.entries.len() < old.entries.len() {
        return broken(law, format!("{old:?} became {new:?}"));
    }
    for (before, after) in old.entries.iter().zip(&new.entries) {
        let identity = |entry: &Entry| (entry.node, entry.generation, entry.attempt, entry.pod);
        let same = identity(before) == identity(after)
            && (before.pod_uid.is_none() || before.pod_uid == after.pod_uid);
        if !same || before.is_final() && before != after {
            return broken(law, format!("{before:?} became {after:?}"));
        }
    }
    let grown = new.entries.len() > old.entries.len();
    if grown && (old.sealed || ended) || old.sealed && !new.sealed {
        return broken(
            "nothing is reserved after the seal or the end",
            format!("{new:?}"),
        );
    }
    Ok(())
}
