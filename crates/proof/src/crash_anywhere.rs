//! A kill at every write, at every point of it, whoever goes on; and a leader stopped at every write. And
//! faults that never end.

use carillon_oracle::Step;

use crate::blow::{Blow, Point};
use crate::case::Case;
use crate::disturbance::{AtWrite, Disturbance, Silence, Then};
use crate::scenario::Scenario;
use crate::span::Span;
use crate::storm::Weather;
use crate::tenant::Tenant;
use crate::world::{self, Outcome};

/// The seed of every run: what goes wrong is the same in each but for the point.
pub const SEED: u64 = 1;

/// The undisturbed run, to which the others are compared.
pub fn clean(scenario: &Scenario) -> Case {
    case(scenario, Disturbance::none(1))
}

/// The same without a lease, whose renewals are revisions, too.
pub fn clean_without_lease(scenario: &Scenario) -> Case {
    let alone = Disturbance {
        without_lease: true,
        ..Disturbance::none(1)
    };
    case(scenario, alone)
}

/// Every write × {before it is sent, applied and the reply lost, after the reply} × {started again,
/// another takes over}, and a stopped leader at every write. `writes` are those of the clean run.
pub fn cases(scenario: &Scenario, writes: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for write in 1..=writes {
        for (then, processes) in [(Then::Restart, 1), (Then::TakeOver, 2)] {
            for point in Point::ALL {
                cases.push(case(
                    scenario,
                    Disturbance {
                        at: vec![AtWrite {
                            write,
                            blow: Blow::Kill(point),
                        }],
                        then,
                        ..Disturbance::none(processes)
                    },
                ));
            }
        }
        cases.push(case(
            scenario,
            Disturbance {
                at: vec![AtWrite {
                    write,
                    blow: Blow::Stop,
                }],
                ..Disturbance::none(2)
            },
        ));
    }
    cases
}

/// The writes of a run that are counted.
fn ours(run: &Outcome) -> impl Iterator<Item = &Step> {
    run.history.steps.iter().filter(|step| {
        let lease = step.key.resource.starts_with("leases.");
        let event = step.key.resource.starts_with("events.");
        !lease && !event && step.by.as_deref().is_some_and(world::ours)
    })
}

/// A kill at every write of an undisturbed run of two processes, before which the other one was not told
/// what has happened to one kind of object from some time on: that watch of it hangs, and it takes over.
pub fn blind_cases(scenario: &Scenario, clean: &Outcome) -> Vec<Case> {
    let steps = &clean.history.steps;
    let Some(begin) = steps.first().map(|step| step.at) else {
        return Vec::new();
    };
    let mut cases = Vec::new();
    for (at, step) in ours(clean).enumerate() {
        let Some(by) = step.by.as_deref() else {
            continue;
        };
        let other = u32::from(by.agent.contains("/0."));
        // It takes the lease later than that, and what the hung watch missed never comes.
        let to = u64::try_from(step.at.duration_since(begin).as_secs()).unwrap_or(0) + 5;
        for resource in WATCHED {
            let watched = steps.iter().any(|step| *step.key.resource == *resource);
            let silence = Silence {
                resource: resource.to_owned(),
                agent: Some(format!("carillon/{other}.0")),
                during: Span { from: 0, to },
            };
            let disturbance = Disturbance {
                at: vec![AtWrite {
                    write: at + 1,
                    blow: Blow::Kill(Point::ReplyLost),
                }],
                then: Then::TakeOver,
                silent: vec![silence],
                ..Disturbance::none(2)
            };
            cases.extend(watched.then(|| case(scenario, disturbance)));
        }
    }
    cases
}

/// What is watched and written, but for CronJobs, whose status is theirs alone.
const WATCHED: [&str; 7] = [
    "pods",
    "jobs.batch",
    "broadcastjobs.carillon.dev",
    "noderesultslices.carillon.dev",
    "daemonsets.carillon.dev",
    "daemonsets.apps",
    "controllerrevisions.apps",
];

/// The undisturbed run of two processes.
pub fn clean_with_standby(scenario: &Scenario) -> Case {
    case(scenario, Disturbance::none(2))
}

/// A kill at every write, after which the process sees the state at each earlier revision first, and
/// acts on it at once: no lease keeps it waiting until it has caught up. The revisions are those of the
/// clean run, which is the same up to the kill.
pub fn stale_cases(scenario: &Scenario, clean: &Outcome) -> Vec<Case> {
    let steps = &clean.history.steps;
    let mut cases = Vec::new();
    for (at, step) in ours(clean).enumerate() {
        let earlier = steps.iter().take_while(|earlier| earlier.rev < step.rev);
        let seen = earlier.filter(|earlier| !earlier.key.resource.starts_with("leases."));
        for revision in seen.map(|earlier| earlier.rev) {
            cases.push(case(
                scenario,
                Disturbance {
                    at: vec![AtWrite {
                        write: at + 1,
                        blow: Blow::Kill(Point::ReplyLost),
                    }],
                    restart_at_revision: Some(revision),
                    without_lease: true,
                    ..Disturbance::none(1)
                },
            ));
        }
    }
    cases
}

/// A tenth of all requests is refused, for ever, and some replies are lost.
pub fn under_pressure(scenario: &Scenario, seed: u64) -> Case {
    let pressed = Disturbance {
        weather: Some(Weather {
            refused: 100,
            reply_lost: 20,
            ..Weather::default()
        }),
        ..Disturbance::none(1)
    };
    Case {
        seed,
        ..case(scenario, pressed)
    }
}

/// A tenant of another namespace does what it likes, and nothing else goes wrong.
pub fn beside_a_tenant(scenario: &Scenario, seed: u64) -> Case {
    let disturbance = Disturbance {
        tenant: Some(Tenant::Elsewhere),
        ..Disturbance::none(1)
    };
    Case {
        seed,
        ..case(scenario, disturbance)
    }
}

fn case(scenario: &Scenario, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.name.to_owned(),
        seed: SEED,
        disturbance,
    }
}
