//! The rules of a pod failure policy: what the failure of a pod means, by exit code or condition.

use std::sync::Arc;

use carillon_api::policy::{
    ExitCodeOperator, OnExitCodes, PodFailurePolicyAction, PodFailurePolicyRule,
};

/// How a failed pod's containers ended, and its conditions.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Failure {
    /// Name and exit code of containers and init containers that have ended; sidecars left out.
    pub exits: Box<[(Arc<str>, i32)]>,
    /// Type and status.
    pub conditions: Box<[(Arc<str>, Arc<str>)]>,
}

/// A rule that decides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Match {
    /// What the rule does.
    pub action: PodFailurePolicyAction,
    /// Place of the rule, action, and what it matched: for people.
    pub why: String,
    /// The exit code it matched.
    pub exit_code: Option<i32>,
}

/// The first rule that matches. Exit codes are only judged of a pod that ended by its own doing:
/// those of a pod that was told to stop are the kill's.
pub fn first_match(
    rules: &[PodFailurePolicyRule],
    failure: &Failure,
    own_doing: bool,
) -> Option<Match> {
    rules.iter().enumerate().find_map(|(at, rule)| {
        let (what, exit_code) = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(wanted), None) if own_doing => {
                let (container, code) = container(wanted, failure)?;
                (
                    format!("container {container} exited with {code}"),
                    Some(code),
                )
            }
            (None, Some(wanted)) => {
                let (type_, status) = failure.conditions.iter().find(|(type_, status)| {
                    wanted
                        .iter()
                        .any(|w| w.type_ == **type_ && w.status.as_str() == &**status)
                })?;
                (format!("pod condition {type_} is {status}"), None)
            }
            _ => return None,
        };
        let action = rule.action;
        let why = format!("podFailurePolicy.rules[{at}] {}: {what}", action.as_str());
        Some(Match {
            action,
            why,
            exit_code,
        })
    })
}

fn container<'a>(wanted: &OnExitCodes, failure: &'a Failure) -> Option<(&'a str, i32)> {
    failure
        .exits
        .iter()
        .filter(|(_, code)| *code != 0)
        .filter(|(name, _)| {
            let only = wanted.container_name.as_deref();
            only.is_none_or(|only| only == &**name)
        })
        .find(|(_, code)| wanted.values.contains(code) == (wanted.operator == ExitCodeOperator::In))
        .map(|(name, code)| (&**name, *code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Vec<PodFailurePolicyRule> {
        serde_json::from_value(json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes":
                {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "FailNode", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        ]))
        .unwrap()
    }

    fn failure(exits: &[(&str, i32)], conditions: &[(&str, &str)]) -> Failure {
        Failure {
            exits: exits.iter().map(|(n, c)| ((*n).into(), *c)).collect(),
            conditions: conditions
                .iter()
                .map(|(t, s)| ((*t).into(), (*s).into()))
                .collect(),
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let cases = [
            (failure(&[("main", 42)], &[]), Some((1, Some(42)))),
            (failure(&[("other", 42)], &[]), Some((2, Some(42)))),
            (failure(&[("main", 1)], &[]), None),
            (
                failure(&[("main", 0), ("other", 7)], &[]),
                Some((2, Some(7))),
            ),
            (
                failure(&[("main", 42)], &[("DisruptionTarget", "True")]),
                Some((0, None)),
            ),
            (
                failure(&[("main", 1)], &[("DisruptionTarget", "False")]),
                None,
            ),
            (failure(&[], &[]), None),
        ];
        for (failure, expected) in cases {
            let found = first_match(&rules(), &failure, true);
            let found = found.map(|found| {
                let place = found.why.split(['[', ']']).nth(1).unwrap().parse().unwrap();
                (place, found.exit_code)
            });
            assert_eq!(found, expected, "{failure:?}");
        }
    }

    #[test]
    fn the_exit_code_of_a_pod_that_was_told_to_stop_matches_no_rule() {
        let killed = failure(&[("main", 143)], &[]);
        assert_eq!(first_match(&rules(), &killed, false), None);
        let evicted = failure(&[("main", 143)], &[("DisruptionTarget", "True")]);
        let found = first_match(&rules(), &evicted, false).unwrap();
        assert_eq!(found.action, PodFailurePolicyAction::Ignore);
    }

    #[test]
    fn a_match_says_rule_container_and_code() {
        let found = first_match(&rules(), &failure(&[("main", 42)], &[]), true).unwrap();
        assert_eq!(
            found.why,
            "podFailurePolicy.rules[1] FailJob: container main exited with 42"
        );
    }
}
