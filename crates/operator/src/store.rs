//! The cache: what the watches have told us, by owner, in compact rows.
//!
//! One task per kind writes (through its [`StoreSink`]), workers read borrowed rows under the
//! shared lock while they plan, which takes milliseconds. Each change says which jobs it concerns.

pub(crate) mod dependents;
mod journal;
mod key;
pub mod observe;
pub(crate) mod owned;
mod pod_table;
mod queues;
mod row;
mod scope;
mod shared;
mod sink;
mod size;
mod tables;

pub use self::journal::Journal;
pub use self::key::{Key, Wake};
pub use self::pod_table::PodTable;
pub use self::queues::{EachKey, Queue, Queues};
pub use self::row::Row;
pub(crate) use self::row::watched;
pub(crate) use self::scope::{held_at, in_scope, is_gone};
pub use self::shared::Store;
pub use self::sink::StoreSink;
pub use self::size::{Sizes, entry, text};
pub use self::tables::Tables;

#[cfg(test)]
mod tests {
    use super::scope::held_at;
    use super::*;
    use crate::gate::Kind;
    use crate::kinds::broadcast_job::{SlimBroadcastJob, SlimSlice};
    use crate::slim::{SlimNode, SlimPod};
    use crate::watch::{Held, Listed};
    use serde_json::{Value, json};

    fn uid(n: u64) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")
    }

    /// Metadata of an object that belongs to job 1.
    fn meta(n: u64, rv: u64) -> Value {
        json!({
            "name": format!("o{n}"), "namespace": "ops", "uid": uid(n), "resourceVersion": rv.to_string(),
            "labels": {"carillon.dev/broadcastjob-uid": uid(1), "carillon.dev/slice-index": "0"},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "o1", "uid": uid(1), "controller": true}],
        })
    }

    /// What is held of the object after it was entered, and what was before.
    fn audit<R: Row>(tables: &mut Tables, metadata: &Value, more: &Value) -> [Held; 2] {
        let mut object = more.clone();
        object["metadata"] = metadata.clone();
        let object: R = serde_json::from_value(object).unwrap();
        let listed: Listed = serde_json::from_value(metadata.clone()).unwrap();
        let before = R::held(tables, &listed);
        object.enter(tables, &mut Vec::new());
        let mut named = None;
        R::each_held(tables, Some("ops"), &mut |_, uid, rv| {
            if Some(uid) == listed.uid() {
                named = Some(rv);
            }
        });
        let after = R::held(tables, &listed);
        assert_eq!(held_at(named) == after, after != Held::LeftOut);
        [before, after]
    }

    #[test]
    fn what_is_held_of_each_kind_is_known_by_uid_and_version() {
        let tables = &mut Tables::default();
        let job = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
        // The second time nothing but the version is new, as in a node's heartbeat.
        for (rv, before) in [(5, None), (6, Some(5))] {
            let expected = [held_at(before), Held::At(rv)];
            assert_eq!(
                audit::<SlimBroadcastJob>(tables, &meta(1, rv), &job),
                expected
            );
            assert_eq!(
                audit::<SlimNode>(tables, &meta(2, rv), &json!({})),
                expected
            );
            assert_eq!(audit::<SlimPod>(tables, &meta(3, rv), &json!({})), expected);
            assert_eq!(
                audit::<SlimSlice>(tables, &meta(4, rv), &json!({})),
                expected
            );
        }
    }

    #[test]
    fn what_has_no_row_on_purpose_is_left_out() {
        let tables = &mut Tables::default();
        let mut foreign = meta(3, 5);
        foreign["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "web", "uid": "w", "controller": true}]);
        let left_out = [Held::LeftOut; 2];
        let mut unmarked = foreign.clone();
        unmarked["labels"] = json!({});
        assert_eq!(audit::<SlimPod>(tables, &unmarked, &json!({})), left_out);
        assert_eq!(audit::<SlimPod>(tables, &foreign, &json!({})), left_out);
        // What has the labels alone, and such a name, may have been taken from its job.
        let mut taken = foreign.clone();
        taken["name"] = json!("o1-bcdfghjklm");
        taken["labels"]["carillon.dev/broadcastjob-name"] = json!("o1");
        let taken = audit::<SlimPod>(tables, &taken, &json!({}));
        assert_eq!(taken, [Held::Nothing, Held::At(5)]);
        assert_eq!(audit::<SlimSlice>(tables, &foreign, &json!({})), left_out);
        // Unreadable, and yet not to be taken for lost.
        let unreadable = json!({"results": [{"state": "Later"}]});
        let held = audit::<SlimSlice>(tables, &meta(4, 5), &unreadable);
        assert_eq!(held, [Held::Nothing, Held::At(5)]);
        // Two slices of one index: the later one is kept.
        audit::<SlimSlice>(tables, &meta(5, 6), &json!({}));
        let listed: Listed = serde_json::from_value(meta(6, 7)).unwrap();
        assert_eq!(SlimSlice::held(tables, &listed), Held::LeftOut);
    }

    #[test]
    fn what_is_seen_everywhere_does_not_hide_what_is_seen_in_a_namespace() {
        let mut tables = Tables::default();
        let mut saw = |scope: Option<&str>, kind, rv| {
            tables.seen_by(scope).raise(kind, rv);
        };
        saw(None, Kind::Node, 9);
        saw(Some("a"), Kind::Pod, 7);
        saw(Some("b"), Kind::Pod, 8);
        let seen = |namespace| Kind::ALL.map(|kind| tables.seen(namespace).of(kind));
        assert_eq!(seen("a")[..4], [7, 0, 0, 9]);
        assert_eq!(seen("b")[..4], [8, 0, 0, 9]);
        assert_eq!(seen("c")[..4], [0, 0, 0, 9]);
    }
}
