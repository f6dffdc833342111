//! What a tenant of another namespace can do to the work of this one: nothing. The tenant has every
//! right in its own namespace, and knows all names and uids.

use carillon_tests::lab::{Bench, condition_of, lab};
use serde_json::{Value, json};

/// Keeps the garbage collector from removing what refers to an owner in another namespace.
const KEPT: &str = "evil.example.com/keep";

/// A copy of an object for namespace `evil`, with all that our own rows are made from.
fn copy(original: &Value, namespace: &str) -> Value {
    let meta = &original["metadata"];
    let mut finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(KEPT));
    json!({
        "apiVersion": original["apiVersion"],
        "kind": original["kind"],
        "metadata": {
            "name": meta["name"],
            "namespace": namespace,
            "labels": meta["labels"],
            "annotations": meta["annotations"],
            "ownerReferences": meta["ownerReferences"],
            "finalizers": finalizers,
        },
        "spec": original["spec"],
    })
}

/// The same as it was before the garbage collector and we had a say.
fn apply_copies(bench: &Bench<'_>, evil: &str, originals: &[Value]) {
    let created = bench.cluster.kubectl_ok(["create", "namespace", evil]);
    created.expect("a namespace");
    for original in originals {
        let copy = copy(original, evil).to_string();
        let applied = bench.cluster.kubectl_stdin(["create", "-f", "-"], &copy);
        applied.expect("a copy");
    }
}

/// Lets the copied pods succeed. The garbage collector has told them to go, and they are kept.
fn succeed(bench: &Bench<'_>, evil: &str) {
    let names = ["-n", evil, "get", "pods", "-o", "name"];
    let names = bench.cluster.kubectl_ok(names).expect("names");
    assert!(!names.is_empty(), "the copies are kept");
    for name in names.lines() {
        let patch = r#"{"status":{"phase":"Succeeded"}}"#;
        let status = "--subresource=status";
        let args = [
            "-n",
            evil,
            "patch",
            name,
            status,
            "--type=merge",
            "-p",
            patch,
        ];
        bench.cluster.kubectl_ok(args).expect("a status");
    }
}

/// Takes the tenant's finalizers away, so that its namespace can end.
fn release(bench: &Bench<'_>, evil: &str, resource: &str) {
    let names = ["-n", evil, "get", resource, "-o", "name"];
    let names = bench.cluster.kubectl_ok(names).expect("names");
    for name in names.lines() {
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        let args = ["-n", evil, "patch", name, "--type=merge", "-p", patch];
        bench.cluster.kubectl_ok(args).expect("a patch");
    }
}

fn in_state(bench: &Bench<'_>, job: &str, state: &str) -> usize {
    let results = bench.results(job);
    results.iter().filter(|r| r["state"] == state).count()
}

#[test]
fn copies_of_the_pods_of_a_broadcast_job_in_another_namespace_change_nothing_for_it() {
    let bench = lab().bench("tenants-pods", 3);
    let fates = json!({"*": {"run-time": "20s"}});
    bench.apply(&bench.job("patch", &fates, &json!({})));
    for node in &bench.nodes {
        bench.wait_pod("patch", node, "Running");
    }
    bench.until("all three are recorded", || {
        let recorded = bench.results("patch");
        let all = recorded.len() == 3 && recorded.iter().all(|r| r["podUID"].is_string());
        all.then_some(())
    });
    apply_copies(&bench, "tenants-pods-evil", &bench.pods("patch"));
    // Something that the operator does after it has seen the copies.
    bench.patch("patch", &json!({"spec": {"parallelism": 2}}));
    bench.until("the job was looked at again", || {
        let job = bench.get("patch");
        let looked = job["status"]["observedGeneration"] == job["metadata"]["generation"];
        looked.then_some(())
    });
    assert_eq!(
        in_state(&bench, "patch", "Started"),
        3,
        "{:?}",
        bench.results("patch")
    );
    assert_eq!(bench.get("patch")["status"]["active"], 3);
    bench.wait("patch", "Complete");
    assert_eq!(in_state(&bench, "patch", "Succeeded"), 3);
    release(&bench, "tenants-pods-evil", "pods");
}

#[test]
fn a_copy_under_the_name_of_a_reserved_pod_is_not_its_outcome() {
    let bench = lab().bench("tenants-reserved", 1);
    // A full quota leaves the record without a pod.
    bench.kubectl(&["create", "quota", "none", "--hard=pods=0"]);
    bench.apply(&bench.job("patch", &json!({}), &json!({})));
    let record = bench.until("a reservation", || bench.results("patch").first().cloned());
    let job = bench.get("patch");
    let uid = job["metadata"]["uid"].as_str().unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": record["podName"],
            "labels": {"carillon.dev/broadcastjob-name": "patch", "carillon.dev/broadcastjob-uid": uid},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "patch", "uid": uid, "controller": true}],
        },
        "spec": {"restartPolicy": "Never", "nodeName": bench.nodes[0],
            "containers": [{"name": "main", "image": "busybox:1.37"}]},
    });
    apply_copies(&bench, "tenants-reserved-evil", &[pod]);
    succeed(&bench, "tenants-reserved-evil");
    bench.patch("patch", &json!({"spec": {"parallelism": 1}}));
    bench.until("the job was looked at again", || {
        let job = bench.get("patch");
        let looked = job["status"]["observedGeneration"] == job["metadata"]["generation"];
        looked.then_some(())
    });
    assert_eq!(bench.results("patch")[0]["state"], "Started");
    bench.kubectl(&["delete", "quota", "none"]);
    bench.wait("patch", "Complete");
    assert_eq!(bench.creations("patch").len(), 1, "it ran here");
    release(&bench, "tenants-reserved-evil", "pods");
}

/// In one's own namespace one may do as one likes; but nobody is woken at night for it.
#[test]
fn a_copy_of_ones_own_pod_holds_the_turn_of_its_node_and_trips_no_interlock() {
    let bench = lab().bench("tenants-own", 2);
    let fates = json!({&bench.nodes[0]: {"run-time": "3s"}});
    bench.apply(&bench.job("patch", &fates, &json!({"parallelism": 1})));
    bench.wait_pod("patch", &bench.nodes[0], "Running");
    let original = bench.pods("patch").remove(0);
    let meta = &original["metadata"];
    let copy = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "copy", "labels": meta["labels"], "ownerReferences": meta["ownerReferences"],
            "annotations": {"testbed.carillon.dev/run-time": "1h"},
        },
        "spec": {"restartPolicy": "Never", "nodeName": bench.nodes[1],
            "containers": [{"name": "main", "image": "busybox:1.37"}]},
    });
    let create = ["-n", bench.name, "create", "-f", "-"];
    bench
        .cluster
        .kubectl_stdin(create, &copy.to_string())
        .unwrap();
    let job = bench.until("the other node waits for the copy", || {
        let job = bench.get("patch");
        let reconciling = condition_of(&job, "Reconciling")?;
        (reconciling["reason"] == "WaitingForOtherPods").then_some(job)
    });
    let message = condition_of(&job, "Reconciling").unwrap()["message"].to_string();
    assert!(message.contains("pod copy"), "{message}");
    assert!(condition_of(&job, "Stalled").is_none(), "{job}");
    bench.kubectl(&["delete", "pod", "copy", "--grace-period=0", "--force"]);
    let job = bench.wait("patch", "Complete");
    assert_eq!(job["status"]["succeeded"], 2);
    assert!(condition_of(&job, "Stalled").is_none(), "{job}");
}

/// Binds a pod, as a scheduler does, or somebody who has changed its affinity has it done.
fn bind(bench: &Bench<'_>, pod: &str, node: &str) {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", bench.name);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let create = ["create", "--raw", &path, "-f", "-"];
    bench
        .cluster
        .kubectl_stdin(create, &binding.to_string())
        .unwrap();
}

#[test]
fn a_pod_that_runs_on_another_node_than_its_own_is_no_success_of_either() {
    let bench = lab().bench("tenants-node", 2);
    let more = json!({"parallelism": 1, "failurePolicy": {"type": "Continue"}});
    let mut job = bench.job("patch", &json!({"*": {"run-time": "1s"}}), &more);
    // Nobody schedules these pods but this test.
    job["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
    bench.apply(&job);
    let (own, other) = (&bench.nodes[0], &bench.nodes[1]);
    let pod_for = |node: &str| {
        bench.until("a pod", || {
            let results = bench.results("patch");
            let last = results.iter().rfind(|result| result["nodeName"] == *node)?;
            let pods = bench.pods("patch");
            let mut names = pods.iter().map(|pod| pod["metadata"]["name"].clone());
            let name = names.find(|name| *name == last["podName"])?;
            name.as_str().map(str::to_owned)
        })
    };
    bind(&bench, &pod_for(own), other);
    bench.until("it is no success", || {
        let results = bench.results("patch");
        let first = results.iter().find(|result| result["nodeName"] == **own)?;
        (first["state"] == "Failed" && first["reason"] == "WrongNode").then_some(())
    });
    bind(&bench, &pod_for(other), other);
    let job = bench.wait("patch", "Complete");
    let counts = (&job["status"]["succeeded"], &job["status"]["failed"]);
    assert_eq!(counts, (&json!(1), &json!(1)));
}

#[test]
fn a_job_in_another_namespace_is_no_run_of_a_cron_job() {
    let bench = lab().bench("tenants-cron", 1);
    let container = json!({"name": "main", "image": "busybox:1.37"});
    let template = json!({"spec": {"template": {
        "metadata": {"annotations": {"testbed.carillon.dev/fates": "{}"}},
        "spec": {"restartPolicy": "Never", "nodeSelector": {"bench": bench.name},
            "containers": [container]},
    }}});
    bench.apply(&json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
        "metadata": {"name": "report", "namespace": bench.name},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": template},
    }));
    let get = || -> Value {
        let text = bench.kubectl(&["get", "ccj", "report", "-o", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let cron = bench.until("the next run is told", || {
        let cron = get();
        cron["status"]["nextScheduleTime"]
            .is_string()
            .then_some(cron)
    });
    let next: jiff::Timestamp = cron["status"]["nextScheduleTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // Names of the coming minutes, held by our own finalizer and never to end.
    let jobs: Vec<Value> = (0..3)
        .map(|minute| {
            let name = format!("report-{}", next.as_second() / 60 + minute);
            json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": name,
                    "finalizers": ["carillon.dev/run-tracking"],
                    "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
                        "name": "report", "uid": cron["metadata"]["uid"], "controller": true}],
                },
                "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37"}]}}},
            })
        })
        .collect();
    apply_copies(&bench, "tenants-cron-evil", &jobs);
    bench.until("the run of the minute has succeeded here", || {
        get()["status"]["lastSuccessfulTime"]
            .is_string()
            .then_some(())
    });
    bench.kubectl(&["delete", "ccj", "report"]);
    release(&bench, "tenants-cron-evil", "jobs");
}

#[test]
fn the_pods_of_a_deleted_job_are_released_whoever_else_carries_its_uid() {
    let bench = lab().bench("tenants-deleted", 2);
    let fates = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("patch", &fates, &json!({})));
    for node in &bench.nodes {
        bench.wait_pod("patch", node, "Running");
    }
    apply_copies(&bench, "tenants-deleted-evil", &bench.pods("patch"));
    bench.kubectl(&["delete", "cbj", "patch"]);
    bench.until("its pods are gone", || {
        bench.pods("patch").is_empty().then_some(())
    });
    release(&bench, "tenants-deleted-evil", "pods");
}

#[test]
fn pods_of_another_namespace_do_not_complete_a_job() {
    let bench = lab().bench("tenants-jobs", 2);
    let fates = json!({"*": {"run-time": "20s"}}).to_string();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": bench.name},
        "spec": {
            "managedBy": "carillon.dev/job-controller", "completions": 2, "parallelism": 2,
            "template": {
                "metadata": {"annotations": {"testbed.carillon.dev/fates": fates}},
                "spec": {"restartPolicy": "Never", "nodeSelector": {"bench": bench.name},
                    "containers": [{"name": "main", "image": "busybox:1.37"}]},
            },
        },
    });
    bench.apply(&job);
    let list = |args: &[&str]| -> Vec<Value> {
        let text = bench.cluster.kubectl_ok(args).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let ours = ["-n", bench.name, "get", "pods", "-o", "json"];
    let in_phase = |pods: &[Value], phase: &str| {
        pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == phase)
    };
    let pods = bench.until("both run", || {
        let pods = list(&ours);
        in_phase(&pods, "Running").then_some(pods)
    });
    apply_copies(&bench, "tenants-jobs-evil", &pods);
    succeed(&bench, "tenants-jobs-evil");
    bench.kubectl(&[
        "wait",
        "--for=condition=Complete",
        "job/sum",
        "--timeout=120s",
    ]);
    assert!(in_phase(&list(&ours), "Succeeded"), "{:?}", list(&ours));
    release(&bench, "tenants-jobs-evil", "pods");
}
