//! Every state that a small world can get into: a few nodes, two leaders, old views, a crash.
//!
//! The planner is the real one. Around it is a model of everything else: the store, the scheduler
//! and kubelets, a user, and two leaders that both believe to lead, always. Neither the gate nor
//! the lease nor the life of a plan is modelled: safety must not rest on them.
//!
//! Each plan is made from any mixture of versions: of each kind (job, slices, pods, nodes) one of
//! those that there were, whatever the leader saw before. So every plan is one after a stale
//! restart. A plan may rest for as long as it likes between two of its requests, and be dropped
//! at any of them. That a plan rests before its first request need not be tried: made later
//! from the same old versions it is the same plan.
//!
//! A state is a handful of numbers: whatever is larger (a slice, the set of pods, the rest of a
//! plan) is kept once and called by its number. The search is breadth-first, so that the first
//! violation found has a shortest path.

mod api_server;
mod digest;
mod explore;
mod finish;
mod intern;
mod law;
mod leader;
mod model;
pub mod mutant;
mod names;
mod path;
mod requests;
mod store;
mod turn;
pub mod worlds;

use std::fmt;
use std::time::Duration;

use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use jiff::Timestamp;

pub use self::explore::explore;
pub use self::path::{PathStep, replay};

/// What decides: which of the two leaders asks, what it sees, what time it is. The product's
/// planner does not look at the first; a mutant may.
pub type Planner = fn(usize, &Snapshot<'_>, Timestamp) -> Plan;

/// A world to explore.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties of one world"
)]
pub struct World {
    /// For people.
    pub name: &'static str,
    /// Nodes at the start, at most 4.
    pub nodes: u8,
    /// `spec.parallelism`.
    pub parallelism: u32,
    /// FailFast instead of Continue.
    pub fail_fast: bool,
    /// Pods wait for the scheduler; otherwise they are created bound.
    pub scheduler: bool,
    /// A pod that has not started after an hour is given up.
    pub start_deadline: bool,
    /// `execution: AtMostOnce`.
    pub at_most_once: bool,
    /// Results of nodes long gone that fill the first slice at the start.
    pub filled: u16,
    /// What may happen, and how often.
    pub budget: Budget,
    /// How many earlier versions of each kind a leader may still see; `None`: all there ever were.
    pub lookback: Option<u8>,
    /// Pods of attempts that were given up before anybody saw them count like others. It is a
    /// documented weakness that they may exist for a while: they are stopped and not counted.
    pub strict: bool,
    /// The same view must give the same plan, whoever asks.
    pub same_plan: bool,
    /// What decides.
    pub planner: Planner,
    /// What the API server enforces.
    pub server: Server,
}

/// How often things that need not happen may happen.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Budget {
    /// A request of a leader that crashed arrives later.
    pub late_requests: u8,
    /// A creation arrives when its attempt is over. Where the world is strict that is a violation
    /// and costs nothing.
    pub late_creations: u8,
    /// A pod fails by its own doing.
    pub failures: u8,
    /// A user deletes a pod.
    pub deletions: u8,
    /// A user cordons a node; making it schedulable again costs nothing.
    pub cordons: u8,
    /// A node is replaced by another of the same name.
    pub replacements: u8,
    /// An hour passes.
    pub hours: u8,
}

/// What the API server enforces of what our requests carry.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// resourceVersion in writes of slices.
    pub slice_version: bool,
    /// resourceVersion in writes of status.
    pub status_version: bool,
    /// uid and resourceVersion in deletes.
    pub delete_preconditions: bool,
}

/// Where to stop if the world turns out to be larger than thought.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Distinct states at most.
    pub states: u32,
}

/// What the exploration of a world gave.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: usize,
    /// Transitions between them.
    pub transitions: u64,
    /// Length of the longest of the shortest paths.
    pub depth: usize,
    /// Distinct states of the store, from each of which one leader alone brought the job to its end.
    pub stores: usize,
    /// Distinct views from which a plan was made.
    pub views: usize,
    /// The first violation, with a shortest path to it.
    pub violation: Option<Finding>,
    /// Every reachable state was visited.
    pub exhausted: bool,
    /// How long it took.
    pub duration: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.violation {
            Some(finding) => format!("{}: {}", finding.violation.law, finding.violation.detail),
            None if self.exhausted => "exhausted, no law broken".to_owned(),
            None => "cut short, no law broken so far".to_owned(),
        };
        write!(
            f,
            "{verdict}; {} states, {} transitions, depth {}, {} states of the store, {} views, {:.1?}",
            self.states, self.transitions, self.depth, self.stores, self.views, self.duration
        )
    }
}

/// A violation and how to get there.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is wrong.
    pub violation: Violation,
    /// From the start.
    pub path: Vec<PathStep>,
}

/// What is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The property that does not hold, as a sentence.
    pub law: &'static str,
    /// Where it does not.
    pub detail: String,
}

#[cfg(test)]
mod tests;
