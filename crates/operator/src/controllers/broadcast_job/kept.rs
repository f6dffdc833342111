//! What is kept of a job from plan to plan, so that a plan costs what has changed.

use carillon_plan::broadcast_job::family::lacks_results;
use carillon_plan::broadcast_job::{Changes, Index, Job};
use carillon_plan::pod::Pods;

use crate::store::Tables;

/// An index, and up to where it knows the changes of the cache.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) index: Index,
    nodes_seen: u64,
    had_pods: bool,
}

impl Kept {
    /// Catches up with the cache. True when results are missing that the status has counted.
    pub(super) fn catch_up(&mut self, tables: &Tables, job: &Job) -> bool {
        let none = Pods::default();
        let rows = tables.pods(&job.owner);
        let pods = match rows {
            Some(rows) => rows.take_changed(),
            None => (!self.had_pods).then(Default::default),
        };
        let pods = pods.map(|pods| pods.into_iter().collect::<Vec<_>>());
        let nodes = tables.node_changes().after(self.nodes_seen);
        self.nodes_seen = tables.node_changes().last();
        self.had_pods = rows.is_some();
        let changes = nodes.as_ref().zip(pods.as_ref());
        let changes = changes.map(|(nodes, pods)| Changes { nodes, pods });
        let slices = tables.ledger(&job.owner).map_or(&[][..], |l| &l.slices);
        let pods = rows.map_or(&none, |rows| rows);
        self.index
            .follow(job, tables.nodes(), pods, slices, changes);
        let records = self.index.records();
        lacks_results(&job.status, |state| records.count(state))
    }
}
