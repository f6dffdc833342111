//! DaemonSet: one pod on every node that fits, and updates of them under a budget. Takes what apps/v1 takes as a
//! DaemonSet; `docs/daemonset.md` has the bounds.

mod lifecycle;
mod selector;
mod status;
mod update_strategy;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use lifecycle::{Lifecycle, PreDelete};
pub use status::DaemonSetStatus;
pub use update_strategy::{RollingUpdate, UpdateStrategy, UpdateStrategyType};

/// `spec.revisionHistoryLimit` when it is absent.
pub const DEFAULT_REVISION_HISTORY_LIMIT: i32 = 10;

/// `spec.burstReplicas` when it is absent.
pub const DEFAULT_BURST_REPLICAS: u32 = 250;

/// What runs on every node, and how it is updated.
#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "DaemonSet",
    doc = "DaemonSet keeps one pod on every node that fits. It takes manifests of apps/v1 after a change \
           of their apiVersion.",
    namespaced,
    shortname = "cds",
    category = "carillon",
    status = "DaemonSetStatus",
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".status.desiredNumberScheduled",
        description = "Nodes that should have a pod"
    ),
    printcolumn(
        name = "Updated",
        type_ = "string",
        json_path = ".status.updated",
        description = "Nodes with a pod of the current template, of those that should have one"
    ),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.numberAvailable",
        description = "Nodes with an available pod"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.summary",
        description = "Complete, Updating, Paused, OldPodsKept, or what nodes wait for"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.numberReady",
        description = "Nodes with a ready pod",
        priority = 1
    ),
    printcolumn(
        name = "Misscheduled",
        type_ = "integer",
        json_path = ".status.numberMisscheduled",
        description = "Nodes with a pod that should have none",
        priority = 1
    ),
    printcolumn(
        name = "Waiting-For",
        type_ = "string",
        json_path = ".status.waitingFor[0].reason",
        description = "First of the reasons for which nodes hold the update up",
        priority = 1
    ),
    printcolumn(
        name = "Revision",
        type_ = "string",
        json_path = ".status.updateRevision",
        description = "Hash of the current template",
        priority = 1
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".spec.template.spec.containers[0].image",
        description = "Image of the first container",
        priority = 1
    ),
    validation = Rule::new(selector::is_unchanged())
        .message("is immutable: create a new DaemonSet with the other selector")
        .field_path(".spec.selector")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(selector::MATCH_LABELS_MATCH)
        .message(
            "`selector` does not match template `labels`: give spec.template.metadata.labels the labels \
             of spec.selector.matchLabels"
        )
        .field_path(".template"),
    validation = Rule::new(selector::match_expressions_match())
        .message(
            "`selector` does not match template `labels`: give spec.template.metadata.labels what \
             spec.selector.matchExpressions asks for"
        )
        .field_path(".template"),
    validation = Rule::new(
        "has(self.selector.matchLabels) && self.selector.matchLabels.size() > 0 || \
         has(self.selector.matchExpressions) && self.selector.matchExpressions.size() > 0"
    )
    .message("must not be empty, or every pod of the namespace would be this DaemonSet's")
    .field_path(".selector")
)]
pub struct DaemonSetSpec {
    /// Which pods are this DaemonSet's. Must match the labels of the template. Immutable.
    #[schemars(schema_with = "selector::schema")]
    pub selector: LabelSelector,
    /// The pod to run on each node: restartPolicy is Always, and nodes are chosen with nodeSelector,
    /// affinity and tolerations.
    #[schemars(schema_with = "crate::pod_template::of_daemon_set")]
    pub template: Value,
    /// How pods of an older template are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpdateStrategy")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Seconds, 0 or more, for which a pod must be ready to count as available. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self >= 0").message("must be 0 or more seconds"))]
    pub min_ready_seconds: Option<i32>,
    /// Old revisions that are kept to go back to, 0 or more. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; 0 means that there is nothing to go back to")
    )]
    pub revision_history_limit: Option<i32>,
    /// Most pods that are created, and most that are deleted, at a time: a number from 1, or a percentage of
    /// the nodes that should have a pod, rounded down but at least 1. Default: 250.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString", extend("nullable" = false))]
    #[x_kube(
        validation = Rule::new(
            "type(self) == int ? self >= 1 && self <= 2147483647 \
             : self.matches('^0*([1-9][0-9]?|100)%$')"
        )
        .message("must be a number from 1 to 2147483647 or a percentage from 1% to 100%")
    )]
    pub burst_replicas: Option<IntOrString>,
    /// How nodes that have no pod get one while an update is held at a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ScaleStrategy")]
    pub scale_strategy: Option<ScaleStrategy>,
    /// What a pod waits for before it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Lifecycle")]
    pub lifecycle: Option<Lifecycle>,
}

/// How nodes that have no pod get one.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleStrategy {
    /// True: no more nodes get a pod of the current template than the partition leaves.
    /// Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioned_scaling: Option<bool>,
}
