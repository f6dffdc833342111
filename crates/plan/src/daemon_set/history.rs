//! Which revision is that of the template, and which are not kept (upstream: `constructHistory`, `cleanupHistory`).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::revision::Revision;
use super::snapshot::Snapshot;
use crate::name;
use crate::uid::Uid;

/// The revision of a DaemonSet's template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Current<'a> {
    /// Its name.
    pub name: String,
    /// The hash that its pods carry.
    pub hash: String,
    /// The number that it should have.
    pub number: i64,
    /// Since when there is one; `None`: it is not stored.
    pub since: Option<Timestamp>,
    /// Where it stands.
    pub stored: Stored<'a>,
}

/// Whether the revision of a template is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Stored<'a> {
    /// It is not, and its name is free.
    No,
    /// It is not, and another object has its name.
    NameTaken,
    /// Under this uid, with this number.
    Once(Uid, i64),
    /// More than once: these are to go, and pods that carry their hashes get the one of the revision that stays.
    Again(Vec<Named<'a>>),
}

/// A revision and its name.
type Named<'a> = (&'a str, &'a Revision);

fn named<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = Named<'a>> + use<'a> {
    let revisions = snapshot.revisions.iter();
    revisions.map(|(name, revision)| (&**name, revision))
}

/// The order of revisions: the newest is the last.
fn age<'a>((name, revision): &Named<'a>) -> (i64, Timestamp, &'a str) {
    (revision.number, revision.created, name)
}

/// Finds the revision of the template among those that are stored.
pub(crate) fn current<'a>(snapshot: &Snapshot<'a>) -> Current<'a> {
    let set = snapshot.set;
    let is_current = |revision: &Revision| revision.data.is(set.data, set.native);
    let (mut same, others): (Vec<_>, Vec<_>) =
        named(snapshot).partition(|(_, revision)| is_current(revision));
    // One that somebody has deleted, and that a finalizer keeps, counts only if there is no other.
    if same.iter().any(|(_, revision)| !revision.deleting) {
        same.retain(|(_, revision)| !revision.deleting);
    }
    let highest = others.iter().map(|(_, revision)| revision.number).max();
    let number = highest.unwrap_or(0).saturating_add(1);
    same.sort_by_key(age);
    let Some((name, revision)) = same.pop() else {
        let hash = name::revision_hash(set.data.meaning, set.status.collision_count);
        let name = name::revision(&set.meta.owner.name, &hash);
        let taken = snapshot.taken.contains(&name) || snapshot.revisions.contains_key(&*name);
        return Current {
            name,
            hash,
            number,
            since: None,
            stored: if taken { Stored::NameTaken } else { Stored::No },
        };
    };
    Current {
        name: name.to_owned(),
        hash: revision.hash(name).to_owned(),
        number: number.max(revision.number),
        since: Some(revision.created),
        stored: if same.is_empty() {
            Stored::Once(revision.uid, revision.number)
        } else {
            Stored::Again(same)
        },
    }
}

/// Old revisions beyond the history limit, the oldest first. One whose hash a pod still carries stays, also where
/// only a finalizer keeps that pod.
pub(super) fn beyond_limit<'a>(snapshot: &Snapshot<'a>, current: &Current<'_>) -> Vec<Named<'a>> {
    let pods = snapshot.pods.values();
    let used: BTreeSet<&str> = pods.filter_map(|pod| pod.revision()).collect();
    let others = named(snapshot).filter(|(name, _)| *name != current.name);
    let mut old: Vec<_> = others.collect();
    let limit = usize::try_from(snapshot.set.spec.revision_history_limit).unwrap_or(0);
    let excess = old.len().saturating_sub(limit);
    old.sort_by_key(age);
    old.retain(|(name, revision)| !revision.deleting && !used.contains(revision.hash(name)));
    old.truncate(excess);
    old
}
