//! Jobs of batch/v1.

mod edits;
mod mischief;
mod random;
mod scenarios;
mod subject;

pub use self::subject::{NATIVE, SUBJECT, scenario};
use super::proved::ProvedKind;

/// Jobs.
pub static KIND: ProvedKind = ProvedKind {
    kind: "Job",
    random: "swarm of Jobs",
    scenario: random::scenario,
    scenarios: scenarios::all,
    undisturbed: Vec::new,
    together: |_, uid| vec![uid.to_owned()],
    counts_without_ledger: true,
};
