//! What a job and its pod template ask of a node, read once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::node::{Effect, Taint};
use crate::quantity::{self, Milli};

/// The taint that Kubernetes gives a cordoned node.
pub(crate) const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The template's wishes. Fields this version does not know are left to the scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// `spec.nodeNames` of the job: only these nodes. `None`: all.
    pub only: Option<BTreeSet<Box<str>>>,
    /// `spec.nodeName`; refused at admission, kept for objects stored before that rule.
    pub node_name: Option<String>,
    /// `spec.nodeSelector`.
    pub node_selector: BTreeMap<String, String>,
    /// `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`: one of the
    /// terms must match. `None`: no requirement; an empty list matches nothing, as upstream.
    pub required_terms: Option<Vec<Term>>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// What one pod takes of a node, sorted by resource.
    pub requests: Vec<(String, Milli)>,
}

/// A node selector term: all requirements must hold. An empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// On labels.
    pub expressions: Vec<Requirement>,
    /// On fields; only `metadata.name` exists.
    pub fields: Vec<Requirement>,
}

/// One requirement of a term.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// Label or field.
    pub key: String,
    /// How the values are used.
    pub operator: Operator,
    /// The values.
    pub values: Vec<String>,
}

/// Operator of a requirement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// The value is absent or none of the list.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is an integer greater than the one given.
    Gt,
    /// The value is an integer less than the one given.
    Lt,
    /// A word this version does not know; it matches nothing, so that no node is served by mistake.
    Unknown,
}

/// One toleration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Toleration {
    /// Empty with `Exists`: every key.
    pub key: String,
    /// operator Exists: any value.
    pub exists: bool,
    /// Compared when the operator is Equal.
    pub value: String,
    /// Empty: every effect.
    pub effect: String,
}

impl Toleration {
    /// Whether this toleration covers `taint`. Source: core/v1 `Toleration.ToleratesTaint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect.as_str())
            && (self.key.is_empty() && self.exists || self.key == *taint.key)
            && (self.exists || self.value == *taint.value)
    }
}

impl Placement {
    /// Reads `spec` of a pod template. Total: what is malformed is left out, since the API server
    /// refuses such a template when the first pod is tried.
    pub fn read(spec: &Value) -> Self {
        let required = spec.pointer(
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        );
        Self {
            only: None,
            node_name: text(spec, "nodeName").filter(|name| !name.is_empty()),
            node_selector: entries(spec.get("nodeSelector"))
                .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                .collect(),
            required_terms: required
                .and_then(Value::as_array)
                .map(|terms| terms.iter().map(term).collect()),
            tolerations: list(spec, "tolerations").map(toleration).collect(),
            requests: requests(spec).into_iter().collect(),
        }
    }

    /// Whether some toleration covers `taint`.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let mut all = self.tolerations.iter();
        all.any(|toleration| toleration.tolerates(taint))
    }

    /// Whether a cordoned node is accepted, as DaemonSet pods do.
    pub fn tolerates_unschedulable(&self) -> bool {
        self.tolerates(&Taint {
            key: CORDONED.into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        })
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.get(key).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.and_then(Value::as_object).into_iter().flatten()
}

fn term(value: &Value) -> Term {
    Term {
        expressions: list(value, "matchExpressions").map(requirement).collect(),
        fields: list(value, "matchFields").map(requirement).collect(),
    }
}

fn requirement(value: &Value) -> Requirement {
    Requirement {
        key: text(value, "key").unwrap_or_default(),
        operator: match value.get("operator").and_then(Value::as_str) {
            Some("In") => Operator::In,
            Some("NotIn") => Operator::NotIn,
            Some("Exists") => Operator::Exists,
            Some("DoesNotExist") => Operator::DoesNotExist,
            Some("Gt") => Operator::Gt,
            Some("Lt") => Operator::Lt,
            _ => Operator::Unknown,
        },
        values: list(value, "values")
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    }
}

fn toleration(value: &Value) -> Toleration {
    Toleration {
        key: text(value, "key").unwrap_or_default(),
        exists: value.get("operator").and_then(Value::as_str) == Some("Exists"),
        value: text(value, "value").unwrap_or_default(),
        effect: text(value, "effect").unwrap_or_default(),
    }
}

type Amounts = BTreeMap<String, Milli>;

/// What the scheduler reserves for one pod: the larger of (all containers and sidecars) and (each
/// init container with the sidecars started before it), plus overhead.
/// Source: component-helpers `resource.PodRequests`.
fn requests(spec: &Value) -> Amounts {
    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut total, &container_requests(container));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(spec, "initContainers") {
        let mut step = container_requests(container);
        if is_sidecar(container) {
            add(&mut total, &step);
            add(&mut sidecars, &step);
            step.clone_from(&sidecars);
        } else {
            add(&mut step, &sidecars);
        }
        raise(&mut peak, &step);
    }
    raise(&mut total, &peak);
    of_the_pod(&mut total, spec);
    add(&mut total, &amounts(spec.get("overhead")));
    total
}

/// What `spec.resources` says counts in place of what the containers say. A limit without a request is the
/// request where no container has one; of huge pages it always is. The API server fills that in on the pod.
fn of_the_pod(total: &mut Amounts, spec: &Value) {
    let is_huge = |resource: &str| resource.starts_with("hugepages-");
    let of_pod = |path| {
        let amounts = amounts(spec.pointer(path)).into_iter();
        amounts.filter(|(resource, _)| {
            is_huge(resource) || matches!(resource.as_str(), "cpu" | "memory")
        })
    };
    for (resource, limit) in of_pod("/resources/limits") {
        let is_huge = is_huge(&resource);
        let entry = total.entry(resource).or_insert(limit);
        if is_huge {
            *entry = limit;
        }
    }
    total.extend(of_pod("/resources/requests"));
}

/// A container of `initContainers` that keeps running beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

/// A limit without a request is the request: the API server fills that in on the pod.
fn container_requests(container: &Value) -> Amounts {
    let mut found = amounts(container.pointer("/resources/limits"));
    found.extend(amounts(container.pointer("/resources/requests")));
    found
}

fn amounts(map: Option<&Value>) -> Amounts {
    let read = entries(map).filter_map(|(resource, amount)| {
        let milli = match amount {
            Value::String(text) => quantity::parse(text)?,
            Value::Number(number) => quantity::parse(&number.to_string())?,
            _ => return None,
        };
        Some((resource.clone(), milli))
    });
    read.collect()
}

fn add(into: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        *into.entry(resource.clone()).or_default() += amount;
    }
}

fn raise(into: &mut Amounts, other: &Amounts) {
    for (resource, amount) in other {
        let entry = into.entry(resource.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_are_those_the_scheduler_reserves() {
        let placement = Placement::read(&json!({
            "containers": [
                {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "memory": "1Ki"}}},
                {"resources": {"requests": {"cpu": "200m"}}},
            ],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                {"resources": {"requests": {"cpu": "500m"}}},
            ],
            "overhead": {"cpu": "10m"},
        }));
        // Sidecar 50 + the large init container 500 > 100 + 200 + 50.
        let expected = vec![("cpu".to_owned(), 560), ("memory".to_owned(), 1_024_000)];
        assert_eq!(placement.requests, expected);
    }

    #[test]
    fn requests_of_the_pod_count_in_place_of_those_of_its_containers() {
        for (resources, cpu, memory, pages) in [
            (json!({}), Some(300), None, Some(2_000)),
            (
                json!({"requests": {"cpu": 2}}),
                Some(2_000),
                None,
                Some(2_000),
            ),
            (
                json!({"limits": {"cpu": 2, "memory": "1Ki"}}),
                Some(300),
                Some(1_024_000),
                Some(2_000),
            ),
            (
                json!({"limits": {"hugepages-2Mi": 4}, "requests": {"example.com/gpu": 1}}),
                Some(300),
                None,
                Some(4_000),
            ),
            (
                json!({"limits": {"memory": "2Ki"}, "requests": {"memory": "1Ki", "cpu": "10m"}}),
                Some(10),
                Some(1_024_000),
                Some(2_000),
            ),
        ] {
            let requests = requests(&json!({
                "resources": resources,
                "containers": [
                    {"resources": {"requests": {"cpu": "100m", "hugepages-2Mi": 2}}},
                    {"resources": {"requests": {"cpu": "200m"}}},
                ],
            }));
            let found = ["cpu", "memory", "hugepages-2Mi", "example.com/gpu"]
                .map(|resource| requests.get(resource).copied());
            assert_eq!(found, [cpu, memory, pages, None], "{resources}");
        }
        let with_overhead = json!({
            "resources": {"requests": {"cpu": 1}}, "overhead": {"cpu": "10m"}, "containers": [{}],
        });
        assert_eq!(requests(&with_overhead)["cpu"], 1_010);
    }

    #[test]
    fn malformed_templates_read_as_no_wish() {
        for bad in [
            json!(null),
            json!([]),
            json!({"nodeSelector": 3, "tolerations": {"a": 1}}),
        ] {
            assert_eq!(Placement::read(&bad), Placement::default());
        }
    }

    #[test]
    fn tolerations_cover_taints_as_upstream() {
        let taint = |key: &str, value: &str, effect| Taint {
            key: key.into(),
            value: value.into(),
            effect,
        };
        let cases = [
            (
                json!({"operator": "Exists"}),
                taint("a", "b", Effect::NoExecute),
                true,
            ),
            (
                json!({"key": "a", "operator": "Exists"}),
                taint("a", "b", Effect::NoSchedule),
                true,
            ),
            (
                json!({"key": "a", "value": "b"}),
                taint("a", "b", Effect::NoSchedule),
                true,
            ),
            (
                json!({"key": "a", "value": "c"}),
                taint("a", "b", Effect::NoSchedule),
                false,
            ),
            (
                json!({"key": "a"}),
                taint("a", "", Effect::NoSchedule),
                true,
            ),
            (
                json!({"value": ""}),
                taint("a", "", Effect::NoSchedule),
                false,
            ),
            (
                json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}),
                taint("a", "", Effect::NoSchedule),
                false,
            ),
        ];
        for (value, taint, tolerated) in cases {
            assert_eq!(
                toleration(&value).tolerates(&taint),
                tolerated,
                "{value} {taint:?}"
            );
        }
    }
}
