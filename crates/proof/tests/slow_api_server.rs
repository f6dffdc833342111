//! However slow the API server is, if it answers within the ten seconds of a plan each job comes to its end.

use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::storm::Weather;
use carillon_proof::{crash_anywhere, kinds};

#[test]
fn jobs_end_on_a_slow_api_server() {
    for name in [
        "every node succeeds",
        "a running pod is deleted and its node is tried again",
        "each tick starts a job",
    ] {
        let mut all = kinds::scenarios().into_iter();
        let scenario = all.find(|scenario| scenario.name == name).expect(name);
        for slow in [1_400, 2_000, 4_000, 8_000] {
            let weather = Weather {
                slow,
                ..Weather::default()
            };
            let case = Case {
                disturbance: Disturbance {
                    weather: Some(weather),
                    without_lease: true,
                    ..Disturbance::none(1)
                },
                ..crash_anywhere::clean(&scenario)
            };
            let outcome = case.run(&scenario).unwrap();
            let judged = case.judge(&scenario, &outcome, None);
            judged.unwrap_or_else(|failure| panic!("{name}, {slow} ms: {failure}"));
        }
    }
}
