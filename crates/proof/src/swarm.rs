//! Random schedules: a seed decides the object, the nodes, and what goes wrong. First the faults
//! do not stop, and nothing may break; then everything is mended, and all has to come to its end.

use fastrand::Rng;

use crate::campaign::{self, Found, Job};
use crate::case::Case;
use crate::disturbance::Disturbance;
use crate::kinds::{KINDS, ProvedKind};
use crate::scenario::Scenario;
use crate::storm::Weather;
use crate::tenant::Tenant;

/// The kind whose random schedules a case is of.
pub fn of(case: &Case) -> Option<&'static ProvedKind> {
    let mut all = KINDS.into_iter();
    all.find(|kind| kind.random == case.scenario)
}

impl ProvedKind {
    /// The scenario of a seed.
    pub fn scenario_of(&self, seed: u64) -> Scenario {
        (self.scenario)(self.random, seed, self.case(seed).has_monkey())
    }

    /// The case of a seed. In each third the caches of each process lag behind, each by its own time.
    pub fn case(&self, seed: u64) -> Case {
        let mut case = self.case_without_lags(seed);
        let mut rng = Rng::with_seed(seed.rotate_left(41));
        if let Some(weather) = &mut case.disturbance.weather
            && rng.u32(0..3) == 0
        {
            weather.lag = rng.u32(1..=60);
        }
        case
    }

    /// The same as it was before caches lagged behind.
    pub fn case_without_lags(&self, seed: u64) -> Case {
        let mut case = self.case_with_edits(seed);
        let mut rng = Rng::with_seed(seed.rotate_left(29));
        if let Some(weather) = &mut case.disturbance.weather
            && rng.u32(0..3) == 0
        {
            weather.rejected = rng.u32(1..=200);
        }
        case
    }

    /// The same as it was before a kubelet refused anything. Each third has somebody who edits what is served.
    pub fn case_with_edits(&self, seed: u64) -> Case {
        let mut case = self.case_without_edits(seed);
        let edits = Rng::with_seed(seed.rotate_left(17)).u32(0..3) == 0;
        if let Some(weather) = &mut case.disturbance.weather {
            weather.edits = edits;
        }
        case
    }

    /// The same as it was before anybody edited what is served.
    pub fn case_without_edits(&self, seed: u64) -> Case {
        let mut rng = Rng::with_seed(!seed);
        let without_lease = rng.u32(0..4) == 0;
        let weather = Some(weather(&mut rng));
        let processes = rng.usize(1..=3);
        let alone = self.counts_without_ledger && without_lease;
        Case {
            scenario: self.random.to_owned(),
            seed,
            disturbance: Disturbance {
                without_lease,
                weather,
                ..Disturbance::none(if alone { 1 } else { processes })
            },
        }
    }

    /// The same beside a tenant, in some of the seeds: each third has one in another namespace, but each
    /// ninth in that of the scenario.
    pub fn case_with_tenant(&self, seed: u64) -> Case {
        beside_a_tenant(self.case(seed))
    }

    /// Runs and judges these cases of it; ends early after `most` failures.
    pub fn run(&self, cases: impl Iterator<Item = Case>, most: usize) -> anyhow::Result<Found> {
        let cases: Vec<(Case, Scenario)> = cases
            .map(|case| {
                let scenario = self.scenario_of(case.seed);
                (case, scenario)
            })
            .collect();
        let jobs: Vec<Job<'_>> = cases
            .iter()
            .map(|(case, scenario)| Job::alone(case, scenario))
            .collect();
        campaign::run(&jobs, most)
    }
}

/// A case with the tenant of its seed.
pub(crate) fn beside_a_tenant(mut case: Case) -> Case {
    case.disturbance.tenant = match case.seed % 9 {
        0 => Some(Tenant::Beside),
        3 | 6 => Some(Tenant::Elsewhere),
        _ => None,
    };
    case
}

/// A part of the faults, each at a rate of its own: all at once would hide what one alone shows.
fn weather(rng: &mut Rng) -> Weather {
    let mut rate = |most: u32| {
        if rng.bool() { rng.u32(1..=most) } else { 0 }
    };
    Weather {
        refused: rate(200),
        lost: rate(100),
        reply_lost: rate(100),
        twice: rate(100),
        killed: rate(30),
        watch_closed: rate(50),
        watch_gone: rate(20),
        event_late: rate(50),
        event_twice: rate(100),
        event_lost: 0,
        slow: 0,
        lag: 0,
        minutes: rate(6) + 1,
        monkey: rate(2) > 0,
        edits: false,
        rejected: 0,
    }
}
