//! What users and other controllers do meanwhile.

use http::Method;
use serde_json::{Value, json};

use super::scenario::{Deed, Scenario, job_spec, runs};
use crate::parity::all_of;

const JOBS: &str = "apis/batch/v1/jobs";
const QUOTAS: &str = "api/v1/resourcequotas";

fn quota(jobs: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs"},
        "spec": {"hard": {"count/jobs.batch": jobs.to_string()}}})
}

/// A Job that has the name of the first run.
fn in_the_way() -> Value {
    let mut spec = job_spec();
    spec["suspend"] = json!(true);
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c-T+1"}, "spec": spec})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let long = |policy: &str| all_of(&[runs("10m"), json!({"concurrencyPolicy": policy})]);
    let delete = |path: &str| Deed::Request(Method::DELETE, path.to_owned(), Value::Null);
    vec![
        Scenario::of("by-hand", &json!({})).by_hand(32),
        Scenario::of("by-hand-and-long", &long("Forbid")).by_hand(33),
        Scenario::of("by-hand-and-replace", &long("Replace")).by_hand(34),
        Scenario::of("by-hand-while-suspended", &json!({"suspend": true})).by_hand(35),
        Scenario::of("run-deleted", &long("Allow")).at(85, Deed::DeleteFirstChild("c")),
        Scenario::of("run-deleted-under-forbid", &long("Forbid"))
            .at(86, Deed::DeleteFirstChild("c")),
        Scenario::of("run-deleted-under-replace", &long("Replace"))
            .at(87, Deed::DeleteFirstChild("c")),
        Scenario::of("ended-run-deleted", &json!({})).at(88, Deed::DeleteFirstChild("c")),
        Scenario::of("deleted", &long("Allow")).delete(89, "Background"),
        Scenario::of("deleted-in-foreground", &long("Allow")).delete(90, "Foreground"),
        Scenario::of("deleted-alone", &long("Allow")).delete(91, "Orphan"),
        Scenario::of("deleted-before-it-ran", &json!({})).delete(36, "Background"),
        Scenario::of("namespace-deleted", &long("Allow")).at(92, delete("")),
        Scenario::of("no-room", &json!({})).with(QUOTAS, quota(0)),
        Scenario::of("no-room-at-first", &json!({}))
            .with(QUOTAS, quota(0))
            .at(69, delete("api/v1/resourcequotas/jobs")),
        Scenario::of("room-for-one", &long("Allow")).with(QUOTAS, quota(1)),
        Scenario::of("name-taken", &json!({})).with(JOBS, in_the_way()),
    ]
}
