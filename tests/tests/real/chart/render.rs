//! What the chart renders and refuses; no cluster.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};

use carillon_testbed::carillon::{NAMESPACE, RELEASE, workspace};
use carillon_testbed::tools;
use serde_json::{Value, json};

use super::rights::{VERBS, granted};

pub(super) fn helm(args: &[&str]) -> Output {
    let mut command = Command::new(tools::helm().unwrap());
    // Nothing of the person who runs the tests has a say.
    let home = std::env::temp_dir().join("carillon-chart-tests-helm");
    for kind in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{kind}_HOME"), home.join(kind));
    }
    command.env_remove("KUBECONFIG").args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

pub(super) fn chart() -> String {
    workspace().join("charts/carillon").display().to_string()
}

pub(super) fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Values that between them turn everything on.
pub(super) const EVERYTHING: &[&str] = &[
    "--set=replicaCount=3",
    "--set=image.registry=registry.example.com",
    "--set=image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "--set=watchNamespaces={team-a,team-b}",
    "--set=serveNative={cronjobs}",
    "--set=podPlacement=node-name",
    "--set=extraArgs={--max-pod-changes-per-sync=200}",
    "--set=extraEnv[0].name=RUST_BACKTRACE,extraEnv[0].value=full",
    "--set=commonLabels.team=platform",
    "--set=rbac.aggregate.edit=true",
    "--set=networkPolicy.enabled=true",
    "--set=metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=15s",
    "--set=metrics.grafanaDashboards.enabled=true,metrics.grafanaDashboards.folder=Carillon",
    "--set=metrics.prometheusRule.enabled=true",
    "--set=metrics.prometheusRule.runbookBaseUrl=https://example.com/runbooks/",
    "--set=strategy.type=Recreate,revisionHistoryLimit=3",
    "--set=hostNetwork=true,schedulerName=second,runtimeClassName=gvisor",
    "--set=priorityClassName=system-cluster-critical",
    r#"--set-json=dnsConfig={"options": [{"name": "ndots", "value": "1"}]}"#,
    r#"--set-json=hostAliases=[{"ip": "192.0.2.1", "hostnames": ["proxy"]}]"#,
    r#"--set-json=extraEnvFrom=[{"configMapRef": {"name": "proxy"}}]"#,
    r#"--set-json=extraVolumes=[{"name": "ca", "configMap": {"name": "ca"}}]"#,
    r#"--set-json=extraVolumeMounts=[{"name": "ca", "mountPath": "/etc/ca", "readOnly": true}]"#,
    "--set=deploymentAnnotations.note=one,crds.annotations.note=two,serviceAccount.labels.tier=three",
];

/// The objects that the chart renders, without CRDs.
pub(crate) fn render(values: &[&str]) -> Vec<Value> {
    render_as(RELEASE, NAMESPACE, values)
}

/// The same for a release of this name in this namespace.
pub(super) fn render_as(release: &str, namespace: &str, values: &[&str]) -> Vec<Value> {
    let chart = chart();
    let mut args = vec!["template", release, &chart, "--namespace", namespace];
    args.push("--set=crds.enabled=false");
    args.extend(values);
    let output = helm(&args);
    assert!(output.status.success(), "{values:?}: {}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.into_iter().filter(|o| !o.is_null()).collect()
}

pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

pub(super) fn kinds(objects: &[Value]) -> BTreeSet<&str> {
    objects
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect()
}

pub(super) fn texts(value: &Value) -> Vec<&str> {
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
    for kind in [
        "ConfigMap",
        "ServiceMonitor",
        "PrometheusRule",
        "NetworkPolicy",
    ] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    let deployment = find(&objects, "Deployment", "carillon");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let args = texts(&container["args"]);
    for arg in [
        "--namespaces=team-a,team-b",
        "--serve-native=cronjobs",
        "--pod-placement=node-name",
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
    let deployment = find(&objects, "Deployment", "carillon");
    let strategy = &deployment["spec"]["strategy"];
    assert_eq!(
        *strategy,
        json!({"type": "Recreate"}),
        "two pods would write at once"
    );
    let deployment = deployment.to_string();
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
        // Names of before 0.1.0.
        ("updateStrategy.type=Recreate", "updateStrategy"),
        ("crds.install=false", "install"),
        ("metrics.rules.enabled=true", "rules"),
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
        (&["--set=serveNative={pods}"], &["serveNative"]),
        (&["--set=controllers={pods}"], &["controllers"]),
        (&["--set=image.digest=latest"], &["image", "digest"]),
        (&["--set=http.port=70000"], &["http", "port"]),
        (&["--set=watchNamespaces={Team_A}"], &["watchNamespaces"]),
        (&["--set=strategy.type=OnDelete"], &["strategy", "type"]),
        (&["--set=dnsPolicy=None of it"], &["dnsPolicy"]),
        (
            &["--set=revisionHistoryLimit=-1"],
            &["revisionHistoryLimit"],
        ),
        (
            &["--set=extraVolumes[0].emptyDir.medium=Memory"],
            &["extraVolumes", "name"],
        ),
        (
            &["--set=metrics.prometheusRule.namespace=Monitoring"],
            &["prometheusRule", "namespace"],
        ),
        (
            &["--set=leaderElection.enabled=false"],
            &["replicaCount above 1 needs leaderElection.enabled=true"],
        ),
        (
            &["--set=serviceAccount.create=false"],
            &["needs serviceAccount.name"],
        ),
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
                        "cronjobs",
                        "cronjobs/status",
                        "cronjobs/finalizers",
                        "daemonsets",
                        "daemonsets/status",
                        "daemonsets/finalizers",
                        "controllerrevisions",
                        "jobs",
                        "jobs/status",
                        "jobs/finalizers",
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

/// What each of those who are served needs, and nothing else, in the namespaces: resource, verbs.
#[rustfmt::skip]
const NEEDS: &[(&str, &[(&str, &str)])] = &[
    ("broadcastjob", &[
        ("pods", "create delete get list patch watch"),
        ("broadcastjobs.carillon.dev", "delete get list watch"),
        ("broadcastjobs/status.carillon.dev", "patch"),
        ("broadcastjobs/finalizers.carillon.dev", "update"),
        ("noderesultslices.carillon.dev", "create get list patch watch"),
    ]),
    ("cronjob", &[
        ("cronjobs.carillon.dev", "get list watch"),
        ("cronjobs/status.carillon.dev", "patch"),
        ("cronjobs/finalizers.carillon.dev", "update"),
        ("broadcastjobs.carillon.dev", "create delete get list patch watch"),
        ("jobs.batch", "create delete get list patch watch"),
    ]),
    ("daemonset", &[
        ("pods", "create delete get list patch watch"),
        ("daemonsets.carillon.dev", "get list watch"),
        ("daemonsets/status.carillon.dev", "patch"),
        ("daemonsets/finalizers.carillon.dev", "update"),
        ("controllerrevisions.apps", "create delete get list patch watch"),
    ]),
    ("native daemonsets", &[
        ("pods", "create delete get list patch watch"),
        ("daemonsets.apps", "get list watch"),
        ("daemonsets/status.apps", "patch"),
        ("daemonsets/finalizers.apps", "update"),
        ("controllerrevisions.apps", "create delete get list patch watch"),
    ]),
    ("job", &[
        ("pods", "create delete get list patch watch"),
        ("jobs.batch", "delete get list watch"),
        ("jobs/status.batch", "patch"),
        ("jobs/finalizers.batch", "update"),
    ]),
    ("native cronjobs", &[
        ("cronjobs.batch", "get list watch"),
        ("cronjobs/status.batch", "patch"),
        ("cronjobs/finalizers.batch", "update"),
        ("jobs.batch", "create delete get list patch watch"),
    ]),
];

fn needs(of: &[&str]) -> BTreeSet<(String, String)> {
    let served = NEEDS.iter().filter(|(who, _)| of.contains(who));
    let rights = served.flat_map(|(_, rights)| *rights);
    let rights = rights.chain(&[("events.events.k8s.io", "create")]);
    let each = rights.flat_map(|(resource, verbs)| {
        let verbs = verbs.split(' ');
        verbs.map(|verb| ((*resource).to_owned(), verb.to_owned()))
    });
    each.collect()
}

/// (resource.group, verb) of the rules of a role, which may be missing.
fn rights(
    objects: &[Value],
    kind: &str,
    name: &str,
    namespace: &str,
) -> BTreeSet<(String, String)> {
    let role = objects.iter().find(|object| {
        let metadata = &object["metadata"];
        let here = metadata["namespace"].as_str().unwrap_or_default() == namespace;
        object["kind"] == kind && metadata["name"] == name && here
    });
    let rules = role.map_or(&Value::Null, |role| &role["rules"]);
    let right = |(group, resource, verb): (String, String, String)| {
        let dot = if group.is_empty() { "" } else { "." };
        (format!("{resource}{dot}{group}"), verb)
    };
    granted(rules).into_iter().map(right).collect()
}

#[test]
fn nothing_is_granted_for_what_is_not_served_or_where_nothing_is() {
    for (values, served) in [
        (
            &[][..],
            &["broadcastjob", "cronjob", "daemonset", "job"][..],
        ),
        (&["--set=controllers={broadcastjob}"], &["broadcastjob"]),
        (&["--set=controllers={cronjob}"], &["cronjob"]),
        (&["--set=controllers={job}"], &["job"]),
        (&["--set=controllers={daemonset}"], &["daemonset"]),
        (
            &["--set=controllers={job}", "--set=serveNative={daemonsets}"],
            &["job", "native daemonsets"],
        ),
        (
            &["--set=controllers={broadcastjob,job}"],
            &["broadcastjob", "job"],
        ),
        (
            &[
                "--set=controllers={broadcastjob}",
                "--set=serveNative={jobs}",
            ],
            &["broadcastjob", "job"],
        ),
        (
            &["--set=controllers={job}", "--set=serveNative={cronjobs}"],
            &["job", "native cronjobs"],
        ),
    ] {
        let serves = |kinds: &[&str]| kinds.iter().any(|kind| served.contains(kind));
        let daemons = serves(&["daemonset", "native daemonsets"]);
        let verbs: &[&str] = match (daemons, serves(&["broadcastjob"])) {
            (true, _) => &["get", "list", "watch"],
            (false, true) => &["list", "watch"],
            (false, false) => &[],
        };
        let of_nodes = verbs
            .iter()
            .map(|verb| ("nodes".to_owned(), (*verb).to_owned()));
        let of_nodes: BTreeSet<_> = of_nodes.collect();
        let everywhere = render(values);
        let all: BTreeSet<_> = needs(served).union(&of_nodes).cloned().collect();
        assert_eq!(
            rights(&everywhere, "ClusterRole", "carillon", ""),
            all,
            "{values:?}"
        );

        let some = [values, &["--set=watchNamespaces={team-a,team-b}"]].concat();
        let some = render(&some);
        assert_eq!(
            rights(&some, "ClusterRole", "carillon", ""),
            of_nodes,
            "{values:?}"
        );
        for namespace in ["team-a", "team-b"] {
            assert_eq!(
                rights(&some, "Role", "carillon", namespace),
                needs(served),
                "{values:?}"
            );
        }
        assert!(rights(&some, "Role", "carillon", "team-c").is_empty());

        let flag = |arg: &&str| arg.starts_with("--controllers=");
        let deployment = find(&everywhere, "Deployment", "carillon");
        let args = texts(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
        let flag = args.into_iter().find(flag).unwrap_or_default();
        let chosen = values
            .first()
            .and_then(|value| value.strip_prefix("--set=controllers={"));
        let chosen = chosen.map(|list| format!("--controllers={}", list.trim_end_matches('}')));
        assert_eq!(flag, chosen.unwrap_or_default(), "the flag says the same");

        for role in ["carillon-view", "carillon-edit"] {
            let people = rights(&everywhere, "ClusterRole", role, "");
            for (kind, of) in [
                ("broadcastjobs", "broadcastjob"),
                ("cronjobs", "cronjob"),
                ("daemonsets", "daemonset"),
                ("noderesultslices", "broadcastjob"),
            ] {
                let reads = (format!("{kind}.carillon.dev"), "watch".to_owned());
                assert_eq!(
                    people.contains(&reads),
                    served.contains(&of),
                    "{values:?} {role} {kind}"
                );
            }
        }
    }
}

#[test]
fn people_may_write_each_kind_that_is_served_and_the_status_of_none() {
    let objects = render(&["--set=rbac.aggregate.edit=true"]);
    let people = rights(&objects, "ClusterRole", "carillon-edit", "");
    for kind in ["broadcastjobs", "cronjobs", "daemonsets"] {
        for verb in VERBS {
            let right = (format!("{kind}.carillon.dev"), verb.to_owned());
            assert!(people.contains(&right), "no {right:?} in {people:?}");
        }
        let of_status = people
            .iter()
            .filter(|(what, _)| *what == format!("{kind}/status.carillon.dev"));
        let verbs: Vec<_> = of_status.map(|(_, verb)| &**verb).collect();
        assert_eq!(verbs, ["get", "list", "watch"], "{kind}");
    }
    // explain and plan compare a template with nodes.
    for (controllers, expected) in [
        ("broadcastjob", true),
        ("daemonset", true),
        ("cronjob", false),
    ] {
        let objects = render(&[&format!("--set=controllers={{{controllers}}}")]);
        let of_nodes = rights(&objects, "ClusterRole", "carillon-view-nodes", "");
        assert_eq!(!of_nodes.is_empty(), expected, "{controllers}");
    }
}

/// What `helm install` says.
pub(super) fn notes(values: &[&str]) -> String {
    let chart = chart();
    let mut args = vec![
        "install",
        RELEASE,
        &chart,
        "--dry-run=client",
        "--namespace",
        NAMESPACE,
    ];
    args.extend(values);
    let output = helm(&args);
    let text = said(&output);
    assert!(output.status.success(), "{values:?}: {text}");
    let (_, notes) = text.split_once("NOTES:").expect("notes");
    notes.to_owned()
}

#[test]
fn what_helm_says_after_an_install_is_of_what_is_served() {
    for (values, there, not_there) in [
        (
            &[][..],
            &["kind: BroadcastJob"][..],
            &["kind: DaemonSet", "WARNING"][..],
        ),
        (
            &[
                "--set=controllers={daemonset}",
                "--set=watchNamespaces={team-a}",
            ],
            &[
                "kind: DaemonSet",
                "kubectl apply -n team-a -f -",
                "kubectl get -n team-a daemonsets.carillon.dev",
            ],
            &["kind: BroadcastJob", "WARNING"],
        ),
        (
            &["--set=controllers={cronjob}"],
            &["Is it up?"],
            &["kind: ", "WARNING"],
        ),
        (
            &["--set=serveNative={daemonsets,cronjobs}"],
            &[
                "serveNative has daemonsets",
                "*,-daemonset-controller",
                "*,-cronjob-controller",
            ],
            &["-job-controller"],
        ),
    ] {
        let notes = notes(values);
        for words in there {
            assert!(notes.contains(words), "{values:?}: no {words:?} in {notes}");
        }
        for words in not_there {
            assert!(!notes.contains(words), "{values:?}: {words:?} in {notes}");
        }
    }
}

#[test]
fn the_chart_tells_artifact_hub_of_each_crd() {
    let text = fs::read_to_string(workspace().join("charts/carillon/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&text).unwrap();
    let told = chart["annotations"]["artifacthub.io/crds"]
        .as_str()
        .unwrap();
    let told: Vec<Value> = serde_saphyr::from_str(told).unwrap();
    let told: BTreeSet<_> = told
        .iter()
        .map(|crd| {
            (
                crd["name"].as_str().unwrap().to_owned(),
                crd["kind"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let crds = carillon_api::crds().into_iter();
    let crds: BTreeSet<_> = crds
        .map(|crd| (crd.metadata.name.unwrap_or_default(), crd.spec.names.kind))
        .collect();
    assert_eq!(told, crds);
    for address in [&chart["home"], &chart["sources"][0]] {
        assert_eq!(address, "https://carillon.dev");
    }
}

#[test]
fn the_only_lease_that_can_be_changed_is_the_one_by_name() {
    let objects = render(&[]);
    let role = find(&objects, "Role", "carillon-lease");
    let expected = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["carillon"],
         "verbs": ["get", "update"]},
    ]);
    assert_eq!(role["rules"], expected);
}
