//! How many nodes a job is for, kept up to date step by step.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::eligible;
use crate::history::Step;
use crate::object::{self, JOBS, NODES, Record, SLICES, text};
use crate::standing::may_have_run;
use crate::world::{World, record_changes};

/// The nodes of one job. A node is known by name and uid.
#[derive(Debug, Default)]
pub(crate) struct Desired<'h> {
    /// Eligible now, by name: the uid.
    eligible: HashMap<&'h str, &'h str>,
    /// The last record of a node.
    latest: HashMap<(&'h str, &'h str), Record<'h>>,
    counted: BTreeSet<(&'h str, &'h str)>,
    /// Every node that was eligible once, by uid.
    pub(crate) ever_eligible: BTreeSet<&'h str>,
}

impl<'h> Desired<'h> {
    /// Nodes that have a record, without those that are gone and were interrupted, and those that
    /// are eligible: what percentages are of.
    pub(crate) fn count(&self) -> usize {
        self.counted.len()
    }

    /// Follows a step that `world` has already seen, for the job of this uid.
    pub(crate) fn follow(&mut self, world: &World<'h>, uid: &str, step: &'h Step) {
        match &*step.key.resource {
            NODES => self.look_at(world, uid, &step.key.name),
            JOBS if step.new.is_some() => {
                let of = |object: Option<&'h Value>| object.map(|job| &job["spec"]);
                if of(step.old.as_deref()) != of(step.new.as_deref()) {
                    for name in world.nodes.keys().copied() {
                        self.look_at(world, uid, name);
                    }
                }
            }
            SLICES => {
                let Some(spec) = world.jobs.get(uid).map(|job| &job.last["spec"]) else {
                    return;
                };
                for record in record_changes(step).iter().filter_map(|change| change.new) {
                    let node = (record.node(), record.node_uid());
                    let latest = self.latest.entry(node).or_insert(record);
                    if latest.attempt() <= record.attempt() {
                        *latest = record;
                    }
                    self.count_again(world, spec, node);
                }
            }
            _ => {}
        }
    }

    fn look_at(&mut self, world: &World<'h>, uid: &str, name: &'h str) {
        let Some(job) = world.jobs.get(uid) else {
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
            self.count_again(world, spec, (name, uid));
        }
        // A machine that was replaced is gone, as the one it was.
        let from_name = self.counted.range((name, "")..);
        let of_name = from_name.take_while(|(of, _)| *of == name);
        let of_name: Vec<_> = of_name.copied().collect();
        for node in of_name {
            self.count_again(world, spec, node);
        }
    }

    fn count_again(&mut self, world: &World<'h>, spec: &Value, node: (&'h str, &'h str)) {
        let there = world.node(node.0).is_some_and(|n| object::uid(n) == node.1);
        let counts = match self.latest.get(&node) {
            Some(record) => {
                let once = text(spec, &["execution"]) == "AtMostOnce" && may_have_run(*record);
                there || once || !record.is_interrupted()
            }
            None => self.eligible.get(node.0) == Some(&node.1),
        };
        if counts {
            self.counted.insert(node);
        } else {
            self.counted.remove(&node);
        }
    }
}
