//! The world.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::DaemonSetStatus;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::daemon_set::backoff::{FailedNodes, note};
use crate::daemon_set::on_nodes::on_nodes;
use crate::daemon_set::pod::LABEL_REVISION;
use crate::daemon_set::refused::RefusedNodes;
use crate::daemon_set::taken::TakenNames;
use crate::daemon_set::{
    DaemonPod, DaemonPods, DaemonSet, PodChanges, Revisions, Snapshot, Why, pod_changes, status,
};
use crate::meta::Meta;
use crate::node::{Effect, NodeRow, Nodes, Taint};
use crate::object_key::ObjectKey;
use crate::pod::PodPhase;
use crate::uid::Uid;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A DaemonSet, its pods, and nodes.
#[derive(Debug)]
pub(super) struct World {
    pub set: DaemonSet,
    pub nodes: Nodes,
    pub pods: DaemonPods,
    pub failed: FailedNodes,
    none: (
        DaemonPods,
        Revisions,
        BTreeSet<String>,
        TakenNames,
        RefusedNodes,
    ),
    pub hash: String,
    pub now: Timestamp,
    created: usize,
}

impl World {
    /// So many nodes without pods.
    pub(super) fn new(nodes: usize, spec: &Value) -> Self {
        let owner = ObjectKey::of(("apps/v1", "DaemonSet"), "ops", "foo", Uid::default());
        Self {
            set: DaemonSet::read(Meta::new(owner, at(0)), None, spec, &Value::Null),
            nodes: (0..nodes)
                .map(|n| (format!("node-{n:02}").into(), NodeRow::default()))
                .collect(),
            pods: DaemonPods::new(),
            failed: FailedNodes::new(),
            none: Default::default(),
            hash: "1".to_owned(),
            now: at(0),
            created: 0,
        }
    }

    /// So many nodes, each with a pod that is ready.
    pub(super) fn running(nodes: usize) -> Self {
        let mut world = Self::new(nodes, &json!({}));
        assert_eq!(world.sync(), (nodes, 0));
        world.make_ready(|_| true);
        world
    }

    /// Another template, and how it is rolled out.
    pub(super) fn edit(&mut self, hash: &str, rolling_update: &Value) {
        hash.clone_into(&mut self.hash);
        let meta = self.set.meta.clone();
        let spec = json!({
            "updateStrategy": {"rollingUpdate": rolling_update},
            "minReadySeconds": self.set.spec.min_ready_seconds,
        });
        self.set = DaemonSet::read(meta, None, &spec, &Value::Null);
        self.set.meta.generation += 1;
    }

    /// A pod on a node.
    pub(super) fn pod(&mut self, node: &str, hash: &str) -> &mut DaemonPod {
        self.created += 1;
        let pod = DaemonPod {
            phase: PodPhase::Running,
            node: Some(node.into()),
            bound: true,
            created: self.now,
            labels: Arc::from([(LABEL_REVISION.into(), hash.into())]),
            ..DaemonPod::default()
        };
        let name = format!("foo-{:03}", self.created);
        self.pods.entry(name.into()).or_insert(pod)
    }

    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            set: &self.set,
            pods: &self.pods,
            free: &self.none.0,
            revisions: &self.none.1,
            free_revisions: &self.none.1,
            nodes: &self.nodes,
            failed: &self.failed,
            taken: &self.none.2,
            taken_pods: &self.none.3,
            refused_nodes: &self.none.4,
            refusal: None,
            told_at: None,
            max_pod_changes: 250,
        }
    }

    pub(super) fn changes(&self) -> PodChanges<'_> {
        let snapshot = self.snapshot();
        pod_changes(&snapshot, &on_nodes(&snapshot), &self.hash, self.now)
    }

    /// What is planned now: nodes that get a pod, and pods that go.
    pub(super) fn planned(&self) -> (Vec<String>, Vec<(String, Why)>) {
        let changes = self.changes();
        // Upstream's tests see at once what is deleted.
        let create = changes.create.into_iter().chain(changes.waiting);
        let create = create.map(str::to_owned);
        let delete = changes.delete.into_iter();
        let delete = delete.map(|(name, why)| (name.to_owned(), why));
        (create.collect(), delete.collect())
    }

    /// Does it, and counts what was created and what was deleted.
    pub(super) fn sync(&mut self) -> (usize, usize) {
        let (create, delete) = self.planned();
        for (name, why) in &delete {
            let pod = self.pods.remove(&**name).unwrap();
            if *why == Why::Failed {
                let node = pod.node.unwrap();
                let generation = self.set.meta.generation;
                note(&mut self.failed, (name, &node), generation, self.now);
            }
        }
        let hash = self.hash.clone();
        for node in &create {
            self.pod(node, &hash);
        }
        (create.len(), delete.len())
    }

    /// Makes pods ready, and says how many.
    pub(super) fn make_ready(&mut self, which: impl Fn(&DaemonPod) -> bool) -> usize {
        let pods = self.pods.values_mut();
        let pods = pods.filter(|pod| pod.ready.is_none() && which(pod));
        pods.map(|pod| pod.ready = Some(self.now)).count()
    }

    /// Those that are ready.
    pub(super) fn ready(&self) -> Vec<String> {
        let ready = self.pods.iter().filter(|(_, pod)| pod.ready.is_some());
        ready.map(|(name, _)| name.to_string()).collect()
    }

    /// Taints a node.
    pub(super) fn taint(&mut self, node: &str, key: &str, effect: Effect) {
        let node = self.nodes.get_mut(node).unwrap();
        node.taints = [Taint {
            key: key.into(),
            value: "".into(),
            effect,
        }]
        .into();
    }

    pub(super) fn status(&self) -> DaemonSetStatus {
        status::count(&self.set, &on_nodes(&self.snapshot()), &self.hash, self.now)
    }
}
