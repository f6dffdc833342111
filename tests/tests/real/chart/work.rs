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
    let hint = || jobs_now(cluster);
    wait::until(what, LIMIT, EVERY, || Ok(probe()?.then_some(())), hint)
}

pub(super) fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

/// BroadcastJobs that between them need every right the chart grants for them.
fn jobs(namespace: &str) -> [Value; 5] {
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
        job("ends", namespace, &on, &fates(Fate::default())),
        // A failing node stops the others: pods are deleted.
        job("fails-fast", namespace, &json!({}), &fates(hang.clone())),
        // Removed by its time to live.
        job("goes", namespace, &ttl, &Fate::default()),
        // One of its pods vanishes.
        job("hangs", namespace, &json!({}), &hang),
        // No pod is bound, a node is cordoned meanwhile, and it is deleted before it has ended.
        job("waits", namespace, &spec, &hang),
    ]
}

pub(super) fn work(cluster: &Cluster, namespace: &str) -> Result<Work> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": jobs(namespace)});
    cluster.kubectl_stdin(["create", "-f", "-"], &list.to_string())?;
    let pods = |job: &str| pods(cluster, namespace, job);
    let count = |job: &str| Ok::<_, anyhow::Error>(pods(job)?.len());

    // Withdrawn: the pod that waits for a node that no longer takes any.
    until(cluster, "ten pods wait", || Ok(count("waits")? == 10))?;
    cluster.kubectl_ok(["cordon", "node-0009"])?;
    until(cluster, "one is withdrawn", || Ok(count("waits")? == 9))?;
    let withdrawn_pods = 10 - count("waits")?;
    cluster.kubectl_ok(["uncordon", "node-0009"])?;

    let attempts = vanish(cluster, namespace)?;
    let mut ended = BTreeMap::new();
    for name in ["ends", "fails-fast"] {
        ended.insert(name, end_of(cluster, namespace, name)?);
    }
    until(cluster, "the time to live is over", || {
        let args = ["get", "broadcastjob", "goes", "-n", namespace];
        Ok(!cluster.kubectl(args)?.status.success())
    })?;
    let mut stopped_pods = 0;
    until(cluster, "no pod of fails-fast runs, or is held", || {
        let pods = pods("fails-fast")?;
        stopped_pods = 10 - pods.len();
        Ok(!pods.iter().any(|pod| runs(pod) || is_terminating(pod)))
    })?;
    // Deleted while it runs: its pods must be released.
    let background = "--cascade=background";
    cluster.kubectl_ok([
        "delete",
        "broadcastjob",
        "waits",
        "-n",
        namespace,
        background,
    ])?;
    until(cluster, "a deleted job has no pods", || {
        Ok(count("waits")? == 0)
    })?;
    let left = pods("hangs")?;
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

/// The status of a job that has ended.
fn end_of(cluster: &Cluster, namespace: &str, name: &str) -> Result<Value> {
    let mut status = Value::Null;
    until(cluster, &format!("{name} has ended"), || {
        status = get(cluster, "broadcastjob", namespace, &[name])?["status"].take();
        let phase = status["phase"].as_str().unwrap_or_default();
        Ok(["completed", "failed"].contains(&phase))
    })?;
    Ok(status)
}

/// Pods of a job are refused when they are created, and accepted later: before a promise is kept that
/// was stored before, its slice is asked for. Not by a quota, whose answer is that of a missing right.
pub(super) fn refused_at_first(cluster: &Cluster, namespace: &str) -> Result<Value> {
    let of_job = "has(object.metadata.labels) && 'carillon.dev/broadcastjob-name' in object.metadata.labels \
                  && object.metadata.labels['carillon.dev/broadcastjob-name'] == 'refused'";
    let is_tried = "has(request.dryRun) && request.dryRun";
    // The template is accepted; only what is created is not. By the probe it is seen that this holds.
    let accepted = format!(
        "(!has(object.metadata.name) || object.metadata.name != 'probe') && (({is_tried}) || !({of_job}))"
    );
    let version = "admissionregistration.k8s.io/v1";
    let name = format!("no-pods-in-{namespace}");
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]);
    let validation = json!({"expression": accepted, "message": "not yet", "reason": "Invalid"});
    let policy = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [validation]}});
    let binding = json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    let both = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string();
    cluster.kubectl_stdin(["create", "-f", "-"], &both)?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": {"containers": [{"name": "work", "image": "busybox"}]}});
    until(cluster, "pods are refused", || {
        let args = ["create", "--dry-run=server", "-f", "-"];
        let refused = cluster.kubectl_stdin(args, &pod.to_string());
        Ok(refused.is_err_and(|error| format!("{error:#}").contains("not yet")))
    })?;
    let object = job("refused", namespace, &json!({}), &Fate::default());
    cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    until(cluster, "the refusal is told", || {
        let object = get(cluster, "broadcastjob", namespace, &["refused"])?;
        Ok(object["status"]["conditions"]
            .to_string()
            .contains("not yet"))
    })?;
    cluster.kubectl_stdin(["delete", "-f", "-"], &both)?;
    end_of(cluster, namespace, "refused")
}

fn is_terminating(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// A pod that was told to stop, whose container has ended, and that is held by our finalizer: as it is
/// while no operator runs.
pub(super) fn held_pod(cluster: &Cluster, namespace: &str, pod: &str) -> Result<Value> {
    cluster.kubectl_ok(["delete", "pod", pod, "-n", namespace, "--wait=false"])?;
    let mut held = Value::Null;
    until(cluster, "the container of a deleted pod has ended", || {
        held = get(cluster, "pod", namespace, &[pod])?;
        Ok(is_terminating(&held) && !runs(&held))
    })?;
    Ok(held)
}

/// A pod vanishes, as after `kubectl delete --force` by somebody who took the finalizer off. Gives
/// its record.
fn vanish(cluster: &Cluster, namespace: &str) -> Result<Value> {
    let mut victim = String::new();
    until(cluster, "the pods of hangs run", || {
        let pods = pods(cluster, namespace, "hangs")?;
        let name = pods.first().map(|pod| &pod["metadata"]["name"]);
        name.and_then(Value::as_str)
            .unwrap_or_default()
            .clone_into(&mut victim);
        Ok(pods.len() == 10 && pods.iter().all(runs))
    })?;
    let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
    let pod = ["pod", &victim, "-n", namespace];
    let patch = ["--type=merge", patch];
    cluster.kubectl_ok(["patch"].iter().chain(&pod).chain(&patch))?;
    let now = ["--force", "--grace-period=0"];
    cluster.kubectl_ok(["delete"].iter().chain(&pod).chain(&now))?;
    let mut record = Value::Null;
    until(cluster, "the vanished pod is recorded", || {
        record = self::record(cluster, namespace, &victim)?;
        Ok(record["state"] == "Unknown")
    })?;
    Ok(record)
}

/// What is stored of the attempt of a pod; Null when nothing is.
pub(super) fn record(cluster: &Cluster, namespace: &str, pod: &str) -> Result<Value> {
    let slices = get(cluster, "noderesultslices", namespace, &[])?;
    let slices = slices["items"].as_array().into_iter().flatten();
    let records = slices.filter_map(|slice| slice["results"].as_array());
    let mut records = records.flatten().filter(|record| record["podName"] == pod);
    Ok(records.next().cloned().unwrap_or_default())
}

pub(super) fn jobs_now(cluster: &Cluster) -> String {
    let ask = |output: &str, kinds: &str| {
        let args = ["get", kinds, "--all-namespaces", "--output", output];
        cluster.kubectl_ok(args).unwrap_or_default()
    };
    let reasons = "jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[*].message}\n";
    let reasons = ask(&format!("{reasons}{{end}}"), "broadcastjobs");
    format!("\n{reasons}{}", ask("wide", "broadcastjobs,jobs,pods"))
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
