//! What Prometheus has scraped: operators at work.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::carillon::apply_crds;
use carillon_testbed::{Cluster, Config, Fate, Operator, Options, Prometheus, fate, wait};
use serde_json::{Value, json};

use super::alerts::alerts_text;

pub(super) const LIMIT: Duration = Duration::from_mins(1);
pub(super) const EVERY: Duration = Duration::from_millis(200);

/// Two replicas at work, one operator without election, and Prometheus, which scrapes the former
/// two since before they had anything to do.
pub(super) struct Scene {
    pub(super) leader: Operator,
    pub(super) standby: Operator,
    pub(super) alone: Operator,
    /// What the standby said of leadership as soon as it answered.
    pub(super) standby_at_first: f64,
    pub(super) prometheus: Prometheus,
    /// Last: the operators end before it.
    _cluster: Cluster,
}

pub(super) fn scene() -> &'static Scene {
    static SCENE: OnceLock<Option<Scene>> = OnceLock::new();
    let scene = SCENE.get_or_init(|| {
        let scene = set();
        scene.inspect_err(|error| eprintln!("{error:#}")).ok()
    });
    scene
        .as_ref()
        .expect("another of these tests says what went wrong")
}

fn set() -> Result<Scene> {
    let mut config = Config::new("prometheus").with_nodes(4);
    config.audit = carillon_testbed::Audit::Off;
    let cluster = Cluster::start(config)?;
    apply_crds(&cluster)?;
    cluster.kubectl_ok(["create", "namespace", "empty"])?;
    let leader = Operator::start(&cluster, &Options::new("leader"))?;
    leads(&leader)?;
    let standby = Operator::start(&cluster, &Options::new("standby"))?;
    let standby_at_first = standby.metric(LEADS)?;
    let options = Options::new("alone").arg("--leader-elect=false");
    let alone = Operator::start(&cluster, &options.arg("--namespaces=empty"))?;

    let targets = [&leader, &standby].map(|o| format!("\"127.0.0.1:{}\"", o.http_port));
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
         scrape_configs:\n\
         - job_name: carillon\n  \
           static_configs:\n  \
           - targets: [{}]\n    \
             labels: {{namespace: carillon-system}}\n",
        targets.join(", ")
    );
    let prometheus = Prometheus::start(&config, &[&alerts_text()])?;
    prometheus.query_until_some("count(carillon_build_info) == 2", LIMIT)?;

    work(&cluster)?;
    more_work(&cluster, &prometheus)?;
    prometheus.query_until_some(EXTERNAL, LIMIT)?;
    Ok(Scene {
        leader,
        standby,
        alone,
        standby_at_first,
        prometheus,
        _cluster: cluster,
    })
}

const EXTERNAL: &str =
    r#"job_controller_jobs_by_external_controller_total{controller_name="example.com/other"} == 1"#;
pub(super) const LEADS: &str = r#"leader_election_master_status{name="carillon"}"#;

fn leads(operator: &Operator) -> Result<()> {
    let probe = || Ok((operator.metric(LEADS)? > 0.0).then_some(()));
    wait::until("the first operator leads", LIMIT, EVERY, probe, String::new)
}

fn job(name: &str, fate: &Fate) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "failurePolicy": {"type": "Continue"},
            "template": {
                "metadata": {"annotations": fate.annotations()},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "work", "image": "busybox"}],
                },
            },
        },
    })
}

fn daemon_set(name: &str, fate: &Fate) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": fate.annotations()},
                "spec": {"containers": [{"name": "work", "image": "busybox"}]},
            },
        },
    })
}

/// A job that ends with a failed node, one that goes on, with a node left out of it, a DaemonSet that would make pods
/// without end, and one whose pods never start.
fn work(cluster: &Cluster) -> Result<()> {
    cluster.kubectl_ok(["cordon", "node-0003"])?;
    let fates = fate::table([("node-0001", Fate::exits(1, "disk full"))]);
    let fates = Fate::default().with("fates", fates);
    // Served by nobody here.
    let others = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "of-others", "namespace": "default"},
        "spec": {"managedBy": "example.com/other", "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "work", "image": "busybox"}],
        }}},
    });
    let mut stalls = daemon_set("stalls", &Fate::default());
    stalls["spec"]["selector"]["matchExpressions"] =
        json!([{"key": "controller-revision-hash", "operator": "DoesNotExist"}]);
    let lacks = daemon_set("lacks", &Fate::never_starts("ImagePullBackOff"));
    for object in [
        others,
        job("ends", &fates),
        job("hangs", &Fate::hangs()),
        stalls,
        lacks,
    ] {
        cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    }
    for (name, path, value) in [
        ("ends", "{.status.phase}", "completed"),
        ("hangs", "{.status.active}", "3"),
    ] {
        let args = [
            "wait",
            &format!("--for=jsonpath={path}={value}"),
            "--timeout=60s",
            &format!("broadcastjob/{name}"),
        ];
        cluster.kubectl_ok(args)?;
    }
    let of = "daemonsets.carillon.dev/lacks";
    let lacks = "--for=condition=Available=false";
    cluster.kubectl_ok(["wait", lacks, "--timeout=60s", of])?;
    make_older(cluster, of, "Available")
}

/// What dashboards show besides: pods that end once the first have been seen to, a job that goes on after a failure, a
/// run of a CronJob, which is a Job that ends, pods that are refused, and a DaemonSet that is updated.
fn more_work(cluster: &Cluster, prometheus: &Prometheus) -> Result<()> {
    let create = |object: &Value| {
        cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
        anyhow::Ok(())
    };
    let cron_job = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "reports", "namespace": "default"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {
            "managedBy": "carillon.dev/job-controller",
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "work", "image": "busybox"}],
            }},
        }}},
    });
    create(&cron_job)?;
    let uid = [
        "get",
        "cronjobs.carillon.dev/reports",
        "-o=jsonpath={.metadata.uid}",
    ];
    let uid = cluster.kubectl_ok(uid)?;
    let run_now = format!("carillon.dev/run-now={uid}/now");
    cluster.kubectl_ok(["annotate", "cronjobs.carillon.dev/reports", &run_now])?;

    // No node has so much room; the API server refuses the pods.
    cluster.kubectl_ok(["create", "namespace", "full"])?;
    cluster.kubectl_ok(["create", "quota", "none", "--hard=pods=0", "-n", "full"])?;
    let mut refused = job("refused", &Fate::default());
    refused["metadata"]["namespace"] = json!("full");
    create(&refused)?;

    create(&daemon_set("rolls", &Fate::default()))?;
    let rolls = "daemonsets.carillon.dev/rolls";
    let ready = ["wait", "--for=condition=Ready", "--timeout=60s", rolls];
    cluster.kubectl_ok(ready)?;
    let other = r#"{"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}"#;
    cluster.kubectl_ok(["patch", rolls, "--type=merge", "-p", other])?;

    let ended = r#"carillon_plan_actions_total{controller="broadcastjob", action="release_pod"}"#;
    prometheus.query_until_some(ended, LIMIT)?;
    create(&job("later", &Fate::default()))?;
    let fates = [
        ("node-0001", Fate::exits(1, "disk full")),
        ("node-0002", Fate::hangs()),
    ];
    let fates = Fate::default().with("fates", fate::table(fates));
    create(&job("goes-on", &fates))?;
    for done in [
        r#"job_controller_jobs_finished_total{result="succeeded"} > 0"#,
        r#"carillon_plan_actions_total{controller="daemonset", action="delete_pod"} > 0"#,
        r#"carillon_broadcastjob_jobs{phase="completed"} == 2"#,
        r#"carillon_broadcastjob_pod_creation_total{result="failed"} > 0"#,
        r#"carillon_broadcastjob_nodes{state="failed"} == 1"#,
    ] {
        prometheus.query_until_some(done, LIMIT)?;
    }
    Ok(())
}

/// A condition says that it has been as it is for an hour. The operator keeps the time of what has not changed.
fn make_older(cluster: &Cluster, of: &str, type_: &str) -> Result<()> {
    let object: Value = serde_json::from_str(&cluster.kubectl_ok(["get", of, "-o", "json"])?)?;
    let conditions = object["status"]["conditions"].as_array();
    let at = conditions.and_then(|all| all.iter().position(|one| one["type"] == type_));
    let at = at.with_context(|| format!("{of} has no condition {type_}"))?;
    let place = format!("/status/conditions/{at}");
    let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    let hour_ago = hour_ago.round(jiff::Unit::Second)?.to_string();
    // The operator may write conditions meanwhile.
    let patch = json!([
        {"op": "test", "path": format!("{place}/type"), "value": type_},
        {"op": "replace", "path": format!("{place}/lastTransitionTime"), "value": hour_ago},
    ]);
    let patch = patch.to_string();
    cluster.kubectl_ok([
        "patch",
        of,
        "--subresource=status",
        "--type=json",
        "-p",
        &patch,
    ])?;
    Ok(())
}
