//! What the API has shown of a scenario, as facts that two clusters can share.
//!
//! After each step: the numbers of the status, a line for each pod and each revision, what pods were made
//! meanwhile, and how many were ready at least. In the end: every field of all of them, and the events.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::here::{hash, is_deleting, is_ready, node_of};
use super::scenario::Scenario;
use crate::parity::plain::{leaves, plain, without_chance};
use crate::parity::watched::Here;

/// Before the message of an event that stands for many.
const COMBINED: &str = "(combined from similar events): ";
/// From the node, with the binding.
const OF_NODES: &str = "topology.kubernetes.io/";

/// Names that are the same on both sides.
struct Names<'a> {
    namespace: &'a str,
    hashes: Vec<String>,
    any_node: bool,
}

impl Names<'_> {
    /// The revision that an object is of, by the order in which revisions were made.
    fn revision(&self, object: &Value) -> String {
        hash(object).map_or_else(|| "no revision".to_owned(), |hash| self.text(hash))
    }

    fn node(&self, pod: &Value) -> String {
        match node_of(pod) {
            Some(_) if self.any_node => "a node".to_owned(),
            Some(node) => node.replace(self.namespace, "node"),
            None => "no node".to_owned(),
        }
    }

    /// A text with neither hashes nor names that are made.
    fn text(&self, text: &str) -> String {
        self.without_node(plain(&self.with_revisions(text), self.namespace))
    }

    /// All fields of an object.
    fn leaves(&self, object: &Value) -> BTreeMap<String, String> {
        // A hash is known before the end of a name that it is.
        let text = self.with_revisions(&without_chance(object).to_string());
        let object = serde_json::from_str(&text).expect("JSON");
        let leaves = leaves(&object, self.namespace).into_iter();
        leaves
            .map(|(path, value)| (path, self.without_node(value)))
            .collect()
    }

    fn with_revisions(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (at, hash) in self.hashes.iter().enumerate() {
            text = text.replace(hash, &format!("R{}", at + 1));
        }
        text
    }

    fn without_node(&self, text: String) -> String {
        if !self.any_node {
            return text;
        }
        let numbers = (0..10).map(|number| format!("NAMESPACE-{number}"));
        numbers.fold(text, |text, node| text.replace(&node, "NAMESPACE-N"))
    }
}

/// How far the changes of a namespace were read.
#[derive(Default)]
pub(crate) struct Moment {
    read: usize,
    pods: BTreeMap<String, Value>,
}

impl Moment {
    /// What there is after a step, and what has happened to pods since the one before it.
    pub(crate) fn facts(
        &mut self,
        step: usize,
        here: &Here,
        namespace: &str,
        any_node: bool,
    ) -> Vec<String> {
        let names = Names {
            namespace,
            hashes: here.hashes(),
            any_node,
        };
        let mut facts: Vec<String> = vec![format!("DaemonSet gone = {}", here.is_set_gone())];
        if let Some(set) = here.set() {
            let status = leaves(&set["status"], namespace);
            facts.extend(
                status
                    .iter()
                    .map(|(path, value)| format!("status {path} = {value}")),
            );
            let is_up_to_date =
                set["status"]["observedGeneration"] == set["metadata"]["generation"];
            facts.push(format!("is observed = {is_up_to_date}"));
        }
        facts.extend(counted(here.pods().iter().map(|pod| pod_line(pod, &names))));
        let revisions = here.all("controllerrevisions").iter();
        facts.extend(counted(
            revisions.map(|revision| revision_line(revision, &names)),
        ));
        facts.extend(self.course(here, &names));
        let facts = facts.into_iter();
        facts.map(|fact| format!("step {step}: {fact}")).collect()
    }

    /// What was made, how many were ready at least, and how many there were at most. One that somebody has
    /// deleted counts as gone.
    fn course(&mut self, here: &Here, names: &Names<'_>) -> Vec<String> {
        let ready =
            |pods: &BTreeMap<String, Value>| pods.values().filter(|pod| is_ready(pod)).count();
        let (mut least, mut most, mut beside) = (ready(&self.pods), self.pods.len(), 0);
        let mut made = Vec::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for (at, seen) in here.changes.iter().enumerate() {
            if seen.plural != "pods" {
                continue;
            }
            let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
            let is_new = known.insert(uid.to_owned());
            if at < self.read {
                continue;
            }
            if is_new {
                let (node, revision) = (names.node(&seen.object), names.revision(&seen.object));
                made.push(format!("pod made on {node}: {revision}"));
            }
            if seen.gone || is_deleting(&seen.object) {
                self.pods.remove(uid);
            } else {
                self.pods.insert(uid.to_owned(), seen.object.clone());
            }
            least = least.min(ready(&self.pods));
            most = most.max(self.pods.len());
            let node = node_of(&seen.object);
            let there = self.pods.values().filter(|pod| node_of(pod) == node);
            beside = beside.max(there.count());
        }
        self.read = here.changes.len();
        let mut facts: Vec<String> = counted(made.into_iter()).collect();
        facts.push(format!("least ready: {least}"));
        facts.push(format!("most pods: {most}, on one node: {beside}"));
        facts
    }
}

fn counted(lines: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        *counts.entry(line).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(line, count)| format!("{count} {line}"))
}

fn owner_of(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let shown = owners.into_iter().flatten().map(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let controls = owner["controller"] == true;
        format!("{} {} (controls: {controls})", text("kind"), text("name"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn pod_line(pod: &Value, names: &Names<'_>) -> String {
    format!(
        "pod on {}: {}, {}, ready = {}, deleted = {}, of [{}]",
        names.node(pod),
        names.revision(pod),
        pod["status"]["phase"],
        is_ready(pod),
        is_deleting(pod),
        owner_of(pod)
    )
}

fn revision_line(revision: &Value, names: &Names<'_>) -> String {
    format!(
        "revision {}: number {}, deleted = {}, of [{}]",
        names.revision(revision),
        revision["revision"],
        is_deleting(revision),
        owner_of(revision)
    )
}

/// Every field of what there is, and the events.
pub(crate) fn facts_in_the_end(
    here: &Here,
    namespace: &str,
    scenario: &Scenario,
) -> BTreeSet<String> {
    let names = Names {
        namespace,
        hashes: here.hashes(),
        any_node: scenario.any_node,
    };
    let mut facts = BTreeSet::new();
    for set in here.all("daemonsets") {
        let fields = names.leaves(set).into_iter();
        facts.extend(fields.map(|(path, value)| format!("DaemonSet {path} = {value}")));
    }
    for revision in here.all("controllerrevisions") {
        let of = names.revision(revision);
        let fields = names.leaves(revision).into_iter();
        facts.extend(fields.map(|(path, value)| format!("revision {of}: {path} = {value}")));
    }
    let fields = here.pods().iter().flat_map(|pod| {
        let node = names.node(pod);
        let fields = names.leaves(&pod_without_chance(pod)).into_iter();
        fields
            .map(|(path, value)| format!("pod on {node}: {path} = {value}"))
            .collect::<Vec<_>>()
    });
    facts.extend(counted(fields));
    facts.extend(events(here, &names, scenario));
    facts
}

/// Without what kubelet, scheduler and API server say of it, besides its phase and where it is.
fn pod_without_chance(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let phase = pod["status"]["phase"].take();
    pod["status"] = json!({"phase": phase});
    if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
        labels.retain(|key, _| !key.starts_with(OF_NODES));
    }
    pod
}

/// Events about the DaemonSet: how many of a kind, as far as that is no chance.
fn events(here: &Here, names: &Names<'_>, scenario: &Scenario) -> Vec<String> {
    let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
    for seen in here.seen("events") {
        let about = &seen.object["involvedObject"];
        if about["kind"] == "DaemonSet" {
            let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
            last.insert(uid, &seen.object);
        }
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in last.values() {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let message = text("message");
        let message = message.strip_prefix(COMBINED).unwrap_or(message);
        let of = format!(
            "{} {}: {}",
            text("type"),
            text("reason"),
            names.text(message)
        );
        let count = event["series"]["count"]
            .as_u64()
            .or_else(|| event["count"].as_u64());
        *counts.entry(of).or_default() += count.unwrap_or(1).max(1);
    }
    let shown = counts.into_iter().map(|(of, count)| match count {
        _ if scenario.any_count => format!("event {of}"),
        1 => format!("event {of}, once"),
        _ => format!("event {of}, more than once"),
    });
    shown.collect()
}
