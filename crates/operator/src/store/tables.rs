//! All rows, by kind.

use std::collections::HashMap;

use carillon_plan::node::Nodes;

use super::journal::Journal;
use crate::gate::{Kind, Versions};
use crate::kinds::broadcast_job::tables::BroadcastJobTables;
use crate::kinds::cron_job::tables::CronJobTables;
use crate::kinds::daemon_set::tables::DaemonSetTables;
use crate::kinds::job::tables::JobTables;
use crate::slim::Interner;

/// Everything cached.
#[derive(Debug, Default)]
pub struct Tables {
    /// BroadcastJobs, and what belongs to them.
    pub broadcast_jobs: BroadcastJobTables,
    /// CronJobs, and what they have started.
    pub cron_jobs: CronJobTables,
    /// DaemonSets, and what belongs to them.
    pub daemon_sets: DaemonSetTables,
    /// Jobs of batch/v1, and what belongs to them.
    pub jobs: JobTables,
    pub(crate) nodes: Nodes,
    pub(crate) node_changes: Journal,
    /// What those watches have seen that look at all namespaces.
    seen_everywhere: Versions,
    /// What those have seen that look at one.
    seen_in: HashMap<String, Versions>,
    pub(crate) strings: Interner,
}

impl Tables {
    /// All nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Which nodes have changed.
    pub fn node_changes(&self) -> &Journal {
        &self.node_changes
    }

    /// What the caches have seen of objects of `namespace`. Some kinds may be watched everywhere,
    /// nodes always are, and others in each namespace.
    pub fn seen(&self, namespace: &str) -> Versions {
        let mut seen = self.seen_everywhere;
        if let Some(versions) = self.seen_in.get(namespace) {
            for kind in Kind::ALL {
                seen.raise(kind, versions.of(kind));
            }
        }
        seen
    }

    /// What a watch of `namespace`, or of all, has seen.
    pub(super) fn seen_by(&mut self, namespace: Option<&str>) -> &mut Versions {
        match namespace {
            Some(namespace) => self.seen_in.entry(namespace.to_owned()).or_default(),
            None => &mut self.seen_everywhere,
        }
    }
}
