//! One decision: what it was made from, what was decided, what became of it.

use std::collections::BTreeMap;

use carillon_plan::action::{Action, Plan, Step};
use carillon_plan::pod::printable;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::apply::Applied;

/// Steps of a plan that are told.
const STEPS: usize = 16;
/// Names told of the actions of one kind in one step.
const NAMES: usize = 3;

/// A decision.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// Counts all decisions of the process.
    pub sequence: u64,
    /// How many idle decisions this one stands for, besides itself: the ones before it.
    pub repeated: u64,
    /// When it was made.
    pub now: Timestamp,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Uid of the object.
    pub uid: String,
    /// Generation of the object.
    pub generation: i64,
    /// resourceVersion of the object.
    pub resource_version: u64,
    /// What the caches had seen, by kind: every object was read at its last version up to this.
    pub seen: BTreeMap<String, u64>,
    /// What else the decision was made from.
    pub inputs: Inputs,
    /// Fingerprint of the whole plan.
    pub digest: String,
    /// The plan, in short.
    pub steps: Vec<StepSummary>,
    /// How many steps there were, if not all are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_steps: Option<usize>,
    /// When to decide again at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<Timestamp>,
    /// Why the interlock refused the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What became of it; absent while it is carried out, and for idle plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Decision {
    /// Nothing was to be done.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.refused.is_none()
    }
}

/// What a plan is made from besides the objects: answers of the API server, and what pods said
/// before they said what they say now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inputs {
    /// What is known of the template.
    pub template: TemplateAnswer,
    /// Uids of pods that were asked for and are gone.
    pub gone: Vec<String>,
    /// Names of pods that are somebody else's.
    pub conflicts: Vec<String>,
    /// Why the last creations were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_problem: Option<Refusal>,
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

/// A step of a plan.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepSummary {
    /// The later steps are not done if this one fails.
    pub needed: bool,
    /// Actions by word, in the order in which each word first occurs.
    pub actions: Vec<Acts>,
}

/// The actions of one kind in one step.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Acts {
    /// What is done.
    pub action: String,
    /// To how many.
    pub count: usize,
    /// The first few of them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names: Vec<String>,
}

/// What became of a plan.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Outcome {
    /// Writes that succeeded.
    pub writes: usize,
    /// Pods created.
    pub created: usize,
    /// Pods deleted.
    pub deleted: usize,
    /// Pods released.
    pub released: usize,
    /// The first action that failed, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The state it was made from was no longer the current one.
    pub conflict: bool,
    /// It grew too old before all of it was sent.
    pub expired: bool,
    /// Steps were left out because an earlier one failed.
    pub stopped: bool,
}

impl Outcome {
    /// Of a plan that was carried out.
    pub fn of(applied: &Applied) -> Self {
        let failed = applied.failed.as_ref();
        Self {
            writes: applied.writes,
            created: applied.created,
            deleted: applied.deleted,
            released: applied.released,
            failed: failed.map(|(word, error)| printable(&format!("{word}: {error}"))),
            conflict: applied.conflict,
            expired: applied.expired,
            stopped: applied.stopped,
        }
    }
}

/// A plan in short.
pub fn summary(plan: &Plan) -> Vec<StepSummary> {
    plan.steps.iter().take(STEPS).map(step).collect()
}

fn step(step: &Step) -> StepSummary {
    let mut actions: Vec<Acts> = Vec::new();
    for action in &step.actions {
        let word = action.word();
        let at = actions.iter().position(|acts| acts.action == word);
        let at = at.unwrap_or_else(|| {
            actions.push(Acts {
                action: word.to_owned(),
                ..Acts::default()
            });
            actions.len() - 1
        });
        let acts = &mut actions[at];
        acts.count += 1;
        if acts.names.len() < NAMES {
            acts.names.extend(name(action));
        }
    }
    StepSummary {
        needed: step.on_error == carillon_plan::action::OnError::Stop,
        actions,
    }
}

fn name(action: &Action) -> Option<String> {
    Some(match action {
        Action::CheckTemplate { pod, node } | Action::CreatePod { pod, node } => {
            format!("{pod} on {node}")
        }
        Action::ConfirmGone { pod, .. }
        | Action::DeletePod { pod, .. }
        | Action::ReleasePod { pod, .. } => pod.to_string(),
        Action::WriteSlice(slice) => {
            let seal = if slice.sealed { ", sealed" } else { "" };
            format!(
                "slice {}: {} results{seal}",
                slice.index,
                slice.results.len()
            )
        }
        Action::WriteStatus(status) => {
            let on = status.conditions.iter().filter(|c| c.status == "True");
            let on: Vec<_> = on.map(|c| format!("{}={}", c.type_, c.reason)).collect();
            format!("{} {}", status.done, on.join(" "))
        }
        Action::DeleteJob => return None,
    })
}
