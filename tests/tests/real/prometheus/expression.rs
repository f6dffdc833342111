//! What PromQL expressions name.

use std::collections::BTreeSet;

/// Removes every `{…}`, `[…]` and string of a PromQL expression.
fn without_selectors(expression: &str) -> String {
    let mut depth = 0;
    let mut quoted = false;
    let mut left = String::new();
    for c in expression.chars() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ if depth == 0 => left.push(c),
            _ => {}
        }
    }
    left
}

/// The metrics that a PromQL expression names.
pub(super) fn metrics_of(expression: &str) -> BTreeSet<String> {
    let text = without_selectors(expression);
    let mut metrics = BTreeSet::new();
    let mut rest = text.as_str();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let from = &rest[start..];
        let name = &from[..from.find(|c| !word(c)).unwrap_or(from.len())];
        rest = &from[name.len()..];
        if [
            "by",
            "on",
            "without",
            "ignoring",
            "group_left",
            "group_right",
        ]
        .contains(&name)
        {
            // Labels follow.
            rest = rest.split_once(')').map_or("", |(_, after)| after);
        } else if !["and", "or", "unless", "bool", "offset"].contains(&name)
            && !rest.trim_start().starts_with('(')
        {
            // A name that is followed by a parenthesis is a function or an aggregation, unless a
            // grouping stands between: `sum by (le) (…)`.
            let grouping = ["by", "without"]
                .iter()
                .any(|g| rest.trim_start().starts_with(g));
            if !grouping {
                metrics.insert(name.to_owned());
            }
        }
    }
    metrics
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    let expression = r#"histogram_quantile(0.99, sum by (le) (rate(a_bucket{x="b_c"}[5m])))
        unless on (job, instance) max without (d) (e:f == 1) or absent(g) and h"#;
    let expected = ["a_bucket", "e:f", "g", "h"].map(str::to_owned);
    assert_eq!(metrics_of(expression), expected.into());
}

/// The selectors of an expression that hold for certain: with `=` only.
pub(super) fn plain_selectors(expression: &str) -> Vec<String> {
    let mut selectors = Vec::new();
    for (brace, _) in expression.match_indices('{') {
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let start = expression[..brace].rfind(word).map_or(0, |at| at + 1);
        let end = expression[brace..]
            .find('}')
            .map_or(expression.len(), |at| brace + at + 1);
        let selector = &expression[start..end];
        if !selector.contains('~') && !selector.contains("!=") {
            selectors.push(selector.to_owned());
        }
    }
    selectors
}
