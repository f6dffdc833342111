//! What the API server, or the set itself, does not allow.

use http::Method;
use serde_json::{Value, json};

use super::scenario::{Deed, PODS, QUOTAS, Scenario, Whose, orphan, template, to};
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

fn quota(pods: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
        "spec": {"hard": {"pods": pods.to_string()}}})
}

fn no_more_quota() -> Deed {
    Deed::Request(Method::DELETE, "api/v1/resourcequotas/pods", Value::Null)
}

/// Some pod was refused, and the status says what there is.
fn refused(here: &Here, pods: usize) -> bool {
    here.told("FailedCreate") && here.is_observed() && here.pods().len() == pods
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let two = |name| Scenario::of(name, 2, &[]).any_count();
    vec![
        two("no-room")
            .before(QUOTAS, quota(0))
            .created(|here| refused(here, 0)),
        two("no-room-at-first")
            .before(QUOTAS, quota(0))
            .created(|here| refused(here, 0))
            .then_until(no_more_quota(), |here| here.is_at(2)),
        two("room-for-one")
            .before(QUOTAS, quota(1))
            .created(|here| refused(here, 1) && here.number("numberAvailable") == 1)
            .then_until(no_more_quota(), |here| here.is_at(2))
            .any_node(),
        // Others take the room while one is replaced.
        two("no-room-in-an-update")
            .before(QUOTAS, quota(2))
            .then_until(
                Deed::Request(
                    Method::PATCH,
                    "api/v1/resourcequotas/pods",
                    json!({"spec": {"hard": {"pods": "1"}}}),
                ),
                |here| here.is_at(2),
            )
            .then_until(to("busybox:1.37"), |here| refused(here, 1))
            .then_until(no_more_quota(), |here| here.is_at(2))
            .any_node(),
        Scenario::of(
            "no-such-account",
            1,
            &[template(json!({"serviceAccountName": "nobody"}))],
        )
        .created(|here| refused(here, 0))
        .any_count(),
        // The API server lets nobody write that; a set from long ago may have it.
        two("selects-everything")
            .then_until(Deed::Store("/spec/selector", json!({})), |here| {
                here.told("SelectingAll")
            })
            .then_until(Deed::Pods(Whose::On(0), PodDeed::Delete), |here| {
                here.pods().len() == 1
            })
            .then_until(
                Deed::Request(Method::POST, PODS, orphan("orphan", json!({"app": "x"}))),
                |here| here.pods().len() == 2,
            ),
    ]
}
