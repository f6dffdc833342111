//! How often a node is tried and what counts as a failure, on a real control plane.

use carillon_tests::lab::{Bench, condition_of, is, lab};
use serde_json::{Value, json};

/// The result of the last attempt on a node.
fn result(bench: &Bench<'_>, job: &str, node: &str) -> Value {
    let results = bench.results(job);
    let last = results.iter().rfind(|result| result["nodeName"] == node);
    last.cloned().unwrap_or_default()
}

fn reason(job: &Value, condition: &str) -> String {
    let condition = condition_of(job, condition).cloned().unwrap_or_default();
    condition["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn at_most_once_a_drained_node_has_failed_and_is_not_tried_again() {
    let bench = lab().bench("at-most-once", 2);
    let fates = json!({&bench.nodes[0]: {"run-time": "10m"}});
    let more = json!({"executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &fates, &more));
    bench.wait_pod("fix", &bench.nodes[0], "Running");
    bench.kubectl(&[
        "drain",
        &bench.nodes[0],
        "--ignore-daemonsets",
        "--force",
        "--timeout=60s",
    ]);
    bench.kubectl(&["uncordon", &bench.nodes[0]]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(1), &json!(1))
    );
    let attempts = bench.attempts("fix", &bench.nodes[0]);
    assert_eq!((attempts.len(), &*attempts[0].1), (1, "Disrupted"));
    assert_eq!(bench.creations("fix").len(), 2);
}

/// Fates are by pod name here, since the attempts on a node share all the rest.
#[test]
fn a_node_is_retried_after_failures_until_it_succeeds() {
    let bench = lab().bench("retries", 2);
    let fates = json!({&bench.nodes[0]: {"exit-code": 7}});
    let more = json!({"backoffLimitPerNode": 4});
    bench.apply(&bench.job("fix", &fates, &more));
    bench.until("the failed attempt waits for its retry", || {
        let job = bench.get("fix");
        let waits = reason(&job, "Reconciling") == "WaitingForRetries";
        (waits && job["status"]["retrying"] == 1).then_some(())
    });
    let job = bench.get("fix");
    assert_eq!(job["status"]["failed"], 0);
    assert!(!is(&job, "FailureTarget"), "FailFast waits for the retries");
    // A later attempt is held where its kubelet does nothing, until it is told to succeed.
    bench.cluster.stop_kubelets(&[&bench.nodes[0]]).unwrap();
    let next = bench.until("the next attempt", || {
        let pods = bench.pods("fix");
        let pod = pods.iter().find(|pod| {
            pod["spec"]["nodeName"] == bench.nodes[0].as_str()
                && pod["status"]["phase"] == "Pending"
        })?;
        Some(pod["metadata"]["name"].as_str()?.to_owned())
    });
    let fates = json!({&next: {"exit-code": 0}}).to_string();
    let fates = format!("testbed.carillon.dev/fates={fates}");
    bench.kubectl(&["annotate", "pod", &next, "--overwrite", &fates]);
    bench.cluster.start_kubelets(&[&bench.nodes[0]]).unwrap();
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["done"], "2/2");
    let attempts = bench.attempts("fix", &bench.nodes[0]);
    let (last, before) = attempts.split_last().unwrap();
    assert_eq!(last.1, "Succeeded", "{attempts:?}");
    assert!(!before.is_empty() && before.iter().all(|a| a.1 == "Failed"));
}

#[test]
fn an_exit_code_fails_the_job_or_the_node_as_the_rules_say() {
    let bench = lab().bench("rules", 3);
    let rule = |action: &str, code: u8| {
        json!({"action": action, "onExitCodes":
        {"containerName": "main", "operator": "In", "values": [code]}})
    };
    let more = json!({
        "backoffLimitPerNode": 5,
        "parallelism": 1,
        "failurePolicy": {"type": "Continue"},
        "podFailurePolicy": {"rules": [rule("FailNode", 41), rule("FailJob", 42)]},
    });
    let fates = json!({
        &bench.nodes[0]: {"exit-code": 41},
        &bench.nodes[1]: {"exit-code": 42, "message": "wrong cluster"},
    });
    bench.apply(&bench.job("fix", &fates, &more));
    let job = bench.wait("fix", "Failed");
    assert_eq!(reason(&job, "Failed"), "PodFailurePolicy");
    let message = condition_of(&job, "FailureTarget").unwrap()["message"]
        .as_str()
        .unwrap();
    let expected = format!(
        "node {}: podFailurePolicy.rules[1] FailJob: container main exited with 42; wrong cluster",
        bench.nodes[1]
    );
    assert_eq!(message, expected);
    let first = bench.attempts("fix", &bench.nodes[0]);
    assert_eq!(
        (first.len(), &*first[0].2),
        (1, "NodeFailedByPodFailurePolicy")
    );
    assert!(bench.attempts("fix", &bench.nodes[2]).is_empty());
}

#[test]
fn a_disruption_is_no_failure_unless_a_rule_says_so() {
    let bench = lab().bench("disruption", 1);
    let more = json!({"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}},
        {"action": "FailNode", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]}});
    let fates = json!({"*": {"run-time": "10m"}});
    bench.apply(&bench.job("fix", &fates, &more));
    bench.wait_pod("fix", &bench.nodes[0], "Running");
    bench.kubectl(&[
        "drain",
        &bench.nodes[0],
        "--ignore-daemonsets",
        "--force",
        "--timeout=60s",
    ]);
    let job = bench.wait("fix", "Failed");
    assert_eq!(
        reason(&job, "Failed"),
        "MaxFailedNodesExceeded",
        "not by the kill's exit code"
    );
    let result = result(&bench, "fix", &bench.nodes[0]);
    assert_eq!(result["reason"], "NodeFailedByPodFailurePolicy");
    let message = result["message"].as_str().unwrap();
    assert!(
        message.contains("pod condition DisruptionTarget is True"),
        "{message}"
    );
}

#[test]
fn a_pod_whose_image_cannot_be_pulled_is_given_up_with_the_reason() {
    let bench = lab().bench("no-image", 2);
    let fates = json!({&bench.nodes[0]: {
        "fate": "never-starts", "waiting-reason": "ImagePullBackOff",
        "waiting-message": "Back-off pulling image",
    }});
    let more = json!({
        "podStartDeadlineSeconds": 2, "parallelism": 1, "failurePolicy": {"type": "Continue"},
    });
    bench.apply(&bench.job("fix", &fates, &more));
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(1), &json!(1)),
        "its place was freed for the other node"
    );
    let result = result(&bench, "fix", &bench.nodes[0]);
    assert_eq!(
        (&result["state"], &result["reason"], &result["message"]),
        (
            &json!("Failed"),
            &json!("ImagePullBackOff"),
            &json!("Back-off pulling image")
        )
    );
    bench.until("the pod that never started is gone", || {
        (bench.pods("fix").len() == 1).then_some(())
    });
}

#[test]
fn a_pod_for_which_there_is_no_room_is_given_up_in_the_words_of_the_scheduler() {
    let bench = lab().bench("no-room", 1);
    let resources = json!({"requests": {"cpu": "20"}});
    bench.apply(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "tenant", "namespace": bench.name},
        "spec": {"nodeName": &bench.nodes[0], "containers": [
            {"name": "main", "image": "busybox:1.37", "resources": &resources}]},
    }));
    let mut job = bench.job("fix", &json!({}), &json!({"podStartDeadlineSeconds": 3}));
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources;
    bench.apply(&job);
    let job = bench.wait("fix", "Failed");
    assert_eq!(reason(&job, "Failed"), "MaxFailedNodesExceeded");
    let result = result(&bench, "fix", &bench.nodes[0]);
    assert_eq!(result["reason"], "Unschedulable");
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("Insufficient cpu"), "{message}");
}

#[test]
fn a_job_puts_up_with_as_many_failed_nodes_as_it_may() {
    let bench = lab().bench("max-failed", 10);
    let fails = json!({"exit-code": 1});
    let fates = json!({&bench.nodes[0]: fails, &bench.nodes[4]: fails, &bench.nodes[5]: fails});
    let more = json!({
        "parallelism": 1, "failurePolicy": {"type": "Pause", "maxFailedNodes": "20%"},
    });
    bench.apply(&bench.job("fix", &fates, &more));
    let job = bench.wait("fix", "Paused");
    assert_eq!(reason(&job, "Paused"), "PausedByFailure");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(3), &json!(3)),
        "two of ten are allowed"
    );
    assert_eq!(bench.results("fix").len(), 6);
    bench.kubectl(&["annotate", "cbj", "fix", "carillon.dev/resume=1"]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["succeeded"], 7);
}

#[test]
fn a_lost_node_releases_its_place_is_reported_and_counts_when_it_is_back() {
    let bench = lab().bench("lost", 2);
    let lost = bench.nodes[0].clone();
    let mut job = bench.job(
        "fix",
        &json!({&lost: {"run-time": "10m"}}),
        &json!({"parallelism": 1, "nodeLostTimeoutSeconds": 10}),
    );
    // Else Kubernetes evicts the pod in the end.
    job["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    bench.apply(&job);
    let pod = bench.wait_pod("fix", &lost, "Running");
    bench.cluster.set_node_ready(&lost, false).unwrap();
    bench.until("the other node is served and the lost one reported", || {
        let job = bench.get("fix");
        let waits = reason(&job, "Reconciling") == "WaitingForLostNodes";
        let status = &job["status"];
        (waits && status["succeeded"] == 1 && status["lost"] == 1).then_some(())
    });
    assert_eq!(bench.attempts("fix", &lost)[0].1, "Started");
    let events = bench.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    assert!(events.contains("NodeLost"), "{events}");
    bench.cluster.set_node_ready(&lost, true).unwrap();
    bench.until("it is no longer lost", || {
        bench.get("fix")["status"]["lost"].is_null().then_some(())
    });
    bench.kubectl(&[
        "annotate",
        "pod",
        &pod,
        "--overwrite",
        &format!(
            "testbed.carillon.dev/fates={}",
            json!({&pod: {"run-time": "1s"}})
        ),
    ]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["succeeded"], 2);
    assert_eq!(bench.attempts("fix", &lost).len(), 1);
    assert_eq!(bench.creations("fix").len(), 2);
}

#[test]
fn without_an_eligible_node_a_job_fails_or_completes_at_once_if_it_is_to() {
    let bench = lab().bench("no-nodes", 1);
    bench.kubectl(&["cordon", &bench.nodes[0]]);
    for (name, word, condition) in [
        ("fails", "Fail", "Failed"),
        ("completes", "Complete", "Complete"),
    ] {
        bench.apply(&bench.job(name, &json!({}), &json!({"noEligibleNodesPolicy": word})));
        let job = bench.wait(name, condition);
        assert_eq!(reason(&job, condition), "NoEligibleNodes");
        assert_eq!(job["status"]["desired"], 0);
        assert!(bench.results(name).is_empty());
    }
    bench.apply(&bench.job("waits", &json!({}), &json!({})));
    bench.until("the default is to wait and to say so", || {
        (reason(&bench.get("waits"), "Reconciling") == "NoEligibleNodes").then_some(())
    });
    bench.kubectl(&["uncordon", &bench.nodes[0]]);
    bench.wait("waits", "Complete");
}

#[test]
fn only_listed_nodes_are_served_and_a_name_without_a_node_is_reported() {
    let bench = lab().bench("listed", 3);
    let mut job = bench.job("fix", &json!({}), &json!({}));
    job["spec"]["nodeNames"] = json!([&bench.nodes[1], "node-of-yesterday"]);
    bench.apply(&job);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["done"], "1/1");
    assert_eq!(
        job["status"]["refused"],
        json!([{"reason": "NodeNotFound", "count": 1, "sample": ["node-of-yesterday"]}])
    );
    assert_eq!(bench.attempts("fix", &bench.nodes[1]).len(), 1);
}

#[test]
fn a_failed_node_is_tried_again_when_somebody_asks_and_no_other() {
    let bench = lab().bench("retry", 3);
    let fates = json!({&bench.nodes[0]: {"exit-code": 1}, &bench.nodes[1]: {"exit-code": 1}});
    let more = json!({
        "completionPolicy": {"type": "Never"}, "failurePolicy": {"type": "Continue"},
    });
    bench.apply(&bench.job("fix", &fates, &more));
    let failed = |count: u64, attempts: usize| {
        bench.until("the failures are counted", || {
            let counted = bench.get("fix")["status"]["failed"] == count;
            (counted && bench.results("fix").len() == attempts).then_some(())
        });
    };
    failed(2, 3);
    let ask = |value: &str| {
        let annotation = format!("carillon.dev/retry={value}");
        bench.kubectl(&["annotate", "cbj", "fix", "--overwrite", &annotation]);
    };
    let [first, second, third] = [0, 1, 2].map(|at| bench.nodes[at].as_str());
    let pod_of = |job: &str, node: &str| {
        let results = bench.results(job);
        let mut of_node = results.iter().filter(|result| result["nodeName"] == node);
        let pod = of_node.next().and_then(|result| result["podName"].as_str());
        pod.expect("a pod").to_owned()
    };
    // Another job with the same name, as one that was made anew, has other pods.
    bench.apply(&bench.job("other", &fates, &more));
    bench.until("the other job has failures, too", || {
        (bench.get("other")["status"]["failed"] == 2).then_some(())
    });
    let [asked, done, foreign] =
        [("fix", first), ("fix", third), ("other", second)].map(|(job, node)| pod_of(job, node));
    ask(&format!("{asked},{done},{foreign},{second}/1"));
    failed(2, 4);
    let attempts = |node| bench.attempts("fix", node).len();
    assert_eq!([first, second, third].map(attempts), [2, 1, 1]);
    // Asked in another way, but for nothing new.
    ask(&asked);
    bench.patch("fix", &json!({"spec": {"parallelism": 7}}));
    bench.until("the change was seen", || {
        let job = bench.get("fix");
        (job["status"]["observedGeneration"] == job["metadata"]["generation"]).then_some(())
    });
    assert_eq!(bench.creations("fix").len(), 4);
}
