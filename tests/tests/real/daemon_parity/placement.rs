//! Which nodes a template fits, and what its pods look like.

use serde_json::{Value, json};

use super::nodes::does_not_fit;
use super::scenario::{Deed, Scenario, labels, spec, taints, template};
use crate::parity::watched::Here;

/// Fields of a pod: it may run where one of these terms holds.
fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn by_label(operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": "pool", "operator": operator, "values": values}]})
}

fn by_name(operator: &str, name: &str) -> Value {
    json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]})
}

fn pool(name: &str) -> Value {
    labels(json!({"pool": name}))
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let on_three = |name, fields: Value| {
        Scenario::of(name, 3, &[template(fields)])
            .node(0, &pool("a"))
            .node(1, &pool("b"))
    };
    let tainted = taints(&[("example.com/key", "NoSchedule")]);
    let tolerates = |more: Value| json!({"tolerations": [more]});
    vec![
        on_three("affinity", required(&json!([by_label("In", &["a", "c"])])))
            .created(|here| here.is_at(1))
            .then_until(Deed::Node(2, pool("c")), |here| here.is_at(2)),
        on_three(
            "affinity-not-in",
            required(&json!([by_label("NotIn", &["a"])])),
        )
        .created(|here| here.is_at(2)),
        on_three(
            "affinity-of-two-terms",
            required(&json!([by_label("In", &["a"]), by_name("In", "$NS-2")])),
        )
        .created(|here| here.is_at(2)),
        on_three(
            "affinity-that-must-hold-twice",
            required(&json!([{
                "matchExpressions": [{"key": "pool", "operator": "Exists"}],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["$NS-0"]}],
            }])),
        )
        .created(|here| here.is_at(1)),
        on_three("field-in", required(&json!([by_name("In", "$NS-1")])))
            .created(|here| here.is_at(1)),
        on_three(
            "field-not-in",
            required(&json!([by_name("NotIn", "$NS-1")])),
        )
        .created(|here| here.is_at(2)),
        on_three("affinity-of-nothing", required(&json!([{}]))).created(|here| here.is_at(0)),
        on_three(
            "preferred-affinity",
            json!({"affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "preference": by_label("In", &["a"])}]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname",
                     "labelSelector": {"matchLabels": {"app": "other"}}}]},
            }}),
        )
        .created(|here| here.is_at(3)),
        on_three("node-name", json!({"nodeName": "$NS-1"})).created(|here| here.is_at(1)),
        on_three("node-name-of-none", json!({"nodeName": "nowhere"})).created(|here| here.is_at(0)),
        on_three("selector-changes", json!({}))
            .then_until(
                spec(&template(json!({"nodeSelector": {"pool": "a"}}))),
                |here| here.is_at(1),
            )
            .then_until(
                spec(&template(json!({"nodeSelector": {"pool": null}}))),
                |here| here.is_at(3),
            ),
        on_three(
            "tolerates",
            tolerates(json!({"key": "example.com/key", "value": "v", "effect": "NoSchedule"})),
        )
        .node(1, &tainted)
        .created(|here| here.is_at(3)),
        on_three(
            "tolerates-another-value",
            tolerates(json!({"key": "example.com/key", "value": "w", "effect": "NoSchedule"})),
        )
        .node(1, &tainted)
        .created(|here| here.is_at(2)),
        on_three(
            "tolerates-for-a-while",
            tolerates(
                json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 30}),
            ),
        ),
        on_three(
            "tolerates-everything",
            tolerates(json!({"operator": "Exists"})),
        )
        .node(1, &tainted)
        .created(|here| here.is_at(3)),
        on_three(
            "tolerates-no-longer",
            tolerates(json!({"operator": "Exists"})),
        )
        .node(1, &tainted)
        .created(|here| here.is_at(3))
        .then_until(spec(&template(json!({"tolerations": null}))), |here| {
            here.is_at(2)
        }),
        on_three("does-not-fit", does_not_fit()).created(|here| here.has(3)),
        on_three(
            "port-of-the-node",
            json!({"hostNetwork": true, "containers": [{"name": "main", "image": "busybox:1.36",
                "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        ),
        on_three(
            "everything-in-a-template",
            json!({
                "priorityClassName": "system-node-critical", "hostPID": true,
                "terminationGracePeriodSeconds": 5, "dnsPolicy": "Default",
                "securityContext": {"runAsUser": 7}, "volumes": [{"name": "v", "emptyDir": {}}],
                "initContainers": [{"name": "first", "image": "busybox:1.36", "command": ["true"]}],
                "containers": [{"name": "main", "image": "busybox:1.36", "args": ["<a> & \"b\""],
                    "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                    "resources": {"limits": {"memory": "64Mi"}}}],
            }),
        ),
        Scenario::of(
            "labels-and-annotations",
            1,
            &[json!({"template": {"metadata": {
                "labels": {"tier": "agent"}, "annotations": {"note": "this"}}}})],
        )
        .set(&json!({"metadata": {"labels": {"team": "ops"}, "annotations": {"why": "test"}}})),
        Scenario::of(
            "selector-by-expressions",
            2,
            &[
                json!({"selector": {"matchLabels": null, "matchExpressions": [
                {"key": "app", "operator": "In", "values": ["d", "e"]},
                {"key": "gone", "operator": "DoesNotExist"}]}}),
            ],
        )
        .created(Here::is_rolled_out),
    ]
}
