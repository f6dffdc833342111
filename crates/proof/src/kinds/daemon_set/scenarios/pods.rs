//! Pods are deleted, fail, are adopted, and go with their DaemonSet.

use carillon_sim::actors::{Fate, Work};
use carillon_sim::{Delete, Propagation};
use jiff::SignedDuration;
use serde_json::json;

use super::nodes::{available, later};
use super::updates::{rolling, stop_slowly};
use crate::kinds::daemon_set::subject::{runs, scenario as plain};
use crate::scenario::{Ends, NAMESPACE, SECOND, Scenario, View};

fn evicted_at_first(_: &str, nth: usize) -> Fate {
    let works = if nth < 2 {
        vec![Work::Evicted(SECOND * 3)]
    } else {
        vec![Work::Hangs]
    };
    Fate { works, ..runs() }
}

fn always_evicted(_: &str, _: usize) -> Fate {
    Fate {
        works: vec![Work::Evicted(SECOND * 3)],
        ..runs()
    }
}

fn make_orphan(view: &View<'_>) {
    let orphan = json!({
        "metadata": {"name": "orphan", "namespace": NAMESPACE, "labels": {"app": "agent"}},
        "spec": {"nodeName": "node-7", "containers": [{"name": "main", "image": "example.com/work:1"}]},
    });
    view.add_node("node-7");
    drop(view.actor().create("pods", NAMESPACE, &orphan));
}

/// The pod of node-1 goes over to another controller. Any object can be one.
fn give_away(view: &View<'_>) {
    let Ok(node) = view.actor().get("nodes", "", "node-2") else {
        return;
    };
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "node-2",
        "uid": node["metadata"]["uid"], "controller": true}]);
    let labels = json!({"app": "other"});
    let theirs = json!({"metadata": {"labels": labels, "ownerReferences": owner}});
    view.patch_running("node-1", &theirs);
}

/// What was given away is deleted.
fn take_away(view: &View<'_>) {
    let given = view.pods().into_iter();
    let mut given = given.filter(|pod| pod["metadata"]["labels"]["app"] == "other");
    if let Some(pod) = given.next() {
        view.delete_pod(&pod);
    }
}

fn given_away(name: &'static str) -> Scenario {
    Scenario {
        script: vec![
            later(|view| available(view, 3), 5, give_away),
            later(|_| true, 100, take_away),
        ],
        ..plain(name)
    }
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    if let Some(pod) = view.pod_on("node-1", "Running") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("daemon: a pod that somebody deletes comes again")
        },
        Scenario {
            fates: evicted_at_first,
            ..plain("daemon: pods that are evicted come again, after a while")
        },
        Scenario {
            nodes: 1,
            fates: always_evicted,
            ends: Ends::After(SignedDuration::from_mins(3)),
            ..plain("daemon: pods that are always evicted come again, ever later")
        },
        Scenario {
            script: vec![later(|view| available(view, 3), 5, make_orphan)],
            ..plain("daemon: an orphan is adopted")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    view.patch_running(
                        "node-1",
                        &json!({"metadata": {"labels": {"app": "other"}}}),
                    );
                },
            )],
            ..plain("daemon: a pod that is not selected is released")
        },
        given_away("daemon: another controller has a pod and its name, for a while"),
        Scenario {
            spec: rolling(json!({"maxSurge": 1})),
            ..given_away("daemon: with a surge another controller has a pod and its name")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    view.delete_job(&Delete::default());
                },
            )],
            ends: Ends::Gone,
            ..plain("daemon: it goes, and its pods with it")
        },
        Scenario {
            fates: stop_slowly,
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    view.delete_job(&Delete::with(Propagation::Foreground));
                },
            )],
            ends: Ends::Gone,
            ..plain("daemon: its pods go, and it with them")
        },
    ]
}
