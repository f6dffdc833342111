//! What a test pod does, written in annotations of the pod.
//!
//! | annotation `testbed.carillon.dev/…` | meaning | default |
//! |---|---|---|
//! | `start-delay` | from ContainerCreating to Running | `0s` |
//! | `run-time` | how long the containers run | `1s`; for ever with restartPolicy Always |
//! | `exit-code` | how they end | `0` |
//! | `message` | termination message | none |
//! | `reason` | reason of the container's state | `Completed`, `Error` |
//! | `restarts` | how often they fail and are restarted before success: a number or `forever` | none |
//! | `restart-delay` | time in CrashLoopBackOff | `1s` |
//! | `fate` | `never-starts` or `hang` (runs for ever) | none |
//! | `waiting-reason` | of a pod that never starts: `ImagePullBackOff`, … | `ContainerCreating` |
//! | `waiting-message` | in the kubelet's words | none |
//! | `termination-time` | how long they run on after a deletion, at most the grace period; `never` | `0s` |
//! | `termination-exit-code` | how they end after a deletion | 143; 137 when the grace ran out |
//! | `fates` | a JSON object: node or pod name → the keys above | none |
//!
//! Durations are Go's: `1500ms`, `2s`, `1m30s`. `fates` lets the pods of one job, which share a
//! template, end differently on each node, for example
//! `{"node-0003": {"exit-code": 3, "message": "disk full"}, "node-0007": {"fate": "hang"}}`.
//! A key in `fates` wins over the same key as annotation; a pod's name over its node's, and `*`
//! stands for every other pod.
//!
//! As with a kubelet, a failing container of a pod with restartPolicy OnFailure is restarted: with
//! an `exit-code` other than 0 and no `restarts` it crash-loops for ever.

use serde_json::{Map, Value, json};

/// What the keys begin with when they are annotations.
pub const PREFIX: &str = "testbed.carillon.dev/";

/// The annotation that holds the fates of single nodes.
pub const FATES: &str = "testbed.carillon.dev/fates";

/// The keys of one entry, see the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fate {
    keys: Map<String, Value>,
}

impl Fate {
    /// Sets a key, such as `run-time`, to a text or a number.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.insert(key.to_owned(), value.into());
        self
    }

    /// Ends with this exit code and termination message.
    pub fn exits(code: i32, message: &str) -> Self {
        Self::default()
            .with("exit-code", code)
            .with("message", message)
    }

    /// Runs for ever.
    pub fn hangs() -> Self {
        Self::default().with("fate", "hang")
    }

    /// Stays Pending, its containers waiting for `reason`.
    pub fn never_starts(reason: &str) -> Self {
        Self::default()
            .with("fate", "never-starts")
            .with("waiting-reason", reason)
    }

    /// Fails and is restarted for ever (restartPolicy OnFailure or Always).
    pub fn crash_loops(code: i32) -> Self {
        Self::default()
            .with("restarts", "forever")
            .with("exit-code", code)
    }

    /// The keys as annotations of a pod: the same fate for all pods of a template.
    pub fn annotations(&self) -> Map<String, Value> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.keys
            .iter()
            .map(|(key, value)| (format!("{PREFIX}{key}"), json!(text(value))))
            .collect()
    }
}

/// The value of the annotation [`FATES`]: a fate for each of some nodes (or pods, or `*`).
pub fn table<'a>(fates: impl IntoIterator<Item = (&'a str, Fate)>) -> String {
    let entries = fates.into_iter();
    let entries: Map<String, Value> = entries
        .map(|(node, fate)| (node.to_owned(), Value::Object(fate.keys)))
        .collect();
    Value::Object(entries).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_texts() {
        let annotations = Fate::exits(3, "disk full").annotations();
        assert_eq!(annotations["testbed.carillon.dev/exit-code"], "3");
        assert_eq!(annotations["testbed.carillon.dev/message"], "disk full");
    }

    #[test]
    fn a_table_names_nodes() {
        let text = table([
            ("node-0001", Fate::hangs()),
            ("node-0002", Fate::exits(2, "no")),
        ]);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["node-0001"]["fate"], "hang");
        assert_eq!(value["node-0002"]["exit-code"], 2);
    }
}
