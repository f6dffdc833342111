//! What is asked of the operator, and what the cluster and its users do meanwhile.

pub(crate) mod children;
mod names;
mod objects;
mod step;
mod subject;
mod user;
mod view;

use std::fmt;

use carillon_sim::actors::Fate;
use jiff::SignedDuration;
use serde_json::{Value, json};

pub use self::names::{CRON, JOB, NAMESPACE};
pub use self::objects::{ready_node, with_pods};
pub use self::step::Step;
pub(crate) use self::step::{SECOND, step};
pub use self::subject::Subject;
pub use self::user::User;
pub use self::view::View;
pub(crate) use self::view::is_true;
use crate::span::Span;

/// When a run begins, unless its scenario says something else.
const BEGIN: &str = "2026-01-01T00:00:00Z";

/// One object that the operator serves, the nodes there are, and a script for its user.
#[derive(Clone)]
pub struct Scenario {
    /// Says what is going on; also its name in files.
    pub name: &'static str,
    /// What is served.
    pub subject: &'static Subject,
    /// When the run begins.
    pub begin: &'static str,
    /// How many nodes there are at first: `node-0`, `node-1`, ….
    pub nodes: usize,
    /// The object's spec; the template may be left out.
    pub spec: Value,
    /// What becomes of the n-th pod on a node; of the pods of a Job see [`carillon_sim::actors::Fates`].
    pub fates: fn(&str, usize) -> Fate,
    /// What users and the cluster do, in this order.
    pub script: Vec<Step>,
    /// When no process of the operator runs, whatever else goes wrong.
    pub down: Vec<Span>,
    /// How the clocks of the operator go wrong, whatever else does.
    pub jumps: Vec<Jump>,
    /// What the operator is told besides which kinds to serve.
    pub flags: &'static [&'static str],
    /// What is the same at the end of every run, however it was disturbed.
    pub same: Same,
    /// How the run ends.
    pub ends: Ends,
}

/// Clocks of the operator are wrong from a time on; the cluster's own never is.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// Seconds since the run began.
    pub at: u64,
    /// By how many seconds they are ahead from then on.
    pub ahead: i64,
}

/// What must be the same at the end of a disturbed run as at that of the clean one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Same {
    /// Every node's outcome, the counts and the condition; of a CronJob every run that there was, what
    /// is kept, and what is noted.
    Everything,
    /// The condition only: which nodes were reached, or which ticks were run, depends on the time.
    Condition,
    /// The type of the condition only: whether nodes fail depends on the time, and with it the reason.
    Type,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// The job is Complete or Failed.
    Finished,
    /// The job stays open and has served so many nodes.
    Served(i64),
    /// The job is gone and nothing of it is left.
    Gone,
    /// So much time has passed. What is still under way then comes to its end, and nothing follows.
    After(SignedDuration),
}

impl Scenario {
    /// Something on two nodes, each pod of which succeeds after two seconds, until it has finished.
    pub fn new(name: &'static str, subject: &'static Subject) -> Self {
        Self {
            name,
            subject,
            begin: BEGIN,
            nodes: 2,
            spec: json!({}),
            fates: |_, _| Fate::ends(SignedDuration::from_secs(2), 0),
            script: Vec::new(),
            down: Vec::new(),
            jumps: Vec::new(),
            flags: &[],
            same: Same::Everything,
            ends: Ends::Finished,
        }
    }

    /// How far the clocks of the operator are wrong at most.
    pub fn skew(&self) -> SignedDuration {
        let jumps = self.jumps.iter().map(|jump| jump.ahead.abs());
        SignedDuration::from_secs(jumps.max().unwrap_or(0))
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}
