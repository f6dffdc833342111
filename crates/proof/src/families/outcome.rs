//! What comes of a history.

use std::collections::BTreeMap;
use std::fmt;

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
