//! What users do to the job.

use carillon_proof::kinds::broadcast_job;
use carillon_proof::scenario::{Ends, JOB, NAMESPACE, Scenario};
use carillon_sim::actors::{Fate, Work};
use carillon_sim::{Delete, Propagation};
use jiff::SignedDuration;
use serde_json::json;

use crate::played::{condition, cordon, hangs, holds, later, play, step, succeeds, three_nodes};

#[test]
fn a_user_pauses_and_resumes_and_the_clock_of_the_deadline_stands_still_meanwhile() {
    let played = play(&Scenario {
        script: vec![
            step(
                |view| view.count("succeeded") == 1,
                |view| view.patch_job(&json!({"spec": {"paused": true}})),
            ),
            later(
                |view| view.is("Paused"),
                600,
                |view| view.patch_job(&json!({"spec": {"paused": false}})),
            ),
        ],
        ..three_nodes(json!({
            "parallelism": 1,
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60},
        }))
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!(played.count("succeeded"), 3);
    assert!(played.count("pausedSeconds") >= 590);
}

#[test]
fn a_job_deleted_in_the_foreground_gets_no_outcome_though_its_pods_end_well_on_the_way() {
    let played = play(&Scenario {
        // They do not listen, and are done before the grace period is over.
        fates: |_, _| Fate {
            works: vec![Work::Ends(SignedDuration::from_secs(8), 0)],
            obeys: None,
            ..succeeds()
        },
        script: vec![step(
            |view| view.count("active") == 3,
            |view| view.delete_job(&Delete::with(Propagation::Foreground)),
        )],
        ends: Ends::Gone,
        ..three_nodes(json!({}))
    });
    let outcome =
        |job| holds(job, "Complete") || holds(job, "Failed") || holds(job, "FailureTarget");
    assert!(!played.jobs().any(|(_, job)| outcome(job)));
    assert_eq!(played.pods_left().len(), 0);
}

#[test]
fn a_job_that_was_deleted_and_created_again_under_its_name_begins_anew() {
    let played = play(&Scenario {
        fates: |_, nth| if nth == 0 { hangs() } else { succeeds() },
        script: vec![
            step(
                |view| view.count("active") == 3,
                |view| view.delete_job(&Delete::with(Propagation::Background)),
            ),
            step(
                |view| view.job().is_none(),
                |view| {
                    let actor = view.server().actor("user");
                    let job = broadcast_job::manifest(&json!({}));
                    actor
                        .create("broadcastjobs.carillon.dev", NAMESPACE, &job)
                        .unwrap();
                },
            ),
        ],
        ..three_nodes(json!({}))
    });
    let uid = &played.job()["metadata"]["uid"];
    assert_eq!(played.count("succeeded"), 3);
    for node in ["node-0", "node-1", "node-2"] {
        let pods = played.pods_for(node);
        assert_eq!(pods.len(), 2, "one of each job");
        let owner = |n: usize| &pods[n].new.as_ref().unwrap()["metadata"]["ownerReferences"][0];
        assert_ne!(&owner(0)["uid"], uid);
        assert_eq!(&owner(1)["uid"], uid);
        assert_ne!(pods[0].key.name, pods[1].key.name);
    }
}

#[test]
fn an_edit_of_the_template_is_refused_and_changes_nothing() {
    let played = play(&Scenario {
        script: vec![step(
            |view| view.count("succeeded") == 1,
            |view| {
                let image = json!([{"name": "main", "image": "example.com/other:2"}]);
                let patch = json!({"spec": {"template": {"spec": {"containers": image}}}});
                let actor = view.server().actor("user");
                let refused = actor
                    .patch_merge("broadcastjobs.carillon.dev", NAMESPACE, JOB, &patch)
                    .unwrap_err();
                assert_eq!(refused.code, 422, "{refused}");
            },
        )],
        ..three_nodes(json!({"parallelism": 1}))
    });
    assert_eq!(played.job()["metadata"]["generation"], 1);
    for change in played.changes("pods") {
        let pod = change.new.as_ref().unwrap();
        assert_eq!(pod["spec"]["containers"][0]["image"], "example.com/work:1");
    }
}

#[test]
fn a_parallelism_lowered_below_the_active_pods_starts_nothing_and_stops_nothing() {
    let played = play(&Scenario {
        nodes: 6,
        // One after the other, so that places are given back one by one.
        fates: |node, _| {
            let n: i64 = node.trim_start_matches("node-").parse().unwrap_or(0);
            Fate::ends(SignedDuration::from_secs(10 + 5 * n), 0)
        },
        script: vec![step(
            |view| view.count("active") == 4,
            |view| view.patch_job(&json!({"spec": {"parallelism": 1}})),
        )],
        ..three_nodes(json!({"parallelism": 4}))
    });
    assert_eq!((played.count("succeeded"), played.stopped_by_us()), (6, 0));
    let fourth_ended = played
        .jobs()
        .find(|(_, job)| job["status"]["succeeded"] == 4)
        .map(|(at, _)| at)
        .unwrap();
    let fifth = played.seconds(played.pods_for("node-4")[0]);
    let all_of_the_first = played.seconds(played.pods_for("node-3")[0]) + 25;
    assert!(fifth >= all_of_the_first, "{fifth} < {all_of_the_first}");
    assert!(fifth <= fourth_ended + 5);
}

#[test]
fn an_edit_of_the_deadline_counts_at_once() {
    let played = play(&Scenario {
        fates: |_, _| hangs(),
        script: vec![later(
            |view| view.count("active") == 3,
            100,
            |view| {
                let deadline = json!({"activeDeadlineSeconds": 300});
                view.patch_job(&json!({"spec": {"completionPolicy": deadline}}));
            },
        )],
        ..three_nodes(json!({"completionPolicy": {"type": "Always"}}))
    });
    assert_eq!(played.end(), ("Failed", "DeadlineExceeded"));
    let due = played.when("FailureTarget").unwrap();
    assert!((300..=310).contains(&due), "failed after {due} s");
}

#[test]
fn nodes_that_were_left_out_are_named_when_the_job_completes() {
    let played = play(&Scenario {
        script: vec![step(
            |view| view.count("active") == 1,
            |view| cordon(view, "node-2", true),
        )],
        ..three_nodes(json!({"parallelism": 1}))
    });
    let complete = condition(played.job(), "Complete").unwrap();
    let message = complete["message"].as_str().unwrap();
    assert!(message.contains("NodeUnschedulable"), "{message}");
    let refused = &played.job()["status"]["refused"][0];
    assert_eq!(refused["sample"], json!(["node-2"]), "{refused}");
}
