//! Finalizers and Jobs of ours that nobody serves.

use std::collections::BTreeMap;

use super::operators::Installed;
use super::{Check, Finding, Seen, Severity, count, some};
use crate::job::MANAGED_BY;
use crate::view::uninstall::Leftovers;

/// The name of the check.
pub const CHECK: &str = "finalizers";

/// Looks for what is held in namespaces that nobody serves: all of them, if nobody leads. Which ones an operator
/// serves its Deployment says: unless that may be read, nothing that is held is well.
pub fn check(found: &Leftovers, leads: bool, operators: &Seen<Vec<Installed>>) -> Check {
    let is_held = !found.is_empty();
    let unread = operators.as_ref().err().filter(|_| is_held && leads);
    let unread = unread.map(|why| format!("whether an operator serves these namespaces: {why}"));
    let operators = operators.as_deref().unwrap_or_default();
    let served = |namespace: &str| {
        let known = operators.is_empty();
        leads && (known || operators.iter().any(|one| one.serves_namespace(namespace)))
    };
    let mut findings = Vec::new();
    for ((namespace, kind, finalizer), held) in found.groups() {
        if served(namespace) {
            continue;
        }
        let names: Vec<String> = held.iter().map(|one| one.name.clone()).collect();
        let deleted = held.iter().filter(|one| one.deleted).count();
        let severity = if deleted > 0 {
            Severity::Problem
        } else {
            Severity::Warning
        };
        let what = format!(
            "{finalizer} is on {}, of which {deleted} are deleted and wait: {}. Nobody serves this namespace",
            count(held.len(), kind.name()),
            some(&names)
        );
        findings.push(remedied(
            namespace,
            Finding::new(CHECK, severity, format!("Namespace {namespace}"), what),
        ));
    }
    let unserved: BTreeMap<_, _> = found
        .unserved_by_namespace()
        .into_iter()
        .filter(|(namespace, _)| !served(namespace))
        .collect();
    for (namespace, jobs) in unserved {
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        let what = format!(
            "nobody goes on with {} that name {MANAGED_BY} in spec.managedBy: {}",
            count(jobs.len(), "Job"),
            some(&names)
        );
        let place = format!("Namespace {namespace}");
        findings.push(remedied(
            namespace,
            Finding::new(CHECK, Severity::Problem, place, what),
        ));
    }
    let all = count(found.held.len(), "finalizer");
    let found = match findings.len() {
        0 if found.held.is_empty() => "none of ours is on anything".to_owned(),
        0 if unread.is_some() => format!("{all} of ours"),
        0 => format!("{all} of ours, and an operator that takes them off"),
        _ => format!("{all} of ours, some where nobody takes them off"),
    };
    Check::made(CHECK, found, findings).without(unread)
}

fn remedied(namespace: &str, finding: Finding) -> Finding {
    finding
        .or(
            "start an operator that serves the namespace: it goes on, and takes them off",
            "",
        )
        .or(
            "or, if Carillon is to go, take them off",
            format!(
                "kubectl carillon -n {namespace} uninstall --check\n\
                 kubectl carillon -n {namespace} uninstall --release"
            ),
        )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::doctor::Outcome;
    use crate::view::doctor::operators::installed;
    use crate::view::doctor::operators::tests::deployment;
    use crate::view::uninstall::{Kind, Object};

    fn held(deleted: bool) -> Leftovers {
        let mut object = json!({"metadata": {"namespace": "ops", "name": "fix-a",
            "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000003", "finalizers": ["carillon.dev/result-tracking"]}});
        if deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        of(Kind::Pod, object)
    }

    fn of(kind: Kind, object: Value) -> Leftovers {
        let object: Object = serde_json::from_value(object).unwrap();
        let mut found = Leftovers::default();
        found.read(kind, &object);
        found
    }

    #[test]
    fn while_deployments_may_not_be_read_nothing_that_is_held_is_well() {
        let unread = Err("you may not list deployments.apps in all namespaces".to_owned());
        let check_of = |found: &Leftovers, leads| check(found, leads, &unread);
        let held_one = check_of(&held(true), true);
        assert_eq!(held_one.result, Outcome::NotChecked, "{held_one:?}");
        let says = "1 finalizer of ours; not checked: whether an operator serves these namespaces: you may not list";
        assert!(held_one.found.starts_with(says), "{held_one:?}");
        assert_eq!(check_of(&Leftovers::default(), true).result, Outcome::Ok);
        // Nobody leads: nobody takes them off, whoever may serve the namespace.
        assert_eq!(check_of(&held(true), false).result, Outcome::Problem);
    }

    #[test]
    fn what_is_held_is_well_while_an_operator_serves_its_namespace() {
        let elsewhere = Ok(installed(&[deployment(
            "carillon",
            &["--namespaces=other"],
        )]));
        let everywhere = Ok(installed(&[deployment("carillon", &[])]));
        for (found, leads, operators, result) in [
            (Leftovers::default(), false, &everywhere, Outcome::Ok),
            (held(true), true, &everywhere, Outcome::Ok),
            (held(true), true, &Ok(Vec::new()), Outcome::Ok),
            (held(true), true, &elsewhere, Outcome::Problem),
            (held(true), false, &everywhere, Outcome::Problem),
            (held(false), false, &everywhere, Outcome::Warning),
        ] {
            let check = check(&found, leads, operators);
            assert_eq!(check.result, result, "{check:?}");
        }
    }

    #[test]
    fn a_job_that_only_we_serve_and_nobody_does_is_a_problem() {
        let job = json!({"metadata": {"namespace": "ops", "name": "sum"}, "spec": {"managedBy": MANAGED_BY}});
        let found = of(Kind::Job, job);
        let check = check(&found, false, &Ok(Vec::new()));
        assert_eq!(check.result, Outcome::Problem);
        assert!(check.findings[0].what.contains("nobody goes on with 1 Job"));
    }
}
