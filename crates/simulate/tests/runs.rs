//! What simulations say.

use carillon_simulate::{Assumptions, Report, Share, generate, run};
use jiff::SignedDuration;
use serde_json::{Value, json};

fn assumptions(duration: &str, fail: &str) -> Assumptions {
    Assumptions {
        duration: duration.parse().expect("a duration"),
        start: "1s".parse().expect("a duration"),
        fail: fail.parse().expect("a share"),
        flaky: Share::NONE,
        exit_code: 1,
        api_latency: SignedDuration::from_millis(10),
        seed: 1,
    }
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]},
    })
}

fn object(version: &str, kind: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": "fix"}, "spec": spec,
    });
    if object["spec"]["template"].is_null() {
        object["spec"]["template"] = template();
    }
    object
}

fn broadcast(spec: &Value) -> Value {
    object("carillon.dev/v1alpha1", "BroadcastJob", spec)
}

fn on(nodes: usize, object: &Value, assumptions: &Assumptions) -> Report {
    run(object, &generate(nodes, &[]), assumptions).expect("a report")
}

#[test]
fn a_job_is_complete_after_as_many_rounds_as_its_parallelism_leaves() {
    let job = broadcast(&json!({"parallelism": 5}));
    let report = on(20, &job, &assumptions("30s", "0%"));
    assert!(report.end.good && report.end.ended, "{:?}", report.end);
    assert_eq!((report.most_pods, report.created_pods), (5, 20));
    // Four rounds of 31 seconds, and up to two seconds between them.
    let after = report.end.after_seconds;
    assert!((124..136).contains(&after), "{after}");
    let last = report.timeline.last().unwrap();
    assert_eq!((last.done, last.active, last.waiting), (20, 0, 0));
    let order: Vec<&str> = report.served.iter().map(|node| &*node.name).collect();
    assert_eq!((order[0], order[19]), ("node-00", "node-19"));
}

#[test]
fn at_each_time_the_counts_sum_to_all_nodes() {
    let job = broadcast(&json!({"parallelism": "20%", "failurePolicy": {"type": "Continue"}}));
    let report = on(50, &job, &assumptions("lognormal:30s,0.5", "10%"));
    for sample in &report.timeline[1..] {
        let all = sample.done + sample.active + sample.failed + sample.waiting + sample.refused;
        assert_eq!(all, 50, "{sample:?}");
    }
    assert!(!report.end.good && report.end.ended, "{:?}", report.end);
    let failed = report.served.iter().filter(|node| node.state == "Failed");
    let failed = failed.count();
    assert_eq!(
        report.at_limit.len(),
        [0, 1, 2, 5, 10]
            .iter()
            .filter(|limit| **limit < failed)
            .count()
    );
    assert!(report.at_limit[0].created_pods < 50);
}

#[test]
fn a_job_that_pauses_comes_to_a_stand_and_one_that_fails_fast_to_its_end() {
    let failing = assumptions("30s", "5%");
    let pause = broadcast(&json!({"parallelism": 5, "failurePolicy": {"type": "Pause"}}));
    let report = on(100, &pause, &failing);
    assert!(
        !report.end.ended && report.end.headline.starts_with("Paused: "),
        "{:?}",
        report.end
    );
    let report = on(100, &broadcast(&json!({"parallelism": 5})), &failing);
    assert!(
        report.end.ended && report.end.headline.starts_with("Failed: "),
        "{:?}",
        report.end
    );
    assert!(report.created_pods < 100);
}

#[test]
fn a_job_that_never_ends_has_done_all_when_each_node_is_done() {
    let job = broadcast(&json!({"completionPolicy": {"type": "Never"}}));
    let report = on(10, &job, &assumptions("30s", "0%"));
    assert!(report.end.good, "{:?}", report.end);
    assert!(report.end.after_seconds < 60, "{:?}", report.end);
}

#[test]
fn nodes_that_the_job_does_not_choose_are_refused_and_without_any_it_waits() {
    let mut job = broadcast(&json!({"noEligibleNodesPolicy": "Wait"}));
    job["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": "gpu"});
    let report = on(10, &job, &assumptions("30s", "0%"));
    assert!(!report.end.good && !report.end.ended, "{:?}", report.end);
    assert_eq!(report.timeline.last().unwrap().refused, 10);
    let labels = [("pool".to_owned(), "gpu".to_owned())];
    let report = run(&job, &generate(10, &labels), &assumptions("30s", "0%")).unwrap();
    assert!(report.end.good, "{:?}", report.end);
}

#[test]
fn daemon_sets_and_jobs_are_simulated_too() {
    let set = json!({"selector": {"matchLabels": {"app": "a"}}, "template": {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }});
    for version in ["carillon.dev/v1alpha1", "apps/v1"] {
        let report = on(
            20,
            &object(version, "DaemonSet", &set),
            &assumptions("30s", "0%"),
        );
        assert!(
            report.end.good && report.created_pods == 20,
            "{version} {report:?}"
        );
    }
    let job = object(
        "batch/v1",
        "Job",
        &json!({"completions": 6, "parallelism": 2}),
    );
    let report = on(3, &job, &assumptions("30s", "0%"));
    assert!(report.end.good, "{:?}", report.end);
    assert_eq!((report.created_pods, report.most_pods), (6, 2));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let job = broadcast(
        &json!({"parallelism": 7, "failurePolicy": {"type": "Continue"}, "backoffLimitPerNode": 2}),
    );
    let told = |seed| {
        let of = Assumptions {
            seed,
            flaky: "20%".parse().unwrap(),
            ..assumptions("lognormal:30s,0.5", "2%")
        };
        let report = Report {
            real_seconds: 0.0,
            ..on(60, &job, &of)
        };
        serde_json::to_string(&report).unwrap()
    };
    assert_eq!(told(1), told(1));
    assert_ne!(told(1), told(2));
}

#[test]
fn what_the_api_server_would_refuse_is_refused() {
    let cases = [
        (
            broadcast(&json!({"parallelsim": 5})),
            "spec.parallelsim: there is no such field",
        ),
        (
            broadcast(&json!({"parallelism": "lots"})),
            "spec.parallelism: Invalid value",
        ),
        (
            object("carillon.dev/v1alpha1", "CronJob", &json!({})),
            "cannot be simulated",
        ),
        (
            object("batch/v1beta1", "Job", &json!({})),
            "cannot be simulated",
        ),
    ];
    for (object, expected) in cases {
        let said = run(&object, &generate(3, &[]), &assumptions("30s", "0%"));
        let said = format!("{:#}", said.unwrap_err());
        assert!(said.contains(expected), "{said}");
    }
    let mut nameless = broadcast(&json!({}));
    nameless["metadata"] = json!({});
    let said = run(&nameless, &generate(3, &[]), &assumptions("30s", "0%")).unwrap_err();
    assert!(
        format!("{said:#}").contains("metadata.name is missing"),
        "{said}"
    );
}

#[test]
fn a_daemon_set_whose_pods_fail_again_and_again_has_no_good_end() {
    let set = json!({"selector": {"matchLabels": {"app": "a"}}, "template": {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }});
    let set = object("carillon.dev/v1alpha1", "DaemonSet", &set);
    for share in ["100%", "20%"] {
        let report = on(20, &set, &assumptions("10s", share));
        assert!(!report.end.good, "{share}: {:?}", report.end);
        assert!(
            report.end.headline.contains("fail again and again"),
            "{:?}",
            report.end
        );
        assert!(report.end.after_seconds < 3 * 3600, "{:?}", report.end);
    }
}

#[test]
fn a_node_that_waits_for_a_retry_does_not_count_as_failed_and_attempts_without_end_are_given_up() {
    let retries = json!({"backoffLimitPerNode": 3, "failurePolicy": {"type": "Continue"}});
    let flaky = Assumptions {
        flaky: "30%".parse().expect("a share"),
        ..assumptions("10s", "0%")
    };
    let report = on(60, &broadcast(&retries), &flaky);
    let failed = report
        .served
        .iter()
        .filter(|node| node.state == "Failed")
        .count();
    let told = report
        .at_limit
        .iter()
        .map(|limit| limit.max_failed_nodes + 1)
        .max();
    assert!(
        told.unwrap_or(0) <= failed,
        "{failed}: {:?}",
        report.at_limit
    );
    let endless = json!({"backoffLimitPerNode": 2_147_483_647});
    let report = on(5, &broadcast(&endless), &assumptions("10s", "100%"));
    assert!(!report.end.ended && !report.end.good, "{:?}", report.end);
}

#[test]
fn an_object_that_was_read_from_a_cluster_is_simulated_as_its_user_wrote_it() {
    let mut job = broadcast(&json!({"completionPolicy": {"ttlSecondsAfterFinished": 0}}));
    job["metadata"]["resourceVersion"] = json!("7");
    job["metadata"]["uid"] = json!("b0d0c1de-0000-4000-8000-000000000000");
    job["status"] = json!({"desired": 9});
    let report = on(4, &job, &assumptions("2h", "0%"));
    assert!(report.end.good, "{:?}", report.end);
}

#[test]
fn rules_by_the_name_of_a_container_and_its_exit_code_are_kept() {
    let rule = json!({"action": "FailJob", "onExitCodes": {"containerName": "a", "operator": "In", "values": [42]}});
    let job = broadcast(&json!({
        "parallelism": 2, "failurePolicy": {"type": "Continue"}, "podFailurePolicy": {"rules": [rule]},
    }));
    let of = Assumptions {
        exit_code: 42,
        ..assumptions("10s", "30%")
    };
    let report = on(20, &job, &of);
    assert!(
        report.end.headline.starts_with("Failed: node"),
        "{:?}",
        report.end
    );
    assert!(report.created_pods < 20, "{report:?}");
}
