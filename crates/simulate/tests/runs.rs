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
    assert!(report.at_limit[0].started < 50);
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
        said.to_string().contains("metadata.name is missing"),
        "{said}"
    );
}
