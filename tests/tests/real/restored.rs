//! etcd is restored from a backup: the operator ends, and the next one knows nothing of what never happened.

use std::time::Duration;

use carillon_testbed::{Operator, Options, wait};
use carillon_tests::lab;
use serde_json::json;

const NODES: usize = 3;

#[test]
fn a_leader_ends_when_its_lease_is_older_than_it_was() {
    // It has not lost its lease for being late.
    let lease = [
        "--lease-namespace=default",
        "--lease-duration=100s",
        "--lease-renew-deadline=90s",
        "--lease-retry-period=2s",
    ];
    restore("restored-lease", &lease);
}

#[test]
fn an_operator_without_a_lease_ends_when_its_watches_show_another_history() {
    restore("restored", &[]);
}

/// What is lost is done again by the operator that follows, and by no other.
fn restore(name: &'static str, flags: &[&str]) {
    let cluster = lab::cluster(name, NODES);
    let bench = lab::bench(&cluster, name);
    let options = flags
        .iter()
        .fold(Options::new("operator"), |options, flag| options.arg(flag));
    let operator = Operator::start(&cluster, &options).unwrap();
    let fates = json!({"*": {"run-time": "1s"}});
    bench.apply(&bench.job("kept", &fates, &json!({})));
    bench.wait("kept", "Complete");
    let paused = json!({"paused": true});
    bench.apply(&bench.job("resumed", &fates, &paused));
    bench.until("the job is seen", || {
        let seen = bench.get("resumed")["status"]["observedGeneration"].as_i64();
        seen.filter(|seen| *seen > 0)
    });

    let backup = cluster.back_up().unwrap();
    bench.apply(&bench.job("lost", &fates, &json!({})));
    bench.wait("lost", "Complete");
    bench.patch("resumed", &json!({"spec": {"paused": false}}));
    bench.wait("resumed", "Complete");
    let before = bench.pods("resumed");
    cluster.restore(&backup).unwrap();

    let ended = || Ok((!operator.process.is_alive()).then_some(()));
    let log = || operator.process.log_tail(10);
    let (limit, every) = (Duration::from_mins(1), Duration::from_millis(100));
    wait::until("the operator has ended", limit, every, ended, log).unwrap();
    let log = operator.process.log_tail(20);
    let knows = ["restored from a backup", "another history"];
    assert!(knows.iter().any(|why| log.contains(why)), "{log}");

    let _next = Operator::start(&cluster, &Options::new("next")).unwrap();
    let lost = cluster.kubectl_ok(["get", "broadcastjob", "lost", "-n", name]);
    assert!(lost.is_err());
    assert_eq!(bench.get("resumed")["spec"]["paused"], true);
    bench.patch("resumed", &json!({"spec": {"paused": false}}));
    bench.wait("resumed", "Complete");
    assert_eq!(bench.results("resumed").len(), NODES);
    let again = bench.pods("resumed");
    for pod in &before {
        let uid = &pod["metadata"]["uid"];
        assert!(again.iter().all(|pod| pod["metadata"]["uid"] != *uid));
    }
    assert_eq!(bench.results("kept").len(), NODES);
}
