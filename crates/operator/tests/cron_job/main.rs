//! The controller of CronJobs against a scripted API server: in which order it writes, and what becomes of a run
//! when a write is refused.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod children;
mod refused;
#[path = "../support/scene.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use carillon_api::condition::reasons;
use carillon_api::names::{
    ANNOTATION_SCHEDULED_TIMESTAMP, FINALIZER_RUN_TRACKING, LABEL_CRON_JOB_NAME, LABEL_CRON_JOB_UID,
};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::{RulesOf, replay};
use carillon_operator::gate::Kind;
use carillon_operator::kinds::cron_job::{CONTROLLER, CronJobs};
use carillon_operator::kinds::cron_job::{Carillon, Native, SlimCronJob, SlimNativeJob};
use carillon_operator::queue::Backoff;
use carillon_plan::cron_job::action::{Action, Plan, Step};
use carillon_plan::cron_job::{ChildKind, plan};
use carillon_plan::interlock::cron_job::rules;
use carillon_plan::object_key::CRON_JOB;
use carillon_plan::{ObjectKey, cron_job};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::support::{Sent, Server, Setting, WRITTEN, done, refusal};

type Rules = RulesOf<CronJobs>;

const CRON: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";
const JOBS: &str = "/apis/batch/v1/namespaces/ops/jobs";
const STATUS: &str = "/cronjobs/report/status";
/// Of events.
const REPORTER: &str = "carillon.dev/cronjob-controller";
/// The run of 11:00.
const AT_ELEVEN: &str = "report-29454420";

type Scene = support::Scene<CronJobs>;
type Ours = SlimCronJob<Carillon>;
type Theirs = SlimCronJob<Native>;

impl Scene {
    /// Half a minute after eleven.
    fn new(
        answer: impl Fn(&Method, &str, &Sent<'_>) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        Self::ruled(Rules::default(), answer)
    }

    fn ruled(
        rules: Rules,
        answer: impl Fn(&Method, &str, &Sent<'_>) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let setting = Setting {
            clock: Clock::simulated("2026-01-01T11:00:30Z".parse().unwrap()),
            backoff: Backoff {
                base: Duration::from_secs(1),
                max: Duration::from_secs(1),
            },
            workers: 1,
            in_flight: 8,
            parallel: 8,
        };
        let server = Server::answering(answer, Duration::from_millis(1));
        Self::at(server, setting, CronJobs, rules)
    }

    /// Names of the Jobs that were created, or would have been.
    fn made(&self) -> Vec<String> {
        let made = self.sent(&Method::POST, JOBS);
        let name = |body: &Value| body["metadata"]["name"].as_str().unwrap().to_owned();
        made.iter().map(name).collect()
    }

    /// The statuses that were written.
    fn statuses(&self) -> Vec<Value> {
        let mut sent = self.sent(&Method::PATCH, STATUS);
        sent.iter_mut()
            .map(|patch| patch["status"].take())
            .collect()
    }

    /// What was written, in order; questions and events left out.
    fn writes(&self) -> Vec<(Method, String)> {
        let requests = self.requests.lock().unwrap();
        let writes = requests.iter().filter(|(method, path, _)| {
            *method != Method::GET && !path.ends_with(support::DRY) && !path.ends_with("/events")
        });
        let end = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        writes
            .map(|(method, path, _)| (method.clone(), end(path)))
            .collect()
    }

    fn decisions(&self) -> usize {
        self.controller.core.flights.decisions(&key()).len()
    }
}

fn key() -> Arc<ObjectKey> {
    ObjectKey::of(CRON_JOB, "ops", "report", CRON.parse().unwrap())
}

/// Every hour, at this version; with these fields of its spec.
fn cron(rv: u64, spec: &Value, status: &Value) -> Value {
    let mut cron = json!({
        "metadata": {"name": "report", "namespace": "ops", "uid": CRON, "generation": 1,
            "resourceVersion": rv.to_string(), "creationTimestamp": "2026-01-01T10:30:00Z"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

/// As it is by default.
fn hourly() -> Value {
    cron(13, &json!({}), &json!({}))
}

fn run_uid(n: u8) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
}

/// A Job of this name that the CronJob has started, with our finalizer.
fn run(n: u8, name: &str, status: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ops", "uid": run_uid(n), "resourceVersion": "20",
            "labels": {LABEL_CRON_JOB_NAME: "report", LABEL_CRON_JOB_UID: CRON},
            "ownerReferences": [key().reference()], "finalizers": [FINALIZER_RUN_TRACKING]},
        "status": status,
    })
}

/// The entry of a run in a status.
fn active(n: Option<u8>, name: &str) -> Value {
    let mut entry =
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "ops", "name": name});
    if let Some(n) = n {
        entry["uid"] = json!(run_uid(n));
    }
    entry
}

fn not_found() -> (u16, Value) {
    (404, refusal(404, "NotFound", "there is none"))
}

/// As an API server that has nothing but this CronJob, and does whatever it is asked for.
fn with(cron: &Value) -> impl Fn(&Method, &str, &Sent<'_>) -> (u16, Value) + Send + Sync + 'static {
    let cron = cron.clone();
    move |method, path, _| match *method {
        Method::GET if path.ends_with("/cronjobs/report") => (200, cron.clone()),
        Method::GET => not_found(),
        _ => done(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_due_is_promised_before_it_is_created_and_told() {
    let mut scene = Scene::new(with(&hourly()));
    scene.see::<Ours>(&hourly());
    let told = scene.told(1, REPORTER).await;
    assert_eq!(told, [format!("SuccessfulCreate Created job {AT_ELEVEN}")]);
    let (patch, post) = (Method::PATCH, Method::POST);
    assert_eq!(
        scene.writes(),
        [(patch, "status".to_owned()), (post, "jobs".to_owned())]
    );
    assert_eq!(
        scene.statuses()[0]["active"],
        json!([active(None, AT_ELEVEN)])
    );
    let job = &scene.sent(&Method::POST, JOBS)[0];
    let meta = &job["metadata"];
    assert_eq!(meta["name"], AT_ELEVEN);
    assert_eq!(meta["finalizers"], json!([FINALIZER_RUN_TRACKING]));
    assert_eq!(meta["ownerReferences"][0]["uid"], CRON);
    assert_eq!(
        meta["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP],
        "2026-01-01T11:00:00Z"
    );
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["image"],
        "i"
    );
    let skew = &scene.controller.core.metrics.cron_jobs.job_creation_skew;
    assert_eq!(skew.get_sample_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_time_comes_without_any_event() {
    let decided = json!({"lastScheduleTime": "2026-01-01T11:00:00Z"});
    let cron = cron(13, &json!({}), &decided);
    let scene = Scene::new(with(&cron));
    scene.see::<Ours>(&cron);
    scene.work_for(Duration::from_mins(1)).await;
    let [status] = &scene.statuses()[..] else {
        panic!("{:?}", scene.writes())
    };
    assert_eq!(status["nextScheduleTime"], "2026-01-01T12:00:00Z");
    let mut seen = cron.clone();
    seen["metadata"]["resourceVersion"] = json!(WRITTEN.to_string());
    let mut stored = decided;
    stored
        .as_object_mut()
        .unwrap()
        .extend(status.as_object().unwrap().clone());
    seen["status"] = stored;
    scene.see::<Ours>(&seen);
    scene.work_for(Duration::from_mins(57)).await;
    assert_eq!(scene.made(), [""; 0], "it is 11:58:30");
    scene.work_for(Duration::from_mins(2)).await;
    assert_eq!(scene.made(), ["report-29454480"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_before_own_writes_are_seen() {
    let scene = Scene::new(with(&hourly()));
    scene.see::<Ours>(&hourly());
    scene.work_for(Duration::from_secs(5)).await;
    assert_eq!((scene.decisions(), scene.made().len()), (1, 1));
    // What was read before the promise comes late.
    let mut late = cron(WRITTEN - 1, &json!({}), &json!({}));
    late["metadata"]["generation"] = json!(2);
    scene.see::<Ours>(&late);
    scene.work_for(Duration::from_secs(5)).await;
    assert_eq!((scene.decisions(), scene.made().len()), (1, 1));
    let waits = &scene.controller.core.metrics.gate_waits;
    assert!(waits.with_label_values(&[CONTROLLER]).get() > 0);
    // Once the promise and its run are seen, the run is recorded, and none is started.
    let status = json!({"active": [active(None, AT_ELEVEN)]});
    let mut job = run(1, AT_ELEVEN, &json!({}));
    job["metadata"]["resourceVersion"] = json!(WRITTEN.to_string());
    scene.see::<SlimNativeJob>(&job);
    scene.see::<Ours>(&cron(WRITTEN, &json!({}), &status));
    scene.work_for(Duration::from_secs(5)).await;
    assert!(scene.decisions() > 1);
    assert_eq!(scene.made().len(), 1);
    assert_eq!(scene.statuses()[1]["active"][0]["uid"], run_uid(1));
}

#[tokio::test(start_paused = true)]
async fn a_native_one_gets_the_status_and_the_events_that_it_has_upstream() {
    let scene_of = |cron: &Value| Scene::new(with(cron));
    let mut scene = scene_of(&hourly());
    scene.see::<Theirs>(&hourly());
    let told = scene.told(1, "cronjob-controller").await;
    assert_eq!(told, [format!("SuccessfulCreate Created job {AT_ELEVEN}")]);
    let requests = scene.requests.lock().unwrap();
    let batch = "/apis/batch/v1/namespaces/ops/";
    let others = requests
        .iter()
        .filter(|(_, path, _)| !path.ends_with("/events"));
    for (_, path, _) in others {
        assert!(path.starts_with(batch), "{path}");
    }
    let statuses = requests
        .iter()
        .filter(|(_, path, _)| path.ends_with(STATUS));
    for (_, _, patch) in statuses {
        let fields: Vec<_> = patch["status"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["active"]);
    }
    let job = requests.iter().find(|(_, path, _)| path.ends_with("/jobs"));
    assert_eq!(
        job.unwrap().2["metadata"]["labels"],
        Value::Null,
        "as upstream makes it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_large_template_is_read_again_and_none_that_was_changed_is_used() {
    let text = "x".repeat(20 << 10);
    let containers = json!([{"name": "c", "args": [text]}]);
    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let large = cron(13, &json!({"jobTemplate": template}), &json!({}));
    let mut changed = large.clone();
    changed["metadata"]["generation"] = json!(2);
    for (stored, many) in [(&large, 1), (&changed, 0)] {
        let scene = Scene::new(with(stored));
        scene.see::<Ours>(&large);
        scene.work_for(Duration::from_secs(5)).await;
        let jobs = scene.sent(&Method::POST, JOBS);
        assert_eq!(jobs.len(), many);
        for job in jobs {
            assert_eq!(job["spec"]["template"]["spec"]["containers"], containers);
        }
        assert!(!scene.sent(&Method::GET, "/cronjobs/report").is_empty());
    }
}

/// A planner that starts what is not promised.
fn unpromised(snapshot: &cron_job::Snapshot<'_>, now: Timestamp) -> Plan {
    let run = cron_job::action::Run {
        kind: ChildKind::Job,
        name: format!("{}-1", snapshot.cron.meta.owner.name),
        time: now,
        request: None,
    };
    Plan {
        steps: vec![Step::wanted(vec![Action::CreateChild(run)])],
        ..Plan::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_a_run_that_is_not_promised_is_refused_and_the_status_says_so() {
    let rules = Rules {
        plan: unpromised,
        ..Rules::default()
    };
    let mut scene = Scene::ruled(rules, with(&hourly()));
    scene.see::<Ours>(&hourly());
    let told = scene.told(1, REPORTER).await;
    assert!(told[0].starts_with(reasons::INTERLOCK_TRIPPED), "{told:?}");
    assert_eq!(scene.made(), [""; 0]);
    let stalled = &scene.statuses()[0]["conditions"][0];
    assert_eq!(
        [&stalled["type"], &stalled["status"], &stalled["reason"]],
        ["Stalled", "True", reasons::INTERLOCK_TRIPPED]
    );
    let trips = &scene.controller.core.metrics.interlock_trips;
    assert!(
        trips
            .with_label_values(&[CONTROLLER, rules::PROMISED_FIRST])
            .get()
            > 0
    );
    // Without it, the run would be started.
    let rules = Rules {
        plan: unpromised,
        verify: |_, _, _| Ok(()),
    };
    let mut scene = Scene::ruled(rules, with(&hourly()));
    scene.see::<Ours>(&hourly());
    scene.work_until(|scene| scene.made() == ["report-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_flight_recorder_keeps_is_enough_to_decide_again() {
    let rules = Rules {
        plan,
        ..Rules::default()
    };
    let scene = Scene::ruled(rules, with(&hourly()));
    let job = run(1, "report-29454360", &json!({}));
    scene.see::<SlimNativeJob>(&job);
    scene.see::<Ours>(&hourly());
    scene.work_for(Duration::from_secs(5)).await;
    let decision = scene.controller.core.flights.decisions(&key()).remove(0);
    let objects = [(Kind::NativeJob, job), (Kind::CronJob, hourly())];
    let again = |objects: &[(Kind, Value)]| replay::<CronJobs>(objects.iter().cloned(), &decision);
    assert_eq!(again(&objects).unwrap(), decision.digest);
    let without = again(&objects[1..]);
    assert!(without.is_err() || without.unwrap() != decision.digest);
}
