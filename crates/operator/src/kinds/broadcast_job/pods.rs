//! Pods of BroadcastJobs, by the job that controls them.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::broadcast_job::TakenPods;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::PodRow;
use carillon_plan::{ObjectKey, Uid};

use super::Remembered;
use super::pod_rows::PodRows;
use super::tables::CONTROLLER;
use super::taken::taken_from;
use crate::slim::{AllLabels, NamesJob, SlimMeta, SlimPod};
use crate::store::{PodTable, Tables, Wake, held_at};
use crate::watch::{Held, Listed};

/// The rows of pods of BroadcastJobs.
#[derive(Debug)]
pub(super) struct BroadcastJobPods;

impl PodTable for BroadcastJobPods {
    fn enter(&self, tables: &mut Tables, pod: &SlimPod, wakes: &mut Vec<Wake>) {
        let owner = tables
            .broadcast_jobs
            .pods
            .owner(&pod.metadata, BROADCAST_JOB);
        let owner = owner.filter(|owner| pod.metadata.is_labelled(owner));
        let before = pod.metadata.uid();
        let before = before.and_then(|uid| tables.broadcast_jobs.pods.owner_of(uid));
        // What was seen of it stays true whosever it is.
        let mut earlier = None;
        if before.is_some() && before != owner.as_ref() {
            earlier = tables.forget_pod(&pod.metadata, wakes);
        }
        let Some(owner) = owner else {
            let was = taken_from(&pod.metadata);
            let known = pod.metadata.uid();
            let known = known.and_then(|uid| tables.broadcast_jobs.taken_pods.owner_of(uid));
            if known != was.as_ref() {
                let taken = tables.forget_taken_pod(&pod.metadata, wakes);
                earlier = earlier.or(taken);
            }
            tables.enter_taken_pod(pod, earlier.as_ref(), wakes);
            return;
        };
        let taken = tables.forget_taken_pod(&pod.metadata, wakes);
        earlier = earlier.or(taken);
        let Some((name, mut row)) = pod.row(&mut tables.strings) else {
            return;
        };
        if let Some(earlier) = &earlier {
            row.remember(earlier);
        }
        let uid = row.uid;
        let pods = tables.broadcast_jobs.pods.enter(&owner, uid);
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
        let replaced = pods.put(name, row).filter(|old| old.uid != uid);
        if let Some(other) = replaced {
            tables.broadcast_jobs.pods.forget(other.uid);
        }
        if changed {
            tables.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::soon(CONTROLLER, owner));
        }
    }

    fn leave(&self, tables: &mut Tables, pod: &SlimMeta<AllLabels>, wakes: &mut Vec<Wake>) {
        tables.forget_pod(pod, wakes);
        tables.forget_taken_pod(pod, wakes);
    }

    fn sweep(
        &self,
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let mut owners = Vec::new();
        let mut changed = |owner: &Arc<ObjectKey>| owners.push(owner.clone());
        let pods = &mut tables.broadcast_jobs.pods;
        pods.sweep(namespace, listed, PodRows::retain, &mut changed);
        let retain = |pods: &mut TakenPods, stays: &mut dyn FnMut(Uid) -> bool| {
            pods.retain(|_, taken| stays(taken.pod.uid));
        };
        let taken = &mut tables.broadcast_jobs.taken_pods;
        taken.sweep(namespace, listed, retain, &mut changed);
        for owner in owners {
            tables.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::soon(CONTROLLER, owner));
        }
    }

    fn held(&self, tables: &Tables, pod: &Listed) -> Held {
        held(tables, pod)
    }

    fn each_held(
        &self,
        tables: &Tables,
        namespace: Option<&str>,
        each: &mut dyn FnMut(&str, Uid, u64),
    ) {
        for (name, row) in tables
            .broadcast_jobs
            .pods
            .in_scope(namespace)
            .flat_map(|pods| pods.iter())
        {
            each(name, row.uid, row.rv);
        }
        for (name, taken) in tables
            .broadcast_jobs
            .taken_pods
            .in_scope(namespace)
            .flatten()
        {
            each(name, taken.pod.uid, taken.pod.rv);
        }
    }
}

/// What is held of a pod.
fn held<L: NamesJob>(tables: &Tables, object: &SlimMeta<L>) -> Held {
    let owner = object.owner(BROADCAST_JOB);
    let owner = owner.filter(|owner| object.is_labelled(owner));
    let held = object
        .uid()
        .and_then(|uid| tables.broadcast_jobs.pods.owner_of(uid));
    match (owner, held) {
        (None, None) => {
            let held = object
                .uid()
                .and_then(|uid| tables.broadcast_jobs.taken_pods.owner_of(uid));
            match (taken_from(object), held) {
                (None, None) => Held::LeftOut,
                (Some(job), Some(held)) if job == *held => {
                    let pods = tables.broadcast_jobs.taken_pods.of(held);
                    let taken = pods.and_then(|pods| pods.get(&*object.name));
                    held_at(taken.map(|taken| taken.pod.rv))
                }
                _ => Held::Nothing,
            }
        }
        (Some(owner), Some(held)) if owner == *held => {
            let pods = tables.broadcast_jobs.pods.of(held);
            let row = pods.and_then(|pods| pods.get(&*object.name));
            held_at(row.map(|row| row.rv))
        }
        // Nobody's row, or somebody else's.
        _ => Held::Nothing,
    }
}

impl Tables {
    /// The row of the pod, if there was one.
    fn forget_pod<L>(&mut self, pod: &SlimMeta<L>, wakes: &mut Vec<Wake>) -> Option<PodRow> {
        let mut row = None;
        let owner = self.broadcast_jobs.pods.leave(pod.uid()?, |pods| {
            row = pods.remove(&pod.name);
        });
        if let Some(owner) = owner {
            self.wake_whose_turn_it_is(&owner, wakes);
            wakes.push(Wake::soon(CONTROLLER, owner));
        }
        row
    }

    /// Puts back what rows of pods in a namespace remembered of their earlier states.
    pub fn recall(&mut self, namespace: &str, remembered: &[Remembered]) {
        for entry in remembered {
            let name = &*entry.pod;
            let mut controlled = self.broadcast_jobs.pods.in_namespace_mut(namespace);
            let controlled = controlled.find_map(|pods| pods.get_mut(name));
            let mut taken = self.broadcast_jobs.taken_pods.in_namespace_mut(namespace);
            let taken = taken.find_map(|pods| pods.get_mut(name));
            let Some(row) = controlled.or_else(|| taken.map(|taken| &mut taken.pod)) else {
                continue;
            };
            row.interrupted |= entry.interrupted;
            row.started = row.started.or(entry.started);
            if let (Some(end), Some(words)) = (&mut row.end, &entry.end) {
                end.exit_code = words.exit_code;
                end.reason = words.reason.as_str().into();
                end.message = words.message.as_str().into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Row;
    use carillon_api::names::{LABEL_BROADCAST_JOB_NAME, LABEL_BROADCAST_JOB_UID};
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
            "name": "patch-bcdfghjklm", "namespace": namespace, "uid": text(n), "resourceVersion": "5",
            "labels": {
                "carillon.dev/broadcastjob-uid": text(of), "carillon.dev/broadcastjob-name": "patch",
            },
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
        Wake::soon(CONTROLLER, job(namespace, n))
    }

    #[test]
    fn a_copy_in_another_namespace_is_nobodys_and_leaves_the_original_alone() {
        let tables = &mut Tables::default();
        assert_eq!(woken(tables, pod(9, "ops", 1)), [soon("ops", 1)]);
        assert_eq!(woken(tables, pod(8, "evil", 1)), [soon("evil", 1)]);
        let pods = tables.broadcast_jobs.pods(&job("ops", 1)).unwrap();
        assert_eq!((pods.len(), pods["patch-bcdfghjklm"].uid), (1, uid(9)));
        let mut wakes = Vec::new();
        pod(8, "evil", 1).leave(tables, &mut wakes);
        assert_eq!(wakes, [soon("evil", 1)]);
        assert!(tables.broadcast_jobs.pods(&job("ops", 1)).is_some());
    }

    #[test]
    fn a_pod_that_is_given_to_another_job_leaves_no_row_behind() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        let wakes = woken(tables, pod(9, "ops", 2));
        assert_eq!(wakes, [soon("ops", 1), soon("ops", 2)]);
        assert!(tables.broadcast_jobs.pods(&job("ops", 1)).is_none());
        pod(9, "ops", 2).leave(tables, &mut Vec::new());
        assert!(tables.broadcast_jobs.pods.is_empty());
    }

    type Take = fn(&mut SlimPod);

    fn relabel(pod: &mut SlimPod, label: &str, value: &str) {
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(label.to_owned(), value.to_owned());
    }

    const NO_OWNER: Take = |pod| pod.metadata.owner_references = None;
    const NO_LABEL: Take = |pod| pod.metadata.labels = None;

    /// Pod 9 of job 1, changed.
    fn changed(rv: u64, take: &[Take]) -> SlimPod {
        let mut pod = pod(9, "ops", 1);
        pod.metadata.resource_version = rv.to_string();
        for take in take {
            take(&mut pod);
        }
        pod
    }

    fn taken(tables: &Tables) -> Vec<(&str, &str)> {
        let pods = tables
            .broadcast_jobs
            .taken_pods(&job("ops", 1))
            .into_iter()
            .flatten();
        pods.map(|(name, taken)| (&**name, &*taken.why)).collect()
    }

    #[test]
    fn a_pod_that_loses_its_label_leaves_no_row_behind() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        let pod = changed(6, &[NO_LABEL]);
        // The audit sees what is held of an object that is no longer whose it was.
        assert_eq!(held(tables, &pod.metadata), Held::Nothing);
        assert_eq!(woken(tables, pod), [soon("ops", 1)]);
        assert!(
            tables.broadcast_jobs.pods.is_empty() && tables.broadcast_jobs.taken_pods.is_empty()
        );
    }

    #[test]
    fn a_pod_that_loses_its_owner_is_one_that_was_taken_until_it_gets_it_back_or_is_gone() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        let without = || changed(6, &[NO_OWNER]);
        assert_eq!(held(tables, &without().metadata), Held::Nothing);
        let both = [soon("ops", 1), soon("ops", 1)];
        assert_eq!(woken(tables, without()), both);
        assert!(tables.broadcast_jobs.pods.is_empty());
        assert_eq!(taken(tables), [("patch-bcdfghjklm", "nothing controls it")]);
        assert_eq!(held(tables, &without().metadata), held_at(Some(6)));
        assert_eq!(woken(tables, changed(7, &[])), both);
        assert!(
            tables.broadcast_jobs.taken_pods.is_empty() && !tables.broadcast_jobs.pods.is_empty()
        );
        // In the list that follows there is none.
        woken(tables, changed(8, &[NO_OWNER]));
        let mut wakes = Vec::new();
        SlimPod::sweep(tables, None, &HashSet::new(), &mut wakes);
        assert_eq!(wakes, [soon("ops", 1)]);
        assert!(
            tables.broadcast_jobs.pods.is_empty() && tables.broadcast_jobs.taken_pods.is_empty()
        );
        woken(tables, changed(8, &[NO_OWNER]));
        woken(tables, changed(9, &[NO_OWNER, NO_LABEL]));
        assert!(
            tables.broadcast_jobs.pods.is_empty() && tables.broadcast_jobs.taken_pods.is_empty()
        );
    }

    #[test]
    fn what_was_seen_of_a_pod_stays_true_when_it_is_taken_and_when_it_is_given_back() {
        // It is told to stop, and has ended by the time it is seen again.
        let told = |phase: &str, owners: serde_json::Value| -> SlimPod {
            let pod = json!({"metadata": {
                "name": "patch-bcdfghjklm", "namespace": "ops", "uid": text(9), "resourceVersion": "5",
                "deletionTimestamp": "2026-01-01T00:01:00Z",
                "labels": {
                    "carillon.dev/broadcastjob-uid": text(1), "carillon.dev/broadcastjob-name": "patch",
                },
                "ownerReferences": owners,
            }, "status": {"phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        let owner = || json!([job("ops", 1).reference()]);
        let tables = &mut Tables::default();
        woken(tables, told("Running", owner()));
        woken(tables, told("Succeeded", json!([])));
        let taken = &tables.broadcast_jobs.taken_pods(&job("ops", 1)).unwrap()["patch-bcdfghjklm"];
        assert!(taken.pod.interrupted);
        let tables = &mut Tables::default();
        woken(tables, told("Running", json!([])));
        woken(tables, told("Succeeded", owner()));
        assert!(
            tables.broadcast_jobs.pods(&job("ops", 1)).unwrap()["patch-bcdfghjklm"].interrupted
        );
    }

    #[test]
    fn a_pod_without_an_owner_is_of_the_job_that_its_labels_and_its_name_name() {
        let tables = &mut Tables::default();
        woken(tables, changed(6, &[NO_OWNER]));
        assert_eq!(taken(tables).len(), 1);
        // Its job would be asked for by the wrong name, and found to be gone.
        let misnamed: Take = |pod| relabel(pod, LABEL_BROADCAST_JOB_NAME, "x");
        woken(tables, changed(7, &[NO_OWNER, misnamed]));
        assert!(tables.broadcast_jobs.taken_pods.is_empty());
        let elsewhere: Take = |pod| pod.metadata.namespace = "evil".to_owned();
        woken(tables, changed(8, &[NO_OWNER, elsewhere]));
        assert!(taken(tables).is_empty());
    }

    #[test]
    fn a_pod_whose_label_names_another_job_stays_with_the_one_that_controls_it() {
        let tables = &mut Tables::default();
        let relabelled: Take = |pod| relabel(pod, LABEL_BROADCAST_JOB_UID, &text(77));
        let wakes = woken(tables, changed(6, &[relabelled]));
        assert_eq!(wakes, [soon("ops", 1)]);
        assert_eq!(
            taken(tables).len(),
            1,
            "{:?}",
            tables.broadcast_jobs.taken_pods
        );
    }

    #[test]
    fn a_pod_that_is_given_to_another_controller_says_to_which() {
        let tables = &mut Tables::default();
        let given: Take = |pod| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "w", "controller": true}]);
            pod.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
        };
        woken(tables, changed(6, &[given]));
        let said = [("patch-bcdfghjklm", "it is controlled by ReplicaSet web")];
        assert_eq!(taken(tables), said);
    }

    #[test]
    fn a_pod_in_the_place_of_another_one_of_its_name_replaces_it() {
        let tables = &mut Tables::default();
        woken(tables, pod(9, "ops", 1));
        woken(tables, pod(8, "ops", 1));
        // The deletion of the first comes late.
        pod(9, "ops", 1).leave(tables, &mut Vec::new());
        assert_eq!(
            tables.broadcast_jobs.pods(&job("ops", 1)).unwrap()["patch-bcdfghjklm"].uid,
            uid(8)
        );
        SlimPod::sweep(tables, None, &HashSet::new(), &mut Vec::new());
        assert!(tables.broadcast_jobs.pods.is_empty());
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
            assert!(
                tables.broadcast_jobs.pods(&job("ops", 1)).is_none(),
                "{field}"
            );
        }
    }
}
