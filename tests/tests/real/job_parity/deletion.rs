//! Jobs that are deleted.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::here::is_held;
use super::scenario::{Deed, JOBS, Scenario, all_pods, fails, indexed, ready, slow_to_stop};
use crate::parity::watched::Here;

/// The Job is gone, and no pod waits to be counted by it.
fn all_gone(here: &Here) -> bool {
    here.is_gone() && here.pods().is_empty()
}

fn released(here: &Here) -> bool {
    !here.pods().is_empty() && !here.pods().iter().any(is_held)
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let two = json!({"completions": 2, "parallelism": 2});
    let hangs = all_pods(&Fate::hangs());
    let running = |name| Scenario::of(name, &[two.clone(), hangs.clone()]);
    let both_ready = |here: &Here| here.count("ready") == 2;
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    let again = Scenario::of("again", &[]).job;
    let delete = |policy| Deed::Delete(policy);
    vec![
        running("deleted-in-background")
            .when(both_ready, delete("Background"))
            .until(all_gone),
        running("deleted-in-foreground")
            .when(both_ready, delete("Foreground"))
            .until(all_gone),
        running("deleted-alone")
            .when(both_ready, delete("Orphan"))
            .until(|here| here.is_gone() && released(here)),
        Scenario::of(
            "deleted-in-foreground-slowly",
            &[two.clone(), hangs.clone(), slow_to_stop("4s")],
        )
        .when(both_ready, delete("Foreground"))
        .until(all_gone),
        Scenario::of(
            "deleted-in-background-slowly",
            &[two.clone(), hangs.clone(), slow_to_stop("4s")],
        )
        .when(both_ready, delete("Background"))
        .until(all_gone),
        Scenario::of("deleted-after-its-end", &[])
            .when(|here| here.is("Complete"), delete("Background"))
            .until(all_gone),
        Scenario::of("deleted-in-foreground-after-its-end", &[])
            .when(|here| here.is("Complete"), delete("Foreground"))
            .until(all_gone),
        Scenario::of("deleted-alone-after-its-end", &[])
            .when(|here| here.is("Complete"), delete("Orphan"))
            .until(Here::is_gone),
        Scenario::of("deleted-while-suspended", &[json!({"suspend": true})])
            .when(|here| here.is("Suspended"), delete("Background"))
            .until(Here::is_gone),
        // It stays, and so do its pods: nothing deletes them.
        Scenario::of("deleted-and-held", &[two.clone(), hangs.clone()])
            .job(&kept)
            .when(both_ready, delete("Background"))
            .until(released),
        Scenario::of("deleted-and-held-then-suspended", &[two, hangs.clone()])
            .job(&kept)
            .when(both_ready, delete("Background"))
            .patch(released, &json!({"suspend": true}))
            .until(released),
        Scenario::of("deleted-by-index", &[indexed(3, 3), hangs.clone()])
            .when(|here| here.count("ready") == 3, delete("Background"))
            .until(all_gone),
        // The API server's own choice is to leave the pods alone.
        Scenario::of("deleted-without-a-policy", std::slice::from_ref(&hangs))
            .when(
                ready,
                Deed::Request(Method::DELETE, "apis/batch/v1/jobs/j", Value::Null),
            )
            .until(|here| here.is_gone() && released(here)),
        // It begins anew, without the back-off of the one before it.
        Scenario::of("made-again-after-a-failure", &[all_pods(&fails(1))])
            .when(|here| here.count("failed") == 1, delete("Background"))
            .when(all_gone, Deed::Request(Method::POST, JOBS, again))
            .until(|here| here.is("Complete")),
    ]
}
