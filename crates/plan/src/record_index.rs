//! The records of a job, found by pod, by node and by state, kept from plan to plan: catching up costs what has
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use carillon_api::NodeState;

use crate::record::{Record, Slice};

/// Where a record is stored: position of the slice, position in it.
pub type Place = (usize, usize);

/// An index over slices. It says nothing that is not in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordIndex {
    slices: Vec<Slice>,
    /// By a fingerprint of the pod's name.
    by_pod: BTreeSet<(u64, Place)>,
    by_node: BTreeMap<Arc<str>, Vec<Place>>,
    open: BTreeSet<Place>,
    counts: BTreeMap<NodeState, usize>,
}

impl RecordIndex {
    /// Catches up. Names of the nodes whose records have changed; `None`: these are other slices, and all has
    /// been read anew.
    pub fn follow(&mut self, slices: &[Slice]) -> Option<BTreeSet<Arc<str>>> {
        let continues = self.is_continued_by(slices);
        if !continues {
            *self = Self::default();
        }
        let mut changed = BTreeSet::new();
        for (at, new) in slices.iter().enumerate() {
            self.read(at, new, &mut changed);
        }
        continues.then_some(changed)
    }

    /// Whether these are the slices that are known, changed or not, and maybe more.
    fn is_continued_by(&self, slices: &[Slice]) -> bool {
        let same = |(old, new): (&Slice, &Slice)| {
            let same_pods = || {
                let records = old.records.iter().zip(&new.records);
                old.records.len() <= new.records.len()
                    && records.into_iter().all(|(old, new)| old.pod == new.pod)
            };
            let same = old.records.is(&new.records) || same_pods();
            (old.index, old.uid) == (new.index, new.uid) && same
        };
        self.slices.len() <= slices.len() && self.slices.iter().zip(slices).all(same)
    }

    fn read(&mut self, at: usize, new: &Slice, changed: &mut BTreeSet<Arc<str>>) {
        let old = self.slices.get(at).map(|old| old.records.clone());
        let old = old.unwrap_or_default();
        match self.slices.get_mut(at) {
            Some(slice) => slice.clone_from(new),
            None => self.slices.push(new.clone()),
        }
        if old.is(&new.records) {
            return;
        }
        for (n, record) in new.records.iter().enumerate() {
            let before = old.get(n);
            if before == Some(record) {
                continue;
            }
            if let Some(before) = before {
                self.forget((at, n), before);
                changed.insert(before.node.clone());
            }
            self.enter((at, n), record);
            changed.insert(record.node.clone());
        }
    }

    fn enter(&mut self, place: Place, record: &Record) {
        self.by_pod.insert((fingerprint(&record.pod), place));
        if !record.is_final() {
            self.open.insert(place);
        }
        *self.counts.entry(record.state).or_default() += 1;
        let places = self.by_node.entry(record.node.clone()).or_default();
        let at = places.partition_point(|known| *known < place);
        places.insert(at, place);
    }

    fn forget(&mut self, place: Place, record: &Record) {
        self.by_pod.remove(&(fingerprint(&record.pod), place));
        self.open.remove(&place);
        if let Some(count) = self.counts.get_mut(&record.state) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&record.state);
            }
        }
        if let Some(places) = self.by_node.get_mut(&record.node) {
            places.retain(|known| *known != place);
            if places.is_empty() {
                self.by_node.remove(&record.node);
            }
        }
    }

    /// The record that is stored there, with the index of its slice.
    pub fn at(&self, (slice, record): Place) -> (&Record, u32) {
        let slice = &self.slices[slice];
        (&slice.records[record], slice.index)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// How many say so.
    pub fn count(&self, state: NodeState) -> usize {
        self.counts.get(&state).copied().unwrap_or(0)
    }

    /// Those of attempts under way.
    pub fn open(&self) -> &BTreeSet<Place> {
        &self.open
    }

    /// Those of a pod of this name, in the order of the records.
    pub fn of_pod(&self, pod: &str) -> impl DoubleEndedIterator<Item = Place> {
        let hash = fingerprint(pod);
        let all = (hash, (0, 0))..=(hash, (usize::MAX, usize::MAX));
        let places = self.by_pod.range(all).map(|(_, place)| *place);
        places.filter(move |place| *self.at(*place).0.pod == *pod)
    }

    /// Those of nodes of this name, in the order of the records.
    pub fn of_node(&self, node: &str) -> &[Place] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Names of all nodes of which there are any.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_node.keys()
    }

    /// All, in their order.
    pub fn all(&self) -> impl Iterator<Item = (Place, &Record)> {
        let slices = self.slices.iter().enumerate();
        slices.flat_map(|(at, slice)| {
            let records = slice.records.iter().enumerate();
            records.map(move |(n, record)| ((at, n), record))
        })
    }
}

fn fingerprint(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_looked_up_by_what_tells_their_names_apart() {
        let fingerprints: BTreeSet<u64> = (0..100).map(|n| fingerprint(&format!("p{n}"))).collect();
        assert_eq!(fingerprints.len(), 100);
    }
}
