//! `simulate`, without a cluster and beside one.

use std::process::Command;

use carillon_testbed::carillon::{Profile, Program, build};
use serde_json::{Value, json};

use super::desk::{Answer, ask, carillon, desk, finish};

/// The program of somebody who has no cluster.
fn alone(args: &[&str], input: &str) -> Answer {
    let mut command = Command::new(build(Program::Cli, Profile::Dev).unwrap());
    command.env("KUBECONFIG", "/nowhere").args(args);
    finish(command, input)
}

const JOB: &str = r#"{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "metadata": {"name": "fix"},
    "spec": {"parallelism": 4, "failurePolicy": {"type": "Continue"},
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}]}}}}"#;

#[test]
fn a_manifest_is_simulated_without_a_cluster_and_the_exit_code_says_how_it_would_end() {
    let of = |more: &[&str]| {
        let args = ["simulate", "-f", "-", "--nodes", "40", "--duration", "10s"];
        alone(&[&args, more].concat(), JOB)
    };
    let good = of(&[]).ended_with(0);
    assert!(
        good.stdout.contains("After ") && good.stdout.contains("Complete"),
        "{good:?}"
    );
    assert!(
        good.stdout.contains("40 created, at most 4 at a time"),
        "{good:?}"
    );
    let failing = of(&["--fail", "20%"]).ended_with(2);
    assert!(failing.stdout.contains("MAX-FAILED-NODES"), "{failing:?}");
    let json = of(&["-o", "json"]).ended_with(0).json();
    let report = &json["items"][0];
    assert_eq!(
        (&report["mostPods"], &report["end"]["good"]),
        (&json!(4), &json!(true))
    );
    assert_eq!(report["served"].as_array().unwrap().len(), 40);
}

#[test]
fn what_cannot_be_simulated_is_an_error_that_says_what_to_write() {
    let typo = JOB.replace("parallelism", "parallelsim");
    let answer = alone(&["simulate", "-f", "-"], &typo).ended_with(1);
    assert!(
        answer
            .stderr
            .contains("fix: spec.parallelsim: there is no such field"),
        "{answer:?}"
    );
    for (flag, value, hint) in [
        ("--duration", "soon", "lognormal:30s,0.5"),
        ("--fail", "2", "write 2%"),
        ("--nodes", "0", "1..=100000"),
        ("--node-label", "gpu", "KEY=VALUE"),
    ] {
        let answer = alone(&["simulate", "-f", "-", flag, value], JOB).ended_with(1);
        assert!(answer.stderr.contains(hint), "{flag}: {answer:?}");
    }
    let answer = alone(&["simulate", "-f", "-"], "kind: Pod").ended_with(1);
    assert!(answer.stderr.contains("has no BroadcastJob"), "{answer:?}");
}

/// Nodes in the order in which their containers started, by the second, and how long all took.
fn starts(nodes: impl Iterator<Item = (String, i64, i64)>) -> (Vec<Vec<String>>, i64) {
    let mut nodes: Vec<(String, i64, i64)> = nodes.collect();
    nodes.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    let first = nodes.first().map_or(0, |node| node.1);
    let last = nodes.iter().map(|node| node.2).max().unwrap_or(0);
    let pairs = nodes.chunks(2);
    let pairs = pairs.map(|pair| pair.iter().map(|node| node.0.clone()).collect());
    (pairs.collect(), last - first)
}

#[test]
fn a_real_run_starts_nodes_in_the_order_that_was_foretold_and_takes_as_long() {
    let bench = desk().bench("cli-foretold");
    let fates = json!({"*": {"run-time": "20s"}});
    let job = bench.job("fix", &fates, &json!({"parallelism": 2}));
    let args = [
        "simulate",
        "-f",
        "-",
        "--from-cluster",
        "--duration",
        "20s",
        "--start",
        "0s",
    ];
    let foretold = ask(
        &bench,
        &[&args[..], &["-o", "json"]].concat(),
        &job.to_string(),
    );
    let foretold = foretold.ended_with(0).json();
    let report = &foretold["items"][0];
    assert_eq!(
        report["timeline"][1]["refused"], 2,
        "node-0006 and node-0007: {report}"
    );
    let served = report["served"].as_array().unwrap().iter().map(|node| {
        let seconds = |field: &str| node[field].as_i64().unwrap();
        (
            text(&node["name"]),
            seconds("startSeconds"),
            seconds("endSeconds"),
        )
    });
    let (order, seconds) = starts(served);

    bench.apply(&job);
    carillon(&bench, &["wait", "fix", "--timeout", "3m"]).ended_with(0);
    let results = carillon(&bench, &["results", "fix", "-o", "json"])
        .ended_with(0)
        .json();
    let attempts = results["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| {
            let at = |field: &str| {
                let time: jiff::Timestamp = attempt[field].as_str().unwrap().parse().unwrap();
                time.as_second()
            };
            (
                text(&attempt["nodeName"]),
                at("startTime"),
                at("completionTime"),
            )
        });
    let (really, took) = starts(attempts);
    println!("foretold {seconds} s, took {took} s: {really:?}");
    assert_eq!(order, really);
    assert!(
        (seconds - took).abs() * 5 <= took,
        "foretold {seconds} s, took {took} s"
    );
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
