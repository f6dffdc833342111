//! What Carillon would do otherwise than kube-controller-manager.

use carillon_testbed::{Component, Fate};
use carillon_tests::lab::Bench;
use serde_json::{Value, json};

use super::ward::{Report, turn};

#[track_caller]
fn all_as_now(report: &Report, found: &str) {
    report.is_ok("shadow");
    assert_eq!(report.check("shadow")["found"], found);
}

#[test]
fn a_shadow_of_what_kube_controller_manager_serves_differs_only_where_that_has_something_to_do() {
    let turn = turn();
    let bench = turn.bench("doctor-shadow");
    let template = json!({"metadata": {"labels": {"app": "agent"}},
                          "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}});
    bench.apply(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": bench.name},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }));
    bench.apply(&json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "report", "namespace": bench.name},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37"}]}}}}},
    }));
    bench.kubectl(&["rollout", "status", "ds/agent"]);
    let shadow = || Report::of(&turn.ask(Some(bench.name), &["--shadow", "-o", "json"]));
    all_as_now(
        &shadow(),
        "1 DaemonSet, 1 CronJob, 0 Jobs: 2 as now, 0 otherwise",
    );

    let cluster = &turn.ward.cluster;
    cluster.kill(Component::ControllerManager).unwrap();
    let pods = turn.get(&["pods", "-l", "app=agent", "-n", bench.name]);
    let pod = &pods["items"][0];
    let (name, node) = (&pod["metadata"]["name"], &pod["spec"]["nodeName"]);
    bench.kubectl(&["delete", "pod", name.as_str().unwrap(), "--now"]);
    let report = shadow();
    let what = format!("Carillon would create a pod: on {}", node.as_str().unwrap());
    report.finds("shadow", "Warning", "DaemonSet doctor-shadow/agent", &what);
    cluster.restart(Component::ControllerManager).unwrap();
    bench.until("the pod is back", || {
        let set = turn.get(&["ds", "agent", "-n", bench.name]);
        (set["status"]["numberAvailable"] == 4).then_some(())
    });
    bench.until("nothing would be done", || {
        (shadow().check("shadow")["result"] == "Ok").then_some(())
    });
    bench.kubectl(&["delete", "ds,cj", "--all"]);
}

/// A Job of batch/v1 whose pods have this fate; `spec` is laid over a usable one.
fn job(bench: &Bench<'_>, name: &str, fate: &Fate, spec: &Value) {
    let mut object = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": bench.name},
        "spec": {"template": {
            "metadata": {"annotations": fate.annotations()},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "main", "image": "busybox:1.37"}]},
        }},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    bench.apply(&object);
}

/// Jobs in all states that last, as kube-controller-manager has brought them there.
fn jobs(bench: &Bench<'_>) {
    let (hangs, fails) = (Fate::hangs(), Fate::exits(42, ""));
    let short = Fate::default().with("run-time", "100ms");
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let all = [
        (
            "suspended",
            &hangs,
            json!({"suspend": true, "parallelism": 2}),
        ),
        (
            "lowered",
            &hangs,
            json!({"parallelism": 3, "completions": 9}),
        ),
        ("waits", &fails, json!({"backoffLimit": 9})),
        ("late", &hangs, json!({"activeDeadlineSeconds": 1})),
        (
            "ruled",
            &fails,
            json!({"podFailurePolicy": {"rules": [rule]}}),
        ),
        ("done", &short, json!({"completions": 2, "parallelism": 2})),
        (
            "indexed",
            &fails,
            json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
                                   "backoffLimitPerIndex": 9, "maxFailedIndexes": 2}),
        ),
    ];
    for (name, fate, spec) in all {
        job(bench, name, fate, &spec);
    }
    let status = |name: &str| {
        let job = bench.kubectl(&["get", "job", name, "-o", "json"]);
        serde_json::from_str::<Value>(&job).unwrap()["status"].clone()
    };
    let condition = |name: &str, type_: &str| {
        let status = status(name);
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions
            .any(|one| one["type"] == type_ && one["status"] == "True")
            .then_some(())
    };
    bench.until("three run", || {
        (status("lowered")["ready"] == 3).then_some(())
    });
    bench.kubectl(&[
        "patch",
        "job",
        "lowered",
        "-p",
        r#"{"spec": {"parallelism": 1}}"#,
    ]);
    bench.until("one runs", || {
        let status = status("lowered");
        (status["ready"] == 1 && status["terminating"] == 0).then_some(())
    });
    let ends = [
        ("suspended", "Suspended"),
        ("late", "Failed"),
        ("ruled", "Failed"),
        ("done", "Complete"),
    ];
    for (name, type_) in ends {
        bench.until(&format!("{name} is {type_}"), || condition(name, type_));
    }
    bench.until("one has failed", || {
        (status("waits")["failed"].as_i64() >= Some(1)).then_some(())
    });
    bench.until("an index waits", || {
        (status("indexed")["active"].as_i64() < Some(3)).then_some(())
    });
}

#[test]
fn with_jobs_that_kube_controller_manager_has_brought_where_they_are_a_shadow_finds_no_difference()
{
    let turn = turn();
    let bench = turn.bench("doctor-shadow-jobs");
    jobs(&bench);
    let shadow = || Report::of(&turn.ask(Some(bench.name), &["--shadow", "-o", "json"]));
    all_as_now(
        &shadow(),
        "0 DaemonSets, 0 CronJobs, 7 Jobs: 7 as now, 0 otherwise",
    );

    let cluster = &turn.ward.cluster;
    cluster.kill(Component::ControllerManager).unwrap();
    bench.kubectl(&[
        "patch",
        "job",
        "suspended",
        "-p",
        r#"{"spec": {"suspend": false}}"#,
    ]);
    bench.kubectl(&[
        "patch",
        "job",
        "lowered",
        "-p",
        r#"{"spec": {"activeDeadlineSeconds": 1}}"#,
    ]);
    let report = shadow();
    let place = |name: &str| format!("Job {}/{name}", bench.name);
    for (name, says) in [
        (
            "suspended",
            "create a pod (spec.parallelism 2) 2 times: suspended-",
        ),
        ("suspended", "resume it: spec.suspend"),
        (
            "lowered",
            "fail it: DeadlineExceeded (spec.activeDeadlineSeconds)",
        ),
        ("lowered", "delete a pod (the Job ends): lowered-"),
    ] {
        let found = report.finds("shadow", "Warning", &place(name), says);
        let known = found["remedies"][0]["what"].as_str().unwrap();
        assert!(known.ends_with("docs/job.md#what-is-different"), "{known}");
    }
    for name in ["late", "ruled", "done"] {
        let mut findings = report.check("shadow")["findings"]
            .as_array()
            .unwrap()
            .iter();
        assert!(
            !findings.any(|one| one["where"] == *place(name)),
            "{name}: {report:#?}"
        );
    }
    cluster.restart(Component::ControllerManager).unwrap();
    bench.until("nothing would be done", || {
        (shadow().check("shadow")["result"] == "Ok").then_some(())
    });
    bench.kubectl(&["delete", "jobs", "--all"]);
}
