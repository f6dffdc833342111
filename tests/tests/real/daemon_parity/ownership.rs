//! Pods and revisions change hands, or were made by somebody else.

use http::Method;
use serde_json::{Value, json};

use super::here::hash;
use super::scenario::{Deed, PODS, REVISIONS, SETS, Scenario, Whose, on_delete, orphan, to};
use crate::parity::merge;
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

fn with_label(value: &str) -> PodDeed {
    PodDeed::Patch(json!({"metadata": {"labels": {"app": value}}}))
}

/// A pod of the DaemonSet that somebody else has made.
fn made_by_hand(name: &str, labels: Value) -> Deed {
    let mut pod = orphan(name, labels);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet",
        "name": "d", "uid": "$UID", "controller": true, "blockOwnerDeletion": true}]);
    Deed::Request(Method::POST, PODS, pod)
}

fn revision(name: &str, number: i64, labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "labels": labels},
        "data": {"spec": {"template": {"metadata": {"labels": {"app": "d"}}}}},
        "revision": number,
    })
}

/// Another DaemonSet that selects the same pods.
fn another() -> Value {
    let mut set = Scenario::of("another", 0, &[]).set;
    merge(&mut set, &json!({"metadata": {"name": "d-e"}}));
    set
}

/// Two nodes have their pods, and there are so many in all.
fn two_of(here: &Here, pods: usize) -> bool {
    here.is_at(2) && here.pods().len() == pods
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let two = |name, specs: &[Value]| Scenario::of(name, 2, specs);
    let mine = || json!({"app": "d"});
    let first = |deed| Deed::Pods(Whose::On(0), deed);
    vec![
        two("orphan-adopted-and-replaced", &[])
            .before(PODS, orphan("an-orphan", mine()))
            .created(|here| two_of(here, 2)),
        two("orphan-adopted", &[on_delete()])
            .before(PODS, orphan("an-orphan", mine()))
            .created(|here| here.has(2) && here.number("numberAvailable") == 2),
        two("two-orphans-on-a-node", &[on_delete()])
            .before(PODS, orphan("a-first-orphan", mine()))
            .before(PODS, orphan("a-second-orphan", mine()))
            .created(|here| {
                here.has(2) && here.pods().len() == 2 && here.number("numberAvailable") == 2
            }),
        two("orphan-of-another-label", &[])
            .before(PODS, orphan("an-orphan", json!({"app": "other"})))
            .created(|here| two_of(here, 3)),
        two("orphan-labelled-later", &[])
            .before(PODS, orphan("an-orphan", json!({"app": "other"})))
            .created(|here| two_of(here, 3))
            .then_until(
                Deed::Pods(Whose::Named("an-orphan"), with_label("d")),
                |here| two_of(here, 2),
            ),
        two("orphan-made-later", &[])
            .then_until(
                Deed::Request(Method::POST, PODS, orphan("an-orphan", mine())),
                |here| two_of(here, 2),
            ),
        two("pod-released", &[]).then_until(first(with_label("other")), |here| two_of(here, 3)),
        two("released-pod-comes-back", &[])
            .then_until(first(with_label("other")), |here| two_of(here, 3))
            .then_until(first(with_label("d")), |here| two_of(here, 2)),
        two("owner-taken-off", &[]).then_until(
            first(PodDeed::Patch(json!({"metadata": {"ownerReferences": null}}))),
            |here| two_of(here, 2) && here.pods().iter().all(is_owned),
        ),
        two("duplicate-made-by-hand", &[]).then_until(
            made_by_hand(
                "by-hand",
                json!({"app": "d", "controller-revision-hash": "$HASH-1", "pod-template-generation": "1"}),
            ),
            |here| two_of(here, 2),
        ),
        two("duplicate-without-a-hash", &[])
            .then_until(made_by_hand("by-hand", mine()), |here| two_of(here, 2)),
        two("owned-and-not-selected", &[]).then_until(
            made_by_hand("by-hand", json!({"app": "other"})),
            |here| two_of(here, 3),
        ),
        two("another-set-selects-the-same", &[])
            .then_until(Deed::Request(Method::POST, SETS, another()), |here| {
                two_of(here, 4)
            })
            .then_until(first(PodDeed::Delete), |here| two_of(here, 4)),
        two("hash-taken-off", &[]).then(first(PodDeed::Patch(
            json!({"metadata": {"labels": {"controller-revision-hash": null}}}),
        ))),
        two("generation-taken-off", &[]).then(first(PodDeed::Patch(
            json!({"metadata": {"labels": {"pod-template-generation": null}}}),
        ))),
        two("hash-and-generation-taken-off", &[]).then_until(
            first(PodDeed::Patch(json!({"metadata": {"labels": {
                "controller-revision-hash": null, "pod-template-generation": null}}}))),
            |here| two_of(here, 2) && here.pods().iter().all(|pod| hash(pod).is_some()),
        ),
        two("revision-adopted", &[])
            .before(REVISIONS, revision("of-before", 5, &mine())),
        two("revision-of-another-label", &[])
            .before(REVISIONS, revision("of-before", 5, &json!({"app": "other"}))),
        two("revision-made-later", &[]).then(Deed::Request(
            Method::POST,
            REVISIONS,
            revision("of-before", 5, &mine()),
        )),
        two("revision-deleted", &[]).then(Deed::Request(
            Method::DELETE,
            "apis/apps/v1/controllerrevisions/d-$HASH-1",
            Value::Null,
        )),
        two("old-revision-deleted", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::DELETE,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                Value::Null,
            ))
            .then(to("busybox:1.36")),
        two("revision-released", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::PATCH,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                json!({"metadata": {"labels": {"app": "other"}}}),
            )),
        // Its name is that of the revision that is needed, and its labels are not.
        two("released-revision-is-needed-again", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::PATCH,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                json!({"metadata": {"labels": {"app": "other"}}}),
            ))
            .then(to("busybox:1.36")),
        two("name-of-a-revision-is-taken", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::DELETE,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                Value::Null,
            ))
            .then(Deed::Request(
                Method::POST,
                REVISIONS,
                revision("d-$HASH-1", 1, &json!({"app": "other"})),
            ))
            .then(to("busybox:1.36")),
        two("revision-loses-its-owner", &[]).then(Deed::Request(
            Method::PATCH,
            "apis/apps/v1/controllerrevisions/d-$HASH-1",
            json!({"metadata": {"ownerReferences": null}}),
        )),
        two("revision-renumbered", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::PATCH,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                json!({"revision": 7}),
            )),
        two("revision-loses-its-hash", &[])
            .then(to("busybox:1.37"))
            .then(Deed::Request(
                Method::PATCH,
                "apis/apps/v1/controllerrevisions/d-$HASH-1",
                json!({"metadata": {"labels": {"controller-revision-hash": null}}}),
            )),
    ]
}

fn is_owned(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"].is_array()
}
