//! The chart: what it renders and refuses, and what becomes of it on a real API server.
//!
//! One cluster lives through install, upgrade, work, narrowing to namespaces and removal, once
//! (see [`story`]); the tests judge what was seen there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::{NAMESPACE, RELEASE, build, install_chart, workspace};
use carillon_testbed::{
    AuditEvent, Cluster, Config, Fate, Operator, Options, Signal, fate, tools, wait,
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(100);
const ACCOUNT: &str = "system:serviceaccount:carillon-system:carillon";

// ---------------------------------------------------------------------------------------------
// Rendering: no cluster.

fn helm(args: &[&str]) -> Output {
    let mut command = Command::new(tools::helm().unwrap());
    // Nothing of the person who runs the tests has a say.
    let home = std::env::temp_dir().join("carillon-chart-tests-helm");
    for kind in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{kind}_HOME"), home.join(kind));
    }
    command.env_remove("KUBECONFIG").args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

fn chart() -> String {
    workspace().join("charts/carillon").display().to_string()
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Values that between them turn everything on.
const EVERYTHING: &[&str] = &[
    "--set=replicaCount=3",
    "--set=image.registry=registry.example.com",
    "--set=image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "--set=watchNamespaces={team-a,team-b}",
    "--set=podPlacement=node-name",
    "--set=kubeApi.qps=50,kubeApi.burst=100",
    "--set=extraArgs={--max-pod-changes-per-sync=200}",
    "--set=extraEnv[0].name=RUST_BACKTRACE,extraEnv[0].value=full",
    "--set=commonLabels.team=platform",
    "--set=rbac.aggregate.edit=true",
    "--set=networkPolicy.enabled=true",
    "--set=metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=15s",
    "--set=metrics.rules.enabled=true,metrics.rules.runbookBaseUrl=https://example.com/runbooks/",
];

/// The objects that the chart renders, without CRDs.
fn render(values: &[&str]) -> Vec<Value> {
    let chart = chart();
    let mut args = vec!["template", RELEASE, &chart, "--namespace", NAMESPACE];
    args.push("--set=crds.install=false");
    args.extend(values);
    let output = helm(&args);
    assert!(output.status.success(), "{values:?}: {}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.into_iter().filter(|o| !o.is_null()).collect()
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn kinds(objects: &[Value]) -> BTreeSet<&str> {
    objects
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect()
}

fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

#[test]
fn the_chart_passes_helm_lint_with_defaults_and_with_everything_on() {
    let chart = chart();
    for values in [&[], EVERYTHING] {
        let mut args = vec!["lint", "--strict", &chart];
        args.extend(values);
        let output = helm(&args);
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn the_defaults_render_two_hardened_replicas_and_no_monitoring_objects() {
    let objects = render(&[]);
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "Pod",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds(&objects), expected.into());
    let deployment = find(&objects, "Deployment", "carillon");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    assert_eq!(
        pod["topologySpreadConstraints"].as_array().unwrap().len(),
        2
    );
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
    let mounts = deployment.to_string();
    assert!(!mounts.contains("hostPath") && !mounts.contains("hostNetwork"));
}

#[test]
fn everything_on_renders_each_opt_in_object_with_its_values() {
    let objects = render(EVERYTHING);
    let kinds = kinds(&objects);
    for kind in ["ServiceMonitor", "PrometheusRule", "NetworkPolicy"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    let deployment = find(&objects, "Deployment", "carillon");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args = texts(&container["args"]);
    for arg in [
        "--namespaces=team-a,team-b",
        "--pod-placement=node-name",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--max-pod-changes-per-sync=200",
    ] {
        assert!(args.contains(&arg), "no {arg} in {args:?}");
    }
    let image = container["image"].as_str().unwrap();
    assert!(image.starts_with("registry.example.com/carillon@sha256:"));
    for object in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["team"], "platform", "{object}");
    }
    let rule = find(&objects, "PrometheusRule", "carillon");
    let alerts = fs::read_to_string(workspace().join("charts/carillon/files/alerts.yaml")).unwrap();
    let alerts = alerts.replace(
        "https://carillon.dev/docs/runbooks/",
        "https://example.com/runbooks/",
    );
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    assert_eq!(rule["spec"], alerts, "the wrapped rules are the plain ones");
}

#[test]
fn one_replica_without_election_gets_no_lease_and_no_budget() {
    let objects = render(&["--set=replicaCount=1,leaderElection.enabled=false"]);
    let roles = objects.iter().filter(|object| object["kind"] == "Role");
    assert_eq!(roles.count(), 0);
    assert!(!kinds(&objects).contains("PodDisruptionBudget"));
    let deployment = find(&objects, "Deployment", "carillon").to_string();
    assert!(deployment.contains("--leader-elect=false"));
    assert!(!deployment.contains("--lease-"));
}

#[test]
fn an_unknown_value_is_refused_by_its_name() {
    for (value, name) in [
        ("replicas=3", "replicas"),
        ("leaderElection.leaseDuraton=5s", "leaseDuraton"),
        ("metrics.serviceMonitor.enable=true", "enable"),
        ("image.tags=1", "tags"),
        ("podDisruptionBudget.minAvailable=1", "minAvailable"),
    ] {
        let chart = chart();
        let output = helm(&["template", &chart, "--set", value]);
        let text = said(&output);
        assert!(!output.status.success(), "{value} is accepted");
        assert!(text.contains(&format!("'{name}' not allowed")), "{text}");
    }
}

#[test]
fn a_wrong_value_is_refused_by_its_path() {
    for (values, words) in [
        (&["--set=logLevel=loud"][..], &["logLevel"][..]),
        (&["--set=replicaCount=-1"], &["replicaCount"]),
        (&["--set=podPlacement=kubelet"], &["podPlacement"]),
        (&["--set=image.digest=latest"], &["image", "digest"]),
        (&["--set=http.port=70000"], &["http", "port"]),
        (&["--set=watchNamespaces={Team_A}"], &["watchNamespaces"]),
        (
            &["--set=leaderElection.enabled=false"],
            &["replicaCount above 1 needs leaderElection.enabled=true"],
        ),
        (
            &["--set=serviceAccount.create=false"],
            &["needs serviceAccount.name"],
        ),
        (&["--set=kubeApi.burst=5"], &["needs kubeApi.qps"]),
        (
            &["--set=metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true"],
            &["scrape every series twice"],
        ),
        (
            &["--set=metrics.serviceMonitor.enabled=true,metrics.service.enabled=false"],
            &["needs metrics.service.enabled=true"],
        ),
    ] {
        let chart = chart();
        let mut args = vec!["template", &chart];
        args.extend(values);
        let output = helm(&args);
        let text = said(&output);
        assert!(!output.status.success(), "{values:?} is accepted");
        for word in words {
            assert!(text.contains(word), "{values:?}: no {word:?} in {text}");
        }
    }
}

#[test]
fn no_role_of_the_chart_has_a_wildcard_or_reaches_secrets_or_rbac() {
    for values in [&[], EVERYTHING] {
        for object in render(values) {
            for rule in object["rules"].as_array().into_iter().flatten() {
                for field in ["apiGroups", "resources", "verbs", "nonResourceURLs"] {
                    for word in texts(&rule[field]) {
                        assert!(!word.contains('*'), "{rule}");
                    }
                }
                for resource in texts(&rule["resources"]) {
                    let fine = [
                        "nodes",
                        "pods",
                        "broadcastjobs",
                        "broadcastjobs/status",
                        "broadcastjobs/finalizers",
                        "noderesultslices",
                        "events",
                        "leases",
                    ];
                    assert!(fine.contains(&resource), "{rule}");
                }
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// The life of a release.

/// Everything seen in the life of one release.
struct Story {
    /// Columns: before and after the upgrade.
    slices_by_short_name: [bool; 2],
    deployment_args: [Vec<String>; 2],
    pod_labels: [Value; 2],
    revisions: Vec<String>,
    kept_uid: [String; 2],
    helm_test: String,
    fully_valued: String,
    check: [(bool, String); 2],
    /// Statuses of the jobs that ended, by name.
    ended: BTreeMap<&'static str, Value>,
    /// Ends of the jobs that are seen otherwise.
    stopped_pods: usize,
    withdrawn_pods: usize,
    attempts_after_vanishing: Value,
    /// By verb, resource and namespace, whether kubectl says yes.
    can_i: Vec<(String, bool)>,
    /// Every (group, resource, verb, namespace) the authorizer lets the account do.
    allowed: BTreeSet<Right>,
    /// What admission says to a child of a job from somebody who may create pods only.
    without_finalizers: String,
    /// What was tried for real with the account's token, and the answer.
    tried: Vec<(String, Output)>,
    rules: [Value; 2],
    requests: Vec<AuditEvent>,
    events: BTreeSet<String>,
    exit: Option<String>,
    narrow: Narrow,
    after_uninstall: AfterUninstall,
}

/// With `watchNamespaces`.
struct Narrow {
    cluster_rules: Value,
    roles: BTreeMap<String, Value>,
    phases: BTreeMap<&'static str, String>,
    pods_elsewhere: String,
    status_elsewhere: Value,
    list_elsewhere: Output,
    refused_requests: usize,
}

struct AfterUninstall {
    crds: String,
    jobs: String,
    left: String,
    installed_again: String,
}

/// (group, resource or resource/subresource, verb, namespace or "" for the cluster).
type Right = (String, String, String, String);

/// The life of a release, lived once.
fn story() -> &'static Story {
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
fn cluster() -> Result<Cluster> {
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
    let cluster = Cluster::start(config);
    let _ = fs::remove_file(&policy);
    cluster
}

fn live() -> Result<Story> {
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
    let work = work(&cluster)?;
    let rules = [
        rules(&cluster, "clusterrole", "carillon", "")?,
        rules(&cluster, "role", "carillon-lease", NAMESPACE)?,
    ];
    let running = work.running_pod.clone();
    let tried = try_beyond(&cluster, &account, &running)?;
    let events = work_events(&cluster)?;
    let exit = stop(&operator)?;
    let requests = cluster.audit_events()?;

    // Narrow: two namespaces instead of all.
    let narrow = narrow(&cluster)?;

    // Uninstall, and install again.
    let after_uninstall = uninstall(&cluster)?;

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
        can_i,
        allowed,
        without_finalizers,
        tried,
        rules,
        requests,
        events,
        exit,
        narrow,
        after_uninstall,
    })
}

/// The chart as an earlier version might have been.
fn older_chart(cluster: &Cluster) -> Result<String> {
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

fn copy(from: &Path, to: &Path) -> Result<()> {
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

fn helm_on(cluster: &Cluster, args: &[&str]) -> Result<String> {
    let mut command = cluster.helm_command()?;
    command.args(args).args(["--namespace", NAMESPACE]);
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "helm {args:?}: {}", said(&output));
    Ok(said(&output))
}

/// Arguments and pod labels of the operator's Deployment.
fn deployment(cluster: &Cluster) -> Result<(Vec<String>, Value)> {
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
fn dry_run_of_everything(cluster: &Cluster) -> Result<String> {
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
fn wait_for_the_owner_plugin(cluster: &Cluster) -> Result<String> {
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

fn account(cluster: &Cluster) -> Result<PathBuf> {
    carillon_testbed::carillon::service_account(cluster)
}

/// The operator with the arguments of the chart's Deployment.
fn start(cluster: &Cluster, name: &str, kubeconfig: &Path, args: &[String]) -> Result<Operator> {
    let mut options = Options::new(name).kubeconfig(kubeconfig);
    // What two processes of one machine can not share, and how the log looks, is the test bed's.
    let ours = ["--http-address=", "--log-format="];
    for arg in args {
        if !ours.iter().any(|prefix| arg.starts_with(prefix)) {
            options = options.arg(arg);
        }
    }
    Operator::start(cluster, &options)
}

/// What `helm test` does in its pod.
fn check(operator: &Operator, path: &str) -> Result<(bool, String)> {
    let url = format!("http://127.0.0.1:{}{path}", operator.http_port);
    let output = Command::new(build(carillon_testbed::carillon::Profile::Dev)?)
        .args(["check", "--timeout=2s", "--url", &url])
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    Ok((output.status.success(), said(&output)))
}

fn stop(operator: &Operator) -> Result<Option<String>> {
    operator.process.signal(Signal::TERM)?;
    let ended = || Ok((!operator.process.is_alive()).then_some(()));
    let tail = || operator.process.log_tail(10);
    wait::until("the operator ends", LIMIT, EVERY, ended, tail)?;
    let log = fs::read_to_string(operator.process.log())?;
    Ok(log.lines().last().map(str::to_owned))
}

fn rules(cluster: &Cluster, kind: &str, name: &str, namespace: &str) -> Result<Value> {
    let namespace = format!("--namespace={namespace}");
    let json = cluster.kubectl_ok(["get", kind, name, &namespace, "--output=json"])?;
    let mut json: Value = serde_json::from_str(&json)?;
    Ok(json["rules"].take())
}

fn job(name: &str, namespace: &str, spec: &Value, fate: &Fate) -> Value {
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

fn get(cluster: &Cluster, kind: &str, namespace: &str, more: &[&str]) -> Result<Value> {
    let args = ["get", kind, "-n", namespace, "--output=json"];
    let json = cluster.kubectl_ok(args.iter().chain(more))?;
    Ok(serde_json::from_str(&json)?)
}

fn pods(cluster: &Cluster, namespace: &str, job: &str) -> Result<Vec<Value>> {
    let selector = format!("--selector=carillon.dev/broadcastjob-name={job}");
    let mut list = get(cluster, "pods", namespace, &[&selector])?;
    let items = list["items"].take();
    Ok(items.as_array().cloned().unwrap_or_default())
}

/// What the operator did.
struct Work {
    ended: BTreeMap<&'static str, Value>,
    stopped_pods: usize,
    withdrawn_pods: usize,
    attempts: Value,
    running_pod: String,
}

/// Where the jobs are.
const WORK: &str = "team-a";

fn until(cluster: &Cluster, what: &str, mut probe: impl FnMut() -> Result<bool>) -> Result<()> {
    let hint = || jobs_now(cluster, WORK);
    wait::until(what, LIMIT, EVERY, || Ok(probe()?.then_some(())), hint)
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

/// Jobs that between them need every right the chart grants.
fn jobs() -> [Value; 5] {
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

fn work(cluster: &Cluster) -> Result<Work> {
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
fn vanish(cluster: &Cluster) -> Result<Value> {
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

fn jobs_now(cluster: &Cluster, namespace: &str) -> String {
    let ask = |output: &str, kinds: &str| {
        let args = ["get", kinds, "-n", namespace, "--output", output];
        cluster.kubectl_ok(args).unwrap_or_default()
    };
    let reasons = "jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[*].message}\n";
    let reasons = ask(&format!("{reasons}{{end}}"), "broadcastjobs");
    format!("\n{reasons}{}", ask("wide", "broadcastjobs,pods"))
}

/// Reasons of the events about our jobs.
fn work_events(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let list = get(cluster, "events.events.k8s.io", "team-a", &[])?;
    let items = list["items"].as_array().into_iter().flatten();
    let ours = items.filter(|e| e["reportingController"] == "carillon.dev/broadcastjob-controller");
    Ok(ours
        .filter_map(|event| event["reason"].as_str().map(str::to_owned))
        .collect())
}

/// (verb, resource, namespace, whether it is allowed), in kubectl's words.
#[rustfmt::skip]
const CAN_I: &[(&str, &str, &str, bool)] = &[
    ("list", "nodes", "", true),
    ("create", "pods", "team-a", true),
    ("delete", "pods", "team-a", true),
    ("patch", "broadcastjobs/status", "team-a", true),
    ("update", "leases/carillon", NAMESPACE, true),
    ("get", "secrets", NAMESPACE, false),
    ("list", "secrets", "team-a", false),
    ("get", "configmaps", "team-a", false),
    ("create", "configmaps", NAMESPACE, false),
    ("patch", "nodes", "", false),
    ("get", "nodes", "", false),
    ("delete", "nodes", "", false),
    ("get", "nodes/proxy", "", false),
    ("update", "pods", "team-a", false),
    ("deletecollection", "pods", "team-a", false),
    ("create", "pods/exec", "team-a", false),
    ("get", "pods/exec", "team-a", false),
    ("get", "pods/log", "team-a", false),
    ("create", "pods/attach", "team-a", false),
    ("create", "pods/portforward", "team-a", false),
    ("create", "pods/eviction", "team-a", false),
    ("patch", "pods/status", "team-a", false),
    ("create", "broadcastjobs", "team-a", false),
    ("update", "broadcastjobs", "team-a", false),
    ("patch", "broadcastjobs", "team-a", false),
    ("update", "broadcastjobs/status", "team-a", false),
    ("update", "noderesultslices", "team-a", false),
    ("delete", "noderesultslices", "team-a", false),
    ("get", "leases/carillon", "kube-system", false),
    ("get", "leases/other", NAMESPACE, false),
    ("update", "leases/other", NAMESPACE, false),
    ("delete", "leases/carillon", NAMESPACE, false),
    ("create", "leases", "team-a", false),
    ("list", "clusterroles", "", false),
    ("bind", "clusterroles", "", false),
    ("escalate", "clusterroles", "", false),
    ("create", "rolebindings", "team-a", false),
    ("impersonate", "users", "", false),
    ("impersonate", "serviceaccounts", NAMESPACE, false),
    ("create", "serviceaccounts/token", NAMESPACE, false),
    ("patch", "customresourcedefinitions", "", false),
    ("create", "validatingwebhookconfigurations", "", false),
    ("create", "jobs.batch", "team-a", false),
    ("create", "daemonsets.apps", "team-a", false),
    ("*", "*", "team-a", false),
];

/// What kubectl says of [`CAN_I`], two at a time.
fn can_i(cluster: &Cluster) -> Result<Vec<(String, bool)>> {
    let ask = |&(verb, resource, namespace, _): &(&str, &str, &str, bool)| {
        let namespace = format!("--namespace={namespace}");
        let account = format!("--as={ACCOUNT}");
        // To kubectl a slash stands before a name, which the lease has.
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) if resource != "leases" => (resource, subresource),
            _ => (resource, ""),
        };
        let subresource = format!("--subresource={subresource}");
        let args = [
            "auth",
            "can-i",
            verb,
            resource,
            &subresource,
            &account,
            &namespace,
        ];
        let output = cluster.kubectl(args)?;
        let text = said(&output);
        let answer = text.lines().any(|line| line == "yes");
        ensure!(answer || text.contains("no"), "{verb} {resource}: {text}");
        Ok((format!("{verb} {resource} {namespace}"), answer))
    };
    let (left, right) = CAN_I.split_at(CAN_I.len() / 2);
    std::thread::scope(|scope| {
        let right = scope.spawn(|| right.iter().map(ask).collect::<Result<Vec<_>>>());
        let mut answers = left.iter().map(ask).collect::<Result<Vec<_>>>()?;
        answers.extend(right.join().expect("no panic")?);
        Ok(answers)
    })
}

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Everything the API server serves × every verb: what the account may do.
fn allowed(cluster: &Cluster) -> Result<BTreeSet<Right>> {
    let mut resources = resources(cluster)?;
    // Not in discovery, since nothing is served there.
    resources.push((
        "carillon.dev".into(),
        "broadcastjobs/finalizers".into(),
        true,
    ));
    let mut reviews = Vec::new();
    for (group, resource, namespaced) in &resources {
        let namespaces: &[&str] = if *namespaced {
            &["team-a", NAMESPACE]
        } else {
            &[""]
        };
        for namespace in namespaces {
            for verb in VERBS {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                // As granted by name: only the lease is.
                let named = ["get", "update"].contains(&verb) && resource == "leases";
                reviews.push(json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {
                        "user": ACCOUNT,
                        "groups": [
                            "system:serviceaccounts",
                            "system:serviceaccounts:carillon-system",
                            "system:authenticated",
                        ],
                        "resourceAttributes": {
                            "group": group, "resource": resource, "subresource": subresource,
                            "verb": verb, "namespace": namespace,
                            "name": if named { "carillon" } else { "" },
                        },
                    },
                }));
            }
        }
    }
    // kubectl slows down after 300 requests.
    let ask = |chunk: &[Value]| -> Result<Vec<Value>> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": chunk});
        let args = ["create", "--validate=false", "--output=json", "-f", "-"];
        let answer = cluster.kubectl_stdin(args, &list.to_string())?;
        // One object after the other, not a list.
        let answers = serde_json::Deserializer::from_str(&answer).into_iter();
        Ok(answers.collect::<Result<_, _>>()?)
    };
    let mut answers = Vec::new();
    for chunk in reviews.chunks(250) {
        answers.extend(ask(chunk)?);
    }
    ensure!(answers.len() == reviews.len(), "an answer for each");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let yes = answers.iter().filter(|a| a["status"]["allowed"] == true);
    Ok(yes
        .map(|answer| {
            let right = &answer["spec"]["resourceAttributes"];
            let mut resource = text(&right["resource"]);
            let subresource = text(&right["subresource"]);
            if !subresource.is_empty() {
                let _ = write!(resource, "/{subresource}");
            }
            let (group, verb) = (text(&right["group"]), text(&right["verb"]));
            (group, resource, verb, text(&right["namespace"]))
        })
        .collect())
}

/// (group, resource or resource/subresource, namespaced) of everything that is served.
fn resources(cluster: &Cluster) -> Result<Vec<(String, String, bool)>> {
    let raw = |path: &str| -> Result<Value> {
        let json = cluster.kubectl_ok(["get", &format!("--raw={path}")])?;
        Ok(serde_json::from_str(&json)?)
    };
    let mut versions = vec![("", "/api/v1".to_owned())];
    let groups = raw("/apis")?;
    for group in groups["groups"].as_array().into_iter().flatten() {
        let version = group["preferredVersion"]["groupVersion"]
            .as_str()
            .unwrap_or_default();
        versions.push((
            group["name"].as_str().unwrap_or_default(),
            format!("/apis/{version}"),
        ));
    }
    let mut resources = Vec::new();
    for (group, path) in versions {
        let served = raw(&path)?;
        for resource in served["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or_default().to_owned();
            let namespaced = resource["namespaced"] == true;
            resources.push((group.to_owned(), name, namespaced));
        }
    }
    Ok(resources)
}

/// Requests that the account may not make, made with its token.
fn try_beyond(
    cluster: &Cluster,
    kubeconfig: &Path,
    running_pod: &str,
) -> Result<Vec<(String, Output)>> {
    let annotate = r#"--patch={"metadata":{"annotations":{"a":"b"}}}"#;
    let spec = r#"--patch={"spec":{"paused":true}}"#;
    #[rustfmt::skip]
    let attempts: &[&[&str]] = &[
        &["get", "secrets", "--all-namespaces"],
        &["get", "secrets", "-n", NAMESPACE],
        &["get", "configmap", "kube-root-ca.crt", "-n", "team-a"],
        &["get", "node", "node-0000"],
        &["patch", "node", "node-0000", "--type=merge", annotate],
        &["cordon", "node-0000"],
        &["patch", "broadcastjob", "hangs", "-n", "team-a", "--type=merge", spec],
        &["create", "job", "x", "--image=busybox", "-n", "team-a"],
        &["get", "clusterroles"],
        &["get", "crd", "broadcastjobs.carillon.dev"],
        &["exec", running_pod, "-n", "team-a", "--", "true"],
        &["logs", running_pod, "-n", "team-a"],
        &["get", "lease", "other", "-n", NAMESPACE],
        &["get", "leases", "-n", NAMESPACE],
        &["delete", "lease", "carillon", "-n", NAMESPACE],
        &["get", "lease", "carillon", "-n", "kube-system"],
        &["create", "token", RELEASE, "-n", NAMESPACE],
        &["get", "pods", "-n", "team-a", "--as=admin"],
        &["delete", "pods", "--all", "-n", "kube-system", "--as=system:admin"],
        &["delete", "noderesultslices", "--all", "-n", "team-a"],
        &["get", "events", "-n", "team-a"],
        &["get", "namespaces"],
    ];
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    attempts
        .iter()
        .map(|args| {
            let output = cluster.kubectl([&kubeconfig[..]].iter().chain(args.iter()))?;
            Ok((args.join(" "), output))
        })
        .collect()
}

/// The same release, for two namespaces only.
fn narrow(cluster: &Cluster) -> Result<Narrow> {
    let real = chart();
    let only = "--set=watchNamespaces={team-a,team-b}";
    helm_on(
        cluster,
        &["upgrade", RELEASE, &real, "--reset-then-reuse-values", only],
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
        let hint = || jobs_now(cluster, namespace);
        let phase = wait::until(
            "a served job ends",
            Duration::from_secs(15),
            EVERY,
            probe,
            hint,
        )?;
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

fn uninstall(cluster: &Cluster) -> Result<AfterUninstall> {
    helm_on(cluster, &["uninstall", RELEASE, "--wait"])?;
    let crds = cluster.kubectl_ok(["get", "crds", "--output=name"])?;
    let jobs = cluster.kubectl_ok(["get", "broadcastjobs", "-A", "--output=name"])?;
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,\
                 clusterrolebindings,poddisruptionbudgets,pods";
    let selector = "--selector=app.kubernetes.io/instance=carillon";
    let left = cluster.kubectl_ok(["get", kinds, "-A", selector, "--output=name"])?;
    install_chart(cluster, &["--set=replicaCount=1"])?;
    let installed_again = helm_on(cluster, &["status", RELEASE])?;
    Ok(AfterUninstall {
        crds,
        jobs,
        left,
        installed_again,
    })
}

/// Requests of the operator itself, not those we made with its token.
fn operators(requests: &[AuditEvent]) -> impl Iterator<Item = &AuditEvent> {
    requests
        .iter()
        .filter(|request| request.user == ACCOUNT && request.user_agent.starts_with("carillon/"))
}

/// (group, resource[/subresource], verb) of rules.
fn granted(rules: &Value) -> BTreeSet<(String, String, String)> {
    let mut granted = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    granted.insert((group.to_owned(), resource.to_owned(), verb.to_owned()));
                }
            }
        }
    }
    granted
}

#[test]
fn helm_upgrade_rolls_out_a_changed_crd_and_a_changed_value_and_keeps_the_rest() {
    let story = story();
    assert_eq!(story.slices_by_short_name, [false, true], "the CRD");
    let [before, after] = &story.deployment_args;
    assert!(
        before.contains(&"--log-level=info".to_owned()),
        "{before:?}"
    );
    assert!(after.contains(&"--log-level=debug".to_owned()), "{after:?}");
    let [before, after] = &story.pod_labels;
    assert_eq!(before["team"], "platform");
    assert_eq!(after["team"], "platform", "a value of the first install");
    let [before, after] = &story.kept_uid;
    assert_eq!(before, after, "a job that was there");
    assert_eq!(
        story.revisions,
        ["carillon-0.0.9 superseded", "carillon-0.1.0 deployed"]
    );
}

#[test]
fn helm_test_passes_and_its_command_asks_a_real_operator() {
    let story = story();
    assert!(story.helm_test.contains("Succeeded"), "{}", story.helm_test);
    let (ok, text) = &story.check[0];
    assert!(ok, "{text}");
    assert!(text.contains("[+]cache-pods ok"), "{text}");
    assert!(text.contains("readyz check passed"), "{text}");
    let (ok, text) = &story.check[1];
    assert!(!ok, "{text}");
    assert!(text.contains("404"), "{text}");
}

#[test]
fn the_api_server_accepts_every_object_that_everything_on_renders() {
    let text = &story().fully_valued;
    for kind in [
        "deployment.apps/",
        "networkpolicy.",
        "poddisruptionbudget.",
        "role.",
    ] {
        assert!(text.contains(kind), "no {kind} in {text}");
    }
}

#[test]
fn the_operator_with_the_charts_rights_runs_jobs_to_their_end() {
    let story = story();
    let ends = &story.ended["ends"];
    assert_eq!(ends["phase"], "completed", "{ends}");
    assert_eq!(
        (&ends["succeeded"], &ends["failed"]),
        (&json!(9), &json!(1))
    );
    let fails = &story.ended["fails-fast"];
    assert_eq!(fails["phase"], "failed", "{fails}");
    assert!(story.stopped_pods >= 1, "FailFast stops what runs");
    assert_eq!(story.withdrawn_pods, 1, "the pod for a cordoned node");
    assert_eq!(story.attempts_after_vanishing["reason"], "PodVanished");
    let events = &story.events;
    assert!(events.contains("SuccessfulCreate"), "{events:?}");
    assert!(events.contains("SuccessfulDelete"), "{events:?}");
    let last = story.exit.as_deref().unwrap_or_default();
    assert!(last.contains("stopped"), "its last line: {last}");
}

#[test]
fn the_charts_account_may_do_what_the_table_says_and_nothing_beyond() {
    let answers = &story().can_i;
    assert_eq!(answers.len(), CAN_I.len());
    let wrong: Vec<_> = answers
        .iter()
        .zip(CAN_I)
        .filter(|((_, answer), (.., expected))| answer != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn of_everything_the_api_server_serves_the_account_may_do_only_what_the_chart_grants() {
    let story = story();
    let [everywhere, lease] = &story.rules;
    let mut expected = BTreeSet::new();
    for (group, resource, verb) in granted(everywhere) {
        let namespaces: &[&str] = if resource == "nodes" {
            &[""]
        } else {
            &["team-a", NAMESPACE]
        };
        for namespace in namespaces {
            let right = (group.clone(), resource.clone(), verb.clone());
            expected.insert((right.0, right.1, right.2, (*namespace).to_owned()));
        }
    }
    for (group, resource, verb) in granted(lease) {
        expected.insert((group, resource, verb, NAMESPACE.to_owned()));
    }
    // Every account may ask about itself.
    for (group, resource) in [
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ] {
        expected.insert((
            group.into(),
            resource.into(),
            "create".into(),
            String::new(),
        ));
    }
    let beyond: Vec<_> = story.allowed.difference(&expected).collect();
    assert!(beyond.is_empty(), "allowed beyond the chart: {beyond:#?}");
    let missing: Vec<_> = expected.difference(&story.allowed).collect();
    assert!(missing.is_empty(), "granted and yet refused: {missing:#?}");
}

#[test]
fn requests_with_the_accounts_token_beyond_its_rights_are_answered_403() {
    for (what, output) in &story().tried {
        let text = said(output);
        assert!(!output.status.success(), "{what} is allowed: {text}");
        let forbidden = text.contains("(Forbidden)") || text.contains("is forbidden");
        assert!(forbidden, "{what}: {text}");
    }
}

/// What is granted and never requested, and why it is granted.
const NEVER_REQUESTED: &[(&str, &str, &str, &str)] = &[(
    "carillon.dev",
    "broadcastjobs/finalizers",
    "update",
    "OwnerReferencesPermissionEnforcement asks the authorizer for it when a child with \
     blockOwnerDeletion is created; this cluster runs the plugin",
)];

#[test]
fn without_update_on_finalizers_admission_refuses_children_that_block_their_owners_deletion() {
    let text = &story().without_finalizers;
    assert!(text.contains("can't set finalizers on"), "{text}");
}

#[test]
fn the_verbs_granted_equal_the_verbs_used_in_the_audit_log() {
    let story = story();
    let refused: Vec<_> = operators(&story.requests)
        .filter(|request| [Some(401), Some(403)].contains(&request.code))
        .map(|request| format!("{} {}", request.verb, request.request_uri))
        .collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let mut used = BTreeSet::new();
    for request in operators(&story.requests) {
        let mut resource = request.resource.clone();
        assert!(
            !resource.is_empty(),
            "not a resource: {}",
            request.request_uri
        );
        if !request.subresource.is_empty() {
            let _ = write!(resource, "/{}", request.subresource);
        }
        if resource == "leases" {
            assert_eq!(request.namespace, NAMESPACE, "{request:?}");
        }
        used.insert((request.group.clone(), resource, request.verb.clone()));
    }
    let [everywhere, lease] = &story.rules;
    let mut granted = granted(everywhere);
    granted.extend(self::granted(lease));
    for (group, resource, verb, _why) in NEVER_REQUESTED {
        let right = ((*group).into(), (*resource).into(), (*verb).into());
        assert!(granted.remove(&right), "{right:?} is no longer granted");
    }
    let unused: Vec<_> = granted.difference(&used).collect();
    assert!(unused.is_empty(), "granted and not used: {unused:#?}");
    let missing: Vec<_> = used.difference(&granted).collect();
    assert!(missing.is_empty(), "used and not granted: {missing:#?}");
}

#[test]
fn with_watch_namespaces_only_these_are_served_and_nothing_but_nodes_is_granted_cluster_wide() {
    let Narrow {
        cluster_rules,
        roles,
        phases,
        pods_elsewhere,
        status_elsewhere,
        list_elsewhere,
        refused_requests,
    } = &story().narrow;
    let resources: BTreeSet<_> = granted(cluster_rules)
        .into_iter()
        .map(|(_, resource, verb)| format!("{verb} {resource}"))
        .collect();
    assert_eq!(
        resources,
        ["list nodes".into(), "watch nodes".into()].into()
    );
    let names: Vec<_> = roles.keys().map(String::as_str).collect();
    assert_eq!(names, ["team-a", "team-b"]);
    let [everywhere, _] = &story().rules;
    let mut wide = granted(everywhere);
    wide.retain(|(_, resource, _)| resource != "nodes");
    assert_eq!(
        granted(&roles["team-a"]),
        wide,
        "the same rights, in fewer places"
    );
    assert_eq!(roles["team-a"], roles["team-b"]);
    assert_eq!(phases.len(), 2);
    assert_eq!(pods_elsewhere, "");
    assert_eq!(status_elsewhere, &Value::Null, "nobody looked at it");
    assert!(
        said(list_elsewhere).contains("Forbidden"),
        "{}",
        said(list_elsewhere)
    );
    assert_eq!(*refused_requests, 0, "the operator asks only where it may");
}

#[test]
fn helm_uninstall_leaves_crds_and_jobs_and_nothing_else_and_can_be_undone() {
    let AfterUninstall {
        crds,
        jobs,
        left,
        installed_again,
    } = &story().after_uninstall;
    for crd in ["broadcastjobs", "noderesultslices"] {
        assert!(crds.contains(&format!("/{crd}.carillon.dev")), "{crds}");
    }
    assert!(jobs.contains("/kept"), "{jobs}");
    assert_eq!(left, "");
    assert!(
        installed_again.contains("STATUS: deployed"),
        "{installed_again}"
    );
}
