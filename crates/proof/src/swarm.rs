//! Random schedules: a seed decides the job, CronJob or Job, the nodes, and what goes wrong. First the faults
//! do not stop, and nothing may break; then everything is mended, and all has to come to its end.

mod cron_jobs;
mod families;
mod jobs;

use carillon_sim::actors::{Fate, Work};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::campaign::{self, Found, Job};
use crate::case::Case;
use crate::disturbance::Disturbance;
use crate::scenario::{Same, Scenario};
use crate::storm::Weather;
use crate::tenant::Tenant;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// What a seed is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Swarm {
    /// A BroadcastJob; in each fourth with its retries.
    BroadcastJobs,
    /// A CronJob of carillon.dev or of batch/v1.
    CronJobs,
    /// A Job of batch/v1.
    Jobs,
}

impl Swarm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BroadcastJobs, Self::CronJobs, Self::Jobs];

    /// The one of a case.
    pub fn of(case: &Case) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|swarm| swarm.name() == case.scenario)
    }

    fn name(self) -> &'static str {
        match self {
            Self::BroadcastJobs => "swarm",
            Self::CronJobs => "swarm of CronJobs",
            Self::Jobs => "swarm of Jobs",
        }
    }

    /// The scenario of a seed.
    pub fn scenario(self, seed: u64) -> Scenario {
        match self {
            Self::BroadcastJobs => broadcast_job(self.name(), seed),
            Self::CronJobs => cron_jobs::scenario(self.name(), seed),
            Self::Jobs => jobs::scenario(self.name(), seed),
        }
    }

    /// The case of a seed. In each third the caches of each process lag behind, each by its own time.
    pub fn case(self, seed: u64) -> Case {
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
    pub fn case_without_lags(self, seed: u64) -> Case {
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
    pub fn case_with_edits(self, seed: u64) -> Case {
        let mut case = self.case_without_edits(seed);
        let edits = Rng::with_seed(seed.rotate_left(17)).u32(0..3) == 0;
        if let Some(weather) = &mut case.disturbance.weather {
            weather.edits = edits;
        }
        case
    }

    /// The same as it was before anybody edited what is served.
    pub fn case_without_edits(self, seed: u64) -> Case {
        let mut rng = Rng::with_seed(!seed);
        let without_lease = rng.u32(0..4) == 0;
        let weather = Some(weather(&mut rng));
        let processes = rng.usize(1..=3);
        // The status of a Job holds no ledger: with several leaders at once a pod may be counted twice.
        let alone = self == Self::Jobs && without_lease;
        Case {
            scenario: self.name().to_owned(),
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
    pub fn case_with_tenant(self, seed: u64) -> Case {
        beside_a_tenant(self.case(seed))
    }

    /// Runs and judges these cases of it; ends early after `most` failures.
    pub fn run(self, cases: impl Iterator<Item = Case>, most: usize) -> anyhow::Result<Found> {
        let cases: Vec<(Case, Scenario)> = cases
            .map(|case| {
                let scenario = self.scenario(case.seed);
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

fn broadcast_job(name: &'static str, seed: u64) -> Scenario {
    if families::is_of(seed) {
        return families::scenario(name, seed);
    }
    let mut rng = Rng::with_seed(seed);
    let watched = Swarm::BroadcastJobs.case(seed).has_monkey();
    Scenario {
        nodes: rng.usize(2..=6),
        spec: spec(&mut rng, watched),
        fates: [all_well, some_fail, some_hang, any][rng.usize(0..4)],
        same: Same::Condition,
        ..Scenario::of_broadcast_job(name)
    }
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

fn spec(rng: &mut Rng, watched: bool) -> Value {
    // Somebody has to resume a job that a failure has paused.
    let policies = if watched { 3 } else { 2 };
    let on_failure = ["FailFast", "Continue", "Pause"][rng.usize(0..policies)];
    let mut spec = json!({
        "parallelism": rng.u32(1..=3),
        "failurePolicy": {"type": on_failure},
    });
    match rng.u32(0..6) {
        0 => spec["parallelism"] = json!("50%"),
        1 => spec["template"]["spec"]["restartPolicy"] = json!("OnFailure"),
        2 => spec["backoffLimitPerNode"] = json!(rng.u32(1..=2)),
        3 => spec["execution"] = json!("AtMostOnce"),
        // It is told by this machine's clock, which a monkey lets be wrong.
        4 if !watched => spec["podStartDeadlineSeconds"] = json!(60),
        _ => spec["failurePolicy"]["maxFailed"] = json!(rng.u32(0..=2)),
    }
    // Something that hangs is ended by the deadline.
    spec["completionPolicy"] = json!({"type": "Always", "activeDeadlineSeconds": 1500});
    spec
}

fn all_well(_: &str, _: usize) -> Fate {
    Fate::ends(3 * SECOND, 0)
}

fn some_fail(node: &str, nth: usize) -> Fate {
    let fails = node.ends_with('1') || node.ends_with('2') && nth == 0;
    Fate::ends(2 * SECOND, if fails { 3 } else { 0 })
}

fn some_hang(node: &str, nth: usize) -> Fate {
    let hangs = node.ends_with('1') && nth == 0;
    Fate {
        works: vec![if hangs {
            Work::Hangs
        } else {
            Work::Ends(SECOND, 0)
        }],
        obeys: if nth.is_multiple_of(2) { Some(0) } else { None },
        ..Fate::ends(SECOND, 0)
    }
}

fn any(node: &str, nth: usize) -> Fate {
    let salt = node.len() + node.bytes().map(usize::from).sum::<usize>() + 7 * nth;
    Fate {
        start: SignedDuration::from_millis((salt * 131 % 5000) as i64),
        refused: None,
        waits: (salt.is_multiple_of(5)).then_some("ImagePullBackOff"),
        works: vec![
            Work::Ends(
                SECOND * (1 + salt as i32 % 7),
                i32::from(salt.is_multiple_of(3)),
            ),
            Work::Ends(SECOND, 0),
        ],
        obeys: [Some(0), Some(143), None][salt % 3],
    }
}
