//! Pods, without what only the kubelet needs. Each kind whose pods they are makes its own row of them.

use std::sync::Arc;

use carillon_plan::node::Labels;
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
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

/// The part of a pod's spec that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    node_name: Option<String>,
    affinity: Option<Affinity>,
    init_containers: Option<Vec<InitContainer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelector {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    match_fields: Option<Vec<Requirement>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
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
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) conditions: Option<Vec<PodCondition>>,
    pub(crate) init_container_statuses: Option<Vec<ContainerStatus>>,
    pub(crate) container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(deserialize_with = "time::optional")]
    pub(crate) last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) restart_count: i32,
    pub(crate) state: Option<ContainerState>,
    pub(crate) last_state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) waiting: Option<WaitingState>,
    pub(crate) running: Option<Running>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WaitingState {
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(deserialize_with = "time::optional")]
    pub(crate) started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(deserialize_with = "time::optional")]
    pub(crate) started_at: Option<Timestamp>,
    #[serde(deserialize_with = "time::optional")]
    pub(crate) finished_at: Option<Timestamp>,
}

impl ContainerStatus {
    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<&Terminated> {
        self.state.as_ref()?.terminated.as_ref()
    }
}

impl PodStatus {
    /// A condition, by its type.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodCondition> {
        let mut conditions = self.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_)
    }
}

impl SlimPod {
    /// The node it is bound to.
    pub(crate) fn node(&self) -> Option<&str> {
        let name = self.spec.node_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    /// The one node that its required affinity names, as that of a DaemonSet's pod does.
    pub(crate) fn wanted_node(&self) -> Option<&str> {
        let affinity = self.spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let terms = affinity.required.as_ref()?.node_selector_terms.iter();
        let fields = terms.flat_map(|term| term.match_fields.iter().flatten());
        let mut named =
            fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        let [name] = named.next()?.values.as_deref()? else {
            return None;
        };
        Some(name)
    }

    /// Whether its labels are these.
    pub(crate) fn has_labels(&self, labels: &Labels) -> bool {
        let ours = self.metadata.labels.iter().flatten();
        let ours = ours.map(|(key, value)| (key.as_str(), value.as_str()));
        ours.eq(labels.iter().map(|(key, value)| (&**key, &**value)))
    }

    /// Since when it is ready, if it is. One that does not say since when is taken for the latest.
    pub(crate) fn ready(&self) -> Option<Timestamp> {
        let ready = self.status.condition("Ready")?;
        let since = ready.last_transition_time.unwrap_or(Timestamp::MAX);
        (ready.status == "True").then_some(since)
    }

    /// Its deletion, if somebody has asked for it.
    pub(crate) fn deletion(&self) -> Option<Deletion> {
        Some(Deletion {
            due: self.metadata.deletion_timestamp?,
            grace_seconds: self.metadata.deletion_grace_period_seconds.unwrap_or(0),
        })
    }

    /// Its phase.
    pub(crate) fn phase(&self) -> PodPhase {
        PodPhase::read(&self.status.phase)
    }

    pub(crate) fn containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.container_statuses.iter().flatten()
    }

    /// Its init containers, and among them its sidecars.
    pub(crate) fn init_containers(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.status.init_container_statuses.iter().flatten()
    }

    /// Whether an init container goes on beside the containers.
    pub(crate) fn is_sidecar(&self, container: &ContainerStatus) -> bool {
        let mut all = self.spec.init_containers.iter().flatten();
        all.any(|spec| {
            spec.name == container.name && spec.restart_policy.as_deref() == Some("Always")
        })
    }

    /// What the rules of a pod failure policy judge, of these containers in this order.
    pub(crate) fn failure<'a>(
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
