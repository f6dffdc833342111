//! Rows by the object that controls them, and whose each of them is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use carillon_plan::object_key::ApiKind;
use carillon_plan::{ObjectKey, Uid};

use super::scope::in_scope;
use crate::slim::SlimMeta;

/// The rows of one owner.
pub(crate) trait Rows: Default {
    /// Whether there is none.
    fn is_empty(&self) -> bool;
}

/// Rows by their owner. An object may lose its owner or be given another one, so it is also known
/// whose each is: a row is never in two places, and none stays behind.
#[derive(Debug)]
pub(crate) struct Owned<R> {
    rows: HashMap<Arc<ObjectKey>, R>,
    /// By the uid of the object itself, which the API server gives.
    owner_of: HashMap<Uid, Arc<ObjectKey>>,
}

impl<R> Default for Owned<R> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            owner_of: HashMap::new(),
        }
    }
}

impl<R: Rows> Owned<R> {
    /// The rows of `owner`.
    pub(crate) fn of(&self, owner: &ObjectKey) -> Option<&R> {
        self.rows.get(owner)
    }

    /// The same, to change what they say.
    pub(crate) fn of_mut(&mut self, owner: &ObjectKey) -> Option<&mut R> {
        self.rows.get_mut(owner)
    }

    /// The rows of all owners in `namespace`, to change what they say.
    pub(crate) fn in_namespace_mut(&mut self, namespace: &str) -> impl Iterator<Item = &mut R> {
        let rows = self.rows.iter_mut();
        let rows = rows.filter(move |(owner, _)| &*owner.namespace == namespace);
        rows.map(|(_, rows)| rows)
    }

    /// All who have rows.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.rows.keys()
    }

    /// The rows of all owners.
    pub(crate) fn values(&self) -> impl Iterator<Item = &R> + Clone {
        self.rows.values()
    }

    /// The rows of all owners in `namespace`, or anywhere.
    pub(crate) fn in_scope(&self, namespace: Option<&str>) -> impl Iterator<Item = &R> {
        let rows = self.rows.iter();
        let rows = rows.filter(move |(owner, _)| in_scope(&owner.namespace, namespace));
        rows.map(|(_, rows)| rows)
    }

    /// Whose the row of this object is.
    pub(crate) fn owner_of(&self, uid: Uid) -> Option<&Arc<ObjectKey>> {
        self.owner_of.get(&uid)
    }

    /// Who controls an object, if that is of this kind. Mostly it is the one that did before.
    pub(crate) fn owner<L>(&self, meta: &SlimMeta<L>, kind: ApiKind) -> Option<Arc<ObjectKey>> {
        let known = meta.uid().and_then(|uid| self.owner_of(uid));
        let known = known.filter(|owner| (owner.api_version, owner.kind) == kind);
        match known.filter(|owner| meta.is_controlled_by(owner)) {
            Some(owner) => Some(owner.clone()),
            None => meta.owner(kind),
        }
    }

    /// The rows of `owner`, into which the row of the object `uid` is put. It must not be anybody
    /// else's: see [`Owned::leave`].
    pub(crate) fn enter(&mut self, owner: &Arc<ObjectKey>, uid: Uid) -> &mut R {
        // One key for all rows of an owner.
        let owner = match self.rows.get_key_value(owner) {
            Some((shared, _)) => shared.clone(),
            None => owner.clone(),
        };
        self.owner_of.insert(uid, owner.clone());
        self.rows.entry(owner).or_default()
    }

    /// The row of the object `uid` was replaced by another one of its name.
    pub(crate) fn forget(&mut self, uid: Uid) {
        self.owner_of.remove(&uid);
    }

    /// Has the row of the object `uid` removed. Whose it was.
    pub(crate) fn leave(
        &mut self,
        uid: Uid,
        remove: impl FnOnce(&mut R),
    ) -> Option<Arc<ObjectKey>> {
        let owner = self.owner_of.remove(&uid)?;
        if let Some(rows) = self.rows.get_mut(&owner) {
            remove(rows);
            if rows.is_empty() {
                self.rows.remove(&owner);
            }
        }
        Some(owner)
    }

    /// Has rows in `namespace`, or anywhere, removed whose objects are not listed, and tells whose they were.
    /// `retain` asks of each object whether it stays.
    pub(crate) fn sweep(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        retain: impl Fn(&mut R, &mut dyn FnMut(Uid) -> bool),
        mut changed: impl FnMut(&Arc<ObjectKey>),
    ) {
        let owner_of = &mut self.owner_of;
        self.rows.retain(|owner, rows| {
            if !in_scope(&owner.namespace, namespace) {
                return true;
            }
            let mut any = false;
            retain(rows, &mut |uid| {
                let stays = listed.contains(&uid);
                if !stays {
                    owner_of.remove(&uid);
                    any = true;
                }
                stays
            });
            if any {
                changed(owner);
            }
            !rows.is_empty()
        });
    }

    /// Nothing is left, in no map.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.owner_of.is_empty()
    }
}
