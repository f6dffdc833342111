//! Runs that the API server refuses for a while.

use carillon_sim::Status;
use serde_json::json;

use super::fixtures::{after, plain};
use crate::scenario::{Same, Scenario, View};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![
                after(0, refuse_the_first_image),
                after(90, |view| {
                    let pod = json!({
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "example.com/work:2"}],
                    });
                    let spec = json!({"template": {"spec": pod}});
                    view.edit_cron(json!({"jobTemplate": {"spec": spec}}));
                }),
            ],
            ..plain("its template is refused until that is mended")
        },
        Scenario {
            script: vec![
                after(0, fill_quota),
                after(95, |view| view.server().clear_admission()),
            ],
            // How soon that is noticed depends on how often it was tried.
            same: Same::Condition,
            ..plain("the quota is full and is free again")
        },
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "startingDeadlineSeconds": 20}),
            script: vec![
                after(50, fill_quota),
                after(50, |view| view.server().clear_admission()),
            ],
            same: Same::Condition,
            ..plain("the quota is full until the deadline of a tick has passed")
        },
    ]
}

fn refuse_the_first_image(view: &View<'_>) {
    view.server().set_admission(|call, object| {
        let image = &object["spec"]["template"]["spec"]["containers"][0]["image"];
        if object["kind"] != "Job" || image != "example.com/work:1" {
            return Ok(());
        }
        let mut refused =
            Status::bad_request("admission webhook denied: example.com/work:1 is old");
        refused.code = 422;
        refused.reason = "Invalid";
        refused.message = format!("{}: {}", call.name, refused.message);
        Err(refused)
    });
}

fn fill_quota(view: &View<'_>) {
    view.server().set_admission(|call, object| {
        if object["kind"] != "Job" {
            return Ok(());
        }
        let why = "exceeded quota: jobs, requested: count/jobs.batch=1, used: 3, limited: 3";
        Err(Status::forbidden("jobs.batch", &call.name, why))
    });
}
