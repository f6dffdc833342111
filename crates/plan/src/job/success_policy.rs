//! The rules of a Job's success policy: when it has succeeded before all its indexes have
//! (upstream: `success_policy.go`).

use k8s_openapi::api::batch::v1::SuccessPolicyRule;

use super::indexes::Indexes;

/// Message of the condition, if a rule is met; the first one decides. A rule with indexes is met when
/// all of them that are below `completions` have succeeded, or `succeededCount` of them; it is passed
/// over when none is left or none can be read. A rule without indexes counts all that have succeeded.
/// Nothing is met while nothing has succeeded.
pub fn matching(
    rules: &[SuccessPolicyRule],
    completions: u32,
    succeeded: &Indexes,
) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let met = |rule: &SuccessPolicyRule| is_met(rule, completions, succeeded);
    let at = rules.iter().position(met)?;
    Some(format!("Matched rules at index {at}"))
}

fn is_met(rule: &SuccessPolicyRule, completions: u32, succeeded: &Indexes) -> bool {
    let suffices = |many: u32| {
        let count = rule.succeeded_count;
        count.is_some_and(|count| i64::from(many) >= i64::from(count))
    };
    let Some(text) = &rule.succeeded_indexes else {
        return suffices(succeeded.len());
    };
    let required = Indexes::read(text, completions);
    let many = succeeded.intersection_len(&required);
    !required.is_empty() && (many == required.len() || suffices(many))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule<'a> = (Option<&'a str>, Option<i32>);

    fn met(rules: &[Rule<'_>], succeeded: &str) -> Option<String> {
        let rules: Vec<_> = rules
            .iter()
            .map(|(indexes, count)| SuccessPolicyRule {
                succeeded_count: *count,
                succeeded_indexes: indexes.map(str::to_owned),
            })
            .collect();
        matching(&rules, 10, &Indexes::read(succeeded, 10))
    }

    #[test]
    fn all_indexes_of_a_rule_or_as_many_of_them_as_it_says_suffice() {
        let cases = [
            ("all there", "0-2,4-7", (Some("0-2"), None), true),
            ("not there", "0-2", (Some("3"), None), false),
            (
                "within what succeeded",
                "1-9",
                (Some("2-4,6-8"), None),
                true,
            ),
            (
                "just what succeeded",
                "2-4,6-9",
                (Some("2-4,6-9"), None),
                true,
            ),
            ("enough of them", "0-2,4-7", (Some("3-6"), Some(2)), true),
            ("too few of them", "0-2,6,7", (Some("3-6"), Some(2)), false),
            (
                "all, though fewer than the count",
                "0-2",
                (Some("0,1"), Some(5)),
                true,
            ),
        ];
        for (what, succeeded, rule, expected) in cases {
            assert_eq!(met(&[rule], succeeded).is_some(), expected, "{what}");
        }
    }

    #[test]
    fn intervals_that_overlap_in_part_count_by_what_they_share() {
        let cases = [
            ("2-4,6-8", "1-3,5-7", 4),
            ("1-3,5-7", "2-4,6-9", 4),
            ("1-3,7,8", "0-4,6-9", 5),
            ("1-3,5-9", "0-6,8,9", 7),
            ("1-5,7-9", "0-5,7-9", 8),
            ("1-9", "0-3,6-9", 7),
        ];
        for (succeeded, indexes, shared) in cases {
            let with = |count| met(&[(Some(indexes), count)], succeeded).is_some();
            assert!(!with(None), "{indexes} of {succeeded}");
            assert!(with(Some(shared)), "{indexes} of {succeeded}");
            assert!(!with(Some(shared + 1)), "{indexes} of {succeeded}");
        }
    }

    #[test]
    fn a_rule_without_indexes_counts_all_that_succeeded() {
        for (count, expected) in [(2, true), (3, true), (4, false)] {
            assert_eq!(
                met(&[(None, Some(count))], "0-2").is_some(),
                expected,
                "{count}"
            );
        }
        assert_eq!(met(&[(None, None)], "0-2"), None);
    }

    #[test]
    fn a_rule_whose_indexes_cannot_be_read_or_are_beyond_the_completions_is_passed_over() {
        for indexes in ["invalid-form", "", "10-12,14-16"] {
            let rule = (Some(indexes), Some(1));
            assert_eq!(met(&[rule], "0-9"), None, "{indexes:?}");
            let message = met(&[rule, (Some("3"), None)], "0-9");
            assert_eq!(message.as_deref(), Some("Matched rules at index 1"));
        }
        assert!(
            met(&[(Some("8-12"), None)], "8,9").is_some(),
            "cut to the completions"
        );
    }

    #[test]
    fn the_first_rule_that_is_met_is_named() {
        let first = met(&[(Some("0,1"), None), (Some("5"), None)], "0-2,4-7");
        assert_eq!(first.as_deref(), Some("Matched rules at index 0"));
        let second = met(&[(Some("9"), None), (Some("4,6"), None)], "0-2,4-7");
        assert_eq!(second.as_deref(), Some("Matched rules at index 1"));
        assert_eq!(met(&[], "0-9"), None);
    }

    #[test]
    fn nothing_is_met_while_nothing_has_succeeded() {
        let rules = [(None, Some(0)), (Some(""), None), (Some("1"), Some(0))];
        assert_eq!(met(&rules, ""), None);
        assert!(
            met(&[(Some("1"), Some(0))], "5").is_some(),
            "zero of them do"
        );
    }
}
