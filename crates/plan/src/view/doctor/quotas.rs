//! ResourceQuotas that leave no room for a pod of ours.

use serde_json::Value;

use super::subject::Subject;
use super::{Check, Finding, Severity, count};
use crate::eligibility::amount;
use crate::quantity::{Milli, parse};
use crate::view::read::{entries, list, text};

/// The name of the check.
pub const CHECK: &str = "quotas";

/// Whether one more pod of each object fits. Quotas with scopes, which are for some pods only, are not looked at.
pub fn check(quotas: &[Value], subjects: &[Subject]) -> Check {
    let mut findings = Vec::new();
    let mut seen = 0;
    for quota in quotas {
        let namespace = text(&quota["metadata"]["namespace"]);
        let of_namespace = subjects.iter().filter(|one| one.namespace == namespace);
        let of_namespace: Vec<&Subject> = of_namespace.collect();
        if of_namespace.is_empty() || is_scoped(quota) {
            continue;
        }
        seen += 1;
        findings.extend(of_namespace.iter().filter_map(|one| no_room(quota, one)));
    }
    let found = format!("{} in namespaces of ours", count(seen, "ResourceQuota"));
    Check::made(CHECK, found, findings)
}

fn is_scoped(quota: &Value) -> bool {
    let spec = &quota["spec"];
    list(&spec["scopes"]).next().is_some() || spec["scopeSelector"].is_object()
}

/// What one pod of it takes, as a quota counts.
fn takes(subject: &Subject, key: &str) -> Option<Milli> {
    let of = |resource: &str| {
        let requests = &subject.placement.requests;
        let found = requests.iter().find(|(name, _)| name == resource);
        found.map(|(_, wanted)| *wanted)
    };
    match key {
        "pods" | "count/pods" => Some(1000),
        "cpu" | "memory" | "ephemeral-storage" => of(key),
        key => of(key.strip_prefix("requests.")?),
    }
}

fn no_room(quota: &Value, subject: &Subject) -> Option<Finding> {
    let meta = &quota["metadata"];
    let place = format!(
        "ResourceQuota {}/{}",
        text(&meta["namespace"]),
        text(&meta["name"])
    );
    let hard = entries(&quota["status"]["hard"]);
    for (key, hard) in hard {
        let hard = parse(text(hard))?;
        let used = parse(text(&quota["status"]["used"][key])).unwrap_or(0);
        let Some(wanted) = takes(subject, key) else {
            continue;
        };
        if used + wanted <= hard {
            continue;
        }
        let (severity, consequence) = if subject.wants > 0 {
            (
                Severity::Problem,
                format!("{} has to create one, and cannot", subject.place),
            )
        } else {
            (
                Severity::Warning,
                format!("{} could create none, should one go", subject.place),
            )
        };
        let what = format!(
            "of {key} {} are used of {}, and a pod takes {}: {consequence}",
            amount(used),
            amount(hard),
            amount(wanted)
        );
        let write = format!(
            "kubectl patch resourcequota {} -n {} --type=merge -p '{{\"spec\": {{\"hard\": {{\"{key}\": \"…\"}}}}}}'",
            text(&meta["name"]),
            text(&meta["namespace"])
        );
        let finding = Finding::new(CHECK, severity, place, what);
        return Some(finding.or("give it more, or delete what is not needed", write));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    fn job(desired: i32) -> Subject {
        Subject::job(&json!({
            "metadata": {"namespace": "ops", "name": "fix", "generation": 1},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]}}},
            "status": {"desired": desired, "succeeded": 2, "conditions": [
                {"type": "Reconciling", "status": "True", "reason": "Running", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    fn quota(hard: &Value, used: &Value) -> Value {
        json!({"metadata": {"namespace": "ops", "name": "few"}, "status": {"hard": hard, "used": used}})
    }

    #[test]
    fn a_quota_without_room_for_a_pod_that_is_to_come_is_a_problem() {
        for (hard, used, result) in [
            (json!({"pods": "3"}), json!({"pods": "2"}), Outcome::Ok),
            (json!({"pods": "3"}), json!({"pods": "3"}), Outcome::Problem),
            (
                json!({"count/pods": "3"}),
                json!({"count/pods": "3"}),
                Outcome::Problem,
            ),
            (
                json!({"requests.cpu": "1"}),
                json!({"requests.cpu": "600m"}),
                Outcome::Problem,
            ),
            (
                json!({"requests.cpu": "1"}),
                json!({"requests.cpu": "500m"}),
                Outcome::Ok,
            ),
            (
                json!({"limits.cpu": "0", "secrets": "0"}),
                json!({}),
                Outcome::Ok,
            ),
        ] {
            let check = check(&[quota(&hard, &used)], &[job(3)]);
            assert_eq!(check.result, result, "{hard} {check:?}");
        }
    }

    #[test]
    fn where_no_pod_is_to_come_it_is_a_warning_and_elsewhere_nothing() {
        let full = quota(&json!({"pods": "2"}), &json!({"pods": "2"}));
        assert_eq!(
            check(std::slice::from_ref(&full), &[job(2)]).result,
            Outcome::Warning
        );
        let mut elsewhere = full.clone();
        elsewhere["metadata"]["namespace"] = json!("other");
        let mut scoped = full;
        scoped["spec"] = json!({"scopes": ["BestEffort"]});
        let check = check(&[elsewhere, scoped], &[job(3)]);
        assert_eq!(
            (check.result, &*check.found),
            (Outcome::Ok, "0 ResourceQuotas in namespaces of ours")
        );
    }
}
