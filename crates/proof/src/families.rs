//! Random histories of families of BroadcastJobs: a job, its retries, and what happens to them.
//!
//! The planner and the interlock are the real ones, and the requests of a plan are carried out one by one. All
//! else is a model: the store with every version of everything, garbage collection, kubelets, users. It knows
//! no connections and no caches, so that a thousand histories take a few seconds, and a leader may see any mixture
//! of old versions. It judges by rules of its own ([`rules`]) that share nothing with planner, interlock and
//! oracle but their data types.

mod calm;
mod history;
mod leader;
mod many;
mod perform;
mod rules;
mod store;
mod users;
mod versions;
mod view;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use jiff::Timestamp;

pub use self::history::history;
pub use self::many::{Found, run};

/// What decides.
pub type Planner = fn(&Snapshot<'_>, Timestamp) -> Plan;

/// What may go wrong in a history, besides what users do and what happens to nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "faults that do not depend on each other"
)]
pub struct Mode {
    /// For people.
    pub name: &'static str,
    /// How many lead at once.
    pub leaders: usize,
    /// A leader sees of each kind a version that may be a few old.
    pub old_views: bool,
    /// A leader ends between any two of its requests, and may forget what it was told.
    pub crashes: bool,
    /// A creation may arrive within the second in which its job goes, and makes a pod all the same.
    pub late_creations: bool,
    /// Users take pods from their job: label, owner or both.
    pub taken_pods: bool,
    /// Users delete jobs with `--cascade=orphan`.
    pub orphans: bool,
}

const CALM: Mode = Mode {
    name: "one leader that sees what there is",
    leaders: 1,
    old_views: false,
    crashes: false,
    late_creations: false,
    taken_pods: false,
    orphans: false,
};
const TWO_LEADERS: Mode = Mode {
    name: "two leaders",
    leaders: 2,
    old_views: true,
    crashes: true,
    ..CALM
};

impl Mode {
    /// All of them.
    pub const ALL: [Self; 7] = [
        CALM,
        Self {
            name: "a leader that crashes",
            crashes: true,
            ..CALM
        },
        Self {
            name: "a leader with old views",
            leaders: 1,
            ..TWO_LEADERS
        },
        TWO_LEADERS,
        Self {
            name: "creations in the moment in which their job goes",
            late_creations: true,
            ..TWO_LEADERS
        },
        Self {
            name: "pods that are taken",
            taken_pods: true,
            ..TWO_LEADERS
        },
        Self {
            name: "jobs that are deleted without their pods",
            orphans: true,
            ..TWO_LEADERS
        },
    ];

    /// The one of a seed: each in turn.
    pub fn of(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }
}

/// What came of a history.
#[derive(Debug)]
pub struct Outcome {
    /// Plans that were made.
    pub plans: usize,
    /// Of those, how many were made from old versions and refused by the interlock.
    pub refused: usize,
    /// Requests that went through, by the word of their action.
    pub requests: BTreeMap<&'static str, usize>,
    /// The rule that was broken.
    pub failure: Option<Failure>,
}

/// A rule that was broken, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The seed of the history.
    pub seed: u64,
    /// Its mode.
    pub mode: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// Where it was broken.
    pub detail: String,
    /// All that happened before.
    pub steps: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "  {step}")?;
        }
        write!(
            f,
            "family of seed {} ({}): {}: {}",
            self.seed, self.mode, self.rule, self.detail
        )
    }
}
