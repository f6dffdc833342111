//! Which pods a component has to look at: those that have changed, and those that it waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_oracle::Key;
use jiff::Timestamp;
use serde_json::Value;

use crate::Server;
use crate::server::Position;

const PODS: &str = "pods";
const NODES: &str = "nodes";

/// The pods that are due, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct PodQueue {
    seen: Option<Position>,
    /// All pods that are there.
    known: BTreeSet<Key>,
    due: BTreeMap<Key, Timestamp>,
    by_time: BTreeSet<(Timestamp, Key)>,
    /// Pods that any change may concern.
    stuck: BTreeSet<Key>,
}

impl PodQueue {
    /// The pods to look at, in the order of their keys; `None` for one that is gone. After a change of a
    /// node these are all.
    pub(super) fn take(
        &mut self,
        server: &Server,
        now: Timestamp,
    ) -> Vec<(Key, Option<Arc<Value>>)> {
        let (position, changed) = server.changed_since(self.seen.as_ref());
        self.seen = Some(position);
        let mut keys = std::mem::take(&mut self.stuck);
        let all = changed
            .as_ref()
            .is_none_or(|keys| keys.iter().any(|key| &*key.resource == NODES));
        if all {
            let pods = server.keys(PODS);
            keys.extend(self.known.iter().cloned());
            keys.extend(pods);
        } else {
            let changed = changed.into_iter().flatten();
            keys.extend(changed.filter(|key| &*key.resource == PODS));
        }
        while let Some((at, _)) = self.by_time.first()
            && *at <= now
        {
            keys.extend(self.by_time.pop_first().map(|(_, key)| key));
        }
        let mut pods = Vec::new();
        for key in keys {
            self.forget(&key);
            let pod = server.object(&key);
            if pod.is_some() {
                self.known.insert(key.clone());
            } else {
                self.known.remove(&key);
            }
            pods.push((key, pod));
        }
        pods
    }

    /// The pod is to be looked at again then, whatever happens.
    pub(super) fn again(&mut self, key: Key, at: Timestamp) {
        self.by_time.insert((at, key.clone()));
        self.due.insert(key, at);
    }

    /// The pod is to be looked at again when anything has changed.
    pub(super) fn after_any_change(&mut self, key: Key) {
        self.stuck.insert(key);
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    fn forget(&mut self, key: &Key) {
        if let Some(at) = self.due.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }
}
