//! Whether the API server would create a pod of each open object: policies, quotas and webhooks have a say.

use serde_json::Value;

use super::subject::Subject;
use super::{Check, Finding, Severity, count};
use crate::daemon_set::action::NewPod;
use crate::name;
use crate::pod_body::PodPlacement;
use crate::view::daemon_set::read as sets;
use crate::view::read;

/// The name of the check.
pub const CHECK: &str = "pods";
/// Objects of which a pod is asked about, at most.
pub const MOST: usize = 50;
/// No attempt has this number: the name is nobody's.
const NO_ATTEMPT: u32 = u32::MAX;

/// A pod as it would be created of an object, on this node.
pub fn body(subject: &Subject, object: &Value, node: &str) -> Value {
    if !subject.is_set {
        let job = read::job(object).job;
        let owner = &job.meta.owner;
        let pod = name::pod(&owner.name, owner.uid, node, NO_ATTEMPT);
        let template = job.template.value();
        let placement = PodPlacement::Scheduler;
        return crate::pod_body::pod_body(&template, owner, &pod, node, placement);
    }
    let set = sets::set(object).set;
    let owner = &set.meta.owner;
    let pod = NewPod {
        name: name::daemon_pod(&owner.name, owner.uid, node, NO_ATTEMPT),
        node: node.to_owned(),
        hash: "none".to_owned(),
    };
    let template = object["spec"]["template"].clone();
    let mut pod = crate::daemon_set::pod_body::pod_body(&set, &template, &pod);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

/// Says of which no pod would be created, in the API server's words. `asked`: of how many it was asked.
pub fn check(asked: usize, refused: &[(&Subject, String)]) -> Check {
    let findings = refused.iter().map(|(subject, words)| {
        let severity = if subject.wants > 0 {
            Severity::Problem
        } else {
            Severity::Warning
        };
        let what = format!("the API server would not create a pod of it now: {words}");
        let finding = Finding::new(CHECK, severity, &*subject.place, what);
        let template = if subject.is_set {
            "change what refuses it, or spec.template"
        } else {
            "change what refuses it, or create the job anew with another spec.template"
        };
        finding.or(template, "")
    });
    let found = format!("asked about a pod of {}", count(asked, "object"));
    Check::made(CHECK, found, findings.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    fn object(api: &str, kind: &str) -> Value {
        json!({
            "apiVersion": api, "kind": kind,
            "metadata": {"namespace": "ops", "name": "x", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000003"},
            "spec": {"template": {"metadata": {"labels": {"app": "x"}},
                                  "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        })
    }

    #[test]
    fn a_pod_is_asked_about_as_the_operator_would_create_it() {
        let job = object("carillon.dev/v1alpha1", "BroadcastJob");
        let set = object("carillon.dev/v1alpha1", "DaemonSet");
        for (subject, object) in [(Subject::job(&job), &job), (Subject::set(&set), &set)] {
            let pod = body(&subject.unwrap(), object, "n1");
            assert_eq!(
                (&pod["kind"], &pod["apiVersion"]),
                (&json!("Pod"), &json!("v1"))
            );
            assert_eq!(pod["metadata"]["namespace"], "ops");
            assert_eq!(pod["metadata"]["labels"]["app"], "x");
            assert_eq!(
                pod["metadata"]["ownerReferences"][0]["kind"],
                object["kind"]
            );
        }
    }

    #[test]
    fn a_refusal_is_a_problem_where_a_pod_is_to_come() {
        let mut subject = Subject::job(&object("carillon.dev/v1alpha1", "BroadcastJob")).unwrap();
        assert_eq!(check(1, &[]).result, Outcome::Ok);
        for (wants, result) in [(1, Outcome::Problem), (0, Outcome::Warning)] {
            subject.wants = wants;
            let check = check(1, &[(&subject, "violates PodSecurity".to_owned())]);
            assert_eq!(check.result, result);
            assert!(check.findings[0].what.ends_with("violates PodSecurity"));
        }
    }
}
