//! What users of BroadcastJob see, on a real control plane.

use carillon_tests::lab::{condition_of, is, lab};
use serde_json::{Value, json};

#[test]
fn a_job_runs_on_every_node_and_keeps_exit_code_and_last_words_of_the_failed_ones() {
    let bench = lab().bench("results", 6);
    let fates = json!({&bench.nodes[2]: {"exit-code": 3, "message": "no space left on device"}});
    bench.apply(&bench.job(
        "fix",
        &fates,
        &json!({"failurePolicy": {"type": "Continue"}}),
    ));
    bench.kubectl(&[
        "wait",
        "--for=condition=Complete",
        "cbj/fix",
        "--timeout=120s",
    ]);
    let job = bench.get("fix");
    assert_eq!(job["status"]["done"], "6/6");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(5), &json!(1))
    );
    assert_eq!(job["status"]["phase"], "completed");
    assert_eq!(
        job["status"]["observedGeneration"],
        job["metadata"]["generation"]
    );

    let results = bench.results("fix");
    assert_eq!(results.len(), 6);
    let failed = results
        .iter()
        .find(|r| r["nodeName"] == bench.nodes[2].as_str())
        .unwrap();
    assert_eq!(
        (&failed["state"], &failed["exitCode"]),
        (&json!("Failed"), &json!(3))
    );
    assert_eq!(failed["message"], "no space left on device");
    assert!(
        results
            .iter()
            .all(|r| r["startTime"].is_string() && r["completionTime"].is_string())
    );
    bench.until("every pod is released", || {
        bench
            .pods("fix")
            .iter()
            .all(|pod| pod["metadata"]["finalizers"].is_null())
            .then_some(())
    });
    let policy = &bench.pods("fix")[0]["spec"]["containers"][0]["terminationMessagePolicy"];
    assert_eq!(policy, "FallbackToLogsOnError");

    let events = bench.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    for reason in ["SuccessfulCreate", "JobComplete"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
}

#[test]
fn fail_fast_stops_the_others_and_starts_nothing_more() {
    let bench = lab().bench("fail-fast", 6);
    let fails = json!({"exit-code": 1, "run-time": "1s"});
    let fates = json!({&bench.nodes[0]: fails, "*": {"run-time": "10m"}});
    bench.apply(&bench.job("fix", &fates, &json!({"parallelism": 3})));
    let job = bench.wait("fix", "Failed");
    assert_eq!(
        condition_of(&job, "Failed").unwrap()["reason"],
        "MaxFailedNodesExceeded"
    );
    assert_eq!(
        (&job["status"]["failed"], &job["status"]["active"]),
        (&json!(3), &json!(0))
    );
    assert_eq!(
        bench.attempts("fix", &bench.nodes[1])[0].2,
        "StoppedByFailure"
    );
    assert_eq!(bench.results("fix").len(), 3);
    bench.until("the stopped pods are gone", || {
        bench
            .pods("fix")
            .iter()
            .all(|pod| pod["status"]["phase"] != "Running")
            .then_some(())
    });
}

#[test]
fn a_job_paused_by_a_failure_goes_on_when_it_is_resumed() {
    let bench = lab().bench("pause", 4);
    let fates = json!({&bench.nodes[0]: {"exit-code": 1}});
    let more = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("fix", &fates, &more));
    let job = bench.wait("fix", "Paused");
    assert_eq!(
        condition_of(&job, "Paused").unwrap()["reason"],
        "PausedByFailure"
    );
    assert_eq!(job["status"]["phase"], "paused");
    assert_eq!(bench.results("fix").len(), 1);
    bench.kubectl(&["annotate", "cbj", "fix", "carillon.dev/resume=1"]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(3), &json!(1))
    );
}

#[test]
fn a_job_paused_by_its_user_starts_nothing_and_leaves_running_pods_alone() {
    let bench = lab().bench("user-pause", 3);
    let fates = json!({"*": {"run-time": "3s"}});
    bench.apply(&bench.job("fix", &fates, &json!({"parallelism": 1})));
    bench.wait_pod("fix", &bench.nodes[0], "Running");
    bench.patch("fix", &json!({"spec": {"paused": true}}));
    bench.wait("fix", "Paused");
    bench.wait_pod("fix", &bench.nodes[0], "Succeeded");
    bench.until("the result is counted", || {
        (bench.get("fix")["status"]["succeeded"] == 1).then_some(())
    });
    assert_eq!(bench.results("fix").len(), 1);
    bench.patch("fix", &json!({"spec": {"paused": false}}));
    bench.wait("fix", "Complete");
}

/// Contract D4, D5.
#[test]
fn deleted_finished_pods_and_nodes_cordoned_after_success_do_not_run_again() {
    let bench = lab().bench("finished", 6);
    let more = json!({"parallelism": 1});
    bench.apply(&bench.job("fix", &json!({"*": {"run-time": "2s"}}), &more));
    let first = bench.wait_pod("fix", &bench.nodes[0], "Succeeded");
    bench.kubectl(&["delete", "pod", &first]);
    bench.wait_pod("fix", &bench.nodes[1], "Succeeded");
    bench.kubectl(&["cordon", &bench.nodes[1]]);
    bench.wait_pod("fix", &bench.nodes[2], "Succeeded");
    bench.kubectl(&["uncordon", &bench.nodes[1]]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["done"], "6/6");
    assert_eq!(job["status"]["succeeded"], 6);
    for node in &bench.nodes {
        assert_eq!(bench.attempts("fix", node).len(), 1, "{node}");
    }
    let pods = bench.creations("fix");
    assert_eq!(pods.len(), 6, "{pods:?}");
}

#[test]
fn a_node_cordoned_while_its_pod_runs_is_left_to_finish() {
    let bench = lab().bench("cordon-running", 2);
    bench.apply(&bench.job("fix", &json!({"*": {"run-time": "3s"}}), &json!({})));
    bench.wait_pod("fix", &bench.nodes[0], "Running");
    bench.kubectl(&["cordon", &bench.nodes[0]]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["succeeded"], 2);
    assert_eq!(bench.attempts("fix", &bench.nodes[0]).len(), 1);
}

#[test]
fn a_node_cordoned_before_its_turn_is_left_out_and_named_in_the_status() {
    let bench = lab().bench("cordon-before", 3);
    bench.kubectl(&["cordon", &bench.nodes[1]]);
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["done"], "2/2");
    let refused = job["status"]["refused"].as_array().unwrap();
    let cordoned = refused
        .iter()
        .find(|r| r["reason"] == "NodeUnschedulable")
        .unwrap();
    assert!(
        cordoned["sample"].to_string().contains(&bench.nodes[1]),
        "{cordoned}"
    );
    bench.kubectl(&["uncordon", &bench.nodes[1]]);
}

#[test]
fn a_drained_node_is_tried_again_when_it_is_back_and_is_no_failure() {
    let bench = lab().bench("drain", 2);
    let fates = json!({&bench.nodes[0]: {"run-time": "5s"}});
    bench.apply(&bench.job("fix", &fates, &json!({})));
    bench.wait_pod("fix", &bench.nodes[0], "Running");
    let drain = [
        "drain",
        &bench.nodes[0],
        "--ignore-daemonsets",
        "--force",
        "--timeout=60s",
    ];
    bench.kubectl(&drain);
    bench.until("the disruption is recorded", || {
        let attempts = bench.attempts("fix", &bench.nodes[0]);
        (attempts.first()?.1 == "Disrupted").then_some(())
    });
    assert!(
        !is(&bench.get("fix"), "Complete"),
        "a drained node is not done"
    );
    bench.kubectl(&["uncordon", &bench.nodes[0]]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(bench.attempts("fix", &bench.nodes[0]).len(), 2);
}

#[test]
fn a_deadline_fails_the_job_and_a_ttl_removes_it_with_everything_it_made() {
    let bench = lab().bench("deadline", 2);
    let policy = json!({"activeDeadlineSeconds": 2});
    let fates = json!({"*": {"fate": "hang"}});
    bench.apply(&bench.job("fix", &fates, &json!({"completionPolicy": policy})));
    let job = bench.wait("fix", "Failed");
    for condition in ["FailureTarget", "Failed"] {
        let reason = condition_of(&job, condition).map(|found| &found["reason"]);
        assert_eq!(reason, Some(&json!("DeadlineExceeded")), "{condition}");
    }
    for node in &bench.nodes {
        let attempts = bench.attempts("fix", node);
        let (state, reason) = (&attempts[0].1, &attempts[0].2);
        assert_eq!((&**state, &**reason), ("Failed", "DeadlineExceeded"));
    }
    // Only now, so that nothing is gone before it was looked at.
    let ttl = json!({"spec": {"completionPolicy": {"ttlSecondsAfterFinished": 1}}});
    bench.patch("fix", &ttl);
    bench.until("job, pods and slices are gone", || {
        let left = bench.kubectl(&["get", "cbj,nrs,pods", "-o", "name"]);
        left.trim().is_empty().then_some(())
    });
}

#[test]
fn a_job_that_never_ends_serves_nodes_that_join_later() {
    let bench = lab().bench("never", 2);
    bench.apply(&bench.job(
        "fix",
        &json!({}),
        &json!({"completionPolicy": {"type": "Never"}}),
    ));
    bench.until("the nodes of now are served", || {
        let job = bench.get("fix");
        let waits = condition_of(&job, "Reconciling")?["reason"] == "WaitingForNodes";
        (waits && job["status"]["succeeded"] == 2).then_some(())
    });
    let node = bench.nodes[0].as_str();
    bench.kubectl(&["label", "node", node, "bench-"]);
    bench.kubectl(&["label", "node", node, "bench=never"]);
    let later = lab().bench("never-later", 1);
    bench.kubectl(&[
        "label",
        "node",
        &later.nodes[0],
        "--overwrite",
        "bench=never",
    ]);
    bench.until("the new node is served", || {
        (bench.get("fix")["status"]["succeeded"] == 3).then_some(())
    });
    assert_eq!(bench.attempts("fix", node).len(), 1);
    assert!(!is(&bench.get("fix"), "Complete"));
}

#[test]
fn a_replaced_node_of_the_same_name_is_served_again() {
    let bench = lab().bench("replaced", 1);
    bench.apply(&bench.job(
        "fix",
        &json!({}),
        &json!({"completionPolicy": {"type": "Never"}}),
    ));
    let served = |count: u64| {
        bench.until("the node is served", || {
            (bench.get("fix")["status"]["succeeded"] == count).then_some(())
        });
    };
    served(1);
    let node = bench.nodes[0].as_str();
    let text = bench.kubectl(&["get", "node", node, "-o", "json"]);
    let mut object: Value = serde_json::from_str(&text).unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
    ] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    bench.kubectl(&["delete", "node", node]);
    bench.apply(&object);
    served(2);
    let attempts = bench.attempts("fix", node);
    assert_eq!(
        attempts.iter().map(|a| a.0).collect::<Vec<_>>(),
        [1, 2],
        "{attempts:?}"
    );
}

#[test]
fn a_template_that_the_api_server_refuses_stalls_the_job_without_pods_or_a_hot_loop() {
    let bench = lab().bench("invalid", 2);
    let mut job = bench.job("bad", &json!({}), &json!({}));
    let mounts = json!([{"name": "nowhere", "mountPath": "/data"}]);
    job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts;
    bench.apply(&job);
    bench.apply(&bench.job("good", &json!({}), &json!({})));
    let job = bench.wait("bad", "Stalled");
    let stalled = condition_of(&job, "Stalled").unwrap();
    assert_eq!(stalled["reason"], "InvalidTemplate");
    assert!(
        stalled["message"].as_str().unwrap().contains("nowhere"),
        "{stalled}"
    );
    let shown = bench.kubectl(&["get", "cbj", "bad"]);
    assert!(shown.contains("Stalled: InvalidTemplate"), "{shown}");
    bench.wait("good", "Complete");
    assert!(bench.pods("bad").is_empty() && bench.results("bad").is_empty());
    let tries = bench
        .requests()
        .iter()
        .filter(|event| event.dry_run)
        .count();
    assert!(tries <= 3, "{tries} dry runs for two jobs");
}

/// The CRD keeps fields that it does not know, and the API server drops those that pods do not have.
#[test]
fn a_misspelt_field_of_a_template_is_told_before_the_first_pod() {
    let bench = lab().bench("misspelt", 1);
    let mut job = bench.job("bad", &json!({}), &json!({}));
    job["spec"]["template"]["spec"]["containers"][0]["comand"] = json!(["true"]);
    bench.apply(&job);
    let job = bench.wait("bad", "Stalled");
    let stalled = condition_of(&job, "Stalled").unwrap();
    assert_eq!(stalled["reason"], "InvalidTemplate");
    let told = stalled["message"].as_str().unwrap();
    assert!(
        told.contains("unknown field") && told.contains("comand"),
        "{told}"
    );
    assert!(bench.pods("bad").is_empty());
}

#[test]
fn a_full_quota_is_reported_and_ends_the_job_late_but_well() {
    let bench = lab().bench("quota", 4);
    bench.kubectl(&["create", "quota", "pods", "--hard=pods=2"]);
    bench.apply(&bench.job("fix", &json!({"*": {"run-time": "2s"}}), &json!({})));
    bench.until("the quota is named", || {
        let job = bench.get("fix");
        let condition = condition_of(&job, "Reconciling")?;
        let message = condition["message"].as_str().unwrap_or_default();
        (condition["reason"] == "QuotaExceeded" && message.contains("exceeded quota")).then_some(())
    });
    bench.kubectl(&["delete", "quota", "pods"]);
    let job = bench.wait("fix", "Complete");
    assert_eq!(job["status"]["succeeded"], 4);
    assert_eq!(bench.creations("fix").len(), 4);
}

#[test]
fn a_crash_looping_pod_is_stopped_at_its_limit() {
    let bench = lab().bench("crash-loop", 2);
    let fates =
        json!({&bench.nodes[0]: {"restarts": "forever", "exit-code": 2, "restart-delay": "200ms"}});
    let more = json!({
        "template": {"spec": {"restartPolicy": "OnFailure"}},
        "failurePolicy": {"type": "Continue", "restartLimit": 2},
    });
    bench.apply(&bench.job("fix", &fates, &more));
    let job = bench.wait("fix", "Complete");
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["failed"]),
        (&json!(1), &json!(1))
    );
    let attempts = bench.attempts("fix", &bench.nodes[0]);
    assert_eq!(attempts[0].2, "RestartLimitExceeded", "{attempts:?}");
    let results = bench.results("fix");
    let failed = results.iter().find(|r| r["state"] == "Failed").unwrap();
    assert_eq!(
        failed["exitCode"], 2,
        "of the crash, not of the kill: {failed}"
    );
}

#[test]
fn a_job_deleted_while_it_runs_leaves_nothing_behind() {
    for (name, cascade) in [("deleted", "background"), ("deleted-fg", "foreground")] {
        let bench = lab().bench(name, 3);
        bench.apply(&bench.job("fix", &json!({"*": {"fate": "hang"}}), &json!({})));
        bench.wait_pod("fix", &bench.nodes[2], "Running");
        bench.kubectl(&[
            "delete",
            "cbj",
            "fix",
            &format!("--cascade={cascade}"),
            "--timeout=60s",
        ]);
        bench.until("pods and slices are gone", || {
            let left = bench.kubectl(&["get", "cbj,nrs,pods", "-o", "name"]);
            left.trim().is_empty().then_some(())
        });
    }
}

#[test]
fn parallelism_is_never_exceeded() {
    let bench = lab().bench("parallel", 10);
    let fates = json!({"*": {"run-time": "500ms"}});
    bench.apply(&bench.job("fix", &fates, &json!({"parallelism": "25%"})));
    bench.wait("fix", "Complete");
    // From the audit log: a pod takes its slot when its creation is asked for, and gives it back
    // when the kubelet's report of its end was answered.
    let mut changes: Vec<(String, i32)> = Vec::new();
    let mut ended = std::collections::BTreeSet::new();
    for event in bench.requests() {
        if event.resource != "pods" || !event.is_stored_write() {
            continue;
        }
        let phase = event
            .request_object
            .as_ref()
            .and_then(|body| body.pointer("/status/phase"));
        let succeeded = phase.is_some_and(|phase| phase == "Succeeded");
        if event.verb == "create" && event.subresource.is_empty() {
            changes.push((event.received.clone(), 1));
        } else if event.subresource == "status" && succeeded && ended.insert(event.name.clone()) {
            changes.push((event.stage_time.clone(), -1));
        }
    }
    changes.sort();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 3), "25% of 10 nodes, rounded up");
}

#[test]
fn the_longest_names_work() {
    let bench = lab().bench("names", 1);
    let name = format!("n{}", "-0123456789".repeat(6))
        .chars()
        .take(62)
        .collect::<String>()
        + "z";
    bench.apply(&bench.job(&name, &json!({}), &json!({})));
    let job = bench.wait(&name, "Complete");
    assert_eq!((name.len(), &job["status"]["done"]), (63, &json!("1/1")));
}
