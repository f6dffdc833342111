//! BroadcastJobs.

mod edits;
mod family;
mod random;
mod random_retries;
mod scenarios;
mod subject;

pub use self::subject::{SUBJECT, manifest, scenario};
use super::proved::ProvedKind;
use crate::scenario::Scenario;

/// BroadcastJobs.
pub static KIND: ProvedKind = ProvedKind {
    kind: "BroadcastJob",
    random: "swarm",
    scenario: random,
    scenarios: scenarios::all,
    undisturbed: scenarios::undisturbed,
    together: family::family,
    counts_without_ledger: false,
};

/// Each fourth is about retries.
fn random(name: &'static str, seed: u64, watched: bool) -> Scenario {
    if seed % 4 == 3 {
        random_retries::scenario(name, seed)
    } else {
        random::scenario(name, seed, watched)
    }
}
