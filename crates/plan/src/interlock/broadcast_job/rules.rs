//! The rules about BroadcastJobs, as they are named in messages and metrics.

pub use crate::interlock::left_behind::rules::LEFT_BEHIND;

/// A node has at most one pod of the job that has not ended.
pub const ONE_PER_NODE: &str = "one_per_node";
/// A pod is created only for a reservation that is stored, by a plan that has asked whether it still
/// is, and a slice only for a job of which that is known.
pub const RESERVED_FIRST: &str = "reserved_first";
/// A node that has succeeded is never served again.
pub const RUN_ONCE: &str = "run_once";
/// The attempts on nodes of one name are counted up, and no two have the same pod.
pub const ATTEMPTS: &str = "attempts";
/// No more pods than parallelism allows exist or are promised.
pub const PARALLELISM: &str = "parallelism";
/// A plan creates a bounded number of pods.
pub const POD_CHANGES: &str = "pod_changes";
/// A job that is paused, unusable, failing, ended or being deleted starts nothing.
pub const STARTS: &str = "starts";
/// A terminal state is never left.
pub const TERMINAL: &str = "terminal";
/// A job ends behind a seal, with every attempt over.
pub const END: &str = "end";
/// Nothing is added to a sealed log, and no seal is broken.
pub const SEAL: &str = "seal";
/// Slices are only appended to; what is final stays as it is.
pub const APPEND_ONLY: &str = "append_only";
/// An attempt is over when its pod has ended, was told to stop or is gone; and what a pod has not
/// done is its end only if an earlier step has asked whether that is still so.
pub const OUTCOME: &str = "outcome";
/// Counts of the status follow the records.
pub const COUNTS: &str = "counts";
/// Pods are deleted by uid and resourceVersion, and only for a reason.
pub const DELETE: &str = "delete";
/// Pods are released by uid, and only when their outcome is stored.
pub const RELEASE: &str = "release";
/// Of a job and its retries one has the turn, and none serves a node that another one has served or may
/// still serve.
pub const FAMILY: &str = "family";
/// A job is deleted only when its time to live is over and nobody needs its results.
pub const TIME_TO_LIVE: &str = "time_to_live";

/// All of them.
pub const ALL: [&str; 18] = [
    ONE_PER_NODE,
    RESERVED_FIRST,
    RUN_ONCE,
    ATTEMPTS,
    PARALLELISM,
    POD_CHANGES,
    STARTS,
    TERMINAL,
    END,
    SEAL,
    APPEND_ONLY,
    OUTCOME,
    COUNTS,
    DELETE,
    RELEASE,
    FAMILY,
    TIME_TO_LIVE,
    LEFT_BEHIND,
];
