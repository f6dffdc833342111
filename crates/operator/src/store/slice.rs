//! Result slices: the ledger of each job.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::record::Slice;

use super::{Row, Tables, Wake, in_scope};
use crate::gate::Kind;
use crate::slim::SlimSlice;

/// The result slices of one job.
#[derive(Debug, Default)]
pub struct Ledger {
    namespace: Arc<str>,
    /// By index.
    pub slices: Vec<Slice>,
    /// Slices that cannot be read, by uid, and why.
    unreadable: BTreeMap<Uid, String>,
}

impl Ledger {
    /// Why the ledger must not be acted on, if so. What a missing part hides might be run again.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = self.unreadable.values().next() {
            return Some(problem.clone());
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

    fn put(&mut self, slice: Slice) {
        match self
            .slices
            .binary_search_by_key(&slice.index, |known| known.index)
        {
            Ok(at) => self.slices[at] = slice,
            Err(at) => self.slices.insert(at, slice),
        }
    }

    fn remove(&mut self, uid: Uid) {
        self.slices.retain(|slice| slice.uid != uid);
        self.unreadable.remove(&uid);
    }
}

impl Row for SlimSlice {
    const KIND: Kind = Kind::Slice;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let (Some(owner), Some(uid)) = (self.metadata.broadcast_job(), self.metadata.uid()) else {
            return;
        };
        let namespace = tables.strings.share(&self.metadata.namespace);
        let ledger = tables.slices.entry(owner).or_default();
        ledger.namespace = namespace;
        match self.row(&mut tables.strings) {
            Ok(slice) => {
                ledger.unreadable.remove(&uid);
                ledger.put(slice);
            }
            Err(problem) => {
                ledger.unreadable.insert(uid, problem);
            }
        }
        wakes.push(Wake::Soon(owner));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let (Some(owner), Some(uid)) = (self.metadata.broadcast_job(), self.metadata.uid()) else {
            return;
        };
        let Some(ledger) = tables.slices.get_mut(&owner) else {
            return;
        };
        ledger.remove(uid);
        if ledger.slices.is_empty() && ledger.unreadable.is_empty() {
            tables.slices.remove(&owner);
        }
        wakes.push(Wake::Soon(owner));
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables.slices.retain(|owner, ledger| {
            if !in_scope(&ledger.namespace, namespace) {
                return true;
            }
            let before = ledger.slices.len();
            ledger.slices.retain(|slice| listed.contains(&slice.uid));
            ledger.unreadable.retain(|uid, _| listed.contains(uid));
            if ledger.slices.len() != before {
                wakes.push(Wake::Soon(*owner));
            }
            !(ledger.slices.is_empty() && ledger.unreadable.is_empty())
        });
    }
}
