//! How many nodes a job is for, kept up to date step by step.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::eligible;
use super::standing::{Standing, Tried, standing};
use super::world::{World, record_changes};
use crate::history::Step;
use crate::object::{self, JOBS, NODES, Node, Record, SLICES};

/// The nodes of one job. A node is known by name and uid.
#[derive(Debug, Default)]
pub(crate) struct Desired<'h> {
    /// Eligible now, by name: the uid.
    eligible: HashMap<&'h str, &'h str>,
    /// What was tried, by node and number of the attempt.
    tried: BTreeMap<Node<'h>, BTreeMap<i64, Record<'h>>>,
    counted: BTreeSet<Node<'h>>,
    /// Those of them whose node object is there.
    present: BTreeSet<Node<'h>>,
    /// Every node that was eligible once, by uid.
    pub(crate) ever_eligible: BTreeSet<&'h str>,
}

impl<'h> Desired<'h> {
    /// Nodes that have a record, without those that are gone and were to be tried again, and those that
    /// are eligible.
    pub(crate) fn count(&self) -> usize {
        self.counted.len()
    }

    /// Those of now: what percentages are of.
    pub(crate) fn present(&self) -> usize {
        self.present.len()
    }

    /// Follows a step that `world` has already seen, for the job of this uid.
    pub(crate) fn follow(&mut self, world: &World<'h>, uid: &str, step: &'h Step) {
        match &*step.key.resource {
            NODES => self.look_at(world, uid, &step.key.name),
            JOBS if step.new.is_some() => {
                let of = |object: Option<&'h Value>| {
                    object.map(|job| (&job["spec"], &job["metadata"]["annotations"]))
                };
                if of(step.old.as_deref()) != of(step.new.as_deref()) {
                    for name in world.nodes.keys().copied() {
                        self.look_at(world, uid, name);
                    }
                    for node in self.tried.keys().copied().collect::<Vec<_>>() {
                        self.count_again(world, uid, node);
                    }
                }
            }
            SLICES => {
                for record in record_changes(step).iter().filter_map(|change| change.new) {
                    let node = (record.node(), record.node_uid());
                    let tried = self.tried.entry(node).or_default();
                    tried.insert(record.attempt(), record);
                    self.count_again(world, uid, node);
                }
            }
            _ => {}
        }
    }

    fn look_at(&mut self, world: &World<'h>, job_uid: &str, name: &'h str) {
        let Some(job) = world.jobs.get(job_uid) else {
            return;
        };
        let spec = &job.last["spec"];
        let was = self.eligible.remove(name);
        let node = world.node(name);
        if let Some(node) = node.filter(|node| eligible::refusal(spec, node).is_none()) {
            self.eligible.insert(name, object::uid(node));
            self.ever_eligible.insert(object::uid(node));
        }
        for uid in was.into_iter().chain(node.map(object::uid)) {
            self.count_again(world, job_uid, (name, uid));
        }
        // A machine that was replaced is gone, as the one it was.
        let from_name = self.counted.range((name, "")..);
        let of_name = from_name.take_while(|(of, _)| *of == name);
        let of_name: Vec<_> = of_name.copied().collect();
        for node in of_name {
            self.count_again(world, job_uid, node);
        }
    }

    fn count_again(&mut self, world: &World<'h>, job_uid: &str, node: Node<'h>) {
        let Some(job) = world.jobs.get(job_uid) else {
            return;
        };
        let there = world.has_node(node);
        let tried = self.tried.get(&node).into_iter().flat_map(BTreeMap::values);
        let tried = tried.copied().map(Tried::by).reduce(Tried::and);
        let counts = match tried {
            Some(tried) => standing(job.last, &tried, there) != Standing::Gone,
            None => self.eligible.get(node.0) == Some(&node.1),
        };
        for (set, holds) in [
            (&mut self.counted, counts),
            (&mut self.present, counts && there),
        ] {
            if holds {
                set.insert(node);
            } else {
                set.remove(&node);
            }
        }
    }
}
