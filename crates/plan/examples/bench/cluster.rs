//! Nodes, pods and records as the operator's caches hold them, and what the API server would make
//! of a plan.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{
    BroadcastJob, Changes, Index, Requests, Snapshot, Taken, TakenPod, TakenPods, Template, settle,
};
use carillon_plan::condition;
use carillon_plan::meta::Meta;
use carillon_plan::node::{Effect, NodeRow, Nodes, Taint};
use carillon_plan::object_key::{BROADCAST_JOB, ObjectKey};
use carillon_plan::pod::{End, PodPhase, PodRow, Pods};
use carillon_plan::record::{Record, Slice};
use carillon_plan::uid::Uid;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// `--max-pod-changes-per-sync`, as installed.
const MAX_POD_CHANGES: usize = 500;

/// A cluster with one job.
pub(crate) struct Cluster {
    /// What time it is.
    pub(crate) now: Timestamp,
    job: BroadcastJob,
    /// Type of its completionPolicy.
    completion: &'static str,
    /// A node that is not there yet, and how they look.
    next: NodeRow,
    changed_nodes: Vec<Arc<str>>,
    nodes: Nodes,
    pods: Pods,
    /// Names of the pods that have changed since the last sync.
    changed: Vec<Box<str>>,
    index: Index,
    slices: Vec<Slice>,
    template: Template,
    gone: BTreeSet<Uid>,
    conflicts: BTreeSet<Box<str>>,
    disputed: BTreeSet<Box<str>>,
    taken: TakenPods,
    asked: BTreeMap<Uid, TakenPod>,
    serial: u64,
    /// Names and nodes of pods that do not run yet.
    waiting: Vec<(Box<str>, Arc<str>)>,
    /// Names of running pods, oldest first.
    running: VecDeque<Box<str>>,
}

impl Cluster {
    /// Nothing has been begun on any of these nodes.
    pub(crate) fn new(nodes: usize, completion: &'static str) -> Self {
        let mut cluster = Self {
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
            job: job(completion, &Value::Null),
            completion,
            nodes: Nodes::new(),
            pods: Pods::new(),
            changed: Vec::new(),
            next: NodeRow::default(),
            changed_nodes: Vec::new(),
            index: Index::default(),
            slices: Vec::new(),
            template: Template::Accepted,
            gone: BTreeSet::new(),
            conflicts: BTreeSet::new(),
            disputed: BTreeSet::new(),
            taken: TakenPods::new(),
            asked: BTreeMap::new(),
            serial: 0,
            waiting: Vec::new(),
            running: VecDeque::new(),
        };
        let shared = |pairs: &[(&str, &str)]| -> Vec<(Arc<str>, Arc<str>)> {
            let mut pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| (Arc::from(*key), Arc::from(*value)))
                .collect();
            pairs.sort();
            pairs
        };
        let labels: Arc<[_]> = shared(&[
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/instance-type", "large"),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/os", "linux"),
            ("node.kubernetes.io/instance-type", "large"),
            ("pool", "general"),
            ("topology.kubernetes.io/region", "r"),
            ("topology.kubernetes.io/zone", "r-a"),
        ])
        .into();
        let taints: Arc<[Taint]> = [Taint {
            key: "example.com/busy".into(),
            value: "".into(),
            effect: Effect::PreferNoSchedule,
        }]
        .into();
        let allocatable: Arc<[(Arc<str>, _)]> = [
            ("cpu", 8_000),
            ("ephemeral-storage", 100_000_000_000_000),
            ("memory", 32_000_000_000_000),
            ("pods", 110_000),
        ]
        .map(|(resource, amount)| (resource.into(), amount))
        .into();
        cluster.next = NodeRow {
            labels,
            taints,
            allocatable,
            ..NodeRow::default()
        };
        for n in 0..nodes {
            let name: Arc<str> = format!("node-{n:06}.example.internal").into();
            let row = cluster.row(&name);
            cluster.nodes.insert(name, row);
        }
        cluster
    }

    fn row(&mut self, name: &Arc<str>) -> NodeRow {
        NodeRow {
            uid: self.uid(),
            hostname: Some(name.clone()),
            ..self.next.clone()
        }
    }

    /// A node joins.
    pub(crate) fn join(&mut self) {
        let name: Arc<str> = "node-new.example.internal".into();
        let row = self.row(&name);
        self.nodes.insert(name.clone(), row);
        self.changed_nodes.push(name);
    }

    fn uid(&mut self) -> Uid {
        self.serial += 1;
        let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{:012x}", self.serial);
        uid.parse().expect("a uid")
    }

    /// What the operator sees, with what is `kept` or without.
    pub(crate) fn snapshot<T>(&self, kept: bool, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        look(&Snapshot {
            job: &self.job,
            nodes: &self.nodes,
            pods: &self.pods,
            taken: Taken {
                watched: &self.taken,
                asked: &self.asked,
            },
            created: &BTreeMap::new(),
            slices: &self.slices,
            template: &self.template,
            gone: &self.gone,
            conflicts: &self.conflicts,
            disputed: &self.disputed,
            creation_problem: None,
            refused: &BTreeMap::new(),
            refusal: None,
            family: None,
            max_pod_changes: MAX_POD_CHANGES,
            index: Some(&self.index).filter(|_| kept),
        })
    }

    /// Catches up with what has changed since the last sync.
    pub(crate) fn follow(&mut self) {
        let pods = std::mem::take(&mut self.changed);
        let names = std::mem::take(&mut self.changed_nodes);
        let changes = Changes {
            nodes: &names,
            pods: &pods,
        };
        let (job, nodes, pods) = (&self.job, &self.nodes, &self.pods);
        (self.index).follow(job, nodes, pods, &self.slices, Some(changes));
    }

    /// Carries out a plan.
    pub(crate) fn apply(&mut self, plan: Plan) {
        let mut created = 0;
        for action in plan.steps.into_iter().flat_map(|step| step.actions) {
            match action {
                Action::WriteSlice(write) => {
                    self.serial += 1;
                    // All of it comes anew from the API server.
                    let records = write.records().map(|record| {
                        let mut record = Record::read(&record.write()).expect("a record");
                        // The caches share names.
                        if let Some((name, _)) = self.nodes.get_key_value(&record.node) {
                            record.node = name.clone();
                        }
                        record
                    });
                    let slice = Slice {
                        index: write.index,
                        rv: self.serial,
                        sealed: write.sealed,
                        records: records.collect(),
                        ..Slice::default()
                    };
                    match self.slices.get_mut(write.index as usize) {
                        Some(known) => *known = slice,
                        None => self.slices.push(slice),
                    }
                }
                Action::CreatePod { pod, node, .. } => {
                    created += 1;
                    let row = PodRow {
                        uid: self.uid(),
                        rv: self.serial,
                        tracked: true,
                        created: Some(self.now),
                        ..PodRow::default()
                    };
                    self.changed.push(pod.clone());
                    self.pods.insert(pod.clone(), row);
                    self.waiting.push((pod, node));
                }
                Action::ReleasePod { pod, .. } => {
                    if let Some(row) = self.pods.get_mut(&pod) {
                        row.tracked = false;
                        self.changed.push(pod);
                    }
                }
                Action::WriteStatus(mut status) => {
                    settle(&mut status, created);
                    let status = serde_json::to_value(&*status).expect("a status");
                    self.job = job(self.completion, &status);
                }
                // All is as it was read.
                Action::ConfirmJob | Action::ConfirmSlice { .. } | Action::ConfirmPod { .. } => {}
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    /// Every pod that waits begins to run.
    pub(crate) fn run_all(&mut self) {
        for (name, node) in std::mem::take(&mut self.waiting) {
            let row = self.pods.get_mut(&name).expect("a pod");
            row.phase = PodPhase::Running;
            row.node = Some(node);
            row.started = Some(self.now);
            self.changed.push(name.clone());
            self.running.push_back(name);
        }
    }

    /// The oldest running pods succeed; how many there were.
    pub(crate) fn end_oldest(&mut self, most: usize) -> usize {
        let count = most.min(self.running.len());
        for name in self.running.drain(..count) {
            let row = self.pods.get_mut(&name).expect("a pod");
            row.phase = PodPhase::Succeeded;
            self.changed.push(name.clone());
            row.end = Some(Box::new(End {
                exit_code: Some(0),
                finished: Some(self.now),
                ..End::default()
            }));
        }
        count
    }

    /// Brings the job to where all of its pods run and are known to run.
    pub(crate) fn start_all(&mut self) {
        loop {
            let plan = crate::cost::sync(self).0;
            if plan.steps.is_empty() && self.waiting.is_empty() {
                return;
            }
            self.apply(plan);
            self.run_all();
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: SignedDuration) {
        self.now += time;
    }

    /// Whether a pod runs, or a node waits for one.
    pub(crate) fn has_work(&self) -> bool {
        !self.running.is_empty() || self.slices.is_empty()
    }

    /// Whether the job has ended and all of its pods are released.
    pub(crate) fn is_over(&self) -> bool {
        condition::is_true(&self.job.status.conditions, "Complete")
            && self.pods.values().all(|row| !row.tracked)
    }
}

/// A job as many are: an agent's upgrade on every Linux node.
fn job(completion: &str, status: &Value) -> BroadcastJob {
    let meta = Meta::new(
        ObjectKey::of(BROADCAST_JOB, "ops", "upgrade-agent", Uid::MAX),
        Timestamp::UNIX_EPOCH,
    );
    let spec = json!({
        "completionPolicy": {"type": completion},
        "template": {"spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [
                {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                {"key": "dedicated", "operator": "Equal", "value": "batch"},
            ],
            "containers": [{
                "name": "main", "image": "example.com/agent:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }],
        }},
    });
    BroadcastJob::read(meta, Requests::default(), &spec, status)
}
