//! What is run.

use std::time::Duration;

use carillon_operator::controllers::Rules;

use crate::disturbance::Disturbance;
use crate::scenario::Scenario;
use crate::wire::Wire;

/// A scenario, what goes wrong in it, and who serves it.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Of everything that is left to chance.
    pub seed: u64,
    /// What goes wrong.
    pub disturbance: Disturbance,
    /// What decides, and what may forbid it.
    pub rules: Rules,
    /// How the operator speaks to the API server.
    pub wire: Wire,
    /// A run that takes longer hangs.
    pub horizon: Duration,
    /// A run with more revisions goes round in circles.
    pub most_revisions: u64,
}
