//! Result slices: the ledger of each job.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::record::Slice;

use super::{Key, Row, Tables, Wake, in_scope};
use crate::gate::Kind;
use crate::slim::SlimSlice;
use crate::watch::{Held, Listed};

/// The result slices of one job.
#[derive(Debug, Default)]
pub struct Ledger {
    namespace: Arc<str>,
    /// By index.
    pub slices: Vec<Slice>,
    /// Slices that cannot be read, by uid.
    unreadable: BTreeMap<Uid, Unreadable>,
}

#[derive(Debug)]
struct Unreadable {
    rv: u64,
    why: String,
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

    fn put(&mut self, slice: Slice) {
        match self
            .slices
            .binary_search_by_key(&slice.index, |known| known.index)
        {
            Ok(at) => self.slices[at] = slice,
            Err(at) => self.slices.insert(at, slice),
        }
    }

    /// Index (of those that can be read), uid and resourceVersion of each slice.
    fn versions(&self) -> impl Iterator<Item = (Option<u32>, Uid, u64)> {
        let read = self.slices.iter();
        let unreadable = self.unreadable.iter();
        read.map(|slice| (Some(slice.index), slice.uid, slice.rv))
            .chain(unreadable.map(|(uid, slice)| (None, *uid, slice.rv)))
    }

    fn remove(&mut self, uid: Uid) {
        self.slices.retain(|slice| slice.uid != uid);
        self.unreadable.remove(&uid);
    }
}

impl Row for SlimSlice {
    const KIND: Kind = Kind::Slice;

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
            Err(why) => {
                let rv = self.metadata.rv();
                ledger.unreadable.insert(uid, Unreadable { rv, why });
            }
        }
        wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
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
        wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
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
                wakes.push(Wake::Soon(Key::BroadcastJob(*owner)));
            }
            !(ledger.slices.is_empty() && ledger.unreadable.is_empty())
        });
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let (Some(owner), Some(uid)) = (object.broadcast_job(), object.uid()) else {
            return Held::LeftOut;
        };
        let Some(ledger) = tables.slices.get(&owner) else {
            return Held::Nothing;
        };
        if let Some((_, _, rv)) = ledger.versions().find(|(_, held, _)| *held == uid) {
            return Held::At(rv);
        }
        // Of several slices with one index, which only somebody else can make, one is kept.
        let labels = object.labels.as_ref();
        let index = labels.and_then(|labels| labels.slice_index.parse().ok());
        if ledger
            .versions()
            .any(|(held, ..)| held.is_some() && held == index)
        {
            return Held::LeftOut;
        }
        Held::Nothing
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for ledger in tables.slices.values() {
            if in_scope(&ledger.namespace, namespace) {
                for (index, uid, rv) in ledger.versions() {
                    let name = index.map_or_else(String::new, |index| format!("slice {index}"));
                    each(&name, uid, rv);
                }
            }
        }
    }
}
