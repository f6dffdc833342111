//! What a user of Carillon writes: custom resources, the names of labels and finalizers,
//! and every condition and reason the operator can report.

pub mod broadcast_job;
pub mod condition;
pub mod names;
pub mod node_result_slice;

pub use broadcast_job::{
    BroadcastJob, BroadcastJobSpec, BroadcastJobStatus, CompletionPolicy, CompletionPolicyType,
    FailurePolicy, FailurePolicyType, Phase, Refused,
};
pub use node_result_slice::{NodeResult, NodeResultSlice, NodeState};
