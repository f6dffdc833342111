//! Label selectors, as objects carry them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::node::Labels;

/// The value of a label.
pub fn label<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    let at = labels.binary_search_by(|(known, _)| (**known).cmp(key));
    labels.get(at.ok()?).map(|(_, value)| &**value)
}

/// Whether `selector` selects these labels; the empty one selects everything. One with an operator
/// that is not known selects nothing.
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    selects_by(selector, |key| label(labels, key))
}

/// The same of labels that are found in another way.
pub fn selects_by<'a>(selector: &LabelSelector, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut others = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| label(key) == Some(value))
        && others.all(|requirement| holds(requirement, label(&requirement.key)))
}

fn holds(requirement: &LabelSelectorRequirement, value: Option<&str>) -> bool {
    let among = |value: &str| {
        let mut values = requirement.values.iter().flatten();
        values.any(|one| one == value)
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn labels_are_selected_by_equality_existence_and_set() {
        let labels: Labels = [("a", "1"), ("b", "2")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let cases: [(Value, bool); 15] = [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "1", "b": "2"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"c": "1"}}), false),
            (expression("a", "In", &["0", "1"]), true),
            (expression("a", "In", &["0"]), false),
            (expression("c", "In", &["1"]), false),
            (expression("a", "NotIn", &["1"]), false),
            (expression("c", "NotIn", &["1"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("c", "Exists", &[]), false),
            (expression("c", "DoesNotExist", &[]), true),
            (expression("a", "DoesNotExist", &[]), false),
            (expression("a", "Gt", &["0"]), false),
        ];
        for (selector, expected) in cases {
            let read: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(selects(&read, &labels), expected, "{selector}");
        }
    }
}
