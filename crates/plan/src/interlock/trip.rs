//! A plan that breaks a rule.

use std::fmt;

/// Why a plan must not be carried out: a mistake of the planner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trip {
    /// The rule, one of [`rules::ALL`](super::rules::ALL).
    pub rule: &'static str,
    /// The object, what the plan does with it, and what is expected instead.
    pub what: String,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Trip {}

pub(super) fn trip<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Trip> {
    let what = what.into();
    Err(Trip { rule, what })
}
