//! What the operator is given to do by schedule.

use anyhow::Result;
use carillon_testbed::Cluster;
use serde_json::{Value, json};

use super::ACCOUNT;
use super::story::get;
use super::work::until;

/// CronJobs that between them need every right that runs need.
pub(super) fn runs(cluster: &Cluster, namespace: &str) -> Result<()> {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [
        {"name": "work", "image": "busybox"}]}});
    // Its Jobs are ours to run, too.
    let ours = "carillon.dev/job-controller";
    let job = json!({"jobTemplate": {"spec": {"managedBy": ours, "template": pod}}});
    let broadcast = json!({"broadcastJobTemplate": {"spec": {"template": pod}}});
    for (name, template) in [("report", &job), ("sweep", &broadcast)] {
        create(cluster, namespace, name, template)?;
        run(cluster, namespace, name, "now")?;
        // Created, recorded, released, ended, deleted.
        until(cluster, &format!("{name} has run"), || {
            let cron = get(cluster, "ccj", namespace, &[name])?;
            Ok(cron["status"]["handledRunNow"].is_array() && cron["status"]["active"].is_null())
        })?;
        until(cluster, &format!("no run of {name} is kept"), || {
            Ok(children(cluster, namespace, name)?.is_empty())
        })?;
    }
    let mut hangs = pod;
    hangs["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    let hangs = json!({"jobTemplate": {"spec": {"template": hangs}}});
    interrupted(cluster, namespace, "waits", &hangs)?;
    forgotten(cluster, namespace, &hangs)
}

/// A run that is deleted while it is active: the operator asks whether it is really gone.
pub(super) fn interrupted(
    cluster: &Cluster,
    namespace: &str,
    cron: &str,
    template: &Value,
) -> Result<()> {
    create(cluster, namespace, cron, template)?;
    run(cluster, namespace, cron, "now")?;
    let first = release(cluster, namespace, cron, "")?;
    let kind = first["kind"].as_str().unwrap_or_default();
    let name = first["metadata"]["name"].as_str().unwrap_or_default();
    cluster.kubectl_ok(["delete", kind, name, "-n", namespace])?;
    until(cluster, "it is taken off", || {
        Ok(get(cluster, "ccj", namespace, &[cron])?["status"]["active"].is_null())
    })
}

/// A run of a CronJob that is recorded and released, another one than that of this uid.
pub(super) fn release(cluster: &Cluster, namespace: &str, cron: &str, not: &str) -> Result<Value> {
    let mut first = Value::Null;
    until(cluster, &format!("{cron} is recorded and released"), || {
        let jobs = children(cluster, namespace, cron)?;
        let mut others = jobs.into_iter().filter(|job| job["metadata"]["uid"] != not);
        first = others.next().unwrap_or_default();
        Ok(!first.is_null() && !first["metadata"]["finalizers"].is_array())
    })?;
    Ok(first)
}

/// CronJobs that are deleted before the run is released, until one was: the operator then asks whether the
/// CronJob is really gone.
pub(super) fn forgotten(cluster: &Cluster, namespace: &str, template: &Value) -> Result<()> {
    for round in 0..20 {
        let name = format!("hurry-{round}");
        create(cluster, namespace, &name, template)?;
        run(cluster, namespace, &name, "now")?;
        until(cluster, "a run is there", || {
            Ok(!children(cluster, namespace, &name)?.is_empty())
        })?;
        let cron = ["ccj", &name, "-n", namespace, "--cascade=background"];
        cluster.kubectl_ok(["delete"].iter().chain(&cron))?;
        until(cluster, "nothing is left of it", || {
            Ok(children(cluster, namespace, &name)?.is_empty())
        })?;
        let asked = cluster.audit_events()?.iter().any(|request| {
            let get = request.verb == "get" && request.resource == "cronjobs";
            request.user == ACCOUNT && get && request.namespace == namespace
        });
        if asked {
            break;
        }
    }
    Ok(())
}

/// What was started for a CronJob and is there.
pub(super) fn children(cluster: &Cluster, namespace: &str, cron: &str) -> Result<Vec<Value>> {
    let selector = format!("--selector=carillon.dev/cronjob-name={cron}");
    let mut list = get(cluster, "jobs,cbj", namespace, &[&selector])?;
    Ok(list["items"].take().as_array().cloned().unwrap_or_default())
}

pub(super) fn create(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    template: &Value,
) -> Result<()> {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": template,
    });
    object["spec"]["schedule"] = json!("0 0 1 1 *");
    object["spec"]["successfulJobsHistoryLimit"] = json!(0);
    cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    Ok(())
}

/// Asks for a run by a word that was not used before.
pub(super) fn run(cluster: &Cluster, namespace: &str, name: &str, word: &str) -> Result<()> {
    let cron = get(cluster, "ccj", namespace, &[name])?;
    let uid = cron["metadata"]["uid"].as_str().unwrap_or_default();
    let now = format!("carillon.dev/run-now={uid}/{word}");
    cluster.kubectl_ok([
        "annotate",
        "--overwrite",
        "ccj",
        name,
        "-n",
        namespace,
        &now,
    ])?;
    Ok(())
}
