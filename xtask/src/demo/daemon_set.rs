//! A DaemonSet on every node that fits, and then an update of it, a few nodes at a time.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carillon_testbed::Cluster;
use carillon_testbed::carillon::workspace;
use serde_json::{Value, json};

use super::scenario::POOL;
use crate::interrupt::Interrupt;

/// Beside the namespace of the jobs, so that their table stays theirs.
const NAMESPACE: &str = "demo-daemon";
const NAME: &str = "agent";
const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_mins(3);

/// Applies the example.
pub(super) fn apply(cluster: &Cluster) -> Result<()> {
    super::step("applying examples/daemonset-minimal.yaml");
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    let path = workspace().join("examples/daemonset-minimal.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    cluster.kubectl_stdin(["apply", "-n", NAMESPACE, "-f", "-"], &text)?;
    Ok(())
}

/// Gives it another image, shows how far that is, and waits for its end. False: it is not as it has to be.
pub(super) fn update(cluster: &Cluster, nodes: usize, interrupt: &Interrupt) -> Result<bool> {
    super::step("giving the DaemonSet another image, a fifth of the nodes at a time");
    let patch = json!({"spec": {
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "20%"}},
        "template": {"spec": {"containers": [
            {"name": "main", "image": "busybox:1.38", "command": ["sleep", "infinity"]}]}},
    }});
    let patch = format!("--patch={patch}");
    cluster.kubectl_ok([
        "patch",
        "cds",
        NAME,
        "-n",
        NAMESPACE,
        "--type=merge",
        &patch,
    ])?;
    let (start, mut shown) = (Instant::now(), String::new());
    let found = loop {
        interrupt.check()?;
        let set = get(cluster)?;
        let now = progress(&set);
        if now != shown {
            println!("{:>6.1}s  {now}", start.elapsed().as_secs_f64());
            shown = now;
        }
        if is_complete(&set) || start.elapsed() > LIMIT {
            break set;
        }
        sleep(EVERY);
    };
    let table = ["get", "cds", "-n", NAMESPACE];
    println!("{}", cluster.kubectl_ok(table)?);
    let (desired, refused) = (nodes - POOL.len(), json!(POOL.len()));
    let status = &found["status"];
    let good = is_complete(&found)
        && status["desiredNumberScheduled"] == desired
        && status["numberAvailable"] == desired
        && status["refused"][0]["count"] == refused;
    if !good {
        println!("the DaemonSet is not as expected: {status}");
    }
    Ok(good)
}

fn get(cluster: &Cluster) -> Result<Value> {
    let text = cluster.kubectl_ok(["get", "cds", NAME, "-n", NAMESPACE, "-o", "json"])?;
    Ok(serde_json::from_str(&text)?)
}

fn is_complete(set: &Value) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && status["updatedNumberScheduled"] == status["desiredNumberScheduled"]
        && status["numberAvailable"] == status["desiredNumberScheduled"]
}

/// How far it is, and what it waits for.
fn progress(set: &Value) -> String {
    let status = &set["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let waiting = status["waitingFor"].as_array().into_iter().flatten();
    let waiting: Vec<String> = waiting
        .map(|one| format!("{} {}", one["count"], text(&one["reason"])))
        .collect();
    let available = status["numberAvailable"].as_u64().unwrap_or(0);
    let line = format!(
        "{NAME:<16} updated {:>7}  available {available:>4}  {:<12} {}",
        text(&status["updated"]),
        text(&status["summary"]),
        waiting.join(", ")
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_an_update_is_and_what_it_waits_for() {
        let set = json!({"status": {"updated": "12/46", "numberAvailable": 41, "summary": "Updating",
            "waitingFor": [{"reason": "PodNotStarted", "count": 5}]}});
        assert_eq!(
            progress(&set),
            "agent            updated   12/46  available   41  Updating     5 PodNotStarted"
        );
        assert!(!is_complete(&set));
    }
}
