//! What becomes of revisions.

use serde_json::{Value, json};

use super::nodes::{available, later};
use super::updates::{image, updated};
use crate::kinds::daemon_set::subject::scenario as plain;
use crate::scenario::{NAMESPACE, Scenario, View};

const REVISIONS: &str = "controllerrevisions.apps";

/// Copies the newest revision, as a restored backup may.
fn copy_newest(view: &View<'_>) {
    let revisions = view.actor().list(REVISIONS, NAMESPACE, "");
    let revisions = revisions.unwrap_or_default();
    let Some(newest) = revisions.iter().max_by_key(|one| one["revision"].as_i64()) else {
        return;
    };
    let mut copy: Value = (**newest).clone();
    let number = newest["revision"].as_i64().unwrap_or(0);
    let meta = &newest["metadata"];
    copy["metadata"] = json!({
        "name": "copied", "namespace": NAMESPACE, "ownerReferences": meta["ownerReferences"],
        "labels": meta["labels"],
    });
    copy["metadata"]["labels"]["controller-revision-hash"] = json!("copied");
    copy["revision"] = json!(number + 1);
    drop(view.actor().create(REVISIONS, NAMESPACE, &copy));
}

pub(super) fn all() -> Vec<Scenario> {
    let update = |view: &View<'_>| image(view, "example.com/work:2");
    vec![
        Scenario {
            script: vec![
                later(|view| available(view, 3), 5, update),
                later(|view| updated(view, 1), 0, copy_newest),
            ],
            ..plain("daemon: a revision is copied half way through an update")
        },
        Scenario {
            spec: json!({"revisionHistoryLimit": 1}),
            script: vec![
                later(|view| available(view, 3), 5, update),
                later(
                    |view| updated(view, 3),
                    5,
                    |view| image(view, "example.com/work:3"),
                ),
                later(
                    |view| updated(view, 1),
                    0,
                    |view| image(view, "example.com/work:4"),
                ),
            ],
            ..plain("daemon: three updates, with a history of one")
        },
    ]
}
