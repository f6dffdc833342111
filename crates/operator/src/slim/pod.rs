//! Pods, without what only the kubelet needs. Each kind whose pods they are makes its own row of them.

use std::sync::Arc;

use carillon_plan::pod::{Deletion, Failure, PodPhase};
use jiff::Timestamp;
use serde::Deserialize;

use super::interner::Interner;
use super::meta::{AllLabels, SlimMeta};
use super::time;

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimPod {
    /// Metadata.
    pub metadata: SlimMeta<AllLabels>,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

/// The part of a pod's spec that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    node_name: Option<String>,
    init_containers: Option<Vec<InitContainer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitContainer {
    name: String,
    restart_policy: Option<String>,
}

/// The part of a pod's status that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) conditions: Option<Vec<PodCondition>>,
    pub(super) init_container_statuses: Option<Vec<ContainerStatus>>,
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    #[serde(deserialize_with = "time::optional")]
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) restart_count: i32,
    pub(super) state: Option<ContainerState>,
    pub(super) last_state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<WaitingState>,
    pub(super) running: Option<Running>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WaitingState {
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Running {
    #[serde(deserialize_with = "time::optional")]
    pub(super) started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    pub(super) reason: String,
    pub(super) message: String,
    #[serde(deserialize_with = "time::optional")]
    pub(super) started_at: Option<Timestamp>,
    #[serde(deserialize_with = "time::optional")]
    pub(super) finished_at: Option<Timestamp>,
}

impl ContainerStatus {
    /// How it ended, if it has.
    pub(super) fn ended(&self) -> Option<&Terminated> {
        self.state.as_ref()?.terminated.as_ref()
    }
}

impl PodStatus {
    /// A condition, by its type.
    pub(super) fn condition(&self, type_: &str) -> Option<&PodCondition> {
        let mut conditions = self.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_)
    }
}

impl SlimPod {
    /// The node it is bound to.
    pub(super) fn node(&self) -> Option<&str> {
        let name = self.spec.node_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// Its deletion, if somebody has asked for it.
    pub(super) fn deletion(&self) -> Option<Deletion> {
        Some(Deletion {
            due: self.metadata.deletion_timestamp?,
            grace_seconds: self.metadata.deletion_grace_period_seconds.unwrap_or(0),
        })
    }

    /// Its phase.
    pub(super) fn phase(&self) -> PodPhase {
        PodPhase::read(&self.status.phase)
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.container_statuses.iter().flatten()
    }

    /// Its init containers, and among them its sidecars.
    pub(super) fn init_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.init_container_statuses.iter().flatten()
    }

    /// Whether an init container goes on beside the containers.
    pub(super) fn is_sidecar(&self, container: &ContainerStatus) -> bool {
        let mut all = self.spec.init_containers.iter().flatten();
        all.any(|spec| {
            spec.name == container.name && spec.restart_policy.as_deref() == Some("Always")
        })
    }

    /// What the rules of a pod failure policy judge, of these containers in this order.
    pub(super) fn failure<'a>(
        &self,
        containers: impl Iterator<Item = &'a ContainerStatus>,
        strings: &mut Interner,
    ) -> Option<Arc<Failure>> {
        if self.phase() != PodPhase::Failed {
            return None;
        }
        let exits = containers.filter_map(|container| {
            let ended = container.ended()?;
            Some((strings.share(&container.name), ended.exit_code))
        });
        let exits = exits.collect();
        let conditions = self.status.conditions.iter().flatten();
        let conditions = conditions
            .map(|c| (strings.share(&c.type_), strings.share(&c.status)))
            .collect();
        Some(strings.share_failure(Failure { exits, conditions }))
    }
}
