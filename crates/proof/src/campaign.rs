//! Many cases, on all processors.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Counts, Failure};
use crate::processors::on_all;
use crate::scenario::Scenario;
use crate::world::End;

/// A case, its scenario, and the end of the scenario's undisturbed run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The case.
    pub case: &'a Case,
    /// Its scenario.
    pub scenario: &'a Scenario,
    /// How the undisturbed run ends.
    pub clean: Option<&'a End>,
}

impl<'a> Job<'a> {
    /// A case whose end is compared with no other.
    pub fn alone(case: &'a Case, scenario: &'a Scenario) -> Self {
        Self {
            case,
            scenario,
            clean: None,
        }
    }
}

/// Every n-th of the cases of a scenario.
pub fn every_nth<'a>(
    every: usize,
    cases: &'a [Case],
    scenario: &'a Scenario,
    clean: &'a End,
) -> Vec<Job<'a>> {
    let chosen = cases.iter().step_by(every.max(1));
    chosen
        .map(|case| Job {
            case,
            scenario,
            clean: Some(clean),
        })
        .collect()
}

/// What came of many cases.
#[derive(Debug, Default)]
pub struct Found {
    /// What was looked at in the runs that broke nothing.
    pub counts: Counts,
    /// Those that broke something, in the order of the cases.
    pub failures: Vec<Failure>,
}

impl Found {
    /// Adds what another part has found.
    pub fn add(&mut self, other: Self) {
        self.counts.add(&other.counts);
        self.failures.extend(other.failures);
    }
}

/// Runs and judges all of them; ends early after `most` failures.
pub fn run(jobs: &[Job<'_>], most: usize) -> anyhow::Result<Found> {
    let failed = AtomicUsize::new(0);
    let judged = on_all(
        jobs.len(),
        || (),
        |(), at| {
            let job = &jobs[at];
            let judged = job.case.run(job.scenario);
            let judged = judged.map(|outcome| job.case.judge(job.scenario, &outcome, job.clean));
            let enough = match &judged {
                Ok(Ok(_)) => false,
                Ok(Err(_)) => failed.fetch_add(1, Ordering::Relaxed) + 1 >= most,
                Err(_) => true,
            };
            if enough {
                ControlFlow::Break(judged)
            } else {
                ControlFlow::Continue(judged)
            }
        },
    );
    let mut found = Found::default();
    for judged in judged {
        match judged? {
            Ok(counts) => found.counts.add(&counts),
            Err(failure) => found.failures.push(*failure),
        }
    }
    Ok(found)
}
