//! What is presumed of a run, what was looked at, and what was found.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::history::{History, Key, Request, Step};
use crate::invariant::Invariant;

/// So long after it was looked at an owner is taken to be there: the life of a plan, whose creations follow
/// one question.
const CONFIRMED_FOR: SignedDuration = SignedDuration::from_secs(10);

/// Which steps something is true of.
pub type StepPredicate = Arc<dyn Fn(&Step) -> bool + Send + Sync>;

/// Who is judged.
pub type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// What is presumed of a run. The default is the strict one: nobody lags, nothing is exempt.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)] // each is a presumption of its own
pub struct Assumptions {
    /// Which requests are the operator's. Default: those whose agent begins with `carillon`.
    pub ours: Predicate,
    /// How old what an instance acts upon may be, in revisions: a spec or a node that was different
    /// within them may be the one it saw.
    pub lag_revisions: u64,
    /// The same in time; the larger window counts.
    pub lag: SignedDuration,
    /// The run has ended and nothing more happens: its end is judged (L1, L3, L4, L6).
    pub over: bool,
    /// From here on nothing provoked the operator: it must not have written (S13).
    pub quiet_from: Option<Timestamp>,
    /// When the last fault was over, and how long until all is done (L2).
    pub healed: Option<(Timestamp, SignedDuration)>,
    /// Faults that never end were injected (L6).
    pub permanent_faults: bool,
    /// Garbage collection of the cluster works: what a deleted job owned has to go (L3).
    pub garbage_collection: bool,
    /// A job may end up Stalled: its template, or the namespace, is refused (L1).
    pub may_stall: bool,
    /// A request may be carried out after its sender was overtaken (a paused leader): its pod may
    /// come late, and has to be stopped (S6).
    pub late_requests: bool,
    /// Steps of which it is known that their request was held up for so long that others had gone
    /// on meanwhile: a pod that is created so late, for a job that may be gone, is not held
    /// against us. That it is removed again is.
    pub late: StepPredicate,
    /// Admission of the cluster changes pods: what it adds is not held against us (S16).
    pub admission_changes_pods: bool,
    /// Bodies of requests are known: preconditions are judged (S11).
    pub bodies: bool,
    /// Resources of Kubernetes that the operator serves in the place of kube-controller-manager; of Jobs those that
    /// name no controller.
    pub native: &'static [&'static str],
    /// How many processes lead at once. With more than one, each keeps the budget of an update by what it sees (S3). As
    /// long as that differs, the statuses that they write do, too (S12); a node may get two pods of a DaemonSet of
    /// apps/v1, which has more than one name for them (S1); and a revision may go that pods of others were made from
    /// (S5).
    pub leaders: usize,
    /// Clocks of the cluster differ by this much at most (S9: deadlines, time to live).
    pub clock_skew: SignedDuration,
    /// Writes to one pod in all of its life (S12).
    pub writes_per_pod: u64,
    /// Writes for a job: so many at all, and so many for each attempt and each change of the job or
    /// a node by others (S12).
    pub writes_per_job: (u64, u64),
    /// Writes for a CronJob and its children as such: so many at all, and so many for each run that
    /// was promised or missed and each change of the CronJob by others (S12).
    pub writes_per_run: (u64, u64),
    /// In this namespace somebody does whatever the role `edit` allows. What is there is judged by S18
    /// alone.
    pub tenant: Option<Arc<str>>,
    /// Requests for one object in an hour: so many at all, and so many for each change by others in its
    /// namespace (S18).
    pub requests_per_hour: (u64, u64),
}

impl Default for Assumptions {
    fn default() -> Self {
        Self {
            ours: Arc::new(|request| request.agent.starts_with("carillon")),
            lag_revisions: 0,
            lag: SignedDuration::ZERO,
            over: false,
            quiet_from: None,
            healed: None,
            permanent_faults: false,
            garbage_collection: true,
            may_stall: false,
            late_requests: false,
            late: Arc::new(|_| false),
            admission_changes_pods: false,
            bodies: true,
            native: &[],
            leaders: 1,
            clock_skew: SignedDuration::from_secs(2),
            writes_per_pod: 3,
            writes_per_job: (20, 8),
            writes_per_run: (10, 8),
            tenant: None,
            requests_per_hour: (100, 1),
        }
    }
}

impl fmt::Debug for Assumptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assumptions")
            .field("lag_revisions", &self.lag_revisions)
            .field("lag", &self.lag)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

impl Assumptions {
    /// Whether the operator made this step.
    pub fn ours(&self, step: &Step) -> bool {
        step.by.as_deref().is_some_and(|by| (self.ours)(by))
    }

    /// Whether somebody else is known to have made this step.
    pub fn others(&self, step: &Step) -> bool {
        step.by.as_deref().is_some_and(|by| !(self.ours)(by))
    }

    /// Whether more than one process leads.
    pub(crate) fn several_lead(&self) -> bool {
        self.leaders > 1
    }

    /// Whether an instance that acts at `now` may still see what held until `until`.
    pub(crate) fn may_see(&self, now: &Step, until: (u64, Timestamp)) -> bool {
        until.0.saturating_add(self.lag_revisions) >= now.rev
            || until
                .1
                .checked_add(self.lag)
                .is_ok_and(|until| until > now.at)
    }

    /// Whether whoever creates something at `now` may have found an owner that went then, before it sent
    /// the request. The API server does not ask.
    pub(crate) fn may_have_found(&self, now: &Step, gone: (u64, Timestamp)) -> bool {
        let asked = gone.1.checked_add(CONFIRMED_FOR);
        self.may_see(now, gone) && asked.is_ok_and(|until| until > now.at)
    }

    /// Whether what a step creates comes too late: its owner went then.
    pub(crate) fn is_created_after(&self, step: &Step, gone: Option<(u64, Timestamp)>) -> bool {
        let gone = gone.filter(|gone| !self.may_have_found(step, *gone));
        step.old.is_none() && gone.is_some() && !(self.late)(step)
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Checked {
    /// Revisions.
    pub revisions: u64,
    /// Times the invariant was put to the test.
    pub evaluations: u64,
}

/// Whether an invariant holds, and how often that was asked; or where it first does not.
pub type Verdict = Result<Checked, Box<Violation>>;

/// What two parts of an invariant say: both hold, or where the first does not.
pub(crate) fn both(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(Checked {
            evaluations: one.evaluations + other.evaluations,
            ..one
        }),
        (Err(one), Err(other)) if other.rev < one.rev => Err(other),
        (Err(violation), _) | (_, Err(violation)) => Err(violation),
    }
}

impl Checked {
    /// Nothing yet, of a history.
    pub(crate) fn all_of(history: &History) -> Self {
        Self {
            revisions: history.steps.len() as u64,
            evaluations: 0,
        }
    }

    /// One evaluation.
    pub(crate) fn require(
        &mut self,
        holds: bool,
        violation: impl FnOnce() -> Violation,
    ) -> Result<(), Box<Violation>> {
        self.evaluations += 1;
        if holds {
            Ok(())
        } else {
            Err(Box::new(violation()))
        }
    }
}

/// The first revision at which an invariant does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The revision.
    pub rev: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What is wrong, with the names and values it concerns.
    pub what: String,
    /// The object concerned.
    pub key: Option<Key>,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// The object after.
    pub after: Option<Arc<Value>>,
    /// The request that caused it.
    pub by: Option<Arc<Request>>,
}

impl Violation {
    /// A step that breaks an invariant.
    pub(crate) fn at(invariant: Invariant, step: &Step, what: String) -> Self {
        Self {
            invariant,
            rev: step.rev,
            at: step.at,
            what,
            key: Some(step.key.clone()),
            before: step.old.clone(),
            after: step.new.clone(),
            by: step.by.clone(),
        }
    }

    /// A state, after the last step of a history (or of a part of it), that breaks an invariant.
    pub(crate) fn in_state(
        invariant: Invariant,
        last: Option<&Step>,
        key: &Key,
        object: Option<&Value>,
        what: String,
    ) -> Self {
        Self {
            invariant,
            rev: last.map_or(0, |step| step.rev),
            at: last.map_or(Timestamp::UNIX_EPOCH, |step| step.at),
            what,
            key: Some(key.clone()),
            before: None,
            after: object.map(|object| Arc::new(object.clone())),
            by: None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.invariant.id();
        writeln!(f, "{id} does not hold: {}", self.invariant.sentence())?;
        writeln!(
            f,
            "  first bad revision {} at {}: {}",
            self.rev, self.at, self.what
        )?;
        if let Some(key) = &self.key {
            writeln!(f, "  object  {key}")?;
        }
        let compact = |object: &Option<Arc<Value>>| {
            object
                .as_deref()
                .map_or_else(|| "(none)".to_owned(), compact)
        };
        writeln!(f, "  before  {}", compact(&self.before))?;
        writeln!(f, "  after   {}", compact(&self.after))?;
        match &self.by {
            Some(by) => write!(
                f,
                "  by      {} ({}) {} {}",
                by.user, by.agent, by.verb, by.uri
            ),
            None => f.write_str("  by      (request not known)"),
        }
    }
}

impl std::error::Error for Violation {}

/// The object without what only the server reads, on one line.
fn compact(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object.to_string()
}

/// What was found of every invariant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Steps whose request is not known.
    pub unattributed: u64,
    /// Each invariant that was judged.
    pub verdicts: Vec<(Invariant, Verdict)>,
}

impl Report {
    /// What does not hold.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.verdicts
            .iter()
            .filter_map(|(_, verdict)| verdict.as_ref().err())
            .map(|violation| &**violation)
    }

    /// Evaluations of all invariants that hold.
    pub fn evaluations(&self) -> u64 {
        let held = self
            .verdicts
            .iter()
            .filter_map(|(_, verdict)| verdict.as_ref().ok());
        held.map(|checked| checked.evaluations).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (invariant, verdict) in &self.verdicts {
            match verdict {
                Ok(checked) => writeln!(
                    f,
                    "{:4} holds: {} revisions, {} evaluations",
                    invariant.id(),
                    checked.revisions,
                    checked.evaluations
                )?,
                Err(violation) => writeln!(f, "{violation}")?,
            }
        }
        write!(f, "{} steps without a known request", self.unattributed)
    }
}
