//! Each action for Argo CD is taken on a real object: the API server takes what it asks, and the operator does what it
//! says.

use std::collections::BTreeSet;

use carillon_tests::lab::{Bench, condition_of, lab};
use serde_json::{Value, json};

use super::argo::{Asked, act, defined, offered};
use super::states::{get, resource, states};

const KINDS: [&str; 3] = ["BroadcastJob", "CronJob", "DaemonSet"];

/// Takes an action as Argo CD does, which offers it.
fn take(bench: &Bench<'_>, action: &str, name: &str) -> Value {
    let object = get(bench, name);
    let kind = object["kind"].as_str().unwrap();
    let offered = offered(kind, &object);
    assert!(
        offered.iter().any(|one| one == action),
        "{name}: {offered:?}"
    );
    match act(kind, action, &object) {
        Asked::Patch(patch) => {
            let text = patch.to_string();
            bench.kubectl(&["patch", &resource(name), "--type=merge", "-p", &text]);
            patch
        }
        Asked::Create(new) => {
            let input = new.to_string();
            let created = ["create", "--validate=strict", "-f", "-"];
            bench.cluster.kubectl_stdin(created, &input).unwrap();
            new
        }
    }
}

fn reason(object: &Value, type_: &str) -> String {
    let condition = condition_of(object, type_).filter(|c| c["status"] == "True");
    let reason = condition.and_then(|c| c["reason"].as_str());
    reason.unwrap_or_default().to_owned()
}

fn until(bench: &Bench<'_>, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    bench.until(&format!("{name}: {what}"), || {
        Some(get(bench, name)).filter(|object| is_so(object))
    })
}

#[test]
fn each_action_that_is_defined_is_offered_in_some_state() {
    for kind in KINDS {
        let of_kind = states().iter().filter(|state| state.object["kind"] == kind);
        let offered: BTreeSet<&str> = of_kind.flat_map(|state| state.actions.clone()).collect();
        let defined = defined(kind);
        assert_eq!(
            offered,
            defined.iter().map(String::as_str).collect(),
            "{kind}"
        );
    }
}

#[test]
fn a_broadcastjob_is_paused_and_resumed() {
    let bench = lab().bench("argo-pause", 2);
    let one = json!({"parallelism": 1});
    bench.apply(&bench.job("switched", &json!({"*": {"run-time": "3s"}}), &one));
    until(&bench, "switched", "is at work", |job| {
        job["status"]["active"] == 1
    });
    let patch = take(&bench, "pause", "switched");
    assert_eq!(patch, json!({"spec": {"paused": true}}));
    let paused =
        |job: &Value| reason(job, "Paused") == "PausedByUser" && job["status"]["active"] == 0;
    let job = until(&bench, "switched", "is paused", paused);
    assert_eq!(job["status"]["succeeded"], 1);
    let patch = take(&bench, "resume", "switched");
    assert_eq!(patch, json!({"spec": {"paused": false}}));
    assert_eq!(bench.wait("switched", "Complete")["status"]["succeeded"], 2);
}

#[test]
fn a_broadcastjob_that_a_failure_has_paused_goes_on_until_the_next_failure() {
    let bench = lab().bench("argo-resume", 2);
    let policy = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("fails", &json!({"*": {"exit-code": 3}}), &policy));
    let paused = |failed: i64| {
        move |job: &Value| {
            reason(job, "Paused") == "PausedByFailure" && job["status"]["failed"] == failed
        }
    };
    until(&bench, "fails", "is paused", paused(1));
    let patch = take(&bench, "resume", "fails");
    let asked = &patch["metadata"]["annotations"]["carillon.dev/resume"];
    assert!(asked.is_string(), "{patch}");
    let job = until(&bench, "fails", "is paused again", paused(2));
    assert_eq!(job["status"]["lastHandledResume"], *asked);
    assert_eq!(job["status"]["acknowledgedFailedNodes"], 1);
}

#[test]
fn what_has_failed_is_run_again_by_a_job_of_its_own_and_what_has_succeeded_is_not() {
    let bench = lab().bench("argo-retry", 3);
    let failed = bench.nodes[1].clone();
    let mut job = bench.job(
        "fix",
        &json!({&failed: {"exit-code": 3}}),
        &json!({"failurePolicy": {"type": "Continue"}, "parallelism": "50%"}),
    );
    job["metadata"]["labels"] = json!({"team": "nodes", "app.kubernetes.io/instance": "fleet"});
    job["spec"]["template"]["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    bench.apply(&job);
    bench.wait("fix", "Complete");
    let retry = take(&bench, "retry-unfinished", "fix");
    let name = "fix-retry-1";
    assert_eq!(retry["metadata"]["name"], name);
    assert_eq!(retry["metadata"]["labels"], json!({"team": "nodes"}));
    assert_eq!(retry["spec"]["retryOf"]["knownRetries"], 0);
    bench.wait(name, "Complete");
    let nodes = |job: &str| -> Vec<Value> {
        let results = bench.results(job);
        results
            .iter()
            .map(|result| result["nodeName"].clone())
            .collect()
    };
    assert_eq!(nodes(name), [json!(failed)]);
    // Once it is known, another one may be made.
    let entered = |job: &Value| job["status"]["retries"][0]["name"] == name;
    until(&bench, "fix", "knows its retry", entered);
    let retry = take(&bench, "retry-unfinished", "fix");
    assert_eq!(retry["metadata"]["name"], "fix-retry-2");
    assert_eq!(retry["spec"]["retryOf"]["knownRetries"], 1);
    bench.wait("fix-retry-2", "Complete");
    assert_eq!(nodes("fix-retry-2"), [json!(failed)]);
}

#[test]
fn no_retry_is_offered_of_a_retry_or_of_what_lua_cannot_copy() {
    let state = states()
        .iter()
        .find(|state| state.name == "done-with-failures");
    let offers = |change: &dyn Fn(&mut Value)| {
        let mut object = state.unwrap().object.clone();
        change(&mut object);
        !offered("BroadcastJob", &object).is_empty()
    };
    assert!(offers(&|_| {}));
    assert!(!offers(&|job| {
        job["spec"]["retryOf"] = json!({"name": "first", "uid": "u"});
    }));
    // An empty selector selects everything, an absent one nothing.
    assert!(!offers(&|job| {
        let term = json!({"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"});
        job["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }));
    assert!(!offers(
        &|job| job["metadata"]["name"] = json!("x".repeat(54))
    ));
    assert!(!offers(&|job| {
        let retry = json!({"name": "r", "uid": "u"});
        job["status"]["retries"] = json!(vec![retry; 100]);
    }));
}

#[test]
fn a_cronjob_is_suspended_triggered_and_resumed() {
    let bench = lab().bench("argo-cron", 1);
    bench.apply(&json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "cron-report", "namespace": bench.name},
        "spec": {"schedule": "0 0 1 1 *", "broadcastJobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "nodeSelector": bench.node_selector,
            "containers": [{"name": "main", "image": "busybox:1.37"}],
        }}}}},
    }));
    let cron =
        |what: &str, is_so: &dyn Fn(&Value) -> bool| until(&bench, "cron-report", what, is_so);
    cron("is seen", &|cron| cron["status"]["summary"] == "Scheduled");
    assert_eq!(
        take(&bench, "suspend", "cron-report"),
        json!({"spec": {"suspend": true}})
    );
    cron("is suspended", &|cron| {
        cron["status"]["summary"] == "Suspended"
    });
    let patch = take(&bench, "trigger", "cron-report");
    let asked = patch["metadata"]["annotations"]["carillon.dev/run-now"]
        .as_str()
        .unwrap();
    let (_, word) = asked.split_once('/').unwrap();
    let ran = |cron: &Value| cron["status"]["handledRunNow"] == json!([word]);
    cron("has run", &ran);
    let runs = bench.kubectl(&["get", "cbj", "-o", "name"]);
    assert_eq!(runs.lines().count(), 1, "{runs}");
    assert_eq!(
        take(&bench, "resume", "cron-report"),
        json!({"spec": {"suspend": false}})
    );
    cron("is resumed", &|cron| {
        cron["status"]["summary"] == "Scheduled"
    });
}

/// The pods that exist. A name may come back.
fn pods(bench: &Bench<'_>) -> BTreeSet<String> {
    let uids = "-o=jsonpath={range .items[*]}{.metadata.uid}{'\\n'}{end}";
    let uids = bench.kubectl(&["get", "pods", uids]);
    uids.lines().map(str::to_owned).collect()
}

#[test]
fn a_daemon_set_is_restarted_and_its_update_is_paused_and_resumed() {
    let bench = lab().bench("argo-daemons", 2);
    bench.apply(&json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": "set-agent", "namespace": bench.name},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"nodeSelector": bench.node_selector,
                         "containers": [{"name": "main", "image": "busybox:1.37"}]},
            },
        },
    }));
    let is = |summary: &'static str, updated: &'static str| {
        move |set: &Value| {
            let status = &set["status"];
            let seen = status["observedGeneration"] == set["metadata"]["generation"];
            seen && status["summary"] == summary && status["updated"] == updated
        }
    };
    let set = |summary: &'static str, updated: &'static str| {
        until(&bench, "set-agent", summary, is(summary, updated));
    };
    set("Complete", "2/2");
    let first = pods(&bench);
    take(&bench, "restart", "set-agent");
    set("Complete", "2/2");
    let second = pods(&bench);
    assert_eq!((first.len(), second.len()), (2, 2));
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");

    take(&bench, "pause", "set-agent");
    let other = r#"{"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}"#;
    bench.kubectl(&["patch", &resource("set-agent"), "--type=merge", "-p", other]);
    set("Paused", "0/2");
    let patch = take(&bench, "resume", "set-agent");
    assert_eq!(
        patch,
        json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": false}}}})
    );
    set("Complete", "2/2");
}
