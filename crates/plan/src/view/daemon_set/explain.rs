//! Whether a node has a pod of a DaemonSet, whether it should, and what it waits for.

use carillon_api::names::STATE_PREPARING_DELETE;
use jiff::{Timestamp, Unit};
use serde::Serialize;

use super::look::{Look, Place};
use super::short;
use crate::daemon_set::backoff::over_at;
use crate::daemon_set::lifecycle::{hooks, is_preparing};
use crate::daemon_set::on_nodes::{OnNode, desired};
use crate::daemon_set::progress::{PARTITION, POD_NAME_TAKEN};
use crate::daemon_set::rolling_update::is_updated;
use crate::daemon_set::should_run::CHECKS;
use crate::daemon_set::spec::Update;
use crate::daemon_set::{Budget, DaemonSet, pod_changes};
use crate::pod::PodPhase;
use crate::view::groups::{Group, Groups};
use crate::view::node_checks::{CheckResult, check_all};

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Namespace of the DaemonSet.
    pub namespace: String,
    /// Name of the DaemonSet.
    pub daemon_set: String,
    /// Name of the node.
    pub node_name: String,
    /// Where it stands.
    pub place: Place,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// Every check; empty when the Node object is gone.
    pub checks: Vec<CheckResult>,
    /// The pods that are there, in the order in which they would be kept.
    pub pods: Vec<PodThere>,
    /// What happens next, in words.
    pub next: String,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodThere {
    /// Name.
    pub name: String,
    /// Hash of the revision that it was made from.
    pub revision: String,
    /// Number of that revision, if it is known.
    pub number: Option<i64>,
    /// It was made from the current template.
    pub current: bool,
    /// In one word: Available, Ready, NotReady, NotScheduled, PreparingDelete, Terminating, Failed, Succeeded.
    pub state: &'static str,
    /// When it was created.
    pub created: Timestamp,
}

/// All nodes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetExplanation {
    /// Namespace of the DaemonSet.
    pub namespace: String,
    /// Name of the DaemonSet.
    pub daemon_set: String,
    /// Nodes of the cluster, and those that are gone and still have a pod.
    pub nodes: usize,
    /// The nodes by place and reason. The counts sum to `nodes`.
    pub groups: Vec<Group<Place>>,
}

/// Explains all nodes.
pub fn all(look: &Look<'_>) -> SetExplanation {
    let mut groups = Groups::default();
    for (name, node) in &look.nodes {
        let (place, reason) = look.place(name, node);
        let place = (place, reason.to_owned());
        groups.add(place, name, || Look::refusal(node));
    }
    let owner = &look.set.meta.owner;
    SetExplanation {
        namespace: owner.namespace.clone(),
        daemon_set: owner.name.clone(),
        nodes: look.nodes.len(),
        groups: groups.told(),
    }
}

/// Explains one node. `None`: there is no such node, and no pod on one.
pub fn node(look: &Look<'_>, name: &str) -> Option<NodeExplanation> {
    let node = look.nodes.get(name)?;
    let (place, reason) = look.place(name, node);
    let owner = &look.set.meta.owner;
    let wish = &look.set.spec.placement;
    Some(NodeExplanation {
        namespace: owner.namespace.clone(),
        daemon_set: owner.name.clone(),
        node_name: name.to_owned(),
        place,
        reason: reason.to_owned(),
        checks: node
            .row
            .map_or_else(Vec::new, |row| check_all(&CHECKS, wish, name, row)),
        pods: pods(look, node),
        next: next(look, name, node, (place, reason)),
    })
}

fn pods(look: &Look<'_>, node: &OnNode<'_>) -> Vec<PodThere> {
    let set = look.set;
    let told = node.pods.iter().map(|(name, pod)| {
        let revision = pod.revision().unwrap_or_default();
        let state = if pod.is_deleting() {
            "Terminating"
        } else if is_preparing(set, pod) {
            STATE_PREPARING_DELETE
        } else if pod.phase == PodPhase::Failed {
            "Failed"
        } else if pod.phase == PodPhase::Succeeded {
            "Succeeded"
        } else if !pod.bound {
            "NotScheduled"
        } else if pod.is_available(set.spec.min_ready_seconds, look.now) {
            "Available"
        } else if pod.ready.is_some() {
            "Ready"
        } else {
            "NotReady"
        };
        PodThere {
            name: (*name).to_owned(),
            revision: revision.to_owned(),
            number: look.known.number(revision),
            current: is_updated(set, pod, &look.current.hash),
            state,
            created: pod.created,
        }
    });
    told.collect()
}

/// What happens next on a node.
fn next(
    look: &Look<'_>,
    name: &str,
    node: &OnNode<'_>,
    (place, reason): (Place, &'static str),
) -> String {
    let set = look.set;
    let newest = node.pods.iter().max_by_key(|(_, pod)| pod.created);
    let pod = newest.map(|(name, _)| *name).or(node.left_over);
    let pod = pod.unwrap_or_default();
    let namespace = &set.meta.owner.namespace;
    if let Some(told) = waits_for_its_hook(set, node) {
        return told;
    }
    match place {
        Place::Updated => "nothing: it has an available pod of the current template".to_owned(),
        Place::Waiting => waits_for(look, name, reason, pod),
        Place::InTurn if set.spec.paused => format!(
            "its pod is replaced when the update is resumed: kubectl carillon rollout resume {}",
            short(set)
        ),
        Place::InTurn => in_turn(look, name),
        Place::Kept => match reason {
            PARTITION => "its pod stays until spec.updateStrategy.rollingUpdate.partition is less",
            "OnDelete" => {
                return format!(
                    "its pod is replaced when somebody deletes it: kubectl delete pod -n {namespace} {pod}"
                );
            }
            _ => "its pod stays until spec.updateStrategy.rollingUpdate.selector selects the node",
        }
        .to_owned(),
        Place::Excused => {
            "the update does not wait for it; it gets a pod of the current template when it can".to_owned()
        }
        Place::Stays => {
            "its pod stays, unless an update of the template takes it: none comes in its place until all checks pass"
                .to_owned()
        }
        Place::Refused if node.pods.iter().any(|(_, pod)| !pod.is_deleting()) => {
            format!("its pod is deleted: {pod}")
        }
        Place::Refused => "it gets a pod when all checks pass".to_owned(),
        Place::Gone => format!("the pod goes with the node: {pod}"),
        Place::Unknown => "not known: you may not list pods".to_owned(),
    }
}

/// What has to happen before a pod goes that was told so.
fn waits_for_its_hook(set: &DaemonSet, node: &OnNode<'_>) -> Option<String> {
    let mut pods = node.pods.iter();
    let (name, pod) = pods.find(|(_, pod)| is_preparing(set, pod))?;
    let hooks: Vec<String> = hooks(set, pod).collect();
    if hooks.is_empty() {
        return Some(format!("its pod is deleted: {name}"));
    }
    Some(format!(
        "its pod {name} is deleted when somebody has taken from it what spec.lifecycle.preDelete names: {}",
        hooks.join(", ")
    ))
}

fn waits_for(look: &Look<'_>, name: &str, reason: &str, pod: &str) -> String {
    let namespace = &look.set.meta.owner.namespace;
    let describe = format!("kubectl describe pod -n {namespace} {pod}");
    match reason {
        "PodMissing" => format!(
            "its pod is created; if that takes long, see the events: kubectl describe {}",
            short(look.set)
        ),
        POD_NAME_TAKEN => format!(
            "its pod is created when its name is free, which is tried once a minute. Whose pod has it: kubectl \
             describe {}",
            short(look.set)
        ),
        "PodTerminating" => format!("the next pod comes when this one is gone: {pod}"),
        "PodEnded" => {
            format!(
                "{}. What it said: kubectl logs -n {namespace} {pod}",
                ended(look, pod)
            )
        }
        "PodNotScheduled" => {
            format!("the scheduler has to bind its pod. Why it does not: {describe}")
        }
        "PodNotStarted" => {
            format!("the containers of its pod have to start. Why they do not: {describe}")
        }
        "MinReadySeconds" => format!(
            "its pod counts as available when it has been ready for {}s",
            look.set.spec.min_ready_seconds
        ),
        _ if is_due(look, name) => "its pod, which is not ready, is replaced".to_owned(),
        _ => {
            format!("its pod has to become ready. What it says: kubectl logs -n {namespace} {pod}")
        }
    }
}

/// When a pod that has ended is replaced. The controller remembers when; others only see when that is over.
fn ended(look: &Look<'_>, pod: &str) -> String {
    let snapshot = look.known.snapshot();
    let failed = snapshot
        .pods
        .get(pod)
        .filter(|pod| pod.phase == PodPhase::Failed);
    match failed.map(|pod| over_at(pod.created)) {
        Some(over) if over > look.now => {
            let over = over.round(Unit::Second).unwrap_or(over);
            format!(
                "its pod has failed, and is replaced when the back-off of the node is over: when, the controller alone \
                 knows; {over} at the latest"
            )
        }
        Some(_) => {
            "its pod has failed, and is replaced now: no back-off lasts longer than it is there"
                .to_owned()
        }
        None => "its pod has ended, and is replaced".to_owned(),
    }
}

/// Whether the controller would replace its pod now, by the very rules of the controller.
fn is_due(look: &Look<'_>, name: &str) -> bool {
    let snapshot = look.known.snapshot();
    let changes = pod_changes(&snapshot, &look.nodes, &look.current.hash, look.now);
    let node_of = |pod: &str| snapshot.pods.get(pod).and_then(|pod| pod.node.as_deref());
    let mut replaced = changes.delete.iter().filter_map(|(pod, _)| node_of(pod));
    changes.create.contains(&name) || replaced.any(|node| node == name)
}

fn in_turn(look: &Look<'_>, name: &str) -> String {
    if is_due(look, name) {
        return "its pod is replaced now".to_owned();
    }
    let before = look.nodes.range(..name);
    let before = before.filter(|(name, node)| look.place(name, node).0 == Place::InTurn);
    let before = match before.count() {
        0 => String::new(),
        1 => ", after 1 other".to_owned(),
        count => format!(", after {count} others"),
    };
    let holding = look.nodes.iter();
    let holding = holding.filter(|(name, node)| look.place(name, node).0 == Place::Waiting);
    let holding: Vec<&str> = holding.map(|(name, _)| *name).collect();
    let waits = match *holding {
        [] => String::new(),
        [one] => format!(" once {one} has an available pod"),
        [one, ..] => format!(
            " once {one} and {} more have an available pod",
            holding.len() - 1
        ),
    };
    let at_a_time = at_a_time(look.set.spec.update, desired(&look.nodes));
    format!(
        "its pod is replaced when its turn comes{before}{waits}: by name, {at_a_time} at a time"
    )
}

/// How many nodes an update takes at a time.
pub(super) fn at_a_time(update: Update, desired: usize) -> usize {
    let budget = Budget::of(update, desired);
    budget.map_or(0, |budget| match budget.max_surge {
        0 => budget.max_unavailable,
        surge => surge,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::daemon_set::known::Known;
    use crate::view::daemon_set::samples::{at, known, lines, nodes, object, pod, revision};

    /// Seven nodes in mid-update: n1 is updated, n2 not ready, n3 to n5 wait, n6 is tainted, n7 too and has a pod.
    fn world(spec: &Value) -> Known {
        let mut pods = vec![pod(1, "new", true), pod(2, "new", false)];
        pods.extend([3, 4, 5, 7].map(|n| pod(n, "old", true)));
        let revisions = [revision(1, "old"), revision(2, "new")];
        known(
            &object("carillon.dev/v1alpha1", spec),
            &revisions,
            &pods,
            &nodes(7, 6),
        )
    }

    fn groups(known: &Known) -> Vec<String> {
        let all = all(&Look::at(known, at(60)));
        assert_eq!(all.nodes, 7);
        lines(&all.groups)
    }

    #[test]
    fn each_node_is_in_one_group_by_what_the_controller_makes_of_it() {
        let refused = [
            "Stays NodeTaintNotTolerated n7",
            "Refused NodeTaintNotTolerated n6",
        ];
        for (strategy, rest) in [
            (
                json!({}),
                vec!["Updated  n1", "Waiting PodNotReady n2", "InTurn  n3,n4,n5"],
            ),
            (
                json!({"rollingUpdate": {"partition": 2}}),
                vec![
                    "Updated  n1",
                    "Waiting PodNotReady n2",
                    "InTurn  n3",
                    "Kept Partition n4,n5",
                ],
            ),
            (
                json!({"rollingUpdate": {"paused": true}}),
                vec![
                    "Updated  n1",
                    "Waiting PodNotReady n2",
                    "InTurn Paused n3,n4,n5",
                ],
            ),
            (
                json!({"type": "OnDelete"}),
                vec![
                    "Updated  n1",
                    "Waiting PodNotReady n2",
                    "Kept OnDelete n3,n4,n5",
                ],
            ),
            (
                json!({"rollingUpdate": {"selector": {"matchLabels": {"a": "b"}}}}),
                vec![
                    "Updated  n1",
                    "Waiting PodNotReady n2",
                    "Kept NotSelected n3,n4,n5",
                ],
            ),
        ] {
            let expected: Vec<&str> = rest.into_iter().chain(refused).collect();
            assert_eq!(
                groups(&world(&json!({"updateStrategy": strategy}))),
                expected,
                "{strategy}"
            );
        }
    }

    #[test]
    fn of_one_node_it_is_said_what_happens_next() {
        let says = |strategy: Value, name: &str| {
            let known = world(&json!({"updateStrategy": strategy}));
            node(&Look::at(&known, at(60)), name).map(|found| found.next)
        };
        let plain = |name| says(json!({}), name).unwrap();
        assert_eq!(
            plain("n1"),
            "nothing: it has an available pod of the current template"
        );
        assert_eq!(
            plain("n2"),
            "its pod has to become ready. What it says: kubectl logs -n ops agent-n2"
        );
        assert_eq!(
            plain("n4"),
            "its pod is replaced when its turn comes, after 1 other once n2 has an available pod: by name, 1 at a time"
        );
        assert!(plain("n6").starts_with("it gets a pod when"));
        let two = json!({"rollingUpdate": {"maxUnavailable": 2}});
        assert_eq!(says(two, "n3").unwrap(), "its pod is replaced now");
        let paused = says(json!({"rollingUpdate": {"paused": true}}), "n3").unwrap();
        assert!(
            paused.ends_with("kubectl carillon rollout resume cds/agent"),
            "{paused}"
        );
        assert_eq!(says(json!({}), "n9"), None);
    }

    /// The back-off is in the memory of the controller; that it ends is not.
    #[test]
    fn of_a_failed_pod_it_is_said_when_it_is_replaced_at_the_latest() {
        let says = |phase: &str, second: i64| {
            let mut known = world(&json!({}));
            let pods = known.pods.as_mut().unwrap();
            let pod = pods.owned.get_mut("agent-n2").unwrap();
            (pod.phase, pod.ready) = (PodPhase::read(phase), None);
            node(&Look::at(&known, at(second)), "n2").unwrap().next
        };
        let waits = says("Failed", 60);
        let latest = format!("{} at the latest", at(10 + 15 * 60));
        assert!(
            waits.contains(&latest) && waits.contains("back-off"),
            "{waits}"
        );
        assert!(says("Failed", 10 + 15 * 60).contains("is replaced now"));
        assert!(!says("Succeeded", 60).contains("back-off"));
    }

    #[test]
    fn what_only_the_controller_can_know_is_taken_from_the_status() {
        let mut known = world(&json!({}));
        known.pods.as_mut().unwrap().owned.remove("agent-n2");
        let next = |known: &Known| node(&Look::at(known, at(60)), "n2").unwrap();
        assert_eq!(next(&known).reason, "PodMissing");
        let status =
            json!({"waitingFor": [{"reason": "PodNameTaken", "count": 1, "sample": ["n2"]}]});
        known.stored.set.status = serde_json::from_value(status).unwrap();
        let told = next(&known);
        assert_eq!(told.reason, "PodNameTaken");
        assert!(
            told.next.ends_with("kubectl describe cds/agent"),
            "{}",
            told.next
        );
        // Its old pod is not ready, and the second one gets no name.
        let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let status = known.stored.set.status;
        for (strategy, expected) in [(surge, "PodNameTaken"), (json!({}), "PodNotReady")] {
            let mut known = world(&json!({"updateStrategy": strategy}));
            known.stored.set.status = status.clone();
            assert_eq!(next(&known).reason, expected);
        }
    }

    #[test]
    fn a_pod_that_has_ended_and_that_a_finalizer_keeps_is_named_where_the_next_one_needs_its_name()
    {
        let mut known = world(&json!({}));
        let owner = known.stored.set.meta.owner.clone();
        let name = crate::name::daemon_pod(&owner.name, owner.uid, "n2", 0);
        let pods = &mut known.pods.as_mut().unwrap().owned;
        let mut ended = pods.remove("agent-n2").unwrap();
        (ended.phase, ended.deletion) = (PodPhase::Failed, Some(at(30)));
        pods.insert(name.clone().into(), ended);
        let found = node(&Look::at(&known, at(60)), "n2").unwrap();
        assert_eq!(found.reason, "PodTerminating");
        assert!(found.next.ends_with(&name), "{}", found.next);
    }

    #[test]
    fn a_node_passes_its_checks_exactly_if_it_should_have_a_pod() {
        let known = world(&json!({}));
        for n in 1..=7 {
            let found = node(&Look::at(&known, at(60)), &format!("n{n}")).unwrap();
            let passes = found.checks.iter().all(|check| check.passed);
            let runs = !matches!(found.place, Place::Stays | Place::Refused);
            assert_eq!(passes, runs, "{found:?}");
        }
    }

    #[test]
    fn pods_are_told_with_the_number_of_their_revision() {
        let found = node(&Look::at(&world(&json!({})), at(60)), "n3").unwrap();
        let pod = &found.pods[0];
        assert_eq!(
            (pod.number, pod.current, pod.state),
            (Some(1), false, "Available")
        );
    }

    #[test]
    fn of_a_pod_that_waits_for_its_hook_it_is_said_who_has_to_let_go() {
        let hook = json!({"labelsHandler": {"hold": "yes"}, "finalizersHandler": ["a/b", "c/d"]});
        let set = object(
            "carillon.dev/v1alpha1",
            &json!({"lifecycle": {"preDelete": hook}}),
        );
        let mut told = pod(1, "old", true);
        told["metadata"]["labels"]["hold"] = json!("yes");
        told["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] = json!("PreparingDelete");
        told["metadata"]["finalizers"] = json!(["c/d", "e/f"]);
        let revisions = [revision(1, "old"), revision(2, "new")];
        let known = known(&set, &revisions, &[told], &nodes(1, 2));
        let found = node(&Look::at(&known, at(60)), "n1").unwrap();
        assert_eq!(
            (found.place, &*found.reason),
            (Place::Waiting, "PreDeleteHook")
        );
        assert_eq!(found.pods[0].state, "PreparingDelete");
        let says = "preDelete names: label hold=yes, finalizer c/d";
        assert!(found.next.ends_with(says), "{}", found.next);
    }

    #[test]
    fn who_may_not_list_pods_still_learns_which_nodes_are_meant() {
        let mut known = world(&json!({}));
        known.pods = None;
        let expected = [
            "Refused NodeTaintNotTolerated n6,n7",
            "Unknown  n1,n2,n3,n4,n5",
        ];
        assert_eq!(groups(&known), expected);
    }
}
