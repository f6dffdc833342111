//! What is kept of a job from plan to plan, so that a plan costs what has changed.

use carillon_plan::broadcast_job::family::lacks_results;
use carillon_plan::broadcast_job::{BroadcastJob, Changes, Index};
use carillon_plan::node::Nodes;
use carillon_plan::pod::Pods;

use crate::store::Tables;

/// An index, and up to where it knows the changes of the cache.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) index: Index,
    nodes_seen: u64,
    had_pods: bool,
    was_open: bool,
}

impl Kept {
    /// Catches up with the cache. True when results are missing that the status has counted.
    pub(super) fn catch_up(&mut self, tables: &Tables, job: &BroadcastJob) -> bool {
        let (no_pods, no_nodes) = (Pods::default(), Nodes::default());
        let open = job.is_unfinished();
        if open != self.was_open {
            *self = Self {
                was_open: open,
                ..Self::default()
            };
        }
        let nodes_that_matter = if open { tables.nodes() } else { &no_nodes };
        let rows = tables.broadcast_jobs.pods(&job.meta.owner);
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
        let slices = tables
            .broadcast_jobs
            .ledger(&job.meta.owner)
            .map_or(&[][..], |l| &l.slices);
        let pods = rows.map_or(&no_pods, |rows| rows);
        self.index
            .follow(job, nodes_that_matter, pods, slices, changes);
        let records = self.index.records();
        // Those of a job that is being deleted may be collected before its pods, which wait for us.
        !job.meta.deleting && lacks_results(&job.status, |state| records.count(state))
    }
}
