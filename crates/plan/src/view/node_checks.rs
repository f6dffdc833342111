//! Each check of a node for the template of an object, with what decides it and what to write to change that.

use serde::Serialize;

use crate::eligibility::{Check, Refusal, amount, check_one};
use crate::node::{Effect, NodeRow, Taint};
use crate::placement::{CORDONED, Operator, Placement, Requirement, Term};

/// One check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// What is checked, e.g. `taints`.
    pub check: &'static str,
    /// Whether the node passes.
    pub passed: bool,
    /// What was found, in words.
    pub found: String,
    /// What does not pass, with what to do about it; empty when the check is passed.
    pub findings: Vec<Finding>,
}

/// Something that does not pass.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// As in `status.refused`, e.g. `NodeTaintNotTolerated`.
    pub reason: &'static str,
    /// What decides, in words.
    pub text: String,
    /// What would change it; any one of them.
    pub remedies: Vec<Remedy>,
}

/// A change after which the node passes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// What is changed.
    pub on: On,
    /// What it does, in words.
    pub what: &'static str,
    /// A command for the node, YAML for `spec.template.spec`; empty when there is nothing to write.
    pub write: String,
}

impl Remedy {
    fn node(what: &'static str, write: impl Into<String>) -> Self {
        Self {
            on: On::Node,
            what,
            write: write.into(),
        }
    }

    fn template(what: &'static str, write: impl Into<String>) -> Self {
        Self {
            on: On::Template,
            ..Self::node(what, write)
        }
    }
}

/// What a remedy changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum On {
    /// The node.
    Node,
    /// The template; where that is immutable, the one of a new object.
    Template,
}

/// These checks in their order, also those after the first that does not pass.
pub fn check_all(
    checks: &[Check],
    wish: &Placement,
    name: &str,
    node: &NodeRow,
) -> Vec<CheckResult> {
    // What to do about cordoning is said once, by its own check.
    let said = node.unschedulable && !wish.tolerates_unschedulable();
    let checks = checks.iter().map(|check| {
        let check = *check;
        let mut findings = findings(check, wish, name, node);
        let texts: Vec<&str> = findings.iter().map(|finding| &*finding.text).collect();
        let (passed, found) = match texts.as_slice() {
            [] => (true, passed(check, wish, node)),
            texts => (false, texts.join("; ")),
        };
        let is_said = |text: &str| said && check == Check::Taints && text.contains(CORDONED);
        findings.retain(|finding| !is_said(&finding.text));
        CheckResult {
            check: label(check),
            passed,
            found,
            findings,
        }
    });
    checks.collect()
}

fn label(check: Check) -> &'static str {
    match check {
        Check::Listed => "nodeNames",
        Check::Deletion => "deletion",
        Check::NodeName => "nodeName",
        Check::NodeSelector => "nodeSelector",
        Check::NodeAffinity => "nodeAffinity",
        Check::Schedulable => "schedulable",
        Check::Taints => "taints",
        Check::Resources => "resources",
    }
}

/// What one check finds. It stops at the first taint, label or resource, so it is asked again
/// without that one until it passes.
fn findings(check: Check, wish: &Placement, name: &str, node: &NodeRow) -> Vec<Finding> {
    let (mut wish, mut node) = (wish.clone(), node.clone());
    let mut findings = Vec::new();
    while let Some(refusal) = check_one(check, &wish, name, &node) {
        findings.push(Finding {
            reason: refusal.reason(),
            text: text(&refusal, &wish, name, &node),
            remedies: remedies(&refusal, &wish, name, &node),
        });
        match refusal {
            Refusal::Taint(taint) => {
                let taint = taint.clone();
                let others = node.taints.iter().filter(|other| **other != taint);
                node.taints = others.cloned().collect();
            }
            Refusal::NodeSelector { key, .. } => {
                let key = key.to_owned();
                wish.node_selector.remove(&key);
            }
            Refusal::Resource { resource, .. } => {
                let resource = resource.to_owned();
                wish.requests.retain(|(name, _)| *name != resource);
            }
            _ => break,
        }
    }
    findings
}

fn text(refusal: &Refusal<'_>, wish: &Placement, name: &str, node: &NodeRow) -> String {
    if *refusal != Refusal::NodeAffinity {
        return refusal.to_string();
    }
    let unmet = unmet(wish, name, node).into_iter().map(|term| {
        let term: Vec<String> = term.iter().map(|r| requirement(r, node)).collect();
        term.join(" and ")
    });
    let terms: Vec<String> = unmet.filter(|term| !term.is_empty()).collect();
    if terms.is_empty() {
        refusal.to_string()
    } else {
        format!("{refusal}: {}", terms.join(", or "))
    }
}

/// `pool In [cpu] (the node has pool=gpu)`
fn requirement(requirement: &Requirement, node: &NodeRow) -> String {
    let Requirement {
        key,
        operator,
        values,
    } = requirement;
    let values = match values.as_slice() {
        [] => String::new(),
        values => format!(" [{}]", values.join(", ")),
    };
    let found = match node.label(key) {
        Some(value) => format!("the node has {key}={value}"),
        None if key == "metadata.name" => "the node has another name".to_owned(),
        None => "the node has no such label".to_owned(),
    };
    format!("{key} {operator:?}{values} ({found})")
}

/// Of each affinity term the requirements that do not hold.
fn unmet<'a>(wish: &'a Placement, name: &str, node: &NodeRow) -> Vec<Vec<&'a Requirement>> {
    let fails = |term: Term| {
        let alone = Placement {
            required_terms: Some(vec![term]),
            ..Placement::default()
        };
        check_one(Check::NodeAffinity, &alone, name, node).is_some()
    };
    let on_label = |r: &Requirement| Term {
        expressions: vec![r.clone()],
        ..Term::default()
    };
    let on_field = |r: &Requirement| Term {
        fields: vec![r.clone()],
        ..Term::default()
    };
    let of_term = |term: &'a Term| {
        let labels = term.expressions.iter().filter(|r| fails(on_label(r)));
        let fields = term.fields.iter().filter(|r| fails(on_field(r)));
        labels.chain(fields).collect()
    };
    wish.required_terms.iter().flatten().map(of_term).collect()
}

fn remedies(refusal: &Refusal<'_>, wish: &Placement, name: &str, node: &NodeRow) -> Vec<Remedy> {
    match *refusal {
        Refusal::NotListed => vec![Remedy::template(
            "name the node in spec.nodeNames, or leave the field out",
            "",
        )],
        Refusal::Deleting => vec![Remedy::node(
            "wait: a node that joins under this name is another one, and is served",
            "",
        )],
        Refusal::NodeName { .. } => vec![Remedy::template("leave nodeName out", "")],
        Refusal::NodeSelector { key, wanted, .. } => vec![
            Remedy::node("set the label", set_label(name, key, wanted, node)),
            Remedy::template("ask for less", format!("# without nodeSelector {key}")),
        ],
        Refusal::NodeAffinity => {
            let unmet = unmet(wish, name, node).into_iter();
            let unmet = unmet.filter(|term| !term.is_empty());
            let commands = unmet.filter_map(|term| {
                let commands = term.iter().map(|requirement| meet(name, requirement, node));
                let commands: Vec<String> = commands.collect::<Option<_>>()?;
                Some(Remedy::node("change the labels", commands.join(" && ")))
            });
            commands.collect()
        }
        Refusal::Unschedulable => vec![
            Remedy::node("uncordon the node", format!("kubectl uncordon {name}")),
            tolerate("tolerate cordoned nodes", CORDONED, "", Effect::NoSchedule),
        ],
        Refusal::Taint(taint) => vec![
            untaint(name, taint),
            tolerate("tolerate the taint", &taint.key, &taint.value, taint.effect),
        ],
        Refusal::Resource {
            resource, found, ..
        } => vec![Remedy::template(
            "ask for what the node has, all containers together",
            format!(
                "resources:\n  requests:\n    {resource}: {:?}",
                amount(found)
            ),
        )],
    }
}

fn set_label(name: &str, key: &str, value: &str, node: &NodeRow) -> String {
    let overwrite = match node.label(key) {
        Some(_) => " --overwrite",
        None => "",
    };
    format!("kubectl label node {name} {key}={value}{overwrite}")
}

/// The command that makes a requirement hold, if there is one.
fn meet(name: &str, requirement: &Requirement, node: &NodeRow) -> Option<String> {
    let key = &requirement.key;
    match requirement.operator {
        _ if key == "metadata.name" => None,
        Operator::In => {
            let value = requirement.values.first()?;
            Some(set_label(name, key, value, node))
        }
        Operator::Exists => Some(set_label(name, key, "", node)),
        Operator::NotIn | Operator::DoesNotExist => {
            Some(format!("kubectl label node {name} {key}-"))
        }
        Operator::Gt | Operator::Lt | Operator::Unknown => None,
    }
}

fn untaint(name: &str, Taint { key, effect, .. }: &Taint) -> Remedy {
    // Kubernetes sets these itself, and would set them again.
    if key.starts_with("node.kubernetes.io/") {
        return Remedy::node(
            "repair the node: Kubernetes takes the taint off when its cause is gone",
            format!("kubectl describe node {name}"),
        );
    }
    let effect = effect.as_str();
    let command = format!("kubectl taint node {name} {key}:{effect}-");
    Remedy::node("remove the taint", command)
}

fn tolerate(what: &'static str, key: &str, value: &str, effect: Effect) -> Remedy {
    let matching = match value {
        "" => "  operator: Exists".to_owned(),
        value => format!("  operator: Equal\n  value: {value:?}"),
    };
    let effect = effect.as_str();
    let toleration = format!("tolerations:\n- key: {key}\n{matching}\n  effect: {effect}");
    Remedy::template(what, toleration)
}

fn passed(check: Check, wish: &Placement, node: &NodeRow) -> String {
    let listed = |items: Vec<String>, none: &str| match items.as_slice() {
        [] => none.to_owned(),
        items => items.join(", "),
    };
    match check {
        Check::Listed if wish.only.is_some() => "the job names it".to_owned(),
        Check::Listed => "the job is for all nodes".to_owned(),
        Check::Deletion => "not being deleted".to_owned(),
        Check::NodeName => "the template names no node".to_owned(),
        Check::NodeSelector => {
            let labels = wish.node_selector.iter().map(|(k, v)| format!("{k}={v}"));
            listed(labels.collect(), "no label is asked for")
        }
        Check::NodeAffinity if wish.required_terms.is_none() => "nothing is required".to_owned(),
        Check::NodeAffinity => "a term matches".to_owned(),
        Check::Schedulable if node.unschedulable => "cordoned, which is tolerated".to_owned(),
        Check::Schedulable => "not cordoned".to_owned(),
        Check::Taints => {
            let taints = node.taints.iter();
            let taints = taints.filter(|t| t.effect != Effect::PreferNoSchedule);
            let tolerated = taints.map(|t| format!("{} is tolerated", Refusal::Taint(t)));
            listed(tolerated.collect(), "no taint")
        }
        Check::Resources => {
            let fits = wish.requests.iter().map(|(resource, wanted)| {
                let found = node.allocatable(resource);
                format!("{} of {} {resource}", amount(*wanted), amount(found))
            });
            listed(fits.collect(), "nothing is asked for")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node() -> NodeRow {
        NodeRow {
            unschedulable: true,
            labels: [("pool".into(), "gpu".into())].into(),
            taints: [
                ("example.com/pool", "gpu", Effect::NoSchedule),
                ("node.kubernetes.io/not-ready", "", Effect::NoExecute),
                ("rather-not", "", Effect::PreferNoSchedule),
            ]
            .map(|(key, value, effect)| Taint {
                key: key.into(),
                value: value.into(),
                effect,
            })
            .into(),
            allocatable: [("cpu".into(), 4000)].into(),
            ..NodeRow::default()
        }
    }

    fn check(spec: &Value, name: &str) -> CheckResult {
        check_all(&Check::ALL, &Placement::read(spec), "n1", &node())
            .into_iter()
            .find(|result| result.check == name)
            .unwrap()
    }

    fn writes(result: &CheckResult) -> Vec<&str> {
        let findings = result.findings.iter();
        findings
            .flat_map(|finding| &finding.remedies)
            .map(|remedy| &*remedy.write)
            .collect()
    }

    #[test]
    fn every_taint_that_is_not_tolerated_is_found_with_what_to_write() {
        let result = check(&json!({}), "taints");
        assert_eq!(result.findings.len(), 2, "{result:?}");
        assert_eq!(
            writes(&result),
            [
                "kubectl taint node n1 example.com/pool:NoSchedule-",
                "tolerations:\n- key: example.com/pool\n  operator: Equal\n  value: \"gpu\"\n  effect: NoSchedule",
                "kubectl describe node n1",
                "tolerations:\n- key: node.kubernetes.io/not-ready\n  operator: Exists\n  effect: NoExecute",
            ]
        );
    }

    #[test]
    fn what_to_do_about_a_cordoned_node_is_said_once() {
        let mut row = node();
        row.taints = [Taint {
            key: CORDONED.into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        }]
        .into();
        let results = check_all(&Check::ALL, &Placement::default(), "n1", &row);
        let failed: Vec<_> = results
            .iter()
            .filter(|result| !result.passed)
            .map(|result| (result.check, result.findings.len()))
            .collect();
        assert_eq!(failed, [("schedulable", 1), ("taints", 0)]);
    }

    #[test]
    fn a_toleration_that_was_suggested_makes_the_check_pass() {
        let tolerant = json!({"tolerations": [
            {"key": "example.com/pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        ]});
        let result = check(&tolerant, "taints");
        assert!(result.passed, "{result:?}");
        assert!(
            result
                .found
                .starts_with("taint example.com/pool=gpu:NoSchedule is tolerated")
        );
    }

    #[test]
    fn labels_are_set_with_overwrite_only_where_there_is_one() {
        let result = check(
            &json!({"nodeSelector": {"pool": "cpu", "zone": "a"}}),
            "nodeSelector",
        );
        let commands: Vec<_> = writes(&result)
            .into_iter()
            .filter(|w| w.starts_with("kubectl"))
            .collect();
        assert_eq!(
            commands,
            [
                "kubectl label node n1 pool=cpu --overwrite",
                "kubectl label node n1 zone=a"
            ]
        );
    }

    #[test]
    fn an_affinity_that_does_not_match_says_which_requirement_and_what_the_node_has() {
        let spec = json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [
                {"key": "pool", "operator": "In", "values": ["cpu", "big"]},
                {"key": "pool", "operator": "Exists"}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
        ]}}}});
        let result = check(&spec, "nodeAffinity");
        assert_eq!(
            result.found,
            "no term of the required node affinity matches: pool In [cpu, big] (the node has pool=gpu), \
             or metadata.name In [n2] (the node has another name)"
        );
        assert_eq!(
            writes(&result),
            ["kubectl label node n1 pool=cpu --overwrite"]
        );
    }

    #[test]
    fn checks_after_the_first_that_fails_are_made_too() {
        let spec = json!({"nodeSelector": {"zone": "a"}, "containers": [
            {"resources": {"requests": {"cpu": "4500m", "memory": "1Gi"}}}]});
        let failed: Vec<_> = check_all(&Check::ALL, &Placement::read(&spec), "n1", &node())
            .into_iter()
            .filter(|result| !result.passed)
            .map(|result| (result.check, result.findings.len()))
            .collect();
        assert_eq!(
            failed,
            [
                ("nodeSelector", 1),
                ("schedulable", 1),
                ("taints", 2),
                ("resources", 2)
            ]
        );
    }

    #[test]
    fn the_checks_agree_with_the_planner() {
        for spec in [
            json!({}),
            json!({"nodeSelector": {"pool": "gpu"}}),
            json!({"tolerations": [{"operator": "Exists"}]}),
            json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"pool": "cpu"}}),
        ] {
            let wish = Placement::read(&spec);
            let row = node();
            let first = check_all(&Check::ALL, &wish, "n1", &row)
                .into_iter()
                .find_map(|result| Some(result.findings.first()?.reason));
            let refusal = crate::eligibility::refusal(&wish, "n1", &row);
            assert_eq!(first, refusal.map(|refusal| refusal.reason()), "{spec}");
        }
    }
}
