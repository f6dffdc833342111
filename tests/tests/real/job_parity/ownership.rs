//! Pods that others delete, change, or bring along.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::here::{TRACKING, is_held};
use super::scenario::{Deed, PODS, Scenario, all_pods, ends, fails, indexed, ready, runs};
use super::side::change_to;
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

fn any(_: &Value) -> bool {
    true
}

/// It has, and was released.
fn succeeded(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" && !is_held(pod)
}

fn running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

/// It has, and was released.
fn failed(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" && !is_held(pod)
}

/// A Job that takes pods by a label of its own.
fn by_label() -> Value {
    json!({
        "manualSelector": true,
        "selector": {"matchLabels": {"app": "mine"}},
        "template": {"metadata": {"labels": {"app": "mine"}}},
    })
}

/// A pod without an owner.
fn orphan(label: &str, fate: &Fate) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "orphan", "labels": {"app": label}, "annotations": fate.annotations()},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1.37"}],
        },
    })
}

fn is_orphan(pod: &Value) -> bool {
    pod["metadata"]["name"] == "orphan"
}

/// A pod of the Job that somebody else has made, without the finalizer.
fn made_by_hand() -> Value {
    let mut pod = orphan("mine", &Fate::hangs());
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job",
        "name": "j", "uid": "UID", "controller": true, "blockOwnerDeletion": true}]);
    pod
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let two = json!({"completions": 2, "parallelism": 2});
    let one_by_one = json!({"completions": 2, "parallelism": 1});
    let hangs_first = [Fate::hangs(), ends()];
    vec![
        Scenario::of("pod-deleted", &[])
            .fates(&hangs_first)
            .pod(ready, any, PodDeed::Delete),
        Scenario::of("pod-deleted-at-limit-0", &[json!({"backoffLimit": 0})])
            .fates(&hangs_first)
            .pod(ready, any, PodDeed::Delete),
        Scenario::of("pod-deleted-at-once", &[])
            .fates(&hangs_first)
            .pod(ready, any, PodDeed::DeleteNow),
        Scenario::of("succeeded-pod-deleted", &[one_by_one])
            .fates(&[ends(), runs("6500ms")])
            .pod(
                |here| here.count("succeeded") == 1 && here.count("ready") == 1,
                succeeded,
                PodDeed::Delete,
            ),
        Scenario::of("failed-pod-deleted", &[])
            .fates(&[fails(1), ends()])
            .pod(|here| here.count("failed") == 1, failed, PodDeed::Delete),
        Scenario::of("succeeded-index-deleted", &[indexed(2, 2)])
            .fates(&[ends()])
            .index(1, &[runs("8500ms")])
            .pod(
                |here| here.count("succeeded") == 1,
                succeeded,
                PodDeed::Delete,
            ),
        Scenario::of("pod-deleted-after-the-end", &[]).pod(
            |here| here.is("Complete"),
            any,
            PodDeed::Delete,
        ),
        Scenario::of("finalizer-taken-off", &[])
            .fates(&[runs("6500ms")])
            .pod(
                ready,
                any,
                PodDeed::Patch(json!({"metadata": {"finalizers": null}})),
            ),
        Scenario::of(
            "orphan-adopted",
            &[by_label(), two.clone(), all_pods(&runs("5500ms"))],
        )
        // Adopted before it is ready, however long that takes.
        .before(
            PODS,
            orphan("mine", &Fate::never_starts("ContainerCreating")),
        )
        .pod(
            |here| here.count("active") == 2,
            is_orphan,
            PodDeed::Patch(change_to(&runs("6500ms"))),
        ),
        Scenario::of(
            "ended-orphan-adopted",
            &[by_label(), two.clone(), all_pods(&runs("5500ms"))],
        )
        .job(&json!({"spec": {"parallelism": 0}}))
        .before(PODS, orphan("other", &ends()))
        .pod(
            Here::is_served,
            succeeded,
            PodDeed::Patch(json!({"metadata": {"labels": {"app": "mine"}}})),
        )
        .patch(
            |here| here.count("succeeded") == 1,
            &json!({"parallelism": 1}),
        ),
        Scenario::of("orphan-of-another-label", &[by_label()])
            .before(PODS, orphan("other", &Fate::hangs())),
        Scenario::of(
            "orphan-labelled-later",
            &[by_label(), two.clone(), all_pods(&runs("9500ms"))],
        )
        .before(PODS, orphan("other", &runs("15s")))
        .pod(
            |here| here.count("ready") == 2,
            is_orphan,
            PodDeed::Patch(json!({"metadata": {"labels": {"app": "mine"}}})),
        ),
        Scenario::of("relabelled-pod-released", &[by_label()])
            .fates(&hangs_first)
            .pod(
                ready,
                any,
                PodDeed::Patch(json!({"metadata": {"labels": {"app": "other"}}})),
            ),
        Scenario::of("relabelled-pod-comes-back", &[by_label()])
            .fates(&[Fate::hangs(), runs("9500ms")])
            .pod(
                ready,
                any,
                PodDeed::Patch(json!({"metadata": {"labels": {"app": "other"}}})),
            )
            .pod(
                |here| here.pods().len() == 2 && here.pods().iter().all(running),
                |pod| pod["metadata"]["labels"]["app"] == "other",
                PodDeed::Patch(json!({"metadata": {"labels": {"app": "mine"}}})),
            )
            // The newer one has to go.
            .until(|here| here.pods().len() == 1 && here.count("active") == 1),
        Scenario::of(
            "pod-with-an-owner-made-by-hand",
            &[by_label(), two, all_pods(&runs("9500ms"))],
        )
        .when(
            |here| here.count("ready") == 2,
            Deed::Request(Method::POST, PODS, made_by_hand()),
        ),
        Scenario::of("owner-taken-off", &[by_label()])
            .fates(&[runs("7500ms")])
            .pod(
                ready,
                any,
                PodDeed::Patch(json!({"metadata": {"ownerReferences": null}})),
            ),
        Scenario::of("orphan-that-is-held", &[by_label()]).before(PODS, {
            let mut pod = orphan("other", &Fate::hangs());
            pod["metadata"]["finalizers"] = json!([TRACKING]);
            pod
        }),
    ]
}
