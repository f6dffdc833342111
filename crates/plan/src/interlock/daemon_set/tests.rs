use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::daemon_set::backoff::FailedNodes;
use crate::daemon_set::pod::LABEL_REVISION;
use crate::daemon_set::refused::RefusedNodes;
use crate::daemon_set::spec::PreDelete;
use crate::daemon_set::taken::TakenNames;
use crate::daemon_set::{DaemonPods, Revision, Revisions, plan};
use crate::meta::Meta;
use crate::node::{Effect, NodeRow, Nodes, Taint};
use crate::object_key::{DAEMON_SET, ObjectKey};

fn uid(n: u64) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A DaemonSet on four nodes, each with an available pod of the revision `a`.
struct World {
    set: DaemonSet,
    pods: DaemonPods,
    revisions: Revisions,
    nodes: Nodes,
}

impl World {
    fn new(rolling_update: &serde_json::Value) -> Self {
        let meta = Meta::new(ObjectKey::of(DAEMON_SET, "ops", "agent", uid(0)), at(0));
        let spec = json!({
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}},
            "updateStrategy": {"rollingUpdate": rolling_update},
        });
        let mut world = Self {
            set: DaemonSet::read(meta, None, &spec, &json!({})),
            pods: DaemonPods::new(),
            revisions: Revisions::new(),
            nodes: Nodes::new(),
        };
        for n in 1..=4 {
            world
                .nodes
                .insert(format!("n{n}").into(), NodeRow::default());
            world.pod(n, &format!("n{n}"), "a");
        }
        for (n, hash) in (10..).zip(["a", "b"]) {
            let revision = Revision {
                uid: uid(n),
                number: n as i64,
                labels: labels(hash),
                ..Revision::default()
            };
            world
                .revisions
                .insert(format!("agent-{hash}").into(), revision);
        }
        world
    }

    fn pod(&mut self, n: u64, node: &str, hash: &str) -> &mut DaemonPod {
        let pod = DaemonPod {
            uid: uid(n),
            phase: PodPhase::Running,
            node: Some(node.into()),
            bound: true,
            ready: Some(at(0)),
            labels: labels(hash),
            ..DaemonPod::default()
        };
        self.pods.entry(format!("p{n}").into()).or_insert(pod)
    }

    fn verdict(&self, steps: Vec<Step>) -> Result<(), &'static str> {
        let plan = Plan {
            steps,
            ..Plan::default()
        };
        self.with(|snapshot| verify(snapshot, &plan, at(9)))
            .map_err(|trip| trip.rule)
    }

    fn with<T>(&self, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        look(&Snapshot {
            set: &self.set,
            pods: &self.pods,
            free: &DaemonPods::new(),
            revisions: &self.revisions,
            free_revisions: &Revisions::new(),
            nodes: &self.nodes,
            failed: &FailedNodes::new(),
            taken: &BTreeSet::new(),
            taken_pods: &TakenNames::new(),
            refused_nodes: &RefusedNodes::new(),
            refusal: None,
            told_at: None,
            max_pod_changes: 250,
        })
    }
}

fn labels(hash: &str) -> crate::node::Labels {
    Arc::from([
        ("app".into(), "agent".into()),
        (LABEL_REVISION.into(), hash.into()),
    ])
}

fn create(name: &str, node: &str, hash: &str) -> Vec<Step> {
    let (name, node, hash) = (name.to_owned(), node.to_owned(), hash.to_owned());
    vec![Step::slowly(vec![Action::CreatePod(NewPod {
        name,
        node,
        hash,
    })])]
}

fn delete(pods: &[u64], why: Why) -> Vec<Step> {
    let actions = pods.iter().map(|n| Action::DeletePod {
        name: format!("p{n}"),
        uid: uid(*n),
        rv: None,
        node: format!("n{n}"),
        why,
    });
    vec![Step::wanted(actions.collect())]
}

#[test]
fn the_planners_own_plans_pass() {
    for update in [
        json!({}),
        json!({"maxUnavailable": "50%"}),
        json!({"maxSurge": 2}),
    ] {
        let mut world = World::new(&update);
        for change in 0..4 {
            let planned = world.with(|snapshot| plan(snapshot, at(9)));
            assert!(!planned.steps.is_empty());
            assert_eq!(world.verdict(planned.steps), Ok(()), "{update} {change}");
            world.pods.remove(&*format!("p{}", change + 1));
        }
    }
}

#[test]
fn a_node_gets_one_pod_and_a_second_one_only_with_a_surge() {
    let mut world = World::new(&json!({}));
    let rule = Err(rules::ONE_PER_NODE);
    assert_eq!(world.verdict(create("x", "n1", "b")), rule);
    assert_eq!(world.verdict(create("x", "n9", "b")), rule);
    world.pods.remove("p1");
    assert_eq!(world.verdict(create("x", "n1", "b")), Ok(()));
    assert_eq!(world.verdict(create("p2", "n1", "b")), rule);
    let twice = [create("x", "n1", "b"), create("y", "n1", "b")].concat();
    assert_eq!(world.verdict(twice), rule);
    assert_eq!(world.verdict(create("x", "n1", "c")), Err(rules::HISTORY));
    let mut surge = World::new(&json!({"maxSurge": 1}));
    assert_eq!(surge.verdict(create("x", "n1", "b")), Ok(()));
    assert_eq!(surge.verdict(create("x", "n1", "a")), rule);
    surge.pod(5, "n1", "b");
    assert_eq!(surge.verdict(create("x", "n1", "b")), rule);
}

#[test]
fn an_update_takes_no_more_away_than_its_budget() {
    let mut world = World::new(&json!({"maxUnavailable": 2}));
    assert_eq!(world.verdict(delete(&[1, 2], Why::Outdated)), Ok(()));
    let rule = Err(rules::BUDGET);
    assert_eq!(world.verdict(delete(&[1, 2, 3], Why::Outdated)), rule);
    world.pods.get_mut("p4").unwrap().ready = None;
    assert_eq!(world.verdict(delete(&[1, 2], Why::Outdated)), rule);
    assert_eq!(world.verdict(delete(&[1, 4], Why::Outdated)), Ok(()));
    let sick = world.nodes.get_mut("n4").unwrap();
    sick.not_ready_since = Some(at(1));
    assert_eq!(world.verdict(delete(&[1, 2], Why::Outdated)), Ok(()));
}

#[test]
fn a_node_that_should_have_no_pod_uses_up_no_budget() {
    let mut world = World::new(&json!({}));
    world.pods.get_mut("p4").unwrap().deletion = Some(at(1));
    let one = || delete(&[1], Why::Outdated);
    assert_eq!(world.verdict(one()), Err(rules::BUDGET));
    let taint = Taint {
        key: "gone".into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    world.nodes.get_mut("n4").unwrap().taints = [taint].into();
    assert_eq!(world.verdict(one()), Ok(()));
}

#[test]
fn pods_are_deleted_by_uid_and_for_a_reason_that_holds() {
    let mut world = World::new(&json!({"maxUnavailable": 4}));
    let rule = Err(rules::DELETE);
    for why in [Why::Failed, Why::Succeeded, Why::Duplicate] {
        assert_eq!(world.verdict(delete(&[1], why)), rule, "{why:?}");
    }
    world.pod(5, "n1", "a");
    assert_eq!(world.verdict(delete(&[5], Why::Duplicate)), Ok(()));
    assert_eq!(world.verdict(delete(&[1, 5], Why::Duplicate)), rule);
    assert_eq!(world.verdict(delete(&[6], Why::NotWanted)), rule);
    world.pods.get_mut("p5").unwrap().uid = uid(6);
    assert_eq!(world.verdict(delete(&[5], Why::Duplicate)), rule);
    world.set.meta.deleting = true;
    assert_eq!(
        world.verdict(delete(&[1], Why::NotWanted)),
        Err(rules::ACTS)
    );
}

#[test]
fn a_pod_with_a_hook_is_told_once_that_it_goes_and_is_not_deleted() {
    let mut world = World::new(&json!({}));
    let hook = BTreeMap::from([("hold".to_owned(), "yes".to_owned())]);
    let spec = Arc::make_mut(&mut world.set.spec);
    spec.pre_delete = Some(PreDelete {
        labels: hook,
        finalizers: vec!["example.com/x".to_owned()],
    });
    let label = |world: &mut World, n: u64, key: &str, value: &str| {
        let pod = world.pods.get_mut(&*format!("p{n}")).unwrap();
        let mut labels = pod.labels.to_vec();
        labels.push((key.into(), value.into()));
        pod.labels = labels.into();
    };
    let prepare = |pods: &[u64], rv| {
        let actions = pods.iter().map(|n| Action::PreparePod {
            name: format!("p{n}"),
            uid: uid(*n),
            rv,
            node: format!("n{n}"),
            why: Why::Outdated,
            at: at(9),
        });
        vec![Step::wanted(actions.collect())]
    };
    let keep = |n: u64| {
        let name = format!("p{n}");
        let action = Action::KeepPod {
            name,
            uid: uid(n),
            rv: 0,
        };
        vec![Step::wanted(vec![action])]
    };
    let delete = |n: u64, rv| {
        let mut steps = delete(&[n], Why::Outdated);
        if let Action::DeletePod { rv: asked, .. } = &mut steps[0].actions[0] {
            *asked = rv;
        }
        steps
    };
    let rule = Err(rules::PRE_DELETE);
    assert_eq!(
        world.verdict(delete(1, None)),
        rule,
        "it may have a hook by now"
    );
    assert_eq!(world.verdict(delete(1, Some(0))), Ok(()));
    assert_eq!(world.verdict(prepare(&[1], 0)), rule, "it has no hook");
    for n in 1..=3 {
        label(&mut world, n, "hold", "yes");
    }
    world.pods.get_mut("p4").unwrap().finalizers = ["example.com/x".into()].into();
    assert_eq!(world.verdict(delete(1, Some(0))), rule);
    assert_eq!(world.verdict(delete(4, Some(0))), rule);
    assert_eq!(world.verdict(prepare(&[4], 0)), Ok(()));
    assert_eq!(world.verdict(prepare(&[1], 7)), rule, "it has changed");
    assert_eq!(world.verdict(prepare(&[1, 2], 0)), Err(rules::BUDGET));
    assert_eq!(world.verdict(keep(1)), rule, "nobody has told it");
    label(&mut world, 1, LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE);
    assert_eq!(world.verdict(prepare(&[1], 0)), rule, "it was told");
    assert_eq!(world.verdict(prepare(&[2], 0)), Err(rules::BUDGET));
    assert_eq!(world.verdict(keep(1)), Ok(()));
    let both = [keep(1), delete(1, Some(0))].concat();
    assert_eq!(world.verdict(both), rule, "it goes");
}

#[test]
fn a_revision_that_pods_need_stays_and_numbers_rise() {
    let mut world = World::new(&json!({}));
    let remove = |hash: &str, n| {
        let name = format!("agent-{hash}");
        vec![Step::wanted(vec![Action::DeleteRevision {
            name,
            uid: uid(n),
            rv: 1,
        }])]
    };
    let rule = Err(rules::HISTORY);
    assert_eq!(world.verdict(remove("a", 10)), rule);
    assert_eq!(world.verdict(remove("b", 11)), Ok(()));
    assert_eq!(world.verdict(remove("b", 12)), rule);
    let number = |number| {
        let name = "agent-b".to_owned();
        let action = Action::RenumberRevision {
            name,
            uid: uid(11),
            number,
        };
        vec![Step::needed(vec![action])]
    };
    assert_eq!(
        (world.verdict(number(12)), world.verdict(number(11))),
        (Ok(()), rule)
    );
    let new = |number| {
        let (name, hash) = ("agent-c".to_owned(), "c".to_owned());
        vec![Step::needed(vec![Action::CreateRevision(NewRevision {
            name,
            hash,
            number,
        })])]
    };
    assert_eq!(
        (world.verdict(new(12)), world.verdict(new(11))),
        (Ok(()), rule)
    );
    world.pods.remove("p1");
    let made = [new(12), create("x", "n1", "c")].concat();
    assert_eq!(world.verdict(made), Ok(()));
}

#[test]
fn what_is_adopted_is_asked_about_first_and_a_status_adds_up() {
    let world = World::new(&json!({}));
    let adopt = || {
        Step::wanted(vec![Action::AdoptPod {
            name: "x".to_owned(),
            uid: uid(7),
        }])
    };
    let asked = Step::needed(vec![Action::ConfirmCurrent]);
    assert_eq!(world.verdict(vec![adopt()]), Err(rules::CONFIRMED_FIRST));
    assert_eq!(world.verdict(vec![asked, adopt()]), Ok(()));
    let write = |desired, ready| {
        let status = DaemonSetStatus {
            desired_number_scheduled: desired,
            number_ready: ready,
            ..DaemonSetStatus::default()
        };
        vec![Step::wanted(vec![Action::WriteStatus(Box::new(status))])]
    };
    assert_eq!(world.verdict(write(4, 4)), Ok(()));
    assert_eq!(world.verdict(write(4, 5)), Err(rules::STATUS));
}

#[test]
fn a_plan_that_is_refused_is_told_once() {
    let mut world = World::new(&json!({}));
    let trip = Trip {
        rule: rules::BUDGET,
        what: "x".to_owned(),
    };
    let refused = refuse(&world.set, &trip, at(9));
    let [Step { actions, .. }] = &refused.steps[..] else {
        panic!("{refused:?}");
    };
    let [Action::WriteStatus(status)] = &actions[..] else {
        panic!("{actions:?}");
    };
    world.set.status = (**status).clone();
    assert_eq!(refuse(&world.set, &trip, at(99)).steps, []);
}
