//! What is explored.

use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use jiff::Timestamp;

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
    /// `executionPolicy: AtMostOnce`.
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
