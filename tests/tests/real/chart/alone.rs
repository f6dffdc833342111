//! Each controller alone, with the rights that the chart grants then, and work that needs all of them.

use anyhow::{Context, Result};
use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use carillon_testbed::{AuditEvent, Cluster};
use serde_json::{Value, json};

use super::daemons::daemon_sets;
use super::render::chart;
use super::runs::{create, forgotten, interrupted, release, run};
use super::story::{account, deployment, get, helm_on, rules, start, stop};
use super::work::{refused_at_first, until, work};

/// What a controller may do, and what it has asked for.
pub(super) struct Alone {
    pub(super) controller: &'static str,
    pub(super) rules: [Value; 2],
    pub(super) requests: Vec<AuditEvent>,
}

type Works = fn(&Cluster, &str) -> Result<()>;

pub(super) fn alone(cluster: &Cluster) -> Result<Vec<Alone>> {
    let works: [(&str, Works); 4] = [
        ("broadcastjob", broadcast_jobs),
        ("cronjob", cron_jobs),
        ("daemonset", daemon_sets),
        ("job", jobs),
    ];
    let each = works.into_iter().map(|(controller, works)| {
        one(cluster, controller, works).with_context(|| format!("{controller} alone"))
    });
    each.collect()
}

fn one(cluster: &Cluster, controller: &'static str, works: Works) -> Result<Alone> {
    let real = chart();
    let only = format!("--set=controllers={{{controller}}}");
    helm_on(
        cluster,
        &[
            "upgrade",
            RELEASE,
            &real,
            "--reset-then-reuse-values",
            &only,
        ],
    )?;
    let namespace = format!("only-{controller}");
    cluster.kubectl_ok(["create", "namespace", &namespace])?;
    let rules = [
        rules(cluster, "clusterrole", RELEASE, "")?,
        rules(cluster, "role", "carillon-lease", NAMESPACE)?,
    ];
    // As when it is started for the first time.
    let lease = ["lease", "carillon", "-n", NAMESPACE];
    cluster.kubectl_ok(["delete"].iter().chain(&lease))?;
    let before = cluster.audit_events()?.len();
    let (args, _) = deployment(cluster)?;
    let operator = start(cluster, &namespace, &account(cluster)?, &args)?;
    works(cluster, &namespace)?;
    stop(&operator)?;
    let requests = cluster.audit_events()?.split_off(before);
    Ok(Alone {
        controller,
        rules,
        requests,
    })
}

fn broadcast_jobs(cluster: &Cluster, namespace: &str) -> Result<()> {
    work(cluster, namespace)?;
    refused_at_first(cluster, namespace)?;
    Ok(())
}

/// Nobody runs what it starts: of BroadcastJobs nothing comes, Jobs are those of kube-controller-manager.
fn cron_jobs(cluster: &Cluster, namespace: &str) -> Result<()> {
    let mut pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "busybox"}]}});
    let report = json!({"jobTemplate": {"spec": {"template": pod}}});
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    let hangs = json!({"jobTemplate": {"spec": {"template": pod}}});
    let sweep = json!({"broadcastJobTemplate": {"spec": {"template": pod}}});
    interrupted(cluster, namespace, "waits", &hangs)?;
    interrupted(cluster, namespace, "sweeps", &sweep)?;
    forgotten(cluster, namespace, &hangs)?;
    // Ended, and not kept.
    create(cluster, namespace, "report", &report)?;
    run(cluster, namespace, "report", "now")?;
    until(cluster, "no run of report is kept", || {
        let cron = get(cluster, "ccj", namespace, &["report"])?;
        let ran = cron["status"]["handledRunNow"].is_array() && cron["status"]["active"].is_null();
        Ok(ran && super::runs::children(cluster, namespace, "report")?.is_empty())
    })?;
    // One that the next one replaces.
    let mut replaced = sweep;
    replaced["concurrencyPolicy"] = json!("Replace");
    create(cluster, namespace, "replaced", &replaced)?;
    run(cluster, namespace, "replaced", "first")?;
    let first = release(cluster, namespace, "replaced", "")?;
    run(cluster, namespace, "replaced", "second")?;
    let uid = first["metadata"]["uid"].as_str().unwrap_or_default();
    release(cluster, namespace, "replaced", uid)?;
    Ok(())
}

fn jobs(cluster: &Cluster, namespace: &str) -> Result<()> {
    let job = |name: &str, spec: &Value| {
        let mut object = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        object["spec"]["managedBy"] = json!("carillon.dev/job-controller");
        object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        object["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "work", "image": "busybox"}]);
        cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())
    };
    // Ended, and removed by its time to live.
    job("goes", &json!({"ttlSecondsAfterFinished": 1}))?;
    // Held by a gate: its pods are stopped when it is suspended, and released when it is deleted.
    let gates = json!({"parallelism": 2, "completions": 2,
        "template": {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}});
    job("waits", &gates)?;
    let active = || {
        let job = get(cluster, "job", namespace, &["waits"])?;
        Ok::<_, anyhow::Error>(job["status"]["active"].as_i64().unwrap_or(0))
    };
    let suspend = |yes: bool| {
        let patch = format!("--patch={}", json!({"spec": {"suspend": yes}}));
        let patch = ["job", "waits", "-n", namespace, "--type=merge", &patch];
        cluster.kubectl_ok(["patch"].iter().chain(&patch))
    };
    until(cluster, "two pods wait", || Ok(active()? == 2))?;
    suspend(true)?;
    until(cluster, "none waits", || Ok(active()? == 0))?;
    suspend(false)?;
    until(cluster, "two pods wait again", || Ok(active()? == 2))?;
    cluster.kubectl_ok([
        "delete",
        "job",
        "waits",
        "-n",
        namespace,
        "--cascade=orphan",
    ])?;
    until(
        cluster,
        "the pods of a Job that is gone are released",
        || {
            let pods = get(cluster, "pods", namespace, &[])?;
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            Ok(!pods
                .iter()
                .any(|pod| pod["metadata"]["finalizers"].is_array()))
        },
    )?;
    until(cluster, "the time to live is over", || {
        let args = ["get", "job", "goes", "-n", namespace];
        Ok(!cluster.kubectl(args)?.status.success())
    })
}
