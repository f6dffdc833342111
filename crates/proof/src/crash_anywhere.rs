//! A kill at every write, at every point of it, whoever goes on; and a leader stopped at every write.

use crate::case::Case;
use crate::disturbance::{AtWrite, Blow, Disturbance, Point, Then};
use crate::scenario::Scenario;

/// The seed of every run: what goes wrong is the same in each but for the point.
pub const SEED: u64 = 1;

/// The undisturbed run, to which the others are compared.
pub fn clean(scenario: &Scenario) -> Case {
    case(scenario, Disturbance::none(1))
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

fn case(scenario: &Scenario, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.name.to_owned(),
        seed: SEED,
        disturbance,
    }
}
