//! The explored world with all that is kept of it once.

use std::rc::Rc;

use carillon_plan::broadcast_job::{BroadcastJob, Requests};
use carillon_plan::meta::Meta;
use carillon_plan::node;
use carillon_plan::record::Slice;
use serde_json::{Value, json};

use super::digest::{FastMap, FastSet};
use super::intern::Interner;
use super::names::{self, PodNames};
use super::request::{Rest, Verdict};
use super::store::{Content, Nodes, Past, Pod, State, Store, View};
use super::violation::Violation;
use super::world::World;

/// What a plan depends on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Question {
    pub(super) view: View,
    pub(super) gone: u32,
    pub(super) hours: u8,
    /// Only where leaders may differ.
    pub(super) leader: usize,
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
    pub(super) planned: FastMap<Question, u32>,
    pub(super) blank: BroadcastJob,
    pub(super) jobs: FastMap<u8, Rc<BroadcastJob>>,
    pub(super) node_rows: FastMap<Nodes, Rc<node::Nodes>>,
    pub(super) slice_rows: FastMap<u32, Rc<Vec<Slice>>>,
    /// Earlier contents of a kind.
    pub(super) pasts: Interner<Vec<u32>>,
    /// Pods as a leader sees them: without the memory of those that are gone.
    visible: FastMap<u32, u32>,
    /// Stores that were judged.
    pub(super) judged: FastMap<(u32, u32, u8), Option<Violation>>,
    /// Stores from which a leader alone comes to the end.
    pub(super) ends_well: FastSet<Store>,
}

impl Model {
    pub(super) fn new(world: &World) -> Self {
        Self {
            world: *world,
            names: PodNames::of(world.nodes),
            contents: Interner::new(),
            slices: Interner::new(),
            pods: Interner::new(),
            plans: Interner::new(),
            planned: FastMap::default(),
            blank: blank_job(world),
            jobs: FastMap::default(),
            node_rows: FastMap::default(),
            slice_rows: FastMap::default(),
            pasts: Interner::new(),
            visible: FastMap::default(),
            judged: FastMap::default(),
            ends_well: FastSet::default(),
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
        State {
            store,
            left: self.world.budget,
            ..State::default()
        }
    }

    /// What a leader sees that sees everything as it is.
    pub(super) fn view(&mut self, store: Store) -> View {
        View {
            nodes: store.nodes,
            status: store.status,
            slices: store.slices,
            pods: self.visible(store.pods),
        }
    }

    fn visible(&mut self, pods: u32) -> u32 {
        if let Some(number) = self.visible.get(&pods) {
            return *number;
        }
        let mut table: Vec<Pod> = self.pods.at(pods).clone();
        table.retain(|pod| !pod.gone);
        let number = self.pods.number(table);
        self.visible.insert(pods, number);
        number
    }

    /// Names of the pods that are gone, one bit each.
    pub(super) fn gone(&self, pods: u32) -> u32 {
        let gone = self.pods.at(pods).iter().filter(|pod| pod.gone);
        gone.fold(0, |bits, pod| bits | 1 << pod.name)
    }

    /// The past after `before` became `after`.
    pub(super) fn remember(&mut self, past: Past, before: Store, after: Store) -> Past {
        let (old, new) = (self.view(before), self.view(after));
        let mut add = |list: u32, old: u32, new: u32| {
            if old == new {
                return list;
            }
            let mut versions = self.pasts.at(list).clone();
            match self.world.lookback {
                None => {
                    if let Err(at) = versions.binary_search(&old) {
                        versions.insert(at, old);
                    }
                }
                Some(most) => {
                    versions.push(old);
                    let surplus = versions.len().saturating_sub(usize::from(most));
                    versions.drain(..surplus);
                }
            }
            self.pasts.number(versions)
        };
        Past {
            nodes: add(past.nodes, old.nodes.0.into(), new.nodes.0.into()),
            status: add(past.status, old.status.into(), new.status.into()),
            slices: add(past.slices, old.slices, new.slices),
            pods: add(past.pods, old.pods, new.pods),
        }
    }

    /// Every view a leader may have, the newest first.
    pub(super) fn views(&mut self, state: &State) -> Vec<View> {
        let newest = self.view(state.store);
        let with = |list: u32, now: u32| {
            let mut versions = vec![now];
            versions.extend(self.pasts.at(list).iter().rev().filter(|old| **old != now));
            versions
        };
        let (nodes, statuses) = (
            with(state.past.nodes, newest.nodes.0.into()),
            with(state.past.status, newest.status.into()),
        );
        let (slices, pods) = (
            with(state.past.slices, newest.slices),
            with(state.past.pods, newest.pods),
        );
        let mut views = Vec::new();
        for nodes in &nodes {
            for status in &statuses {
                for slices in &slices {
                    views.extend(pods.iter().map(|pods| View {
                        nodes: Nodes(*nodes as u16),
                        status: *status as u8,
                        slices: *slices,
                        pods: *pods,
                    }));
                }
            }
        }
        views
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

fn blank_job(world: &World) -> BroadcastJob {
    let policy = if world.fail_fast {
        "FailFast"
    } else {
        "Continue"
    };
    let mut spec = json!({
        "parallelism": world.parallelism,
        "failurePolicy": {"type": policy},
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
        }},
    });
    if world.start_deadline {
        spec["podStartDeadlineSeconds"] = json!(1800);
    }
    if world.at_most_once {
        spec["executionPolicy"] = json!("AtMostOnce");
    }
    let meta = Meta::new(names::owner(), jiff::Timestamp::UNIX_EPOCH);
    BroadcastJob::read(meta, Requests::default(), &spec, &Value::Null)
}
