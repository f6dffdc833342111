//! DaemonSets that are deleted.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::scenario::{Deed, SETS, Scenario, Whose, fate, template, to, to_broken};
use crate::parity::merge;
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

fn all_gone(here: &Here) -> bool {
    here.is_set_gone() && here.pods().is_empty() && here.all("controllerrevisions").is_empty()
}

/// The set is gone, and nothing has gone with it.
fn left_alone(here: &Here) -> bool {
    let has_owner = |object: &Value| object["metadata"]["ownerReferences"].is_array();
    let left = |plural| {
        let all = here.all(plural);
        !all.is_empty() && !all.iter().any(has_owner)
    };
    here.is_set_gone() && left("pods") && left("controllerrevisions")
}

/// The same set, with changes to its spec.
fn again(change: &Value) -> Deed {
    let mut set = Scenario::of("again", 0, &[]).set;
    merge(&mut set["spec"], change);
    Deed::Request(Method::POST, SETS, set)
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let two = |name| Scenario::of(name, 2, &[]);
    let slow = fate(&Fate::default().with("termination-time", "5s"));
    let held = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    let other = template(json!({"containers": [{"name": "main", "image": "busybox:1.37"}]}));
    let being_deleted = |here: &Here| {
        let set = here.set();
        set.is_some_and(|set| set["metadata"]["deletionTimestamp"].is_string())
    };
    vec![
        two("deleted-in-background").then_until(Deed::Delete("Background"), all_gone),
        two("deleted-in-foreground").then_until(Deed::Delete("Foreground"), all_gone),
        two("deleted-alone").then_until(Deed::Delete("Orphan"), left_alone),
        Scenario::of(
            "deleted-in-background-slowly",
            2,
            std::slice::from_ref(&slow),
        )
        .then_until(Deed::Delete("Background"), all_gone),
        Scenario::of("deleted-in-foreground-slowly", 2, &[slow])
            .then_until(Deed::Delete("Foreground"), all_gone),
        two("deleted-in-the-middle")
            .then_until(to_broken(), |here| {
                here.number("updatedNumberScheduled") == 1
            })
            .then_until(Deed::Delete("Background"), all_gone)
            .any_node(),
        two("deleted-and-held")
            .set(&held)
            .then_until(Deed::Delete("Background"), being_deleted)
            .then_until(Deed::Pods(Whose::On(0), PodDeed::Delete), |here| {
                here.pods().len() == 1
            })
            .then_until(to("busybox:1.37"), being_deleted),
        two("made-again")
            .then_until(Deed::Delete("Background"), all_gone)
            .then_until(again(&json!({})), |here| here.is_at(2)),
        two("deleted-alone-and-made-again")
            .then_until(Deed::Delete("Orphan"), left_alone)
            .then_until(again(&json!({})), |here| here.is_at(2)),
        two("deleted-alone-and-made-otherwise")
            .then_until(Deed::Delete("Orphan"), left_alone)
            .then_until(again(&other), |here| here.is_at(2)),
        two("deleted-alone-and-a-pod-is-deleted")
            .then_until(Deed::Delete("Orphan"), left_alone)
            .then_until(Deed::Pods(Whose::On(0), PodDeed::Delete), |here| {
                here.pods().len() == 1
            }),
        two("deleted-with-its-namespace")
            .then_until(Deed::Request(Method::DELETE, "", Value::Null), |here| {
                here.is_set_gone() && here.pods().is_empty()
            }),
    ]
}
