//! One test, one behaviour of the contract: starting, counting, failing, ending.

use carillon_api::NodeState::{Failed, Skipped, Succeeded};
use carillon_api::condition::{reasons, results, types};
use serde_json::json;

use super::world::World;
use crate::broadcast_job::action::{Act, Action, OnError};
use crate::broadcast_job::{Refused, TEMPLATE_RECHECK, Template};

#[test]
fn every_eligible_node_runs_one_pod_and_the_job_completes() {
    let mut world = World::new(7, json!({}));
    world.cordon("n0003");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.created.len(), 6);
    assert_eq!(world.status["done"], "6/6");
    assert_eq!(
        world.status["refused"],
        json!([{"reason": "NodeUnschedulable", "count": 1, "sample": ["n0003"]}])
    );
    assert!(
        world.pods.values().all(|pod| !pod.tracked),
        "a finalizer was left"
    );
    assert!(world.slices.last().unwrap().sealed);
}

#[test]
fn an_attempt_is_stored_before_its_pod_is_created() {
    let world = World::new(3, json!({}));
    let words: Vec<&str> = world
        .plan()
        .steps
        .iter()
        .flat_map(|s| &s.actions)
        .map(Action::word)
        .collect();
    assert_eq!(
        words,
        [
            "confirm_job",
            "write_slice",
            "create_pod",
            "create_pod",
            "create_pod",
            "write_status"
        ]
    );
}

#[test]
fn a_promise_of_an_earlier_plan_is_kept_once_its_slice_is_known_to_be_the_present_one() {
    let mut world = World::new(3, json!({"parallelism": 2}));
    world.crash_after(1);
    let asked = Action::ConfirmSlice {
        index: 0,
        rv: world.slices[0].rv,
    };
    let plan = world.plan();
    let words: Vec<Vec<&str>> = plan
        .steps
        .iter()
        .map(|step| step.actions.iter().map(Action::word).collect())
        .collect();
    assert_eq!(words[0], ["confirm_job", "confirm_slice"]);
    assert_eq!(words[1], ["create_pod", "create_pod"]);
    assert_eq!(plan.steps[0].actions[1], asked);
    assert_eq!(plan.steps[0].on_error, OnError::Stop);
    // A write of that slice is refused if it is not.
    world.spec["parallelism"] = json!(3);
    let plan = world.plan();
    let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
    assert!(!actions.any(|action| action.word() == "confirm_slice"));
}

#[test]
fn an_outcome_is_stored_before_its_pod_is_released() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.end("n0000", 0);
    let words: Vec<&str> = world
        .plan()
        .steps
        .iter()
        .flat_map(|s| &s.actions)
        .map(Action::word)
        .collect();
    assert_eq!(words, ["write_slice", "release_pod", "write_status"]);
}

#[test]
fn parallelism_is_a_number_or_a_percentage_rounded_up() {
    for (parallelism, expected) in [
        (json!(3), 3),
        (json!("25%"), 3),
        (json!("100%"), 10),
        (json!(99), 10),
    ] {
        let mut world = World::new(10, json!({"parallelism": parallelism}));
        world.settle();
        assert_eq!(world.live(), expected, "{parallelism}");
        world.run_all();
        world.settle();
        world.end("n0000", 0);
        world.settle();
        assert_eq!(world.live(), expected.min(9), "{parallelism}");
    }
}

#[test]
fn a_lowered_parallelism_starts_nothing_and_stops_nothing() {
    let mut world = World::new(6, json!({"parallelism": 4}));
    world.settle();
    world.run_all();
    world.spec["parallelism"] = json!(2);
    world.generation = 2;
    world.settle();
    assert_eq!((world.live(), world.created.len()), (4, 4));
    world.end("n0000", 0);
    world.settle();
    assert_eq!(world.created.len(), 4);
}

#[test]
fn one_sync_creates_a_bounded_number_of_pods() {
    let mut world = World::new(20, json!({}));
    world.max_pod_changes = 8;
    world.crash_after(usize::MAX);
    assert_eq!(world.created.len(), 8);
    world.settle();
    assert_eq!(world.created.len(), 20);
}

#[test]
fn a_node_that_joins_between_the_seal_and_the_end_came_too_late() {
    let mut world = World::new(
        2,
        json!({"completionPolicy": {"activeDeadlineSeconds": 60}}),
    );
    world.start();
    world.end_all();
    // The outcomes and the seal; the crash comes before the status.
    world.crash_after(1);
    assert!(world.slices[0].sealed && !world.is(types::COMPLETE));
    world.join("n0002");
    world.pass(3600);
    world.settle();
    assert!(world.is(types::COMPLETE), "{}", world.status);
    assert_eq!(
        (world.created.len(), &world.status["done"]),
        (2, &json!("2/2"))
    );
}

#[test]
fn fail_fast_decides_then_stops_then_fails() {
    let mut world = World::new(5, json!({"parallelism": 3}));
    world.start();
    world.end("n0001", 3);
    let words = |world: &World| -> Vec<&str> {
        let plan = world.plan();
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        actions.map(Action::word).collect()
    };
    assert_eq!(
        words(&world),
        ["write_slice", "release_pod", "write_status"]
    );
    world.crash_after(usize::MAX);
    assert_eq!(
        words(&world),
        ["write_slice", "delete_pod", "delete_pod"],
        "the decision is stored before the log is sealed and the first pod is stopped"
    );
    world.settle();
    assert!(
        world.is(types::FAILURE_TARGET) && !world.is(types::FAILED),
        "pods still run"
    );
    world.pass(1);
    world.end_all();
    world.settle();
    let failed = (true, reasons::MAX_FAILED_NODES_EXCEEDED.to_owned());
    assert_eq!(world.condition(types::FAILED), Some(failed));
    assert_eq!(
        world.attempts("n0000"),
        [(Failed, results::STOPPED_BY_FAILURE.to_owned())]
    );
    assert_eq!(
        world.attempts("n0001"),
        [(Failed, results::NON_ZERO_EXIT_CODE.to_owned())]
    );
    assert_eq!(world.creations_on("n0003"), 0);
    assert_eq!(world.status["phase"], "failed");
    assert!(world.pods.values().all(|pod| !pod.tracked));
}

#[test]
fn a_failing_job_does_not_create_what_it_had_reserved() {
    let mut world = World::new(3, json!({}));
    world.crash_after(2);
    assert_eq!(world.created.len(), 1, "three reserved, one created");
    world.run_all();
    world.end("n0000", 1);
    world.settle();
    assert!(world.is(types::FAILED));
    assert_eq!(world.created.len(), 1);
    assert_eq!(
        world.attempts("n0002"),
        [(Skipped, results::NOT_STARTED.to_owned())]
    );
}

#[test]
fn continue_serves_all_nodes_and_counts_the_failed_ones() {
    let mut world = World::new(
        4,
        json!({"failurePolicy": {"type": "Continue"}, "parallelism": 1}),
    );
    world.settle();
    world.run_all();
    world.end("n0000", 1);
    world.run_to_the_end();
    let complete = (true, reasons::COMPLETED_WITH_FAILURES.to_owned());
    assert_eq!(world.condition(types::COMPLETE), Some(complete));
    assert!(!world.is(types::STALLED));
    assert_eq!(
        (&world.status["succeeded"], &world.status["failed"]),
        (&json!(3), &json!(1))
    );
}

#[test]
fn a_job_paused_by_failure_is_resumed_by_the_annotation_and_pauses_again_on_the_next_failure() {
    let mut world = World::new(
        4,
        json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1}),
    );
    world.settle();
    world.run_all();
    world.end("n0000", 1);
    world.settle();
    let paused = Some((true, reasons::PAUSED_BY_FAILURE.to_owned()));
    assert_eq!(world.condition(types::PAUSED), paused);
    assert_eq!(
        (world.created.len(), &world.status["phase"]),
        (1, &json!("paused"))
    );

    world.resume = Some("1".to_owned());
    world.settle();
    assert!(!world.is(types::PAUSED));
    assert_eq!(world.created.len(), 2);

    world.run_all();
    world.end("n0001", 1);
    world.settle();
    assert_eq!(
        world.condition(types::PAUSED),
        paused,
        "the same value resumes only once"
    );
}

#[test]
fn what_ended_a_pause_is_told_to_the_end_of_the_job_and_one_that_never_was_is_not_told() {
    let mut world = World::new(2, json!({"parallelism": 1, "paused": true}));
    world.settle();
    world.spec["paused"] = json!(false);
    world.settle();
    let resumed = Some((false, reasons::RESUMED.to_owned()));
    assert_eq!(world.condition(types::PAUSED), resumed);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.condition(types::PAUSED), resumed);

    let mut world = World::new(2, json!({}));
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.condition(types::PAUSED), None);
}

#[test]
fn whoever_takes_over_with_spec_paused_resumes_by_unsetting_it() {
    let mut world = World::new(
        3,
        json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1}),
    );
    world.settle();
    world.run_all();
    world.end("n0000", 1);
    world.settle();
    world.spec["paused"] = json!(true);
    world.settle();
    assert_eq!(
        world.condition(types::PAUSED).unwrap().1,
        reasons::PAUSED_BY_USER
    );
    world.spec["paused"] = json!(false);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_paused_job_starts_nothing_records_what_ends_and_does_not_finish() {
    let mut world = World::new(3, json!({"parallelism": 2}));
    world.settle();
    world.run_all();
    world.spec["paused"] = json!(true);
    world.settle();
    world.end_all();
    world.settle();
    assert_eq!(
        (world.created.len(), &world.status["done"]),
        (2, &json!("2/3"))
    );
    world.spec["paused"] = json!(false);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_reserved_pod_that_was_never_created_is_created_under_the_same_name() {
    let mut world = World::new(2, json!({}));
    world.crash_after(1);
    assert_eq!((world.slices[0].records.len(), world.created.len()), (2, 0));
    let reserved: Vec<_> = world.slices[0]
        .records
        .iter()
        .map(|r| r.pod.clone())
        .collect();
    world.settle();
    let created: Vec<_> = world.created.iter().map(|(pod, _)| pod.clone()).collect();
    assert_eq!(created, reserved);
    assert_eq!(world.slices[0].records.len(), 2);
}

#[test]
fn a_crash_looping_pod_is_stopped_at_its_limit_and_the_node_failed() {
    let mut world = World::new(
        2,
        json!({
            "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}},
            "failurePolicy": {"type": "Continue", "restartLimit": 2},
        }),
    );
    world.start();
    let pod = world.pod_on("n0000");
    world.pods.get_mut(&pod).unwrap().restarts = 2;
    world.settle();
    assert!(
        world.pods[&pod].deletion.is_none(),
        "the limit itself is allowed"
    );
    world.pods.get_mut(&pod).unwrap().restarts = 3;
    world.settle();
    assert!(world.pods[&pod].deletion.is_some());
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        world.attempts("n0000"),
        [(Failed, results::RESTART_LIMIT_EXCEEDED.to_owned())]
    );
}

#[test]
fn a_deadline_stops_what_runs_and_fails_the_job() {
    let mut world = World::new(
        2,
        json!({"completionPolicy": {"activeDeadlineSeconds": 10}}),
    );
    world.start();
    assert_eq!(
        world.plan().wake.unwrap().as_second(),
        world.now.as_second() + 10
    );
    world.pass(10);
    world.settle();
    world.pass(1);
    world.end_all();
    world.settle();
    let failed = Some((true, reasons::DEADLINE_EXCEEDED.to_owned()));
    assert_eq!(world.condition(types::FAILED), failed);
    assert_eq!(
        world.attempts("n0000"),
        [(Failed, results::DEADLINE_EXCEEDED.to_owned())]
    );
}

#[test]
fn a_job_whose_pods_ended_in_time_completes_however_late_it_is_looked_at() {
    let mut world = World::new(
        2,
        json!({"completionPolicy": {"activeDeadlineSeconds": 10}}),
    );
    world.settle();
    world.run_all();
    world.pass(5);
    world.end_all();
    world.pass(3600);
    world.settle();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn paused_time_does_not_count_towards_the_deadline() {
    let mut world = World::new(
        2,
        json!({"completionPolicy": {"activeDeadlineSeconds": 10}}),
    );
    world.settle();
    world.spec["paused"] = json!(true);
    world.pass(4);
    world.settle();
    world.pass(3600);
    world.settle();
    assert!(!world.is(types::FAILURE_TARGET));
    world.spec["paused"] = json!(false);
    world.settle();
    world.pass(5);
    world.settle();
    assert!(!world.is(types::FAILURE_TARGET));
    world.pass(2);
    world.settle();
    assert!(world.is(types::FAILURE_TARGET));
}

#[test]
fn a_finished_job_lives_for_its_ttl() {
    let mut world = World::new(
        1,
        json!({"completionPolicy": {"ttlSecondsAfterFinished": 60}}),
    );
    world.run_to_the_end();
    let ended = world.job().status.completion_time.unwrap().0;
    let due = world.plan().wake.unwrap();
    assert_eq!(due.as_second(), ended.as_second() + 60);
    world.now = due - jiff::SignedDuration::from_secs(1);
    world.settle();
    assert!(!world.job_deleted);
    world.now = due;
    world.crash_after(usize::MAX);
    assert!(world.job_deleted);
}

#[test]
fn a_time_to_live_beyond_the_end_of_time_is_for_ever() {
    let mut world = World::new(
        1,
        json!({"completionPolicy": {"ttlSecondsAfterFinished": i64::MAX}}),
    );
    world.run_to_the_end();
    assert_eq!((world.plan().wake, world.job_deleted), (None, false));
}

#[test]
fn without_an_eligible_node_the_job_waits_and_says_so() {
    let mut world = World::new(1, json!({}));
    world.cordon("n0000");
    world.run_to_the_end();
    let waiting = Some((true, reasons::NO_ELIGIBLE_NODES.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    world.node("n0000").unschedulable = false;
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn the_template_is_asked_about_before_anything_is_reserved() {
    let mut world = World::new(2, json!({}));
    world.template = Template::Unknown;
    let plan = world.plan();
    let words: Vec<_> = plan
        .steps
        .iter()
        .flat_map(|s| &s.actions)
        .map(Action::word)
        .collect();
    assert_eq!(words, ["check_template", "write_status"]);
}

#[test]
fn a_refused_template_stalls_the_job_with_the_words_of_the_api_server() {
    let mut world = World::new(2, json!({}));
    let problem = Refused {
        reason: reasons::INVALID_TEMPLATE,
        message: "spec.containers[0].image".to_owned(),
    };
    world.template = Template::Refused {
        problem,
        at: world.now,
    };
    world.settle();
    assert_eq!(
        world.condition(types::STALLED),
        Some((true, reasons::INVALID_TEMPLATE.to_owned()))
    );
    assert_eq!((world.created.len(), world.slices.len()), (0, 0));
    assert_eq!(world.plan().wake, Some(world.now + TEMPLATE_RECHECK));
    // A minute later it is asked again, if there is still a node to be served. Else there is nothing to do.
    world.now += TEMPLATE_RECHECK;
    assert_eq!(world.words()[0], "check_template");
    world.nodes.clear();
    world.settle();
    let plan = world.plan();
    assert_eq!((plan.steps, plan.wake), (vec![], None));
}

#[test]
fn refused_creations_are_reported_and_take_nothing_else_along() {
    let mut world = World::new(2, json!({}));
    let problem = Refused {
        reason: reasons::QUOTA_EXCEEDED,
        message: "pods: 0".to_owned(),
    };
    world.creation_problem = Some(problem);
    for _ in 0..3 {
        world.crash_after(usize::MAX);
    }
    let waiting = Some((true, reasons::QUOTA_EXCEEDED.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    assert_eq!(
        world.slices[0].records.len(),
        2,
        "a reservation is made once"
    );
    world.creation_problem = None;
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_name_that_belongs_to_somebody_else_fails_that_node_alone() {
    let mut world = World::new(2, json!({"failurePolicy": {"type": "Continue"}}));
    world.crash_after(1);
    let taken = world.slices[0].records[0].pod.clone();
    world.conflicts.insert(taken);
    world.run_to_the_end();
    assert_eq!(
        world.attempts("n0000"),
        [(Failed, results::NAME_CONFLICT.to_owned())]
    );
    assert_eq!(world.attempts("n0001"), [(Succeeded, String::new())]);
}

#[test]
fn a_deleted_job_lets_its_pods_go_and_writes_no_outcome() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.deleting = true;
    let before = (world.status.clone(), world.slices.clone());
    world.end_all();
    world.settle();
    assert!(world.pods.values().all(|pod| !pod.tracked));
    assert_eq!(before, (world.status.clone(), world.slices.clone()));
}

#[test]
fn a_pod_that_arrives_after_the_end_is_removed() {
    let mut world = World::new(1, json!({}));
    world.run_to_the_end();
    world.stray("job-late", "n0000").tracked = true;
    // Until it is known that it was told to stop it is not released: that may fail.
    assert_eq!(world.words(), ["delete_pod"]);
    world.settle();
    assert!(world.pods["job-late"].deletion.is_some() && !world.pods["job-late"].tracked);
    assert_eq!(world.status["done"], "1/1");
}

#[test]
fn pods_that_arrive_after_the_end_are_released_when_their_turn_to_be_stopped_has_come() {
    let mut world = World::new(1, json!({}));
    world.run_to_the_end();
    world.max_pod_changes = 2;
    for n in 0..5 {
        world.stray(&format!("job-late-{n}"), "n0000").tracked = true;
    }
    world.settle();
    let stopped = |row: &crate::pod::PodRow| row.deletion.is_some() && !row.tracked;
    assert!(
        world
            .pods
            .values()
            .filter(|row| !row.phase.has_ended())
            .all(stopped)
    );
}

#[test]
fn status_stays_small_however_large_the_cluster() {
    let mut world = World::new(5000, json!({}));
    for n in 0..2500 {
        world.cordon(&format!("n{n:04}"));
    }
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert!(world.status.to_string().len() < 2000, "{}", world.status);
    assert_eq!(
        world.slices.len(),
        11,
        "ten full slices, and a seal where the next result would go"
    );
}

#[test]
fn a_refusal_holds_until_the_api_server_was_asked_again() {
    let mut world = World::new(2, json!({}));
    let problem = Refused {
        reason: reasons::POD_FORBIDDEN,
        message: "policy".to_owned(),
    };
    world.template = Template::Refused {
        problem,
        at: world.now,
    };
    world.settle();
    // A restarted operator knows only what is stored.
    world.template = Template::Unknown;
    let plan = world.plan();
    let words: Vec<_> = plan
        .steps
        .iter()
        .flat_map(|s| &s.actions)
        .map(Action::word)
        .collect();
    assert_eq!(
        words,
        ["check_template"],
        "Stalled is not taken back before it was said again"
    );
}

/// The nodes whose pods the next plan creates, in that order.
fn creations(world: &World) -> Vec<String> {
    let plan = world.plan();
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let node = |action: &Action| match action {
        Action::CreatePod { node, .. } => Some(node.to_string()),
        _ => None,
    };
    actions.filter_map(node).collect()
}

#[test]
fn what_was_refused_is_tried_last_and_what_was_refused_first_before_the_rest_of_it() {
    let mut world = World::new(5, json!({"parallelism": 5}));
    world.crash_after(1);
    assert_eq!(
        creations(&world),
        ["n0000", "n0001", "n0002", "n0003", "n0004"]
    );
    for (last, node) in [(1, "n0002"), (2, "n0000")] {
        let pod = crate::name::pod("job", crate::Uid::MAX, node, 1);
        world.refused.insert(pod.into(), last);
    }
    assert_eq!(
        creations(&world),
        ["n0001", "n0003", "n0004", "n0002", "n0000"]
    );
    // As far as there are places, and as many as one plan may create.
    world.spec["parallelism"] = json!(3);
    assert_eq!(creations(&world), ["n0001", "n0003", "n0004"]);
    world.spec["parallelism"] = json!(5);
    world.max_pod_changes = 2;
    assert_eq!(creations(&world), ["n0001", "n0003"]);
}

#[test]
fn a_template_is_tried_on_nodes_far_from_each_other() {
    for (nodes, tried) in [
        (1, &["n0000"][..]),
        (2, &["n0000", "n0001"]),
        (3, &["n0000", "n0001", "n0002"]),
        (9, &["n0000", "n0004", "n0008"]),
    ] {
        let mut world = World::new(nodes, json!({}));
        world.template = Template::Unknown;
        let plan = world.plan();
        let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
        let asked = actions.find_map(|action| match action {
            Action::CheckTemplate { pods } => Some(pods.clone()),
            _ => None,
        });
        let asked = asked.unwrap();
        assert!(
            asked
                .iter()
                .map(|(node, _)| &**node)
                .eq(tried.iter().copied()),
            "{asked:?}"
        );
    }
}

#[test]
fn what_is_recorded_is_released_before_anything_else_that_may_be_refused() {
    let mut world = World::new(260, json!({"parallelism": 249}));
    world.start();
    for node in ["n0000", "n0001", "n0002"] {
        world.end(node, 0);
    }
    let mut words = world.words();
    words.dedup();
    assert_eq!(
        words,
        [
            "confirm_job",
            "write_slice",
            "release_pod",
            "write_slice",
            "create_pod",
            "write_status"
        ]
    );
}
