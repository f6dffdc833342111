//! What is kept between plans, how a snapshot is made with it, and how it is written down.

use std::collections::{BTreeMap, BTreeSet};

use carillon_plan::condition::Refusal;
use carillon_plan::daemon_set::backoff::{FailedNodes, forget, note};
use carillon_plan::daemon_set::refused::{self, RefusedNodes, What};
use carillon_plan::daemon_set::taken::{self, TakenNames};
use carillon_plan::daemon_set::{DaemonPods, DaemonSet, Revisions, Snapshot};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::performer::Answer;
use crate::store::Tables;

/// Names of revisions that others have are remembered up to so many: each makes the next name another one.
const TAKEN: usize = 16;

/// What a restart loses: a node on which pods fail begins anew, as with upstream.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// Nodes on which pods have failed.
    pub(super) failed: FailedNodes,
    /// Names of revisions that others have.
    pub(super) taken: BTreeSet<String>,
    /// Names of pods that others have.
    pub(super) taken_pods: TakenNames,
    /// Nodes for which something was refused.
    pub(super) refused_nodes: RefusedNodes,
    /// What is refused again and again.
    pub(super) refusal: Option<Refusal>,
    /// When a status was last told that others will follow.
    pub(super) told_at: Option<Timestamp>,
}

/// The snapshot of a DaemonSet, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    set: &DaemonSet,
    memory: &Memory,
    max_pod_changes: usize,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let (no_pods, no_revisions) = (DaemonPods::new(), Revisions::new());
    let (owner, sets) = (&set.meta.owner, &tables.daemon_sets);
    let namespace = &owner.namespace;
    look(&Snapshot {
        set,
        pods: sets.pods(owner).unwrap_or(&no_pods),
        free: sets.orphan_pods(namespace).unwrap_or(&no_pods),
        revisions: sets.revisions(owner).unwrap_or(&no_revisions),
        free_revisions: sets.orphan_revisions(namespace).unwrap_or(&no_revisions),
        nodes: tables.nodes(),
        failed: &memory.failed,
        taken: &memory.taken,
        taken_pods: &memory.taken_pods,
        refused_nodes: &memory.refused_nodes,
        refusal: memory.refusal.as_ref(),
        told_at: memory.told_at,
        max_pod_changes,
    })
}

impl Memory {
    /// Forgets what no longer matters.
    pub(super) fn follow(
        &mut self,
        tables: &Tables,
        set: &DaemonSet,
        refusal: Option<Refusal>,
        now: Timestamp,
    ) {
        forget(&mut self.failed, set.meta.generation, now);
        if !self.refused_nodes.is_empty() {
            let pods = tables.daemon_sets.pods(&set.meta.owner).into_iter();
            let on = pods.flatten().filter_map(|(_, pod)| pod.node.as_deref());
            let with_pod: BTreeSet<&str> = on.collect();
            let there = |node: &str| (tables.nodes().contains_key(node), with_pod.contains(node));
            refused::forget(&mut self.refused_nodes, now, there);
        }
        taken::forget(&mut self.taken_pods, set.meta.generation, now);
        if self.taken.len() > TAKEN {
            self.taken.clear();
        }
        self.refusal = refusal;
    }

    /// Learns what the API server has answered to a plan of `now`; the last answer came at `end`. Whether the next plan
    /// should come at once.
    pub(super) fn learn(
        &mut self,
        set: &DaemonSet,
        answers: Vec<Answer>,
        (now, end): (Timestamp, Timestamp),
    ) -> bool {
        let generation = set.meta.generation;
        let (mut at_once, mut failed_on) = (false, BTreeMap::new());
        let refused = &mut self.refused_nodes;
        for answer in answers {
            match answer {
                Answer::PodCreated(node) => refused::went_through(refused, (&node, What::Creation)),
                Answer::PodGone { node, failed } => {
                    refused::went_through(refused, (&node, What::Deletion));
                    failed_on.extend(failed.map(|pod| (node, pod)));
                }
                Answer::PodStays(node) => refused::went_through(refused, (&node, What::Deletion)),
                Answer::NameTaken(name) => at_once |= self.taken.insert(name),
                Answer::StatusTold { more } => self.told_at = more.then_some(end),
                Answer::NodeRefused { node, what } => refused::note(refused, (&node, what), now),
                Answer::PodNameTaken { name, node } => {
                    refused::note(refused, (&node, What::Creation), now);
                    taken::note(&mut self.taken_pods, (&name, &node), generation, now);
                }
            }
        }
        for (node, pod) in failed_on {
            note(&mut self.failed, (&pod, &node), generation, now);
        }
        at_once
    }

    /// What goes into the flight recorder besides the versions of the objects.
    pub(super) fn inputs(&self, max_pod_changes: usize) -> Inputs {
        Inputs {
            failed: self.failed.clone(),
            taken: self.taken.clone(),
            taken_pods: self.taken_pods.clone(),
            refused_nodes: self.refused_nodes.clone(),
            refusal: self.refusal.as_ref().map(|refusal| refusal.0.clone()),
            told_at: self.told_at,
            max_pod_changes,
        }
    }
}

/// What a plan is made from besides the objects, as the flight recorder keeps it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Inputs {
    #[serde(skip_serializing_if = "FailedNodes::is_empty")]
    failed: FailedNodes,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    taken: BTreeSet<String>,
    #[serde(skip_serializing_if = "TakenNames::is_empty")]
    taken_pods: TakenNames,
    #[serde(skip_serializing_if = "RefusedNodes::is_empty")]
    refused_nodes: RefusedNodes,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    told_at: Option<Timestamp>,
    max_pod_changes: usize,
}

impl Inputs {
    /// The memory and the limit that were written down.
    pub(super) fn recorded(self) -> (Memory, usize) {
        let memory = Memory {
            failed: self.failed,
            taken: self.taken,
            taken_pods: self.taken_pods,
            refused_nodes: self.refused_nodes,
            refusal: self.refusal.map(Refusal),
            told_at: self.told_at,
        };
        (memory, self.max_pod_changes)
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::daemon_set::action::Action;
    use carillon_plan::daemon_set::plan;
    use carillon_plan::meta::Meta;
    use carillon_plan::object_key::{DAEMON_SET, ObjectKey};
    use serde_json::{Value, json};

    use super::*;
    use crate::slim::SlimNode;
    use crate::store::Row;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A DaemonSet that needs pods on n1, n2 and n3.
    fn three_nodes() -> (Tables, DaemonSet) {
        let mut tables = Tables::default();
        for n in 1..=3 {
            let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-00000000000{n}");
            let meta = json!({"name": format!("n{n}"), "uid": uid, "resourceVersion": "1"});
            let node = json!({"metadata": meta, "spec": {}, "status": {}});
            let node: SlimNode = serde_json::from_value(node).unwrap();
            node.enter(&mut tables, &mut Vec::new());
        }
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-000000000009".parse().unwrap();
        let meta = Meta::new(ObjectKey::of(DAEMON_SET, "ops", "agent", uid), at(0));
        let spec = json!({
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}},
        });
        (tables, DaemonSet::read(meta, None, &spec, &Value::Null))
    }

    /// The nodes whose pods are created now, in their turn, and the names of these pods.
    fn created(tables: &Tables, set: &DaemonSet, memory: &Memory) -> Vec<(String, String)> {
        let plan = snapshot(tables, set, memory, 250, |snapshot| plan(snapshot, at(99)));
        let actions = plan.steps.into_iter().flat_map(|step| step.actions);
        let created = actions.filter_map(|action| match action {
            Action::CreatePod(new) => Some((new.node, new.name)),
            _ => None,
        });
        created.collect()
    }

    /// Ten that are refused end the creations of a plan.
    #[test]
    fn a_node_whose_name_is_taken_is_tried_after_others_until_it_gets_its_pod() {
        let (tables, set) = three_nodes();
        let mut memory = Memory::default();
        let turns = |memory: &Memory| {
            let created = created(&tables, &set, memory).into_iter();
            created.map(|(node, _)| node).collect::<Vec<_>>()
        };
        assert_eq!(turns(&memory), ["n1", "n2", "n3"]);
        let (node, name) = created(&tables, &set, &memory).swap_remove(0);
        let taken = || Answer::PodNameTaken {
            name: name.clone(),
            node: node.clone(),
        };
        memory.learn(&set, vec![taken()], (at(0), at(0)));
        assert_eq!(turns(&memory), ["n1", "n2", "n3"]);
        memory.learn(&set, vec![taken()], (at(30), at(30)));
        assert_eq!(turns(&memory), ["n2", "n3", "n1"]);
        let gone = Answer::PodGone {
            node: "n1".to_owned(),
            failed: None,
        };
        memory.learn(&set, vec![gone], (at(31), at(31)));
        assert_eq!(turns(&memory), ["n2", "n3", "n1"]);
        memory.learn(
            &set,
            vec![Answer::PodCreated("n1".to_owned())],
            (at(31), at(31)),
        );
        assert_eq!(turns(&memory), ["n1", "n2", "n3"]);
    }

    #[test]
    fn what_was_refused_for_a_node_is_remembered_as_long_as_there_is_such_a_node() {
        let (tables, set) = three_nodes();
        let mut memory = Memory::default();
        let refused = |node: &str, what| Answer::NodeRefused {
            node: node.to_owned(),
            what,
        };
        let of_gone = refused("n9", What::Creation);
        let without_pod = refused("n2", What::Deletion);
        let answers = vec![refused("n1", What::Creation), of_gone, without_pod];
        memory.learn(&set, answers, (at(0), at(0)));
        memory.follow(&tables, &set, None, at(3600));
        let left: Vec<&str> = memory.refused_nodes.keys().map(|node| &**node).collect();
        assert_eq!(left, ["n1"]);
    }
}
