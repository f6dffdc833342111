//! Counts and durations of a spec, which must not be negative.

use serde_json::Value;

use crate::status::Cause;

/// Counts and durations, at `path`.
pub(super) fn at_least_nothing(spec: &Value, path: &str, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        if spec[*field].as_i64().is_some_and(|value| value < 0) {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid(
                format!("{path}.{field}"),
                &spec[*field],
                why,
            ));
        }
    }
}
