//! The ledger of a job: its result slices.

use std::collections::BTreeMap;

use carillon_plan::Uid;
use carillon_plan::record::Slice;

use crate::store::owned::Rows;
use crate::watch::Listed;

/// The result slices of one job.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By index.
    pub slices: Vec<Slice>,
    /// Slices that cannot be read, by uid.
    pub(super) unreadable: BTreeMap<Uid, Unreadable>,
}

/// A slice that cannot be read, and why.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) rv: u64,
    pub(super) why: String,
}

impl Ledger {
    /// Why the ledger must not be acted on, if so. What a missing part hides might be run again.
    pub fn problem(&self) -> Option<String> {
        if let Some(slice) = self.unreadable.values().next() {
            return Some(slice.why.clone());
        }
        let gap = self
            .slices
            .iter()
            .zip(0..)
            .find(|(slice, index)| slice.index != *index);
        gap.map(|(_, index)| {
            format!(
                "NodeResultSlice with carillon.dev/slice-index={index} is missing; its results are \
                 lost, delete the job and create a new one"
            )
        })
    }

    /// Puts a slice in its place. The uid of the one that was there.
    pub(super) fn put(&mut self, slice: Slice) -> Option<Uid> {
        match self
            .slices
            .binary_search_by_key(&slice.index, |known| known.index)
        {
            Ok(at) => Some(std::mem::replace(&mut self.slices[at], slice).uid),
            Err(at) => {
                self.slices.insert(at, slice);
                None
            }
        }
    }

    /// Whether there is a slice in the place of this one.
    pub(super) fn has_index_of(&self, object: &Listed) -> bool {
        let labels = object.labels.as_ref();
        let index = labels.and_then(|labels| labels.slice_index.parse().ok());
        let mut slices = self.slices.iter();
        index.is_some_and(|index: u32| slices.any(|slice| slice.index == index))
    }

    /// Index (of those that can be read), uid and resourceVersion of each slice.
    pub(super) fn versions(&self) -> impl Iterator<Item = (Option<u32>, Uid, u64)> {
        let read = self.slices.iter();
        let unreadable = self.unreadable.iter();
        read.map(|slice| (Some(slice.index), slice.uid, slice.rv))
            .chain(unreadable.map(|(uid, slice)| (None, *uid, slice.rv)))
    }

    pub(super) fn remove(&mut self, uid: Uid) {
        self.slices.retain(|slice| slice.uid != uid);
        self.unreadable.remove(&uid);
    }
}

impl Rows for Ledger {
    fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.unreadable.is_empty()
    }
}
