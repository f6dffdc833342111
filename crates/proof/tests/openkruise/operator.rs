//! What happens to the operator itself.

use carillon_proof::blow::{Blow, Point};
use carillon_proof::crash_anywhere;
use carillon_proof::disturbance::{AtWrite, Disturbance, Then};
use carillon_proof::fault::{Fault, What};
use carillon_proof::scenario::Scenario;
use carillon_proof::span::Span;
use carillon_sim::actors::Fate;
use jiff::SignedDuration;
use serde_json::json;

use crate::played::{Played, hangs, play, play_with, succeeds, three_nodes};

fn each_ran_once(played: &Played) {
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.pods(), played.count("succeeded")), (3, 3));
}

fn down(from: u64, to: u64) -> Disturbance {
    Disturbance {
        down: vec![Span { from, to }],
        ..Disturbance::none(1)
    }
}

/// Each pod takes so long that the operator goes away meanwhile.
fn with_deadline(seconds: i64, fates: fn(&str, usize) -> Fate) -> Scenario {
    Scenario {
        fates,
        ..three_nodes(json!({
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": seconds},
        }))
    }
}

#[test]
fn an_operator_killed_around_a_creation_makes_no_second_pod() {
    for (then, processes) in [(Then::Restart, 1), (Then::TakeOver, 2)] {
        for point in Point::ALL {
            let killed = Fault::new("create", "pods", 1, What::Killed(point));
            let disturbance = Disturbance {
                faults: vec![killed],
                then,
                ..Disturbance::none(processes)
            };
            let played = play_with(&three_nodes(json!({"parallelism": 2})), disturbance);
            each_ran_once(&played);
            assert_eq!(played.kills(), 1);
        }
    }
}

#[test]
fn an_operator_killed_around_the_status_rebuilds_it_from_what_is_stored() {
    for point in Point::ALL {
        let status = "broadcastjobs.carillon.dev/status";
        let disturbance = Disturbance {
            faults: vec![Fault::new("patch", status, 3, What::Killed(point))],
            ..Disturbance::none(1)
        };
        let played = play_with(&three_nodes(json!({"parallelism": 2})), disturbance);
        each_ran_once(&played);
        assert_eq!(played.kills(), 3);
    }
}

#[test]
fn a_leader_that_begins_with_a_cache_from_before_the_creations_makes_no_second_pod() {
    let scenario = three_nodes(json!({}));
    let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
    let steps = clean.history.steps.iter();
    let first = steps
        .filter(|step| &*step.key.resource == "pods" && step.old.is_none())
        .map(|step| step.rev)
        .next()
        .unwrap();
    for before in 0..4 {
        let disturbance = Disturbance {
            faults: vec![Fault::new(
                "create",
                "pods",
                1,
                What::Killed(Point::AfterReply),
            )],
            restart_at_revision: Some(first - 1 - before),
            ..Disturbance::none(1)
        };
        let played = play_with(&scenario, disturbance);
        each_ran_once(&played);
        assert_eq!(played.kills(), 1);
    }
}

#[test]
fn a_leader_that_stands_still_while_another_takes_over_changes_nothing_when_it_goes_on() {
    let scenario = three_nodes(json!({"parallelism": 2}));
    let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
    for write in 1..=clean.writes {
        let stop = AtWrite {
            write,
            blow: Blow::Stop,
        };
        let disturbance = Disturbance {
            at: vec![stop],
            ..Disturbance::none(2)
        };
        let played = play_with(&scenario, disturbance);
        each_ran_once(&played);
        let [late] = played.late() else {
            panic!(
                "write {write}: not one leader was stopped: {:?}",
                played.late()
            );
        };
        // With the last write the run is over before it is missed.
        let is_missed = write < clean.writes;
        let taken_over = played.others_wrote_after(late);
        assert!(taken_over || !is_missed, "write {write}: nobody took over");
    }
}

#[test]
fn a_deadline_survives_a_restart() {
    let scenario = with_deadline(60, |_, _| hangs());
    let undisturbed = play(&scenario);
    let disturbed = play_with(&scenario, down(10, 20));
    assert_eq!((undisturbed.kills(), disturbed.kills()), (0, 1));
    for played in [undisturbed, disturbed] {
        assert_eq!(played.end(), ("Failed", "DeadlineExceeded"));
        let due = played.when("FailureTarget").unwrap();
        assert!((60..=65).contains(&due), "failed after {due} s");
        assert_eq!(played.outcomes("node-0"), [("Failed", "DeadlineExceeded")]);
    }
}

#[test]
fn a_job_whose_pods_succeeded_in_time_is_complete_though_the_operator_was_down_at_the_deadline() {
    let scenario = with_deadline(60, |_, _| Fate::ends(SignedDuration::from_secs(20), 0));
    let played = play_with(&scenario, down(10, 600));
    each_ran_once(&played);
    assert!(played.when("Complete") > Some(600));
}

#[test]
fn a_job_whose_pods_still_run_fails_as_soon_as_an_operator_is_back_after_the_deadline() {
    let scenario = with_deadline(60, |node, _| {
        if node == "node-0" {
            hangs()
        } else {
            succeeds()
        }
    });
    let played = play_with(&scenario, down(10, 600));
    assert_eq!(played.end(), ("Failed", "DeadlineExceeded"));
    let decided = played.when("FailureTarget").unwrap();
    assert!((600..=630).contains(&decided), "decided after {decided} s");
    assert_eq!(played.outcomes("node-0"), [("Failed", "DeadlineExceeded")]);
    assert_eq!(played.outcomes("node-1"), [("Succeeded", "")]);
}

#[test]
fn outcomes_of_pods_that_ended_and_were_deleted_while_the_operator_was_down_are_kept() {
    let scenario = Scenario {
        fates: |_, _| Fate::ends(SignedDuration::from_secs(20), 0),
        script: vec![crate::played::step(
            |view| {
                view.pods()
                    .iter()
                    .all(|pod| pod["status"]["phase"] == "Succeeded")
                    && view.pods().len() == 3
            },
            |view| {
                for pod in view.pods() {
                    view.delete_pod(&pod);
                }
            },
        )],
        ..three_nodes(json!({}))
    };
    let played = play_with(&scenario, down(10, 600));
    each_ran_once(&played);
    assert_eq!(played.pods_left().len(), 0);
}
