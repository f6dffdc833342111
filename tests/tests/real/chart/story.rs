//! The life of a release, lived once: install, upgrade, work, fewer namespaces, removal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use carillon_testbed::carillon::{
    NAMESPACE, Profile, Program, RELEASE, build, install_chart, is_ours, workspace,
};
use carillon_testbed::{AuditEvent, Cluster, Config, Fate, Operator, Options, wait};
use serde_json::{Value, json};

use super::alone::{Alone, alone};
use super::daemons::daemon_sets;
use super::render::{EVERYTHING, chart, render, said, texts};
use super::rights::{Right, allowed, can_i, operators, try_beyond};
use super::runs::runs;
use super::work::{
    WORK, held_pod, job, jobs_now, record, refused_at_first, until, work, work_events,
};
use super::{ACCOUNT, EVERY, LIMIT};

/// Everything seen in the life of one release.
pub(super) struct Story {
    /// Columns: before and after the upgrade.
    pub(super) slices_by_short_name: [bool; 2],
    pub(super) deployment_args: [Vec<String>; 2],
    pub(super) pod_labels: [Value; 2],
    pub(super) revisions: Vec<String>,
    pub(super) kept_uid: [String; 2],
    pub(super) helm_test: String,
    pub(super) fully_valued: String,
    pub(super) check: [(bool, String); 2],
    /// Statuses of the jobs that ended, by name.
    pub(super) ended: BTreeMap<&'static str, Value>,
    /// Ends of the jobs that are seen otherwise.
    pub(super) stopped_pods: usize,
    pub(super) withdrawn_pods: usize,
    pub(super) attempts_after_vanishing: Value,
    /// The end of the job whose pods were refused at first.
    pub(super) refused_at_first: Value,
    pub(super) running_pod: String,
    /// By verb, resource and namespace, whether kubectl says yes.
    pub(super) can_i: Vec<(String, bool)>,
    /// Every (group, resource, verb, namespace) the authorizer lets the account do.
    pub(super) allowed: BTreeSet<Right>,
    /// What admission says to a child of a job from somebody who may create pods only.
    pub(super) without_finalizers: String,
    /// What was tried for real with the account's token, and the answer.
    pub(super) tried: Vec<(String, Output)>,
    pub(super) rules: [Value; 2],
    pub(super) requests: Vec<AuditEvent>,
    pub(super) events: BTreeSet<String>,
    pub(super) exit: Option<String>,
    pub(super) alone: Vec<Alone>,
    pub(super) narrow: Narrow,
    pub(super) after_uninstall: AfterUninstall,
}

/// With `watchNamespaces`.
pub(super) struct Narrow {
    pub(super) cluster_rules: Value,
    pub(super) roles: BTreeMap<String, Value>,
    pub(super) phases: BTreeMap<&'static str, String>,
    pub(super) pods_elsewhere: String,
    pub(super) status_elsewhere: Value,
    pub(super) list_elsewhere: Output,
    pub(super) refused_requests: usize,
}

pub(super) struct AfterUninstall {
    pub(super) crds: String,
    pub(super) jobs: String,
    pub(super) left: String,
    /// A pod that was deleted while nobody let it go.
    pub(super) held_pod: Value,
    pub(super) installed_again: String,
    /// Its record, after an operator came back and the pod was gone.
    pub(super) record_of_held_pod: Value,
}

/// The life of a release, lived once.
pub(super) fn story() -> &'static Story {
    static STORY: OnceLock<Option<Story>> = OnceLock::new();
    let story = STORY.get_or_init(|| {
        let story = live();
        story.inspect_err(|error| eprintln!("{error:#}")).ok()
    });
    story
        .as_ref()
        .expect("another of these tests says what went wrong")
}

/// A cluster that records every request of the operator's account, events included, and whose
/// admission asks for `update` on finalizers.
pub(super) fn cluster() -> Result<Cluster> {
    let policy = std::env::temp_dir().join(format!("carillon-audit-{}.json", std::process::id()));
    let rules = json!([{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}]);
    let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
                      "omitStages": ["RequestReceived"], "rules": rules});
    fs::write(&policy, text.to_string())?;
    let mut config = Config::new("chart").with_nodes(10);
    config.apiserver_args = vec![
        format!("--audit-policy-file={}", policy.display()),
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
    ];
    // It deletes Jobs whose time to live is over whoever manages them, and may be faster than we are.
    let without = "--controllers=*,-ttl-after-finished-controller";
    config.controller_manager_args = vec![without.to_owned()];
    let cluster = Cluster::start(config);
    let _ = fs::remove_file(&policy);
    cluster
}

pub(super) fn live() -> Result<Story> {
    let cluster = cluster()?;
    for namespace in [NAMESPACE, "team-a", "team-b", "team-c"] {
        cluster.kubectl_ok(["create", "namespace", namespace])?;
    }
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl_ok(["label", "namespace", NAMESPACE, restricted])?;

    // Install: an older chart, whose CRD lacks a short name.
    let old = older_chart(&cluster)?;
    let version = "--set=podLabels.team=platform";
    helm_on(&cluster, &["install", RELEASE, &old, "--wait", version])?;
    let short = |cluster: &Cluster| cluster.kubectl(["get", "nrs"]);
    let before = short(&cluster)?.status.success();
    let (old_args, old_labels) = deployment(&cluster)?;
    let kept = job("kept", "team-a", &json!({"paused": true}), &Fate::default());
    cluster.kubectl_stdin(["create", "-f", "-"], &kept.to_string())?;
    let uid = |cluster: &Cluster| {
        let path = "jsonpath={.metadata.uid}";
        cluster.kubectl_ok(["get", "broadcastjob", "kept", "-n", "team-a", "-o", path])
    };
    let kept_uid = uid(&cluster)?;

    // Upgrade: the chart of this tree, and one more value.
    let real = chart();
    let reuse = [
        "--reset-then-reuse-values",
        "--set=logLevel=debug",
        "--wait",
    ];
    let mut args = vec!["upgrade", RELEASE, &real];
    args.extend(reuse);
    helm_on(&cluster, &args)?;
    wait::until(
        "the short name is served",
        LIMIT,
        EVERY,
        || Ok(short(&cluster)?.status.success().then_some(())),
        String::new,
    )?;
    let (new_args, new_labels) = deployment(&cluster)?;
    let kept_uid = [kept_uid, uid(&cluster)?];
    let history = helm_on(&cluster, &["history", RELEASE, "--output=json"])?;
    let history: Value = serde_json::from_str(&history)?;
    let revisions = history.as_array().into_iter().flatten();
    let revisions = revisions
        .map(|entry| format!("{} {}", entry["chart"], entry["status"]).replace('"', ""))
        .collect();
    let helm_test = helm_on(&cluster, &["test", RELEASE])?;
    let fully_valued = dry_run_of_everything(&cluster)?;

    // What the account may do, by word.
    let can_i = can_i(&cluster)?;
    let allowed = allowed(&cluster)?;
    let without_finalizers = wait_for_the_owner_plugin(&cluster)?;

    // Work, with the rights and the arguments of the chart.
    let account = account(&cluster)?;
    let operator = start(&cluster, "operator", &account, &new_args)?;
    let check = [
        check(&operator, "/readyz?verbose")?,
        check(&operator, "/nowhere")?,
    ];
    let work = work(&cluster, WORK)?;
    let refused_at_first = refused_at_first(&cluster, WORK)?;
    runs(&cluster, WORK)?;
    daemon_sets(&cluster, WORK)?;
    let rules = [
        rules(&cluster, "clusterrole", "carillon", "")?,
        rules(&cluster, "role", "carillon-lease", NAMESPACE)?,
    ];
    let running = work.running_pod.clone();
    let tried = try_beyond(&cluster, &account, &running)?;
    let events = work_events(&cluster)?;
    let exit = stop(&operator)?;
    let requests = cluster.audit_events()?;

    // Each controller alone.
    let alone = alone(&cluster)?;

    // Narrow: two namespaces instead of all.
    let narrow = narrow(&cluster)?;

    // Uninstall, and install again.
    let after_uninstall = uninstall(&cluster, &running)?;

    Ok(Story {
        slices_by_short_name: [before, true],
        deployment_args: [old_args, new_args],
        pod_labels: [old_labels, new_labels],
        revisions,
        kept_uid,
        helm_test,
        fully_valued,
        check,
        ended: work.ended,
        stopped_pods: work.stopped_pods,
        withdrawn_pods: work.withdrawn_pods,
        attempts_after_vanishing: work.attempts,
        refused_at_first,
        running_pod: running,
        can_i,
        allowed,
        without_finalizers,
        tried,
        rules,
        requests,
        events,
        exit,
        alone,
        narrow,
        after_uninstall,
    })
}

/// The chart as an earlier version might have been.
pub(super) fn older_chart(cluster: &Cluster) -> Result<String> {
    let target = cluster.dir().join("older-chart");
    copy(&workspace().join("charts/carillon"), &target)?;
    let replace = |file: &str, from: &str, to: &str| {
        let path = target.join(file);
        let text = fs::read_to_string(&path)?;
        ensure!(text.contains(from), "no {from:?} in {file}");
        fs::write(&path, text.replace(from, to))?;
        Ok(())
    };
    let slices = "crds-generated/carillon.dev_noderesultslices.yaml";
    replace(slices, "    shortNames:\n    - nrs\n", "")?;
    replace("Chart.yaml", "version: 0.1.0\n", "version: 0.0.9\n")?;
    Ok(target.display().to_string())
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

pub(super) fn helm_on(cluster: &Cluster, args: &[&str]) -> Result<String> {
    helm_ok(cluster, NAMESPACE, args)
}

/// The same for a release in another namespace.
pub(super) fn helm_ok(cluster: &Cluster, namespace: &str, args: &[&str]) -> Result<String> {
    let output = helm_in(cluster, namespace, args)?;
    ensure!(output.status.success(), "helm {args:?}: {}", said(&output));
    Ok(said(&output))
}

/// The same, whether helm succeeds or not.
pub(super) fn helm_in(cluster: &Cluster, namespace: &str, args: &[&str]) -> Result<Output> {
    let mut command = cluster.helm_command()?;
    command.args(args).args(["--namespace", namespace]);
    Ok(command.stdin(Stdio::null()).output()?)
}

/// Arguments and pod labels of the operator's Deployment.
pub(super) fn deployment(cluster: &Cluster) -> Result<(Vec<String>, Value)> {
    let json = cluster.kubectl_ok([
        "get",
        "deployment",
        RELEASE,
        "-n",
        NAMESPACE,
        "--output=json",
    ])?;
    let json: Value = serde_json::from_str(&json)?;
    let template = &json["spec"]["template"];
    let args = texts(&template["spec"]["containers"][0]["args"]);
    let args = args.into_iter().map(str::to_owned).collect();
    Ok((args, template["metadata"]["labels"].clone()))
}

/// The API server judges what everything on renders to; kinds of the Prometheus operator apart,
/// which this cluster does not have.
pub(super) fn dry_run_of_everything(cluster: &Cluster) -> Result<String> {
    let mut objects = render(EVERYTHING);
    objects.retain(|o| o["apiVersion"] != "monitoring.coreos.com/v1");
    // `helm test` has created its pod for real.
    objects.retain(|o| o["kind"] != "Pod");
    for object in &mut objects {
        // Beside the objects of the release, not over them.
        let name = format!(
            "{}-everything",
            object["metadata"]["name"].as_str().unwrap_or("")
        );
        object["metadata"]["name"] = json!(name);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    cluster.kubectl_stdin(["create", "--dry-run=server", "-f", "-"], &list.to_string())
}

/// OwnerReferencesPermissionEnforcement learns of new kinds every 30 seconds, and until then refuses
/// their children to everybody. Waits until it does not, and gives what it says to somebody who
/// may create pods, and may not update finalizers.
pub(super) fn wait_for_the_owner_plugin(cluster: &Cluster) -> Result<String> {
    let owner = get(cluster, "broadcastjob", "team-a", &["kept"])?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "child", "namespace": "team-a", "ownerReferences": [{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "kept",
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]},
        "spec": {"containers": [{"name": "work", "image": "busybox"}]},
    });
    let create = |user: &str| {
        let user = format!("--as={user}");
        let args = ["create", "--dry-run=server", "-f", "-", &user];
        cluster.kubectl_stdin(args, &pod.to_string())
    };
    wait::until(
        "admission knows BroadcastJobs",
        LIMIT,
        EVERY,
        || Ok(create(ACCOUNT).ok()),
        || format!("{:?}", create(ACCOUNT)),
    )?;
    let edit = ["--clusterrole=edit", "--user=maker", "-n", "team-a"];
    cluster.kubectl_ok(["create", "rolebinding", "maker"].iter().chain(&edit))?;
    let allowed = [
        "auth",
        "can-i",
        "create",
        "pods",
        "--as=maker",
        "-n",
        "team-a",
    ];
    let probe = || Ok(cluster.kubectl(allowed)?.status.success().then_some(()));
    wait::until("maker may create pods", LIMIT, EVERY, probe, String::new)?;
    Ok(match create("maker") {
        Ok(created) => created,
        Err(refused) => format!("{refused:#}"),
    })
}

pub(super) fn account(cluster: &Cluster) -> Result<PathBuf> {
    carillon_testbed::carillon::service_account(cluster)
}

/// The operator with the arguments of the chart's Deployment.
pub(super) fn start(
    cluster: &Cluster,
    name: &str,
    kubeconfig: &Path,
    args: &[String],
) -> Result<Operator> {
    let mut options = Options::new(name).kubeconfig(kubeconfig);
    options.args = args.iter().filter(|arg| is_ours(arg)).cloned().collect();
    Operator::start(cluster, &options)
}

/// What `helm test` does in its pod.
pub(super) fn check(operator: &Operator, path: &str) -> Result<(bool, String)> {
    let url = format!("http://127.0.0.1:{}{path}", operator.http_port);
    let output = Command::new(build(Program::Operator, Profile::Dev)?)
        .args(["check", "--timeout=2s", "--url", &url])
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    Ok((output.status.success(), said(&output)))
}

pub(super) fn stop(operator: &Operator) -> Result<Option<String>> {
    operator.process.terminate(LIMIT)?;
    let log = fs::read_to_string(operator.process.log())?;
    Ok(log.lines().last().map(str::to_owned))
}

pub(super) fn rules(cluster: &Cluster, kind: &str, name: &str, namespace: &str) -> Result<Value> {
    let namespace = format!("--namespace={namespace}");
    let json = cluster.kubectl_ok(["get", kind, name, &namespace, "--output=json"])?;
    let mut json: Value = serde_json::from_str(&json)?;
    Ok(json["rules"].take())
}

pub(super) fn get(cluster: &Cluster, kind: &str, namespace: &str, more: &[&str]) -> Result<Value> {
    let args = ["get", kind, "-n", namespace, "--output=json"];
    let json = cluster.kubectl_ok(args.iter().chain(more))?;
    Ok(serde_json::from_str(&json)?)
}

/// The same release, for two namespaces only.
pub(super) fn narrow(cluster: &Cluster) -> Result<Narrow> {
    let real = chart();
    let only = "--set=watchNamespaces={team-a,team-b}";
    let all = "--set=controllers=null";
    helm_on(
        cluster,
        &[
            "upgrade",
            RELEASE,
            &real,
            "--reset-then-reuse-values",
            only,
            all,
        ],
    )?;
    let cluster_rules = rules(cluster, "clusterrole", RELEASE, "")?;
    let mut roles = BTreeMap::new();
    let list = cluster.kubectl_ok(["get", "roles", "--all-namespaces", "--output=json"])?;
    let list: Value = serde_json::from_str(&list)?;
    for role in list["items"].as_array().into_iter().flatten() {
        if role["metadata"]["name"] == RELEASE {
            let namespace = role["metadata"]["namespace"].as_str().unwrap_or_default();
            roles.insert(namespace.to_owned(), role["rules"].clone());
        }
    }
    let before = cluster.audit_events()?.len();
    let account = account(cluster)?;
    let (args, _) = deployment(cluster)?;
    let operator = start(cluster, "narrow", &account, &args)?;
    // In the one that is not served first, so that it had the most time.
    for namespace in ["team-c", "team-b", "team-a"] {
        let object = job("narrow", namespace, &json!({}), &Fate::default());
        cluster.kubectl_stdin(["create", "-f", "-"], &object.to_string())?;
    }
    let mut phases = BTreeMap::new();
    for namespace in ["team-a", "team-b"] {
        let probe = || {
            let object = get(cluster, "broadcastjob", namespace, &["narrow"])?;
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            Ok((phase == "completed").then(|| phase.to_owned()))
        };
        let hint = || jobs_now(cluster);
        let phase = wait::until("a served job ends", LIMIT, EVERY, probe, hint)?;
        phases.insert(namespace, phase);
    }
    let kubeconfig = format!("--kubeconfig={}", account.display());
    let list_elsewhere = cluster.kubectl([&kubeconfig, "get", "pods", "-n", "team-c"])?;
    let pods_elsewhere = cluster.kubectl_ok(["get", "pods", "-n", "team-c", "-o", "name"])?;
    let elsewhere = get(cluster, "broadcastjob", "team-c", &["narrow"])?;
    stop(&operator)?;
    let requests = cluster.audit_events()?;
    let refused_requests = operators(&requests[before..])
        .filter(|request| request.code == Some(403))
        .count();
    Ok(Narrow {
        cluster_rules,
        roles,
        phases,
        pods_elsewhere,
        status_elsewhere: elsewhere["status"].clone(),
        list_elsewhere,
        refused_requests,
    })
}

pub(super) fn uninstall(cluster: &Cluster, running_pod: &str) -> Result<AfterUninstall> {
    helm_on(cluster, &["uninstall", RELEASE, "--wait"])?;
    let crds = cluster.kubectl_ok(["get", "crds", "--output=name"])?;
    let jobs = cluster.kubectl_ok(["get", "broadcastjobs", "-A", "--output=name"])?;
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,\
                 clusterrolebindings,poddisruptionbudgets,pods";
    let selector = "--selector=app.kubernetes.io/instance=carillon";
    let left = cluster.kubectl_ok(["get", kinds, "-A", selector, "--output=name"])?;
    let held_pod = held_pod(cluster, WORK, running_pod)?;
    install_chart(cluster, &["--set=replicaCount=1"])?;
    let installed_again = helm_on(cluster, &["status", RELEASE])?;
    let (args, _) = deployment(cluster)?;
    let operator = start(cluster, "again", &account(cluster)?, &args)?;
    until(cluster, "a pod that was held is released", || {
        let args = ["get", "pod", running_pod, "-n", WORK];
        Ok(!cluster.kubectl(args)?.status.success())
    })?;
    let record_of_held_pod = record(cluster, WORK, running_pod)?;
    stop(&operator)?;
    Ok(AfterUninstall {
        crds,
        jobs,
        left,
        held_pod,
        installed_again,
        record_of_held_pod,
    })
}
