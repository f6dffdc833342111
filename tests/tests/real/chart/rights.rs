//! What the chart's account may do: by word, and tried.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use anyhow::{Result, ensure};
use carillon_testbed::carillon::{NAMESPACE, RELEASE};
use carillon_testbed::{AuditEvent, Cluster};
use serde_json::{Value, json};

use super::ACCOUNT;
use super::render::{said, texts};

/// (group, resource or resource/subresource, verb, namespace or "" for the cluster).
pub(super) type Right = (String, String, String, String);

/// (verb, resource, namespace, whether it is allowed), in kubectl's words.
#[rustfmt::skip]
pub(super) const CAN_I: &[(&str, &str, &str, bool)] = &[
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
    ("get", "nodes", "", true),
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
    ("create", "broadcastjobs", "team-a", true),
    ("update", "broadcastjobs", "team-a", false),
    ("create", "cronjobs.carillon.dev", "team-a", false),
    ("patch", "cronjobs.carillon.dev", "team-a", false),
    ("list", "cronjobs.batch", "team-a", false),
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
    ("create", "jobs.batch", "team-a", true),
    ("update", "jobs.batch", "team-a", false),
    ("patch", "jobs.batch/status", "team-a", true),
    ("create", "daemonsets.apps", "team-a", false),
    ("*", "*", "team-a", false),
];

/// What kubectl says of [`CAN_I`], two at a time.
pub(super) fn can_i(cluster: &Cluster) -> Result<Vec<(String, bool)>> {
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

pub(super) const VERBS: [&str; 8] = [
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
pub(super) fn allowed(cluster: &Cluster) -> Result<BTreeSet<Right>> {
    let mut resources = resources(cluster)?;
    // Not in discovery, since nothing is served there.
    for (group, kind) in [
        ("carillon.dev", "broadcastjobs"),
        ("carillon.dev", "cronjobs"),
        ("carillon.dev", "daemonsets"),
        ("batch", "jobs"),
    ] {
        resources.push((group.into(), format!("{kind}/finalizers"), true));
    }
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
pub(super) fn resources(cluster: &Cluster) -> Result<Vec<(String, String, bool)>> {
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

/// Stands for the name of a pod that runs.
const RUNNING: &str = "a pod that runs";
const ANNOTATE: &str = r#"--patch={"metadata":{"annotations":{"a":"b"}}}"#;
const SPEC: &str = r#"--patch={"spec":{"suspend":true}}"#;

/// Requests that the account may not make, in kubectl's words.
#[rustfmt::skip]
pub(super) const BEYOND: &[&[&str]] = &[
    &["get", "secrets", "--all-namespaces"],
    &["get", "secrets", "-n", NAMESPACE],
    &["get", "configmap", "kube-root-ca.crt", "-n", "team-a"],
    &["patch", "node", "node-0000", "--type=merge", ANNOTATE],
    &["delete", "node", "node-0000"],
    &["patch", "ccj", "report", "-n", "team-a", "--type=merge", SPEC],
    &["delete", "ccj", "report", "-n", "team-a"],
    &["get", "cronjobs.batch", "-n", "team-a"],
    &["create", "deployment", "x", "--image=busybox", "-n", "team-a"],
    &["get", "clusterroles"],
    &["get", "crd", "broadcastjobs.carillon.dev"],
    &["exec", RUNNING, "-n", "team-a", "--", "true"],
    &["logs", RUNNING, "-n", "team-a"],
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

/// What is answered to [`BEYOND`] with the account's token.
pub(super) fn try_beyond(
    cluster: &Cluster,
    kubeconfig: &Path,
    running_pod: &str,
) -> Result<Vec<(String, Output)>> {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    BEYOND
        .iter()
        .map(|args| {
            let word = |arg: &&'static str| if *arg == RUNNING { running_pod } else { *arg };
            let args: Vec<&str> = args.iter().map(word).collect();
            let output = cluster.kubectl([&kubeconfig[..]].iter().chain(&args))?;
            Ok((args.join(" "), output))
        })
        .collect()
}

/// Requests of the operator itself, not those we made with its token.
pub(super) fn operators(requests: &[AuditEvent]) -> impl Iterator<Item = &AuditEvent> {
    requests
        .iter()
        .filter(|request| request.user == ACCOUNT && request.user_agent.starts_with("carillon/"))
}

/// (group, resource[/subresource], verb) of rules.
pub(super) fn granted(rules: &Value) -> BTreeSet<(String, String, String)> {
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

/// (group, resource[/subresource], verb) of requests, each of which was let through and is about a
/// resource.
pub(super) fn used(requests: &[AuditEvent]) -> BTreeSet<(String, String, String)> {
    let refused: Vec<_> = operators(requests)
        .filter(|request| [Some(401), Some(403)].contains(&request.code))
        .map(|request| format!("{} {}", request.verb, request.request_uri))
        .collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let right = |request: &AuditEvent| {
        let mut resource = request.resource.clone();
        let uri = &request.request_uri;
        assert!(!resource.is_empty(), "not a resource: {uri}");
        if !request.subresource.is_empty() {
            let _ = write!(resource, "/{}", request.subresource);
        }
        if resource == "leases" {
            assert_eq!(request.namespace, NAMESPACE, "{request:?}");
        }
        (request.group.clone(), resource, request.verb.clone())
    };
    operators(requests).map(right).collect()
}

/// The verbs granted are the verbs used, but for those that are `not_requested`, with the reason why.
pub(super) fn assert_equal(
    mut granted: BTreeSet<(String, String, String)>,
    mut used: BTreeSet<(String, String, String)>,
    not_requested: &[(&str, &str, &str, &str)],
) {
    for (group, resource, verb, _why) in not_requested {
        let right = ((*group).into(), (*resource).into(), (*verb).into());
        assert!(granted.remove(&right), "{right:?} is no longer granted");
        used.remove(&right);
    }
    let unused: Vec<_> = granted.difference(&used).collect();
    assert!(unused.is_empty(), "granted and not used: {unused:#?}");
    let missing: Vec<_> = used.difference(&granted).collect();
    assert!(missing.is_empty(), "used and not granted: {missing:#?}");
}
