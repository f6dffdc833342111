//! Nodes, without what changes at every heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_plan::node::{Effect, HOSTNAME, NodeRow, Taint};
use carillon_plan::quantity;
use jiff::Timestamp;
use serde::Deserialize;

use super::interner::Interner;
use super::meta::{AllLabels, SlimMeta};

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimNode {
    /// Metadata.
    pub metadata: SlimMeta<AllLabels>,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Option<Vec<NodeTaint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeTaint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<BTreeMap<String, String>>,
    conditions: Option<Vec<NodeCondition>>,
}

/// The heartbeat's time, which changes all the time, is not read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

impl SlimNode {
    /// Name and row.
    pub fn row(&self, strings: &mut Interner) -> Option<(Arc<str>, NodeRow)> {
        let labels = self.metadata.labels.as_ref();
        let hostname = labels.and_then(|labels| labels.get(HOSTNAME));
        let hostname = hostname.map(|hostname| strings.share(hostname));
        let labels = labels.into_iter().flatten();
        let labels = labels
            .filter(|(key, _)| *key != HOSTNAME)
            .map(|(key, value)| (strings.share(key), strings.share(value)))
            .collect();
        let taints = self.spec.taints.iter().flatten();
        let taints = taints
            .filter_map(|taint| {
                Some(Taint {
                    key: strings.share(&taint.key),
                    value: strings.share(&taint.value),
                    effect: Effect::read(&taint.effect)?,
                })
            })
            .collect();
        let allocatable = self.status.allocatable.iter().flatten();
        let allocatable = allocatable
            .filter_map(|(resource, amount)| {
                Some((strings.share(resource), quantity::parse(amount)?))
            })
            .collect();
        let row = NodeRow {
            uid: self.metadata.uid()?,
            rv: self.metadata.rv(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            unschedulable: self.spec.unschedulable,
            hostname,
            labels: strings.share_labels(labels),
            taints: strings.share_taints(taints),
            not_ready_since: self.not_ready_since(),
            allocatable: strings.share_resources(allocatable),
        };
        Some((strings.share(&self.metadata.name), row))
    }

    fn not_ready_since(&self) -> Option<Timestamp> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions
            .find(|condition| condition.type_ == "Ready" && condition.status != "True")?
            .last_transition_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(ready: &str, heartbeat: &str) -> NodeRow {
        let node: SlimNode = serde_json::from_value(json!({
            "metadata": {"name": "n", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"},
            "status": {"conditions": [
                {"type": "DiskPressure", "status": "False",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat,
                    "lastTransitionTime": "2026-01-01T00:00:07Z"},
            ]},
        }))
        .unwrap();
        node.row(&mut Interner::default()).unwrap().1
    }

    #[test]
    fn a_node_that_is_not_ready_has_been_so_since_its_last_transition() {
        let (early, late) = ("2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z");
        assert_eq!(row("True", early).not_ready_since, None);
        for status in ["False", "Unknown"] {
            let since = Some("2026-01-01T00:00:07Z".parse().unwrap());
            assert_eq!(row(status, early).not_ready_since, since);
            assert_eq!(row(status, early), row(status, late), "a heartbeat");
        }
    }
}
