//! What runs by schedule: a native manifest of which only the apiVersion was changed, at its next
//! minute, and a cron that broadcasts, which is asked to run now.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::carillon::workspace;
use carillon_testbed::{Cluster, wait};
use serde_json::Value;

/// Beside the namespace of the jobs, so that their table stays theirs.
const NAMESPACE: &str = "demo-cron";
/// Runs every minute.
const NATIVE: &str = "hello";
/// Runs at night, and now.
const BROADCAST: &str = "clean-images";
/// A minute until the next tick, and time to run.
const LIMIT: Duration = Duration::from_mins(3);

/// Applies both.
pub(super) fn apply(cluster: &Cluster) -> Result<()> {
    super::step(
        "applying two CronJobs of examples/, and asking the one that broadcasts to run now",
    );
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    for example in ["native-manifest", "broadcast"] {
        let path = workspace().join(format!("examples/cronjob-{example}.yaml"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        cluster.kubectl_stdin(["apply", "-n", NAMESPACE, "-f", "-"], &text)?;
    }
    let path = "jsonpath={.metadata.uid}";
    let uid = cluster.kubectl_ok(["get", "ccj", BROADCAST, "-n", NAMESPACE, "-o", path])?;
    let now = format!("carillon.dev/run-now={uid}/demo");
    cluster.kubectl_ok(["annotate", "ccj", BROADCAST, "-n", NAMESPACE, &now])?;
    Ok(())
}

/// Waits until both have run, and shows them. False: one did not run as it has to.
pub(super) fn outcome(cluster: &Cluster) -> Result<bool> {
    println!("waiting for the next minute, when {NATIVE} is due");
    let ran = wait::until(
        "both CronJobs have run",
        LIMIT,
        Duration::from_millis(500),
        || {
            let native = get(cluster, "ccj", NATIVE)?;
            let broadcast = get(cluster, "ccj", BROADCAST)?;
            let over = |cron: &Value| cron["status"]["lastSuccessfulTime"].is_string();
            Ok((over(&native) && over(&broadcast)).then_some(()))
        },
        || show(cluster).unwrap_or_default(),
    );
    println!("{}", show(cluster)?);
    if let Err(error) = &ran {
        println!("{error:#}");
    }
    Ok(ran.is_ok())
}

fn get(cluster: &Cluster, kind: &str, name: &str) -> Result<Value> {
    let text = cluster.kubectl_ok(["get", kind, name, "-n", NAMESPACE, "-o", "json"])?;
    Ok(serde_json::from_str(&text)?)
}

fn show(cluster: &Cluster) -> Result<String> {
    let table = |kinds: &str| cluster.kubectl_ok(["get", kinds, "-n", NAMESPACE]);
    Ok(format!("{}\n{}", table("ccj")?, table("jobs,cbj")?))
}
