//! etcd is restored from a backup: the operator ends, and the next one knows nothing of what never happened.

use std::time::Duration;

use carillon_testbed::{Operator, Options, wait};
use carillon_tests::lab;
use serde_json::json;

const NODES: usize = 3;
const LEASE: [&str; 4] = [
    "--lease-namespace=default",
    "--lease-duration=15s",
    "--lease-renew-deadline=10s",
    "--lease-retry-period=2s",
];

#[test]
fn an_operator_ends_when_etcd_is_restored_and_what_is_lost_is_done_again_by_the_next() {
    let cluster = lab::cluster("restored", NODES);
    let bench = lab::bench(&cluster, "restored");
    let options = |name: &str| {
        let options = Options::new(name);
        LEASE.iter().fold(options, |options, arg| options.arg(arg))
    };
    let operator = Operator::start(&cluster, &options("operator")).unwrap();
    let fates = json!({"*": {"run-time": "1s"}});
    bench.apply(&bench.job("kept", &fates, &json!({})));
    bench.wait("kept", "Complete");
    let paused = json!({"paused": true});
    bench.apply(&bench.job("resumed", &fates, &paused));
    bench.until("the job is seen", || {
        bench.get("resumed")["status"]["observedGeneration"].as_i64()
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
    let limit = Duration::from_mins(1);
    wait::until(
        "the operator has ended",
        limit,
        Duration::from_millis(100),
        ended,
        log,
    )
    .unwrap();
    println!("{}", operator.process.log_tail(5));
    let _next = Operator::start(&cluster, &options("next")).unwrap();
    assert!(
        cluster
            .kubectl_ok(["get", "broadcastjob", "lost", "-n", "restored"])
            .is_err()
    );
    assert_eq!(bench.get("resumed")["spec"]["paused"], true);
    bench.patch("resumed", &json!({"spec": {"paused": false}}));
    bench.wait("resumed", "Complete");
    let results = bench.results("resumed");
    assert_eq!(results.len(), NODES);
    let again = bench.pods("resumed");
    for pod in &before {
        let uid = &pod["metadata"]["uid"];
        assert!(again.iter().all(|pod| pod["metadata"]["uid"] != *uid));
    }
    assert_eq!(bench.results("kept").len(), NODES);
}
