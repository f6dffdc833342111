//! What the API server does to requests and watches.

use std::sync::atomic::{AtomicUsize, Ordering};

use carillon_proof::disturbance::{Disturbance, Silence};
use carillon_proof::fault::{Fault, What};
use carillon_proof::scenario::{Ends, NAMESPACE, Scenario, View};
use carillon_proof::span::Span;
use carillon_sim::{Delete, Status};
use serde_json::json;

use crate::played::{
    Played, exits, hangs, later, play, play_with, says, step, succeeds, three_nodes,
};

const STATUS: &str = "broadcastjobs.carillon.dev/status";

fn meets(faults: &[Fault]) -> Disturbance {
    Disturbance {
        faults: faults.to_vec(),
        ..Disturbance::none(1)
    }
}

fn each_ran_once(played: &Played) {
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.pods(), played.count("succeeded")), (3, 3));
    for node in ["node-0", "node-1", "node-2"] {
        assert_eq!(played.outcomes(node), [("Succeeded", "")]);
    }
}

#[test]
fn a_creation_whose_reply_is_lost_makes_no_second_pod() {
    for what in [
        What::ReplyLost,
        What::AppliedAndAnswered(504),
        What::AppliedAndAnswered(500),
    ] {
        let lost = Fault::new("create", "pods", 2, what);
        let played = play_with(&three_nodes(json!({"parallelism": 2})), meets(&[lost]));
        each_ran_once(&played);
    }
}

#[test]
fn a_creation_that_is_refused_for_a_while_is_tried_again_and_does_not_count_as_active() {
    let refused = Fault::new("create", "pods", 5, What::Refused(500));
    let played = play_with(&three_nodes(json!({})), meets(&[refused]));
    each_ran_once(&played);
    let failing = played.when_reason("Reconciling", "PodCreationFailing");
    assert!(failing.is_some(), "nobody was told");
    let first_pod = played.seconds(played.pods_for("node-0")[0]);
    let counted = played
        .jobs()
        .any(|(at, job)| at < first_pod && job["status"]["active"].as_i64() > Some(0));
    assert!(!counted, "a pod was counted before there was one");
}

#[test]
fn the_last_write_of_the_status_is_tried_again_until_it_succeeds() {
    for (code, times) in [(500, 6), (409, 3), (503, 6), (504, 2)] {
        let refused = Fault::new("patch", STATUS, times, What::Refused(code));
        let played = play_with(
            &three_nodes(json!({})),
            meets(&[refused.containing("AllNodesSucceeded")]),
        );
        each_ran_once(&played);
    }
}

#[test]
fn a_lost_reply_to_the_last_write_of_the_status_changes_nothing() {
    for what in [What::ReplyLost, What::AppliedAndAnswered(504)] {
        let lost = Fault::new("patch", STATUS, 1, what).containing("AllNodesSucceeded");
        each_ran_once(&play_with(&three_nodes(json!({})), meets(&[lost])));
    }
}

#[test]
fn deletes_that_are_refused_when_a_job_fails_are_tried_again_until_its_pods_are_gone() {
    let refused = Fault::new("delete", "pods", 8, What::Refused(500));
    let scenario = Scenario {
        fates: |node, _| if node == "node-0" { exits(1) } else { hangs() },
        ..three_nodes(json!({"failurePolicy": {"type": "FailFast"}}))
    };
    let played = play_with(&scenario, meets(&[refused]));
    assert_eq!(played.end(), ("Failed", "MaxFailedNodesExceeded"));
    for node in ["node-1", "node-2"] {
        assert_eq!(played.outcomes(node), [("Failed", "StoppedByFailure")]);
    }
    for pod in played.pods_left() {
        assert_eq!(pod["status"]["phase"], "Failed");
    }
    assert_eq!(played.stopped_by_us(), 2);
}

#[test]
fn a_refused_deletion_after_the_time_to_live_is_tried_again() {
    let refused = Fault::new(
        "delete",
        "broadcastjobs.carillon.dev",
        5,
        What::Refused(500),
    );
    let scenario = Scenario {
        ends: Ends::Gone,
        ..three_nodes(json!({
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 20},
        }))
    };
    let played = play_with(&scenario, meets(&[refused]));
    assert_eq!(
        (played.end(), played.pods()),
        (("Complete", "AllNodesSucceeded"), 3)
    );
    assert_eq!(played.pods_left().len(), 0);
}

#[test]
fn events_of_own_writes_that_never_come_hold_a_job_up_for_a_minute_and_not_for_ever() {
    let silence = Silence {
        resource: "pods".to_owned(),
        agent: None,
        during: Span { from: 0, to: 3600 },
    };
    let disturbance = Disturbance {
        silent: vec![silence],
        ..Disturbance::none(1)
    };
    let played = play_with(&three_nodes(json!({"parallelism": 1})), disturbance);
    each_ran_once(&played);
    let complete = played.when("Complete").unwrap();
    assert!(complete > 60, "the watch did not hang: {complete} s");
    assert!(complete < 3600, "only when events came again: {complete} s");
}

#[test]
fn a_node_that_joins_while_the_watch_of_nodes_hangs_is_served_all_the_same() {
    let silence = Silence {
        resource: "nodes".to_owned(),
        agent: None,
        during: Span {
            from: 0,
            to: u64::MAX,
        },
    };
    let disturbance = Disturbance {
        silent: vec![silence],
        without_audit: true,
        ..Disturbance::none(1)
    };
    let scenario = Scenario {
        script: vec![step(
            |view| view.count("succeeded") == 3,
            |view| view.add_node("node-7"),
        )],
        ends: Ends::Served(4),
        ..three_nodes(json!({"completionPolicy": {"type": "Never"}}))
    };
    let played = play_with(&scenario, disturbance);
    assert_eq!(played.outcomes("node-7"), [("Succeeded", "")]);
}

#[test]
fn a_gap_of_the_watch_that_hides_creation_and_deletion_of_a_pod_does_not_stop_the_job() {
    let silence = Silence {
        resource: "pods".to_owned(),
        agent: None,
        during: Span { from: 0, to: 50 },
    };
    let disturbance = Disturbance {
        silent: vec![silence],
        ..Disturbance::none(1)
    };
    let scenario = Scenario {
        fates: |_, nth| if nth == 0 { hangs() } else { succeeds() },
        script: vec![later(
            |view| view.pods().len() == 3,
            10,
            |view| {
                let actor = view.server().actor("user");
                for pod in view.pods() {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let bare = json!({"metadata": {"finalizers": null}});
                    actor.patch_merge("pods", NAMESPACE, name, &bare).unwrap();
                    actor
                        .delete("pods", NAMESPACE, name, &Delete::now())
                        .unwrap();
                }
            },
        )],
        ..three_nodes(json!({}))
    };
    let played = play_with(&scenario, disturbance);
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.pods(), played.count("succeeded")), (6, 3));
    assert!(played.when("Complete").unwrap() < 180);
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

fn fill_the_quota(view: &View<'_>) {
    view.server().set_admission(|call, _| {
        if call.resource() != "pods" || call.uri.contains("dryRun=") {
            return Ok(());
        }
        REFUSED.fetch_add(1, Ordering::Relaxed);
        let why = "exceeded quota: pods, requested: pods=1, used: pods=0, limited: pods=0";
        Err(Status::forbidden("pods", &call.name, why))
    });
}

#[test]
fn a_full_quota_is_reported_asked_about_slowly_and_ends_no_timer() {
    REFUSED.store(0, Ordering::Relaxed);
    let played = play(&Scenario {
        nodes: 20,
        script: vec![
            step(|_| true, fill_the_quota),
            later(
                |view| says(view, "Reconciling", "QuotaExceeded"),
                300,
                |view| view.server().clear_admission(),
            ),
        ],
        ..three_nodes(json!({
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 900},
        }))
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.pods(), played.count("succeeded")), (20, 20));
    let asked = REFUSED.load(Ordering::Relaxed);
    assert!(
        asked < 20,
        "{asked} creations in five minutes of a full quota"
    );

    let played = play(&Scenario {
        script: vec![step(|_| true, fill_the_quota)],
        ..three_nodes(json!({
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 120},
        }))
    });
    assert_eq!(played.end(), ("Failed", "DeadlineExceeded"));
    assert_eq!(played.pods(), 0);
    let due = played.when("FailureTarget").unwrap();
    assert!((120..=125).contains(&due), "failed after {due} s");
}
