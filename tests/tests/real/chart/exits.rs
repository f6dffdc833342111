//! What the chart leaves to its users: fields of the Deployment, labels, annotations, objects of
//! their own. No cluster.

use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use serde_json::{Value, json};

use super::render::{EVERYTHING, chart, find, helm, notes, render, render_as, said};

/// Text with braces of somebody else's templates.
const BRACES: &str = "{{ $labels.instance }} of {{ .Release.Name }}";

fn deployment(values: &[&str]) -> Value {
    find(&render(values), "Deployment", RELEASE).clone()
}

/// Of a Deployment, the spec of its pods.
fn pod(values: &[&str]) -> Value {
    deployment(values)["spec"]["template"]["spec"].take()
}

/// Metadata of the CRDs that the chart renders.
fn metadata_of_crds(values: &[&str]) -> Vec<Value> {
    let chart = chart();
    let mut args = vec!["template", RELEASE, &chart, "--namespace", NAMESPACE];
    args.extend(["--show-only=templates/crds.yaml"]);
    args.extend(values);
    let output = helm(&args);
    assert!(output.status.success(), "{values:?}: {}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // What is below is not ours to judge, and long.
    let heads = text
        .split("---\n")
        .filter_map(|crd| crd.split_once("\nspec:\n"));
    let heads = heads.map(|(head, _)| serde_saphyr::from_str::<Value>(head).expect("YAML"));
    let metadata: Vec<Value> = heads
        .map(|mut head: Value| head["metadata"].take())
        .collect();
    assert_eq!(metadata.len(), carillon_api::crds().len());
    metadata
}

#[test]
fn recreate_is_rendered_without_the_rolling_update_of_the_default() {
    let strategy = |values: &[&str]| deployment(values)["spec"]["strategy"].take();
    let rolling = |surge: i64, unavailable: i64| {
        json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    };
    assert_eq!(strategy(&[]), rolling(1, 0));
    assert_eq!(
        strategy(&["--set=strategy.type=Recreate"]),
        json!({"type": "Recreate"})
    );
    let other = "--set=strategy.rollingUpdate.maxSurge=0,strategy.rollingUpdate.maxUnavailable=1";
    assert_eq!(strategy(&[other]), rolling(0, 1));
    assert_eq!(
        strategy(&["--set=strategy.rollingUpdate=null"]),
        json!({"type": "RollingUpdate"})
    );
}

#[test]
fn each_further_field_of_the_deployment_is_where_kubernetes_reads_it() {
    let all = deployment(EVERYTHING);
    assert_eq!(all["metadata"]["annotations"], json!({"note": "one"}));
    assert_eq!(all["spec"]["revisionHistoryLimit"], 3);
    let pod = &all["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for (found, expected) in [
        (&pod["priorityClassName"], json!("system-cluster-critical")),
        (&pod["schedulerName"], json!("second")),
        (&pod["runtimeClassName"], json!("gvisor")),
        (&pod["hostNetwork"], json!(true)),
        (
            &pod["dnsConfig"],
            json!({"options": [{"name": "ndots", "value": "1"}]}),
        ),
        (
            &pod["hostAliases"],
            json!([{"ip": "192.0.2.1", "hostnames": ["proxy"]}]),
        ),
        (
            &pod["volumes"],
            json!([{"name": "ca", "configMap": {"name": "ca"}}]),
        ),
        (
            &container["volumeMounts"],
            json!([{"name": "ca", "mountPath": "/etc/ca", "readOnly": true}]),
        ),
        (
            &container["env"],
            json!([{"name": "RUST_BACKTRACE", "value": "full"}]),
        ),
        (
            &container["envFrom"],
            json!([{"configMapRef": {"name": "proxy"}}]),
        ),
    ] {
        assert_eq!(*found, expected);
    }
    assert_eq!(deployment(&[])["spec"]["revisionHistoryLimit"], 10);
    let none = deployment(&["--set=revisionHistoryLimit=0"]);
    assert_eq!(none["spec"]["revisionHistoryLimit"], 0);
}

#[test]
fn pods_in_the_hosts_network_ask_the_clusters_dns_unless_told_otherwise() {
    let policy = |values: &[&str]| pod(values)["dnsPolicy"].take();
    assert_eq!(policy(&[]), Value::Null);
    let host = "--set=hostNetwork=true";
    assert_eq!(policy(&[host]), "ClusterFirstWithHostNet");
    assert_eq!(policy(&[host, "--set=dnsPolicy=Default"]), "Default");
    assert_eq!(policy(&["--set=dnsPolicy=Default"]), "Default");
    let restricted = "--set=networkPolicy.enabled=true";
    let without_effect = "the NetworkPolicy does not restrict the pods";
    assert!(notes(&[host, restricted]).contains(without_effect));
    assert!(!notes(&[restricted]).contains(without_effect));
}

#[test]
fn a_priority_class_is_the_default_only_where_every_cluster_admits_it() {
    let class = |namespace: &str, values: &[&str]| {
        let mut objects = render_as(RELEASE, namespace, values).into_iter();
        let mut found = objects.find(|object| object["kind"] == "Deployment");
        let found = found.as_mut().expect("a Deployment");
        found["spec"]["template"]["spec"]["priorityClassName"].take()
    };
    assert_eq!(class("kube-system", &[]), "system-cluster-critical");
    assert_eq!(class(NAMESPACE, &[]), Value::Null);
    let mine = ["--set=priorityClassName=mine"];
    assert_eq!(class("kube-system", &mine), "mine");
    assert_eq!(class(NAMESPACE, &mine), "mine");
    let preempted = "Other pods can preempt the operator";
    assert!(notes(&[]).contains(preempted));
    assert!(!notes(&mine).contains(preempted));
}

/// Wherever labels are set: one that selects, one that only informs, one that is set twice, and an
/// empty one.
const LABELS: &[&str] = &[
    r#"--set-json=commonLabels={"app.kubernetes.io/name": "a", "app.kubernetes.io/part-of": "suite",
       "tier": "common", "empty": ""}"#,
    r#"--set-json=podLabels={"app.kubernetes.io/instance": "b", "tier": "pods"}"#,
    r#"--set-json=serviceAccount.labels={"app.kubernetes.io/managed-by": "c", "tier": "account"}"#,
    r#"--set-json=metrics.serviceMonitor.labels={"app.kubernetes.io/component": "d", "tier": "monitor"}"#,
    r#"--set-json=metrics.prometheusRule.labels={"app.kubernetes.io/name": "e", "tier": "rule"}"#,
    "--set=metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true",
];

#[test]
fn labels_are_merged_and_those_that_select_stay_as_they_are() {
    // The reader refuses a key that is there twice; so nothing that is rendered has one.
    assert!(serde_saphyr::from_str::<Value>("{a: 1, a: 2}").is_err());
    let objects = render(LABELS);
    let mut all: Vec<&Value> = objects.iter().map(|object| &object["metadata"]).collect();
    let crds = metadata_of_crds(LABELS);
    all.extend(&crds);
    let deployment = find(&objects, "Deployment", RELEASE);
    let pods = &deployment["spec"]["template"]["metadata"];
    all.push(pods);
    for metadata in all {
        let labels = &metadata["labels"];
        for (label, expected) in [
            ("name", "carillon"),
            ("instance", RELEASE),
            ("managed-by", "Helm"),
            ("part-of", "suite"),
        ] {
            let label = format!("app.kubernetes.io/{label}");
            assert_eq!(labels[&label], expected, "{label} of {metadata}");
        }
        assert_eq!(labels["empty"], "", "{metadata}");
    }
    for (kind, tier) in [
        ("Service", "common"),
        ("ServiceAccount", "account"),
        ("ServiceMonitor", "monitor"),
        ("PrometheusRule", "rule"),
    ] {
        let found = objects.iter().find(|object| object["kind"] == kind);
        let labels = &found.expect(kind)["metadata"]["labels"];
        assert_eq!(labels["tier"], tier, "{kind}");
        assert_eq!(labels["app.kubernetes.io/component"], "operator", "{kind}");
    }
    assert_eq!(pods["labels"]["tier"], "pods");
    let selector = deployment["spec"]["selector"]["matchLabels"].as_object();
    for (label, value) in selector.expect("a selector") {
        assert_eq!(pods["labels"][label], *value, "{label}");
    }
}

#[test]
fn annotations_of_pods_and_crds_are_merged() {
    let of_pods = r#"--set-json=podAnnotations={"a": "b",
                     "kubectl.kubernetes.io/default-container": "proxy"}"#;
    let pods = deployment(&[of_pods])["spec"]["template"]["metadata"].take();
    assert_eq!(
        pods["annotations"],
        json!({"a": "b", "kubectl.kubernetes.io/default-container": "proxy"})
    );
    // What keeps them, and what is noted in them, is not for a value of another name to change.
    let of_crds = r#"--set-json=crds.annotations={"a": "b", "helm.sh/resource-policy": "delete",
                     "carillon.dev/lease": "x/y"}"#;
    for crd in metadata_of_crds(&[of_crds]) {
        let annotations = &crd["annotations"];
        assert_eq!(annotations["a"], "b", "{crd}");
        assert_eq!(annotations["helm.sh/resource-policy"], "keep", "{crd}");
        assert_eq!(
            annotations["carillon.dev/lease"], "carillon-system/carillon",
            "{crd}"
        );
    }
}

#[test]
fn braces_in_mappings_stay_and_a_string_of_extra_objects_is_a_template() {
    let note = json!({"note": BRACES}).to_string();
    let rule = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "more"}, "spec": {"groups": [{"name": "more", "rules": [
            {"alert": "More", "expr": "up == 0", "annotations": {"summary": BRACES}}]}]}});
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "more"}, "value": 100_000_000});
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ .Release.Name }}-more'\n";
    let objects = render(&[
        &format!("--set-json=extraObjects={}", json!([rule, class, map])),
        &format!("--set-json=podAnnotations={note}"),
        &format!("--set-json=deploymentAnnotations={note}"),
        &format!("--set-json=serviceAccount.annotations={note}"),
        &format!("--set-json=metrics.service.annotations={note}"),
        &format!("--set-json=metrics.podMonitor={{\"enabled\": true, \"annotations\": {note}}}"),
        &format!(
            "--set-json=metrics.prometheusRule={{\"enabled\": true, \"annotations\": {note}}}"
        ),
    ]);
    assert_eq!(*find(&objects, "PrometheusRule", "more"), rule);
    assert_eq!(*find(&objects, "PriorityClass", "more"), class);
    find(&objects, "ConfigMap", "carillon-more");
    for (kind, name) in [
        ("Deployment", "carillon"),
        ("ServiceAccount", "carillon"),
        ("Service", "carillon-metrics"),
        ("PodMonitor", "carillon"),
        ("PrometheusRule", "carillon"),
    ] {
        let object = find(&objects, kind, name);
        assert_eq!(object["metadata"]["annotations"]["note"], BRACES, "{kind}");
    }
    let pods = &find(&objects, "Deployment", "carillon")["spec"]["template"]["metadata"];
    assert_eq!(pods["annotations"]["note"], BRACES);
    let crds = metadata_of_crds(&[&format!("--set-json=crds.annotations={note}")]);
    assert!(crds.iter().all(|crd| crd["annotations"]["note"] == BRACES));
}

#[test]
fn monitors_and_rules_in_another_namespace_look_for_pods_in_that_of_the_release() {
    for (monitor, kind) in [
        ("serviceMonitor", "ServiceMonitor"),
        ("podMonitor", "PodMonitor"),
    ] {
        let objects = render(&[
            &format!("--set=metrics.{monitor}.enabled=true"),
            &format!("--set=metrics.{monitor}.namespace=watch"),
            "--set=metrics.prometheusRule.enabled=true",
            "--set=metrics.prometheusRule.namespace=rules",
        ]);
        let monitor = find(&objects, kind, RELEASE);
        assert_eq!(monitor["metadata"]["namespace"], "watch");
        let here = json!({"matchNames": [NAMESPACE]});
        assert_eq!(monitor["spec"]["namespaceSelector"], here, "{kind}");
        let rule = find(&objects, "PrometheusRule", RELEASE);
        assert_eq!(rule["metadata"]["namespace"], "rules");
    }
}
