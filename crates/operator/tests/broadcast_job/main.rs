//! The controller of BroadcastJobs against a scripted API server: what the interlock lets through,
//! and whether what the flight recorder keeps is enough to make a decision again.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod creations;
mod refusals;
#[path = "../support/scene.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use carillon_api::condition::{reasons, results};
use carillon_api::node_result_slice::NodeResult;
use carillon_api::{NodeState, names};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::{Irreproducible, RulesOf, replay};
use carillon_operator::flight_recorder::Decision;
use carillon_operator::gate::Kind;
use carillon_operator::kinds::broadcast_job::{BroadcastJobs, CONTROLLER};
use carillon_operator::kinds::broadcast_job::{SlimBroadcastJob, SlimSlice};
use carillon_operator::queue::Backoff;
use carillon_operator::request;
use carillon_operator::slim::{SlimNode, SlimPod};
use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::{Action, Plan, SliceWrite, Step};
use carillon_plan::interlock::broadcast_job::rules;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod_body::PodPlacement;
use carillon_plan::record::Record;
use carillon_plan::{ObjectKey, Uid, name};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::support::{Sent, Server, Setting, WRITTEN, done, refusal};

type Rules = RulesOf<BroadcastJobs>;

const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";
const NODE: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01";
const POD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f02";
const SLICE: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f03";

fn job_key() -> Arc<ObjectKey> {
    ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid(JOB))
}

fn uid(text: &str) -> Uid {
    text.parse().unwrap()
}

type Scene = support::Scene<BroadcastJobs>;

/// What the API server answers.
type Answer = fn(&Method, &str, &Sent<'_>) -> (u16, Value);

/// As an admission webhook may answer, of an object that stays as it is.
fn refuses_deletions(code: u16) -> (u16, Value) {
    (code, refusal(code, "Denied", "admission webhook said no"))
}

impl Scene {
    fn new(rules: Rules) -> Self {
        Self::answered(rules, |_, _, _| done())
    }

    fn answered(rules: Rules, answer: Answer) -> Self {
        Self::busy(rules, answer, 8, Duration::ZERO)
    }

    /// The API server answers so many requests at a time, and each after so long.
    fn busy(rules: Rules, answer: Answer, in_flight: usize, latency: Duration) -> Self {
        let setting = Setting {
            clock: Clock::simulated(Timestamp::now()),
            backoff: Backoff {
                base: Duration::from_millis(10),
                max: Duration::from_mins(1),
            },
            workers: 16,
            in_flight,
            parallel: 8,
        };
        let kind = BroadcastJobs {
            placement: PodPlacement::Scheduler,
            max_pod_changes: 500,
        };
        Self::at(Server::answering(answer, latency), setting, kind, rules)
    }

    fn see_all(&self, objects: &[(Kind, Value)]) {
        for (kind, object) in objects {
            match kind {
                Kind::Node => self.see::<SlimNode>(object),
                Kind::Pod => self.see::<SlimPod>(object),
                Kind::Slice => self.see::<SlimSlice>(object),
                Kind::BroadcastJob => self.see::<SlimBroadcastJob>(object),
                other => panic!("{other:?}"),
            }
        }
    }

    fn trips(&self) -> u64 {
        let labels = [CONTROLLER, rules::ONE_PER_NODE];
        let trips = &self.controller.core.metrics.interlock_trips;
        trips.with_label_values(&labels).get()
    }
}

fn owned(name: &str, object: &str, rv: u64) -> Value {
    json!({
        "name": name, "namespace": "ops", "uid": object, "resourceVersion": rv.to_string(),
        "labels": {
            names::LABEL_BROADCAST_JOB_NAME: "fix", names::LABEL_BROADCAST_JOB_UID: JOB,
            names::LABEL_SLICE_INDEX: "0",
        },
        "ownerReferences": [job_key().reference()],
        "finalizers": [names::FINALIZER_RESULT_TRACKING],
    })
}

fn job(rv: u64, status: &Value) -> (Kind, Value) {
    let job = json!({
        "metadata": {"name": "fix", "namespace": "ops", "uid": JOB,
            "resourceVersion": rv.to_string(), "generation": 1},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        "status": status,
    });
    (Kind::BroadcastJob, job)
}

fn pod(rv: u64, deletion: Option<&str>, status: &Value) -> (Kind, Value) {
    let mut pod = json!({
        "metadata": owned(&name::pod("fix", uid(JOB), "n1", 1), POD, rv),
        "spec": {"nodeName": "n1"},
        "status": status,
    });
    if let Some(due) = deletion {
        pod["metadata"]["deletionTimestamp"] = json!(due);
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    }
    (Kind::Pod, pod)
}

/// A node on which the pod of the first attempt runs, which is recorded.
fn objects() -> Vec<(Kind, Value)> {
    let node = json!({"metadata": {"name": "n1", "uid": NODE, "resourceVersion": "10"}});
    let slice = json!({
        "metadata": owned("fix-results", SLICE, 11),
        "results": [NodeResult {
            node_name: "n1".to_owned(),
            node_uid: NODE.to_owned(),
            attempt: 1,
            pod_name: name::pod("fix", uid(JOB), "n1", 1),
            pod_uid: POD.to_owned(),
            ..NodeResult::default()
        }],
    });
    let running = pod(12, None, &json!({"phase": "Running"}));
    // Last, since its arrival makes a plan.
    vec![
        (Kind::Node, node),
        (Kind::Slice, slice),
        running,
        job(13, &Value::Null),
    ]
}

/// A planner that makes a second pod on every node.
fn second_pod(snapshot: &Snapshot<'_>, _: Timestamp) -> Plan {
    let slice = &snapshot.slices[0];
    let pod: Box<str> = name::pod("fix", uid(JOB), "n1", 2).into();
    let second = Record {
        attempt: 2,
        pod: pod.clone(),
        pod_uid: None,
        ..slice.records[0].clone()
    };
    let create = Action::CreatePod {
        pod,
        node: "n1".into(),
        slice: 0,
    };
    let write = SliceWrite {
        index: 0,
        rv: Some(slice.rv),
        kept: slice.records.clone(),
        added: vec![second],
        ..SliceWrite::default()
    };
    Plan {
        steps: vec![
            Step::needed(vec![Action::ConfirmJob]),
            Step::needed(vec![Action::WriteSlice(write)]),
            Step::slowly(vec![create]),
        ],
        ..Plan::default()
    }
}

#[tokio::test]
async fn a_plan_for_a_second_pod_on_a_node_is_refused_and_the_job_says_so() {
    let mut scene = Scene::new(Rules {
        plan: second_pod,
        ..Rules::default()
    });
    scene.see_all(&objects());
    let told = |scene: &Scene| {
        !scene
            .sent(&Method::PATCH, "/broadcastjobs/fix/status")
            .is_empty()
            && !scene.sent(&Method::POST, "/events").is_empty()
    };
    scene.work_until(told).await;

    let status = &scene.sent(&Method::PATCH, "/status")[0]["status"];
    let stalled = &status["conditions"][0];
    assert_eq!(
        [&stalled["type"], &stalled["status"], &stalled["reason"]],
        ["Stalled", "True", reasons::INTERLOCK_TRIPPED]
    );
    let message = stalled["message"].as_str().unwrap();
    assert!(message.contains("rule one_per_node: node n1"), "{message}");
    let event = &scene.sent(&Method::POST, "/events")[0];
    assert_eq!(
        [&event["type"], &event["reason"]],
        ["Warning", reasons::INTERLOCK_TRIPPED]
    );
    assert_eq!(
        scene.requests.lock().unwrap().len(),
        2,
        "{:?}",
        scene.requests
    );
    assert_eq!(scene.trips(), 1);
    let decision = &scene.controller.core.flights.decisions(&job_key())[0];
    assert!(decision.refused.as_ref().unwrap().contains("one_per_node"));

    // The status comes back through the watch. The same plan is refused without a further write.
    scene.see_all(&[job(WRITTEN, status)]);
    scene.work_until(|scene| scene.trips() == 2).await;
    scene.controller.core.queue.add(job_key());
    scene.work_until(|scene| scene.trips() == 3).await;
    assert_eq!(scene.sent(&Method::PATCH, "/status").len(), 1);
    assert_eq!(
        scene.requests.lock().unwrap().len(),
        2,
        "{:?}",
        scene.requests
    );
}

#[tokio::test]
async fn with_the_interlock_out_of_the_way_the_second_pod_would_be_made() {
    let rules = Rules {
        plan: second_pod,
        verify: |_, _, _| Ok(()),
    };
    let mut scene = Scene::answered(rules, |method, path, _| match *method {
        Method::GET if path.ends_with("/fix") => (200, job(13, &Value::Null).1),
        _ => done(),
    });
    scene.see_all(&objects());
    let made = |scene: &Scene| !scene.sent(&Method::POST, "/pods").is_empty();
    scene.work_until(made).await;
    assert_eq!(scene.trips(), 0);
}

/// A planner that has a pod stopped, and has more to do then.
fn stop_pod(snapshot: &Snapshot<'_>, _: Timestamp) -> Plan {
    let stop = snapshot.pods.iter().map(|(name, pod)| Action::DeletePod {
        pod: name.clone(),
        uid: pod.uid,
        rv: pod.rv,
    });
    Plan {
        steps: vec![Step::wanted(stop.collect())],
        again: true,
        ..Plan::default()
    }
}

#[tokio::test]
async fn pods_of_a_job_that_is_gone_are_released_once_and_not_at_each_event() {
    let mut scene = Scene::answered(Rules::default(), |method, path, _| {
        if *method == Method::GET || path.contains("/pods/") {
            refuses_deletions(404)
        } else {
            done()
        }
    });
    let record = |n: usize| NodeResult {
        node_name: format!("n{n}"),
        node_uid: NODE.to_owned(),
        attempt: 1,
        pod_name: name::pod("fix", uid(JOB), &format!("n{n}"), 1),
        pod_uid: format!("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e8f{n:02x}"),
        ..NodeResult::default()
    };
    let records: Vec<_> = (0..20).map(record).collect();
    let slice = json!({"metadata": owned("fix-results", SLICE, 11), "results": records});
    scene.see_all(&[(Kind::Slice, slice)]);
    for n in 0..5 {
        // A pod that is not recorded comes into sight, and is released.
        let mut stray = pod(30 + n, None, &json!({"phase": "Succeeded"})).1;
        stray["metadata"]["finalizers"] = json!([names::FINALIZER_RESULT_TRACKING]);
        stray["metadata"]["name"] = json!(name::pod("fix", uid(JOB), "other", 1 + n as u32));
        stray["metadata"]["uid"] = json!(format!("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e8e{n:02x}"));
        let path = format!("/pods/{}", stray["metadata"]["name"].as_str().unwrap());
        scene.see_all(&[(Kind::Pod, stray)]);
        scene
            .work_until(|scene| !scene.sent(&Method::PATCH, &path).is_empty())
            .await;
    }
    for record in &records {
        let path = format!("/pods/{}", record.pod_name);
        assert_eq!(scene.sent(&Method::PATCH, &path).len(), 1, "{path}");
    }
}

#[tokio::test(flavor = "local")]
async fn a_pod_is_created_however_many_requests_of_others_wait() {
    let answer: Answer = |method, path, _| match method {
        &Method::GET if path.ends_with("/fix") => (200, job(13, &Value::Null).1),
        _ => done(),
    };
    let mut scene = Scene::busy(Rules::default(), answer, 1, Duration::from_millis(50));
    let mut objects = objects();
    objects.retain(|(kind, _)| *kind == Kind::Node);
    objects.push(job(13, &json!({
        "observedGeneration": 1, "phase": "running", "summary": "running", "startTime": "2026-01-01T00:00:00Z", "done": "0/1",
        "desired": 1, "active": 0, "succeeded": 0, "failed": 0, "disrupted": 0,
        "conditions": [{"type": "Reconciling", "status": "True", "observedGeneration": 1, "reason": "Running",
            "message": "0 of 1 nodes succeeded, 0 failed", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    })));
    scene.see_all(&objects);
    // Each request waits for two seconds: longer than what a creation relies on is young.
    let others: Vec<_> = (0..40)
        .map(|_| {
            let writes = scene.controller.core.writes.clone();
            tokio::task::spawn_local(async move {
                loop {
                    let other = request::get(Kind::Pod, "other", "other");
                    let _ = writes.read(other).await;
                }
            })
        })
        .collect();
    let created = |scene: &Scene| !scene.sent(&Method::POST, "/namespaces/ops/pods").is_empty();
    scene.work_until(created).await;
    others.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn what_the_api_server_calls_a_conflict_for_ever_is_tried_with_growing_delays() {
    let rules = Rules {
        plan: stop_pod,
        verify: |_, _, _| Ok(()),
    };
    let mut scene = Scene::answered(rules, |method, _, _| match *method {
        Method::DELETE => refuses_deletions(409),
        _ => done(),
    });
    scene.see_all(&objects());
    scene.work_until(|scene| scene.retries() == 4).await;
    let sent = scene.sent(&Method::DELETE, "").len();
    assert!(sent <= 5, "{sent} deletions for 4 failures");
}

/// The condition that a job gets whose deletions of a pod are always answered so.
async fn told_of_deletions(answer: Answer) -> Value {
    let rules = Rules {
        plan: |snapshot, now| match snapshot.refusal {
            None => stop_pod(snapshot, now),
            Some(_) => carillon_plan::broadcast_job::plan(snapshot, now),
        },
        verify: |_, _, _| Ok(()),
    };
    let mut scene = Scene::answered(rules, answer);
    scene.see_all(&objects());
    let told = |scene: &Scene| !scene.sent(&Method::PATCH, "/status").is_empty();
    scene.work_until(told).await;
    let status = &scene.sent(&Method::PATCH, "/status")[0]["status"];
    status["conditions"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_again_and_again_becomes_a_condition() {
    let refused: Answer = |method, _, _| match *method {
        Method::DELETE => refuses_deletions(403),
        _ => done(),
    };
    let outrun: Answer = |method, _, _| match *method {
        Method::DELETE => refuses_deletions(409),
        _ => done(),
    };
    for (answer, words) in [(refused, "webhook said no"), (outrun, "has changed")] {
        let stalled = told_of_deletions(answer).await;
        assert_eq!(
            [&stalled["type"], &stalled["status"], &stalled["reason"]],
            ["Stalled", "True", reasons::WRITE_REFUSED]
        );
        let message = stalled["message"].as_str().unwrap();
        assert!(
            message.contains("delete_pod") && message.contains(words),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_recorded_decision_is_made_again_from_the_objects_in_any_order() {
    let mut scene = Scene::new(Rules::default());
    let mut objects = objects();
    // Nothing else is to be done on the node.
    objects[0].1["spec"] = json!({"unschedulable": true});
    scene.see_all(&objects[..3]);
    // It was seen deleted while it ran, and since when. Later its own words alone would make it a success that never
    // started.
    let due = Some("2026-01-01T00:01:00Z");
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:03Z"}});
    let running = json!({"phase": "Running",
        "containerStatuses": [{"name": "c", "state": running}]});
    scene.see_all(&[pod(20, due, &running)]);
    let ended = json!({"exitCode": 0, "finishedAt": "2026-01-01T00:00:29Z"});
    let ended = json!({"phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": ended}}]});
    objects[2] = pod(21, due, &ended);
    scene.see_all(&objects[2..]);
    let finished = |scene: &Scene| {
        let decisions = scene.controller.core.flights.decisions(&job_key());
        decisions.iter().any(|decision| decision.outcome.is_some())
    };
    scene.work_until(finished).await;
    let requests = scene.requests.lock().unwrap().clone();
    let result = requests
        .iter()
        .find_map(|(_, _, body)| body["results"].get(0).cloned())
        .unwrap();
    assert_eq!(result["reason"], results::POD_DELETED);
    assert_eq!(result["state"], json!(NodeState::Disrupted));
    assert_eq!(result["startTime"], "2026-01-01T00:00:03Z");

    // As it is read on the debug port.
    let page = scene.controller.core.flights.page("namespace=ops&name=fix");
    let decision: Decision =
        serde_json::from_value(page["objects"][0]["decisions"][0].clone()).unwrap();
    assert_eq!(decision.steps[0].actions[0].action, "write_slice");
    assert!(decision.outcome.as_ref().unwrap().writes > 0);
    let remembered = &decision.inputs["remembered"][0];
    assert_eq!(remembered["interrupted"], true);
    assert_eq!(remembered["started"], "2026-01-01T00:00:03Z");
    let again = |objects: &[(Kind, Value)], decision: &Decision| {
        replay::<BroadcastJobs>(objects.iter().cloned(), decision)
    };
    for turn in 0..objects.len() {
        objects.rotate_left(turn);
        assert_eq!(again(&objects, &decision).unwrap(), decision.digest);
        objects.reverse();
        assert_eq!(again(&objects, &decision).unwrap(), decision.digest);
    }

    let mut forgetful = decision.clone();
    forgetful.inputs["remembered"] = json!([]);
    assert_ne!(again(&objects, &forgetful).unwrap(), decision.digest);
    let mut later = decision.clone();
    later.now += Duration::from_secs(1);
    assert_ne!(again(&objects, &later).unwrap(), decision.digest);
    let mut partial = decision.clone();
    partial.inputs["incomplete"] = json!("70 vanished pods");
    let refused = again(&objects, &partial);
    assert!(
        matches!(refused, Err(Irreproducible::Incomplete(_))),
        "{refused:?}"
    );
    objects.retain(|(kind, _)| *kind != Kind::BroadcastJob);
    let refused = again(&objects, &decision);
    assert!(
        matches!(refused, Err(Irreproducible::Other { .. })),
        "{refused:?}"
    );
    let refused = again(&[job(99, &Value::Null)], &decision);
    assert!(
        matches!(refused, Err(Irreproducible::Newer { found: 99, .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn what_a_later_version_has_recorded_stays_when_this_one_writes_the_outcome() {
    let mut scene = Scene::new(Rules::default());
    let mut objects = objects();
    let later = json!({"weight": 7, "tags": ["a", null]});
    objects[1].1["results"][0]["nodePool"] = later.clone();
    let ended = json!({"exitCode": 0, "finishedAt": "2026-01-01T00:00:29Z"});
    objects[2] = pod(
        21,
        None,
        &json!({"phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": ended}}]}),
    );
    scene.see_all(&objects);
    let slices = "/noderesultslices/";
    let written = |scene: &Scene| {
        let requests = scene.requests.lock().unwrap();
        let write = requests.iter().find(|(_, path, _)| path.contains(slices));
        write.map(|(_, _, body)| body["results"][0].clone())
    };
    scene.work_until(|scene| written(scene).is_some()).await;
    let result = written(&scene).unwrap();
    assert_eq!(result["state"], json!(NodeState::Succeeded));
    assert_eq!(result["nodePool"], later);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_due_already_and_does_nothing_keeps_nobody_busy() {
    static PLANS: AtomicUsize = AtomicUsize::new(0);
    let rules = Rules {
        plan: |_, now| {
            // Whoever spins comes to an end, and is told of by the count.
            let spins = PLANS.fetch_add(1, Ordering::AcqRel) < 1000;
            let past = now.checked_sub(jiff::SignedDuration::from_secs(1)).ok();
            Plan {
                wake: past.filter(|_| spins),
                ..Plan::default()
            }
        },
        ..Rules::default()
    };
    let scene = Scene::new(rules);
    scene.see_all(&objects());
    scene.work_for(Duration::from_millis(550)).await;
    let plans = PLANS.load(Ordering::Acquire);
    assert!((2..=7).contains(&plans), "{plans}");
}

const OTHER: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9fff";

/// How the pod is when it has ended well.
fn ended_well() -> Value {
    let ended = json!({"exitCode": 0, "finishedAt": "2026-01-01T00:00:29Z"});
    json!({"phase": "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": ended}}]})
}

/// The pod has ended well, and has label and owner of another job.
fn given() -> Value {
    let (_, mut pod) = pod(20, None, &ended_well());
    pod["metadata"]["labels"][names::LABEL_BROADCAST_JOB_UID] = json!(OTHER);
    pod["metadata"]["labels"][names::LABEL_BROADCAST_JOB_NAME] = json!("other");
    let other = ObjectKey::of(BROADCAST_JOB, "ops", "other", uid(OTHER));
    pod["metadata"]["ownerReferences"] = json!([other.reference()]);
    pod
}

/// The first result that a slice was written with.
fn stored(scene: &Scene) -> Option<Value> {
    let requests = scene.requests.lock().unwrap();
    let mut of_slices = requests
        .iter()
        .filter(|(_, path, _)| path.contains("/noderesultslices/"));
    of_slices.find_map(|(_, _, body)| body["results"].get(0).cloned())
}

#[tokio::test]
async fn a_pod_that_was_given_to_another_job_is_followed_by_the_one_whose_record_names_it() {
    let mut scene = Scene::answered(Rules::default(), |method, path, _| {
        if *method == Method::GET && path.contains("/pods/") {
            (200, given())
        } else if *method == Method::GET && path.ends_with("/broadcastjobs/fix") {
            (200, job(13, &Value::Null).1)
        } else if *method == Method::GET && path.ends_with("/broadcastjobs/other") {
            let (_, mut job) = job(13, &Value::Null);
            job["metadata"]["uid"] = json!(OTHER);
            job["metadata"]["name"] = json!("other");
            (200, job)
        } else {
            done()
        }
    });
    scene.see_all(&objects());
    scene.see_all(&[(Kind::Pod, given())]);
    let told = |scene: &Scene| !scene.sent(&Method::PATCH, "/fix/status").is_empty();
    scene.work_until(told).await;
    let status = scene.sent(&Method::PATCH, "/fix/status")[0]["status"].clone();
    scene.see_all(&[job(60, &status)]);
    scene.work_until(|scene| stored(scene).is_some()).await;
    assert_eq!(
        stored(&scene).unwrap()["state"],
        json!(NodeState::Succeeded)
    );
}

#[tokio::test]
async fn what_was_seen_of_a_pod_counts_after_it_was_taken() {
    let mut scene = Scene::new(Rules::default());
    let mut objects = objects();
    objects[0].1["spec"] = json!({"unschedulable": true});
    let due = Some("2026-01-01T00:01:00Z");
    objects[2] = pod(20, due, &json!({"phase": "Running"}));
    scene.see_all(&objects[..3]);
    objects[2] = pod(21, due, &ended_well());
    objects[2].1["metadata"]["ownerReferences"] = json!([]);
    scene.see_all(&objects[2..]);
    scene.work_until(|scene| stored(scene).is_some()).await;
    assert_eq!(
        stored(&scene).unwrap()["state"],
        json!(NodeState::Disrupted)
    );
}
