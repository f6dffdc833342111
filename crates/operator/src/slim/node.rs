//! Nodes, without what changes at every heartbeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_plan::node::{Effect, NodeRow, Taint};
use carillon_plan::quantity;
use serde::Deserialize;

use super::{AllLabels, Interner, SlimMeta};

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
}

impl SlimNode {
    /// Name and row.
    pub fn row(&self, strings: &mut Interner) -> Option<(Arc<str>, NodeRow)> {
        let mut pair =
            |(key, value): (&String, &String)| (strings.share(key), strings.share(value));
        let labels = self
            .metadata
            .labels
            .iter()
            .flatten()
            .map(&mut pair)
            .collect();
        let taints = self
            .spec
            .taints
            .iter()
            .flatten()
            .filter_map(|taint| {
                Some(Taint {
                    key: strings.share(&taint.key),
                    value: strings.share(&taint.value),
                    effect: Effect::read(&taint.effect)?,
                })
            })
            .collect();
        let allocatable = self
            .status
            .allocatable
            .iter()
            .flatten()
            .filter_map(|(resource, amount)| {
                Some((strings.share(resource), quantity::parse(amount)?))
            })
            .collect();
        let row = NodeRow {
            uid: self.metadata.uid()?,
            deleting: self.metadata.deletion_timestamp.is_some(),
            unschedulable: self.spec.unschedulable,
            labels,
            taints,
            allocatable,
        };
        Some((strings.share(&self.metadata.name), row))
    }
}
