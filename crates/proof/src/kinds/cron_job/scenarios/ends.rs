//! CronJobs that are deleted.

use carillon_sim::{Delete, Propagation};
use serde_json::json;

use super::fixtures::{jobs_that, minutes, plain};
use crate::kinds::cron_job::subject::SUBJECT;
use crate::scenario::children::{is_held, is_running};
use crate::scenario::{NAMESPACE, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![while_running(|view| delete(view, Propagation::Background))],
            ..long("it is deleted while a run goes on")
        },
        Scenario {
            script: vec![while_running(|view| delete(view, Propagation::Foreground))],
            ..long("it is deleted in the foreground while a run goes on")
        },
        Scenario {
            script: vec![before_recorded(|view| {
                delete(view, Propagation::Background);
            })],
            ..long("it is deleted before a run is recorded")
        },
        Scenario {
            script: vec![before_recorded(|view| {
                delete(view, Propagation::Foreground);
            })],
            ..long("it is deleted in the foreground before a run is recorded")
        },
        Scenario {
            script: vec![before_recorded(|view| delete(view, Propagation::Orphan))],
            ..long("it is deleted and its runs are left, before one is recorded")
        },
        Scenario {
            script: vec![
                while_running(|view| delete(view, Propagation::Background)),
                step(
                    |view| view.cron().is_none(),
                    |view| {
                        let cron = (SUBJECT.manifest)(&json!({"schedule": "1-3 0 * * *"}));
                        let user = view.server().actor("user");
                        drop(user.create(SUBJECT.resource, NAMESPACE, &cron));
                    },
                ),
            ],
            ends: minutes(5),
            ..long("it is deleted and created again under its name")
        },
    ]
}

fn long(name: &'static str) -> Scenario {
    Scenario {
        spec: json!({"schedule": "1-2 0 * * *", "jobTemplate": jobs_that("90s")}),
        ..plain(name)
    }
}

fn delete(view: &View<'_>, propagation: Propagation) {
    view.delete_cron(&Delete::with(propagation));
}

fn while_running(act: fn(&View<'_>)) -> Step {
    let running = |view: &View<'_>| {
        let mut children = view.children().into_iter();
        children.any(|child| is_running(&child) && !is_held(&child))
    };
    step(running, act)
}

fn before_recorded(act: fn(&View<'_>)) -> Step {
    step(
        |view| view.children().iter().any(|child| is_held(child)),
        act,
    )
}
