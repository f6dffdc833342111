//! What the rules of a pod failure policy say of a pod that has failed.

use serde_json::Value;

use crate::object::{at, list, number, text};

/// The action of the first rule that matches the pod; `None`: no rule says anything. Rules about exit codes
/// are asked with `exit_codes` only.
pub(crate) fn action<'v>(spec: &'v Value, pod: &Value, exit_codes: bool) -> Option<&'v str> {
    let rules = list(spec, &["podFailurePolicy", "rules"]).iter();
    let mut matching = rules.filter(|rule| match at(rule, &["onExitCodes"]) {
        Some(wanted) => exit_codes && exits(pod).any(|(name, code)| is_listed(wanted, name, code)),
        None => list(rule, &["onPodConditions"])
            .iter()
            .any(|wanted| has_condition(pod, wanted)),
    });
    matching.next().map(|rule| text(rule, &["action"]))
}

/// Containers that have ended, and their exit codes.
fn exits(pod: &Value) -> impl Iterator<Item = (&str, i64)> {
    let statuses = ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .flat_map(|field| list(pod, &["status", field]));
    statuses.filter_map(|status| {
        let ended = at(status, &["state", "terminated"])?;
        Some((text(status, &["name"]), number(ended, &["exitCode"])))
    })
}

fn is_listed(wanted: &Value, name: &str, code: i64) -> bool {
    let only = text(wanted, &["containerName"]);
    let concerned = (only.is_empty() || only == name) && code != 0;
    let listed = list(wanted, &["values"]).iter().any(|value| *value == code);
    concerned
        && match text(wanted, &["operator"]) {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
}

fn has_condition(pod: &Value, wanted: &Value) -> bool {
    let status = match text(wanted, &["status"]) {
        "" => "True",
        status => status,
    };
    let mut conditions = list(pod, &["status", "conditions"]).iter();
    conditions.any(|found| found["type"] == wanted["type"] && found["status"] == status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let spec = json!({"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [5], "containerName": "c"}},
        ]}});
        let pod = |code: i64, conditions: Value| {
            json!({"status": {"conditions": conditions, "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code}}}]}})
        };
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        for (code, conditions, wanted) in [
            (3, disrupted, Some("Ignore")),
            (3, json!([]), Some("FailJob")),
            (4, json!([]), Some("Count")),
            (5, json!([]), None),
            (0, json!([]), None),
        ] {
            assert_eq!(
                action(&spec, &pod(code, conditions), true),
                wanted,
                "{code}"
            );
        }
        assert_eq!(action(&spec, &pod(3, json!([])), false), None);
    }
}
