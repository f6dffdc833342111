//! Events for people, in `events.k8s.io/v1`.
//!
//! Events are written by one background task and may be lost: they never delay a sync. Namespaces take
//! turns, so that one that has much to say holds up none of the others. An object gets the same event
//! once in five minutes (one of the same words about another pod is another one), and at most 25 at once, then one
//! every 30 seconds (client-go allows one every 300; our notes are already aggregated, "Created 500 pods", and the last
//! of them is the one a user waits for). What is over the limit is counted and dropped.

mod limits;
pub mod recorder;
mod waiting;

use std::borrow::Cow;

use serde::Serialize;

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Normal,
    /// Something is wrong, or needs the user.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Regarding {
    /// Such as `carillon.dev/v1alpha1`.
    pub api_version: &'static str,
    /// Such as `BroadcastJob`.
    pub kind: &'static str,
    /// Namespace; the event is written there.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub regarding: Regarding,
    /// Who says it, such as `carillon.dev/broadcastjob-controller`.
    pub controller: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was done, UpperCamelCase, at most 128 bytes.
    pub action: &'static str,
    /// Why, UpperCamelCase, at most 128 bytes.
    pub reason: Cow<'static, str>,
    /// For people; cut after 1 KiB, what could mislead who reads it is replaced.
    pub note: String,
    /// What tells it from one of the same words; not written.
    pub about: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn event(uid: &str, note: &str) -> Event {
        Event {
            regarding: Regarding {
                api_version: "carillon.dev/v1alpha1",
                kind: "BroadcastJob",
                namespace: "ns".into(),
                name: "job".into(),
                uid: uid.into(),
            },
            controller: "carillon.dev/broadcastjob-controller",
            severity: Severity::Normal,
            action: "CreatePods",
            reason: "PodsCreated".into(),
            note: note.into(),
            about: None,
        }
    }
}
