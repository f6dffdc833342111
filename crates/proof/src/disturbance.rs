//! What goes wrong in a run: data, so that a failing run is a file.

use serde::{Deserialize, Serialize};

use crate::blow::Blow;
use crate::fault::{Fault, What};
use crate::span::Span;
use crate::storm::Weather;
use crate::tenant::Tenant;

/// All that goes wrong in a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Disturbance {
    /// What happens at certain writes.
    pub at: Vec<AtWrite>,
    /// Who goes on after a kill.
    pub then: Then,
    /// A process that is started again sees lists as of this revision first.
    pub restart_at_revision: Option<u64>,
    /// How many processes there are.
    pub processes: usize,
    /// All of them believe to lead, all the time.
    pub without_lease: bool,
    /// When no process runs.
    pub down: Vec<Span>,
    /// What happens to certain requests.
    pub faults: Vec<Fault>,
    /// Watches that hang.
    pub silent: Vec<Silence>,
    /// The watch event that is lost, counted from 1 over all watches of all processes.
    pub lost_event: Option<usize>,
    /// What the watches have lost is not looked for.
    pub without_audit: bool,
    /// The API server is restored from a backup.
    pub restore: Option<Restore>,
    /// The watch event at which a process panics in the task of that watch, counted from 1.
    pub panic_at_event: Option<usize>,
    /// Requests that take longer.
    pub slow: Vec<Slow>,
    /// Faults by chance.
    pub weather: Option<Weather>,
    /// Somebody who does what the role `edit` of a namespace allows.
    pub tenant: Option<Tenant>,
}

/// Requests of a kind take longer, as with an admission webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slow {
    /// RBAC's word, such as `create`.
    pub verb: String,
    /// Plural and group.
    pub resource: String,
    /// Of which namespace; without it, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// By how many milliseconds.
    pub millis: u64,
}

/// The API server is restored from a backup: it forgets its last changes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restore {
    /// When it has come to this revision for the first time.
    pub at: u64,
    /// How many changes it forgets, besides those that were made while it was down.
    pub lost: u64,
    /// For how many seconds nobody can connect.
    pub down: u64,
}

/// Watches of a resource hang: an event that is due meanwhile, and all that follows on its
/// connection, never arrives.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Silence {
    /// Plural and group.
    pub resource: String,
    /// The process whose watches they are; without it, of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When.
    pub during: Span,
}

/// Something happens at the n-th write of the run, counted over all processes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtWrite {
    /// From 1.
    pub write: usize,
    /// What happens to the process that sends it.
    pub blow: Blow,
}

/// Who goes on after a kill.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    /// The process is started again.
    #[default]
    Restart,
    /// Another process takes over; the killed one is not started again.
    TakeOver,
}

impl Disturbance {
    /// Nothing goes wrong, with so many processes.
    pub fn none(processes: usize) -> Self {
        Self {
            processes,
            ..Self::default()
        }
    }

    /// A pod is made and the reply is lost, nobody can look, and no event tells of it for a minute.
    pub fn unknown_creation() -> Self {
        Self {
            faults: vec![
                Fault::new("create", "pods", 1, What::ReplyLost),
                Fault::new("get", "pods", 1, What::Refused(403)),
            ],
            silent: vec![Silence {
                resource: "pods".to_owned(),
                agent: None,
                during: Span { from: 0, to: 60 },
            }],
            ..Self::none(1)
        }
    }

    /// Whether the faults by chance never end.
    pub fn never_heals(&self) -> bool {
        self.weather
            .as_ref()
            .is_some_and(|weather| weather.minutes == 0)
    }

    /// What happens at the n-th write.
    pub fn blow(&self, nth: usize) -> Option<Blow> {
        let at = self.at.iter().find(|at| at.write == nth);
        at.map(|at| at.blow)
    }
}
