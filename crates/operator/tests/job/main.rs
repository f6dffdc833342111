//! The controller of Jobs against a scripted API server: whom it serves, and what becomes of a plan.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod again;
mod gate;
mod large;
mod objects;
mod paths;
mod refused;
#[path = "../support/scene.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_operator::args::Task;
use carillon_operator::clock::Clock;
use carillon_operator::controllers::core::Core;
use carillon_operator::controllers::{CachedKind, RulesOf, replay};
use carillon_operator::fence::RequestBody;
use carillon_operator::gate::Kind;
use carillon_operator::kinds::job::SlimJob;
use carillon_operator::kinds::job::{Jobs, Memory};
use carillon_operator::queue::Backoff;
use carillon_operator::slim::SlimPod;
use carillon_operator::store::StoreSink;
use carillon_operator::transport::Transport;
use carillon_operator::watch::{self, Handle, Source};
use carillon_plan::job::action::{Action, NewPod, Plan, StatusWrite, Step, Why};
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::{Limits, Snapshot, plan};
use carillon_plan::{ObjectKey, Uid, object_key};
use http::{Method, Request, Response};
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::support::{Sent, Server, Setting, WRITTEN, done, refusal};

type Rules = RulesOf<Jobs>;

const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";
const POD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01";
/// Of events.
const REPORTER: &str = "job-controller";
const PODS: &str = "/api/v1/namespaces/ops/pods";

/// The Job `sum` with this uid.
fn job_key(of: &str) -> Arc<ObjectKey> {
    ObjectKey::of(object_key::JOB, "ops", "sum", uid(of))
}

fn uid(text: &str) -> Uid {
    text.parse().unwrap()
}

type Scene = support::Scene<Jobs>;
/// Method, path, a word of the body, and the answer to that.
type Answers = Vec<(Method, &'static str, &'static str, u16, Value)>;

impl Scene {
    fn new(plan: fn(&Snapshot<'_>, Timestamp) -> Plan, answers: Answers) -> Self {
        Self::serving(plan, answers, true)
    }

    fn serving(
        plan: fn(&Snapshot<'_>, Timestamp) -> Plan,
        answers: Answers,
        serves_native: bool,
    ) -> Self {
        let answer = move |method: &Method, path: &str, sent: &Sent<'_>| {
            let text = sent.body.to_string();
            let found = answers.iter().find(|(of, at, word, ..)| {
                (of, *at) == (method, path) && (word.is_empty() || text.contains(word))
            });
            found.map_or_else(done, |(.., code, reply)| (*code, reply.clone()))
        };
        let setting = Setting {
            clock: Clock::system(),
            backoff: Backoff {
                base: Duration::from_secs(1),
                max: Duration::from_secs(1),
            },
            workers: 1,
            in_flight: 8,
            parallel: 8,
        };
        let kind = Jobs {
            pods: Handle::without_loops("pods"),
            limits: Limits::default(),
        };
        let rules = Rules {
            plan,
            // The plans of these tests are parts of plans, which the interlock would not let pass.
            verify: |_, _, _| Ok(()),
        };
        let server = Server::answering(answer, Duration::ZERO);
        let scene = Self::at(server, setting, kind, rules);
        if !serves_native {
            let Ok(Task::Operate(config)) = Task::parse(["carillon"]) else {
                panic!("no flags are wrong")
            };
            Jobs::prepare(&config, &scene.controller.core.store);
        }
        scene
    }

    /// Syncs that have come to their end with this result, whatever they were for.
    fn syncs(&self, result: &str) -> u64 {
        let syncs = &self.controller.core.metrics.jobs.syncs;
        let of = |action| {
            syncs
                .with_label_values(&["NonIndexed", result, action])
                .get()
        };
        ["reconciling", "tracking", "pods_created", "pods_deleted"]
            .map(of)
            .iter()
            .sum()
    }

    fn decisions(&self) -> usize {
        self.controller.core.flights.decisions(&job_key(JOB)).len()
    }
}

fn job(managed_by: Option<&str>, status: &Value) -> Value {
    json!({
        "metadata": {"name": "sum", "namespace": "ops", "uid": JOB, "resourceVersion": "13",
            "generation": 1},
        "spec": {"managedBy": managed_by, "template": {"spec": {"containers": [{"name": "c"}]}}},
        "status": status,
    })
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "sum-a", "namespace": "ops", "uid": POD, "resourceVersion": "12",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "sum",
                "uid": JOB, "controller": true}]},
        "status": {"phase": "Running"},
    })
}

fn create(name: &str) -> Action {
    Action::CreatePod(NewPod {
        name: name.to_owned(),
        index: None,
        failures: None,
        ignored_failures: None,
        why: Why::New,
    })
}

/// So many pods active, of which some are made and some removed by earlier steps.
fn status(active: i32, created: i32, removed: i32) -> Action {
    let status = json!({"active": active, "uncountedTerminatedPods": {}});
    Action::WriteStatus(Box::new(StatusWrite {
        status: serde_json::from_value(status).unwrap(),
        created,
        removed,
        backoff: BackoffRecord {
            failures: 3,
            last: None,
        },
    }))
}

fn two_pods(_: &Snapshot<'_>, _: Timestamp) -> Plan {
    Plan {
        steps: vec![
            Step::slowly(vec![create("sum-a"), create("sum-b")]),
            Step::needed(vec![status(2, 2, 0)]),
        ],
        ..Plan::default()
    }
}

fn one_pod(_: &Snapshot<'_>, _: Timestamp) -> Plan {
    Plan {
        steps: vec![Step::slowly(vec![create("sum-a")])],
        ..Plan::default()
    }
}

fn no_pods(_: &Snapshot<'_>, _: Timestamp) -> Plan {
    let remove = Action::RemovePod {
        name: "sum-a".to_owned(),
        uid: uid(POD),
        tracked: true,
    };
    Plan {
        steps: vec![
            Step::wanted(vec![remove]),
            Step::needed(vec![status(0, 0, 1)]),
        ],
        ..Plan::default()
    }
}

/// Nothing is asked for twice: the next plan waits until the writes are seen, which they never are.
async fn written(scene: &mut Scene) -> Value {
    scene
        .work_until(|scene| !scene.sent(&Method::PATCH, "/jobs/sum/status").is_empty())
        .await;
    scene.sent(&Method::PATCH, "/jobs/sum/status").remove(0)["status"].take()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_served_that_names_us_and_any_native_one_on_request() {
    for (managed_by, natively, served) in [
        (Some("carillon.dev/job-controller"), false, true),
        (Some("carillon.dev/job-controller"), true, true),
        (None, false, false),
        (None, true, true),
        (Some("kubernetes.io/job-controller"), false, false),
        (Some("kubernetes.io/job-controller"), true, true),
        (Some("example.com/other"), true, false),
    ] {
        let scene = Scene::serving(plan, vec![], natively);
        scene.see::<SlimJob>(&job(managed_by, &json!({})));
        scene.work_for(Duration::from_secs(1)).await;
        let decided = scene.decisions() > 0;
        assert_eq!(decided, served, "{managed_by:?}, {natively}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_until_its_pods_are_seen() {
    let mut scene = Scene::new(plan, vec![]);
    let source = Source {
        kind: "pods",
        group: "",
        version: "v1",
        plural: "pods",
        labels: String::new(),
        audit_period: None,
    };
    let controller = Arc::get_mut(&mut scene.controller).unwrap();
    let Core { store, metrics, .. } = &controller.core;
    let never = |_: Request<RequestBody>| {
        std::future::pending::<Result<Response<Full<Bytes>>, tower::BoxError>>()
    };
    let transport = Transport::new(tower::service_fn(never), metrics.clone());
    let queues = &scene.queues;
    let sink = |_: Option<&str>| StoreSink::<SlimPod>::new(store, queues, Duration::ZERO, None);
    let (pods, _loops) = watch::prepare(&transport, &source, &[], sink, metrics);
    let seen = std::mem::replace(&mut controller.kind.pods, pods);
    scene.see::<SlimJob>(&job(None, &json!({})));
    assert_eq!(scene.controller.core.queue.depth(), 1);
    scene.work_for(Duration::from_hours(1)).await;
    assert_eq!(scene.decisions(), 0);
    // It was that which it waited for.
    Arc::get_mut(&mut scene.controller).unwrap().kind.pods = seen;
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    scene.work_until(|scene| scene.decisions() == 1).await;
}

#[tokio::test]
async fn active_counts_the_pods_that_were_made_and_each_is_told_of() {
    let full = refusal(403, "Forbidden", "exceeded quota: q");
    let answers = vec![(Method::POST, PODS, "sum-b", 403, full)];
    let mut scene = Scene::new(two_pods, answers);
    let before = json!({"active": 1, "uncountedTerminatedPods": {"succeeded": ["u"]}});
    scene.see::<SlimJob>(&job(None, &before));
    let told = scene.told(2, REPORTER).await;
    let quota = "FailedCreate Error creating: exceeded quota: q";
    assert_eq!(told, [quota, "SuccessfulCreate Created pod: sum-a"]);
    // One is active, as before: only the list is cleared.
    let expected = json!({"active": 1, "uncountedTerminatedPods": {"succeeded": null}});
    assert_eq!(written(&mut scene).await, expected);
    let memory = scene.controller.memory.lock().unwrap();
    assert_eq!(memory[&job_key(JOB)].backoff.failures, 3);
}

#[tokio::test]
async fn strict_parity_has_the_api_server_name_the_pods_of_jobs_that_do_not_name_us() {
    let path = "/api/v1/namespaces/ops/pods";
    for (managed_by, told, name) in [
        (None, "sum-x7k2b", Value::Null),
        (Some("carillon.dev/job-controller"), "sum-a", json!("sum-a")),
    ] {
        let reply = json!({"metadata": {"name": "sum-x7k2b", "resourceVersion": "14"}});
        let mut scene = Scene::new(one_pod, vec![(Method::POST, path, "", 201, reply)]);
        let controller = Arc::get_mut(&mut scene.controller).unwrap();
        controller.kind.limits.strict_parity = true;
        scene.see::<SlimJob>(&job(managed_by, &json!({})));
        let expected = format!("SuccessfulCreate Created pod: {told}");
        assert_eq!(scene.told(1, REPORTER).await, [expected]);
        let metadata = &scene.sent(&Method::POST, "/pods")[0]["metadata"];
        assert_eq!(
            (&metadata["name"], &metadata["generateName"]),
            (&name, &json!("sum-"))
        );
    }
}

#[tokio::test]
async fn a_status_that_was_refused_is_not_remembered() {
    let conflict = refusal(409, "Conflict", "the object has been modified");
    let path = "/apis/batch/v1/namespaces/ops/jobs/sum/status";
    let answers = vec![(Method::PATCH, path, "", 409, conflict)];
    let mut scene = Scene::new(no_pods, answers);
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    written(&mut scene).await;
    assert!(scene.controller.memory.lock().unwrap().is_empty());
}

#[tokio::test]
async fn failures_are_forgotten_with_the_end_of_a_job() {
    let mut scene = Scene::new(plan, vec![]);
    let memory = Memory {
        backoff: BackoffRecord {
            failures: 3,
            last: None,
        },
        ..Memory::default()
    };
    let remembered = |scene: &Scene| scene.controller.memory.lock().unwrap().len();
    scene
        .controller
        .memory
        .lock()
        .unwrap()
        .insert(job_key(JOB), memory);
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    scene.work_until(|scene| scene.decisions() == 1).await;
    assert_eq!(remembered(&scene), 1);
    let ended = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    scene.see::<SlimJob>(&job(None, &ended));
    scene.work_until(|scene| remembered(scene) == 0).await;
}

#[tokio::test]
async fn nobody_is_told_of_pods_that_a_namespace_on_its_way_out_refuses() {
    let mut leaving = refusal(403, "Forbidden", "namespace ops is being terminated");
    leaving["details"] = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    let answers = vec![(Method::POST, PODS, "sum-a", 403, leaving)];
    let mut scene = Scene::new(two_pods, answers);
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    // The first creation was to show whether the second would go through.
    assert_eq!(written(&mut scene).await["active"], 0);
    assert_eq!(scene.sent(&Method::POST, PODS).len(), 1);
    assert_eq!(scene.sent(&Method::POST, "/events").len(), 0);
}

#[tokio::test]
async fn a_pod_that_is_there_already_is_ours_or_stands_in_the_way() {
    for (owner, active) in [(JOB, 2), (POD, 1)] {
        let mut there = pod();
        there["metadata"]["ownerReferences"][0]["uid"] = json!(owner);
        let exists = refusal(409, "AlreadyExists", "pods \"sum-a\" already exists");
        let path = "/api/v1/namespaces/ops/pods/sum-b";
        let answers = vec![
            (Method::POST, PODS, "sum-b", 409, exists),
            (Method::GET, path, "", 200, there),
        ];
        let mut scene = Scene::new(two_pods, answers);
        scene.see::<SlimJob>(&job(None, &json!({})));
        assert_eq!(written(&mut scene).await["active"], active);
    }
}

#[tokio::test]
async fn a_pod_that_is_not_to_be_counted_loses_our_finalizer_before_it_is_deleted() {
    let mut scene = Scene::new(no_pods, vec![]);
    scene.see::<SlimPod>(&pod());
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    assert_eq!(
        scene.told(1, REPORTER).await,
        ["SuccessfulDelete Deleted pod: sum-a"]
    );
    let requests = scene.requests.lock().unwrap();
    let methods: Vec<_> = requests.iter().map(|(method, ..)| method).collect();
    assert_eq!(methods[..2], [Method::PATCH, Method::DELETE]);
    let patch = &requests[0].2["metadata"];
    let finalizer = "batch.kubernetes.io/job-tracking";
    assert_eq!(patch["$deleteFromPrimitiveList/finalizers"][0], finalizer);
    assert_eq!(patch["uid"], POD);
    assert_eq!(requests[1].2["preconditions"]["uid"], POD);
}

#[tokio::test]
async fn a_pod_that_is_gone_is_removed_and_nobody_is_told() {
    let gone = refusal(404, "NotFound", "pods \"sum-a\" not found");
    let path = "/api/v1/namespaces/ops/pods/sum-a";
    let answers = vec![(Method::PATCH, path, "", 404, gone)];
    let mut scene = Scene::new(no_pods, answers);
    scene.see::<SlimJob>(&job(None, &json!({"active": 1})));
    assert_eq!(written(&mut scene).await["active"], 0);
    assert_eq!(scene.sent(&Method::DELETE, "/sum-a").len(), 0);
    assert_eq!(scene.sent(&Method::POST, "/events").len(), 0);
}

#[tokio::test]
async fn pods_of_a_job_that_is_really_gone_are_released() {
    let gone = refusal(404, "NotFound", "jobs \"sum\" not found");
    let path = "/apis/batch/v1/namespaces/ops/jobs/sum";
    let answers = vec![(Method::GET, path, "", 404, gone)];
    let mut scene = Scene::new(plan, answers);
    scene.see::<SlimPod>(&pod());
    scene
        .work_until(|scene| !scene.sent(&Method::PATCH, "/pods/sum-a").is_empty())
        .await;
    assert_eq!(scene.decisions(), 1);
}

#[tokio::test]
async fn what_the_flight_recorder_keeps_is_enough_to_decide_again() {
    let mut scene = Scene::new(plan, vec![]);
    scene.see::<SlimPod>(&pod());
    scene.see::<SlimJob>(&job(None, &json!({})));
    scene.work_until(|scene| scene.decisions() > 0).await;
    let decision = scene
        .controller
        .core
        .flights
        .decisions(&job_key(JOB))
        .remove(0);
    let objects = [(Kind::Pod, pod()), (Kind::NativeJob, job(None, &json!({})))];
    let again = replay::<Jobs>(objects.into_iter(), &decision).unwrap();
    assert_eq!(again, decision.digest);
}
