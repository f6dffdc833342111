//! A stored DaemonSet as the planner reads it: total, whatever was stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::DaemonSetStatus;
use carillon_api::daemon_set::DEFAULT_REVISION_HISTORY_LIMIT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::revision::DataDigest;
use super::should_run::with_automatic_tolerations;
use crate::meta::Meta;
use crate::object_key::NATIVE_DAEMON_SET;
use crate::placement::Placement;
use crate::written::Written;

/// A DaemonSet, of carillon.dev or of apps/v1.
#[derive(Clone, Debug)]
pub struct DaemonSet {
    /// Namespace, name, uid and so on.
    pub meta: Meta,
    /// Of apps/v1: served exactly as kube-controller-manager does.
    pub native: bool,
    /// What is wanted.
    pub spec: Arc<Spec>,
    /// `spec.template`, as written.
    pub template: Written,
    /// What the revision of that template says.
    pub data: DataDigest,
    /// As it was written last.
    pub status: DaemonSetStatus,
    /// Annotation `deprecated.daemonset.template.generation`, which the API server keeps for apps/v1.
    pub template_generation: Option<i64>,
}

/// The fields of a DaemonSet's spec that decide something. Defaults are the API server's.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Which pods are this DaemonSet's.
    pub selector: LabelSelector,
    /// The labels of the template.
    pub pod_labels: BTreeMap<String, String>,
    /// What the template asks of a node, with what every pod of a DaemonSet tolerates.
    pub placement: Placement,
    /// How pods of an older template are replaced.
    pub update: Update,
    /// How long a pod has to be Ready to count as available.
    pub min_ready_seconds: i32,
    /// Old revisions that are kept.
    pub revision_history_limit: i32,
    /// Nodes that keep their old pod; of carillon.dev, as all that follows.
    pub partition: Quota,
    /// No pod is replaced.
    pub paused: bool,
    /// Only nodes that it selects are updated.
    pub node_selector: Option<LabelSelector>,
    /// Most pods that are created or deleted at a time, where it says.
    pub burst: Option<Quota>,
    /// Nodes without a pod get one only as the partition leaves.
    pub partitioned_scaling: bool,
    /// What a pod waits for before it is deleted.
    pub pre_delete: Option<PreDelete>,
}

/// What a pod waits for before it is deleted: that it has none of these any more.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PreDelete {
    /// Labels with their values.
    pub labels: BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: Vec<String>,
}

/// How pods of an older template are replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Update {
    /// When somebody deletes them.
    OnDelete,
    /// By us.
    Rolling {
        /// How many nodes may be without an available pod.
        max_unavailable: Quota,
        /// How many nodes may have a second pod.
        max_surge: Quota,
    },
}

impl Default for Update {
    fn default() -> Self {
        Self::Rolling {
            max_unavailable: Quota::Count(1),
            max_surge: Quota::Count(0),
        }
    }
}

impl Update {
    /// Whether a node may have a second pod.
    pub fn may_surge(self) -> bool {
        matches!(self, Self::Rolling { max_surge, .. } if max_surge.of(1) > 0)
    }
}

/// A number of nodes, or a percentage of those that should have a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quota {
    /// This many.
    Count(u32),
    /// This many percent.
    Percent(u32),
}

impl Default for Quota {
    fn default() -> Self {
        Self::Count(0)
    }
}

impl Quota {
    /// How many of `total`, rounded up.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }

    /// How many of `total`, rounded down.
    pub fn of_at_most(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => total * percent as usize / 100,
        }
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => {
                let count = number.as_i64()?;
                u32::try_from(count).ok().map(Self::Count)
            }
            Value::String(text) => {
                let percent = text.strip_suffix('%')?;
                percent.parse().ok().map(Self::Percent)
            }
            _ => None,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    selector: Option<LabelSelector>,
    template: Written,
    update_strategy: Option<UpdateStrategy>,
    min_ready_seconds: Option<i32>,
    revision_history_limit: Option<i32>,
    burst_replicas: Value,
    scale_strategy: Option<ScaleStrategy>,
    lifecycle: Option<Lifecycle>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Lifecycle {
    pre_delete: Option<Hook>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hook {
    labels_handler: Option<BTreeMap<String, String>>,
    finalizers_handler: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UpdateStrategy {
    r#type: Option<String>,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_unavailable: Value,
    max_surge: Value,
    partition: Value,
    paused: Option<bool>,
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScaleStrategy {
    partitioned_scaling: Option<bool>,
}

impl DaemonSet {
    /// Reads a `spec` and a `status`; what cannot be read is as if it were not there.
    pub fn read(
        meta: Meta,
        template_generation: Option<i64>,
        spec: &Value,
        status: &Value,
    ) -> Self {
        let native = meta.owner.api_version == NATIVE_DAEMON_SET.0;
        let written: &Written = &spec.into();
        let fields: Fields = written.read();
        let template = fields.template.value();
        let data = DataDigest::of_template(&template);
        Self {
            meta,
            native,
            spec: Arc::new(fields.spec(&template, native)),
            template: fields.template,
            data,
            status: read_status(status, native),
            // Of ours nobody keeps it: a manifest that was exported from apps/v1 may have it.
            template_generation: template_generation.filter(|_| native),
        }
    }

    /// The same DaemonSet later, with the same spec.
    #[must_use]
    pub fn later(&self, meta: Meta, template_generation: Option<i64>, status: &Value) -> Self {
        Self {
            meta,
            template_generation: template_generation.filter(|_| self.native),
            status: read_status(status, self.native),
            ..self.clone()
        }
    }
}

/// What apps/v1 has in a status. The rest is others', and is left alone.
const NATIVE_STATUS: [&str; 9] = [
    "collisionCount",
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "numberUnavailable",
    "observedGeneration",
    "updatedNumberScheduled",
];

fn read_status(status: &Value, native: bool) -> DaemonSetStatus {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut().filter(|_| native) {
        fields.retain(|field, _| NATIVE_STATUS.contains(&field.as_str()));
    }
    DaemonSetStatus::deserialize(status).unwrap_or_default()
}

fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template.pointer("/metadata/labels");
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    labels.collect()
}

impl Fields {
    fn spec(&self, template: &Value, native: bool) -> Spec {
        let pod = template.get("spec").unwrap_or(&Value::Null);
        let host_network = pod.get("hostNetwork") == Some(&Value::Bool(true));
        let strategy = self.update_strategy.as_ref();
        let common = Spec {
            selector: self.selector.clone().unwrap_or_default(),
            pod_labels: labels(template),
            placement: with_automatic_tolerations(Placement::read(pod), host_network),
            update: strategy.map_or_else(Update::default, UpdateStrategy::read),
            min_ready_seconds: self.min_ready_seconds.unwrap_or(0),
            revision_history_limit: self
                .revision_history_limit
                .unwrap_or(DEFAULT_REVISION_HISTORY_LIMIT),
            ..Spec::default()
        };
        if native {
            return common;
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let scale = self.scale_strategy.as_ref();
        let lifecycle = self.lifecycle.as_ref();
        let hook = lifecycle.and_then(|it| it.pre_delete.as_ref());
        Spec {
            partition: rolling
                .and_then(|it| Quota::read(&it.partition))
                .unwrap_or_default(),
            paused: rolling.is_some_and(|it| it.paused == Some(true)),
            node_selector: rolling.and_then(|it| it.selector.clone()),
            burst: Quota::read(&self.burst_replicas),
            partitioned_scaling: scale.is_some_and(|it| it.partitioned_scaling == Some(true)),
            pre_delete: hook.and_then(Hook::read),
            ..common
        }
    }
}

impl Hook {
    /// `None`: it names nothing that a pod could wait for.
    fn read(&self) -> Option<PreDelete> {
        let hook = PreDelete {
            labels: self.labels_handler.clone().unwrap_or_default(),
            finalizers: self.finalizers_handler.clone().unwrap_or_default(),
        };
        (hook != PreDelete::default()).then_some(hook)
    }
}

impl UpdateStrategy {
    /// Where only `maxSurge` is set, no node has to do without.
    fn read(&self) -> Update {
        if self.r#type.as_deref() == Some("OnDelete") {
            return Update::OnDelete;
        }
        let none = RollingUpdate::default();
        let RollingUpdate {
            max_unavailable,
            max_surge,
            ..
        } = self.rolling_update.as_ref().unwrap_or(&none);
        let max_surge = Quota::read(max_surge).unwrap_or(Quota::Count(0));
        let otherwise = u32::from(max_surge.of(1) == 0);
        Update::Rolling {
            max_unavailable: Quota::read(max_unavailable).unwrap_or(Quota::Count(otherwise)),
            max_surge,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Quota::{Count, Percent};
    use super::*;

    #[test]
    fn a_strategy_is_read_with_the_defaults_of_the_api_server() {
        let rolling = |max_unavailable, max_surge| Update::Rolling {
            max_unavailable,
            max_surge,
        };
        for (strategy, expected) in [
            (json!({}), rolling(Count(1), Count(0))),
            (json!({"type": "OnDelete"}), Update::OnDelete),
            (
                json!({"rollingUpdate": {"maxUnavailable": "10%"}}),
                rolling(Percent(10), Count(0)),
            ),
            (
                json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 3}}),
                rolling(Count(0), Count(3)),
            ),
            (
                json!({"rollingUpdate": {"maxSurge": "5%"}}),
                rolling(Count(0), Percent(5)),
            ),
            (
                json!({"rollingUpdate": {"maxUnavailable": -1, "maxSurge": "x"}}),
                rolling(Count(1), Count(0)),
            ),
        ] {
            let read: UpdateStrategy = serde_json::from_value(strategy.clone()).unwrap();
            assert_eq!(read.read(), expected, "{strategy}");
        }
    }

    #[test]
    fn a_percentage_is_rounded_up() {
        for (quota, total, expected) in [
            (Percent(50), 3, 2),
            (Percent(100), 2, 2),
            (Percent(1), 1, 1),
            (Percent(0), 9, 0),
            (Count(4), 2, 4),
        ] {
            assert_eq!(quota.of(total), expected, "{quota:?} of {total}");
        }
    }
}
