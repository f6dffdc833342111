//! A namespace in which every request takes long, and its neighbour: what the one holds of the operator is not what
//! the other one needs. And what is told of an object whose requests never get their turn.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

#[path = "support/scene.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carillon_operator::clock::Clock;
use carillon_operator::controllers::{RulesOf, core};
use carillon_operator::event::{Event, Regarding, Severity};
use carillon_operator::fence::RequestBody;
use carillon_operator::gate::Kind;
use carillon_operator::kinds::broadcast_job::SlimBroadcastJob;
use carillon_operator::kinds::broadcast_job::{BroadcastJobs, CONTROLLER};
use carillon_operator::metrics::Metrics;
use carillon_operator::queue::Backoff;
use carillon_operator::request;
use carillon_operator::slim::SlimNode;
use carillon_operator::transport::Transport;
use carillon_plan::pod_body::PodPlacement;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::support::{Requests, Server, Setting};

/// As by default.
const WORKERS: usize = 16;
const IN_FLIGHT: usize = 32;
/// How long the API server takes for what concerns the slow namespace.
const LONG: Duration = Duration::from_secs(5);

/// What the API server has been asked, in order.
#[derive(Debug, Default)]
struct Asked {
    /// Requests of the slow namespace that it works on.
    at_work: usize,
    /// Those that it has answered.
    answered: usize,
    /// Statuses that were written in the slow namespace.
    statuses: Vec<Value>,
    /// How many it had answered when an event of the quiet namespace was written.
    before_event: Option<usize>,
    /// How many it had answered when the pod of the quiet namespace was created.
    before_quiet: Option<usize>,
}

struct Scene {
    of: support::Scene<BroadcastJobs>,
    asked: Arc<Mutex<Asked>>,
    stored: Arc<Mutex<BTreeMap<String, Value>>>,
    tasks: JoinSet<()>,
}

impl Scene {
    fn new() -> Self {
        let metrics = Metrics::new().unwrap();
        let asked = Arc::<Mutex<Asked>>::default();
        let stored = Arc::<Mutex<BTreeMap<String, Value>>>::default();
        let server = (asked.clone(), stored.clone());
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let (asked, stored) = server.clone();
            async move {
                let (method, uri) = (request.method(), request.uri());
                let path = uri.path().to_owned();
                let object = stored.lock().unwrap().get(&path).cloned();
                // What is stored is read quickly: it is a webhook that is slow.
                let is_slow = path.contains("/namespaces/slow/") && object.is_none();
                if path.ends_with("/status") {
                    let body = request.into_body().collect().await?.to_bytes();
                    let body: Value = serde_json::from_slice(&body)?;
                    asked.lock().unwrap().statuses.push(body["status"].clone());
                } else if is_slow {
                    asked.lock().unwrap().at_work += 1;
                    tokio::time::sleep(LONG).await;
                    let mut asked = asked.lock().unwrap();
                    asked.at_work -= 1;
                    asked.answered += 1;
                } else if path == "/apis/events.k8s.io/v1/namespaces/quiet/events" {
                    let mut asked = asked.lock().unwrap();
                    asked.before_event = Some(asked.answered);
                } else if *method == Method::POST
                    && path == "/api/v1/namespaces/quiet/pods"
                    && !uri.query().is_some_and(|query| query.contains("dryRun"))
                {
                    let mut asked = asked.lock().unwrap();
                    let answered = asked.answered;
                    asked.before_quiet.get_or_insert(answered);
                }
                let reply =
                    object.unwrap_or_else(|| json!({"metadata": {"resourceVersion": "50"}}));
                let reply = Full::new(Bytes::from(reply.to_string()));
                Ok::<_, tower::BoxError>(Response::new(reply))
            }
        });
        let server = Server {
            transport: Transport::new(service, metrics.clone()),
            requests: Requests::default(),
            metrics,
        };
        let setting = Setting {
            clock: Clock::simulated(Timestamp::UNIX_EPOCH),
            backoff: Backoff::default(),
            workers: WORKERS,
            in_flight: IN_FLIGHT,
            parallel: IN_FLIGHT,
        };
        let kind = BroadcastJobs {
            placement: PodPlacement::Scheduler,
            max_pod_changes: 500,
        };
        let mut of = support::Scene::at(server, setting, kind, RulesOf::default());
        let mut tasks = JoinSet::new();
        let recorder = of.recorder.take().unwrap();
        tasks.spawn_local(recorder.run(CancellationToken::new()));
        of.see::<SlimNode>(&json!({"metadata": {"name": "n1", "resourceVersion": "10",
            "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01"}}));
        Self {
            of,
            asked,
            stored,
            tasks,
        }
    }

    fn work(&mut self) {
        for _ in 0..WORKERS {
            let controller = self.of.controller.clone();
            self.tasks.spawn_local(core::work(controller));
        }
    }

    /// Somebody makes a job, with a text of so many bytes in its template.
    fn make(&self, namespace: &str, number: usize, bytes: usize) {
        let text = "x".repeat(bytes);
        let containers = json!([{"name": "c", "image": "i", "args": [text]}]);
        let template = json!({"spec": {"restartPolicy": "Never", "containers": containers}});
        let uid = format!(
            "4e0c5d6a-0b1c-4d2e-8f3a-{:04x}7d8e{number:04x}",
            namespace.len()
        );
        let job = json!({
            "metadata": {"name": format!("fix-{number}"), "namespace": namespace, "uid": uid,
                "resourceVersion": "13", "generation": 1},
            "spec": {"template": template},
            // It has been seen before, so that its status is not what comes first.
            "status": {"observedGeneration": 1, "phase": "running", "summary": "running", "done": "0/1", "desired": 1,
                "startTime": "2026-01-01T00:00:00Z",
                "active": 0, "succeeded": 0, "failed": 0, "disrupted": 0,
                "conditions": [{"type": "Reconciling", "status": "True", "reason": "Running",
                    "message": "0 of 1 nodes succeeded, 0 failed", "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        let api = "/apis/carillon.dev/v1alpha1";
        let path = format!("{api}/namespaces/{namespace}/broadcastjobs/fix-{number}");
        self.stored.lock().unwrap().insert(path, job.clone());
        self.of.see::<SlimBroadcastJob>(&job);
    }

    async fn until(&self, done: impl Fn(&Asked) -> bool) {
        let finished = async {
            while !done(&self.asked.lock().unwrap()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_mins(10), finished).await;
        found.unwrap_or_else(|_| panic!("{:?}", self.asked));
    }

    /// A job of the quiet namespace has its pod before anything of the slow one is answered.
    async fn the_quiet_one_waits_for_nobody(&self) {
        self.make("quiet", 0, 100);
        self.until(|asked| asked.before_quiet.is_some()).await;
        let asked = self.asked.lock().unwrap();
        assert_eq!(asked.before_quiet, Some(0), "{asked:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_waits_for_none_of_forty_of_a_namespace_in_which_everything_takes_long() {
    let mut scene = Scene::new();
    for number in 0..40 {
        scene.make("slow", number, 100);
    }
    scene.work();
    scene.until(|asked| asked.at_work >= WORKERS - 1).await;
    scene.the_quiet_one_waits_for_nobody().await;
}

/// As many requests of a namespace as there are places, and more, for ever.
fn crowd(scene: &mut Scene, namespace: &'static str, count: usize) {
    for number in 0..count {
        let writes = scene.of.controller.core.writes.clone();
        scene.tasks.spawn_local(async move {
            loop {
                let other = request::get(Kind::Pod, namespace, &format!("p-{number}"));
                writes.read(other).await.unwrap();
            }
        });
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_finds_a_place_in_flight_although_a_slow_namespace_wants_them_all() {
    let mut scene = Scene::new();
    scene.work();
    crowd(&mut scene, "slow", 40);
    scene.until(|asked| asked.at_work >= IN_FLIGHT - 1).await;
    scene.the_quiet_one_waits_for_nobody().await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_whose_plans_grow_too_old_again_and_again_says_so() {
    let mut scene = Scene::new();
    scene.work();
    // Each request of the namespace waits for twenty seconds, and a plan lives for ten.
    crowd(&mut scene, "slow", 5 * IN_FLIGHT);
    scene.make("slow", 0, 100);
    scene.until(|asked| !asked.statuses.is_empty()).await;
    let status = scene.asked.lock().unwrap().statuses[0].clone();
    let conditions = status["conditions"].as_array().unwrap();
    let stalled = conditions.iter().find(|c| c["type"] == "Stalled");
    let stalled = stalled.unwrap_or_else(|| panic!("{status}"));
    assert_eq!(stalled["status"], "True");
    let message = stalled["message"].as_str().unwrap();
    assert!(message.contains("nothing was created"), "{message}");
    let metrics = &scene.of.controller.core.metrics;
    let expired = metrics.plans_expired.with_label_values(&[CONTROLLER]).get();
    assert!(expired >= 3, "{expired}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_event_waits_for_one_of_a_slow_namespace_and_not_for_all_that_waits_there() {
    let mut scene = Scene::new();
    crowd(&mut scene, "slow", 5 * IN_FLIGHT);
    scene.until(|asked| asked.at_work >= IN_FLIGHT - 1).await;
    for namespace in ["slow", "quiet"] {
        scene.of.controller.core.events.publish(Event {
            regarding: Regarding {
                api_version: "carillon.dev/v1alpha1",
                kind: "BroadcastJob",
                namespace: namespace.to_owned(),
                name: "fix".to_owned(),
                uid: namespace.to_owned(),
            },
            controller: "carillon.dev/broadcastjob-controller",
            severity: Severity::Warning,
            action: "Creating",
            reason: "FailedCreate".into(),
            note: "no".to_owned(),
            about: None,
        });
    }
    scene.until(|asked| asked.before_event.is_some()).await;
    let before = scene.asked.lock().unwrap().before_event;
    assert!(
        before.is_some_and(|before| before <= 2 * IN_FLIGHT),
        "{before:?}"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_small_template_waits_for_no_large_one() {
    let mut scene = Scene::new();
    for number in 0..3 {
        scene.make("slow", number, 1 << 20);
    }
    scene.work();
    scene.until(|asked| asked.at_work >= 1).await;
    scene.the_quiet_one_waits_for_nobody().await;
}
