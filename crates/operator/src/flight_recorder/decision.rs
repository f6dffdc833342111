//! One decision: what it was made from, what was decided, what became of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use carillon_plan::pod::printable;
use carillon_plan::{Act, OnError, Plan, Step};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// `apiVersion` of the object.
    pub api_version: Cow<'static, str>,
    /// Kind of the object.
    pub kind: Cow<'static, str>,
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
    pub seen: BTreeMap<Cow<'static, str>, u64>,
    /// What else the decision was made from: answers of the API server and the like, in the form of
    /// the controller that decided.
    pub inputs: Value,
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
    /// Objects created.
    pub created: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Objects released.
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
    pub fn of<R>(applied: &Applied<R>) -> Self {
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
pub fn summary<A: Act>(plan: &Plan<A>) -> Vec<StepSummary> {
    plan.steps.iter().take(STEPS).map(step).collect()
}

fn step<A: Act>(step: &Step<A>) -> StepSummary {
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
            acts.names.extend(action.object());
        }
    }
    StepSummary {
        needed: step.on_error == OnError::Stop,
        actions,
    }
}
