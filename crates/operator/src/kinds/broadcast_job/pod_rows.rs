//! The pods of one BroadcastJob, and which of them have changed since it was planned last.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use carillon_plan::Uid;
use carillon_plan::pod::{PodRow, Pods};

use crate::store::owned::Rows;

/// Names that are noted at least, however few pods there are.
const LEAST: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct PodRows {
    rows: Pods,
    /// `None`: any may have changed. A plan takes them out while others read the cache.
    changed: Mutex<Option<HashSet<Box<str>>>>,
}

impl Rows for PodRows {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Deref for PodRows {
    type Target = Pods;

    fn deref(&self) -> &Pods {
        &self.rows
    }
}

impl PodRows {
    /// Puts a row in its place. The one that was there.
    pub(super) fn put(&mut self, name: Box<str>, row: PodRow) -> Option<PodRow> {
        self.note(&name);
        self.rows.insert(name, row)
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, name: &str) -> Option<PodRow> {
        self.note(name);
        self.rows.remove(name)
    }

    /// Removes the rows of which `stays` is not true.
    pub(super) fn retain(&mut self, stays: &mut dyn FnMut(Uid) -> bool) {
        let gone = self.rows.extract_if(|_, row| !stays(row.uid));
        let gone: Vec<Box<str>> = gone.map(|(name, _)| name).collect();
        for name in &gone {
            self.note(name);
        }
    }

    /// A row, to change what it says.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut PodRow> {
        self.note(name);
        self.rows.get_mut(name)
    }

    fn note(&mut self, name: &str) {
        let most = self.rows.len().max(LEAST);
        let changed = self
            .changed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        match changed {
            Some(names) if names.len() < most => drop(names.insert(name.into())),
            _ => *changed = None,
        }
    }

    /// The names of those that have changed since this was asked last; `None`: any may have.
    pub fn take_changed(&self) -> Option<HashSet<Box<str>>> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.replace(HashSet::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(rows: &mut PodRows, n: usize) {
        rows.put(format!("p{n}").into(), PodRow::default());
    }

    #[test]
    fn each_change_is_told_once_and_too_many_as_any() {
        let mut rows = PodRows::default();
        assert_eq!(rows.take_changed(), None, "nothing was told yet");
        assert_eq!(rows.take_changed(), Some(HashSet::new()));
        put(&mut rows, 1);
        put(&mut rows, 2);
        rows.remove("p2");
        let both = HashSet::from(["p1".into(), "p2".into()]);
        assert_eq!(rows.take_changed(), Some(both));
        rows.retain(&mut |_| false);
        assert_eq!(rows.take_changed(), Some(HashSet::from(["p1".into()])));
        (0..=LEAST).for_each(|n| drop(rows.remove(&format!("p{n}"))));
        assert_eq!(rows.take_changed(), None);
        assert_eq!(rows.take_changed(), Some(HashSet::new()));
    }
}
