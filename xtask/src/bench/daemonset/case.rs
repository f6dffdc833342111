//! What is run.

use std::fmt;

use anyhow::Result;
use carillon_testbed::Cluster;
use serde_json::{Value, json};

use super::What;
use crate::bench::side_by_side::Reach;

pub(super) const NAMESPACE: &str = "bench";
/// Label of the nodes that have a share of pods.
const SHARE: &str = "bench.carillon.dev/share";

/// Something that is done with DaemonSets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Case {
    /// One is created.
    Create { nodes: usize },
    /// One gets another template.
    Update { nodes: usize },
    /// Nodes join.
    Join { sets: usize, joining: usize },
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) sets: usize,
    pub(super) joining: usize,
}

impl Size {
    pub(super) fn cases(self, what: What) -> Vec<Case> {
        let Self {
            nodes,
            sets,
            joining,
        } = self;
        match what {
            What::Rollout => vec![Case::Create { nodes }, Case::Update { nodes }],
            What::Join => vec![Case::Join { sets, joining }],
            What::Idle => Vec::new(),
        }
    }
}

impl Case {
    pub(super) fn reach(self) -> Reach {
        let cpu = if matches!(self, Self::Join { .. }) {
            0.15
        } else {
            0.2
        };
        Reach { cpu, rss: 0.2 }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { nodes } => write!(f, "created on {nodes} nodes"),
            Self::Update { nodes } => write!(f, "updated on {nodes} nodes"),
            Self::Join { sets, joining } => write!(f, "{joining} nodes join {sets} sets"),
        }
    }
}

pub(super) fn name(n: usize) -> String {
    format!("agent-{n:03}")
}

/// The n-th DaemonSet, on all nodes, or on those that have its share of them.
pub(super) fn daemon_set(n: usize, share: usize) -> Value {
    let name = name(n);
    let mut spec = json!({
        "containers": [{"name": "main", "image": "busybox:1.37", "command": ["sleep", "infinity"]}],
    });
    if share > 1 {
        spec["nodeSelector"] = json!({SHARE: (n % share).to_string()});
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

/// The change of an update.
pub(super) fn another_template() -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"example.com/version": "2"}}}}})
}

/// Adds nodes that wait for nothing but their share of the DaemonSets.
pub(super) fn add_shares(cluster: &Cluster, nodes: usize, share: usize) -> Result<()> {
    for part in 0..share {
        let size = (nodes - part.min(nodes)).div_ceil(share);
        cluster.add_nodes(size, &[(SHARE, &part.to_string())], &[])?;
    }
    Ok(())
}
