//! `retry`: just these nodes, and never one that has succeeded.

use carillon_tests::lab::is;
use serde_json::{Value, json};

use super::desk::{carillon, desk, three_failures};

#[test]
fn an_open_job_is_asked_to_try_its_failed_nodes_again() {
    let bench = desk().bench("cli-retry-open");
    let open =
        json!({"completionPolicy": {"type": "Never"}, "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &three_failures(), &open));
    bench.until("three have failed", || {
        (bench.get("fix")["status"]["done"] == "6/6").then_some(())
    });
    let annotation = || bench.get("fix")["metadata"]["annotations"]["carillon.dev/retry"].clone();

    let dry = carillon(&bench, &["retry", "fix", "--failed", "--dry-run"]).ended_with(0);
    assert!(dry.stdout.ends_with("(dry run)\n"), "{dry:?}");
    assert_eq!(annotation(), Value::Null);

    let done = carillon(&bench, &["retry", "fix", "--node", "node-0001,node-0000"]).ended_with(1);
    assert!(
        done.stderr
            .contains("node node-0000 has succeeded in fix, and is never run again"),
        "{done:?}"
    );
    assert_eq!(annotation(), Value::Null, "all or nothing");

    let failed = |node: &str, times: usize| {
        bench.until(&format!("{node} has failed {times} times"), || {
            let attempts = bench.attempts("fix", node);
            let failed = attempts.iter().filter(|(_, state, _)| state == "Failed");
            (failed.count() == times).then_some(())
        });
    };
    carillon(&bench, &["retry", "fix", "--node", "node-0003"]).ended_with(0);
    failed("node-0003", 2);
    bench.until("the failure is counted", || {
        (bench.get("fix")["status"]["failed"] == 3).then_some(())
    });
    let all = carillon(&bench, &["retry", "fix", "--failed"]).ended_with(0);
    assert_eq!(
        all.stdout,
        "broadcastjob.carillon.dev/fix tries again 3 nodes: node-0001, node-0003, node-0004\n"
    );
    for (node, times) in [("node-0001", 2), ("node-0003", 3), ("node-0004", 2)] {
        failed(node, times);
    }
    for node in ["node-0000", "node-0002", "node-0005"] {
        assert_eq!(bench.attempts("fix", node).len(), 1, "{node}");
    }
}

#[test]
fn a_job_that_has_ended_is_tried_again_by_a_new_one_on_these_nodes_only() {
    let bench = desk().bench("cli-retry-ended");
    let go_on = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &three_failures(), &go_on));
    bench.wait("fix", "Complete");
    let succeeded = carillon(&bench, &["retry", "fix", "--node", "node-0000"]).ended_with(1);
    assert!(
        succeeded.stderr.contains("never run again"),
        "{succeeded:?}"
    );

    let created = carillon(&bench, &["retry", "fix", "--failed"]).ended_with(0);
    assert_eq!(
        created.stdout,
        "broadcastjob.carillon.dev/fix-retry-1 created for 3 nodes: node-0001, node-0003, node-0004\n"
    );
    let job = bench.wait("fix-retry-1", "Complete");
    assert_eq!(
        job["metadata"]["annotations"]["carillon.dev/retry-of"],
        "fix"
    );
    let mut nodes: Vec<Value> = bench
        .results("fix-retry-1")
        .into_iter()
        .map(|r| r["nodeName"].clone())
        .collect();
    nodes.sort_by_key(Value::to_string);
    assert_eq!(nodes, ["node-0001", "node-0003", "node-0004"]);

    assert_eq!(job["spec"]["retryOf"]["name"], "fix");
    assert_eq!(
        bench.get("fix")["status"]["retries"][0]["name"],
        "fix-retry-1"
    );
    let second = carillon(&bench, &["retry", "fix-retry-1", "--node", "node-0004"]).ended_with(0);
    assert!(
        second
            .stdout
            .contains("/fix-retry-2 created for 1 node: node-0004"),
        "{second:?}"
    );
    assert!(!is(&bench.get("fix"), "Failed"));
}

#[test]
fn four_who_ask_at_once_make_one_retry_and_are_told_of_it_while_it_is_at_work() {
    let bench = desk().bench("cli-retry-at-once");
    // It fails again in the retry, and long enough after it was asked for.
    let fates = json!({"node-0001": {"run-time": "20s", "exit-code": 3}});
    let more = json!({"nodeNames": ["node-0000", "node-0001"],
        "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &fates, &more));
    bench.wait("fix", "Complete");
    let mut said: Vec<String> = std::thread::scope(|scope| {
        let ask = || carillon(&bench, &["retry", "fix", "--failed"]).ended_with(0);
        let shells: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        let answers = shells.into_iter().map(|shell| shell.join().unwrap().stdout);
        answers.collect()
    });
    said.sort();
    let created = "broadcastjob.carillon.dev/fix-retry-1 created for 1 node: node-0001\n";
    let tries = "broadcastjob.carillon.dev/fix-retry-1 tries already 1 node: node-0001\n";
    assert_eq!(said, [created, tries, tries, tries]);
    bench.until("it is at work", || {
        (bench.get("fix-retry-1")["status"]["active"] == 1).then_some(())
    });
    let again = carillon(&bench, &["retry", "fix", "--failed"]).ended_with(0);
    assert_eq!(again.stdout, tries);
    let results = carillon(&bench, &["results", "fix", "--failed"]).ended_with(0);
    assert_eq!(results.stdout, "");
    let expected =
        "fix-retry-1 tries again 1 node: node-0001\nBroadcastJob fix has no other failed node.\n";
    assert_eq!(results.stderr, expected);
    bench.wait("fix-retry-1", "Complete");
    let explained = carillon(&bench, &["explain", "fix", "--node", "node-0001"]).ended_with(0);
    assert!(
        explained.stdout.contains("\nIn fix-retry-1:\n"),
        "{explained:?}"
    );
    let next = carillon(&bench, &["retry", "fix", "--failed"]).ended_with(0);
    assert!(
        next.stdout.contains("/fix-retry-2 created for 1 node"),
        "{next:?}"
    );
}
