//! What was noticed and is to be acted upon later.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::component::uid;

/// When each thing is due, by a key such as the uid of a pod.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeMap<String, Timestamp>);

impl Timers {
    /// Forgets what is not about one of these objects.
    pub(super) fn keep(&mut self, objects: &[Arc<Value>]) {
        let there: HashSet<&str> = objects.iter().map(|object| uid(object)).collect();
        self.0.retain(|known, _| there.contains(known.as_str()));
    }

    /// It is no longer to be done.
    pub(super) fn stop(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// When it is due: `after` from when it was first asked for. `None`: now.
    pub(super) fn wait(
        &mut self,
        key: &str,
        after: SignedDuration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let due = *self.0.entry(key.to_owned()).or_insert_with(|| now + after);
        (due > now).then_some(due)
    }
}
