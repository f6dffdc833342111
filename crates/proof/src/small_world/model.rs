//! The explored world with all that is kept of it once.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use carillon_plan::broadcast_job::{Job, JobMeta};
use carillon_plan::node;
use carillon_plan::record::Slice;
use serde_json::{Value, json};

use super::intern::Interner;
use super::leader::Question;
use super::names::{self, PodNames};
use super::requests::{Rest, Verdict};
use super::store::{Content, Nodes, Phase, Pod, State, Store, View};
use super::{Violation, World};

/// Bits of the kinds of objects that are watched.
pub(super) mod kind {
    pub(in super::super) const JOB: u8 = 1;
    pub(in super::super) const SLICES: u8 = 2;
    pub(in super::super) const PODS: u8 = 4;
    pub(in super::super) const NODES: u8 = 8;
    pub(in super::super) const ALL: u8 = 15;
}

/// The world, and numbers for what is too large to be kept in each state.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) world: World,
    pub(super) names: PodNames,
    /// Single slices.
    pub(super) contents: Interner<Content>,
    /// All slices of one moment.
    pub(super) slices: Interner<Vec<u32>>,
    /// All pods of one moment, by name.
    pub(super) pods: Interner<Vec<Pod>>,
    pub(super) plans: Interner<Rest>,
    pub(super) planned: HashMap<Question, u32>,
    pub(super) blank: Job,
    pub(super) jobs: HashMap<u8, Rc<Job>>,
    pub(super) node_rows: HashMap<Nodes, Rc<node::Nodes>>,
    pub(super) slice_rows: HashMap<u32, Rc<Vec<Slice>>>,
    /// What a view of pods becomes.
    seen: HashMap<(u32, u32), u32>,
    /// Stores that were judged.
    pub(super) judged: HashMap<(u32, u32, u8), Option<Violation>>,
    /// Stores from which a leader alone comes to the end.
    pub(super) ends_well: HashSet<(Store, u32, u32)>,
}

impl Model {
    pub(super) fn new(world: &World) -> Self {
        Self {
            world: *world,
            names: PodNames::default(),
            contents: Interner::new(),
            slices: Interner::new(),
            pods: Interner::new(),
            plans: Interner::new(),
            planned: HashMap::new(),
            blank: blank_job(world),
            jobs: HashMap::new(),
            node_rows: HashMap::new(),
            slice_rows: HashMap::new(),
            seen: HashMap::new(),
            judged: HashMap::new(),
            ends_well: HashSet::new(),
        }
    }

    /// The state everything starts from.
    pub(super) fn start(&mut self) -> State {
        let mut store = Store::default();
        if self.world.filled > 0 {
            let content = self.contents.number(Content {
                filled: self.world.filled,
                ..Content::default()
            });
            store.slices = self.slices.number(vec![content]);
            let begun = Verdict {
                started: true,
                ..Verdict::default()
            };
            store.status = begun.number();
        }
        let view = self.look(View::default(), store, kind::ALL);
        let mut state = State {
            store,
            left: self.world.budget,
            ..State::default()
        };
        for leader in &mut state.leaders {
            leader.view = view;
        }
        if state.left.stale_restarts > 0 {
            state.old = view;
        }
        state
    }

    /// The view after these kinds were seen as they are.
    pub(super) fn look(&mut self, mut view: View, store: Store, kinds: u8) -> View {
        if kinds & kind::JOB != 0 {
            view.status = store.status;
        }
        if kinds & kind::SLICES != 0 {
            view.slices = store.slices;
        }
        if kinds & kind::PODS != 0 {
            view.pods = self.look_at_pods(view.pods, store.pods);
        }
        if kinds & kind::NODES != 0 {
            view.nodes = store.nodes;
        }
        view
    }

    /// A view of pods keeps that it has seen a pod deleted before it ended.
    fn look_at_pods(&mut self, view: u32, store: u32) -> u32 {
        if let Some(number) = self.seen.get(&(view, store)) {
            return *number;
        }
        let earlier = self.pods.get(view);
        let mut table: Vec<Pod> = self.pods.at(store).clone();
        table.retain(|pod| !pod.gone);
        for pod in &mut table {
            let known = earlier
                .iter()
                .find(|row| (row.name, row.incarnation) == (pod.name, pod.incarnation));
            pod.interrupted = pod.deleted.is_some() && pod.phase == Phase::Active
                || known.is_some_and(|row| row.interrupted);
        }
        let number = self.pods.number(table);
        self.seen.insert((view, store), number);
        number
    }

    /// A pod of the store, or the memory of it.
    pub(super) fn pod(&self, pods: u32, name: u8) -> Option<Pod> {
        let table = self.pods.at(pods);
        table.iter().find(|pod| pod.name == name).copied()
    }

    /// The pods with one changed or added.
    pub(super) fn with_pod(&mut self, pods: u32, pod: Pod) -> u32 {
        let mut table = self.pods.at(pods).clone();
        match table.binary_search_by_key(&pod.name, |row| row.name) {
            Ok(at) => table[at] = pod,
            Err(at) => table.insert(at, pod),
        }
        self.pods.number(table)
    }
}

fn blank_job(world: &World) -> Job {
    let policy = if world.fail_fast {
        "FailFast"
    } else {
        "Continue"
    };
    let spec = json!({
        "parallelism": world.parallelism,
        "failurePolicy": {"type": policy},
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
        }},
    });
    let meta = JobMeta {
        owner: names::owner(),
        generation: 1,
        rv: 1,
        ..JobMeta::default()
    };
    Job::read(meta, &spec, &Value::Null)
}
