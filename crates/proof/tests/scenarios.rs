//! Every scenario, undisturbed.

use carillon_oracle::{Assumptions, check_all};
use carillon_proof::disturbance::Disturbance;
use carillon_proof::scenario;
use carillon_proof::world::{Run, ours, run};
use std::sync::Arc;

#[test]
fn each_scenario_comes_to_its_end_and_breaks_nothing() {
    for scenario in scenario::all() {
        let begin = std::time::Instant::now();
        let outcome = run(&Run {
            scenario: &scenario,
            seed: 1,
            disturbance: Disturbance::none(1),
            planner: carillon_plan::broadcast_job::plan,
        })
        .unwrap();
        println!(
            "{}: {} writes, {} revisions, {:?}, ended {}, {:?} {:?}",
            scenario.name,
            outcome.writes,
            outcome.history.steps.len(),
            outcome.end,
            outcome.ended,
            outcome.exits,
            begin.elapsed(),
        );
        let assumptions = Assumptions {
            ours: Arc::new(ours),
            lag: jiff::SignedDuration::from_secs(5),
            ..Assumptions::default()
        };
        let report = check_all(&outcome.history, &assumptions);
        for violation in report.violations() {
            println!("{violation}");
        }
    }
}
