//! The row of a Job's pod.

use carillon_plan::Uid;
use carillon_plan::job::{JobPod, Restarts};
use carillon_plan::node::Labels;
use jiff::Timestamp;

use crate::slim::{ContainerStatus, Interner, SlimPod};
use crate::store::dependents::Dependent;

impl Dependent for JobPod {
    fn uid(&self) -> Uid {
        self.uid
    }

    fn rv(&self) -> u64 {
        self.rv
    }

    fn set_rv(&mut self, rv: u64) {
        self.rv = rv;
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }
}

impl SlimPod {
    /// Whether it has ended and a Job may not have counted it yet.
    pub fn has_ended_tracked(&self) -> bool {
        self.phase().has_ended() && self.metadata.is_tracked_pod()
    }

    /// The row as of a Job's pod, which follows `before`. Labels hardly ever change, and are not looked up then.
    pub fn job_row(&self, before: Option<&JobPod>, strings: &mut Interner) -> Option<JobPod> {
        let meta = &self.metadata;
        let phase = self.phase();
        let deleting = meta.deletion_timestamp.is_some();
        let annotations = meta.annotations.as_ref();
        let labels = match before {
            Some(before) if self.has_labels(&before.labels) => before.labels.clone(),
            _ => strings.pod_labels(meta.labels.as_ref()),
        };
        Some(JobPod {
            uid: meta.uid()?,
            rv: meta.rv(),
            phase,
            tracked: meta.is_tracked_pod(),
            deleting,
            assigned: self.node().is_some(),
            ready: self.ready(),
            created: meta.creation_timestamp.unwrap_or_default(),
            index: annotations.and_then(|all| index(all.completion_index.as_deref()?)),
            failures: annotations.map_or(0, |all| count(all.index_failures.as_deref())),
            ignored_failures: annotations
                .map_or(0, |all| count(all.index_ignored_failures.as_deref())),
            restarts: self.restarts(),
            finished: (phase.has_ended() || deleting).then(|| self.finished()),
            labels,
            failure: self.failure(self.containers().chain(self.init_containers()), strings),
        })
    }

    /// Init containers that go on beside the others.
    fn sidecars(&self) -> impl Iterator<Item = &ContainerStatus> {
        let all = self.init_containers();
        all.filter(|container| self.is_sidecar(container))
    }

    fn restarts(&self) -> Restarts {
        let all = self.containers().chain(self.init_containers());
        Restarts {
            most: self
                .containers()
                .map(|c| c.restart_count)
                .max()
                .unwrap_or(0),
            most_of_sidecars: self.sidecars().map(|c| c.restart_count).max().unwrap_or(0),
            sum: all
                .map(|container| i64::from(container.restart_count))
                .sum(),
        }
    }

    /// When it ended, or as near as can be told (upstream: `getFinishedTime`): its last container, or
    /// it was no longer ready, or it was deleted, or it was created.
    fn finished(&self) -> Timestamp {
        let meta = &self.metadata;
        let unready = || {
            let ready = self.status.condition("Ready")?;
            ready
                .last_transition_time
                .filter(|_| ready.status == "False")
        };
        let deleted = || Some(self.deletion()?.asked());
        let found = self.last_container().or_else(unready).or_else(deleted);
        found.or(meta.creation_timestamp).unwrap_or_default()
    }

    /// When the last container ended. Sidecars end after the others, so that one of them that runs
    /// leaves it open; if they have ended and another container has not, theirs is the time
    /// (upstream's oddity).
    fn last_container(&self) -> Option<Timestamp> {
        let containers = latest(None, self.containers());
        latest(containers, self.sidecars())
    }
}

/// The latest end of `containers` and of those before; `None` where one has not ended.
fn latest<'a>(
    before: Option<Timestamp>,
    mut containers: impl Iterator<Item = &'a ContainerStatus>,
) -> Option<Timestamp> {
    let ended = |container: &ContainerStatus| container.ended()?.finished_at;
    containers.try_fold(before, |latest, container| {
        ended(container).map(|end| latest.max(Some(end)))
    })?
}

/// A completion index; `None` where the annotation says none.
fn index(text: &str) -> Option<u32> {
    number(text)?.try_into().ok()
}

/// A count of failures. What cannot be one is none.
fn count(text: Option<&str>) -> u32 {
    let count = text.and_then(number);
    let count = count.and_then(|count| i32::try_from(count).ok());
    count.map_or(0, i32::unsigned_abs)
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use carillon_plan::pod::PodPhase;
    use carillon_plan::view::doctor::shadow::job_pods::job_pod;

    use super::*;
    use serde_json::{Value, json};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    /// As whoever asks for a shadow reads it, too.
    fn pod(value: Value) -> JobPod {
        let shadow = job_pod(&value);
        let pod: SlimPod = serde_json::from_value(value).unwrap();
        let row = pod.job_row(None, &mut Interner::default());
        assert_eq!(shadow, row);
        row.unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        let midnight: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        midnight + jiff::SignedDuration::from_secs(seconds)
    }

    #[test]
    fn a_running_pod_is_read_with_what_its_rank_depends_on() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID, "resourceVersion": "41",
                "creationTimestamp": at(0), "managedFields": [{"fieldsV1": {"f:spec": {}}}],
                "finalizers": ["x/y", "batch.kubernetes.io/job-tracking"],
                "labels": {"b": "2", "a": "1"}},
            "spec": {"nodeName": "n1", "initContainers": [
                {"name": "mesh", "restartPolicy": "Always"}, {"name": "i"}]},
            "status": {"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": at(9)}],
                "initContainerStatuses": [
                    {"name": "mesh", "restartCount": 7}, {"name": "i", "restartCount": 9}],
                "containerStatuses": [
                    {"name": "c", "restartCount": 2}, {"name": "d", "restartCount": 3}]},
        }));
        assert_eq!((row.phase, row.rv), (PodPhase::Running, 41));
        assert!(row.tracked && row.assigned && !row.deleting);
        assert_eq!((row.created, row.ready), (at(0), Some(at(9))));
        let restarts = Restarts {
            most: 3,
            most_of_sidecars: 7,
            sum: 21,
        };
        assert_eq!(row.restarts, restarts);
        let labels: Vec<_> = row.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(labels, [("a", "1"), ("b", "2")]);
        assert_eq!((row.index, row.failures, row.finished), (None, 0, None));
        assert_eq!(row.failure, None);
    }

    #[test]
    fn annotations_that_are_no_numbers_count_nothing() {
        for (text, as_index, as_count) in [
            ("0", Some(0), 0),
            ("12", Some(12), 12),
            ("2147483647", Some(2_147_483_647), 2_147_483_647),
            ("2147483648", Some(2_147_483_648), 0),
            ("-2", None, 0),
            ("1.5", None, 0),
            ("", None, 0),
            ("many", None, 0),
            ("99999999999999999999", None, 0),
        ] {
            let row = pod(
                json!({"metadata": {"name": "p", "uid": UID, "annotations": {
                    "batch.kubernetes.io/job-completion-index": text,
                    "batch.kubernetes.io/job-index-failure-count": text,
                    "batch.kubernetes.io/job-index-ignored-failure-count": text,
                }}}),
            );
            assert_eq!(row.index, as_index, "{text:?}");
            let counts = (row.failures, row.ignored_failures);
            assert_eq!(counts, (as_count, as_count), "{text:?}");
        }
    }

    #[test]
    fn a_failed_pod_is_judged_by_containers_before_init_containers_and_by_conditions() {
        let status = |phase: &str| {
            json!({
                "phase": phase,
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "initContainerStatuses": [
                    {"name": "i", "state": {"terminated": {"exitCode": 5}}}],
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"exitCode": 7}}},
                    {"name": "d", "state": {"running": {}}}],
            })
        };
        let row = |phase| pod(json!({"metadata": {"uid": UID}, "status": status(phase)}));
        let failure = row("Failed").failure.unwrap();
        let exits: Vec<_> = failure.exits.iter().map(|(n, c)| (&**n, *c)).collect();
        assert_eq!(exits, [("c", 7), ("i", 5)]);
        let (type_, status) = &failure.conditions[0];
        assert_eq!((&**type_, &**status), ("DisruptionTarget", "True"));
        assert_eq!(row("Running").failure, None);
    }

    /// When a failed pod that was created at 1 has ended.
    fn finished(meta: &Value, spec: &Value, status: &Value) -> Timestamp {
        let mut object = json!({"metadata": meta, "spec": spec, "status": status});
        object["metadata"]["uid"] = json!(UID);
        object["metadata"]["creationTimestamp"] = json!(at(1));
        object["status"]["phase"] = json!("Failed");
        pod(object).finished.unwrap()
    }

    fn ended(name: &str, seconds: i64) -> Value {
        json!({"name": name, "state": {"terminated": {"finishedAt": at(seconds)}}})
    }

    #[test]
    fn a_pod_has_ended_when_its_last_container_has() {
        let none = json!({});
        let both = json!({"containerStatuses": [ended("c", 9), ended("d", 5)]});
        assert_eq!(finished(&none, &none, &both), at(9));
        let sidecar = json!({"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]});
        let with_init = |name| {
            json!({
                "containerStatuses": [ended("c", 9)],
                "initContainerStatuses": [ended(name, 12)],
            })
        };
        assert_eq!(finished(&none, &sidecar, &with_init("mesh")), at(12));
        assert_eq!(finished(&none, &sidecar, &with_init("i")), at(9));
        let status = json!({
            "containerStatuses": [{"name": "c"}],
            "initContainerStatuses": [ended("mesh", 12)],
        });
        assert_eq!(finished(&none, &sidecar, &status), at(12));
    }

    #[test]
    fn where_a_container_does_not_say_when_it_ended_the_next_best_time_counts() {
        let none = json!({});
        let unready = |status| {
            json!({
                "containerStatuses": [
                    ended("c", 9), {"name": "d", "state": {"terminated": {"finishedAt": null}}}],
                "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at(7)}],
            })
        };
        assert_eq!(finished(&none, &none, &unready("False")), at(7));
        assert_eq!(finished(&none, &none, &unready("Unknown")), at(1));
        let deleted = json!({"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30});
        assert_eq!(finished(&deleted, &none, &none), at(10));
        let deleted = json!({"deletionTimestamp": at(40)});
        assert_eq!(finished(&deleted, &none, &none), at(40));
        assert_eq!(finished(&none, &none, &none), at(1));
    }

    #[test]
    fn a_pod_that_was_told_to_stop_has_a_time_for_the_back_off_before_it_has_ended() {
        let running = |meta: Value| {
            let mut object = json!({"metadata": meta, "status": {"phase": "Running"}});
            object["metadata"]["uid"] = json!(UID);
            pod(object)
        };
        assert_eq!(running(json!({})).finished, None);
        let row = running(json!({"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}));
        assert_eq!((row.deleting, row.finished), (true, Some(at(10))));
    }
}
