//! Pods of BroadcastJobs, by the job that controls them.

use std::collections::HashSet;

use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::{PodRow, Pods};
use carillon_plan::{ObjectKey, Uid};

use super::owned::Rows;
use super::{Key, Row, Tables, Wake, held_at};
use crate::controllers::broadcast_job::Remembered;
use crate::gate::Kind;
use crate::slim::SlimPod;
use crate::watch::{Held, Listed};

impl Rows for Pods {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl Row for SlimPod {
    const KIND: Kind = Kind::Pod;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let owner = tables.pods.owner(&self.metadata, BROADCAST_JOB);
        let owner = owner.filter(|owner| is_labelled(&self.metadata, owner));
        let before = self
            .metadata
            .uid()
            .and_then(|uid| tables.pods.owner_of(uid));
        if before.is_some() && before != owner.as_ref() {
            tables.forget_pod(&self.metadata, wakes);
        }
        let (Some(owner), Some((name, mut row))) = (owner, self.row(&mut tables.strings)) else {
            return;
        };
        let uid = row.uid;
        let pods = tables.pods.enter(&owner, uid);
        let old = pods.get(&name).filter(|old| old.uid == uid);
        let changed = old.is_none_or(|old| {
            row.remember(old);
            // Why a pod waits only matters when it has waited for too long.
            let unchanged = PodRow {
                rv: row.rv,
                waiting: row.waiting.clone(),
                ..old.clone()
            };
            unchanged != row
        });
        let replaced = pods.insert(name, row).filter(|old| old.uid != uid);
        if let Some(other) = replaced {
            tables.pods.forget(other.uid);
        }
        if changed {
            tables.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        tables.forget_pod(&self.metadata, wakes);
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let retain = |pods: &mut Pods, gone: &mut dyn FnMut(Uid)| {
            pods.retain(|_, pod| {
                let stays = listed.contains(&pod.uid);
                if !stays {
                    gone(pod.uid);
                }
                stays
            });
        };
        let mut owners = Vec::new();
        tables
            .pods
            .sweep(namespace, retain, |owner| owners.push(owner.clone()));
        for owner in owners {
            tables.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
        }
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let owner = object.owner(BROADCAST_JOB);
        let owner = owner.filter(|owner| is_labelled(object, owner));
        let held = object.uid().and_then(|uid| tables.pods.owner_of(uid));
        match (owner, held) {
            (None, None) => Held::LeftOut,
            (Some(owner), Some(held)) if owner == *held => {
                let pods = tables.pods.of(held);
                let row = pods.and_then(|pods| pods.get(&*object.name));
                held_at(row.map(|row| row.rv))
            }
            // Nobody's row, or somebody else's.
            _ => Held::Nothing,
        }
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (name, row) in tables.pods.in_scope(namespace).flatten() {
            each(name, row.uid, row.rv);
        }
    }
}

impl Tables {
    fn forget_pod(&mut self, pod: &Listed, wakes: &mut Vec<Wake>) {
        let Some(uid) = pod.uid() else { return };
        let owner = self.pods.leave(uid, |pods| {
            pods.remove(&*pod.name);
        });
        if let Some(owner) = owner {
            self.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
        }
    }

    /// Puts back what rows of `job` remembered of earlier states of their pods.
    pub fn recall(&mut self, job: &ObjectKey, remembered: &[Remembered]) {
        let Some(pods) = self.pods.of_mut(job) else {
            return;
        };
        for entry in remembered {
            let Some(row) = pods.get_mut(&*entry.pod) else {
                continue;
            };
            row.interrupted |= entry.interrupted;
            if let (Some(end), Some(words)) = (&mut row.end, &entry.end) {
                end.exit_code = words.exit_code;
                end.reason = words.reason.as_str().into();
                end.message = words.message.as_str().into();
            }
        }
    }
}

/// Whether a pod is labelled as one of the job that controls it. The label is how pods are found, the
/// reference is whose they are. Where the two differ somebody else wrote the label.
fn is_labelled(pod: &Listed, owner: &ObjectKey) -> bool {
    let labels = pod.labels.as_ref();
    labels.is_some_and(|labels| labels.job_uid.parse() == Ok(owner.uid))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use serde_json::json;

    fn text(n: u8) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
    }

    fn uid(n: u8) -> Uid {
        text(n).parse().unwrap()
    }

    /// The job `n`.
    fn job(namespace: &str, n: u8) -> Arc<ObjectKey> {
        ObjectKey::of(BROADCAST_JOB, namespace, "patch", uid(n))
    }

    /// Pod `n` of the job `of`, labelled as one of it.
    fn pod(n: u8, namespace: &str, of: u8) -> SlimPod {
        let pod = json!({"metadata": {
            "name": "patch-x", "namespace": namespace, "uid": text(n), "resourceVersion": "5",
            "labels": {"carillon.dev/broadcastjob-uid": text(of)},
            "ownerReferences": [job(namespace, of).reference()],
        }});
        serde_json::from_value(pod).unwrap()
    }

    fn woken(tables: &mut Tables, pod: SlimPod) -> Vec<Wake> {
        let mut wakes = Vec::new();
        pod.enter(tables, &mut wakes);
        wakes
    }

    fn soon(namespace: &str, n: u8) -> Wake {
        Wake::Soon(Key::BroadcastJob(job(namespace, n)))
    }

    #[test]
    fn a_copy_in_another_namespace_is_nobodys_and_leaves_the_original_alone() {
        let tables = &mut Tables::default();
        assert_eq!(woken(tables, pod(9, "ops", 1)), [soon("ops", 1)]);
        assert_eq!(woken(tables, pod(8, "evil", 1)), [soon("evil", 1)]);
        let pods = tables.pods(&job("ops", 1)).unwrap();
        assert_eq!((pods.len(), pods["patch-x"].uid), (1, uid(9)));
        let mut wakes = Vec::new();
        pod(8, "evil", 1).leave(tables, &mut wakes);
        assert_eq!(wakes, [soon("evil", 1)]);
        assert!(tables.pods(&job("ops", 1)).is_some());
    }

    #[test]
    fn a_pod_that_is_given_to_another_job_leaves_no_row_behind() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        let wakes = woken(tables, pod(9, "ops", 2));
        assert_eq!(wakes, [soon("ops", 1), soon("ops", 2)]);
        assert!(tables.pods(&job("ops", 1)).is_none());
        pod(9, "ops", 2).leave(tables, &mut Vec::new());
        assert!(tables.pods.is_empty());
    }

    #[test]
    fn a_pod_that_loses_owner_or_label_leaves_no_row_behind() {
        let take: [fn(&mut SlimPod); 2] = [
            |pod| pod.metadata.owner_references = None,
            |pod| pod.metadata.labels = None,
        ];
        for take in take {
            let tables = &mut Tables::default();
            woken(tables, pod(9, "ops", 1));
            let mut taken = pod(9, "ops", 1);
            take(&mut taken);
            // The audit sees what is held of an object that is no longer whose it was.
            assert_eq!(SlimPod::held(tables, &taken.metadata), Held::Nothing);
            assert_eq!(woken(tables, taken), [soon("ops", 1)]);
            assert!(tables.pods.is_empty());
        }
    }

    #[test]
    fn a_pod_in_the_place_of_another_one_of_its_name_replaces_it() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        woken(tables, pod(8, "ops", 1));
        // The deletion of the first comes late.
        pod(9, "ops", 1).leave(tables, &mut Vec::new());
        assert_eq!(tables.pods(&job("ops", 1)).unwrap()["patch-x"].uid, uid(8));
        SlimPod::sweep(tables, None, &HashSet::new(), &mut Vec::new());
        assert!(tables.pods.is_empty());
    }

    #[test]
    fn an_owner_of_another_group_or_name_is_not_the_job() {
        for (field, value) in [
            ("apiVersion", "example.com/v1"),
            ("kind", "CronJob"),
            ("name", "other"),
        ] {
            let tables = &mut Tables::default();
            let mut reference = job("ops", 1).reference();
            reference[field] = json!(value);
            let mut pod = pod(9, "ops", 1);
            let references = serde_json::from_value(json!([reference]));
            pod.metadata.owner_references = Some(references.unwrap());
            woken(tables, pod);
            assert!(tables.pods(&job("ops", 1)).is_none(), "{field}");
        }
    }
}
