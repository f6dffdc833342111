//! What CronJobs have started, by the CronJob that controls it.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::cron_job::{Api, Child, ChildKind, Children};

use super::{Key, Row, Tables, Wake, held_at, in_scope};
use crate::gate::Kind;
use crate::slim::{SlimMeta, SlimNativeJob};
use crate::watch::{Held, Listed};

/// The children of one CronJob; or a child that we hold and that has lost its CronJob, which is by
/// itself.
#[derive(Debug, Default)]
pub struct Family {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// Whose the CronJob is, as their references say.
    pub api: Api,
    /// Name of the CronJob, as their references say; empty when there is none.
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
    if tables
        .family_of
        .get(&child.uid)
        .is_some_and(|of| *of != owner)
    {
        leave(tables, kind, meta, wakes);
    }
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
    tables.family_of.insert(child.uid, owner);
    let (uid, rv) = (child.uid, child.rv);
    let key = (kind, meta.name.as_str().into());
    let new = child.clone();
    let old = family.children.insert(key, child);
    if let Some(other) = old.as_ref().filter(|old| old.uid != uid) {
        tables.family_of.remove(&other.uid);
    }
    // Most changes of a Job are counts of its pods.
    if old.is_none_or(|old| Child { rv, ..old } != new) {
        wakes.push(Wake::Soon(Key::CronJob(owner)));
    }
}

/// Removes a child.
pub(super) fn leave(tables: &mut Tables, kind: ChildKind, meta: &SlimMeta, wakes: &mut Vec<Wake>) {
    let Some(uid) = meta.uid() else { return };
    let Some(owner) = tables.family_of.remove(&uid) else {
        return;
    };
    wakes.push(Wake::Soon(Key::CronJob(owner)));
    let Some(family) = tables.families.get_mut(&owner) else {
        return;
    };
    let key = (kind, meta.name.as_str().into());
    family.children.remove(&key);
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
    let family_of = &mut tables.family_of;
    tables.families.retain(|owner, family| {
        if !in_scope(&family.namespace, namespace) {
            return true;
        }
        let before = family.children.len();
        family.children.retain(|(of, _), child| {
            let stays = *of != kind || listed.contains(&child.uid);
            if !stays {
                family_of.remove(&child.uid);
            }
            stays
        });
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
        let (Some(owner), Some(uid)) = (object.family(), object.uid()) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const CRON: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
    const CHILD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";

    fn uid(text: &str) -> Uid {
        text.parse().unwrap()
    }

    fn child(version: u64, owners: &Value, finalizers: &Value) -> SlimNativeJob {
        let job = json!({"metadata": {
            "name": "night-29453761", "namespace": "ops", "uid": CHILD,
            "resourceVersion": version.to_string(),
            "ownerReferences": owners, "finalizers": finalizers,
        }});
        serde_json::from_value(job).unwrap()
    }

    #[test]
    fn a_child_that_is_held_and_has_lost_its_cron_job_is_by_itself_until_it_is_let_go() {
        let tables = &mut Tables::default();
        let owner = json!([{
            "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob", "name": "night", "uid": CRON,
            "controller": true,
        }]);
        let (held, none) = (json!(["carillon.dev/run-tracking"]), json!([]));
        let woken = |tables: &mut Tables, child: SlimNativeJob| {
            let mut wakes = Vec::new();
            child.enter(tables, &mut wakes);
            wakes
        };
        let soon = |of: &str| Wake::Soon(Key::CronJob(uid(of)));
        assert_eq!(woken(tables, child(5, &owner, &held)), [soon(CRON)]);
        assert_eq!(&*tables.family(uid(CRON)).unwrap().cron_job, "night");
        let both = [soon(CRON), soon(CHILD)];
        assert_eq!(woken(tables, child(6, &none, &held)), both);
        assert!(tables.family(uid(CRON)).is_none());
        let alone = tables.family(uid(CHILD)).unwrap();
        assert_eq!((&*alone.cron_job, alone.children.len()), ("", 1));
        assert_eq!(woken(tables, child(7, &none, &none)), [soon(CHILD)]);
        assert!(tables.family(uid(CHILD)).is_none());
        assert!(tables.family_of.is_empty());
        assert_eq!(woken(tables, child(8, &none, &none)), []);
    }
}
