//! Revisions: which are kept, and what comes back.

use serde_json::{Value, json};

use super::scenario::{Deed, Scenario, Whose, on_delete, spec, to};
use crate::parity::stage::PodDeed;

fn limit(limit: i32) -> Value {
    json!({"revisionHistoryLimit": limit})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let of = |name, specs: &[Value]| Scenario::of(name, 1, specs);
    let three = |name, specs: &[Value]| {
        of(name, specs)
            .then(to("busybox:1.37"))
            .then(to("busybox:1.38"))
    };
    vec![
        three("history-limit", &[limit(1)]),
        three("history-limit-0", &[limit(0)]),
        three("history-limit-lowered", &[]).then(spec(&limit(0))),
        three("history-limit-raised", &[limit(0)])
            .then(spec(&limit(5)))
            .then(to("busybox:1.39")),
        of("history-that-pods-use", &[on_delete(), limit(0)])
            .then_until(to("busybox:1.37"), |here| here.has(1))
            .then_until(to("busybox:1.38"), |here| here.has(1))
            .then(Deed::Pods(Whose::On(0), PodDeed::Delete)),
        of("template-comes-back", &[])
            .then(to("busybox:1.37"))
            .then(to("busybox:1.36")),
        of("template-comes-back-on-delete", &[on_delete()])
            .then_until(to("busybox:1.37"), |here| here.has(1))
            .then(to("busybox:1.36")),
        three(
            "template-comes-back-after-its-revision-is-gone",
            &[limit(1)],
        )
        .then(to("busybox:1.36")),
        three("undone", &[]).then(Deed::Kubectl(&["rollout", "undo", "ds/d"])),
        three("undone-twice", &[])
            .then(Deed::Kubectl(&["rollout", "undo", "ds/d"]))
            .then(Deed::Kubectl(&["rollout", "undo", "ds/d"])),
        three("undone-to-the-first", &[]).then(Deed::Kubectl(&[
            "rollout",
            "undo",
            "ds/d",
            "--to-revision=1",
        ])),
        of("restarted", &[]).then(Deed::Kubectl(&["rollout", "restart", "ds/d"])),
        of("change-cause", &[])
            .set(&json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "first"}}}))
            .then(Deed::Set(json!({
                "metadata": {"annotations": {"kubernetes.io/change-cause": "second"}},
                "spec": {"template": {"spec": {"containers": [
                    {"name": "main", "image": "busybox:1.37"}]}}},
            })))
            .then(Deed::Set(
                json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "third"}}}),
            )),
        of("labels-of-the-template-change", &[]).then(spec(
            &json!({"template": {"metadata": {"labels": {"tier": "x"}}}}),
        )),
        of("labels-of-the-set-change", &[])
            .then(Deed::Set(json!({"metadata": {"labels": {"tier": "x"}}}))),
    ]
}
