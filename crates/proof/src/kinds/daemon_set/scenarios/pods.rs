//! Pods are deleted, fail, are adopted, and go with their DaemonSet.

use carillon_sim::actors::{Fate, Work};
use carillon_sim::{Delete, Propagation};
use jiff::SignedDuration;
use serde_json::json;

use super::nodes::{available, later};
use super::updates::stop_slowly;
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
