//! From kube-controller-manager, and back.

use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::{Cluster, Config};
use carillon_tests::documented::Shell;
use serde_json::{Value, json};

use super::install::RELEASE;
use super::{
    DAEMON_SET, INSTALL, KUBE_CONTROLLER_MANAGER, Running, create, get, items, owned, running,
    text, uids, until,
};

/// How two blocks begin.
const UPGRADE: &str = "helm upgrade carillon charts/carillon --namespace carillon-system --reset-then-reuse-values --wait \\\n  ";
/// The kinds that both can serve.
const THEIRS: &str = "job-controller,cronjob-controller,daemonset-controller";
const HANGS: &str = "testbed.carillon.dev/fate";

fn pod(labels: &Value, restart: &str) -> Value {
    json!({
        "metadata": {"labels": labels, "annotations": {HANGS: "hang"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "busybox"}]},
    })
}

fn daemon_set() -> Value {
    let labels = json!({"app": "agent"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod(&labels, "Always")},
    })
}

fn cron_job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
        }}}}},
    })
}

#[test]
fn native_kinds_are_handed_over_and_back_and_each_pod_stays() {
    all_of_a_kind().unwrap();
}

fn all_of_a_kind() -> Result<()> {
    let mut config = Config::new("documented-native").with_nodes(2);
    let without = THEIRS.replace(',', ",-");
    config.controller_manager_args = vec![format!("--controllers=*,-{without}")];
    let cluster = Cluster::start(config)?;
    let shell = Shell::new(&cluster)?;
    shell.run(INSTALL, RELEASE)?;
    let theirs = cluster.start_controller(THEIRS, &[])?;
    create(&cluster, &daemon_set())?;
    create(&cluster, &cron_job())?;
    create(
        &cluster,
        &json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "namespace": "default"},
            "spec": {"parallelism": 2, "template": pod(&json!({}), "Never")},
        }),
    )?;
    until(&cluster, "two pods of each run", || {
        Ok(long_runners(&cluster)?.len() == 4)
    })?;
    let before = long_runners(&cluster)?;

    theirs.terminate(Duration::from_mins(1))?;
    let hand_over = |how: &str| shell.run(KUBE_CONTROLLER_MANAGER, &format!("{UPGRADE}{how}"));
    hand_over("--set 'serveNative={")?;
    serves(&cluster, &before)?;
    let with_us = long_runners(&cluster)?;

    hand_over("--set-json 'serveNative=[]")?;
    assert_eq!(long_runners(&cluster)?, with_us, "nobody serves them");
    let _theirs = cluster.start_controller(THEIRS, &[])?;
    serves(&cluster, &with_us)
}

/// The pods of the Job and of the DaemonSet.
fn long_runners(cluster: &Cluster) -> Result<Vec<Running>> {
    let mut pods = running(cluster)?;
    pods.retain(|pod| !pod.name.starts_with("report-"));
    Ok(pods)
}

/// Whoever serves them replaces no pod but those that are deleted, and starts one run a minute.
fn serves(cluster: &Cluster, before: &[Running]) -> Result<()> {
    let gone: Vec<&str> = ["agent-", "sum-"]
        .into_iter()
        .map(|prefix| {
            let mut names = before.iter().map(|pod| &*pod.name);
            names.find(|name| name.starts_with(prefix))
        })
        .collect::<Option<_>>()
        .context("a pod of each")?;
    let runs_before = runs(cluster)?;
    cluster.kubectl_ok(
        ["delete", "pods", "--grace-period=0", "--force"]
            .iter()
            .chain(&gone),
    )?;
    let stays = |pod: &&Running| !gone.contains(&&*pod.name);
    let staying: Vec<&Running> = before.iter().filter(stays).collect();
    until(cluster, "both have another pod", || {
        let now = long_runners(cluster)?;
        let fresh = now.iter().filter(|pod| !before.contains(pod)).count();
        Ok(now.len() == 4 && fresh == 2 && staying.iter().all(|pod| now.contains(pod)))
    })?;
    until(cluster, "the next run is started", || {
        Ok(runs(cluster)?.iter().any(|run| !runs_before.contains(run)))
    })?;
    assert_no_time_has_two_runs(&runs(cluster)?);
    Ok(())
}

fn assert_no_time_has_two_runs(runs: &[Run]) {
    let mut times: Vec<&str> = runs.iter().map(|run| &*run.time).collect();
    times.dedup();
    assert_eq!(times.len(), runs.len(), "a time has two runs: {runs:?}");
}

/// A run of a CronJob.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Run {
    /// The time of the schedule.
    time: String,
    /// The API of whose it is.
    owner: String,
}

/// In the order of times.
fn runs(cluster: &Cluster) -> Result<Vec<Run>> {
    let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    let jobs = items(&get(cluster, &["jobs"])?).into_iter();
    let runs = jobs.filter_map(|job| {
        let meta = &job["metadata"];
        let time = meta["annotations"][scheduled].as_str()?;
        let time: jiff::Timestamp = time.parse().ok()?;
        let owner = text(&meta["ownerReferences"][0]["apiVersion"]);
        let time = time.to_string();
        Some(Run { time, owner })
    });
    let mut runs: Vec<_> = runs.collect();
    runs.sort();
    Ok(runs)
}

#[test]
fn jobs_and_cron_jobs_are_moved_one_by_one_and_back_and_no_time_has_two_runs() {
    one_by_one().unwrap();
}

fn one_by_one() -> Result<()> {
    let cluster = Cluster::start(Config::new("documented-moved").with_nodes(2))?;
    let shell = Shell::new(&cluster)?;
    shell.run(INSTALL, RELEASE)?;
    shell.run(
        KUBE_CONTROLLER_MANAGER,
        "kubectl apply -f examples/job-managed.yaml",
    )?;
    create(&cluster, &cron_job())?;
    let started = |owner: &str| {
        let of_owner = runs(&cluster)?;
        let of_owner = of_owner.iter().filter(|run| run.owner == owner);
        Ok::<_, anyhow::Error>(of_owner.count())
    };
    let started_by = |owner: &str, beyond: usize| {
        until(&cluster, &format!("{owner} has started a run"), || {
            Ok(started(owner)? > beyond)
        })
    };
    started_by("batch/v1", 0)?;
    shell.run(KUBE_CONTROLLER_MANAGER, "kubectl get cronjobs.batch/report")?;
    started_by("carillon.dev/v1alpha1", 0)?;
    shell.run(KUBE_CONTROLLER_MANAGER, "kubectl get ccj/report")?;
    started_by("batch/v1", started("batch/v1")?)?;
    assert_no_time_has_two_runs(&runs(&cluster)?);
    let job = get(&cluster, &["jobs", "sum"])?;
    assert_eq!(job["spec"]["managedBy"], "carillon.dev/job-controller");
    Ok(())
}

#[test]
fn a_daemon_set_becomes_one_of_carillon_and_is_one_of_apps_again_and_each_pod_stays() {
    daemon_sets().unwrap();
}

fn daemon_sets() -> Result<()> {
    let cluster = Cluster::start(Config::new("documented-daemon").with_nodes(2))?;
    let shell = Shell::new(&cluster)?;
    shell.run(INSTALL, RELEASE)?;
    create(&cluster, &daemon_set())?;
    cluster.kubectl_ok(["rollout", "status", "ds/agent", "--timeout=60s"])?;
    let before = running(&cluster)?;
    let served = |kind: &str| {
        until(&cluster, &format!("{kind}/agent has its pods"), || {
            let set = get(&cluster, &[kind, "agent"])?;
            let owned = owned(&running(&cluster)?, &set);
            Ok(set["status"]["updatedNumberScheduled"] == 2 && owned == 2)
        })
    };
    shell.run(DAEMON_SET, "kubectl get ds/agent -o json > agent.json")?;
    served("cds")?;
    shell.run(DAEMON_SET, "kubectl get cds/agent -o json > agent.json")?;
    served("ds")?;
    assert_eq!(uids(&running(&cluster)?), uids(&before));
    Ok(())
}
