//! What stands in the way of what is served.

use serde_json::{Value, json};

use super::ward::turn;
use crate::cli::cron_jobs::cron;
use crate::cli::daemon_sets::set;
use carillon_tests::lab::Bench;

/// A job that would start pods and is paused.
fn paused(bench: &Bench<'_>) {
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.wait("fix", "Paused");
}

#[test]
fn a_webhook_that_cannot_answer_refuses_our_pods() {
    let turn = turn();
    let bench = turn.bench("doctor-webhook");
    paused(&bench);
    let hook = |name: &str, namespace: &str, labels: &Value| {
        json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "clientConfig": {"service": {"namespace": "doctor-webhook", "name": "policy"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": labels},
        })
    };
    let ours = hook("pods.example.com", "doctor-webhook", &json!({}));
    let system = hook("system.example.com", "kube-system", &json!({"no": "pod"}));
    turn.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "doctor"}, "webhooks": [ours, system],
    }));
    let report = turn.report(None);
    let place = "ValidatingWebhookConfiguration doctor";
    let what = "a pod of BroadcastJob doctor-webhook/fix is created, and its service doctor-webhook/policy has no \
                endpoint";
    report.finds("webhooks", "Problem", place, what);
    report.finds("webhooks", "Info", place, "a pod in kube-system");
    // What the API server says of it itself. It takes a moment to know a webhook.
    bench
        .until("a pod is refused", || {
            let report = turn.report(Some(bench.name));
            (report.check("pods")["result"] == "Problem").then_some(report)
        })
        .finds(
            "pods",
            "Problem",
            "BroadcastJob doctor-webhook/fix",
            "failed calling webhook",
        );
    turn.kubectl(&["delete", "validatingwebhookconfiguration", "doctor"]);
    bench.until("no pod is refused", || {
        let report = turn.report(Some(bench.name));
        (report.check("pods")["result"] == "Ok").then_some(())
    });
    turn.report(Some(bench.name)).is_ok("webhooks");
    bench.kubectl(&["delete", "cbj", "fix"]);
}

#[test]
fn a_quota_without_room_for_a_pod_is_found() {
    let turn = turn();
    let bench = turn.bench("doctor-quota");
    paused(&bench);
    bench.kubectl(&["create", "quota", "none", "--hard=pods=0"]);
    bench.until("the quota is counted", || {
        let quota = turn.get(&["quota", "none", "-n", bench.name]);
        (quota["status"]["hard"]["pods"] == "0").then_some(())
    });
    let report = turn.report(Some(bench.name));
    let what = "of pods 0 are used of 0, and a pod takes 1: BroadcastJob doctor-quota/fix has to create one";
    report.finds("quotas", "Problem", "ResourceQuota doctor-quota/none", what);
    bench.kubectl(&["delete", "quota", "none"]);
    turn.report(Some(bench.name)).is_ok("quotas");
    bench.kubectl(&["delete", "cbj", "fix"]);
}

#[test]
fn a_taint_that_most_nodes_have_and_a_job_does_not_tolerate_is_found() {
    let turn = turn();
    let bench = turn.bench("doctor-taint");
    paused(&bench);
    turn.report(Some(bench.name)).is_ok("taints");
    let most = ["node-0000", "node-0001", "node-0002"];
    let taint = |taint: &str| {
        let args = [&["taint", "nodes"] as &[&str], &most, &[taint]].concat();
        turn.kubectl(&args);
    };
    taint("example.com/pool=gpu:NoSchedule");
    let report = turn.report(Some(bench.name));
    let what = "of the 4 nodes that it chooses 3 have a taint that it does not tolerate: taint \
                example.com/pool=gpu:NoSchedule on 3 (node-0000, node-0001, node-0002)";
    let found = report.finds("taints", "Warning", "BroadcastJob doctor-taint/fix", what);
    let write = found["remedies"][0]["write"].as_str().unwrap();
    assert!(write.contains("key: example.com/pool"), "{write}");
    taint("example.com/pool-");
    bench.kubectl(&["delete", "cbj", "fix"]);
}

#[test]
fn objects_that_wait_are_told_with_the_verb_to_type() {
    let turn = turn();
    let bench = turn.bench("doctor-objects");
    let fails = json!({"node-0001": {"exit-code": 3}});
    let pauses = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("fix", &fails, &pauses));
    bench.wait("fix", "Paused");
    bench.apply(&cron(
        &bench,
        "report",
        &json!({}),
        &json!({"suspend": true}),
    ));
    bench.apply(&cron(
        &bench,
        "never",
        &json!({}),
        &json!({"schedule": "0 0 31 2 *"}),
    ));
    let never =
        json!({"node-0000": {"fate": "never-starts", "waiting-reason": "ImagePullBackOff"}});
    bench.apply(&set(&bench, "busybox:1.37", &never, &json!({})));
    bench.until("all have a status", || {
        let cron = turn.get(&["ccj", "never", "-n", bench.name]);
        let set = turn.get(&["cds", "agent", "-n", bench.name]);
        let told = cron["status"]["summary"].is_string();
        let waits = set["status"]["waitingFor"][0]["reason"] == "PodNotStarted";
        (told && waits).then_some(())
    });
    let report = turn.report(None);
    let found = report.finds(
        "objects",
        "Warning",
        "BroadcastJob doctor-objects/fix",
        "Paused: 1 node failed",
    );
    let write = &found["remedies"][1]["write"];
    assert_eq!(write, "kubectl carillon -n doctor-objects resume fix");
    report.finds(
        "objects",
        "Problem",
        "CronJob doctor-objects/never",
        "Stalled: NeverFires",
    );
    report.finds(
        "objects",
        "Info",
        "CronJob doctor-objects/report",
        "suspended",
    );
    report.finds(
        "objects",
        "Info",
        "DaemonSet doctor-objects/agent",
        "1 node PodNotStarted (node-0000)",
    );
    // With -n the commands that are offered have it once.
    let text = turn.ask(Some(bench.name), &[]).ended_with(2).stdout;
    let offered = "\n      kubectl carillon -n doctor-objects resume fix\n";
    assert!(text.contains(offered), "{text}");
    assert!(!text.contains("-n doctor-objects -n"), "{text}");
    turn.kubectl(&["delete", "cbj,ccj,cds", "--all", "-n", bench.name]);
}
