//! What is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_plan::broadcast_job::{BroadcastJob, Requests};
use carillon_plan::meta::Meta;
use carillon_plan::pod::PodRow;
use carillon_plan::record::Slice;
use carillon_plan::{ObjectKey, Uid};
use serde_json::Value;

/// A BroadcastJob, as it is stored.
#[derive(Clone, Debug)]
pub(super) struct JobObject {
    pub(super) owner: Arc<ObjectKey>,
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) generation: i64,
    pub(super) rv: u64,
    pub(super) deleting: bool,
    pub(super) resume: Option<String>,
}

impl JobObject {
    /// As the operator reads it.
    pub(super) fn read(&self) -> BroadcastJob {
        let meta = Meta {
            owner: self.owner.clone(),
            generation: self.generation,
            rv: self.rv,
            deleting: self.deleting,
            created: jiff::Timestamp::UNIX_EPOCH,
        };
        BroadcastJob::read(
            meta,
            Requests {
                resume: self.resume.clone(),
                retry: None,
            },
            &self.spec,
            &self.status,
        )
    }
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: Box<str>,
    pub(super) row: PodRow,
    /// The job that made it.
    pub(super) of: Uid,
    /// The node that it was made for.
    pub(super) node: Arc<str>,
    pub(super) node_uid: Uid,
    /// It has the label of its job.
    pub(super) label: bool,
    /// It has its job as owner.
    pub(super) owned: bool,
    /// Its creation arrived in the moment in which its job went.
    pub(super) late: bool,
}

impl Pod {
    /// Whether it runs, or may still start.
    pub(super) fn is_live(&self) -> bool {
        let never_starts = self.row.deletion.is_some() && self.row.node.is_none();
        !self.row.phase.has_ended() && !never_starts
    }
}

/// A NodeResultSlice, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct SliceObject {
    pub(super) slice: Slice,
    pub(super) of: Uid,
    pub(super) owners: BTreeSet<Uid>,
}

/// Jobs by uid.
pub(super) type Jobs = BTreeMap<Uid, JobObject>;
/// Slices by job and index.
pub(super) type Slices = BTreeMap<(Uid, u32), SliceObject>;
/// Pods by name.
pub(super) type PodObjects = BTreeMap<Box<str>, Pod>;

/// What a uid is of, so that no two are the same.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Job = 1,
    Pod = 2,
    Slice = 3,
    Node = 4,
}
