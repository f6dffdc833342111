//! What became of the pods of a Job: an index is all that tells one from another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::here::{index_of, is_held};
use crate::parity::plain::{leaves, without_chance};
use crate::parity::watched::{Here, Seen};

/// What tests write on pods.
const FATES: &str = "testbed.carillon.dev/";

/// The life of one pod: its revisions.
struct Life<'a> {
    revisions: Vec<&'a Seen>,
}

/// Facts by index, each with how many pods share it.
pub(crate) fn facts(here: &Here, namespace: &str) -> Vec<String> {
    let mut order: Vec<&str> = Vec::new();
    let mut by_uid: BTreeMap<&str, Life<'_>> = BTreeMap::new();
    for seen in here.seen("pods") {
        let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
        let life = by_uid.entry(uid).or_insert_with(|| {
            order.push(uid);
            Life {
                revisions: Vec::new(),
            }
        });
        life.revisions.push(seen);
    }
    let lives: Vec<&Life<'_>> = order.iter().map(|uid| &by_uid[uid]).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for life in &lives {
        let index = index_of(life.first());
        let mut of_one = life.facts(here, namespace);
        if let Some(delay) = life.delay(&lives) {
            of_one.push(format!("made after a failure: {delay}"));
        }
        for fact in of_one {
            let whose = index.map_or_else(
                || "pods".to_owned(),
                |index| format!("pods of index {index}"),
            );
            *counts.entry(format!("{whose}: {fact}")).or_default() += 1;
        }
    }
    let mut facts: Vec<String> = counts
        .into_iter()
        .map(|(fact, count)| format!("{count} {fact}"))
        .collect();
    facts.push(format!("pods in all: {}", lives.len()));
    facts
}

impl Life<'_> {
    fn first(&self) -> &Value {
        &self.revisions[0].object
    }

    fn last(&self) -> &Value {
        &self.revisions[self.revisions.len() - 1].object
    }

    fn is_gone(&self) -> bool {
        self.revisions.iter().any(|seen| seen.gone)
    }

    fn revision(&self, of: impl Fn(&Value) -> bool) -> Option<u64> {
        let found = self.revisions.iter().find(|seen| of(&seen.object));
        found.map(|seen| seen.revision)
    }

    fn facts(&self, here: &Here, namespace: &str) -> Vec<String> {
        let mut facts = Vec::new();
        for (when, pod) in [("born", self.first()), ("last", self.last())] {
            let mut pod = without_chance(pod);
            if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|key, _| !key.starts_with(FATES));
            }
            if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
                // From the node, with the binding.
                labels.retain(|key, _| !key.starts_with("topology.kubernetes.io/"));
            }
            let metadata = leaves(&pod["metadata"], namespace);
            facts.extend(
                metadata
                    .iter()
                    // When it goes, and what lets it go, is told by its life.
                    .filter(|(path, _)| {
                        when == "born" || !(path.starts_with("deletion") || self.is_gone())
                    })
                    .map(|(path, value)| format!("{when} metadata/{path} = {value}")),
            );
            if when == "born" {
                if let Some(spec) = pod["spec"].as_object_mut() {
                    spec.remove("nodeName");
                }
                let spec = leaves(&pod["spec"], namespace);
                facts.extend(
                    spec.iter()
                        .map(|(path, value)| format!("spec/{path} = {value}")),
                );
            }
        }
        facts.push(format!("phases {}", self.phases()));
        facts.push(format!("gone = {}", self.is_gone()));
        facts.push(self.release(here));
        facts.extend(self.counting(here));
        facts
    }

    /// What its containers do once it is to go is not its controller's business.
    fn phases(&self) -> String {
        let mut phases: Vec<&str> = self
            .revisions
            .iter()
            .filter(|seen| !is_deleted(&seen.object))
            .filter_map(|seen| seen.object["status"]["phase"].as_str())
            .collect();
        phases.dedup();
        phases.join(" ")
    }

    /// When it lost its finalizer. A pod that waits for nothing else goes with it, and its last
    /// state is that before.
    fn released_after(&self, held: u64) -> Option<u64> {
        let released = self
            .revisions
            .iter()
            .find(|seen| seen.revision > held && (seen.gone || !is_held(&seen.object)));
        released.map(|seen| seen.revision)
    }

    /// Whether it lost its finalizer, and before or after it was deleted.
    fn release(&self, here: &Here) -> String {
        let held = self.revision(is_held);
        let released = held.and_then(|held| self.released_after(held));
        let deleted = self.revision(is_deleted);
        let life = match (held, released, deleted) {
            (None, _, None) => "never held, never deleted",
            (None, _, Some(_)) => "never held, deleted",
            (Some(_), None, None) => "held",
            (Some(_), None, Some(_)) => "deleted, and held",
            (Some(_), Some(_), None) => "released, never deleted",
            // The garbage collector and the sweep for pods without a Job do their work side by side.
            (Some(_), Some(_), Some(_)) if here.is_gone() => "released and deleted",
            (Some(_), Some(released), Some(deleted)) if released < deleted => {
                "released, then deleted"
            }
            _ => "deleted, then released",
        };
        format!("finalizer: {life}")
    }

    /// How it went through the list of those that are not counted yet.
    fn counting(&self, here: &Here) -> Vec<String> {
        let uid = &self.first()["metadata"]["uid"];
        let held = |seen: &&&Seen| is_held(&seen.object) && !seen.gone;
        let last_held = self.revisions.iter().rfind(held);
        let released = last_held.and_then(|last| self.released_after(last.revision));
        let mut facts = Vec::new();
        for list in ["succeeded", "failed"] {
            let jobs = here.seen("jobs");
            let mut listed = None;
            let mut unlisted = None;
            for job in jobs {
                let uids = job.object["status"]["uncountedTerminatedPods"][list].as_array();
                if uids.is_some_and(|uids| uids.contains(uid)) {
                    listed.get_or_insert(job.revision);
                    unlisted = None;
                } else if listed.is_some() {
                    unlisted.get_or_insert(job.revision);
                }
            }
            let Some(listed) = listed else { continue };
            let is_held_then = released.is_none_or(|released| released > listed);
            let is_counted_late = match (released, unlisted) {
                (Some(released), Some(unlisted)) => unlisted > released,
                (None, Some(_)) => false,
                (_, None) => true,
            };
            facts.push(format!(
                "counted as {list}: held when it was listed = {is_held_then}, \
                 released when it was counted = {is_counted_late}"
            ));
        }
        facts
    }

    /// How long after the last failure before it, of its index if it has one, it was made:
    /// the back-off doubles, so this need not be precise.
    fn delay(&self, lives: &[&Self]) -> Option<&'static str> {
        let second = |text: &Value| -> Option<i64> {
            let time: jiff::Timestamp = text.as_str()?.parse().ok()?;
            Some(time.as_second())
        };
        let made = second(&self.first()["metadata"]["creationTimestamp"])?;
        let failures = lives.iter().filter(|other| {
            other.last()["status"]["phase"] == "Failed"
                && !is_deleted(other.last())
                && index_of(other.first()) == index_of(self.first())
        });
        let ends: BTreeSet<i64> = failures
            .filter_map(|other| {
                let containers = &other.last()["status"]["containerStatuses"];
                second(&containers[0]["state"]["terminated"]["finishedAt"])
            })
            .filter(|end| *end <= made)
            .collect();
        let delay = made - ends.last()?;
        Some(match delay {
            ..6 => "at once",
            6..15 => "10 seconds",
            15..30 => "20 seconds",
            30..60 => "40 seconds",
            _ => "minutes",
        })
    }
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}
