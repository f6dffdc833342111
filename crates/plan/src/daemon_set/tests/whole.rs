//! Whole plans: what stands in the way of pods, and what a status says.

use std::collections::BTreeMap;

use carillon_api::condition::{reasons, types};
use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::at;
use crate::condition::{find, is_true};
use crate::daemon_set::action::{Act, Action, Plan};
use crate::daemon_set::backoff::FailedNodes;
use crate::daemon_set::pod::LABEL_REVISION;
use crate::daemon_set::refused::RefusedNodes;
use crate::daemon_set::taken::{self, TakenNames};
use crate::daemon_set::{DaemonPod, DaemonPods, DaemonSet, Revision, Revisions, Snapshot, plan};
use crate::interlock;
use crate::meta::Meta;
use crate::name;
use crate::node::{NodeRow, Nodes};
use crate::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET, ObjectKey};
use crate::pod::PodPhase;
use crate::uid::Uid;

pub(super) fn uid(n: u64) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

/// A DaemonSet of some API on two nodes, its pods, and its revisions.
pub(super) struct Whole {
    pub set: DaemonSet,
    pub pods: DaemonPods,
    pub free: DaemonPods,
    pub revisions: Revisions,
    pub failed: FailedNodes,
    pub taken_pods: TakenNames,
    pub refused_nodes: RefusedNodes,
    pub nodes: Nodes,
    pub now: i64,
    pub told_at: Option<Timestamp>,
    made: u64,
}

impl Whole {
    pub(super) fn new(kind: ApiKind, generation: Option<i64>, more: &Value) -> Self {
        let meta = Meta::new(ObjectKey::of(kind, "ops", "agent", uid(0)), at(0));
        let mut spec = json!({
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}},
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        Self {
            set: DaemonSet::read(meta, generation, &spec, &json!({})),
            pods: DaemonPods::new(),
            free: DaemonPods::new(),
            revisions: Revisions::new(),
            failed: FailedNodes::new(),
            taken_pods: TakenNames::new(),
            refused_nodes: RefusedNodes::new(),
            nodes: ["n1", "n2"].map(|n| (n.into(), NodeRow::default())).into(),
            now: 100,
            told_at: None,
            made: 0,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let snapshot = Snapshot {
            set: &self.set,
            pods: &self.pods,
            free: &self.free,
            revisions: &self.revisions,
            free_revisions: &Revisions::new(),
            nodes: &self.nodes,
            failed: &self.failed,
            taken: &std::collections::BTreeSet::new(),
            taken_pods: &self.taken_pods,
            refused_nodes: &self.refused_nodes,
            refusal: None,
            told_at: self.told_at,
            max_pod_changes: 250,
        };
        let plan = plan(&snapshot, at(self.now));
        let verdict = interlock::daemon_set::verify(&snapshot, &plan, at(self.now));
        assert_eq!(verdict, Ok(()), "{plan:?}");
        plan
    }

    /// Plans, and does it: pods are ready at once. The words of what was done.
    pub(super) fn sync(&mut self) -> Vec<&'static str> {
        let actions: Vec<Action> = self
            .plan()
            .steps
            .into_iter()
            .flat_map(|step| step.actions)
            .collect();
        let words = actions.iter().map(Act::word).collect();
        for action in actions {
            self.made += 1;
            let fresh = uid(self.made);
            match action {
                Action::CreateRevision(new) => {
                    let revision = Revision {
                        uid: fresh,
                        number: new.number,
                        data: self.set.data,
                        labels: labels(&new.hash),
                        created: at(self.now),
                        ..Revision::default()
                    };
                    self.revisions.insert(new.name.into(), revision);
                }
                Action::CreatePod(new) => {
                    let pod = DaemonPod {
                        uid: fresh,
                        phase: PodPhase::Running,
                        node: Some(new.node.into()),
                        bound: true,
                        ready: Some(at(self.now)),
                        created: at(self.now),
                        labels: self.pod_labels(&new.hash),
                        ..DaemonPod::default()
                    };
                    self.pods.insert(new.name.into(), pod);
                }
                Action::RenumberRevision { name, number, .. } => {
                    self.revisions.get_mut(&*name).unwrap().number = number;
                }
                Action::PreparePod { name, at, .. } => {
                    let word = Some(STATE_PREPARING_DELETE);
                    self.label(&name, LABEL_LIFECYCLE_STATE, word).told = Some(at);
                }
                Action::KeepPod { name, .. } => {
                    self.label(&name, LABEL_LIFECYCLE_STATE, None).told = None;
                }
                Action::DeletePod { name, .. } => drop(self.pods.remove(&*name)),
                Action::DeleteRevision { name, .. } => drop(self.revisions.remove(&*name)),
                Action::WriteStatus(status) => self.set.status = *status,
                other => panic!("{other:?}"),
            }
        }
        words
    }

    fn pod_labels(&self, hash: &str) -> crate::node::Labels {
        let of_template = self.set.spec.pod_labels.iter();
        let of_template = of_template.map(|(key, value)| (key.as_str(), value.as_str()));
        let all = of_template.chain([(LABEL_REVISION, hash)]);
        let all: BTreeMap<&str, &str> = all.collect();
        let all = all.into_iter();
        all.map(|(key, value)| (key.into(), value.into())).collect()
    }

    /// Gives a pod a label, or takes one from it.
    pub(super) fn label(&mut self, pod: &str, key: &str, value: Option<&str>) -> &mut DaemonPod {
        let pod = self.pods.get_mut(pod).unwrap();
        let others = pod.labels.iter().filter(|(known, _)| **known != *key);
        let mut labels: Vec<_> = others.cloned().collect();
        labels.extend(value.map(|value| (key.into(), value.into())));
        labels.sort();
        pod.labels = labels.into();
        pod.rv += 1;
        pod
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..20 {
            if self.sync().is_empty() {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.plan());
    }

    pub(super) fn edit(&mut self, more: &Value) {
        let other = Self::new((self.set.meta.owner.api_version, "DaemonSet"), None, more);
        let (mut meta, status) = (self.set.meta.clone(), self.set.status.clone());
        meta.generation += 1;
        self.set = DaemonSet {
            meta,
            status,
            ..other.set
        };
    }

    /// The API server says that another pod has this name.
    pub(super) fn refuse_name(&mut self, name: &str, node: &str) {
        let generation = self.set.meta.generation;
        taken::note(&mut self.taken_pods, (name, node), generation, at(self.now));
    }

    pub(super) fn reason(&self, type_: &str) -> &str {
        find(&self.set.status.conditions, type_).map_or("", |condition| &condition.reason)
    }
}

fn labels(hash: &str) -> crate::node::Labels {
    [
        ("app".into(), "agent".into()),
        (LABEL_REVISION.into(), hash.into()),
    ]
    .into()
}

pub(super) fn image(image: &str) -> Value {
    json!({"template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"image": image}}})
}

#[test]
fn a_set_gets_a_revision_pods_and_a_status_and_then_rests() {
    for kind in [DAEMON_SET, NATIVE_DAEMON_SET] {
        let mut set = Whole::new(kind, None, &json!({}));
        assert_eq!(
            set.sync(),
            [
                "create_revision",
                "create_pod",
                "create_pod",
                "write_status"
            ]
        );
        set.settle();
        let status = &set.set.status;
        assert_eq!(
            (status.number_ready, status.updated_number_scheduled),
            (2, Some(2))
        );
        assert_eq!(status.conditions.is_empty(), kind == NATIVE_DAEMON_SET);
    }
}

#[test]
fn the_generation_of_a_template_means_nothing_in_a_manifest_that_was_exported() {
    let mut set = Whole::new(DAEMON_SET, Some(5), &json!({}));
    assert_eq!(set.set.template_generation, None);
    set.settle();
    set.edit(&image("2"));
    assert!(set.sync().contains(&"delete_pod"));
}

#[test]
fn a_selector_that_does_not_select_the_template_makes_nothing() {
    for selector in [
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["agent"]}]}),
        json!({"matchExpressions": [{"key": LABEL_REVISION, "operator": "DoesNotExist"}]}),
        json!({"matchLabels": {}}),
        json!({}),
    ] {
        let mut set = Whole::new(DAEMON_SET, None, &json!({"selector": selector}));
        assert_eq!(set.sync(), ["write_status"], "{selector}");
        assert!(set.sync().is_empty());
        assert!(set.set.status.summary.starts_with("Stalled: "));
        let native = Whole::new(NATIVE_DAEMON_SET, None, &json!({"selector": selector}));
        let plan = native.plan();
        assert_eq!((plan.steps.len(), plan.notes.len()), (0, 1));
    }
}

#[test]
fn a_template_that_changes_in_the_middle_of_a_surge_waits_for_what_goes() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = Whole::new(NATIVE_DAEMON_SET, None, &surge);
    set.settle();
    let with = |image_: &str| {
        let mut spec = surge.clone();
        spec["template"] = image(image_)["template"].clone();
        spec
    };
    set.edit(&with("2"));
    set.sync();
    let newest = set.pods.values_mut().max_by_key(|pod| pod.uid).unwrap();
    newest.ready = None;
    set.edit(&with("3"));
    let words = set.sync();
    assert!(
        words.contains(&"delete_pod") && !words.contains(&"create_pod"),
        "{words:?}"
    );
    set.settle();
    assert_eq!(set.set.status.updated_number_scheduled, Some(2));
}

#[test]
fn the_next_node_gets_a_second_pod_when_the_old_one_of_the_node_before_goes() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    for kind in [NATIVE_DAEMON_SET, DAEMON_SET] {
        let mut set = Whole::new(kind, None, &surge);
        set.settle();
        let nodes = set.pods.len();
        let mut spec = surge.clone();
        spec["template"] = image("2")["template"].clone();
        set.edit(&spec);
        for _ in 0..nodes {
            let words = set.sync();
            assert!(words.contains(&"create_pod"), "{words:?}");
            assert_eq!(set.pods.len(), nodes + 1);
            let words = set.sync();
            assert!(words.contains(&"delete_pod"), "{words:?}");
            assert!(!words.contains(&"create_pod"), "{words:?}");
        }
        set.settle();
        assert_eq!(set.set.status.updated_number_scheduled, Some(2));
    }
}

#[test]
fn a_pod_that_was_released_keeps_its_name_and_its_node_gets_another() {
    let mut set = Whole::new(DAEMON_SET, None, &json!({}));
    set.settle();
    let name = name::daemon_pod("agent", uid(0), "n1", 0);
    let mut released = set.pods.remove(&*name).unwrap();
    released.labels = [].into();
    set.free.insert(name.into(), released);
    assert_eq!(set.sync(), ["create_pod", "write_status"]);
    set.settle();
    assert_eq!(set.pods.len(), 2);
}

#[test]
fn what_is_complete_writes_nothing_however_time_passes() {
    for edit in [None, Some(image("2"))] {
        let mut set = Whole::new(DAEMON_SET, None, &json!({}));
        set.settle();
        if let Some(edit) = edit {
            set.edit(&edit);
            set.settle();
        }
        for _ in 0..3 {
            set.now += 1;
            assert_eq!(set.sync(), [""; 0], "second {}", set.now);
        }
    }
}

#[test]
fn only_an_update_that_stands_still_for_ten_minutes_is_stalled() {
    let mut set = Whole::new(DAEMON_SET, None, &json!({}));
    set.settle();
    assert_eq!(set.reason(types::PROGRESSING), reasons::UPDATE_COMPLETE);
    // A pod of a complete one is unready for long.
    set.now += 10_000;
    for pod in set.pods.values_mut() {
        pod.ready = None;
    }
    set.settle();
    set.now += 10_000;
    set.settle();
    assert_eq!(set.reason(types::PROGRESSING), reasons::UPDATE_COMPLETE);
    assert_eq!(set.reason(types::READY), reasons::PODS_UNAVAILABLE);
    assert_eq!(set.reason(types::STALLED), "");
    // The time of an update begins with it.
    for pod in set.pods.values_mut() {
        pod.ready = Some(at(0));
    }
    set.settle();
    set.edit(&image("2"));
    set.sync();
    set.sync();
    for pod in set
        .pods
        .values_mut()
        .filter(|pod| pod.created == at(20_100))
    {
        pod.ready = None;
    }
    set.sync();
    assert_eq!(set.reason(types::PROGRESSING), reasons::UPDATING);
    let due = set.plan().wake.unwrap();
    assert_eq!(due, at(20_100 + 600));
    set.now = 20_100 + 600;
    set.sync();
    assert_eq!(
        set.reason(types::STALLED),
        reasons::PROGRESS_DEADLINE_EXCEEDED
    );
    assert_eq!(set.set.status.waiting_for[0].reason, "PodNotReady");
}

/// The pods on `node` of an update to another image are not ready; what the status then says.
fn updated(strategy: &Value, unready: &[&str]) -> Whole {
    let mut set = Whole::new(DAEMON_SET, None, &json!({}));
    set.settle();
    let mut spec = image("2");
    spec["updateStrategy"] = strategy.clone();
    set.edit(&spec);
    for _ in 0..20 {
        set.sync();
        for pod in set.pods.values_mut() {
            if unready.iter().any(|node| pod.node.as_deref() == Some(node)) {
                pod.ready = None;
            }
        }
    }
    set
}

#[test]
fn the_word_for_kubectls_table_is_that_of_the_update_and_not_of_a_pod_in_it() {
    let rolling = |more: Value| json!({"rollingUpdate": more});
    for (strategy, unready, word, ready) in [
        (json!({}), &[][..], "Complete", true),
        // As many nodes wait as may.
        (json!({}), &["n1"], "Updating", false),
        // More of them wait.
        (json!({}), &["n1", "n2"], "PodNotReady", false),
        (rolling(json!({"paused": true})), &[], "Paused", false),
        (rolling(json!({"partition": 1})), &[], "OldPodsKept", true),
        (
            rolling(json!({"selector": {"matchLabels": {"a": "b"}}})),
            &[],
            "OldPodsKept",
            true,
        ),
        (json!({"type": "OnDelete"}), &[], "OldPodsKept", true),
        (json!({"type": "OnDelete"}), &["n1"], "PodNotReady", false),
    ] {
        let set = updated(&strategy, unready);
        let status = &set.set.status;
        let is_ready = is_true(&status.conditions, types::READY);
        assert_eq!(
            (&*status.summary, is_ready),
            (word, ready),
            "{strategy} {unready:?}: {status:?}"
        );
    }
}

#[test]
fn old_pods_that_are_kept_on_purpose_are_counted_in_the_message() {
    let set = updated(&json!({"rollingUpdate": {"partition": 1}}), &[]);
    let ready = find(&set.set.status.conditions, types::READY).unwrap();
    assert_eq!(
        ready.message,
        "1/2 nodes have a pod of the current template, 1 keep their old pod"
    );
    let mut set = set;
    set.edit(&image("2"));
    set.settle();
    assert_eq!(set.reason(types::READY), reasons::UPDATE_COMPLETE);
}

#[test]
fn a_node_that_gets_no_pod_as_partitioned_scaling_says_keeps_nobody_waiting() {
    let mut set = Whole::new(DAEMON_SET, None, &json!({}));
    set.settle();
    let mut spec = image("2");
    spec["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    spec["scaleStrategy"] = json!({"partitionedScaling": true});
    set.edit(&spec);
    set.settle();
    set.pods.retain(|_, pod| pod.node.as_deref() != Some("n1"));
    let new = set.set.status.update_revision.clone().unwrap();
    set.pods
        .values_mut()
        .for_each(|pod| pod.labels = labels(&new));
    set.settle();
    let ready = find(&set.set.status.conditions, types::READY).unwrap();
    let message =
        "1/2 nodes have a pod of the current template, 1 get no pod, as partitionedScaling says";
    assert_eq!((&*ready.status, &*ready.message), ("True", message));
}

#[test]
fn a_node_is_excused_if_it_was_sick_before_and_not_if_the_update_may_have_made_it_sick() {
    let sick = |set: &mut Whole, since: i64| {
        set.nodes.get_mut("n1").unwrap().not_ready_since = Some(at(since));
        let pods = set.pods.values_mut();
        for pod in pods.filter(|pod| pod.node.as_deref() == Some("n1")) {
            pod.ready = None;
        }
    };
    let mut before = Whole::new(DAEMON_SET, None, &json!({}));
    before.settle();
    sick(&mut before, 150);
    before.now = 200;
    before.edit(&image("2"));
    before.sync();
    assert_eq!(before.set.status.excused[0].reason, "NodeNotReady");
    let mut after = Whole::new(DAEMON_SET, None, &json!({}));
    after.settle();
    after.now = 200;
    after.edit(&image("2"));
    after.sync();
    after.sync();
    after.now = 300;
    sick(&mut after, 250);
    after.sync();
    assert!(after.set.status.excused.is_empty());
    assert_eq!(after.set.status.waiting_for[0].sample, ["n1"]);
}

#[test]
fn a_revision_that_somebody_has_deleted_and_a_finalizer_keeps_is_deleted_once() {
    let mut set = Whole::new(DAEMON_SET, None, &json!({"revisionHistoryLimit": 0}));
    set.settle();
    let (name, current) = set.revisions.iter().next().unwrap();
    let mut twin = current.clone();
    twin.uid = uid(900);
    twin.deleting = true;
    let name = format!("{name}-twin");
    set.revisions.insert(name.into(), twin);
    assert!(set.sync().is_empty());
}
