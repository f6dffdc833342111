//! Crashes, fail-over and paused leaders: every node runs once, counted from the API server's own
//! record.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use carillon_testbed::{Operator, Options, Signal, wait};
use carillon_tests::lab::{self, Bench, leads};
use serde_json::{Value, json};

const NODES: usize = 100;

/// Every node had one pod, created once and bound once, and has one result: that it succeeded.
///
/// A client that is killed while its creation is under way leaves an audit entry without a good
/// answer although the pod is stored. So what exists is read from the store, what ran from the
/// bindings, and the creations only say that nothing was created twice.
fn assert_each_node_ran_once(bench: &Bench<'_>, job: &str) {
    let mut created: BTreeMap<String, usize> = BTreeMap::new();
    for pod in bench.creations(job) {
        *created.entry(pod).or_default() += 1;
    }
    assert!(created.values().all(|times| *times == 1), "{created:?}");
    let (mut nodes, mut pods) = (BTreeMap::new(), BTreeMap::new());
    for event in bench.requests() {
        if event.subresource == "binding" && event.is_stored_write() {
            let target = event
                .request_object
                .as_ref()
                .and_then(|body| body.pointer("/target/name"));
            let node = target
                .and_then(Value::as_str)
                .expect("a binding names its node")
                .to_owned();
            *nodes.entry(node).or_insert(0) += 1;
            *pods.entry(event.name.clone()).or_insert(0) += 1;
        }
    }
    assert_eq!(nodes.len(), NODES, "nodes that were given a pod");
    assert!(nodes.values().all(|times| *times == 1), "{nodes:?}");
    assert_eq!(pods.len(), NODES, "pods that were given a node");
    for pod in created.keys() {
        assert!(pods.contains_key(pod), "{pod} was created and never ran");
    }
    for pod in pods.keys().filter(|pod| !created.contains_key(*pod)) {
        let unanswered = bench.requests().into_iter().find(|event| {
            (event.verb.as_str(), event.resource.as_str()) == ("create", "pods")
                && event.subresource.is_empty()
                && event.name == **pod
        });
        let unanswered = unanswered.expect("nobody asked for this pod");
        println!(
            "{pod} was stored, its creator was answered {:?}",
            unanswered.code
        );
    }

    let results = bench.results(job);
    assert_eq!(results.len(), NODES);
    assert!(
        results
            .iter()
            .all(|result| result["state"] == "Succeeded" && result["attempt"] == 1)
    );
    let uids = |values: Vec<&Value>| -> BTreeSet<String> {
        let text = |uid: &Value| uid.as_str().unwrap_or_default().to_owned();
        values.into_iter().map(text).collect()
    };
    let stored = bench.pods(job);
    assert_eq!(
        uids(stored.iter().map(|pod| &pod["metadata"]["uid"]).collect()),
        uids(results.iter().map(|result| &result["podUID"]).collect()),
        "the pods in the store are those of the results"
    );
    let status = &bench.get(job)["status"];
    assert_eq!(
        (&status["succeeded"], &status["done"]),
        (&json!(NODES), &json!("100/100"))
    );
}

fn succeeded(bench: &Bench<'_>, job: &str) -> u64 {
    bench.get(job)["status"]["succeeded"].as_u64().unwrap_or(0)
}

#[test]
fn an_operator_killed_five_times_runs_each_of_a_hundred_nodes_exactly_once() {
    let cluster = lab::cluster("killed", NODES);
    let bench = lab::bench(&cluster, "killed");
    // Without election a new process works at once, so that each life is a working one.
    let options = Options::new("operator").arg("--leader-elect=false");
    let mut operator = Operator::start(&cluster, &options).unwrap();
    let fates = json!({"*": {"run-time": "1s"}});
    bench.apply(&bench.job("fix", &fates, &json!({"parallelism": 12})));
    for kill in 1..=5 {
        // Killed in different stages: the moments between writes are the interesting ones.
        bench.until("the run goes on", || {
            (succeeded(&bench, "fix") >= kill * 14).then_some(())
        });
        operator.process.kill().unwrap();
        operator = Operator::start(&cluster, &options).unwrap();
    }
    assert!(
        succeeded(&bench, "fix") < NODES as u64,
        "killed while it ran"
    );
    bench.wait("fix", "Complete");
    assert_each_node_ran_once(&bench, "fix");
}

const LEASE: [&str; 4] = [
    "--lease-namespace=default",
    "--lease-duration=4s",
    "--lease-renew-deadline=3s",
    "--lease-retry-period=500ms",
];

fn replica(name: &str) -> Options {
    LEASE
        .iter()
        .fold(Options::new(name), |options, arg| options.arg(arg))
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let probe = || Ok(condition().then_some(()));
    wait::until(
        what,
        lab::LIMIT,
        Duration::from_millis(50),
        probe,
        String::new,
    )
    .unwrap();
}

#[test]
fn a_leader_stopped_past_its_lease_and_continued_changes_nothing() {
    let cluster = lab::cluster("paused", NODES);
    let bench = lab::bench(&cluster, "paused");
    let first = Operator::start(&cluster, &replica("first")).unwrap();
    until("the first replica leads", || leads(&first));
    let second = Operator::start(&cluster, &replica("second")).unwrap();
    let fates = json!({"*": {"run-time": "1s"}});
    bench.apply(&bench.job("fix", &fates, &json!({"parallelism": 10})));
    bench.until("the run goes on", || {
        (succeeded(&bench, "fix") >= 10).then_some(())
    });

    first.process.signal(Signal::STOP).unwrap();
    until("the second replica leads", || leads(&second));
    bench.until("the second replica works", || {
        (succeeded(&bench, "fix") >= 40).then_some(())
    });
    first.process.signal(Signal::CONT).unwrap();
    let exit = first.process.wait_exit(Duration::from_secs(30)).unwrap();
    assert!(exit.is_some(), "a leader that has lost its lease exits");

    bench.wait("fix", "Complete");
    assert_each_node_ran_once(&bench, "fix");
}

#[test]
fn a_stopping_leader_hands_over_at_once() {
    let cluster = lab::cluster("handover", 4);
    let bench = lab::bench(&cluster, "handover");
    // A lease that long would keep the second replica waiting if it were not given back.
    let long = |name: &str| {
        Options::new(name)
            .arg("--lease-namespace=default")
            .arg("--lease-duration=600s")
            .arg("--lease-renew-deadline=300s")
            .arg("--lease-retry-period=500ms")
    };
    let first = Operator::start(&cluster, &long("first")).unwrap();
    until("the first replica leads", || leads(&first));
    let second = Operator::start(&cluster, &long("second")).unwrap();
    assert!(!leads(&second));
    // What the API server says about a webhook that does not answer leaves nothing open.
    bench.apply(&nobody_admits("handover"));
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "handover"},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]}});
    until("no pod is admitted", || {
        let probe = ["create", "--dry-run=server", "-f", "-"];
        cluster.kubectl_stdin(probe, &pod.to_string()).is_err()
    });
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    until("the job says so", || {
        let job = bench.get("fix").to_string();
        job.contains("failed calling webhook")
    });
    first.process.signal(Signal::TERM).unwrap();
    let exit = first.process.wait_exit(Duration::from_secs(30)).unwrap();
    assert!(
        exit.is_some_and(|status| status.contains('0')),
        "it ends in order"
    );
    until("the second replica leads", || leads(&second));
    cluster
        .kubectl_ok(["delete", "validatingwebhookconfiguration", "nobody"])
        .unwrap();
    bench.wait("fix", "Complete");
}

/// A webhook for the pods of a namespace that nobody answers. The API server does not get to a dry run of them, either.
fn nobody_admits(namespace: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "nobody"},
        "webhooks": [{
            "name": "nobody.testbed.carillon.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods"], "operations": ["CREATE"],
            }],
        }],
    })
}
