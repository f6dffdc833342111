//! What an exploration gives.

use std::fmt;
use std::time::Duration;

use super::path::PathStep;
use super::violation::Violation;

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
