//! Whose pods are whose.

use serde_json::json;

use super::super::JobPod;
use super::super::action::Action;
use super::world::{World, uid};
use crate::pod::PodPhase::{Running, Succeeded};

/// A Job that selects pods of the app `sum`.
fn selecting() -> World {
    World::new(json!({
        "parallelism": 1, "completions": 1, "selector": {"matchLabels": {"app": "sum"}},
    }))
}

fn labelled(app: &str) -> impl FnOnce(&mut JobPod) {
    move |pod| {
        pod.labels = [("app".into(), app.into())].into();
        pod.phase = Running;
    }
}

/// Takes a pod from its Job.
fn set_free(world: &mut World, name: &str) {
    let mut pod = world.pods.remove(name).unwrap();
    pod.tracked = false;
    world.free.insert(name.into(), pod);
}

fn words(world: &World) -> Vec<String> {
    let steps = world.plan().steps;
    let actions = steps.iter().flat_map(|step| &step.actions);
    let shown = |action: &Action| match action {
        Action::AdoptPod { name, .. } => format!("adopt {name}"),
        Action::DisownPod { name, .. } => format!("disown {name}"),
        Action::ConfirmCurrent => "confirm".to_owned(),
        _ => "go on".to_owned(),
    };
    actions.map(shown).collect()
}

#[test]
fn a_pod_that_nobody_controls_is_adopted_after_the_job_was_asked_for_and_before_pods_are_counted() {
    let mut world = selecting();
    world.pod(labelled("sum"));
    world.pod(labelled("other"));
    world.pod(|pod| {
        labelled("sum")(pod);
        pod.deleting = true;
    });
    for name in ["p1", "p2", "p3"] {
        set_free(&mut world, name);
    }
    assert_eq!(words(&world), ["confirm", "adopt p1"]);
    assert!(world.plan().again);
    world.settle();
    assert_eq!(world.names(), ["p1"]);
    assert_eq!((world.counts(), world.free.len()), ((1, 0, 0), 2));
}

#[test]
fn an_adopted_pod_that_has_ended_is_counted() {
    let mut world = selecting();
    world.pod(labelled("sum"));
    world.end("p1", Succeeded, 0);
    set_free(&mut world, "p1");
    world.settle();
    assert_eq!(world.counts(), (0, 1, 0));
    assert!(world.job.has("Complete"));
}

#[test]
fn a_pod_with_other_labels_is_given_away_and_replaced() {
    let mut world = selecting();
    world.pod(labelled("other"));
    assert_eq!(words(&world), ["disown p1"]);
    world.sync();
    let freed = &world.free["p1"];
    assert!(!freed.tracked && !freed.deleting);
    world.sync();
    assert_eq!(world.counts().0, 1);
    assert_ne!(world.names(), ["p1"]);
}

#[test]
fn a_pod_that_was_given_away_keeps_its_name() {
    let mut world = selecting();
    world.sync();
    let first = world.names();
    set_free(&mut world, &first[0]);
    world.free.get_mut(first[0].as_str()).unwrap().labels = [("app".into(), "other".into())].into();
    world.sync();
    assert_eq!(world.names().len(), 1);
    assert_ne!(world.names(), first);
}

#[test]
fn a_job_that_is_deleted_takes_and_gives_nothing() {
    let mut world = selecting();
    world.pod(labelled("sum"));
    set_free(&mut world, "p1");
    world.pod(labelled("other"));
    world.pod(labelled("sum"));
    world.job.meta.deleting = true;
    assert!(words(&world).iter().all(|word| word == "go on"));
    world.settle();
    assert_eq!(world.counts(), (1, 0, 0), "that of others is not counted");
    assert!(world.pods["p2"].tracked && !world.pods["p3"].tracked);
    assert_eq!(world.free.len(), 1);
}

#[test]
fn a_job_that_has_ended_adopts_nothing() {
    let mut world = selecting().with_status(json!({
        "conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1,
    }));
    world.pod(labelled("sum"));
    set_free(&mut world, "p1");
    assert_eq!(world.plan().steps, []);
}

#[test]
fn a_job_without_a_selector_keeps_what_it_has() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 1}));
    world.pod(labelled("other"));
    world.free.insert(
        "q".into(),
        JobPod {
            uid: uid(9),
            ..JobPod::default()
        },
    );
    world.settle();
    assert_eq!((world.names().len(), world.free.len()), (1, 1));
}
