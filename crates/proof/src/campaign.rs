//! Many cases, on all processors.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::case::{Case, Counts, Failure};
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
    let next = AtomicUsize::new(0);
    let found: Mutex<(Counts, Vec<(usize, Failure)>)> = Mutex::default();
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || -> anyhow::Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return Ok(());
            };
            if lock().1.len() >= most {
                return Ok(());
            }
            let outcome = job.case.run(job.scenario)?;
            match job.case.judge(job.scenario, &outcome, job.clean) {
                Ok(counts) => lock().0.add(&counts),
                Err(failure) => lock().1.push((at, *failure)),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    let (counts, mut failures) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|(at, _)| *at);
    let failures = failures.into_iter().map(|(_, failure)| failure).collect();
    Ok(Found { counts, failures })
}
