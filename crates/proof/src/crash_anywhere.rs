//! A kill at every write, at every point of it, whoever goes on; and a leader stopped at every write. And
//! faults that never end.

use crate::case::Case;
use crate::disturbance::{AtWrite, Blow, Disturbance, Point, Then};
use crate::scenario::Scenario;
use crate::storm::Weather;
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

/// A kill at every write, after which the process sees the state at each earlier revision first, and
/// acts on it at once: no lease keeps it waiting until it has caught up. The revisions are those of the
/// clean run, which is the same up to the kill.
pub fn stale_cases(scenario: &Scenario, clean: &Outcome) -> Vec<Case> {
    let steps = &clean.history.steps;
    let ours = steps.iter().filter(|step| {
        let lease = step.key.resource.starts_with("leases.");
        let event = step.key.resource.starts_with("events.");
        !lease && !event && step.by.as_deref().is_some_and(world::ours)
    });
    let mut cases = Vec::new();
    for (at, step) in ours.enumerate() {
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

fn case(scenario: &Scenario, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.name.to_owned(),
        seed: SEED,
        disturbance,
    }
}
