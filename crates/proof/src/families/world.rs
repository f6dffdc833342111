//! What there is, and what there was.

use std::collections::BTreeMap;

use carillon_plan::Uid;
use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::node::Nodes;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::leader::Leader;
use super::mode::Mode;
use super::objects::{JobObject, Jobs, Of, Pod, PodObjects, Slices};
use super::outcome::{Failure, Outcome};
use super::past::Past;
use super::versions::Versions;

/// What decides.
pub type Planner = fn(&Snapshot<'_>, Timestamp) -> Plan;

/// A world with one family.
#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) mode: Mode,
    pub(super) planner: Planner,
    pub(super) rng: Rng,
    pub(super) now: Timestamp,
    serial: u64,
    pub(super) jobs: Versions<Jobs>,
    pub(super) slices: Versions<Slices>,
    pub(super) pods: Versions<PodObjects>,
    pub(super) nodes: Versions<Nodes>,
    pub(super) leaders: Vec<Leader>,
    /// The first job.
    pub(super) first: Uid,
    /// Names of all jobs there ever were.
    pub(super) names: BTreeMap<Uid, String>,
    pub(super) node_names: Vec<String>,
    pub(super) at_most_once: bool,
    /// What happened, whoever remembers it.
    pub(super) past: Past,
    steps: Vec<String>,
    pub(super) failure: Option<Failure>,
    pub(super) plans: usize,
    pub(super) refused: usize,
    pub(super) requests: BTreeMap<&'static str, usize>,
}

impl World {
    pub(super) fn new(seed: u64, mode: Mode, planner: Planner, mut rng: Rng) -> Self {
        let node_names = (0..rng.usize(1..=3)).map(|n| format!("n{n}")).collect();
        let mut world = Self {
            seed,
            mode,
            planner,
            at_most_once: rng.bool(),
            rng,
            now: Timestamp::constant(1_800_000_000, 0),
            serial: 10,
            jobs: Versions::default(),
            slices: Versions::default(),
            pods: Versions::default(),
            nodes: Versions::default(),
            leaders: (0..mode.leaders).map(|_| Leader::default()).collect(),
            first: Uid::default(),
            names: BTreeMap::new(),
            node_names,
            past: Past::default(),
            steps: Vec::new(),
            failure: None,
            plans: 0,
            refused: 0,
            requests: BTreeMap::new(),
        };
        world.first = world.uid(Of::Job);
        for name in world.node_names.clone() {
            world.add_node(&name);
        }
        world
    }

    /// Tells what has happened.
    pub(super) fn say(&mut self, what: String) {
        self.steps.push(what);
    }

    /// How much has happened.
    pub(super) fn length(&self) -> usize {
        self.steps.len()
    }

    /// A rule was broken. The first one counts.
    pub(super) fn break_rule(&mut self, rule: &'static str, detail: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure {
                seed: self.seed,
                mode: self.mode.name,
                rule,
                detail,
                steps: self.steps.clone(),
            });
        }
    }

    pub(super) fn outcome(self) -> Outcome {
        Outcome {
            plans: self.plans,
            refused: self.refused,
            requests: self.requests,
            failure: self.failure,
        }
    }

    /// A new resourceVersion.
    pub(super) fn version(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// A new uid.
    pub(super) fn uid(&mut self, of: Of) -> Uid {
        let serial = self.version();
        let text = format!("00000000-0000-000{}-0000-{serial:012x}", of as u8);
        text.parse().unwrap_or_default()
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        let length = SignedDuration::from_secs(seconds);
        self.now = self.now.saturating_add(length).unwrap_or(Timestamp::MAX);
    }

    /// True once in so many times.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.rng.usize(0..times) == 0
    }

    pub(super) fn name(&self, job: Uid) -> String {
        self.names.get(&job).cloned().unwrap_or_default()
    }

    /// The job, if it is there and stays.
    pub(super) fn staying(&self, job: Uid) -> Option<&JobObject> {
        self.jobs.now().get(&job).filter(|job| !job.deleting)
    }

    pub(super) fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.now().get(name)
    }

    pub(super) fn pod_names(&self) -> Vec<Box<str>> {
        self.pods.now().keys().cloned().collect()
    }

    /// Whether the node is there that a pod was made for, and not another one of its name.
    pub(super) fn has_node_of(&self, pod: &Pod) -> bool {
        let node = self.nodes.now().get(&pod.node);
        node.is_some_and(|node| node.uid == pod.node_uid)
    }

    /// Whether any record names the uid of this pod.
    pub(super) fn is_named(&self, pod: Uid) -> bool {
        let slices = self.slices.now().values();
        let mut records = slices.flat_map(|slice| &slice.slice.records);
        records.any(|record| record.pod_uid == Some(pod))
    }
}
