//! The word by which a pod of a DaemonSet is told that it goes.

use serde_json::Value;

use crate::history::Step;
use crate::object::{is_deleting, text};

const STATE: [&str; 3] = ["metadata", "labels", "lifecycle.apps.kruise.io/state"];
/// Since when.
const SINCE: [&str; 3] = [
    "metadata",
    "annotations",
    "lifecycle.apps.kruise.io/timestamp",
];

/// Whether a pod carries the word that it goes.
pub(crate) fn has_word(pod: &Value) -> bool {
    text(pod, &STATE) == "PreparingDelete"
}

/// Whether a pod was told that it goes, as its DaemonSet has it.
pub(crate) fn is_told(set: &Value, pod: &Value) -> bool {
    !set["spec"]["lifecycle"]["preDelete"].is_null()
        && set["apiVersion"] != "apps/v1"
        && has_word(pod)
}

/// Whether a step tells a pod that it goes.
pub(crate) fn tells(step: &Step) -> bool {
    let (Some(old), Some(new)) = (step.old.as_deref(), step.new.as_deref()) else {
        return false;
    };
    has_word(new) && !has_word(old) && !is_deleting(new)
}

/// Whether a step tells it to a pod that knows.
pub(crate) fn tells_again(step: &Step) -> bool {
    let (Some(old), Some(new)) = (step.old.as_deref(), step.new.as_deref()) else {
        return false;
    };
    has_word(old) && has_word(new) && text(old, &SINCE) != text(new, &SINCE)
}

/// What of a pod is written to tell it.
pub(crate) const WRITTEN: [&[&str]; 2] = [&STATE, &SINCE];
