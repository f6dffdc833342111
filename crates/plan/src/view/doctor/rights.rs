//! Rights: whether the ServiceAccount of an operator has all that the chart gives it, and what whoever asks may do.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::operators::Installed;
use super::{Check, Finding, Severity, count, some};

/// The name of the check of the operator's rights.
pub const CHECK: &str = "rights";
/// Of what whoever asks may do.
pub const YOURS: &str = "your rights";

/// A row of `files/permissions.yaml` of the chart.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    group: String,
    resource: String,
    #[serde(default, rename = "where")]
    place: Place,
    #[serde(default)]
    named: bool,
    verbs: Vec<String>,
    #[serde(rename = "for")]
    served: Vec<String>,
    why: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Place {
    #[default]
    Namespaces,
    Cluster,
    Release,
}

/// A question for the API server: whether somebody may do this.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Question {
    /// API group; empty for core.
    pub group: String,
    /// Plural of the resource, with its subresource: `jobs/status`.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The namespace; `None`: everywhere.
    pub namespace: Option<String>,
    /// The one object; `None`: all.
    pub name: Option<String>,
    /// What it is for.
    pub why: String,
}

/// All that an operator needs for what it serves.
pub fn questions(rows: &[Row], of: &Installed) -> Vec<Question> {
    let needed = |row: &&Row| row.served.iter().any(|kind| of.serves.contains(kind));
    let mut all = Vec::new();
    for row in rows.iter().filter(needed) {
        let namespaces: Vec<Option<String>> = match row.place {
            Place::Cluster => vec![None],
            Place::Release => vec![of.lease.as_ref().map(|(namespace, _)| namespace.clone())],
            Place::Namespaces if of.namespaces.is_empty() => vec![None],
            Place::Namespaces => of.namespaces.iter().cloned().map(Some).collect(),
        };
        let name = of.lease.as_ref().map(|(_, name)| name.clone());
        for namespace in namespaces {
            all.extend(row.verbs.iter().map(|verb| Question {
                group: row.group.clone(),
                resource: row.resource.clone(),
                verb: verb.clone(),
                namespace: namespace.clone(),
                name: name.clone().filter(|_| row.named),
                why: row.why.clone(),
            }));
        }
    }
    all
}

impl Question {
    fn attributes(&self) -> Value {
        let (resource, part) = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        json!({
            "group": self.group, "resource": resource, "subresource": part, "verb": self.verb,
            "namespace": self.namespace.as_deref().unwrap_or(""), "name": self.name.as_deref().unwrap_or(""),
        })
    }

    /// Whether an operator's ServiceAccount may, as a SubjectAccessReview.
    pub fn review(&self, of: &Installed) -> Value {
        let (namespace, account) = (&of.namespace, &of.account);
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": format!("system:serviceaccount:{namespace}:{account}"), "groups": groups,
                     "resourceAttributes": self.attributes()},
        })
    }

    /// Whether whoever asks may, as a SelfSubjectAccessReview.
    pub fn own_review(&self) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": self.attributes()},
        })
    }
}

/// What operators lack: each with the questions that were answered by no, of so many.
pub fn check(answers: &[(Installed, usize, Vec<Question>)]) -> Check {
    let asked: usize = answers.iter().map(|(_, asked, _)| asked).sum();
    let findings = answers.iter().flat_map(|(of, _, no)| missing(of, no));
    let found = format!("{} asked for", count(asked, "right"));
    Check::made(CHECK, found, findings.collect())
}

/// A finding for each namespace in which something is missing.
fn missing(of: &Installed, no: &[Question]) -> Vec<Finding> {
    let mut by_namespace: BTreeMap<Option<&str>, Vec<&Question>> = BTreeMap::new();
    for question in no {
        let namespace = question.namespace.as_deref();
        by_namespace.entry(namespace).or_default().push(question);
    }
    let finding = |(namespace, no): (Option<&str>, Vec<&Question>)| {
        let place = format!("ServiceAccount {}/{}", of.namespace, of.account);
        let what = no.iter().map(|one| {
            let group = if one.group.is_empty() {
                String::new()
            } else {
                format!(".{}", one.group)
            };
            format!("{} {}{group}", one.verb, one.resource)
        });
        let (what, names): (Vec<String>, _) = (what.collect(), namespace);
        let (within, role) = match names {
            None => ("everywhere".to_owned(), "ClusterRole"),
            Some(namespace) => (format!("in {namespace}"), "Role"),
        };
        let first = no.first().map_or("", |one| &*one.why);
        let text = format!(
            "it may not {} {within}; the first is for: {first}",
            some(&what)
        );
        Finding::new(CHECK, Severity::Problem, place, text)
            .or(
                "have the chart write its roles again",
                format!(
                    "helm upgrade {} charts/carillon -n {} --reset-then-reuse-values",
                    of.name, of.namespace
                ),
            )
            .or(format!("or add to the rules of its {role}"), rules(&no))
    };
    by_namespace.into_iter().map(finding).collect()
}

/// Rules of a role that allow this, one for each resource.
fn rules(no: &[&Question]) -> String {
    let mut verbs: BTreeMap<(&str, &str, Option<&str>), BTreeSet<&str>> = BTreeMap::new();
    for one in no {
        let rule = (&*one.group, &*one.resource, one.name.as_deref());
        verbs.entry(rule).or_default().insert(&one.verb);
    }
    let rule = |((group, resource, name), verbs): ((&str, &str, Option<&str>), BTreeSet<&str>)| {
        let verbs: Vec<&str> = verbs.into_iter().collect();
        let name = name.map_or_else(String::new, |name| {
            format!("\n  resourceNames: [\"{name}\"]")
        });
        format!(
            "- apiGroups: [\"{group}\"]\n  resources: [{resource}]{name}\n  verbs: [{}]\n",
            verbs.join(", ")
        )
    };
    verbs.into_iter().map(rule).collect()
}

/// Verbs of this program, with the right without which each does nothing.
const VERBS: [(&str, &str, &str, &str); 8] = [
    (
        "get, results, wait",
        "carillon.dev",
        "broadcastjobs",
        "list",
    ),
    ("next, calendar", "carillon.dev", "cronjobs", "list"),
    ("rollout status", "carillon.dev", "daemonsets", "list"),
    ("logs", "", "pods/log", "get"),
    ("explain, plan", "", "nodes", "list"),
    ("pause, resume", "carillon.dev", "broadcastjobs", "patch"),
    ("retry", "carillon.dev", "broadcastjobs", "create"),
    ("trigger, suspend", "carillon.dev", "cronjobs", "patch"),
];

/// What to ask about whoever asks, in a namespace or everywhere.
pub fn own_questions(namespace: Option<&str>) -> Vec<Question> {
    let question = |(verbs, group, resource, verb): (&str, &str, &str, &str)| Question {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
        namespace: namespace.map(str::to_owned).filter(|_| resource != "nodes"),
        name: None,
        why: verbs.to_owned(),
    };
    VERBS.into_iter().map(question).collect()
}

/// What whoever asks may not do with this program. Nothing is wrong with that.
pub fn own(asked: usize, no: &[Question]) -> Check {
    let findings = no.iter().map(|one| {
        let group = if one.group.is_empty() { "" } else { "." };
        let right = format!("{} {}{group}{}", one.verb, one.resource, one.group);
        let within = match (&one.namespace, &*one.resource) {
            (_, "nodes") => "",
            (None, _) => " in all namespaces",
            (Some(_), _) => " in this namespace",
        };
        let what = format!("you may not {right}{within}, which {} need", one.why);
        let role = match &*one.resource {
            "nodes" => "ask for a ClusterRoleBinding to carillon-view-nodes",
            "pods/log" => "ask for a RoleBinding to view",
            _ if matches!(&*one.verb, "list") => "ask for a RoleBinding to carillon-view",
            _ => "ask for a RoleBinding to carillon-edit",
        };
        Finding::new(YOURS, Severity::Info, "you", what).or(role, "")
    });
    let may = asked - no.len();
    Check::made(
        YOURS,
        format!("{may} of {asked} that the verbs need"),
        findings.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::doctor::Outcome;
    use crate::view::doctor::operators::installed;
    use crate::view::doctor::operators::tests::deployment;

    fn rows() -> Vec<Row> {
        serde_json::from_value(json!([
            {"group": "", "resource": "nodes", "where": "cluster", "verbs": ["list", "watch"],
             "for": ["broadcastjob"], "why": "which nodes exist"},
            {"group": "batch", "resource": "jobs/status", "verbs": ["patch"], "for": ["job"], "why": "progress"},
            {"group": "apps", "resource": "daemonsets", "verbs": ["get"], "for": ["native-daemonset"], "why": "-"},
            {"group": "coordination.k8s.io", "resource": "leases", "where": "release", "named": true,
             "verbs": ["update"], "for": ["leader-election"], "why": "one leads"},
        ]))
        .unwrap()
    }

    #[test]
    fn an_operator_needs_what_is_for_the_kinds_that_it_serves_where_it_serves_them() {
        let of = installed(&[deployment("carillon", &["--namespaces=a,b"])]).remove(0);
        let all = questions(&rows(), &of);
        let words = all.iter().map(|one| {
            let place = one.namespace.as_deref().unwrap_or("*");
            format!("{place} {} {}", one.verb, one.resource)
        });
        let words: Vec<String> = words.collect();
        let wanted = [
            "* list nodes",
            "* watch nodes",
            "a patch jobs/status",
            "b patch jobs/status",
            "sys update leases",
        ];
        assert_eq!(words, wanted);
        let review = all[2].review(&of);
        assert_eq!(review["spec"]["user"], "system:serviceaccount:sys:robot");
        let attributes = &review["spec"]["resourceAttributes"];
        assert_eq!(attributes["subresource"], "status");
        assert_eq!(attributes["namespace"], "a");
        assert_eq!(all[4].name.as_deref(), Some("carillon"));
    }

    #[test]
    fn what_is_missing_is_named_with_the_rule_to_add() {
        let of = installed(&[deployment("carillon", &[])]).remove(0);
        let all = questions(&rows(), &of);
        let well = check(&[(of.clone(), all.len(), vec![])]);
        assert_eq!(well.result, Outcome::Ok);
        let check = check(&[(of, all.len(), all[..2].to_vec())]);
        assert_eq!(check.result, Outcome::Problem);
        let finding = &check.findings[0];
        assert!(
            finding
                .what
                .starts_with("it may not list nodes, watch nodes everywhere")
        );
        assert_eq!(finding.where_, "ServiceAccount sys/robot");
        let rule = &finding.remedies[1].write;
        assert_eq!(
            rule,
            "- apiGroups: [\"\"]\n  resources: [nodes]\n  verbs: [list, watch]\n"
        );
    }

    #[test]
    fn what_the_user_may_not_do_is_told_and_is_no_problem() {
        let all = own_questions(Some("ops"));
        let nodes = all.iter().find(|one| one.resource == "nodes").unwrap();
        assert_eq!(nodes.namespace, None);
        let check = own(all.len(), std::slice::from_ref(nodes));
        assert_eq!(check.result, Outcome::Info);
        assert_eq!(check.found, "7 of 8 that the verbs need");
        assert!(check.findings[0].what.contains("which explain, plan need"));
    }
}
