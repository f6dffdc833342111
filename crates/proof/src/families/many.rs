//! Many histories, on all processors.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::history::history;
use super::mode::Mode;
use super::outcome::{Failure, Outcome};
use super::world::Planner;
use crate::processors::on_all;

/// What came of many histories.
#[derive(Debug, Default)]
pub struct Found {
    /// How many there were.
    pub histories: usize,
    /// Plans that were made.
    pub plans: usize,
    /// Of those, how many were made from old versions and refused by the interlock.
    pub refused: usize,
    /// Requests that went through, by the word of their action.
    pub requests: BTreeMap<&'static str, usize>,
    /// The rules that were broken, in the order of the seeds.
    pub failures: Vec<Failure>,
}

impl Found {
    fn count(&mut self, outcome: Outcome) {
        self.add(Self {
            histories: 1,
            plans: outcome.plans,
            refused: outcome.refused,
            requests: outcome.requests,
            failures: outcome.failure.into_iter().collect(),
        });
    }

    /// Adds what others have found.
    pub fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.plans += other.plans;
        self.refused += other.refused;
        for (word, count) in other.requests {
            *self.requests.entry(word).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories, {} plans ({} from old views refused), {} requests, {} failures",
            self.histories,
            self.plans,
            self.refused,
            self.requests.values().sum::<usize>(),
            self.failures.len()
        )
    }
}

/// Runs so many histories, from a first seed on, each in the mode that `mode` says; ends early after `most`
/// failures.
pub fn run(
    first: u64,
    histories: u64,
    mode: fn(u64) -> Mode,
    planner: Planner,
    most: usize,
) -> Found {
    let failed = AtomicUsize::new(0);
    let outcomes = on_all(
        usize::try_from(histories).unwrap_or(usize::MAX),
        || (),
        |(), at| {
            let seed = first.wrapping_add(at as u64);
            let outcome = history(seed, mode(seed), planner);
            if outcome.failure.is_some() && failed.fetch_add(1, Ordering::Relaxed) + 1 >= most {
                ControlFlow::Break(outcome)
            } else {
                ControlFlow::Continue(outcome)
            }
        },
    );
    let mut found = Found::default();
    for outcome in outcomes {
        found.count(outcome);
    }
    found
}
