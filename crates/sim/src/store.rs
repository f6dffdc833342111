//! Objects and every revision of them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use carillon_oracle::{History, Key, Request, Step};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The store before its first change is at this revision, as etcd's is.
const FIRST: u64 = 1;

/// What etcd is to an API server.
#[derive(Debug)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    history: History,
    revision: u64,
    compacted: u64,
    /// Up to which revision the history was dropped.
    forgotten: u64,
    uids: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            history: History::default(),
            revision: FIRST,
            compacted: 0,
            forgotten: FIRST,
            uids: 0,
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The highest revision of which nothing is known any more.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Up to which revision the changes are not known any more.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// Compacts, and drops the history up to there.
    pub(crate) fn forget(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        self.compact(revision);
        let steps = self.place_of(revision).min(self.history.steps.len());
        self.history.steps.drain(..steps);
        self.forgotten = self.forgotten.max(revision);
    }

    /// Where the changes after a revision begin.
    fn place_of(&self, revision: u64) -> usize {
        revision.saturating_sub(self.forgotten) as usize
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// Forgets the last changes, as if they had not been made. Uids are never given twice.
    pub(crate) fn restore(&mut self, revision: u64) {
        let kept = self.place_of(revision);
        let lost = self
            .history
            .steps
            .split_off(kept.min(self.history.steps.len()));
        for step in lost.into_iter().rev() {
            match step.old {
                Some(old) => self.objects.insert(step.key, old),
                None => self.objects.remove(&step.key),
            };
        }
        self.revision = self.revision.min(revision.max(FIRST));
    }

    /// The changes after `revision`.
    pub(crate) fn since(&self, revision: u64) -> &[Step] {
        let first = self.place_of(revision);
        self.history.steps.get(first..).unwrap_or_default()
    }

    /// Whether the object at a key is as it was created, as far as that is known.
    pub(crate) fn is_as_created(&self, key: &Key) -> bool {
        let version = self
            .get(key)
            .map(|object| &object["metadata"]["resourceVersion"]);
        let revision = version.and_then(|version| version.as_str()?.parse::<u64>().ok());
        let last = revision.and_then(|revision| self.since(revision - 1).first());
        last.is_some_and(|step| step.key == *key && step.old.is_none())
    }

    /// A uid that was not given before. Their order says nothing about their age.
    pub(crate) fn uid(&mut self) -> String {
        self.uids += 1;
        let (a, b) = (scramble(2 * self.uids), scramble(2 * self.uids + 1));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | (b >> 48) & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }

    /// Stores `object`, which gets the new resourceVersion.
    pub(crate) fn put(
        &mut self,
        at: Timestamp,
        key: &Key,
        mut object: Value,
        by: &Arc<Request>,
    ) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = Arc::new(object);
        let old = self.objects.insert(key.clone(), object.clone());
        self.history.steps.push(Step {
            rev: self.revision,
            at,
            key: key.clone(),
            old,
            new: Some(object.clone()),
            by: Some(by.clone()),
        });
        object
    }

    /// Removes an object; what it was, with the revision of its end.
    pub(crate) fn remove(
        &mut self,
        at: Timestamp,
        key: &Key,
        by: &Arc<Request>,
    ) -> Option<Arc<Value>> {
        let old = self.objects.remove(key)?;
        self.revision += 1;
        let last = at_revision(&old, self.revision);
        self.history.steps.push(Step {
            rev: self.revision,
            at,
            key: key.clone(),
            old: Some(old),
            new: None,
            by: Some(by.clone()),
        });
        Some(Arc::new(last))
    }

    /// The objects of a resource, in all namespaces or in one, by name; only those after a key, if there is one.
    pub(crate) fn each(
        &self,
        resource: &str,
        namespace: &str,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let first = || Key {
            resource: resource.into(),
            namespace: namespace.into(),
            name: "".into(),
        };
        let first = after.map_or_else(
            || Bound::Included(first()),
            |key| Bound::Excluded(key.clone()),
        );
        let all = self.objects.range((first, Bound::Unbounded));
        all.take_while(move |(key, _)| within(key, resource, namespace))
    }

    /// All of them as a map.
    pub(crate) fn range(&self, resource: &str, namespace: &str) -> Objects {
        let all = self.each(resource, namespace, None);
        all.map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// The same as it was at an earlier revision.
    pub(crate) fn range_at(&self, resource: &str, namespace: &str, revision: u64) -> Objects {
        let mut objects = self.range(resource, namespace);
        for step in self.since(revision).iter().rev() {
            if !within(&step.key, resource, namespace) {
                continue;
            }
            match &step.old {
                Some(old) => objects.insert(step.key.clone(), old.clone()),
                None => objects.remove(&step.key),
            };
        }
        objects
    }
}

/// Objects by key.
pub(crate) type Objects = BTreeMap<Key, Arc<Value>>;

/// Whether a key is of a resource and, unless that is empty, of a namespace.
pub(crate) fn within(key: &Key, resource: &str, namespace: &str) -> bool {
    *key.resource == *resource && (namespace.is_empty() || *key.namespace == *namespace)
}

/// The object with another resourceVersion: a deleted one bears that of its end.
pub(crate) fn at_revision(object: &Value, revision: u64) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    object
}

/// `splitmix64`.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource: &str, namespace: &str, name: &str) -> Key {
        Key {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn every_earlier_state_can_be_read() {
        let (mut store, by) = (Store::new(), Arc::default());
        let at = Timestamp::UNIX_EPOCH;
        for name in ["b", "a"] {
            store.put(at, &key("pods", "ns", name), json!({"metadata": {}}), &by);
        }
        store.put(at, &key("nodes", "", "n"), json!({"metadata": {}}), &by);
        store.remove(at, &key("pods", "ns", "b"), &by);
        let names = |objects: Objects| -> Vec<String> {
            objects.keys().map(|key| key.name.to_string()).collect()
        };
        assert_eq!(store.revision(), 5);
        assert_eq!(names(store.range("pods", "")), ["a"]);
        assert_eq!(names(store.range_at("pods", "ns", 4)), ["a", "b"]);
        assert_eq!(names(store.range_at("pods", "ns", 2)), ["b"]);
        assert!(store.range_at("pods", "other", 4).is_empty());
        assert_eq!(store.since(4).len(), 1);
        assert_eq!(store.since(9).len(), 0);
    }

    #[test]
    fn a_store_that_is_restored_is_what_it_was() {
        let (mut store, by) = (Store::new(), Arc::default());
        let at = Timestamp::UNIX_EPOCH;
        let (a, b) = (key("pods", "ns", "a"), key("pods", "ns", "b"));
        let mut put = |key: &Key, n: u64| store.put(at, key, json!({"metadata": {}, "n": n}), &by);
        for (key, n) in [(&a, 1), (&b, 1), (&a, 2)] {
            put(key, n);
        }
        store.remove(at, &b, &by);
        store.restore(3);
        assert_eq!((store.revision(), store.history().steps.len()), (3, 2));
        assert_eq!(store.get(&a).unwrap()["n"], 1);
        assert_eq!(store.get(&b).unwrap()["metadata"]["resourceVersion"], "3");
        assert!(store.since(3).is_empty());
        store.restore(0);
        assert_eq!(
            (store.revision(), store.range("pods", "").len()),
            (FIRST, 0)
        );
    }

    #[test]
    fn what_is_forgotten_is_no_history_and_what_follows_is() {
        let (mut store, by) = (Store::new(), Arc::default());
        let at = Timestamp::UNIX_EPOCH;
        let a = key("pods", "ns", "a");
        let put =
            |store: &mut Store, n: u64| store.put(at, &a, json!({"metadata": {}, "n": n}), &by);
        for n in 0..4 {
            put(&mut store, n);
        }
        store.forget(3);
        let revisions = |store: &Store, after| -> Vec<u64> {
            store.since(after).iter().map(|step| step.rev).collect()
        };
        assert_eq!((store.compacted(), revisions(&store, 3)), (3, vec![4, 5]));
        put(&mut store, 4);
        assert_eq!(revisions(&store, 4), [5, 6]);
        store.restore(4);
        assert_eq!(revisions(&store, 3), [4]);
        assert_eq!(store.get(&a).unwrap()["n"], 2);
        store.forget(9);
        assert!(store.history().steps.is_empty());
    }

    #[test]
    fn uids_differ_and_look_like_uids() {
        let mut store = Store::new();
        let (a, b) = (store.uid(), store.uid());
        assert_ne!(a, b);
        let lengths: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
