//! What the conditions of a job have to say to tools that know no word but kstatus'.

use serde_json::Value;

use crate::object::{number, reason};

/// A job that needs a person has to say so, or kstatus calls it ready. `why`: the reason that it has to tell; any if
/// empty.
pub(super) fn not_stalled(job: &Value, why: &str) -> Option<String> {
    let told = reason(job, "Stalled");
    let says = told.is_some_and(|told| why.is_empty() || told == why);
    (!says).then(|| format!("it needs a person, because of {why:?}, and Stalled says {told:?}"))
}

/// A job that is Complete, and names another outcome than its count of failed nodes.
pub(super) fn other_outcome(job: &Value) -> Option<String> {
    let failed = number(job, &["status", "failed"]);
    let told = reason(job, "Complete");
    let as_counted = match told {
        Some("AllNodesSucceeded") => failed == 0,
        Some("CompletedWithFailures") => failed > 0,
        _ => true,
    };
    (!as_counted).then(|| format!("it is Complete because of {told:?}, and {failed} nodes failed"))
}
