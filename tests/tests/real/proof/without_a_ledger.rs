//! The oracle on a history made by a controller that keeps no ledger and lets the API server choose
//! names: it must find what such a controller does wrong. An oracle that never speaks proves nothing.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carillon_oracle::{Assumptions, Invariant, Violation, check};
use carillon_testbed::{Cluster, wait};
use carillon_tests::api::Api;
use carillon_tests::lab;
use carillon_tests::proof;
use serde_json::{Value, json};

const NAMESPACE: &str = "naive";
const NODES: usize = 3;

/// Lists, and creates what it finds missing, as many a first controller does.
struct Naive<'a> {
    api: Api,
    job: &'a Value,
}

/// What it saw: the nodes that have no pod.
struct Observed(Vec<String>);

impl<'a> Naive<'a> {
    fn new(kubeconfig: &Path, agent: &str, job: &'a Value) -> Self {
        let api = Api::new(kubeconfig, agent);
        Self { api, job }
    }

    fn observe(&self) -> Observed {
        let name = |object: &Value, pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let pods = self.api.list(&pods());
        let served: BTreeSet<String> = pods.iter().map(|pod| name(pod, "/spec/nodeName")).collect();
        let nodes = self.api.list("/api/v1/nodes");
        let nodes = nodes.iter().map(|node| name(node, "/metadata/name"));
        Observed(nodes.filter(|node| !served.contains(node)).collect())
    }

    /// Creates the missing pods and gives the revisions of their creation.
    fn act(&self, observed: Observed) -> Vec<u64> {
        let create = |node: String| {
            let pod = self.api.create(&pods(), &self.pod(&node));
            let revision = pod["metadata"]["resourceVersion"].as_str();
            revision.unwrap().parse().unwrap()
        };
        observed.0.into_iter().map(create).collect()
    }

    fn pod(&self, node: &str) -> Value {
        let metadata = &self.job["metadata"];
        let mut spec = self.job["spec"]["template"]["spec"].clone();
        spec["nodeName"] = json!(node);
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "fix-",
                "labels": {"carillon.dev/broadcastjob-uid": metadata["uid"]},
                "ownerReferences": [{
                    "apiVersion": self.job["apiVersion"], "kind": self.job["kind"],
                    "name": metadata["name"], "uid": metadata["uid"], "controller": true,
                }],
            },
            "spec": spec,
        })
    }
}

fn pods() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

/// The first violation of `invariant` by the naive controllers.
fn judge(cluster: &Cluster, invariant: Invariant) -> Violation {
    let history = proof::history(cluster);
    let assumptions = Assumptions {
        ours: Arc::new(|by| {
            by.user
                .starts_with(&format!("system:serviceaccount:{NAMESPACE}:"))
        }),
        ..Assumptions::default()
    };
    let violation = check(invariant, &history, &assumptions).expect_err("there is a violation");
    println!("{violation}\n{}", proof::lives(&history, &violation));
    *violation
}

/// It names the creation at `revision` and who asked for it.
fn assert_names_creation(violation: &Violation, revision: u64, (user, agent): (&str, &str)) {
    assert_eq!(violation.rev, revision, "the first bad revision");
    assert!(violation.before.is_none() && violation.after.is_some());
    let by = violation.by.as_ref().expect("the request that caused it");
    assert_eq!(by.user, format!("system:serviceaccount:{NAMESPACE}:{user}"));
    let asked = (by.agent.as_str(), by.verb.as_str(), by.uri.as_str());
    assert_eq!(asked, (agent, "create", &*pods()));
    assert_eq!(
        by.body.as_ref().unwrap()["metadata"]["generateName"],
        "fix-"
    );
    let report = violation.to_string();
    let said = format!("first bad revision {revision}");
    assert!(
        report.contains(&said) && report.contains(&by.user),
        "{report}"
    );
}

#[test]
fn the_oracle_finds_what_a_controller_without_a_ledger_does_wrong() {
    let cluster = lab::judged_cluster(NAMESPACE, NODES);
    cluster
        .kubectl_ok(["create", "namespace", NAMESPACE])
        .unwrap();
    let account = |name: &str| {
        let full = format!("{NAMESPACE}:{name}");
        let admin = format!("--serviceaccount={full}");
        cluster
            .kubectl_ok(["create", "serviceaccount", name, "-n", NAMESPACE])
            .unwrap();
        let bind = [
            "create",
            "clusterrolebinding",
            name,
            "--clusterrole=cluster-admin",
            &admin,
        ];
        cluster.kubectl_ok(bind).unwrap();
        let token = cluster
            .kubectl_ok(["create", "token", name, "-n", NAMESPACE])
            .unwrap();
        cluster.kubeconfig_for_token(&token, name).unwrap()
    };
    let admin = Api::of(&cluster);
    let jobs = format!("/apis/carillon.dev/v1alpha1/namespaces/{NAMESPACE}/broadcastjobs");
    let job = admin.create(
        &jobs,
        &json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "BroadcastJob",
            "metadata": {"name": "fix", "namespace": NAMESPACE},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox:1.37"}],
            }}},
        }),
    );

    // Two of them look, and then both act: what a leader that was paused in between does.
    let (first, second) = (account("first"), account("second"));
    let (first, second) = (
        Naive::new(&first, "naive-1", &job),
        Naive::new(&second, "naive-2", &job),
    );
    let (seen_by_first, seen_by_second) = (first.observe(), second.observe());
    assert_eq!(first.act(seen_by_first).len(), NODES);
    let doubled = second.act(seen_by_second);
    let violation = judge(&cluster, Invariant::S1);
    assert_names_creation(&violation, doubled[0], ("second", "naive-2"));
    assert!(violation.what.contains("node-0000"), "{}", violation.what);

    // A user tidies up after all have succeeded: what has no pod looks as if it had not run.
    let over = || {
        let all = admin.list(&pods());
        Ok(all
            .iter()
            .all(|pod| pod["status"]["phase"] == "Succeeded")
            .then_some(()))
    };
    let (limit, every) = (lab::LIMIT, Duration::from_millis(100));
    wait::until("all pods succeed", limit, every, over, String::new).unwrap();
    cluster
        .kubectl_ok(["delete", "pods", "--all", "-n", NAMESPACE])
        .unwrap();
    let again = first.act(first.observe());
    assert_eq!(again.len(), NODES);
    let violation = judge(&cluster, Invariant::S2);
    assert_names_creation(&violation, again[0], ("first", "naive-1"));
}
