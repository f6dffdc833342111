//! One run as a file: scenario, seed, and what goes wrong; and the judgement of what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use carillon_operator::controllers::Rules;
use carillon_oracle::determinism::replays_equally;
use carillon_oracle::isolation::requests::asked_within_bounds;
use carillon_oracle::{Assumptions, StepPredicate, Violation, check_all};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::blow::Blow;
use crate::connection::{Late, PROVOKED};
use crate::disturbance::Disturbance;
use crate::late;
use crate::monkey::MOST_SKEW;
use crate::scenario::{Same, Scenario};
use crate::tenant::Tenant;
use crate::wire::Wire;
use crate::world::{self, End, HORIZON, Outcome, Run};

/// A run with more goes round in circles.
const MOST_REVISIONS: u64 = 10_000;
/// How long a job may take once everything is mended. It has a deadline of its own, and a back-off
/// may have grown to ten minutes.
const DONE_WITHIN: SignedDuration = SignedDuration::from_mins(90);

/// By how much a tenant may delay the end of others, where nothing else goes wrong.
const DELAY: SignedDuration = SignedDuration::from_secs(10);

/// How old the view of a leader may be where events come late, each by up to half a minute, or watches have to be
/// opened again. Whoever did not lead before lists first.
const LATE_EVENTS: SignedDuration = SignedDuration::from_mins(2);

/// How old a plan may be as its last write goes through, where requests are refused and tried again.
const REFUSED_WRITES: SignedDuration = SignedDuration::from_mins(1);

/// How long a request may be on its way before it counts as late: a new leader may have gone on.
const IN_FLIGHT: SignedDuration = SignedDuration::from_secs(5);

/// A run that can be repeated.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Name of the scenario.
    pub scenario: String,
    /// Of everything that is left to chance.
    pub seed: u64,
    /// What goes wrong.
    pub disturbance: Disturbance,
}

/// What was looked at.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Revisions of all runs.
    pub revisions: u64,
    /// Evaluations of each invariant.
    pub evaluations: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Adds what another part has looked at.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.revisions += other.revisions;
        for (invariant, evaluations) in &other.evaluations {
            *self.evaluations.entry(invariant).or_default() += evaluations;
        }
    }

    /// Evaluations of all invariants.
    pub fn checks(&self) -> u64 {
        self.evaluations.values().sum()
    }
}

/// A case that broke something.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The case.
    pub case: Case,
    /// What is wrong, one entry for each invariant.
    pub problems: Vec<String>,
    /// Names of the invariants that do not hold.
    pub broken: Vec<&'static str>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        let file = serde_json::to_string(&self.case).unwrap_or_default();
        write!(f, "replay with this file:\n{file}")
    }
}

/// What may be presumed of any run in which something goes wrong.
pub(crate) fn disturbed() -> Assumptions {
    Assumptions {
        writes_per_pod: 8,
        writes_per_job: (100, 40),
        writes_per_run: (30, 12),
        ..Assumptions::default()
    }
}

/// The steps of requests that were on their way when their process was stopped, and came long after.
pub(crate) fn held_up(late: Vec<Late>) -> StepPredicate {
    Arc::new(move |step| {
        let mut of = late
            .iter()
            .filter(|(request, _)| step.by.as_ref() == Some(request));
        of.any(|(_, since)| step.at > *since + IN_FLIGHT)
    })
}

impl Case {
    /// Whether somebody looks after the job while all goes wrong, and afterwards.
    pub fn has_monkey(&self) -> bool {
        let weather = self.disturbance.weather.as_ref();
        weather.is_some_and(|weather| weather.monkey)
    }

    /// Runs it with the real planner and interlock.
    pub fn run(&self, scenario: &Scenario) -> anyhow::Result<Outcome> {
        world::run(&Run {
            scenario,
            seed: self.seed,
            disturbance: self.disturbance.clone(),
            rules: Rules::default(),
            wire: Wire::default(),
            horizon: HORIZON,
            most_revisions: MOST_REVISIONS,
        })
    }

    /// What may be presumed of such a run.
    fn assumptions(&self, scenario: &Scenario, outcome: &Outcome) -> Assumptions {
        let disturbance = &self.disturbance;
        let mut assumptions = Assumptions {
            ours: Arc::new(world::ours),
            lag: SignedDuration::from_secs(5),
            over: outcome.ended,
            native: scenario.subject.served_natively(),
            quiet_from: Some(outcome.over_at + SignedDuration::from_secs(1)),
            ..Assumptions::default()
        };
        if disturbance.without_lease {
            assumptions.leaders = disturbance.processes;
        }
        let creations = if assumptions.leaders > 1 {
            late::creations(&outcome.history)
        } else {
            BTreeSet::new()
        };
        let held_up = held_up(outcome.late.clone());
        assumptions.late = Arc::new(move |step| creations.contains(&step.rev) || held_up(step));
        let stops = disturbance.at.iter().any(|at| at.blow == Blow::Stop);
        let stale = disturbance.restart_at_revision.is_some();
        let silent = !disturbance.silent.is_empty() || disturbance.lost_event.is_some();
        let weather = disturbance.weather.as_ref();
        if let Some(weather) = weather {
            assumptions.lag = if weather.delays_events() {
                LATE_EVENTS
            } else {
                REFUSED_WRITES
            };
        }
        let restored = disturbance.restore.is_some();
        if !disturbance.slow.is_empty() {
            assumptions.lag = REFUSED_WRITES;
        }
        if stops || stale || silent || restored || disturbance.without_lease {
            assumptions.lag = SignedDuration::from_mins(15);
        }
        if *disturbance != Disturbance::none(disturbance.processes) {
            let disturbed = disturbed();
            assumptions.late_requests = true;
            assumptions.writes_per_pod = disturbed.writes_per_pod;
            assumptions.writes_per_job = disturbed.writes_per_job;
            assumptions.writes_per_run = disturbed.writes_per_run;
        }
        if weather.is_some() {
            assumptions.writes_per_pod = 50;
            assumptions.writes_per_job = (1000, 200);
            assumptions.writes_per_run = (300, 50);
            assumptions.clock_skew = MOST_SKEW + MOST_SKEW;
            assumptions.healed = Some((outcome.calm_at, DONE_WITHIN));
            assumptions.permanent_faults = disturbance.never_heals();
            assumptions.requests_per_hour = (400, 4);
        }
        assumptions.tenant = disturbance.tenant.map(|tenant| tenant.namespace().into());
        assumptions.clock_skew += scenario.skew();
        assumptions
    }

    /// How the end differs from that of the undisturbed run.
    fn other_end(
        &self,
        scenario: &Scenario,
        outcome: &Outcome,
        assumptions: &Assumptions,
        clean: &End,
    ) -> Vec<(&'static str, String)> {
        let found = &outcome.end;
        let mut steps = outcome.history.steps.iter();
        let late = steps.any(|step| (assumptions.late)(step) && world::started(step).is_some());
        // Whoever sees nothing for a while runs ticks late, or not at all.
        let blind = !self.disturbance.silent.is_empty();
        let same = match scenario.subject {
            subject if blind && subject.depends_on_time => Same::Condition,
            _ => scenario.same,
        };
        let tenant = self.disturbance.tenant.is_some();
        let mut problems = Vec::new();
        if !found.is_as(clean, same, late) {
            let broken = if tenant { "S18" } else { "L7" };
            let what = format!("another end: {found:?}\nundisturbed: {clean:?}");
            problems.push((broken, what));
        }
        if tenant && found.after > clean.after + DELAY {
            let (found, clean) = (found.after, clean.after);
            let what = format!("it took {found:#}, and {clean:#} without a tenant");
            problems.push(("S18", what));
        }
        problems
    }

    /// Judges a run; `clean` is the end of the undisturbed one.
    pub fn judge(
        &self,
        scenario: &Scenario,
        outcome: &Outcome,
        clean: Option<&End>,
    ) -> Result<Counts, Box<Failure>> {
        let assumptions = self.assumptions(scenario, outcome);
        let report = check_all(&outcome.history, &assumptions);
        // What the caches of a process held cannot be told where watches lost something.
        let told = self.disturbance.lost_event.is_none()
            && self.disturbance.restore.is_none()
            && !self.disturbance.without_audit
            && self
                .disturbance
                .weather
                .as_ref()
                .is_none_or(|w| w.event_lost == 0);
        // A plan made from such a cache may have to be refused, and so may that of a second leader
        // that knows the pods and not yet the records of the first: it is what the interlock is for.
        let may_trip = !told || self.disturbance.without_lease;
        let held_against_us =
            |violation: &&Violation| !may_trip || !violation.what.contains("InterlockTripped");
        let violations: Vec<_> = report.violations().filter(held_against_us).collect();
        let mut problems: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let mut broken: Vec<&'static str> = violations.iter().map(|v| v.invariant.id()).collect();
        let mut problem = |invariant, what: String| {
            problems.push(what);
            broken.push(invariant);
        };
        let decisions = if told { &outcome.decisions[..] } else { &[] };
        let replayed = replays_equally(decisions);
        if let Err(violation) = &replayed {
            problem("S15", violation.to_string());
        }
        let asked = asked_within_bounds(&outcome.asked, &outcome.history, &assumptions);
        if let Err(violation) = &asked {
            problem("S18", violation.to_string());
        }
        // What a tenant makes of its own namespace is its own business.
        let beside = self.disturbance.tenant == Some(Tenant::Beside);
        if !outcome.ended && !beside {
            let exits = outcome.exits.join(", ");
            let end = &outcome.end;
            problem(
                "L1",
                format!("the scenario never came to its end: {end:?} [{exits}]"),
            );
        }
        let provoked = |exit: &&String| exit.contains("panicked") && !exit.contains(PROVOKED);
        if let Some(exit) = outcome.exits.iter().find(provoked) {
            problem("S17", format!("a part of the operator panicked: {exit}"));
        }
        if outcome.panics > 0 {
            problem(
                "S17",
                format!("the operator panicked {} times", outcome.panics),
            );
        }
        if !outcome.invalid.is_empty() {
            let first = outcome.invalid.first();
            let (many, first) = (outcome.invalid.len(), first.map_or("", |first| first));
            problem(
                "422",
                format!("the API server refused {many} requests as invalid: {first}"),
            );
        }
        if !outcome.trips.is_empty() && !may_trip {
            problem(
                "S17",
                format!("the interlock refused plans: {:?}", outcome.trips),
            );
        }
        if let Some(clean) = clean.filter(|_| outcome.ended && !beside) {
            for (invariant, what) in self.other_end(scenario, outcome, &assumptions, clean) {
                problem(invariant, what);
            }
        }
        if !problems.is_empty() {
            let case = self.clone();
            return Err(Box::new(Failure {
                case,
                problems,
                broken,
            }));
        }
        let again = replayed.map_or(0, |checked| checked.evaluations);
        let asked = asked.map_or(0, |checked| checked.evaluations);
        let held = report.verdicts.iter();
        Ok(Counts {
            runs: 1,
            revisions: outcome.history.steps.len() as u64,
            evaluations: held
                .filter_map(|(invariant, verdict)| {
                    let checked = verdict.as_ref().ok()?;
                    let more = if invariant.id() == "S18" { asked } else { 0 };
                    Some((invariant.id(), checked.evaluations + more))
                })
                .chain([("S15", again)])
                .collect(),
        })
    }
}
