//! Nodes, and whom a change of one wakes.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::node::NodeRow;

use super::SERVED;
use crate::gate::Kind;
use crate::slim::SlimNode;
use crate::store::{Row, Tables, Wake, held_at, watched};
use crate::watch::{Held, Listed};

watched!(SlimNode);

impl Row for SlimNode {
    const KIND: Kind = Kind::Node;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some((name, row)) = self.row(&mut tables.strings) else {
            return;
        };
        if let Some(old) = tables.nodes.get_mut(&name) {
            // Most changes of a node are heartbeats: the row differs by its version only.
            old.rv = row.rv;
            if *old == row {
                return;
            }
        }
        let old = tables.nodes.get(&name);
        node_changed(tables, &name, old, Some(&row), wakes);
        tables.put_node(name, Some(row));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let name = &*self.metadata.name;
        let same = tables
            .nodes
            .get(name)
            .is_some_and(|row| Some(row.uid) == self.metadata.uid());
        if !same {
            return;
        }
        if let Some(old) = tables.put_node(name.into(), None) {
            node_changed(tables, name, Some(&old), None, wakes);
        }
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let row = tables.nodes.get(&*object.name);
        let row = row.filter(|row| Some(row.uid) == object.uid());
        held_at(row.map(|row| row.rv))
    }

    fn each_held(tables: &Tables, _: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (name, row) in &tables.nodes {
            each(name, row.uid, row.rv);
        }
    }

    fn sweep(tables: &mut Tables, _: Option<&str>, listed: &HashSet<Uid>, wakes: &mut Vec<Wake>) {
        let gone: Vec<Arc<str>> = tables
            .nodes
            .iter()
            .filter(|(_, row)| !listed.contains(&row.uid))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(old) = tables.put_node(name.clone(), None) {
                node_changed(tables, &name, Some(&old), None, wakes);
            }
        }
    }
}

/// Changes of nodes that are noted, at least. A job that looks more seldom reads all of them.
const NOTED: usize = 1024;

impl Tables {
    /// Enters a node, or removes it. The row that was there.
    fn put_node(&mut self, name: Arc<str>, row: Option<NodeRow>) -> Option<NodeRow> {
        let most = self.nodes.len().max(NOTED);
        self.node_changes.note(&name, most);
        match row {
            Some(row) => self.nodes.insert(name, row),
            None => self.nodes.remove(&name),
        }
    }
}

/// Wakes what the change of a node makes a difference for.
fn node_changed(
    tables: &Tables,
    name: &str,
    old: Option<&NodeRow>,
    new: Option<&NodeRow>,
    wakes: &mut Vec<Wake>,
) {
    for served in &SERVED {
        (served.node_changed)(tables, name, old, new, wakes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::broadcast_job::object::SlimBroadcastJob;
    use crate::slim::SlimPod;
    use carillon_plan::ObjectKey;
    use carillon_plan::object_key::BROADCAST_JOB;
    use serde_json::{Value, json};

    const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";
    const OTHER: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f09";

    fn enter<R: Row + serde::de::DeserializeOwned>(
        tables: &mut Tables,
        object: Value,
    ) -> Vec<Wake> {
        let mut wakes = Vec::new();
        let object: R = serde_json::from_value(object).unwrap();
        object.enter(tables, &mut wakes);
        wakes
    }

    fn job(uid: &str) -> Value {
        let spec = json!({"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c"}]});
        json!({"metadata": {"name": "j", "namespace": "ops", "uid": uid},
            "spec": {"template": {"spec": spec}}})
    }

    fn key(uid: &str) -> Arc<ObjectKey> {
        ObjectKey::of(BROADCAST_JOB, "ops", "j", uid.parse().unwrap())
    }

    fn node(ready: &str, heartbeat: &str) -> Value {
        json!({
            "metadata": {"name": "n1", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01"},
            "status": {"conditions": [{"type": "Ready", "status": ready,
                "lastHeartbeatTime": heartbeat, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    }

    fn pod(phase: &str) -> Value {
        json!({
            "metadata": {
                "name": "p", "namespace": "ops", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f02",
                "labels": {"carillon.dev/broadcastjob-uid": JOB},
                "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                    "name": "j", "uid": JOB, "controller": true}],
            },
            "spec": {"nodeName": "n1"},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn readiness_wakes_the_jobs_with_a_pod_there_and_a_heartbeat_wakes_nobody() {
        let mut tables = Tables::default();
        for uid in [JOB, OTHER] {
            enter::<SlimBroadcastJob>(&mut tables, job(uid));
        }
        let joins = enter::<SlimNode>(&mut tables, node("True", "2026-01-01T00:00:01Z"));
        assert_eq!(joins.len(), 2);
        enter::<SlimPod>(&mut tables, pod("Running"));
        let with_pod = [Wake::soon("broadcastjob", key(JOB))];
        for (ready, heartbeat, expected) in [
            ("True", "2026-01-01T00:00:11Z", &[][..]),
            ("Unknown", "2026-01-01T00:00:11Z", &with_pod),
            ("Unknown", "2026-01-01T00:00:21Z", &[]),
            ("True", "2026-01-01T00:00:31Z", &with_pod),
        ] {
            let wakes = enter::<SlimNode>(&mut tables, node(ready, heartbeat));
            assert_eq!(wakes, expected, "{ready} {heartbeat}");
        }
        enter::<SlimPod>(&mut tables, pod("Succeeded"));
        let wakes = enter::<SlimNode>(&mut tables, node("False", "2026-01-01T00:00:41Z"));
        assert!(wakes.is_empty(), "nothing runs there");
    }
}
