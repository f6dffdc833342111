//! What anybody may do to a CronJob and its runs at any time.

use carillon_sim::actors::JOB_FATE;
use carillon_sim::{Actor, Delete, Propagation, Status};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::scenario::{CRON, NAMESPACE, View};

/// One of these things, two times out of three.
pub(super) fn mischief(actor: &Actor, rng: &mut Rng) -> bool {
    if rng.u32(0..3) == 0 {
        return false;
    }
    let view = View::new(actor);
    match rng.u32(0..10) {
        0 => view.edit_cron(json!({"suspend": rng.bool()})),
        // Also what cannot be read, and what another CronJob was asked for.
        1 | 2 => match rng.u32(0..6) {
            4 => view.write_request("today"),
            5 => view.write_request("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f99/1"),
            word => view.ask(&word.to_string()),
        },
        3 | 4 => {
            let policies = [Propagation::Background, Propagation::Foreground];
            let children = view.children();
            if !children.is_empty() {
                let how = Delete::with(policies[rng.usize(0..2)]);
                view.delete_child(&children[rng.usize(0..children.len())], &how);
            }
        }
        5 => {
            let schedule = ["1-9 0 * * *", "2-8/2,9 0 * * *", "9 0 * * *"];
            view.edit_cron(json!({"schedule": schedule[rng.usize(0..3)]}));
        }
        6 => {
            let policy = ["Allow", "Forbid", "Replace"][rng.usize(0..3)];
            view.edit_cron(json!({"concurrencyPolicy": policy}));
        }
        7 => {
            let fate = ["0s", "10s", "50s fail"][rng.usize(0..3)];
            let annotations = json!({JOB_FATE: fate});
            if view
                .cron()
                .is_some_and(|cron| cron["spec"]["jobTemplate"].is_object())
            {
                let template = json!({"metadata": {"annotations": annotations}});
                view.edit_cron(json!({"jobTemplate": template}));
            }
        }
        8 => take_a_name(actor, rng),
        _ => full_quota(actor, rng.bool()),
    }
    true
}

/// Everything as a careful administrator would leave it.
pub(super) fn mend(actor: &Actor) {
    let view = View::new(actor);
    full_quota(actor, false);
    if view
        .cron()
        .is_some_and(|cron| cron["spec"]["suspend"] == true)
    {
        view.edit_cron(json!({"suspend": false}));
    }
}

/// Somebody else makes a Job with the name of a tick to come.
fn take_a_name(actor: &Actor, rng: &mut Rng) {
    let minutes = actor.server().now().as_second() / 60 + rng.i64(1..4);
    let job: Value = json!({
        "metadata": {"name": format!("{CRON}-{minutes}")},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/other:1"}],
        }}},
    });
    drop(actor.create("jobs", NAMESPACE, &job));
}

fn full_quota(actor: &Actor, full: bool) {
    let server = actor.server();
    if !full {
        return server.clear_admission();
    }
    server.set_admission(|call, object| {
        let counted = object["kind"] == "Job" || object["kind"] == "BroadcastJob";
        if !counted || call.namespace != NAMESPACE {
            return Ok(());
        }
        let why = "exceeded quota: jobs, requested: count/jobs.batch=1, used: 1, limited: 1";
        Err(Status::forbidden(&call.resource(), &call.name, why))
    });
}
