//! What a user of Carillon writes: custom resources, the names of labels and finalizers,
//! and every condition and reason the operator can report.

// KubeSchema's generated code has public items in function bodies.
#![allow(unreachable_pub)]

pub mod broadcast_job;
pub mod condition;
mod crd;
pub mod cron_job;
pub mod daemon_set;
#[cfg(test)]
mod fuzz;
mod misplaced;
pub mod names;
pub mod node_result_slice;
mod null;
mod observed_generation;
mod open_schema;
mod open_word;
pub mod path;
mod pod_template;
pub mod policy;

pub use broadcast_job::{
    BroadcastJob, BroadcastJobSpec, BroadcastJobStatus, CompletionPolicy, CompletionPolicyType,
    FailurePolicy, FailurePolicyType, Phase, Refused, Retry, RetryOf,
};
pub use crd::crds;
pub use cron_job::{
    ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, DstPolicy, MissedRunPolicy,
    RunReference, ScheduleInForce,
};
pub use daemon_set::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
pub use node_result_slice::{NodeResult, NodeResultSlice, NodeState};
pub use policy::{
    ExecutionPolicy, NoEligibleNodesPolicy, PodFailurePolicy, PodFailurePolicyAction,
};
