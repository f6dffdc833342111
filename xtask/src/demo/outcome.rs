//! Whether the demo ended as it had to, and what happened on the nodes that failed.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use carillon_testbed::Cluster;
use serde_json::Value;

use super::scenario::Outcome;

/// Prints a table of results and gives the names of the jobs that are not as expected.
pub(crate) fn compare(
    expected: &BTreeMap<String, Outcome>,
    found: &BTreeMap<String, Value>,
) -> Vec<String> {
    println!(
        "{:<16} {:<10} {:>9} {:>7}   left out",
        "JOB", "STATUS", "SUCCEEDED", "FAILED"
    );
    let mut wrong = Vec::new();
    for (name, expected) in expected {
        let found = found.get(name).map(Outcome::of).unwrap_or_default();
        let verdict = if found == *expected {
            ""
        } else {
            "  <- NOT AS EXPECTED"
        };
        print(name, &found, verdict);
        if found != *expected {
            print("  expected", expected, "");
            wrong.push(name.clone());
        }
    }
    wrong
}

fn print(name: &str, outcome: &Outcome, verdict: &str) {
    let Outcome {
        phase,
        succeeded,
        failed,
        ..
    } = outcome;
    let refused = outcome.refused_text();
    println!("{name:<16} {phase:<10} {succeeded:>9} {failed:>7}   {refused}{verdict}");
}

/// Prints a line for each node where a pod failed, from the per-node results.
pub(crate) fn print_failures(cluster: &Cluster, namespace: &str) -> Result<()> {
    let slices = cluster.kubectl_ok(["get", "noderesultslices", "-n", namespace, "-o", "json"])?;
    let slices: Value = serde_json::from_str(&slices).context("NodeResultSlices")?;
    println!("{:<16} {:<10} {:>5}   why", "JOB", "NODE", "EXIT");
    for slice in slices["items"].as_array().into_iter().flatten() {
        let job = &slice["metadata"]["labels"]["carillon.dev/broadcastjob-name"];
        let results = slice["results"].as_array().into_iter().flatten();
        for result in results.filter(|result| result["state"] == "Failed") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let exit = result["exitCode"]
                .as_i64()
                .map_or_else(String::new, |c| c.to_string());
            let why = [text(&result["reason"]), text(&result["message"])];
            let why = why
                .iter()
                .filter(|part| !part.is_empty())
                .cloned()
                .collect::<Vec<_>>();
            let (job, node) = (text(job), text(&result["nodeName"]));
            println!("{job:<16} {node:<10} {exit:>5}   {}", why.join(": "));
        }
    }
    Ok(())
}
