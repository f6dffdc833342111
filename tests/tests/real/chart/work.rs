//! What the operator is given to do.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use carillon_testbed::{Cluster, Fate, fate, wait};
use serde_json::{Value, json};

use super::story::get;
use super::{EVERY, LIMIT};

/// What the operator did.
pub(super) struct Work {
    pub(super) ended: BTreeMap<&'static str, Value>,
    pub(super) stopped_pods: usize,
    pub(super) withdrawn_pods: usize,
    pub(super) attempts: Value,
    pub(super) running_pod: String,
}

/// Where the jobs are.
pub(super) const WORK: &str = "team-a";

pub(super) fn until(
    cluster: &Cluster,
    what: &str,
    mut probe: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let hint = || jobs_now(cluster, WORK);
    wait::until(what, LIMIT, EVERY, || Ok(probe()?.then_some(())), hint)
}

pub(super) fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

/// Jobs that between them need every right the chart grants.
pub(super) fn jobs() -> [Value; 5] {
    let hang = Fate::hangs().with("termination-time", "0s");
    let failing = Fate::exits(3, "disk full").with("fate", "as usual");
    let fates = |rest: Fate| {
        let table = [("node-0003", failing.clone()), ("*", rest)];
        Fate::default().with("fates", fate::table(table))
    };
    let on = json!({"failurePolicy": {"type": "Continue"}});
    let ttl = json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 1}});
    let gates = json!([{"name": "example.com/gate"}]);
    let spec = json!({"template": {"spec": {"schedulingGates": gates}}});
    [
        // A failing node, and on to the end.
        job("ends", WORK, &on, &fates(Fate::default())),
        // A failing node stops the others: pods are deleted.
        job("fails-fast", WORK, &json!({}), &fates(hang.clone())),
        // Removed by its time to live.
        job("goes", WORK, &ttl, &Fate::default()),
        // One of its pods vanishes.
        job("hangs", WORK, &json!({}), &hang),
        // No pod is bound, a node is cordoned meanwhile, and it is deleted before it has ended.
        job("waits", WORK, &spec, &hang),
    ]
}

pub(super) fn work(cluster: &Cluster) -> Result<Work> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": jobs()});
    cluster.kubectl_stdin(["create", "-f", "-"], &list.to_string())?;
    let count = |job: &str| Ok::<_, anyhow::Error>(pods(cluster, WORK, job)?.len());

    // Withdrawn: the pod that waits for a node that no longer takes any.
    until(cluster, "ten pods wait", || Ok(count("waits")? == 10))?;
    cluster.kubectl_ok(["cordon", "node-0009"])?;
    until(cluster, "one is withdrawn", || Ok(count("waits")? == 9))?;
    let withdrawn_pods = 10 - count("waits")?;
    cluster.kubectl_ok(["uncordon", "node-0009"])?;

    let attempts = vanish(cluster)?;
    let mut ended = BTreeMap::new();
    for name in ["ends", "fails-fast"] {
        until(cluster, &format!("{name} has ended"), || {
            let object = get(cluster, "broadcastjob", WORK, &[name])?;
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            let over = ["completed", "failed"].contains(&phase);
            ended.insert(name, object["status"].clone());
            Ok(over)
        })?;
    }
    until(cluster, "the time to live is over", || {
        let args = ["get", "broadcastjob", "goes", "-n", WORK];
        Ok(!cluster.kubectl(args)?.status.success())
    })?;
    let mut stopped_pods = 0;
    until(cluster, "no pod of fails-fast runs", || {
        let pods = pods(cluster, WORK, "fails-fast")?;
        stopped_pods = 10 - pods.len();
        Ok(!pods.iter().any(runs))
    })?;
    // Deleted while it runs: its pods must be let go.
    let background = "--cascade=background";
    cluster.kubectl_ok(["delete", "broadcastjob", "waits", "-n", WORK, background])?;
    until(cluster, "a deleted job has no pods", || {
        Ok(count("waits")? == 0)
    })?;
    let left = pods(cluster, WORK, "hangs")?;
    let running = left.iter().find(|pod| runs(pod));
    let running = running.context("no pod of hangs runs")?["metadata"]["name"].as_str();
    Ok(Work {
        ended,
        stopped_pods,
        withdrawn_pods,
        attempts,
        running_pod: running.unwrap_or_default().to_owned(),
    })
}

/// A pod vanishes, as after `kubectl delete --force` by somebody who took the finalizer off. Gives
/// its record.
pub(super) fn vanish(cluster: &Cluster) -> Result<Value> {
    let mut victim = String::new();
    until(cluster, "the pods of hangs run", || {
        let pods = pods(cluster, WORK, "hangs")?;
        let name = pods.first().map(|pod| &pod["metadata"]["name"]);
        name.and_then(Value::as_str)
            .unwrap_or_default()
            .clone_into(&mut victim);
        Ok(pods.len() == 10 && pods.iter().all(runs))
    })?;
    let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
    let pod = ["pod", &victim, "-n", WORK];
    let patch = ["--type=merge", patch];
    cluster.kubectl_ok(["patch"].iter().chain(&pod).chain(&patch))?;
    let now = ["--force", "--grace-period=0"];
    cluster.kubectl_ok(["delete"].iter().chain(&pod).chain(&now))?;
    let mut record = Value::Null;
    until(cluster, "the vanished pod is recorded", || {
        let slices = get(cluster, "noderesultslices", WORK, &[])?;
        let slices = slices["items"].as_array().into_iter().flatten();
        let records = slices.filter_map(|slice| slice["results"].as_array());
        let mut records = records
            .flatten()
            .filter(|record| record["pod"] == victim.as_str());
        record = records.next().cloned().unwrap_or_default();
        Ok(record["state"] == "Unknown")
    })?;
    Ok(record)
}

pub(super) fn jobs_now(cluster: &Cluster, namespace: &str) -> String {
    let ask = |output: &str, kinds: &str| {
        let args = ["get", kinds, "-n", namespace, "--output", output];
        cluster.kubectl_ok(args).unwrap_or_default()
    };
    let reasons = "jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[*].message}\n";
    let reasons = ask(&format!("{reasons}{{end}}"), "broadcastjobs");
    format!("\n{reasons}{}", ask("wide", "broadcastjobs,pods"))
}

/// Reasons of the events about our jobs.
pub(super) fn work_events(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let list = get(cluster, "events.events.k8s.io", "team-a", &[])?;
    let items = list["items"].as_array().into_iter().flatten();
    let ours = items.filter(|e| e["reportingController"] == "carillon.dev/broadcastjob-controller");
    Ok(ours
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect())
}

pub(super) fn job(name: &str, namespace: &str, spec: &Value, fate: &Fate) -> Value {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    let template = &mut object["spec"]["template"];
    template["metadata"]["annotations"] = fate.annotations().into();
    template["spec"]["restartPolicy"] = json!("Never");
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    template["spec"]["containers"] = json!([{"name": "work", "image": "busybox"}]);
    object
}

pub(super) fn pods(cluster: &Cluster, namespace: &str, job: &str) -> Result<Vec<Value>> {
    let selector = format!("--selector=carillon.dev/broadcastjob-name={job}");
    let mut list = get(cluster, "pods", namespace, &[&selector])?;
    let items = list["items"].take();
    Ok(items.as_array().cloned().unwrap_or_default())
}
