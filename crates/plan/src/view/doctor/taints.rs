//! Taints that keep an object away from most of the nodes that it chooses.

use std::collections::BTreeMap;

use super::subject::Subject;
use super::{Check, Finding, Severity, count, some};
use crate::eligibility::{Check as NodeCheck, Refusal};
use crate::node::Nodes;
use crate::view::node_checks::{On, check_all};

/// The name of the check.
pub const CHECK: &str = "taints";

/// Taints that say what a node is for: nobody expects pods of theirs there.
const ROLES: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// What taints begin with that Kubernetes sets itself, for as long as a node is in some state.
const STATES: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// Whether a taint refuses more than half of the nodes that an object asks for by name, label and affinity. Nodes of
/// the control plane are none of these; a node that is not ready, or cordoned, is so for a while.
pub fn check(subjects: &[Subject], nodes: &Nodes) -> Check {
    let findings = subjects.iter().filter_map(|one| most_refused(one, nodes));
    let found = format!(
        "{}, {}",
        count(nodes.len(), "node"),
        count(subjects.len(), "object")
    );
    Check::made(CHECK, found, findings.collect())
}

fn most_refused(subject: &Subject, nodes: &Nodes) -> Option<Finding> {
    let mut chosen = 0;
    let mut by_taint: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, node) in nodes {
        match subject.refusal(name, node) {
            Some(
                Refusal::NotListed
                | Refusal::NodeName { .. }
                | Refusal::NodeSelector { .. }
                | Refusal::NodeAffinity,
            ) => continue,
            Some(Refusal::Taint(taint)) if ROLES.contains(&&*taint.key) => continue,
            Some(Refusal::Taint(taint)) if is_of_a_state(&taint.key) => {}
            Some(taint @ Refusal::Taint(_)) => {
                let nodes = by_taint.entry(taint.to_string()).or_default();
                nodes.push(name.to_string());
            }
            _ => {}
        }
        chosen += 1;
    }
    let refused: usize = by_taint.values().map(Vec::len).sum();
    if refused * 2 <= chosen {
        return None;
    }
    let (taint, names) = by_taint.iter().max_by_key(|(_, nodes)| nodes.len())?;
    let has = if refused == 1 { "has" } else { "have" };
    let what = format!(
        "of the {} that it chooses {refused} {has} a taint that it does not tolerate: {taint} on {} ({})",
        count(chosen, "node"),
        names.len(),
        some(names)
    );
    let mut finding = Finding::new(CHECK, Severity::Warning, &*subject.place, what);
    let first = names.first()?;
    let node = nodes.get(&**first)?;
    let checks = check_all(&[NodeCheck::Taints], &subject.placement, first, node);
    let remedies = checks.into_iter().flat_map(|check| check.findings);
    for remedy in remedies.flat_map(|finding| finding.remedies) {
        if remedy.on == On::Template {
            let whose = if subject.is_set { "" } else { " of a new job" };
            let place = format!("{}, in spec.template.spec{whose}", remedy.what);
            finding = finding.or(place, remedy.write);
        }
    }
    Some(finding)
}

fn is_of_a_state(key: &str) -> bool {
    STATES.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::doctor::Outcome;
    use crate::view::read::node;

    /// Three nodes, of which so many are tainted; the first has a label.
    fn nodes(tainted: usize) -> Nodes {
        with_taint(tainted, "pool")
    }

    fn with_taint(tainted: usize, key: &str) -> Nodes {
        let one = |n: usize| {
            let taints = if n < tainted {
                json!([{"key": key, "value": "gpu", "effect": "NoSchedule"}])
            } else {
                Value::Null
            };
            let labels = if n == 0 {
                json!({"first": "yes"})
            } else {
                json!({})
            };
            node(
                &json!({"metadata": {"name": format!("n{n}"), "labels": labels,
                                      "uid": format!("4e0c5d6a-0b1c-4d2e-8f3c-{n:012x}")},
                         "spec": {"taints": taints}}),
            )
        };
        (0..3).filter_map(one).collect()
    }

    fn job(spec: &Value) -> Subject {
        let mut pod =
            json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        for (key, value) in spec.as_object().unwrap() {
            pod[key] = value.clone();
        }
        Subject::job(&json!({"metadata": {"namespace": "ops", "name": "fix"},
                             "spec": {"template": {"spec": pod}}}))
        .unwrap()
    }

    #[test]
    fn a_taint_on_most_of_the_chosen_nodes_is_told_with_the_toleration() {
        let plain = job(&json!({}));
        assert_eq!(
            check(std::slice::from_ref(&plain), &nodes(1)).result,
            Outcome::Ok
        );
        let check = check(&[plain], &nodes(2));
        assert_eq!(check.result, Outcome::Warning);
        let finding = &check.findings[0];
        assert!(
            finding
                .what
                .contains("of the 3 nodes that it chooses 2 have a taint"),
            "{finding:?}"
        );
        assert!(
            finding.remedies[0].write.contains("- key: pool"),
            "{finding:?}"
        );
    }

    #[test]
    fn taints_of_the_control_plane_and_of_nodes_that_are_not_ready_are_no_finding() {
        let plain = || [job(&json!({}))];
        for key in [
            "node-role.kubernetes.io/control-plane",
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/disk-pressure",
            "node.cloudprovider.kubernetes.io/uninitialized",
        ] {
            assert_eq!(
                check(&plain(), &with_taint(3, key)).result,
                Outcome::Ok,
                "{key}"
            );
        }
        assert_eq!(
            check(&plain(), &with_taint(3, "node.example.com/x")).result,
            Outcome::Warning
        );
        // Of the nodes that are left one of one is tainted.
        let mut mixed = with_taint(2, ROLES[0]);
        mixed.extend(nodes(3).into_iter().filter(|(name, _)| &**name == "n2"));
        let check = check(&plain(), &mixed);
        assert!(
            check.findings[0]
                .what
                .starts_with("of the 1 node that it chooses 1 has"),
            "{check:?}"
        );
    }

    #[test]
    fn nodes_that_it_does_not_choose_and_taints_that_it_tolerates_do_not_count() {
        let first = job(&json!({"nodeSelector": {"first": "yes"}}));
        assert_eq!(check(&[first], &nodes(1)).result, Outcome::Warning);
        let tolerates = job(&json!({"tolerations": [{"operator": "Exists"}]}));
        assert_eq!(check(&[tolerates], &nodes(3)).result, Outcome::Ok);
        let set = Subject::set(&json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"namespace": "ops", "name": "agent"},
            "spec": {"template": {"spec": {}}},
        }))
        .unwrap();
        let check = check(&[set], &nodes(3));
        assert_eq!(check.findings[0].where_, "daemonset.apps ops/agent");
    }
}
