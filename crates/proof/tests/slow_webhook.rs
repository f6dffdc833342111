//! An admission webhook takes seconds for each pod: the job goes on as fast as requests fit beside each other.

use carillon_proof::case::Case;
use carillon_proof::crash_anywhere;
use carillon_proof::disturbance::{Disturbance, Slow};
use carillon_proof::kinds::broadcast_job;
use carillon_proof::scenario::Scenario;
use jiff::SignedDuration;
use serde_json::json;

#[test]
fn a_slow_webhook_costs_what_it_takes_and_no_pace() {
    let scenario = Scenario {
        nodes: 200,
        spec: json!({"parallelism": "100%"}),
        ..broadcast_job::scenario("many nodes")
    };
    for (millis, most) in [(0, 1), (2_000, 1), (5_000, 2), (8_000, 4)] {
        let slow = Slow {
            verb: "create".to_owned(),
            resource: "pods".to_owned(),
            namespace: None,
            millis,
        };
        let case = Case {
            disturbance: Disturbance {
                slow: vec![slow],
                ..Disturbance::none(1)
            },
            ..crash_anywhere::clean(&scenario)
        };
        let outcome = case.run(&scenario).unwrap();
        let judged = case.judge(&scenario, &outcome, None);
        judged.unwrap_or_else(|failure| panic!("{millis} ms: {failure}"));
        let first = outcome.history.steps.first().expect("a revision").at;
        let took = outcome.over_at.duration_since(first);
        println!("{millis} ms a pod: {took:#}");
        // Simulated time: 200 pods, 32 side by side.
        assert!(
            took < SignedDuration::from_mins(most),
            "{millis} ms: {took:#}"
        );
    }
}
