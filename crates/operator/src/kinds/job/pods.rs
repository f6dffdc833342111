//! Pods of Jobs, and pods that nothing controls: Jobs adopt those that they select, and none may keep our finalizer.

#[cfg(test)]
mod orphans;

use std::collections::HashSet;

use carillon_plan::Uid;
use carillon_plan::object_key::{ApiKind, JOB, POD};

use super::tables::{CONTROLLER, ORPHAN_PODS};
use crate::slim::{AllLabels, SlimMeta, SlimPod};
use crate::store::{PodTable, Tables, Wake};
use crate::watch::{Held, Listed};

/// Kinds whose pods are kept.
const KINDS: [ApiKind; 1] = [JOB];

/// The rows of pods of Jobs, and of pods that nothing controls.
#[derive(Debug)]
pub(super) struct PodsOfJobs;

impl PodTable for PodsOfJobs {
    fn enter(&self, tables: &mut Tables, pod: &SlimPod, wakes: &mut Vec<Wake>) {
        let (meta, jobs) = (&pod.metadata, &mut tables.jobs);
        let Some(uid) = meta.uid() else {
            return;
        };
        if !pod.has_ended_tracked() {
            jobs.counts.kept.remove(&uid);
        } else if jobs.counts.kept.insert(uid) {
            jobs.counts.ever_kept += 1;
        }
        if jobs.pods.leaves_out(meta, &KINDS) {
            return;
        }
        let before = jobs.pods.known(meta);
        let Some(row) = pod.job_row(before, &mut tables.strings) else {
            return;
        };
        let tracked = row.tracked;
        let concerns = jobs.pods.enter(meta, &KINDS, row, &mut tables.strings);
        let owners = concerns.owners.into_iter();
        wakes.extend(owners.map(|owner| Wake::soon(CONTROLLER, owner)));
        if let Some(labels) = concerns.orphan {
            let selecting = jobs.by_key.selecting(&meta.namespace, &labels);
            wakes.extend(selecting.map(|job| Wake::soon(CONTROLLER, job)));
        }
        if tracked && !meta.has_controller() {
            wakes.extend(meta.key(POD).map(|pod| Wake::now(ORPHAN_PODS, pod)));
        }
    }

    fn leave(&self, tables: &mut Tables, pod: &SlimMeta<AllLabels>, wakes: &mut Vec<Wake>) {
        let owner = tables.jobs.pods.leave(pod);
        wakes.extend(owner.map(|owner| Wake::soon(CONTROLLER, owner)));
        if let Some(uid) = pod.uid() {
            tables.jobs.counts.kept.remove(&uid);
        }
    }

    fn sweep(
        &self,
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        if namespace.is_none() {
            tables.jobs.counts.kept.retain(|uid| listed.contains(uid));
        }
        let owners = tables.jobs.pods.sweep(namespace, listed).into_iter();
        wakes.extend(owners.map(|owner| Wake::soon(CONTROLLER, owner)));
    }

    fn held(&self, tables: &Tables, object: &Listed) -> Held {
        tables.jobs.pods.held(object, &KINDS)
    }

    fn each_held(
        &self,
        tables: &Tables,
        namespace: Option<&str>,
        each: &mut dyn FnMut(&str, Uid, u64),
    ) {
        tables.jobs.pods.each_held(namespace, each);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Row;
    use carillon_plan::ObjectKey;
    use serde_json::{Value, json};

    fn uid(n: u8) -> Uid {
        text(n).parse().unwrap()
    }

    fn job(n: u8) -> Arc<ObjectKey> {
        ObjectKey::of(JOB, "ops", "sum", uid(n))
    }

    fn orphan() -> Arc<ObjectKey> {
        ObjectKey::of(POD, "ops", "sum-x", uid(9))
    }

    fn text(n: u8) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
    }

    /// Pod 9 of this Job, if of any.
    fn pod(rv: u64, api_version: &str, job: Option<u8>, status: &Value) -> SlimPod {
        let owners = job.map(|job| {
            json!([{"apiVersion": api_version, "kind": "Job", "name": "sum", "uid": text(job),
                "controller": true}])
        });
        let pod = json!({
            "metadata": {"name": "sum-x", "namespace": "ops", "uid": text(9),
                "resourceVersion": rv.to_string(), "ownerReferences": owners,
                "finalizers": ["batch.kubernetes.io/job-tracking"]},
            "status": status,
        });
        serde_json::from_value(pod).unwrap()
    }

    fn woken(tables: &mut Tables, pod: SlimPod) -> Vec<Wake> {
        let mut wakes = Vec::new();
        pod.enter(tables, &mut wakes);
        wakes
    }

    fn soon(n: u8) -> Wake {
        Wake::soon(CONTROLLER, job(n))
    }

    #[test]
    fn a_pod_wakes_its_job_when_something_has_changed_that_counts() {
        let tables = &mut Tables::default();
        let native = |rv, status: Value| pod(rv, "batch/v1", Some(1), &status);
        let wakes = woken(tables, native(5, json!({"phase": "Running"})));
        assert_eq!(wakes, [soon(1)]);
        let heartbeat = json!({"phase": "Running", "podIP": "10.0.0.1"});
        assert_eq!(woken(tables, native(6, heartbeat)), []);
        assert_eq!(tables.jobs.pods(&job(1)).unwrap()["sum-x"].rv, 6);
        let wakes = woken(tables, native(7, json!({"phase": "Failed"})));
        assert_eq!(wakes, [soon(1)]);
        let mut wakes = Vec::new();
        native(8, json!({})).leave(tables, &mut wakes);
        assert_eq!(wakes, [soon(1)]);
        assert!(tables.jobs.pods.is_empty());
    }

    #[test]
    fn labels_are_those_that_the_pod_has_now() {
        let tables = &mut Tables::default();
        let labelled = |rv, labels: Value| {
            let mut pod = pod(rv, "batch/v1", Some(1), &json!({}));
            pod.metadata.labels = serde_json::from_value(labels).unwrap();
            pod
        };
        for (rv, labels, wakes) in [
            (5, json!({"a": "1", "b": "2"}), 1),
            (6, json!({"a": "1", "b": "2"}), 0),
            (7, json!({"a": "1", "b": "3"}), 1),
            (8, json!({"a": "1"}), 1),
            (9, json!({"a": "1", "b": "3"}), 1),
            (10, json!(null), 1),
        ] {
            assert_eq!(woken(tables, labelled(rv, labels.clone())).len(), wakes);
            let held = &tables.jobs.pods(&job(1)).unwrap()["sum-x"].labels;
            let held: serde_json::Map<_, _> = held
                .iter()
                .map(|(key, value)| (key.to_string(), json!(**value)))
                .collect();
            let expected = labels.as_object().cloned().unwrap_or_default();
            assert_eq!(held, expected, "{rv}");
        }
    }

    #[test]
    fn a_pod_that_is_given_away_wakes_both_jobs_and_one_that_is_released_is_an_orphan() {
        let tables = &mut Tables::default();
        let of = |rv, job| pod(rv, "batch/v1", job, &json!({}));
        woken(tables, of(5, Some(1)));
        assert_eq!(woken(tables, of(6, Some(2))), [soon(1), soon(2)]);
        assert!(tables.jobs.pods(&job(1)).is_none());
        let freed = Wake::now(ORPHAN_PODS, orphan());
        assert_eq!(woken(tables, of(7, None)), [soon(2), freed]);
        let listed: Listed = of_listed(&of(7, None));
        assert_eq!(SlimPod::held(tables, &listed), Held::At(7));
        assert!(tables.jobs.orphan(&orphan()).is_some());
        assert_eq!(woken(tables, of(8, Some(2))), [soon(2)]);
        assert!(tables.jobs.orphan(&orphan()).is_none());
    }

    fn of_listed(pod: &SlimPod) -> Listed {
        Listed {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            finalizers: pod.metadata.finalizers.clone(),
            ..Listed::default()
        }
    }

    #[test]
    fn a_kind_that_is_called_job_in_another_group_controls_nothing_here() {
        let tables = &mut Tables::default();
        let foreign = pod(5, "example.com/v1", Some(1), &json!({}));
        assert_eq!(woken(tables, foreign), []);
        assert!(tables.jobs.pods(&job(1)).is_none());
    }

    #[test]
    fn a_pod_of_another_namespace_is_nobodys_whatever_uid_its_owner_has() {
        let tables = &mut Tables::default();
        woken(tables, pod(5, "batch/v1", Some(1), &json!({})));
        let mut copy = pod(6, "batch/v1", Some(1), &json!({"phase": "Succeeded"}));
        copy.metadata.namespace = "evil".to_owned();
        copy.metadata.uid = text(8);
        let foreign = ObjectKey::of(JOB, "evil", "sum", uid(1));
        assert_eq!(
            woken(tables, copy),
            [Wake::soon(CONTROLLER, foreign.clone())]
        );
        let of_job = tables.jobs.pods(&job(1)).unwrap();
        assert_eq!((of_job.len(), of_job["sum-x"].uid), (1, uid(9)));
        assert_eq!(tables.jobs.pods(&foreign).unwrap()["sum-x"].uid, uid(8));
    }

    #[test]
    fn pods_that_a_list_no_longer_has_are_gone() {
        let tables = &mut Tables::default();
        woken(tables, pod(5, "batch/v1", Some(1), &json!({})));
        let mut wakes = Vec::new();
        SlimPod::sweep(tables, Some("other"), &HashSet::new(), &mut wakes);
        assert!(wakes.is_empty());
        SlimPod::sweep(tables, None, &HashSet::new(), &mut wakes);
        assert_eq!(wakes, [soon(1)]);
        assert!(tables.jobs.pods.is_empty());
    }

    #[test]
    fn pods_that_have_ended_and_are_held_count_when_they_become_so_and_when_no_longer() {
        let tables = &mut Tables::default();
        let counts = |tables: &Tables| {
            (
                tables.jobs.counts().ever_kept,
                tables.jobs.counts().released(),
            )
        };
        let in_phase = |rv, phase: &str| pod(rv, "batch/v1", Some(1), &json!({"phase": phase}));
        let released = |rv| {
            let mut pod = in_phase(rv, "Succeeded");
            pod.metadata.finalizers = None;
            pod
        };
        for (rv, phase, expected) in [
            (1, "Pending", (0, 0)),
            (2, "Failed", (1, 0)),
            (3, "Failed", (1, 0)),
            (4, "Succeeded", (1, 0)),
        ] {
            woken(tables, in_phase(rv, phase));
            assert_eq!(counts(tables), expected, "{phase}");
        }
        woken(tables, released(5));
        assert_eq!(counts(tables), (1, 1));
        released(6).leave(tables, &mut Vec::new());
        assert_eq!(
            counts(tables),
            (1, 1),
            "it was counted when it was released"
        );
        woken(tables, in_phase(7, "Succeeded"));
        in_phase(8, "Succeeded").leave(tables, &mut Vec::new());
        assert_eq!(counts(tables), (2, 2), "gone with our finalizer");
        woken(tables, released(9));
        released(9).leave(tables, &mut Vec::new());
        assert_eq!(counts(tables), (2, 2), "never held");
    }
}
