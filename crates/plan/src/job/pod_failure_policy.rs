//! The rules of a Job's pod failure policy: what the failure of a pod means, by exit code or
//! condition (upstream: `pod_failure_policy.go`).

use k8s_openapi::api::batch::v1::{
    PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};

use super::pod::JobPod;
use super::spec::Spec;
use crate::pod::Failure;

/// What a rule does with a failure it matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FailureAction {
    /// The Job fails.
    FailJob,
    /// The index of the pod fails, whatever failures it has left. Without `backoffLimitPerIndex`
    /// there is nothing to fail, and the failure counts as any other.
    FailIndex,
    /// The failure does not count.
    Ignore,
    /// The failure counts, as it would without a rule.
    Count,
}

/// A rule that decides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Match {
    /// What the rule does.
    pub action: FailureAction,
    /// Message of the condition, of `FailJob` only.
    pub message: Option<String>,
}

/// What a rule saw.
enum Seen<'a> {
    Exit(&'a str, i32),
    Condition(&'a str),
}

/// The first rule that matches. A rule with an action of a later Kubernetes is passed over; an
/// operator of one never matches.
pub fn first_match(
    rules: &[PodFailurePolicyRule],
    namespace: &str,
    pod: &str,
    failure: &Failure,
) -> Option<Match> {
    let (at, action, seen) = decide(rules, failure)?;
    let message = (action == FailureAction::FailJob).then(|| match seen {
        Seen::Exit(container, code) => format!(
            "Container {container} for pod {namespace}/{pod} failed with exit code {code} \
             matching FailJob rule at index {at}"
        ),
        Seen::Condition(type_) => format!(
            "Pod {namespace}/{pod} has condition {type_} matching FailJob rule at index {at}"
        ),
    });
    Some(Match { action, message })
}

/// What the Job's policy does with the failure of a pod; `None`: no rule says anything of it.
pub fn action(spec: &Spec, pod: &JobPod) -> Option<FailureAction> {
    let rules = spec.failure_rules.as_deref()?;
    let (_, action, _) = decide(rules, pod.failure.as_deref()?)?;
    Some(action)
}

/// Whether the failure of a pod counts: unless the Job's policy ignores it.
pub fn is_counted(spec: &Spec, pod: &JobPod) -> bool {
    action(spec, pod) != Some(FailureAction::Ignore)
}

fn decide<'a>(
    rules: &[PodFailurePolicyRule],
    failure: &'a Failure,
) -> Option<(usize, FailureAction, Seen<'a>)> {
    rules.iter().enumerate().find_map(|(at, rule)| {
        let action = read_action(&rule.action)?;
        let seen = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(wanted), _) => exit(wanted, failure)?,
            (None, Some(wanted)) => condition(wanted, failure)?,
            (None, None) => return None,
        };
        Some((at, action, seen))
    })
}

fn read_action(text: &str) -> Option<FailureAction> {
    Some(match text {
        "FailJob" => FailureAction::FailJob,
        "FailIndex" => FailureAction::FailIndex,
        "Ignore" => FailureAction::Ignore,
        "Count" => FailureAction::Count,
        _ => return None,
    })
}

fn exit<'a>(
    wanted: &PodFailurePolicyOnExitCodesRequirement,
    failure: &'a Failure,
) -> Option<Seen<'a>> {
    let listed = match &*wanted.operator {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let only = wanted.container_name.as_deref();
    let mut exits = failure.exits.iter();
    let (name, code) = exits.find(|(name, code)| {
        let concerns = only.is_none_or(|only| only == &**name);
        concerns && *code != 0 && wanted.values.contains(code) == listed
    })?;
    Some(Seen::Exit(name, *code))
}

fn condition<'a>(
    wanted: &[PodFailurePolicyOnPodConditionsPattern],
    failure: &'a Failure,
) -> Option<Seen<'a>> {
    let mut conditions = failure.conditions.iter();
    let (type_, _) = conditions.find(|(type_, status)| {
        let mut patterns = wanted.iter();
        patterns.any(|pattern| {
            let wanted_status = pattern.status.as_deref().unwrap_or("True");
            pattern.type_ == **type_ && wanted_status == &**status
        })
    })?;
    Some(Seen::Condition(type_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    use serde_json::{Value, json};

    fn failure(exits: &[(&str, i32)], conditions: &[(&str, &str)]) -> Failure {
        Failure {
            exits: exits.iter().map(|(n, c)| ((*n).into(), *c)).collect(),
            conditions: conditions
                .iter()
                .map(|(t, s)| ((*t).into(), (*s).into()))
                .collect(),
        }
    }

    fn on_exit(action: &str, operator: &str, values: &[i32]) -> Value {
        json!({"action": action, "onExitCodes": {"operator": operator, "values": values}})
    }

    fn on_condition(action: &str, status: &str) -> Value {
        let pattern = json!({"type": "DisruptionTarget", "status": status});
        json!({"action": action, "onPodConditions": [pattern]})
    }

    fn found(rules: &[Value], failure: &Failure) -> Option<Match> {
        let rules: Vec<PodFailurePolicyRule> = rules
            .iter()
            .cloned()
            .map(|rule| serde_json::from_value(rule).unwrap())
            .collect();
        first_match(&rules, "default", "mypod", failure)
    }

    fn action_of(rules: &[Value], failure: &Failure) -> Option<FailureAction> {
        found(rules, failure).map(|found| found.action)
    }

    #[test]
    fn a_rule_decides_by_exit_code() {
        let main = |code| failure(&[("main", code)], &[]);
        let cases = [
            (
                on_exit("Ignore", "In", &[1, 2]),
                main(2),
                Some(FailureAction::Ignore),
            ),
            (
                on_exit("FailJob", "In", &[1, 2]),
                main(2),
                Some(FailureAction::FailJob),
            ),
            (
                on_exit("FailIndex", "In", &[2]),
                main(2),
                Some(FailureAction::FailIndex),
            ),
            (
                on_exit("Count", "In", &[2]),
                main(2),
                Some(FailureAction::Count),
            ),
            (on_exit("Count", "In", &[2]), main(3), None),
            (
                on_exit("Count", "NotIn", &[2]),
                main(3),
                Some(FailureAction::Count),
            ),
            (on_exit("Count", "NotIn", &[2]), main(2), None),
            (on_exit("Count", "NotIn", &[2]), failure(&[], &[]), None),
        ];
        for (rule, failure, expected) in cases {
            let found = action_of(from_ref(&rule), &failure);
            assert_eq!(found, expected, "{rule} {failure:?}");
        }
    }

    #[test]
    fn an_unknown_action_passes_on_to_the_next_rule() {
        let exit = failure(&[("main", 2)], &[]);
        let rules = [
            on_exit("Later", "In", &[1, 2]),
            on_exit("FailIndex", "In", &[2, 3]),
        ];
        assert_eq!(action_of(&rules, &exit), Some(FailureAction::FailIndex));
        assert_eq!(action_of(&rules[..1], &exit), None);
        let condition = failure(&[], &[("DisruptionTarget", "True")]);
        let rules = [
            on_condition("Later", "True"),
            on_condition("Ignore", "True"),
        ];
        assert_eq!(action_of(&rules, &condition), Some(FailureAction::Ignore));
    }

    #[test]
    fn an_unknown_operator_never_matches() {
        let exit = failure(&[("main", 2)], &[]);
        let rules = [
            on_exit("FailJob", "Near", &[2]),
            on_exit("Ignore", "In", &[2]),
        ];
        assert_eq!(action_of(&rules, &exit), Some(FailureAction::Ignore));
        assert_eq!(action_of(&rules[..1], &exit), None);
    }

    #[test]
    fn negative_exit_codes_match_as_windows_has_them() {
        let exit = failure(&[("main", -1_073_741_510)], &[]);
        let rule = on_exit("Ignore", "In", &[-1_073_741_676, -1_073_741_510]);
        assert_eq!(action_of(&[rule], &exit), Some(FailureAction::Ignore));
    }

    #[test]
    fn exit_code_zero_matches_nothing() {
        let succeeded = failure(&[("main", 111), ("support", 0), ("init", 0)], &[]);
        assert_eq!(
            action_of(&[on_exit("FailJob", "NotIn", &[111])], &succeeded),
            None
        );
        assert_eq!(
            action_of(&[on_exit("FailJob", "In", &[0])], &succeeded),
            None
        );
        let found = found(&[on_exit("FailJob", "NotIn", &[0])], &succeeded).unwrap();
        assert!(found.message.unwrap().starts_with("Container main for"));
    }

    #[test]
    fn containers_are_looked_at_in_order_or_only_the_named_one() {
        let exits = failure(&[("main", 1), ("side", 5), ("init", 5)], &[]);
        let message = |name: Option<&str>| {
            let mut rule = on_exit("FailJob", "In", &[5]);
            rule["onExitCodes"]["containerName"] = json!(name);
            found(&[rule], &exits).map(|found| found.message.unwrap())
        };
        let starts = |name, start| message(name).unwrap().starts_with(start);
        assert!(starts(None, "Container side for pod"));
        assert!(starts(Some("init"), "Container init for pod"));
        assert_eq!(message(Some("main")), None);
    }

    #[test]
    fn a_condition_matches_by_type_and_status() {
        let cases = [
            ("True", "True", true),
            ("False", "False", true),
            ("Unknown", "Unknown", true),
            ("False", "True", false),
            ("True", "False", false),
        ];
        for (wanted, status, matches) in cases {
            let failure = failure(&[], &[("Other", wanted), ("DisruptionTarget", status)]);
            let found = action_of(&[on_condition("Ignore", wanted)], &failure);
            assert_eq!(found.is_some(), matches, "{wanted} and {status}");
        }
    }

    #[test]
    fn a_pattern_without_status_means_true() {
        let mut rule = on_condition("Ignore", "");
        rule["onPodConditions"][0] = json!({"type": "DisruptionTarget"});
        for (status, expected) in [("True", Some(FailureAction::Ignore)), ("False", None)] {
            let failure = failure(&[], &[("DisruptionTarget", status)]);
            assert_eq!(action_of(from_ref(&rule), &failure), expected);
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let both = failure(&[("main", 2)], &[("DisruptionTarget", "True")]);
        let exit = on_exit("FailJob", "In", &[2]);
        let condition = on_condition("Ignore", "True");
        let rules = [exit.clone(), condition.clone()];
        assert_eq!(action_of(&rules, &both), Some(FailureAction::FailJob));
        assert_eq!(
            action_of(&[condition, exit], &both),
            Some(FailureAction::Ignore)
        );
    }

    #[test]
    fn only_a_failed_job_says_why() {
        let both = failure(&[("main", 2)], &[("DisruptionTarget", "True")]);
        let none = on_exit("Ignore", "In", &[9]);
        let message = |rule| found(&[none.clone(), rule], &both).unwrap().message;
        assert_eq!(
            message(on_exit("FailJob", "In", &[2])).unwrap(),
            "Container main for pod default/mypod failed with exit code 2 \
             matching FailJob rule at index 1"
        );
        assert_eq!(
            message(on_condition("FailJob", "True")).unwrap(),
            "Pod default/mypod has condition DisruptionTarget matching FailJob rule at index 1"
        );
        for action in ["Ignore", "Count", "FailIndex"] {
            assert_eq!(message(on_exit(action, "In", &[2])), None);
        }
    }

    #[test]
    fn a_failure_counts_unless_it_is_ignored() {
        let template = json!({});
        let cases = [
            ("Ignore", 2, false),
            ("Ignore", 3, true),
            ("Count", 2, true),
        ];
        for (action, code, counted) in cases {
            let rules = json!({"rules": [on_exit(action, "In", &[2])]});
            let spec = Spec::read(&json!({"podFailurePolicy": rules, "template": template}));
            let failure = Some(failure(&[("main", code)], &[]).into());
            let pod = JobPod {
                failure,
                ..JobPod::default()
            };
            assert_eq!(is_counted(&spec, &pod), counted, "{action} {code}");
            assert!(is_counted(&Spec::default(), &pod) && is_counted(&spec, &JobPod::default()));
        }
    }
}
