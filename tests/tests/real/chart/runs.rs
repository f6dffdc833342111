//! What the operator is given to do by schedule.

use anyhow::Result;
use carillon_testbed::Cluster;
use serde_json::{Value, json};

use super::ACCOUNT;
use super::story::get;
use super::work::{WORK, until};

/// CronJobs that between them need every right that runs need.
pub(super) fn runs(cluster: &Cluster) -> Result<()> {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": "work", "image": "busybox"}]}});
    // Its Jobs are ours to run, too.
    let ours = "carillon.dev/job-controller";
    let job = json!({"jobTemplate": {"spec": {"managedBy": ours, "template": pod}}});
    let broadcast = json!({"broadcastJobTemplate": {"spec": {"template": pod}}});
    for (name, template) in [("report", &job), ("sweep", &broadcast)] {
        create(cluster, name, template)?;
        run(cluster, name)?;
        // Created, recorded, let go, ended, deleted.
        until(cluster, &format!("{name} has run"), || {
            let cron = get(cluster, "ccj", WORK, &[name])?;
            Ok(cron["status"]["ranNow"].is_array() && cron["status"]["active"].is_null())
        })?;
        until(cluster, &format!("no run of {name} is kept"), || {
            Ok(children(cluster, name)?.is_empty())
        })?;
    }
    // A run that is deleted while it is active: the operator asks whether it is really gone.
    let mut hangs = pod;
    hangs["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    let hangs = json!({"jobTemplate": {"spec": {"template": hangs}}});
    create(cluster, "waits", &hangs)?;
    run(cluster, "waits")?;
    let mut name = String::new();
    until(cluster, "waits is recorded and let go", || {
        let jobs = children(cluster, "waits")?;
        let held = jobs
            .iter()
            .any(|job| job["metadata"]["finalizers"].is_array());
        let first = jobs
            .first()
            .and_then(|job| job["metadata"]["name"].as_str());
        first.unwrap_or_default().clone_into(&mut name);
        Ok(!name.is_empty() && !held)
    })?;
    cluster.kubectl_ok(["delete", "job", &name, "-n", WORK])?;
    until(cluster, "it is taken off", || {
        Ok(get(cluster, "ccj", WORK, &["waits"])?["status"]["active"].is_null())
    })?;
    // CronJobs that are deleted before the run is let go, until one was: the operator then asks
    // whether the CronJob is really gone.
    for round in 0..20 {
        let name = format!("hurry-{round}");
        create(cluster, &name, &hangs)?;
        run(cluster, &name)?;
        until(cluster, "a run is there", || {
            Ok(!children(cluster, &name)?.is_empty())
        })?;
        cluster.kubectl_ok(["delete", "ccj", &name, "-n", WORK, "--cascade=background"])?;
        until(cluster, "nothing is left of it", || {
            Ok(children(cluster, &name)?.is_empty())
        })?;
        let asked = cluster.audit_events()?.iter().any(|request| {
            request.user == ACCOUNT && request.verb == "get" && request.resource == "cronjobs"
        });
        if asked {
            break;
        }
    }
    Ok(())
}

/// What was started for a CronJob and is there.
fn children(cluster: &Cluster, cron: &str) -> Result<Vec<Value>> {
    let selector = format!("--selector=carillon.dev/cronjob-name={cron}");
    let mut list = get(cluster, "jobs,bcj", WORK, &[&selector])?;
    Ok(list["items"].take().as_array().cloned().unwrap_or_default())
}

fn create(cluster: &Cluster, name: &str, template: &Value) -> Result<()> {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": WORK},
        "spec": template,
    });
    object["spec"]["schedule"] = json!("0 0 1 1 *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    Ok(())
}

fn run(cluster: &Cluster, name: &str) -> Result<()> {
    let now = "carillon.dev/run-now=now";
    cluster.kubectl_ok(["annotate", "ccj", name, "-n", WORK, now])?;
    Ok(())
}
