//! Those who act in a cluster besides its users.

mod component;
pub mod garbage_collector;
mod job_controller;
mod kubelet;
mod node_lifecycle;
mod pod_queue;
mod scheduler;
mod timers;

pub use self::component::{Component, KUBELET_STOPPED, has_ended, run};
pub use self::job_controller::{JOB_FATE, JobController};
pub use self::kubelet::{Fate, Fates, Kubelets, Work};
pub use self::node_lifecycle::NodeLifecycle;
pub use self::scheduler::Scheduler;
