//! What CronJobs have started, by the CronJob that controls it; or a run that we hold and that has lost
//! its CronJob, which is by itself.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::cron_job::{Child, ChildKind, Children};
use carillon_plan::object_key::JOB;
use carillon_plan::{ObjectKey, Uid};

use super::child::SlimNativeJob;
use super::tables::CONTROLLER;
use crate::gate::Kind;
use crate::slim::SlimMeta;
use crate::store::owned::Rows;
use crate::store::{Row, Tables, Wake, held_at};
use crate::watch::{Held, Listed};

impl Rows for Children {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

/// Enters what may be a child: `child` has its family and what has to be known of it, if it is one.
pub(in crate::kinds) fn enter(
    tables: &mut Tables,
    kind: ChildKind,
    meta: &SlimMeta,
    child: Option<(Arc<ObjectKey>, Child)>,
    wakes: &mut Vec<Wake>,
) {
    let before = meta
        .uid()
        .and_then(|uid| tables.cron_jobs.children.owner_of(uid));
    if before.is_some() && before != child.as_ref().map(|(family, _)| family) {
        leave(tables, kind, meta, wakes);
    }
    let Some((family, child)) = child else { return };
    let (uid, rv) = (child.uid, child.rv);
    let key = (kind, meta.name.as_str().into());
    let new = child.clone();
    let old = tables
        .cron_jobs
        .children
        .enter(&family, uid)
        .insert(key, child);
    if let Some(other) = old.as_ref().filter(|old| old.uid != uid) {
        tables.cron_jobs.children.forget(other.uid);
    }
    // Most changes of a Job are counts of its pods.
    if old.is_none_or(|old| Child { rv, ..old } != new) {
        wakes.push(Wake::soon(CONTROLLER, family));
    }
}

/// Removes a child.
pub(in crate::kinds) fn leave(
    tables: &mut Tables,
    kind: ChildKind,
    meta: &SlimMeta,
    wakes: &mut Vec<Wake>,
) {
    let Some(uid) = meta.uid() else { return };
    let family = tables.cron_jobs.children.leave(uid, |children| {
        children.remove(&(kind, meta.name.as_str().into()));
    });
    wakes.extend(family.map(|family| Wake::soon(CONTROLLER, family)));
}

/// Removes the children of a kind that are not in a list.
pub(in crate::kinds) fn sweep(
    tables: &mut Tables,
    kind: ChildKind,
    namespace: Option<&str>,
    listed: &HashSet<Uid>,
    wakes: &mut Vec<Wake>,
) {
    let retain = |children: &mut Children, stays: &mut dyn FnMut(Uid) -> bool| {
        children.retain(|(of, _), child| *of != kind || stays(child.uid));
    };
    tables
        .cron_jobs
        .children
        .sweep(namespace, listed, retain, |family| {
            wakes.push(Wake::soon(CONTROLLER, family.clone()));
        });
}

impl Row for SlimNativeJob {
    const KIND: Kind = Kind::NativeJob;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        enter(tables, ChildKind::Job, &self.metadata, self.child(), wakes);
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
        let held = object
            .uid()
            .and_then(|uid| tables.cron_jobs.children.owner_of(uid));
        match (object.family(JOB), held) {
            (None, None) => Held::LeftOut,
            (Some(family), Some(held)) if family == *held => {
                let key = (ChildKind::Job, object.name.as_str().into());
                let children = tables.cron_jobs.children.of(held);
                let child = children.and_then(|children| children.get(&key));
                held_at(child.map(|child| child.rv))
            }
            _ => Held::Nothing,
        }
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for ((kind, name), child) in tables.cron_jobs.children.in_scope(namespace).flatten() {
            if *kind == ChildKind::Job {
                each(name, child.uid, child.rv);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_plan::object_key::{ApiKind, CRON_JOB};
    use serde_json::{Value, json};

    const CRON: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
    const CHILD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";

    fn key(kind: ApiKind, name: &str, uid: &str) -> Arc<ObjectKey> {
        ObjectKey::of(kind, "ops", name, uid.parse().unwrap())
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
    fn a_child_that_is_held_and_has_lost_its_cron_job_is_by_itself_until_it_is_released() {
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
        let (cron, alone) = (
            key(CRON_JOB, "night", CRON),
            key(JOB, "night-29453761", CHILD),
        );
        let soon = |of: &Arc<ObjectKey>| Wake::soon(CONTROLLER, of.clone());
        assert_eq!(woken(tables, child(5, &owner, &held)), [soon(&cron)]);
        assert_eq!(tables.cron_jobs.children(&cron).unwrap().len(), 1);
        let both = [soon(&cron), soon(&alone)];
        assert_eq!(woken(tables, child(6, &none, &held)), both);
        assert!(tables.cron_jobs.children(&cron).is_none());
        assert_eq!(tables.cron_jobs.children(&alone).unwrap().len(), 1);
        assert_eq!(woken(tables, child(7, &none, &none)), [soon(&alone)]);
        assert!(tables.cron_jobs.children(&alone).is_none());
        assert!(tables.cron_jobs.children.is_empty());
        assert_eq!(woken(tables, child(8, &none, &none)), []);
    }

    #[test]
    fn a_run_belongs_to_the_cron_job_of_its_namespace_its_api_and_its_name() {
        for (namespace, api_version, name) in [
            ("evil", "carillon.dev/v1alpha1", "night"),
            ("ops", "batch/v1", "night"),
            ("ops", "example.com/v1", "night"),
            ("ops", "carillon.dev/v1alpha1", "other"),
        ] {
            let tables = &mut Tables::default();
            let owner = json!([{
                "apiVersion": api_version, "kind": "CronJob", "name": name, "uid": CRON,
                "controller": true,
            }]);
            let mut child = child(5, &owner, &json!(["carillon.dev/run-tracking"]));
            child.metadata.namespace = namespace.to_owned();
            child.enter(tables, &mut Vec::new());
            let cron = key(CRON_JOB, "night", CRON);
            assert!(
                tables.cron_jobs.children(&cron).is_none(),
                "{namespace} {api_version} {name}"
            );
        }
    }
}
