//! From kube-controller-manager, and back.

use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::{Cluster, Config, Process, Signal, wait};
use carillon_tests::documented::Shell;
use serde_json::{Value, json};

use super::{DAEMON_SET, INSTALL, KUBE_CONTROLLER_MANAGER, create, get, items, running, until};

const INSTALL_IT: &str = "helm install carillon charts/carillon --namespace carillon-system";
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
    shell.run(INSTALL, INSTALL_IT)?;
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

    end(&theirs)?;
    let (ours, theirs_again) = ("serveNative={", "serveNative=[]");
    hand_over(&shell, ours)?;
    serves(&cluster, &before)?;
    let with_us = long_runners(&cluster)?;

    hand_over(&shell, theirs_again)?;
    assert_eq!(long_runners(&cluster)?, with_us, "nobody serves them");
    let _theirs = cluster.start_controller(THEIRS, &[])?;
    serves(&cluster, &with_us)
}

/// Both blocks begin with the same command.
fn hand_over(shell: &Shell<'_>, what: &str) -> Result<()> {
    let begins = "helm upgrade carillon charts/carillon --namespace carillon-system --reset-then-reuse-values --wait \\\n  --set";
    let begins = match what {
        "serveNative={" => format!("{begins} '"),
        _ => format!("{begins}-json '"),
    };
    shell
        .run(KUBE_CONTROLLER_MANAGER, &format!("{begins}{what}"))
        .map(drop)
}

fn end(process: &Process) -> Result<()> {
    process.signal(Signal::TERM)?;
    let ended = || Ok((!process.is_alive()).then_some(()));
    let tail = || process.log_tail(5);
    let (limit, every) = (Duration::from_mins(1), Duration::from_millis(50));
    wait::until("it ends", limit, every, ended, tail)
}

/// The pods of the Job and of the DaemonSet.
fn long_runners(cluster: &Cluster) -> Result<Vec<[String; 3]>> {
    let mut pods = running(cluster)?;
    pods.retain(|[name, ..]| !name.starts_with("report-"));
    Ok(pods)
}

/// Whoever serves them replaces no pod but those that are deleted, and starts one run a minute.
fn serves(cluster: &Cluster, before: &[[String; 3]]) -> Result<()> {
    let gone: Vec<&str> = ["agent-", "sum-"]
        .into_iter()
        .map(|prefix| {
            let of = |[name, ..]: &&[String; 3]| name.starts_with(prefix);
            before.iter().find(of).map(|[name, ..]| &**name)
        })
        .collect::<Option<_>>()
        .context("a pod of each")?;
    let runs_before = runs(cluster)?;
    cluster.kubectl_ok(
        ["delete", "pods", "--grace-period=0", "--force"]
            .iter()
            .chain(&gone),
    )?;
    let stays = |pod: &&[String; 3]| !gone.contains(&&*pod[0]);
    let staying: Vec<&[String; 3]> = before.iter().filter(stays).collect();
    until(cluster, "both have another pod", || {
        let now = long_runners(cluster)?;
        let fresh = now.iter().filter(|pod| !before.contains(pod)).count();
        Ok(now.len() == 4 && fresh == 2 && staying.iter().all(|pod| now.contains(pod)))
    })?;
    until(cluster, "the next run is started", || {
        Ok(runs(cluster)?.iter().any(|run| !runs_before.contains(run)))
    })?;
    let mut times: Vec<String> = runs(cluster)?.into_iter().map(|[time, _]| time).collect();
    let all = times.len();
    times.dedup();
    assert_eq!(times.len(), all, "a time has two runs: {times:?}");
    Ok(())
}

/// For what time each run is, and whose it is, in the order of times.
fn runs(cluster: &Cluster) -> Result<Vec<[String; 2]>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    let jobs = items(&get(cluster, &["jobs"])?).into_iter();
    let runs = jobs.filter_map(|job| {
        let meta = &job["metadata"];
        let time = meta["annotations"][scheduled].as_str()?;
        let time: jiff::Timestamp = time.parse().ok()?;
        let owner = text(&meta["ownerReferences"][0]["apiVersion"]);
        Some([time.to_string(), owner])
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
    shell.run(INSTALL, INSTALL_IT)?;
    shell.run(
        KUBE_CONTROLLER_MANAGER,
        "kubectl apply -f examples/job-managed.yaml",
    )?;
    create(&cluster, &cron_job())?;
    let started_by = |owner: &str, beyond: usize| {
        until(&cluster, &format!("{owner} has started a run"), || {
            Ok(runs(&cluster)?.iter().filter(|[_, of]| of == owner).count() > beyond)
        })
    };
    started_by("batch/v1", 0)?;
    shell.run(KUBE_CONTROLLER_MANAGER, "kubectl get cronjobs.batch/report")?;
    started_by("carillon.dev/v1alpha1", 0)?;
    shell.run(KUBE_CONTROLLER_MANAGER, "kubectl get ccj/report")?;
    let of_theirs = runs(&cluster)?;
    let of_theirs = of_theirs.iter().filter(|[_, of]| of == "batch/v1").count();
    started_by("batch/v1", of_theirs)?;
    let mut times: Vec<String> = runs(&cluster)?.into_iter().map(|[time, _]| time).collect();
    let all = times.len();
    times.dedup();
    assert_eq!(times.len(), all, "a time has two runs: {times:?}");
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
    shell.run(INSTALL, INSTALL_IT)?;
    create(&cluster, &daemon_set())?;
    cluster.kubectl_ok(["rollout", "status", "ds/agent", "--timeout=60s"])?;
    let before = running(&cluster)?;
    let uids = |pods: &[[String; 3]]| {
        pods.iter()
            .map(|[_, uid, _]| uid.clone())
            .collect::<Vec<_>>()
    };
    let served = |kind: &str| {
        until(&cluster, &format!("{kind}/agent has its pods"), || {
            let set = get(&cluster, &[kind, "agent"])?;
            let pods = running(&cluster)?;
            let owned = pods
                .iter()
                .filter(|[.., of]| set["metadata"]["uid"] == **of);
            Ok(set["status"]["updatedNumberScheduled"] == 2 && owned.count() == 2)
        })
    };
    shell.run(DAEMON_SET, "kubectl get ds/agent -o json > agent.json")?;
    served("cds")?;
    shell.run(DAEMON_SET, "kubectl get cds/agent -o json > agent.json")?;
    served("ds")?;
    assert_eq!(uids(&running(&cluster)?), uids(&before));
    Ok(())
}
