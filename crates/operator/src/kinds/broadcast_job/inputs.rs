//! What a plan is made from besides the objects, as the flight recorder keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What a plan is made from besides the objects: answers of the API server, and what pods said
/// before they said what they say now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inputs {
    /// What is known of the template.
    pub template: TemplateAnswer,
    /// Uids of pods that no record names yet, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub created: BTreeMap<String, String>,
    /// Uids of pods that were asked for and are gone.
    pub gone: Vec<String>,
    /// Names of pods that are somebody else's.
    pub conflicts: Vec<String>,
    /// Names of pods that are other than as they were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disputed: Vec<String>,
    /// Why the last creations were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_problem: Option<Refusal>,
    /// Pods whose creation was refused: the highest number was the last one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// What else is refused again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What is remembered of earlier states of pods.
    pub remembered: Vec<Remembered>,
    /// `--max-pod-changes-per-sync`.
    pub max_pod_changes: usize,
    /// Why this is not all there was, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// What the API server said of the template.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(tag = "answer")]
pub enum TemplateAnswer {
    /// It was not asked.
    #[default]
    Unknown,
    /// It would create such a pod.
    Accepted,
    /// It would not.
    Refused {
        /// Why.
        why: Refusal,
        /// When it was asked.
        at: Timestamp,
    },
}

/// A refusal of the API server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Refusal {
    /// Reason of the condition that reports it.
    pub reason: String,
    /// Its words.
    pub message: String,
}

/// What a pod's row keeps though the pod no longer says it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    /// Name of the pod.
    pub pod: String,
    /// It was seen deleted before it had ended.
    pub interrupted: bool,
    /// When its first container started, if the pod no longer says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// How its container failed before it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<LastWords>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastWords {
    /// Exit code.
    pub exit_code: Option<i32>,
    /// The kubelet's reason.
    pub reason: String,
    /// Termination message.
    pub message: String,
}
