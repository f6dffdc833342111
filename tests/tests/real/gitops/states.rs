//! Stored objects of every state, and what the tools have to make of each.

use std::sync::OnceLock;

use carillon_testbed::Fate;
use carillon_tests::lab::{Bench, condition_of, is, lab};
use carillon_tests::{kubectl, namespace};
use serde_json::{Value, json};

/// An object as it is stored.
pub(super) struct State {
    /// Its name, which says what it is.
    pub(super) name: &'static str,
    pub(super) object: Value,
    /// What kstatus says.
    pub(super) kstatus: &'static str,
    /// What the health check for Argo CD says; `None` where it is not asked.
    pub(super) health: Option<&'static str>,
    /// The actions that Argo CD offers, in order.
    pub(super) actions: Vec<&'static str>,
}

/// A row of the tables below: a state, what kstatus says, what Argo CD says, which actions it offers.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Of what is being deleted the health check is not asked.
const NOT_ASKED: &str = "";

const BROADCAST_JOBS: [Row; 10] = [
    ("new", "InProgress", "Progressing", "pause"),
    ("runs", "InProgress", "Progressing", "pause"),
    ("done", "Current", "Healthy", ""),
    (
        "done-with-failures",
        "Current",
        "Healthy",
        "retry-unfinished",
    ),
    ("failed", "Failed", "Degraded", "retry-unfinished"),
    ("stalled", "Failed", "Degraded", "pause"),
    ("paused", "InProgress", "Suspended", "resume"),
    ("paused-by-failure", "Failed", "Degraded", "pause resume"),
    ("never-ends", "Current", "Healthy", "pause"),
    ("deleting", "Terminating", NOT_ASKED, ""),
];

const CRON_JOBS: [Row; 5] = [
    ("cron-new", "InProgress", "Progressing", "suspend trigger"),
    ("cron-scheduled", "Current", "Healthy", "suspend trigger"),
    ("cron-suspended", "Current", "Suspended", "resume trigger"),
    ("cron-stalled", "Failed", "Degraded", "suspend trigger"),
    ("cron-deleting", "Terminating", NOT_ASKED, ""),
];

const DAEMON_SETS: [Row; 7] = [
    ("set-new", "InProgress", "Progressing", "pause restart"),
    ("set-ready", "Current", "Healthy", "pause restart"),
    ("set-updating", "InProgress", "Progressing", "pause restart"),
    ("set-paused", "InProgress", "Suspended", "resume"),
    ("set-stalled", "Failed", "Degraded", "pause restart"),
    ("set-keeps-old-pods", "Current", "Healthy", "restart"),
    ("set-deleting", "Terminating", NOT_ASKED, ""),
];

/// All states, made once.
pub(super) fn states() -> &'static [State] {
    static STATES: OnceLock<Vec<State>> = OnceLock::new();
    STATES.get_or_init(make)
}

fn make() -> Vec<State> {
    let bench = lab().bench("gitops", 2);
    // It is left out of the jobs.
    let beyond = [("bench", "beyond-gitops")];
    lab().cluster.add_nodes(1, &beyond, &[]).unwrap();
    let unseen = namespace("gitops-unseen");
    let objects = [
        broadcast_jobs(&bench),
        cron_jobs(&bench),
        daemon_sets(&bench),
    ]
    .concat();
    for object in &objects {
        // The API server of these tests has no operator beside it.
        if object["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("new"))
        {
            let mut object = object.clone();
            object["metadata"]["namespace"] = json!(unseen);
            kubectl(&["create", "-f", "-"], Some(&object.to_string())).succeeded();
        } else {
            bench.apply(object);
        }
    }
    change(&bench);
    let rows = BROADCAST_JOBS.iter().chain(&CRON_JOBS).chain(&DAEMON_SETS);
    let states: Vec<State> = rows
        .map(|&(name, kstatus, health, actions)| State {
            name,
            object: stored(&bench, &unseen, name),
            kstatus,
            health: Some(health).filter(|health| *health != NOT_ASKED),
            actions: actions.split_whitespace().collect(),
        })
        .collect();
    assert_eq!(states.len(), objects.len(), "a state that nobody looks at");
    states
}

pub(super) fn resource(name: &str) -> String {
    let kind = match name.split_once('-') {
        Some(("cron", _)) => "cronjobs",
        Some(("set", _)) => "daemonsets",
        _ => "broadcastjobs",
    };
    format!("{kind}.carillon.dev/{name}")
}

/// What `kubectl get` gives now.
pub(super) fn get(bench: &Bench<'_>, name: &str) -> Value {
    let text = bench.kubectl(&["get", &resource(name), "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

/// Whether an object is in the state that its name says.
fn has_come(name: &str, object: &Value) -> bool {
    let status = &object["status"];
    let reason = |type_: &str| {
        let condition = condition_of(object, type_);
        condition.map_or("", |condition| {
            condition["reason"].as_str().unwrap_or_default()
        })
    };
    let seen = status["observedGeneration"] == object["metadata"]["generation"];
    seen && match name {
        "runs" | "deleting" => status["active"] == 2,
        "done" => reason("Complete") == "AllNodesSucceeded",
        "done-with-failures" => reason("Complete") == "CompletedWithFailures",
        "failed" => is(object, "Failed"),
        "paused" => reason("Paused") == "PausedByUser",
        "paused-by-failure" => reason("Paused") == "PausedByFailure" && is(object, "Stalled"),
        "never-ends" => reason("Reconciling") == "WaitingForNodes",
        "stalled" | "cron-stalled" | "set-stalled" => is(object, "Stalled"),
        "set-ready" | "set-deleting" => is(object, "Ready"),
        "set-updating" => status["waitingFor"][0]["reason"] == "PodNotStarted",
        "set-paused" => condition_of(object, "Progressing").is_some_and(|c| c["status"] == "False"),
        "set-keeps-old-pods" => is(object, "Ready") && status["updated"] == "0/2",
        _ => true,
    }
}

fn stored(bench: &Bench<'_>, unseen: &str, name: &str) -> Value {
    if name.ends_with("new") {
        let object = kubectl(&["get", &resource(name), "-n", unseen, "-o", "json"], None).json();
        assert_eq!(object["status"]["observedGeneration"], -1, "{object}");
        return object;
    }
    let come = || Some(get(bench, name)).filter(|object| has_come(name, object));
    let object = bench.until(&format!("{name} has come"), come);
    if !name.ends_with("deleting") {
        return object;
    }
    bench.kubectl(&["delete", "--wait=false", &resource(name)]);
    get(bench, name)
}

/// What is only so after a change.
fn change(bench: &Bench<'_>) {
    for name in ["set-paused", "set-keeps-old-pods"] {
        let ready = || is(&get(bench, name), "Ready").then_some(());
        bench.until(&format!("{name} is ready"), ready);
        let mut spec = json!({"template": {"spec": {"terminationGracePeriodSeconds": 1}}});
        if name == "set-paused" {
            spec["updateStrategy"] = json!({"rollingUpdate": {"paused": true}});
        }
        let patch = json!({"spec": spec}).to_string();
        bench.kubectl(&["patch", &resource(name), "--type=merge", "-p", &patch]);
    }
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

fn broadcast_jobs(bench: &Bench<'_>) -> Vec<Value> {
    let first = bench.nodes[0].as_str();
    let none = json!({});
    let fails = json!({first: {"exit-code": 3, "message": "disk full"}});
    let hangs = json!({"*": {"fate": "hang"}});
    let policy = |policy: &str| json!({"parallelism": 1, "failurePolicy": {"type": policy}});
    let gone = json!({"retryOf": {"name": "gone", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"}});
    vec![
        bench.job("new", &none, &none),
        bench.job("runs", &hangs, &none),
        bench.job("done", &none, &none),
        bench.job("done-with-failures", &fails, &policy("Continue")),
        bench.job(
            "failed",
            &fails,
            &json!({"failurePolicy": {"type": "FailFast"}}),
        ),
        bench.job("stalled", &none, &gone),
        bench.job("paused", &none, &json!({"paused": true})),
        bench.job(
            "paused-by-failure",
            &fails,
            &json!({"failurePolicy": {"type": "Pause"}}),
        ),
        bench.job(
            "never-ends",
            &none,
            &json!({"completionPolicy": {"type": "Never"}}),
        ),
        held(bench.job("deleting", &hangs, &none)),
    ]
}

fn cron_jobs(bench: &Bench<'_>) -> Vec<Value> {
    let cron = |name: &str, more: &Value| {
        let spec = json!({"restartPolicy": "Never", "nodeSelector": bench.node_selector,
                          "containers": [{"name": "main", "image": "busybox:1.37"}]});
        let mut object = json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "CronJob",
            "metadata": {"name": name, "namespace": bench.name},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": spec}}}},
        });
        carillon_tests::lab::merge(&mut object["spec"], more);
        object
    };
    vec![
        cron("cron-new", &json!({})),
        cron("cron-scheduled", &json!({})),
        cron("cron-suspended", &json!({"suspend": true})),
        cron("cron-stalled", &json!({"schedule": "0 0 31 2 *"})),
        held(cron("cron-deleting", &json!({}))),
    ]
}

fn daemon_sets(bench: &Bench<'_>) -> Vec<Value> {
    let set = |name: &str, fate: &Fate, more: &Value| {
        let mut object = json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": bench.name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}, "annotations": fate.annotations()},
                    "spec": {
                        "nodeSelector": bench.node_selector,
                        "containers": [{"name": "main", "image": "busybox:1.37"}],
                    },
                },
            },
        });
        carillon_tests::lab::merge(&mut object["spec"], more);
        object
    };
    let fine = Fate::default();
    let none = json!({});
    let never = json!([{"key": "controller-revision-hash", "operator": "DoesNotExist"}]);
    vec![
        set("set-new", &fine, &none),
        set("set-ready", &fine, &none),
        set(
            "set-updating",
            &Fate::never_starts("ImagePullBackOff"),
            &none,
        ),
        set("set-paused", &fine, &none),
        set(
            "set-stalled",
            &fine,
            &json!({"selector": {"matchExpressions": never}}),
        ),
        set(
            "set-keeps-old-pods",
            &fine,
            &json!({"updateStrategy": {"type": "OnDelete"}}),
        ),
        held(set("set-deleting", &fine, &none)),
    ]
}
