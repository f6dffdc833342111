//! What people ask about native Jobs.

use serde_json::Value;

use super::squares::{Class, Look, Square};
use crate::job::indexes::Indexes;

/// Indexes that a grid shows at most.
pub const MOST_INDEXES: u32 = 20_000;

/// One square for each index of an Indexed Job, `active` being those that have a pod. `None`: it has no
/// indexes, or more than [`MOST_INDEXES`].
pub fn index_squares(object: &Value, active: impl Fn(u32) -> bool) -> Option<Vec<Square>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    if spec["completionMode"] != "Indexed" {
        return None;
    }
    let completions = u32::try_from(spec["completions"].as_u64()?).ok()?;
    if completions > MOST_INDEXES {
        return None;
    }
    let read = |field: &str| Indexes::read(status[field].as_str().unwrap_or_default(), completions);
    let (completed, failed) = (read("completedIndexes"), read("failedIndexes"));
    let ended = headline(object).1;
    let squares = (0..completions).map(|index| {
        let (class, place) = if completed.contains(index) {
            (Class::Done, "Succeeded")
        } else if failed.contains(index) {
            (Class::Failed, "Failed")
        } else if active(index) {
            (Class::Active, "Running")
        } else if ended {
            (Class::LeftOut, "Unfinished")
        } else {
            (Class::Waiting, "Waiting")
        };
        Square {
            node: index.to_string(),
            look: Look {
                class,
                place: place.to_owned(),
                reason: String::new(),
                words: String::new(),
            },
        }
    });
    Some(squares.collect())
}

/// Where it stands in words, and whether it has ended.
pub fn headline(object: &Value) -> (String, bool) {
    let conditions = object["status"]["conditions"].as_array();
    let is_true = |type_: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|one| one["type"] == type_ && one["status"] == "True")
    };
    let words = |type_: &str, condition: &Value| {
        let of = |field: &str| condition[field].as_str().filter(|text| !text.is_empty());
        let parts: Vec<&str> = [of("reason"), of("message")]
            .into_iter()
            .flatten()
            .collect();
        if parts.is_empty() {
            type_.to_owned()
        } else {
            format!("{type_}: {}", parts.join(" "))
        }
    };
    if is_true("Complete").is_some() {
        return ("Complete".to_owned(), true);
    }
    if let Some(condition) = is_true("Failed") {
        return (words("Failed", condition), true);
    }
    for type_ in ["FailureTarget", "Suspended"] {
        if let Some(condition) = is_true(type_) {
            return (words(type_, condition), false);
        }
    }
    let seen = object["status"]["startTime"].is_string();
    let told = if seen { "Running" } else { "NotStarted" };
    (told.to_owned(), false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_index_of_a_job_has_one_square() {
        let job = json!({
            "spec": {"completionMode": "Indexed", "completions": 5},
            "status": {"completedIndexes": "0-1", "failedIndexes": "3"},
        });
        let squares = index_squares(&job, |index| index == 2).unwrap();
        let told: Vec<&str> = squares.iter().map(|square| &*square.look.place).collect();
        assert_eq!(
            told,
            ["Succeeded", "Succeeded", "Running", "Failed", "Waiting"]
        );
        assert!(index_squares(&json!({"spec": {"completions": 5}}), |_| false).is_none());
        let huge = json!({"spec": {"completionMode": "Indexed", "completions": 2_000_000_000}});
        assert!(index_squares(&huge, |_| false).is_none());
    }

    #[test]
    fn a_job_says_why_it_has_failed_or_stands_still() {
        let with = |type_: &str, reason: &str, message: &str| {
            let condition =
                json!({"type": type_, "status": "True", "reason": reason, "message": message});
            headline(
                &json!({"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}}),
            )
        };
        assert_eq!(
            with("Complete", "CompletionsReached", "all"),
            ("Complete".to_owned(), true)
        );
        let failed = "Failed: BackoffLimitExceeded too often".to_owned();
        assert_eq!(
            with("Failed", "BackoffLimitExceeded", "too often"),
            (failed, true)
        );
        assert_eq!(with("Suspended", "", ""), ("Suspended".to_owned(), false));
        assert_eq!(headline(&json!({})), ("NotStarted".to_owned(), false));
    }
}
