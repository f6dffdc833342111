//! What objects of a kind control, and what nothing controls and one of them may adopt.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use carillon_plan::node::Labels;
use carillon_plan::object_key::{ApiKind, POD};
use carillon_plan::{ObjectKey, Uid};

use super::owned::{Owned, Rows};
use super::scope::{held_at, in_scope};
use crate::slim::{Interner, SlimMeta};
use crate::watch::{Held, Listed};

/// A row of one.
pub(crate) trait Dependent: PartialEq {
    /// Its uid.
    fn uid(&self) -> Uid;
    /// resourceVersion.
    fn rv(&self) -> u64;
    /// Sets it: nothing depends on it.
    fn set_rv(&mut self, rv: u64);
    /// Its labels.
    fn labels(&self) -> &Labels;
    /// Somebody has deleted it.
    fn is_deleting(&self) -> bool;
}

/// Rows by name.
pub(crate) type Named<R> = BTreeMap<Box<str>, R>;

impl<R> Rows for Named<R>
where
    R: Dependent,
{
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dependents<R> {
    owned: Owned<Named<R>>,
    orphans: HashMap<Arc<str>, Named<R>>,
}

impl<R> Default for Dependents<R> {
    fn default() -> Self {
        Self {
            owned: Owned::default(),
            orphans: HashMap::new(),
        }
    }
}

/// Whom a change concerns.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Concerns {
    /// Those who control it, or did.
    pub(crate) owners: Vec<Arc<ObjectKey>>,
    /// Whoever selects these labels: nothing controls it.
    pub(crate) orphan: Option<Labels>,
}

impl<R: Dependent> Dependents<R> {
    /// What an object controls.
    pub(crate) fn of(&self, owner: &ObjectKey) -> Option<&Named<R>> {
        self.owned.of(owner)
    }

    /// What nothing controls in a namespace.
    pub(crate) fn orphans(&self, namespace: &str) -> Option<&Named<R>> {
        self.orphans.get(namespace)
    }

    /// What nothing controls, by namespace.
    pub(crate) fn all_orphans(&self) -> &HashMap<Arc<str>, Named<R>> {
        &self.orphans
    }

    /// All who control something.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.owned.owners()
    }

    /// Nothing is left, in no map.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.orphans.is_empty()
    }

    /// All rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Box<str>, &R)> {
        self.owned
            .values()
            .flatten()
            .chain(self.orphans.values().flatten())
    }

    /// Who controls an object, if that is of one of these kinds.
    fn owner<L>(&self, meta: &SlimMeta<L>, kinds: &[ApiKind]) -> Option<Arc<ObjectKey>> {
        kinds.iter().find_map(|kind| self.owned.owner(meta, *kind))
    }

    /// The row that is held of an object.
    pub(crate) fn known<L>(&self, meta: &SlimMeta<L>) -> Option<&R> {
        let owner = self.owned.owner_of(meta.uid()?);
        let rows = match owner {
            Some(owner) => self.owned.of(owner),
            None => self.orphans.get(&*meta.namespace),
        };
        let row = rows?.get(&*meta.name)?;
        Some(row).filter(|row| Some(row.uid()) == meta.uid())
    }

    /// Whether an object is of no concern: others control it, and no row of it is held.
    pub(crate) fn leaves_out<L>(&self, meta: &SlimMeta<L>, kinds: &[ApiKind]) -> bool {
        let is_ours = |kind: &ApiKind| meta.controller(*kind).is_some();
        meta.has_controller() && !kinds.iter().any(is_ours) && self.known(meta).is_none()
    }

    /// Enters a row. What others control is left out.
    pub(crate) fn enter<L>(
        &mut self,
        meta: &SlimMeta<L>,
        kinds: &[ApiKind],
        row: R,
        strings: &mut Interner,
    ) -> Concerns {
        let mut concerns = Concerns::default();
        let uid = row.uid();
        let owner = self.owner(meta, kinds);
        let before = self.owned.owner_of(uid);
        if before.is_some() && before != owner.as_ref() {
            concerns.owners.extend(self.forget_owned(meta));
        }
        let name = &*meta.name;
        let Some(owner) = owner else {
            if meta.has_controller() {
                self.forget_orphan(meta);
                return concerns;
            }
            let labels = (!row.is_deleting()).then(|| row.labels().clone());
            let namespace = strings.share(&meta.namespace);
            let orphans = self.orphans.entry(namespace).or_default();
            let old = orphans.insert(name.into(), row);
            let old = old.filter(|old| old.uid() == uid);
            concerns.orphan = labels.filter(|new| old.is_none_or(|old| old.labels() != new));
            return concerns;
        };
        self.forget_orphan(meta);
        let before = self.owned.of_mut(&owner);
        let before = before.and_then(|rows| rows.get_mut(name));
        let changed = match before {
            Some(before) if before.uid() == uid => {
                before.set_rv(row.rv());
                let changed = *before != row;
                *before = row;
                changed
            }
            _ => {
                let replaced = self.owned.enter(&owner, uid).insert(name.into(), row);
                if let Some(other) = replaced {
                    self.owned.forget(other.uid());
                }
                true
            }
        };
        if changed {
            concerns.owners.push(owner);
        }
        concerns
    }

    /// Removes an object. Who controlled it.
    pub(crate) fn leave<L>(&mut self, meta: &SlimMeta<L>) -> Option<Arc<ObjectKey>> {
        self.forget_orphan(meta);
        self.forget_owned(meta)
    }

    fn forget_owned<L>(&mut self, meta: &SlimMeta<L>) -> Option<Arc<ObjectKey>> {
        self.owned.leave(meta.uid()?, |rows| {
            rows.remove(&*meta.name);
        })
    }

    fn forget_orphan<L>(&mut self, meta: &SlimMeta<L>) {
        let Some(rows) = self.orphans.get_mut(&*meta.namespace) else {
            return;
        };
        let known = rows.get(&*meta.name).map(R::uid);
        if known.is_some() && known == meta.uid() {
            rows.remove(&*meta.name);
        }
        if rows.is_empty() {
            self.orphans.remove(&*meta.namespace);
        }
    }

    /// Removes what is not listed. Whose it was.
    pub(crate) fn sweep(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
    ) -> Vec<Arc<ObjectKey>> {
        self.orphans.retain(|of, rows| {
            if in_scope(of, namespace) {
                rows.retain(|_, row| listed.contains(&row.uid()));
            }
            !rows.is_empty()
        });
        let mut owners = Vec::new();
        let retain = |rows: &mut Named<R>, stays: &mut dyn FnMut(Uid) -> bool| {
            rows.retain(|_, row| stays(row.uid()));
        };
        let changed = |owner: &Arc<ObjectKey>| owners.push(owner.clone());
        self.owned.sweep(namespace, listed, retain, changed);
        owners
    }

    /// What is held of an object that is listed.
    pub(crate) fn held(&self, object: &Listed, kinds: &[ApiKind]) -> Held {
        let held = object.uid().and_then(|uid| self.owned.owner_of(uid));
        let owner = kinds.iter().find_map(|kind| object.owner(*kind));
        match (owner, held) {
            (Some(owner), Some(held)) if owner == *held => {
                let row = self.owned.of(held).and_then(|rows| rows.get(&*object.name));
                held_at(row.map(R::rv))
            }
            (None, None) => {
                // Of whatever kind: only who it is matters.
                let key = object.key(POD);
                let row = key.and_then(|key| {
                    let row = self.orphans.get(&*key.namespace)?.get(&*key.name)?;
                    Some(row).filter(|row| row.uid() == key.uid)
                });
                match (row, object.has_controller()) {
                    (None, true) => Held::LeftOut,
                    (Some(_), true) => Held::Nothing,
                    (row, false) => held_at(row.map(R::rv)),
                }
            }
            _ => Held::Nothing,
        }
    }

    /// Names each row in scope.
    pub(crate) fn each_held(&self, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        let orphans = self.orphans.iter();
        let orphans = orphans.filter(|(of, _)| in_scope(of, namespace));
        let owned = self.owned.in_scope(namespace);
        for (name, row) in owned.chain(orphans.map(|(_, rows)| rows)).flatten() {
            each(name, row.uid(), row.rv());
        }
    }
}
