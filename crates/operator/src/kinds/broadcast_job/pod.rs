//! The row of a BroadcastJob's pod.

use carillon_api::condition::results;
use carillon_api::names::FINALIZER_RESULT_TRACKING;
use carillon_plan::pod::{End, PodRow, Waiting, is_kill, printable};
use jiff::Timestamp;

use crate::slim::{ContainerState, ContainerStatus, Interner, PodStatus, SlimPod, Terminated};

/// Reasons with which the kubelet ends pods for the cluster's sake, besides the condition
/// DisruptionTarget of newer versions.
const KUBELET_DISRUPTIONS: [&str; 4] = ["Preempting", "NodeShutdown", "Terminated", "Shutdown"];

/// Reasons of containers that are on their way.
const USUAL: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

impl SlimPod {
    /// Name and row, as of a BroadcastJob's pod.
    pub fn row(&self, strings: &mut Interner) -> Option<(Box<str>, PodRow)> {
        let (meta, status) = (&self.metadata, &self.status);
        let counted = || {
            let all = self.init_containers().chain(self.containers());
            all.filter(|container| !self.is_sidecar(container))
        };
        let deletion = self.deletion();
        let phase = self.phase();
        let disruption = status.condition("DisruptionTarget");
        let mut row = PodRow {
            uid: meta.uid()?,
            rv: meta.rv(),
            node: self.node().map(|name| strings.share(name)),
            phase,
            tracked: meta.has_finalizer(FINALIZER_RESULT_TRACKING),
            disrupted: disruption.is_some_and(|disruption| disruption.status == "True")
                || KUBELET_DISRUPTIONS.contains(&status.reason.as_str())
                || is_refused_under_pressure(status),
            deletion,
            interrupted: deletion.is_some() && !phase.has_ended(),
            restarts: counted()
                .map(|container| u32::try_from(container.restart_count).unwrap_or(0))
                .sum(),
            created: meta.creation_timestamp,
            waiting: None,
            started: counted().filter_map(started).min(),
            started_earlier: false,
            end: end(status, counted(), deletion.is_some()),
            failure: self.failure(counted(), strings),
        };
        if !row.has_started() {
            row.waiting = waiting(status, counted(), strings);
        }
        Some((meta.name.as_str().into(), row))
    }
}

/// The kubelet gives the reason `Evicted` without that condition to a pod that has used more disk than its own limits
/// allow, which is its own doing, and to one that it refuses while its node is short of something.
fn is_refused_under_pressure(status: &PodStatus) -> bool {
    status.reason == "Evicted" && is_silent(status)
}

/// No container is told of.
fn is_silent(status: &PodStatus) -> bool {
    let statuses = [&status.init_container_statuses, &status.container_statuses];
    statuses.into_iter().flatten().all(Vec::is_empty)
}

/// Why the pod does not start, if anything unusual is known.
fn waiting<'a>(
    status: &PodStatus,
    mut containers: impl Iterator<Item = &'a ContainerStatus>,
    strings: &mut Interner,
) -> Option<Box<Waiting>> {
    let of_container = containers.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let unusual = !USUAL.contains(&waiting.reason.as_str());
        unusual.then_some((waiting.reason.as_str(), &waiting.message))
    });
    let unscheduled = || {
        let found = status.condition("PodScheduled")?;
        if found.status != "False" {
            return None;
        }
        let reason = match found.reason.as_str() {
            "" => results::UNSCHEDULABLE,
            reason => reason,
        };
        Some((reason, &found.message))
    };
    let (reason, message) = of_container.or_else(unscheduled)?;
    Some(Box::new(Waiting {
        reason: strings.share(&printable(reason)),
        message: printable(message).into(),
    }))
}

fn started(container: &ContainerStatus) -> Option<Timestamp> {
    let of = |state: &ContainerState| {
        let ended = state
            .terminated
            .as_ref()
            .and_then(|terminated| terminated.started_at);
        ended.or_else(|| state.running.as_ref()?.started_at)
    };
    container
        .last_state
        .as_ref()
        .and_then(of)
        .or_else(|| container.state.as_ref().and_then(of))
}

/// The last words: of the first container that failed, else of the last that ended.
///
/// A container that was killed because its pod was deleted tells nothing; if it had failed before
/// and been restarted, that earlier failure does.
fn end<'a>(
    status: &PodStatus,
    containers: impl Iterator<Item = &'a ContainerStatus>,
    deleted: bool,
) -> Option<Box<End>> {
    let mut finished = None;
    let mut ends: Vec<&Terminated> = Vec::new();
    for container in containers {
        let ended = |state: &'a Option<ContainerState>| state.as_ref()?.terminated.as_ref();
        let (now, before) = (ended(&container.state), ended(&container.last_state));
        finished = finished.max(now.or(before).and_then(|end| end.finished_at));
        let killed = deleted && now.is_some_and(|end| is_kill(end.exit_code));
        ends.extend(if killed {
            before.or(now)
        } else {
            now.or(before)
        });
    }
    ends.sort_by_key(|end| end.finished_at);
    let failed = ends.iter().find(|end| end.exit_code != 0);
    let telling = failed.or_else(|| ends.last());
    if telling.is_none() && status.reason.is_empty() {
        return None;
    }
    let or = |first: &str, second: &str| -> Box<str> {
        printable(if first.is_empty() { second } else { first }).into()
    };
    let said = telling.map_or("", |end| &end.message);
    let message = if status.reason.is_empty() {
        or(said, &status.message)
    } else {
        // Why the pod had to end, and not what a container said that had to end with it.
        or(&status.message, said)
    };
    Some(Box::new(End {
        silent: is_silent(status),
        exit_code: telling.map(|end| end.exit_code),
        reason: or(&status.reason, telling.map_or("", |end| &end.reason)),
        message,
        finished,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    fn pod(value: Value) -> PodRow {
        let pod: SlimPod = serde_json::from_value(value).unwrap();
        pod.row(&mut Interner::default()).unwrap().1
    }

    #[test]
    fn a_pod_that_failed_keeps_the_words_of_the_container_that_failed() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID, "resourceVersion": "41",
                "managedFields": [{"fieldsV1": {"f:spec": {}}}],
                "finalizers": ["x/y", "carillon.dev/result-tracking"]},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed",
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:09Z"}}},
                {"name": "b", "restartCount": 2, "state": {"terminated": {"exitCode": 3,
                    "reason": "Error", "message": "no space left\n",
                    "startedAt": "2026-01-01T00:00:02Z", "finishedAt": "2026-01-01T00:00:05Z"}}},
            ]},
        }));
        let end = row.end.as_deref().unwrap();
        assert_eq!((end.exit_code, &*end.message), (Some(3), "no space left"));
        assert_eq!(end.finished, Some("2026-01-01T00:00:09Z".parse().unwrap()));
        assert_eq!(row.started, Some("2026-01-01T00:00:01Z".parse().unwrap()));
        assert_eq!((row.rv, row.restarts, row.tracked), (41, 2, true));
        assert_eq!(row.node.as_deref(), Some("n1"));
    }

    #[test]
    fn a_pod_that_failed_without_a_word_of_its_containers_was_refused_by_the_kubelet() {
        let status = |more: Value| {
            let mut status = json!({"phase": "Failed", "reason": "OutOfcpu",
                "message": "Pod was rejected: Node didn't have enough resource: cpu"});
            status
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            pod(json!({"metadata": {"name": "p", "uid": UID}, "status": status}))
        };
        let row = status(json!({"containerStatuses": []}));
        assert!(row.was_rejected());
        let end = row.end.as_deref().unwrap();
        assert_eq!((&*end.reason, end.exit_code), ("OutOfcpu", None));
        for (more, why) in [
            (
                json!({"containerStatuses": [{"name": "c"}]}),
                "a container was heard of",
            ),
            (
                json!({"initContainerStatuses": [{"name": "i"}]}),
                "an init container was",
            ),
            (json!({"reason": ""}), "nobody says why"),
            (json!({"phase": "Running"}), "it runs"),
            (json!({"reason": "Evicted"}), "it may have run before"),
            (
                json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
                "it may have run before",
            ),
        ] {
            assert!(!status(more.clone()).was_rejected(), "{more}: {why}");
        }
    }

    #[test]
    fn restarts_of_sidecars_do_not_count() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID},
            "spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "i"}]},
            "status": {
                "initContainerStatuses": [
                    {"name": "mesh", "restartCount": 7}, {"name": "i", "restartCount": 1}],
                "containerStatuses": [{"name": "c", "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
        }));
        assert_eq!((row.restarts, row.waiting), (3, None));
    }

    #[test]
    fn a_pod_that_does_not_start_says_why() {
        let unscheduled = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available"}]);
        let container = |reason: &str, message: &str| {
            json!([{"name": "c",
            "state": {"waiting": {"reason": reason, "message": message}}}])
        };
        for (status, expected) in [
            (
                json!({"containerStatuses": container("ImagePullBackOff", "no such image")}),
                Some(("ImagePullBackOff", "no such image")),
            ),
            (
                json!({"containerStatuses": container("ContainerCreating", "")}),
                None,
            ),
            (
                json!({"conditions": unscheduled}),
                Some(("Unschedulable", "0/3 nodes are available")),
            ),
            (json!({}), None),
        ] {
            let row = pod(json!({"metadata": {"name": "p", "uid": UID}, "status": status}));
            let found = row.waiting.as_ref().map(|w| (&*w.reason, &*w.message));
            assert_eq!(found, expected, "{status}");
            assert!(!row.has_started());
        }
    }

    #[test]
    fn only_a_failed_pod_is_read_for_the_rules_of_a_failure_policy() {
        let status = |phase: &str| {
            json!({
                "phase": phase,
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "initContainerStatuses": [
                    {"name": "mesh", "state": {"terminated": {"exitCode": 137}}},
                    {"name": "i", "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 7}}}],
            })
        };
        let row = |phase| {
            pod(json!({
                "metadata": {"name": "p", "uid": UID},
                "spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]},
                "status": status(phase),
            }))
        };
        let failure = row("Failed").failure.unwrap();
        let exits: Vec<_> = failure.exits.iter().map(|(n, c)| (&**n, *c)).collect();
        assert_eq!(exits, [("i", 0), ("c", 7)]);
        let (type_, status) = &failure.conditions[0];
        assert_eq!((&**type_, &**status), ("DisruptionTarget", "True"));
        assert_eq!(row("Running").failure, None);
    }

    #[test]
    fn an_eviction_is_a_disruption_unless_the_pod_has_exceeded_its_own_limits() {
        let killed = json!([{"name": "main", "state": {"terminated": {
            "exitCode": 137, "reason": "ContainerStatusUnknown", "message": "not to be found"}}}]);
        let pressure = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let status = |more: Value| {
            let mut status = json!({"phase": "Failed", "reason": "Evicted", "message": "disk"});
            let status_of = status.as_object_mut().unwrap();
            status_of.extend(more.as_object().unwrap().clone());
            pod(json!({"metadata": {"name": "p", "uid": UID}, "status": status}))
        };
        for (more, disrupted, why) in [
            (
                json!({"containerStatuses": killed, "conditions": pressure}),
                true,
                "by the node",
            ),
            (
                json!({"containerStatuses": killed}),
                false,
                "by its own limits",
            ),
            (
                json!({}),
                true,
                "refused by a node that is short of something",
            ),
        ] {
            let row = status(more);
            assert_eq!(row.disrupted, disrupted, "{why}");
            let end = row.end.as_deref().unwrap();
            assert_eq!((&*end.reason, &*end.message), ("Evicted", "disk"), "{why}");
        }
        let stopped = json!({"phase": "Failed", "reason": "Terminated"});
        assert!(pod(json!({"metadata": {"name": "p", "uid": UID}, "status": stopped})).disrupted);
    }

    #[test]
    fn a_crash_looping_pod_that_was_stopped_keeps_the_exit_code_of_its_crash() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID, "deletionTimestamp": "2026-01-01T00:00:30Z"},
            "status": {"phase": "Failed", "containerStatuses": [{
                "name": "c", "restartCount": 3,
                "state": {"terminated": {"exitCode": 143, "finishedAt": "2026-01-01T00:00:09Z"}},
                "lastState": {"terminated": {"exitCode": 2, "message": "no config",
                    "finishedAt": "2026-01-01T00:00:05Z"}},
            }]},
        }));
        let end = row.end.unwrap();
        assert_eq!((end.exit_code, &*end.message), (Some(2), "no config"));
        assert_eq!(end.finished, Some("2026-01-01T00:00:09Z".parse().unwrap()));
    }
}
