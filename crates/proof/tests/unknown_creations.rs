//! A creation of which its sender never learns whether it was done.

use carillon_proof::case::Case;
use carillon_proof::disturbance::{Disturbance, Silence, Span};
use carillon_proof::fault::{Fault, What};
use carillon_proof::{crash_anywhere, scenario};

const SEEDS: u64 = 20;

#[test]
fn a_pod_of_a_job_that_may_be_there_is_not_made_a_second_time_under_another_name() {
    let mut all = scenario::all().into_iter();
    let scenario = all
        .find(|scenario| scenario.name == "a job is suspended from the start and resumed elsewhere")
        .unwrap();
    // The pod is made, the reply is lost, nobody can look, and no event tells of it for a while.
    let lost = Fault::new("create", "pods", 1, What::ReplyLost);
    let unseen = Fault::new("get", "pods", 1, What::Refused(403));
    let silent = Silence {
        resource: "pods".to_owned(),
        agent: None,
        during: Span { from: 0, to: 60 },
    };
    for seed in 0..SEEDS {
        let case = Case {
            seed,
            disturbance: Disturbance {
                faults: vec![lost.clone(), unseen.clone()],
                silent: vec![silent.clone()],
                ..Disturbance::none(1)
            },
            ..crash_anywhere::clean(&scenario)
        };
        let outcome = case.run(&scenario).unwrap();
        assert_eq!(outcome.unmet, 0, "seed {seed}");
        let judged = case.judge(&scenario, &outcome, None);
        judged.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
