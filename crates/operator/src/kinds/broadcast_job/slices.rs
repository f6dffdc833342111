//! Result slices, by the job that controls them.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_api::names::LABEL_BROADCAST_JOB_UID;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::{ObjectKey, Uid};

use super::ledger::{Ledger, Unreadable};
use super::slice::SlimSlice;
use super::tables::CONTROLLER;
use crate::gate::Kind;
use crate::slim::SlimMeta;
use crate::store::{Row, Tables, Wake, held_at};
use crate::watch::{Held, Listed};

/// The retry of which a slice has stayed: garbage collection takes its reference off when it is gone, and
/// leaves that of the first job. The labels still name it.
fn left_by(meta: &SlimMeta) -> Option<Arc<ObjectKey>> {
    let is_left = !meta.has_controller() && meta.has_owner(BROADCAST_JOB);
    let retry = meta.labelled_job().filter(|_| is_left);
    retry.filter(|retry| !retry.name.is_empty())
}

impl Row for SlimSlice {
    const KIND: Kind = Kind::Slice;
    const LABEL: &'static str = LABEL_BROADCAST_JOB_UID;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(uid) = self.metadata.uid() else {
            return;
        };
        let owner = tables
            .broadcast_jobs
            .slices
            .owner(&self.metadata, BROADCAST_JOB);
        let owner = owner.or_else(|| left_by(&self.metadata));
        let before = tables.broadcast_jobs.slices.owner_of(uid);
        if before.is_some() && before != owner.as_ref() {
            tables.forget_slice(uid, wakes);
        }
        let Some(owner) = owner else { return };
        let slice = self.row(&mut tables.strings);
        let ledger = tables.broadcast_jobs.slices.enter(&owner, uid);
        ledger.remove(uid);
        let replaced = match slice {
            Ok(slice) => ledger.put(slice),
            Err(why) => {
                let rv = self.metadata.rv();
                ledger.unreadable.insert(uid, Unreadable { rv, why });
                None
            }
        };
        if let Some(other) = replaced {
            tables.broadcast_jobs.slices.forget(other);
        }
        wakes.push(Wake::soon(CONTROLLER, owner));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        if let Some(uid) = self.metadata.uid() {
            tables.forget_slice(uid, wakes);
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let retain = |ledger: &mut Ledger, stays: &mut dyn FnMut(Uid) -> bool| {
            ledger.slices.retain(|slice| stays(slice.uid));
            ledger.unreadable.retain(|uid, _| stays(*uid));
        };
        tables
            .broadcast_jobs
            .slices
            .sweep(namespace, listed, retain, |owner| {
                wakes.push(Wake::soon(CONTROLLER, owner.clone()));
            });
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let Some(uid) = object.uid() else {
            return Held::LeftOut;
        };
        let owner = object.owner(BROADCAST_JOB).or_else(|| left_by(object));
        let ledger = owner
            .as_ref()
            .and_then(|owner| tables.broadcast_jobs.slices.of(owner));
        match (owner, tables.broadcast_jobs.slices.owner_of(uid)) {
            (None, None) => Held::LeftOut,
            (Some(owner), Some(held)) if owner == *held => {
                let mut versions = ledger.into_iter().flat_map(Ledger::versions);
                let found = versions.find(|(_, held, _)| *held == uid);
                held_at(found.map(|(_, _, rv)| rv))
            }
            // Of several slices with one index, which only somebody else can make, one is kept.
            (Some(_), None) if ledger.is_some_and(|ledger| ledger.has_index_of(object)) => {
                Held::LeftOut
            }
            _ => Held::Nothing,
        }
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        let ledgers = tables.broadcast_jobs.slices.in_scope(namespace);
        for (index, uid, rv) in ledgers.flat_map(Ledger::versions) {
            let name = index.map_or_else(String::new, |index| format!("slice {index}"));
            each(&name, uid, rv);
        }
    }
}

impl Tables {
    fn forget_slice(&mut self, uid: Uid, wakes: &mut Vec<Wake>) {
        let owner = self
            .broadcast_jobs
            .slices
            .leave(uid, |ledger| ledger.remove(uid));
        wakes.extend(owner.map(|owner| Wake::soon(CONTROLLER, owner)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
    const FIRST: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";

    #[test]
    fn what_a_retry_has_done_is_known_as_its_own_when_it_is_gone() {
        let mut tables = Tables::default();
        let reference = |uid: &str, controller: Value| {
            json!({"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "name": "fix",
                "uid": uid, "controller": controller})
        };
        let owned = [reference(JOB, json!(true)), reference(FIRST, Value::Null)];
        let meta = |rv: u64, owners: &[Value]| {
            json!({"name": "fix-retry-1-results-0", "namespace": "ops", "resourceVersion": rv.to_string(),
                "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000003", "ownerReferences": owners,
                "labels": {"carillon.dev/broadcastjob-name": "fix", "carillon.dev/broadcastjob-uid": JOB,
                    "carillon.dev/slice-index": "0"}})
        };
        let key = |uid: &str| ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid.parse().unwrap());
        let cases: [(&[Value], bool); 4] = [
            (&owned, true),
            (&owned[1..], true),
            (&[], false),
            (&owned[1..], true),
        ];
        for (rv, (owners, held)) in (5..).zip(cases) {
            let meta = meta(rv, owners);
            let object = json!({"metadata": meta, "sealed": true, "results": []});
            let slice: SlimSlice = serde_json::from_value(object).unwrap();
            slice.enter(&mut tables, &mut Vec::new());
            let listed: Listed = serde_json::from_value(meta).unwrap();
            let expected = if held { Held::At(rv) } else { Held::LeftOut };
            assert_eq!(SlimSlice::held(&tables, &listed), expected);
            assert_eq!(
                tables.broadcast_jobs.ledger(&key(JOB)).is_some(),
                held,
                "{owners:?}"
            );
            assert!(tables.broadcast_jobs.ledger(&key(FIRST)).is_none());
        }
    }
}
