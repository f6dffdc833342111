//! What the proof has to know of a kind.

use serde_json::Value;

use crate::scenario::Scenario;

/// A kind that is proved.
#[derive(Debug)]
pub struct ProvedKind {
    /// As in manifests.
    pub kind: &'static str,
    /// Name of the scenario of its random schedules, in the files of cases.
    pub random: &'static str,
    /// The scenario of a name and a seed; whether somebody resumes what is paused.
    pub scenario: fn(&'static str, u64, bool) -> Scenario,
    /// Its scenarios.
    pub scenarios: fn() -> Vec<Scenario>,
    /// Those that are only what they say while the operator runs.
    pub undisturbed: fn() -> Vec<Scenario>,
    /// Of all objects of the kind, the uids of those that are decided on together with the one of this uid.
    pub together: fn(&[&Value], &str) -> Vec<String>,
    /// Whether its status counts what no ledger holds: several leaders at once may count a pod twice.
    pub counts_without_ledger: bool,
}
