//! Jobs that are suspended and resumed.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::scenario::{Deed, Scenario, all_pods, ends, fails, indexed, ready, runs, slow_to_stop};
use crate::parity::watched::Here;

fn suspend(suspend: bool) -> Value {
    json!({"suspend": suspend})
}

fn suspended(here: &Here) -> bool {
    here.is("Suspended")
}

/// Suspended, and its pods are gone.
fn at_rest(here: &Here) -> bool {
    here.is("Suspended") && here.count("active") == 0 && here.count("terminating") == 0
}

/// Suspended, and the time of its start is kept.
fn started(here: &Here) -> bool {
    let job = here.job();
    here.is("Suspended") && job.is_some_and(|job| job["status"]["startTime"].is_string())
}

/// A Job that is suspended as kube-controller-manager up to 1.35 left it: with the time of its start.
fn suspended_before_1_36(name: &'static str, spec: &Value) -> Scenario {
    let long_ago = json!({"status": {"startTime": "2024-01-01T00:00:00Z"}});
    let wrote = Deed::Request(Method::PATCH, "apis/batch/v1/jobs/j/status", long_ago);
    Scenario::of(name, &[suspend(true), spec.clone()])
        .when(suspended, wrote)
        .patch(started, &suspend(false))
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let two = json!({"completions": 2, "parallelism": 2});
    let directives = json!({"template": {
        "metadata": {"labels": {"queue": "night"}, "annotations": {"queued-by": "a test"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "night", "operator": "Exists"}],
        },
    }});
    let resources = json!({"template": {"spec": {"containers": [{"name": "main",
        "image": "busybox:1.37", "resources": {"requests": {"cpu": "20m"}}}]}}});
    let requests = json!({"template": {"spec": {"containers": [{"name": "main",
        "image": "busybox:1.37", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "40m"}}}]}}});
    vec![
        Scenario::of("suspended-from-the-start", &[suspend(true)]).until(suspended),
        Scenario::of("suspended-then-resumed", &[suspend(true)]).patch(suspended, &suspend(false)),
        Scenario::of("suspended-meanwhile", std::slice::from_ref(&two))
            .fates(&[Fate::hangs(), Fate::hangs(), ends()])
            .patch(|here| here.count("ready") == 2, &suspend(true))
            .patch(at_rest, &suspend(false)),
        Scenario::of(
            "suspended-meanwhile-for-good",
            &[two.clone(), all_pods(&Fate::hangs())],
        )
        .patch(|here| here.count("ready") == 2, &suspend(true))
        .until(at_rest),
        Scenario::of(
            "suspended-while-pods-take-their-time",
            &[two.clone(), slow_to_stop("4s")],
        )
        .fates(&[Fate::hangs(), Fate::hangs(), ends()])
        .patch(|here| here.count("ready") == 2, &suspend(true))
        .patch(at_rest, &suspend(false)),
        Scenario::of(
            "resumed-while-pods-take-their-time",
            &[two.clone(), slow_to_stop("6s")],
        )
        .fates(&[Fate::hangs(), Fate::hangs(), ends()])
        .patch(|here| here.count("ready") == 2, &suspend(true))
        .patch(
            |here| here.is("Suspended") && here.count("terminating") == 2,
            &suspend(false),
        ),
        Scenario::of(
            "suspended-with-completions-0",
            &[suspend(true), json!({"completions": 0})],
        ),
        Scenario::of("suspended-after-a-success", &[indexed(2, 2)])
            .fates(&[ends()])
            .index(1, &[Fate::hangs(), ends()])
            .patch(|here| here.count("succeeded") == 1, &suspend(true))
            .patch(at_rest, &suspend(false)),
        Scenario::of("suspended-in-back-off", &[])
            .fates(&[fails(1), ends()])
            .patch(|here| here.count("failed") == 1, &suspend(true))
            .patch(at_rest, &suspend(false)),
        Scenario::of("suspended-after-its-end", &[])
            .patch(|here| here.is("Complete"), &suspend(true)),
        Scenario::of("suspended-twice", &[])
            .fates(&[Fate::hangs(), Fate::hangs(), ends()])
            .patch(ready, &suspend(true))
            .patch(at_rest, &suspend(false))
            .patch(ready, &suspend(true))
            .patch(at_rest, &suspend(false)),
        Scenario::of("directives-changed-while-suspended", &[suspend(true)])
            .patch(suspended, &directives)
            .patch(suspended, &suspend(false)),
        Scenario::of("directives-changed-when-resumed", &[suspend(true)]).patch(
            suspended,
            &crate::parity::all_of(&[directives.clone(), suspend(false)]),
        ),
        Scenario::of("directives-changed-after-a-start", &[])
            .fates(&[Fate::hangs(), ends()])
            .patch(ready, &suspend(true))
            .patch(at_rest, &directives)
            .patch(at_rest, &suspend(false)),
        Scenario::of(
            "resources-changed-while-suspended",
            &[suspend(true), resources],
        )
        .patch(suspended, &requests)
        .patch(suspended, &suspend(false)),
        Scenario::of(
            "suspended-past-its-deadline",
            &[json!({"activeDeadlineSeconds": 5})],
        )
        .fates(&[Fate::hangs(), runs("2500ms")])
        .patch(ready, &suspend(true))
        .patch(
            // The deadline counts from the resumption.
            |here| at_rest(here) && here.quiet().as_secs() >= 6,
            &suspend(false),
        ),
        Scenario::of(
            "resumed-until-its-deadline",
            &[
                suspend(true),
                json!({"activeDeadlineSeconds": 4}),
                all_pods(&Fate::hangs()),
            ],
        )
        .patch(suspended, &suspend(false)),
        suspended_before_1_36("suspended-before-1-36", &json!({})),
        suspended_before_1_36(
            "suspended-before-1-36-with-a-deadline",
            &json!({"activeDeadlineSeconds": 60}),
        ),
        Scenario::of(
            "suspended-with-failed-pods-replaced",
            &[
                two,
                slow_to_stop("5s"),
                json!({"podReplacementPolicy": "Failed"}),
            ],
        )
        .fates(&[Fate::hangs(), Fate::hangs(), ends()])
        .patch(|here| here.count("ready") == 2, &suspend(true))
        .patch(
            |here| here.is("Suspended") && here.count("terminating") == 2,
            &suspend(false),
        ),
    ]
}
