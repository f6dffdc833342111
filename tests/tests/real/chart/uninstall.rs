//! Uninstalling at work: one of each kind is running when the operator goes, and each is also held by
//! somebody else. `kubectl carillon uninstall` releases what is ours, and of nothing else. Another
//! cluster loses the CRDs with the release.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;

use anyhow::Result;
use carillon_testbed::carillon::{
    NAMESPACE, Profile, Program, RELEASE, apply_crds, build, install_chart,
};
use carillon_testbed::{Cluster, Config, Fate, Operator};
use serde_json::{Value, json};

use super::render::{said, texts};
use super::runs::{children, create, run};
use super::story::{account, deployment, get, helm_on, start, stop};
use super::work::{job, until};

const KEPT: &str = "example.com/keep";
const OF_RUNS: &str = "carillon.dev/run-tracking";
const OF_RESULTS: &str = "carillon.dev/result-tracking";
const OF_JOBS: &str = "batch.kubernetes.io/job-tracking";
const WORK: &str = "at-work";
/// A Job of kube-controller-manager lives here.
const OTHERS: &str = "of-others";

/// Our kinds, as kubectl takes them.
const OURS: &str = "cbj,ccj,cds,nrs";

/// Finalizers by kind and name.
type Finalizers = BTreeMap<(String, String), Vec<String>>;

#[test]
fn what_runs_while_it_is_uninstalled_is_released_and_foreign_finalizers_stay() {
    live().unwrap();
}

fn live() -> Result<()> {
    let cluster = Cluster::start(Config::new("uninstall").with_nodes(3))?;
    apply_crds(&cluster)?;
    let short = [
        "--set=leaderElection.leaseDuration=5s",
        "--set=leaderElection.renewDeadline=3s",
        "--set=leaderElection.retryPeriod=1s",
        "--take-ownership",
        "--force-conflicts",
    ];
    install_chart(&cluster, &short)?;
    for namespace in [WORK, OTHERS] {
        cluster.kubectl_ok(["create", "namespace", namespace])?;
    }
    let (args, _) = deployment(&cluster)?;
    let operator = start(&cluster, "operator", &account(&cluster)?, &args)?;
    at_work(&cluster)?;

    // While it leads.
    let before = held(&cluster, WORK)?;
    let check = uninstall(&cluster, &["--check"])?;
    assert_eq!(check.status.code(), Some(2), "{}", said(&check));
    assert!(
        said(&check).contains("leads with the lease carillon-system/carillon"),
        "{}",
        said(&check)
    );
    let refused = uninstall(&cluster, &["--release"])?;
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert_eq!(held(&cluster, WORK)?, before, "nothing was done");

    let theirs = held(&cluster, OTHERS)?;
    remove(&cluster, &operator)?;
    is_told(&cluster)?;
    is_released(&cluster, &before)?;
    assert_eq!(
        held(&cluster, OTHERS)?,
        theirs,
        "pods of a Job that is not ours"
    );
    jobs_are_deleted(&cluster)?;
    is_gone(&cluster, &before)
}

#[test]
fn without_crds_keep_the_crds_go_with_the_release_and_every_object_with_them() {
    without_keep().unwrap();
}

fn without_keep() -> Result<()> {
    let cluster = Cluster::start(Config::new("uninstall-crds").with_nodes(2))?;
    install_chart(&cluster, &["--set=crds.keep=false"])?;
    is_served(&cluster)?;
    cluster.kubectl_ok(["create", "namespace", WORK])?;
    let (args, _) = deployment(&cluster)?;
    let operator = start(&cluster, "operator", &account(&cluster)?, &args)?;
    stored(&cluster)?;

    let crds = ["get", "crds", "--output=name"];
    assert_eq!(
        cluster.kubectl_ok(crds)?.matches(".carillon.dev").count(),
        4
    );
    // As its Deployment ends first.
    stop(&operator)?;
    helm_on(&cluster, &["uninstall", RELEASE, "--wait"])?;
    until(&cluster, "the CRDs are gone", || {
        Ok(!cluster.kubectl_ok(crds)?.contains("carillon.dev"))
    })?;
    until(&cluster, "the pods are gone", || {
        let pods = cluster.kubectl_ok(["get", "pods", "-n", WORK, "--output=name"])?;
        Ok(pods.is_empty())
    })?;

    // What is stored would be there again with its CRD.
    install_chart(&cluster, &[])?;
    is_served(&cluster)?;
    let left = cluster.kubectl_ok(["get", OURS, "--all-namespaces", "--output=name"])?;
    assert_eq!(left, "");
    Ok(())
}

fn is_served(cluster: &Cluster) -> Result<()> {
    until(cluster, "our kinds are served", || {
        let got = cluster.kubectl(["get", OURS, "--all-namespaces"])?;
        Ok(got.status.success())
    })
}

/// One object of each kind: a DaemonSet whose pods run, a job that has ended, and a CronJob.
fn stored(cluster: &Cluster) -> Result<()> {
    let set = |name: &str| {
        let labels = json!({"app": name});
        let pod = json!({"containers": [{"name": "main", "image": "busybox:1.37"}]});
        json!({"apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": WORK},
            "spec": {"selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod}}})
    };
    let sets = json!({"apiVersion": "v1", "kind": "List", "items": [set("agent"), set("probe")]});
    cluster.kubectl_stdin(["create", "-f", "-"], &sets.to_string())?;
    let fix = job("fix", WORK, &json!({}), &Fate::default());
    cluster.kubectl_stdin(["create", "-f", "-"], &fix.to_string())?;
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}});
    let template = json!({"jobTemplate": {"spec": {"template": pod}}});
    create(cluster, WORK, "report", &template)?;
    until(cluster, "the job has ended", || {
        let job = get(cluster, "cbj", WORK, &["fix"])?;
        Ok(job["status"]["phase"] == "completed")
    })?;
    until(cluster, "each node has a pod", || {
        let set = get(cluster, "cds", WORK, &["agent"])?;
        Ok(set["status"]["numberAvailable"] == 2)
    })?;
    until(cluster, "every pod is released", || {
        Ok(held(cluster, WORK)?.values().all(Vec::is_empty))
    })?;
    let slices = cluster.kubectl_ok(["get", "nrs", "-n", WORK, "--output=name"])?;
    assert_ne!(slices, "");
    // The garbage collector knows a kind only some time after its CRD is there; then this ends.
    let probe = ["delete", "cds", "probe", "-n", WORK, "--cascade=foreground"];
    cluster.kubectl_ok(probe.iter().chain(&["--timeout=2m"]))?;
    Ok(())
}

/// What is held is listed, and nothing else is.
fn is_told(cluster: &Cluster) -> Result<()> {
    let check = uninstall(cluster, &["--check"])?;
    println!("$ kubectl carillon uninstall --check\n{}", said(&check));
    assert_eq!(check.status.code(), Some(2), "{}", said(&check));
    let told: BTreeSet<String> = String::from_utf8_lossy(&check.stdout)
        .lines()
        .filter(|line| line.starts_with(WORK) || line.starts_with(OTHERS))
        .map(|line| {
            line.split_whitespace()
                .take(4)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let expected = [
        format!("{WORK} BroadcastJob {OF_RUNS} 1"),
        format!("{WORK} Job {OF_RUNS} 1"),
        format!("{WORK} Pod {OF_RESULTS} 6"),
        format!("{WORK} Pod {OF_JOBS} 2"),
        format!("{WORK} Job spec.managedBy carillon.dev/job-controller"),
    ];
    assert_eq!(told, expected.into_iter().collect());
    Ok(())
}

/// Ours are taken off, and what somebody else holds stays held.
fn is_released(cluster: &Cluster, before: &Finalizers) -> Result<()> {
    let now = held(cluster, WORK)?;
    let dry = uninstall(cluster, &["--release", "--delete-jobs", "--dry-run"])?;
    assert_eq!(dry.status.code(), Some(2), "{}", said(&dry));
    for says in ["taken off 6 Pods: ", "1 Job deleted: sum (dry run)"] {
        assert!(said(&dry).contains(says), "{}", said(&dry));
    }
    assert_eq!(held(cluster, WORK)?, now, "nothing was done");
    let released = uninstall(cluster, &["--release"])?;
    println!(
        "$ kubectl carillon uninstall --release\n{}",
        said(&released)
    );
    assert_eq!(
        released.status.code(),
        Some(2),
        "a Job nobody goes on with: {}",
        said(&released)
    );
    let ours = [OF_RUNS, OF_RESULTS];
    for (object, finalizers) in held(cluster, WORK)? {
        let ours = finalizers.iter().any(|one| ours.contains(&one.as_str()));
        assert!(!ours, "{object:?}: {finalizers:?}");
        // Its pods are kube-controller-manager's, which goes on.
        if object.0 == "Pod" && !object.1.starts_with("report-") {
            assert!(
                !finalizers.contains(&OF_JOBS.to_owned()),
                "{object:?}: {finalizers:?}"
            );
        }
        let kept = before[&object].contains(&KEPT.to_owned());
        assert_eq!(finalizers.contains(&KEPT.to_owned()), kept, "{object:?}");
    }
    Ok(())
}

/// Jobs that nobody goes on with go when that is asked for; then nothing is left to do.
fn jobs_are_deleted(cluster: &Cluster) -> Result<()> {
    let deleted = uninstall(cluster, &["--release", "--delete-jobs"])?;
    println!(
        "$ kubectl carillon uninstall --release --delete-jobs\n{}",
        said(&deleted)
    );
    assert_eq!(deleted.status.code(), Some(0), "{}", said(&deleted));
    assert!(
        said(&deleted).contains("1 Job deleted: sum"),
        "{}",
        said(&deleted)
    );
    let again = uninstall(cluster, &["--release", "--delete-jobs"])?;
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert!(again.stdout == b"Nothing is held.\n", "{}", said(&again));

    Ok(())
}

/// The namespace ends, once the others have released theirs, too.
fn is_gone(cluster: &Cluster, before: &Finalizers) -> Result<()> {
    cluster.kubectl_ok(["delete", "namespace", WORK, "--wait=false"])?;
    let kept: BTreeSet<(String, String)> = before
        .iter()
        .filter(|(_, finalizers)| finalizers.contains(&KEPT.to_owned()))
        .map(|(object, _)| object.clone())
        .collect();
    assert_eq!(kept.len(), 6, "{before:?}");
    until(cluster, "only what somebody else holds is there", || {
        let left: BTreeSet<_> = held(cluster, WORK)?.into_keys().collect();
        Ok(left == kept)
    })?;
    for ((kind, name), finalizers) in held(cluster, WORK)? {
        assert_eq!(finalizers, [KEPT], "{kind} {name}");
        let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
        let resource = if kind == "BroadcastJob" { "cbj" } else { &kind };
        cluster.kubectl_ok(["patch", resource, &name, "-n", WORK, "--type=merge", patch])?;
    }
    until(cluster, "the namespace is gone", || {
        Ok(!cluster
            .kubectl(["get", "namespace", WORK])?
            .status
            .success())
    })
}

/// One of each kind, all of it running, each with an object that somebody else holds, too.
fn at_work(cluster: &Cluster) -> Result<()> {
    hold_runs(cluster)?;
    let kept = json!([KEPT]);
    let pod = json!({
        "metadata": {"annotations": {"testbed.carillon.dev/fate": "hang"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37"}]},
    });
    let ours = "carillon.dev/job-controller";
    let job = json!({"completions": 2, "parallelism": 2, "template": pod});
    let mut managed = job.clone();
    managed["managedBy"] = json!(ours);
    let object = |version: &str, kind: &str, name: &str, spec: &Value| {
        json!({"apiVersion": version, "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": WORK, "finalizers": kept}})
    };
    let cron = |name: &str, field: &str, spec: &Value| {
        let spec = json!({"schedule": "0 0 1 1 *", field: {"spec": spec}});
        json!({"apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob", "spec": spec,
            "metadata": {"name": name, "namespace": WORK}})
    };
    let broadcast = json!({"template": pod});
    let mut theirs = object("batch/v1", "Job", "theirs", &job);
    theirs["metadata"] = json!({"name": "theirs", "namespace": OTHERS});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        object("carillon.dev/v1alpha1", "BroadcastJob", "fix", &broadcast),
        object("batch/v1", "Job", "sum", &managed),
        cron("report", "jobTemplate", &json!({"template": pod})),
        cron("sweep", "broadcastJobTemplate", &broadcast),
        theirs,
    ]});
    cluster.kubectl_stdin(["create", "-f", "-"], &objects.to_string())?;
    for name in ["report", "sweep"] {
        run(cluster, WORK, name, "now")?;
    }
    let running = |namespace: &str| -> Result<Vec<Value>> {
        let pods = get(cluster, "pods", namespace, &[])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        Ok(pods
            .into_iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .collect())
    };
    // Of fix and sweep three each, of sum two, of the Job of report one.
    until(cluster, "everything runs", || {
        Ok(running(WORK)?.len() == 9 && running(OTHERS)?.len() == 2)
    })?;
    // One of each kind that no template could give it to.
    let mut also = Vec::new();
    for name in ["report", "sweep"] {
        let children = children(cluster, WORK, name)?;
        also.extend(children.into_iter().take(1));
    }
    for job in ["fix-", "sum-"] {
        let of_job = |pod: &Value| {
            pod["metadata"]["name"]
                .as_str()
                .is_some_and(|n| n.starts_with(job))
        };
        also.extend(running(WORK)?.into_iter().filter(of_job).take(1));
    }
    assert_eq!(also.len(), 4);
    for object in also {
        let (kind, name) = (
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap(),
        );
        let add =
            json!([{"op": "add", "path": "/metadata/finalizers/0", "value": KEPT}]).to_string();
        cluster.kubectl_ok(["patch", kind, name, "-n", WORK, "--type=json", "-p", &add])?;
    }
    Ok(())
}

/// Keeps the operator from releasing runs, as if it were stopped in the second between.
fn hold_runs(cluster: &Cluster) -> Result<()> {
    let has = |which: &str| {
        format!("has({which}.metadata.finalizers) && '{OF_RUNS}' in {which}.metadata.finalizers")
    };
    let held = format!("!({}) || ({})", has("oldObject"), has("object"));
    let version = "admissionregistration.k8s.io/v1";
    let rule = |group: &str, resource: &str| {
        let version = if group == "batch" { "v1" } else { "v1alpha1" };
        json!({"apiGroups": [group], "apiVersions": [version], "operations": ["UPDATE"], "resources": [resource]})
    };
    let rules = [rule("batch", "jobs"), rule("carillon.dev", "broadcastjobs")];
    let validation = json!({"expression": held, "message": "held for the test"});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "hold-runs"},
            "spec": {"matchConstraints": {"resourceRules": rules}, "validations": [validation]}},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "hold-runs"},
            "spec": {"policyName": "hold-runs", "validationActions": ["Deny"]}},
        {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "probe", "namespace": WORK, "finalizers": [OF_RUNS]},
            "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox"}]}}}},
        {"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
            "metadata": {"name": "probe", "namespace": WORK, "finalizers": [OF_RUNS]},
            "spec": {"paused": true, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox"}]}}}},
    ]});
    cluster.kubectl_stdin(["create", "-f", "-"], &objects.to_string())?;
    for resource in ["job", "cbj"] {
        until(cluster, "nobody can release a run", || {
            // Until the policy has effect, the operator releases the probe: no CronJob owns it.
            finalize_probe(cluster, resource, &json!([OF_RUNS]), &[])?;
            let tried = finalize_probe(cluster, resource, &Value::Null, &["--dry-run=server"])?;
            Ok(said(&tried).contains("held for the test"))
        })?;
        cluster.kubectl_ok(["delete", resource, "probe", "-n", WORK, "--wait=false"])?;
    }
    Ok(())
}

/// Gives the probe of a resource these finalizers, or tries to.
fn finalize_probe(
    cluster: &Cluster,
    resource: &str,
    finalizers: &Value,
    how: &[&str],
) -> Result<Output> {
    let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
    let args = ["patch", resource, "probe", "-n", WORK, "--type=merge", "-p"];
    cluster.kubectl([&args, [patch.as_str()].as_slice(), how].concat())
}

/// helm uninstalls the chart. The process is killed: it gives nothing back.
fn remove(cluster: &Cluster, operator: &Operator) -> Result<()> {
    helm_on(cluster, &["uninstall", RELEASE, "--wait"])?;
    operator.process.kill()?;
    for kind in [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ] {
        cluster.kubectl_ok(["delete", kind, "hold-runs"])?;
    }
    // The probes of the policy go, once it has no effect any more.
    for resource in ["job", "cbj"] {
        until(cluster, "what the policy held is released", || {
            let freed = finalize_probe(cluster, resource, &Value::Null, &[])?;
            Ok(freed.status.success())
        })?;
    }
    let lease = cluster.kubectl_ok(["get", "lease", RELEASE, "-n", NAMESPACE, "-o", "json"])?;
    let lease: Value = serde_json::from_str(&lease)?;
    let holder = lease["spec"]["holderIdentity"].as_str();
    assert!(holder.is_some_and(|holder| !holder.is_empty()), "{lease}");
    Ok(())
}

fn uninstall(cluster: &Cluster, args: &[&str]) -> Result<Output> {
    let mut command = std::process::Command::new(build(Program::Cli, Profile::Dev)?);
    command
        .env("KUBECONFIG", cluster.kubeconfig())
        .arg("uninstall")
        .args(args);
    Ok(command.output()?)
}

/// Finalizers of all that has some.
fn held(cluster: &Cluster, namespace: &str) -> Result<Finalizers> {
    let objects = get(cluster, "cbj,jobs,pods", namespace, &[])?;
    let objects = objects["items"].as_array().cloned().unwrap_or_default();
    let read = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let finalizers = texts(&object["metadata"]["finalizers"]);
        let finalizers: Vec<String> = finalizers.into_iter().map(str::to_owned).collect();
        (
            (text(&object["kind"]), text(&object["metadata"]["name"])),
            finalizers,
        )
    };
    let all = objects.iter().map(read);
    Ok(all.filter(|((_, name), _)| name != "probe").collect())
}
