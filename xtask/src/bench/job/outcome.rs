//! What a run has left behind.

use anyhow::{Result, ensure};
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
