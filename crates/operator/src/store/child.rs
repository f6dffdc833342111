//! What CronJobs have started, by the CronJob that controls it.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::cron_job::{Api, Child, ChildKind, Children};

use super::{Key, Row, Tables, Wake, held_at, in_scope};
use crate::gate::Kind;
use crate::slim::{SlimMeta, SlimNativeJob};
use crate::watch::{Held, Listed};

/// The children of one CronJob.
#[derive(Debug, Default)]
pub struct Family {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// Whose the CronJob is, as their references say.
    pub api: Api,
    /// Name of the CronJob, as their references say.
    pub cron_job: Arc<str>,
    /// By kind and name.
    pub children: Children,
}

/// Enters a child.
pub(super) fn enter(
    tables: &mut Tables,
    kind: ChildKind,
    meta: &SlimMeta,
    owner: Uid,
    child: Child,
    wakes: &mut Vec<Wake>,
) {
    let namespace = tables.strings.share(&meta.namespace);
    let reference = meta.controller("CronJob");
    let cron_job = tables
        .strings
        .share(reference.map_or("", |reference| &reference.name));
    let native = reference.is_some_and(|reference| reference.api_version.starts_with("batch/"));
    let family = tables.families.entry(owner).or_default();
    family.namespace = namespace;
    family.cron_job = cron_job;
    family.api = if native { Api::Native } else { Api::Carillon };
    let key = (kind, meta.name.as_str().into());
    let old = family.children.get(&key);
    // Most changes of a Job are counts of its pods.
    let changed = old.is_none_or(|old| {
        Child {
            rv: child.rv,
            ..old.clone()
        } != child
    });
    family.children.insert(key, child);
    if changed {
        wakes.push(Wake::Soon(Key::CronJob(owner)));
    }
}

/// Removes a child.
pub(super) fn leave(tables: &mut Tables, kind: ChildKind, meta: &SlimMeta, wakes: &mut Vec<Wake>) {
    let (Some(owner), Some(uid)) = (meta.cron_job(), meta.uid()) else {
        return;
    };
    let Some(family) = tables.families.get_mut(&owner) else {
        return;
    };
    let key = (kind, meta.name.as_str().into());
    if family
        .children
        .get(&key)
        .is_some_and(|child| child.uid == uid)
    {
        family.children.remove(&key);
        wakes.push(Wake::Soon(Key::CronJob(owner)));
    }
    if family.children.is_empty() {
        tables.families.remove(&owner);
    }
}

/// Removes the children of a kind that are not in a list.
pub(super) fn sweep(
    tables: &mut Tables,
    kind: ChildKind,
    namespace: Option<&str>,
    listed: &HashSet<Uid>,
    wakes: &mut Vec<Wake>,
) {
    tables.families.retain(|owner, family| {
        if !in_scope(&family.namespace, namespace) {
            return true;
        }
        let before = family.children.len();
        family
            .children
            .retain(|(of, _), child| *of != kind || listed.contains(&child.uid));
        if family.children.len() != before {
            wakes.push(Wake::Soon(Key::CronJob(*owner)));
        }
        !family.children.is_empty()
    });
}

impl Row for SlimNativeJob {
    const KIND: Kind = Kind::NativeJob;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        match self.child() {
            Some((owner, child)) => {
                enter(tables, ChildKind::Job, &self.metadata, owner, child, wakes);
            }
            None => self.leave(tables, wakes),
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        leave(tables, ChildKind::Job, &self.metadata, wakes);
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        sweep(tables, ChildKind::Job, namespace, listed, wakes);
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let (Some(owner), Some(uid)) = (object.cron_job(), object.uid()) else {
            return Held::LeftOut;
        };
        let key = (ChildKind::Job, object.name.as_str().into());
        let family = tables.families.get(&owner);
        let child = family.and_then(|family| family.children.get(&key));
        held_at(child.filter(|child| child.uid == uid).map(|child| child.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for family in tables.families.values() {
            if !in_scope(&family.namespace, namespace) {
                continue;
            }
            for ((kind, name), child) in &family.children {
                if *kind == ChildKind::Job {
                    each(name, child.uid, child.rv);
                }
            }
        }
    }
}
