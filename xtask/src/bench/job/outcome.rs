//! What a run has left behind.

use anyhow::{Context, Result, ensure};
use carillon_testbed::Cluster;
use serde_json::{Value, json};

use super::case::{Case, NAME, NAMESPACE};

/// The Job counts what was scripted, and has let all its pods go.
pub(super) fn ensure_as_scripted(cluster: &Cluster, case: &Case) -> Result<()> {
    let job = cluster.kubectl_ok(["get", "job", NAME, "--namespace", NAMESPACE, "-o", "json"])?;
    let job: Value = serde_json::from_str(&job)?;
    let status = &job["status"];
    let counted = [&status["succeeded"], &status["failed"]];
    ensure!(
        counted == [&json!(case.completions), &json!(case.failures())],
        "{} were to succeed and {} to fail: {status}",
        case.completions,
        case.failures()
    );
    let finalizers = "jsonpath={.items[*].metadata.finalizers}";
    let left = cluster.kubectl_ok(["get", "pods", "--namespace", NAMESPACE, "-o", finalizers])?;
    ensure!(left.trim().is_empty(), "pods still have finalizers: {left}");
    Ok(())
}

/// How often something was told about the Job: an event that is repeated has a count.
pub(super) fn events_told(cluster: &Cluster) -> Result<usize> {
    let events = cluster.kubectl_ok(["get", "events", "--namespace", NAMESPACE, "-o", "json"])?;
    let events: Value = serde_json::from_str(&events)?;
    let events = events["items"].as_array().context("a list of events")?;
    let about = |event: &&Value| event["involvedObject"]["kind"] == "Job";
    let count = |event: &Value| event["count"].as_u64().unwrap_or(1).max(1) as usize;
    Ok(events.iter().filter(about).map(count).sum())
}
