//! Each rule of the interlock refuses a plan that was spoilt by hand. That it lets good plans pass
//! is checked by `World::plan`, through which every plan of these tests goes.

mod live_edits;

use carillon_api::condition::{reasons, types};
use carillon_api::{BroadcastJobStatus, NodeState};
use jiff::SignedDuration;
use serde_json::json;

use super::world::World;
use crate::broadcast_job::action::{Act, Action, OnError, Plan, SliceWrite, Step};
use crate::condition;
use crate::interlock::broadcast_job::{refuse, rules};
use crate::interlock::{TRIPPED_RECHECK, Trip};
use crate::pod::PodRow;
use crate::record::Record;
use crate::uid::Uid;

/// The good plan of `world`, which passes, after `spoil`, which does not.
fn trips(world: &World, rule: &str, spoil: impl FnOnce(&mut Plan)) {
    let mut plan = world.plan();
    spoil(&mut plan);
    let trip = world.verify(&plan).expect_err(rule);
    assert_eq!(trip.rule, rule, "{trip}");
    assert!(
        rules::ALL.contains(&trip.rule) && trip.what.contains("expected"),
        "{trip}"
    );
}

/// The action of that word, wherever it is.
fn find<'a>(plan: &'a mut Plan, word: &str) -> &'a mut Action {
    let mut actions = plan.steps.iter_mut().flat_map(|step| &mut step.actions);
    actions.find(|action| action.word() == word).unwrap()
}

fn slice(plan: &mut Plan) -> &mut SliceWrite {
    match find(plan, "write_slice") {
        Action::WriteSlice(write) => write,
        other => panic!("{other:?}"),
    }
}

/// Changes a result of the first slice that a plan writes.
fn result(plan: &mut Plan, at: usize, change: impl FnOnce(&mut Record)) {
    slice(plan).edit(|records| change(&mut records[at]));
}

/// Changes the last one.
fn last(plan: &mut Plan, change: impl FnOnce(&mut Record)) {
    slice(plan).edit(|records| change(records.last_mut().unwrap()));
}

fn status(plan: &mut Plan) -> &mut BroadcastJobStatus {
    match find(plan, "write_status") {
        Action::WriteStatus(status) => status,
        other => panic!("{other:?}"),
    }
}

fn drop_steps_with(plan: &mut Plan, word: &str) {
    plan.steps
        .retain(|step| step.actions.iter().all(|action| action.word() != word));
}

fn set(status: &mut BroadcastJobStatus, type_: &str, on: bool) {
    let now = jiff::Timestamp::from_second(1).unwrap();
    condition::set(&mut status.conditions, type_, on, "R", "", 1, now);
}

fn delete(world: &World, node: &str) -> Step {
    let pod = world.pod_on(node);
    let row = &world.pods[&pod];
    let (uid, rv) = (row.uid, row.rv);
    Step::wanted(vec![Action::DeletePod { pod, uid, rv }])
}

fn release(world: &World, node: &str) -> Step {
    let pod = world.pod_on(node);
    let uid = world.pods[&pod].uid;
    Step::wanted(vec![Action::ReleasePod { pod, uid }])
}

/// A job on two nodes about to start.
fn fresh() -> World {
    World::new(2, json!({}))
}

/// Two pods run, and what they do is stored.
fn running() -> World {
    let mut world = World::new(2, json!({"failurePolicy": {"type": "Continue"}}));
    world.start();
    world
}

fn ended(more: serde_json::Value) -> World {
    let mut world = World::new(2, more);
    world.run_to_the_end();
    world
}

/// A drained node whose next attempt is about to be reserved, while others work.
fn retrying() -> World {
    let mut world = running();
    world.delete(&world.pod_on("n0000"));
    world.pass(1);
    world.end("n0000", 143);
    world
}

/// The only node of a job that runs each at most once has failed.
fn failed_at_most_once() -> World {
    let spec =
        json!({"completionPolicy": {"type": "Never"}, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(1, spec);
    world.spec["executionPolicy"] = json!("AtMostOnce");
    world.start();
    world.end("n0000", 3);
    world.settle();
    world
}

/// Makes of the last attempt that a plan adds the attempt of this number on node n0000.
fn try_again(world: &World, attempt: u32) -> impl Fn(&mut Plan) + use<> {
    let (uid, pod) = (world.nodes["n0000"].uid, world.pod_of("n0000", attempt));
    move |plan| {
        last(plan, |record| {
            (record.node, record.node_uid) = ("n0000".into(), uid);
            (record.attempt, record.pod) = (attempt, pod.as_str().into());
        });
        drop_steps_with(plan, "create_pod");
    }
}

#[test]
fn a_pod_is_created_only_for_an_attempt_stored_by_an_earlier_step() {
    let world = fresh();
    let rule = rules::RESERVED_FIRST;
    trips(&world, rule, |plan| drop_steps_with(plan, "write_slice"));
    trips(&world, rule, |plan| plan.steps.swap(1, 2));
    trips(&world, rule, |plan| plan.steps[1].on_error = OnError::GoOn);
    trips(&world, rule, |plan| {
        let side_by_side = plan.steps.remove(2);
        plan.steps[1].actions.extend(side_by_side.actions);
    });
    trips(&world, rule, |plan| match find(plan, "create_pod") {
        Action::CreatePod { node, .. } => *node = "n0001".into(),
        other => panic!("{other:?}"),
    });
    trips(&world, rule, |plan| {
        result(plan, 0, |record| record.node_uid = Uid::MAX);
    });
}

#[test]
fn only_who_sees_the_present_creates_what_was_reserved_before_or_the_first_slice() {
    let rule = rules::RESERVED_FIRST;
    let mut promised = fresh();
    promised.crash_after(1);
    for (world, question) in [
        (&fresh(), "confirm_job"),
        (&promised, "confirm_job"),
        (&promised, "confirm_slice"),
    ] {
        let at = |plan: &Plan| {
            let mut steps = plan.steps.iter();
            let asks = |action: &Action| action.word() == question;
            steps
                .position(|step| step.actions.iter().any(asks))
                .unwrap()
        };
        trips(world, rule, |plan| {
            let at = at(plan);
            let actions = &mut plan.steps[at].actions;
            actions.retain(|action| action.word() != question);
        });
        trips(world, rule, |plan| {
            let late = plan.steps.remove(at(plan));
            plan.steps.push(late);
        });
        trips(world, rule, |plan| {
            let at = at(plan);
            plan.steps[at].on_error = OnError::GoOn;
        });
        trips(world, rule, |plan| {
            let at = at(plan);
            let rest = plan.steps.drain(at + 1..).flat_map(|step| step.actions);
            let side_by_side: Vec<Action> = rest.collect();
            plan.steps[at].actions.extend(side_by_side);
        });
    }
}

#[test]
fn a_node_has_one_pod_at_a_time() {
    // A pod that nothing records is bound to a node whose turn it is.
    let mut world = fresh();
    let start = world.plan();
    let stray = PodRow {
        uid: Uid::MAX,
        node: Some("n0001".into()),
        ..PodRow::default()
    };
    world.pods.insert("stray".into(), stray);
    assert_eq!(world.verify(&start).unwrap_err().rule, rules::ONE_PER_NODE);
    // The pod of an attempt that is over, as when its node is lost, still lives.
    let mut world = running();
    world.slices[0].records[0].state = NodeState::Unknown;
    world.join("n0002");
    let mut plan = world.plan();
    let pod: Box<str> = crate::name::pod("job", Uid::MAX, "n0000", 2).into();
    last(&mut plan, |retry| {
        (retry.node, retry.node_uid) = ("n0000".into(), world.nodes["n0000"].uid);
        (retry.attempt, retry.pod) = (2, pod.clone());
    });
    *find(&mut plan, "create_pod") = Action::CreatePod {
        pod,
        node: "n0000".into(),
        slice: 0,
    };
    assert_eq!(world.verify(&plan).unwrap_err().rule, rules::ONE_PER_NODE);
    // The attempt before is not over.
    world.slices[0].records[0].state = NodeState::Started;
    slice(&mut plan).kept = world.slices[0].records.clone();
    drop_steps_with(&mut plan, "release_pod");
    drop_steps_with(&mut plan, "delete_pod");
    world.pods.clear();
    assert_eq!(world.verify(&plan).unwrap_err().rule, rules::ONE_PER_NODE);
}

#[test]
fn a_node_that_has_succeeded_is_not_served_again() {
    let mut world = World::new(1, json!({"completionPolicy": {"type": "Never"}}));
    world.run_to_the_end();
    world.join("n0001");
    let (name, uid) = ("n0000", world.nodes["n0000"].uid);
    trips(&world, rules::RUN_ONCE, |plan| {
        last(plan, |record| {
            (record.node, record.node_uid) = (name.into(), uid);
            (record.attempt, record.pod) = (2, crate::name::pod("job", Uid::MAX, name, 2).into());
        });
    });
}

#[test]
fn a_node_where_something_may_have_run_is_served_again_at_most_once_only_on_request() {
    let mut world = failed_at_most_once();
    world.join("n0001");
    let again = try_again(&world, 2);
    trips(&world, rules::RUN_ONCE, &again);
    world.spec["executionPolicy"] = json!("AtLeastOnce");
    let mut plan = world.plan();
    again(&mut plan);
    assert_eq!(world.verify(&plan), Ok(()));
}

#[test]
fn attempts_count_up_and_have_pods_of_their_own() {
    let world = retrying();
    let rule = rules::ATTEMPTS;
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.attempt = 1);
    });
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.pod = "job-random".into());
    });
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.state = NodeState::Succeeded);
    });
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.pod_uid = Some(Uid::MAX));
    });
    let twice = |plan: &mut Plan| slice(plan).edit(|all| all.push(all[2].clone()));
    trips(&world, rule, twice);
}

#[test]
fn no_more_pods_than_parallelism_are_promised() {
    for (parallelism, nodes) in [(json!(3), 8), (json!("25%"), 9)] {
        let mut world = World::new(nodes, json!({"parallelism": parallelism}));
        let greedy = world.plan();
        world.spec["parallelism"] = json!(2);
        trips(&world, rules::PARALLELISM, |plan| *plan = greedy);
    }
    let mut world = World::new(10, json!({"parallelism": "40%"}));
    let greedy = world.plan();
    world.spec["parallelism"] = json!("30%");
    trips(&world, rules::PARALLELISM, |plan| *plan = greedy.clone());
    trips(&world, rules::PARALLELISM, |plan| {
        *plan = greedy;
        status(plan).desired = 1_000;
    });
}

#[test]
fn a_pod_missing_in_the_cache_takes_its_place_until_it_is_known_to_be_gone() {
    let mut world = World::new(3, json!({"parallelism": 1}));
    world.start();
    world.vanish(&world.pod_on("n0000"));
    world.crash_after(0);
    assert!(
        world
            .plan()
            .steps
            .iter()
            .flat_map(|step| &step.actions)
            .all(|action| { !matches!(action, Action::CreatePod { .. }) })
    );
    world.settle();
    assert_eq!(world.created.len(), 2);
}

#[test]
fn one_plan_creates_a_bounded_number_of_pods() {
    let mut world = World::new(9, json!({}));
    let plan_of_nine = world.plan();
    world.max_pod_changes = 8;
    trips(&world, rules::POD_CHANGES, |plan| *plan = plan_of_nine);
}

#[test]
fn a_job_that_must_not_start_anything_starts_nothing() {
    let start = fresh().plan();
    let creations = || {
        let mut plan = fresh().plan();
        plan.steps.drain(..2);
        plan
    };
    for (field, value) in [("paused", json!(true)), ("parallelism", json!(-1))] {
        let mut world = fresh();
        world.spec[field] = value;
        trips(&world, rules::STARTS, |plan| *plan = start.clone());
        trips(&world, rules::STARTS, |plan| *plan = creations());
    }
    let mut deleting = fresh();
    deleting.deleting = true;
    trips(&deleting, rules::STARTS, |plan| *plan = start.clone());
    let mut done = ended(json!({}));
    trips(&done, rules::STARTS, |plan| *plan = creations());
    done.slices.clear();
    trips(&done, rules::STARTS, |plan| *plan = start.clone());
    let mut failing = World::new(3, json!({"parallelism": 2}));
    failing.start();
    failing.end("n0000", 1);
    // The same plan decides to fail and creates.
    trips(&failing, rules::STARTS, |plan| {
        let create = Action::CreatePod {
            pod: failing.pod_on("n0001"),
            node: "n0001".into(),
            slice: 0,
        };
        plan.steps.push(Step::slowly(vec![create]));
    });
}

#[test]
fn an_end_is_never_left() {
    let rule = rules::TERMINAL;
    let world = ended(json!({}));
    let rewrite = |change: &dyn Fn(&mut BroadcastJobStatus)| {
        let mut status = world.job().status;
        change(&mut status);
        vec![Step::needed(vec![Action::WriteStatus(Box::new(status))])]
    };
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|s| set(s, types::COMPLETE, false));
    });
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|s| s.conditions.clear());
    });
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|s| set(s, types::FAILED, true));
    });
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|s| set(s, types::FAILURE_TARGET, true));
    });
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|s| s.completion_time = None);
    });
    trips(&world, rule, |plan| {
        plan.steps = rewrite(&|_| {});
        plan.steps.extend(rewrite(&|_| {}));
    });
    let mut failing = running();
    failing.spec["failurePolicy"] = json!({"type": "FailFast"});
    failing.end("n0000", 1);
    failing.crash_after(3);
    assert!(failing.is(types::FAILURE_TARGET));
    failing.pass(1);
    failing.end("n0001", 0);
    trips(&failing, rule, |plan| {
        set(status(plan), types::FAILURE_TARGET, false);
    });
    trips(&fresh(), rule, |plan| {
        let now = status(plan).start_time.clone();
        status(plan).completion_time = now;
    });
}

#[test]
fn a_job_ends_behind_a_seal_and_with_every_attempt_over() {
    let mut world = running();
    world.end("n0000", 0);
    world.end("n0001", 0);
    trips(&world, rules::END, |plan| slice(plan).sealed = false);
    trips(&world, rules::END, |plan| {
        drop_steps_with(plan, "release_pod");
        let seal = plan.steps.remove(0);
        plan.steps.insert(1, seal);
        let counts = status(plan);
        (counts.succeeded, counts.failed) = (0, 0);
    });
    trips(&world, rules::END, |plan| {
        drop_steps_with(plan, "release_pod");
        result(plan, 1, |open| {
            (open.state, open.exit_code, open.finished) = (NodeState::Started, None, None);
        });
        status(plan).succeeded = 1;
    });
}

#[test]
fn a_sealed_log_stays_sealed_and_as_long_as_it_is() {
    let rule = rules::SEAL;
    let mut world = running();
    world.spec["failurePolicy"] = json!({"type": "FailFast"});
    world.end("n0000", 1);
    // The decision, then the seal.
    world.crash_after(usize::MAX);
    world.crash_after(1);
    assert!(world.slices[0].sealed);
    world.end("n0001", 0);
    trips(&world, rule, |plan| slice(plan).sealed = false);
    let append = |plan: &mut Plan| {
        slice(plan).edit(|all| {
            let mut more = all[1].clone();
            more.attempt = 2;
            more.pod = crate::name::pod("job", Uid::MAX, &more.node, 2).into();
            (more.state, more.pod_uid) = (NodeState::Started, None);
            all.push(more);
        });
    };
    trips(&world, rule, append);
    trips(&fresh(), rule, |plan| slice(plan).sealed = true);
    let mut full = World::new(250, json!({}));
    full.start();
    full.end("n0000", 0);
    trips(&full, rule, |plan| slice(plan).sealed = true);
}

#[test]
fn slices_are_only_appended_to() {
    let rule = rules::APPEND_ONLY;
    let mut world = retrying();
    world.settle();
    world.end("n0001", 0);
    trips(&world, rule, |plan| {
        drop(slice(plan).edit(|all| all.remove(0)));
    });
    trips(&world, rule, |plan| slice(plan).edit(|all| all.truncate(1)));
    trips(&world, rule, |plan| {
        result(plan, 0, |record| record.state = NodeState::Failed);
    });
    trips(&world, rule, |plan| {
        result(plan, 0, |record| record.message = "other".into());
    });
    trips(&world, rule, |plan| {
        result(plan, 1, |record| record.attempt = 7);
    });
    trips(&world, rule, |plan| {
        result(plan, 1, |record| record.node = "n0009".into());
    });
    trips(&world, rule, |plan| {
        result(plan, 1, |record| record.pod_uid = Some(Uid::MAX));
    });
    // The pod of the third result has not succeeded; the world has not even seen it.
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.state = NodeState::Succeeded);
    });
    trips(&world, rule, |plan| {
        result(plan, 2, |record| record.pod_uid = Some(Uid::MAX));
    });
    trips(&world, rule, |plan| slice(plan).rv = Some(99));
    trips(&world, rule, |plan| slice(plan).rv = None);
    trips(&world, rule, |plan| slice(plan).index = 1);
    trips(&world, rule, |plan| {
        let again = plan.steps[0].clone();
        plan.steps.insert(0, again);
    });
    trips(&fresh(), rule, |plan| slice(plan).index = 1);
    trips(&World::new(251, json!({})), rule, |plan| {
        let more = plan.steps.remove(1);
        let Some(Action::WriteSlice(more)) = more.actions.into_iter().next() else {
            panic!("a second slice")
        };
        slice(plan).added.extend(more.added);
    });
    trips(&World::new(251, json!({})), rule, |plan| {
        drop(slice(plan).added.pop());
    });
}

#[test]
fn counts_follow_the_records() {
    let mut world = running();
    world.end("n0000", 0);
    world.settle();
    world.end("n0001", 1);
    for (succeeded, failed) in [(0, 1), (2, 1), (1, 2), (1, -1)] {
        trips(&world, rules::COUNTS, |plan| {
            let counts = status(plan);
            (counts.succeeded, counts.failed) = (succeeded, failed);
        });
    }
    // Counted by a status, of which the records know nothing.
    let mut lost = running();
    lost.status["failed"] = json!(2);
    lost.end("n0000", 0);
    let plan = lost.snapshot(|snapshot| crate::broadcast_job::plan(snapshot, lost.now));
    assert_eq!(lost.verify(&plan).unwrap_err().rule, rules::COUNTS);
}

#[test]
fn a_failed_node_may_be_tried_again_and_then_counts_less() {
    let mut world = running();
    world.end("n0000", 1);
    world.settle();
    world.join("n0002");
    let mut plan = world.plan();
    let uid = world.nodes["n0000"].uid;
    let pod: Box<str> = crate::name::pod("job", Uid::MAX, "n0000", 2).into();
    last(&mut plan, |retry| {
        (retry.node, retry.node_uid, retry.attempt) = ("n0000".into(), uid, 2);
        retry.pod.clone_from(&pod);
    });
    *find(&mut plan, "create_pod") = Action::CreatePod {
        pod,
        node: "n0000".into(),
        slice: 0,
    };
    status(&mut plan).failed = 0;
    assert_eq!(world.verify(&plan), Ok(()));
}

#[test]
fn a_pod_is_deleted_as_it_was_judged_and_for_a_reason() {
    let rule = rules::DELETE;
    let mut world = running();
    trips(&world, rule, |plan| {
        plan.steps.push(delete(&world, "n0000"));
    });
    world.end("n0000", 1);
    trips(&world, rule, |plan| {
        plan.steps.push(delete(&world, "n0000"));
    });
    world.spec["failurePolicy"] = json!({"type": "FailFast"});
    // Before the decision to fail is stored nothing is stopped.
    trips(&world, rule, |plan| {
        plan.steps.insert(0, delete(&world, "n0001"));
    });
    world.crash_after(usize::MAX);
    let spoil = |change: &dyn Fn(&mut Uid, &mut u64, &mut Box<str>)| {
        trips(&world, rule, |plan| match find(plan, "delete_pod") {
            Action::DeletePod { pod, uid, rv } => change(uid, rv, pod),
            other => panic!("{other:?}"),
        });
    };
    spoil(&|uid, _, _| *uid = Uid::MAX);
    spoil(&|_, rv, _| *rv = 99);
    spoil(&|_, _, pod| *pod = "other".into());
}

/// A pod that has not started in time.
fn late() -> World {
    let mut world = World::new(1, json!({"podStartDeadlineSeconds": 30}));
    world.settle();
    world.wait_for("n0000", "", true);
    world.pass(30);
    world
}

#[test]
fn a_pod_that_has_not_started_in_time_is_stopped_when_that_is_stored() {
    let world = late();
    trips(&world, rules::DELETE, |plan| plan.steps.swap(0, 1));
    trips(&world, rules::DELETE, |plan| {
        result(plan, 0, |record| record.reason = "".into());
    });
    let plan = world.plan();
    let mut started = late();
    for row in started.pods.values_mut() {
        row.phase = crate::pod::PodPhase::Running;
    }
    assert_eq!(started.verify(&plan).unwrap_err().rule, rules::DELETE);
    let mut early = late();
    early.pass(-1);
    assert_eq!(early.verify(&plan).unwrap_err().rule, rules::DELETE);
}

#[test]
fn an_attempt_is_over_only_when_its_pod_has_ended_was_told_to_stop_or_is_gone() {
    let rule = rules::OUTCOME;
    trips(&late(), rule, |plan| {
        result(plan, 0, |record| record.state = NodeState::Failed);
    });
    let mut lost = running();
    lost.delete(&lost.pod_on("n0000"));
    lost.pass(331);
    trips(&lost, rule, |plan| drop_steps_with(plan, "confirm_pod"));
    trips(&lost, rule, |plan| plan.steps[0].on_error = OnError::GoOn);
    let mut vanished = running();
    vanished.vanish(&vanished.pod_on("n0000"));
    vanished.crash_after(1);
    trips(&vanished, rule, |plan| {
        result(plan, 1, |record| {
            (record.state, record.reason) = (NodeState::Unknown, "PodVanished".into());
        });
    });
}

#[test]
fn a_promise_is_taken_back_only_by_who_asks_whether_its_pod_and_then_whether_its_job_is_there() {
    let promised = |more| {
        let mut world = World::new(1, more);
        world.crash_after(1);
        world.cordon("n0000");
        world
    };
    let rule = rules::OUTCOME;
    for asked in ["confirm_pod", "confirm_job"] {
        trips(&promised(json!({})), rule, |plan| {
            drop_steps_with(plan, asked);
        });
    }
    // The pods of a job that is deleted are released, whatever they have done.
    trips(&promised(json!({})), rule, |plan| {
        let is = |word: &str| {
            let step = plan
                .steps
                .iter()
                .position(|step| step.actions[0].word() == word);
            step.unwrap()
        };
        let (pod, job) = (is("confirm_pod"), is("confirm_job"));
        plan.steps.swap(pod, job);
    });
    let once = promised(json!({"executionPolicy": "AtMostOnce"}));
    trips(&once, rule, |plan| {
        result(plan, 0, |record| record.state = NodeState::Disrupted);
        let pod = slice(plan).records().next().unwrap().pod.clone();
        let confirm = Action::ConfirmPod { pod, seen: None };
        plan.steps.insert(0, Step::needed(vec![confirm]));
        plan.steps.insert(1, Step::needed(vec![Action::ConfirmJob]));
    });
}

#[test]
fn a_pod_is_released_only_when_its_outcome_is_stored() {
    let rule = rules::RELEASE;
    let mut world = running();
    trips(&world, rule, |plan| {
        plan.steps.push(release(&world, "n0000"));
    });
    world.end("n0000", 0);
    trips(&world, rule, |plan| {
        let release = plan.steps.remove(1);
        plan.steps.insert(0, release);
    });
    trips(&world, rule, |plan| {
        drop_steps_with(plan, "write_slice");
        drop_steps_with(plan, "write_status");
    });
    trips(&world, rule, |plan| match find(plan, "release_pod") {
        Action::ReleasePod { uid, .. } => *uid = Uid::MAX,
        other => panic!("{other:?}"),
    });
    trips(&world, rule, |plan| match find(plan, "release_pod") {
        Action::ReleasePod { pod, .. } => *pod = "other".into(),
        other => panic!("{other:?}"),
    });
    // A pod that no record names may yet be one of ours.
    world.slices[0].records.truncate(1);
    trips(&world, rule, |plan| {
        plan.steps.push(release(&world, "n0001"));
    });
}

#[test]
fn a_job_is_deleted_only_when_its_time_to_live_is_over() {
    let rule = rules::TIME_TO_LIVE;
    let delete = |plan: &mut Plan| plan.steps = vec![Step::needed(vec![Action::DeleteJob])];
    trips(&running(), rule, delete);
    trips(&ended(json!({})), rule, delete);
    let mut world =
        ended(json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60}}));
    trips(&world, rule, delete);
    world.now += SignedDuration::from_secs(61);
    world.crash_after(1);
    assert!(world.job_deleted);
}

#[test]
fn a_refused_plan_leaves_a_stalled_status_behind_until_a_later_one_passes() {
    for mut world in [running(), ended(json!({}))] {
        let trip = Trip {
            rule: rules::DELETE,
            what: "pod p: deleted; expected not".to_owned(),
        };
        let stored = world.job().status;
        let refused = refuse(&world.job(), &trip, world.now);
        assert_eq!(world.verify(&refused), Ok(()));
        assert_eq!(refused.wake, Some(world.now + TRIPPED_RECHECK));
        let [Step { actions, .. }] = &*refused.steps else {
            panic!("{refused:?}")
        };
        let [Action::WriteStatus(status)] = &**actions else {
            panic!("{actions:?}")
        };
        let others = |status: &BroadcastJobStatus| {
            let mut rest = status.clone();
            rest.summary.clear();
            let told = [types::STALLED, types::RECONCILING];
            rest.conditions.retain(|c| !told.contains(&&*c.type_));
            rest
        };
        assert_eq!(others(status), others(&stored), "nothing else changes");
        assert!(!condition::is_true(&status.conditions, types::RECONCILING));
        world.status = serde_json::to_value(status).unwrap();
        let found = world.condition(types::STALLED);
        assert_eq!(found, Some((true, reasons::INTERLOCK_TRIPPED.to_owned())));
        let again = refuse(&world.job(), &trip, world.now);
        assert!(again.steps.is_empty() && again.notes.is_empty());
        world.settle();
        assert!(!world.is(types::STALLED));
    }
}
