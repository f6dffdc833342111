//! The hunt for a bug: its cases are run until one breaks an invariant.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use carillon_operator::controllers::Rules;

use super::cases::calm;
use super::expectations;
use super::interlock::TRIPPED;
use super::mutant::Mutant;
use crate::case::{Case, Failure};
use crate::kinds;
use crate::scenario::Scenario;
use crate::swarm;
use crate::wire::Wire;
use crate::world::{self, End, Outcome, Run};

/// A run that takes longer hangs: those of the cases do not.
const HORIZON: Duration = Duration::from_mins(15);
/// The same of a random schedule.
const RANDOM_HORIZON: Duration = Duration::from_hours(1);
/// One with more goes round in circles: those of the cases do not.
const MOST_REVISIONS: u64 = 1500;
/// The same where a tenant adds its own, or all that can go wrong at random.
const MOST_BESIDE_OTHERS: u64 = 4000;

/// How a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which case, and what was broken.
    pub failure: Failure,
    /// The rule by which the interlock refuses a plan of that run, if it does.
    pub interlock: Option<&'static str>,
}

/// The cages: kinds, and how their undisturbed runs end.
#[derive(Debug)]
pub struct Zoo {
    scenarios: Vec<Scenario>,
    ends: HashMap<String, End>,
}

impl Default for Zoo {
    fn default() -> Self {
        Self {
            scenarios: kinds::scenarios(),
            ends: HashMap::new(),
        }
    }
}

impl Zoo {
    /// Runs the cases of a mutant until one breaks an invariant.
    pub fn hunt(&mut self, mutant: &Mutant) -> anyhow::Result<Option<Caught>> {
        for case in &mutant.cases {
            let caught = self.watch(mutant, case)?;
            if caught.is_some() {
                return Ok(caught);
            }
        }
        Ok(None)
    }

    /// What a mutant breaks in a case, with nobody to stop it.
    pub fn watch(&mut self, mutant: &Mutant, case: &Case) -> anyhow::Result<Option<Caught>> {
        TRIPPED.set(None);
        let outcome = self.run(case, mutant.rules.clone(), mutant.wire)?;
        let failure = self.judge(case, &outcome)?;
        Ok(failure.map(|failure| Caught {
            failure,
            interlock: TRIPPED.get(),
        }))
    }

    /// What is broken in a case without any mutant.
    pub fn control(&mut self, case: &Case) -> anyhow::Result<Option<Failure>> {
        let outcome = self.run(case, Rules::default(), Wire::default())?;
        self.judge(case, &outcome)
    }

    fn scenario(&self, case: &Case) -> anyhow::Result<Cow<'_, Scenario>> {
        if let Some(kind) = swarm::of(case) {
            return Ok(Cow::Owned(kind.scenario_of(case.seed)));
        }
        let mut scenarios = self.scenarios.iter();
        let found = scenarios.find(|scenario| scenario.name == case.scenario);
        found
            .map(Cow::Borrowed)
            .ok_or_else(|| anyhow::anyhow!("there is no scenario {:?}", case.scenario))
    }

    fn run(&self, case: &Case, rules: Rules, wire: Wire) -> anyhow::Result<Outcome> {
        expectations::forget();
        let random = swarm::of(case).is_some();
        let others = random || case.disturbance.tenant.is_some();
        world::run(&Run {
            scenario: &*self.scenario(case)?,
            seed: case.seed,
            disturbance: case.disturbance.clone(),
            rules,
            wire,
            horizon: if random { RANDOM_HORIZON } else { HORIZON },
            most_revisions: if others {
                MOST_BESIDE_OTHERS
            } else {
                MOST_REVISIONS
            },
        })
    }

    fn judge(&mut self, case: &Case, outcome: &Outcome) -> anyhow::Result<Option<Failure>> {
        // Random schedules are not compared with one in which nothing goes wrong.
        let alone = swarm::of(case).is_some();
        if !alone && !self.ends.contains_key(&*case.scenario) {
            let undisturbed = calm(&case.scenario);
            let undisturbed = self.run(&undisturbed, Rules::default(), Wire::default())?;
            self.ends.insert(case.scenario.clone(), undisturbed.end);
        }
        let end = self.ends.get(&case.scenario).filter(|_| !alone);
        let judged = case.judge(&*self.scenario(case)?, outcome, end);
        Ok(judged.err().map(|failure| *failure))
    }
}
