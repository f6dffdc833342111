//! DaemonSets of carillon.dev.

mod edits;
mod mischief;
mod random;
mod scenarios;
mod subject;
mod template;

pub use self::subject::{SUBJECT, scenario};
use super::proved::ProvedKind;

/// DaemonSets.
pub static KIND: ProvedKind = ProvedKind {
    kind: "DaemonSet",
    random: "swarm of DaemonSets",
    scenario: random::scenario,
    scenarios: scenarios::all,
    undisturbed: Vec::new,
    together: |_, uid| vec![uid.to_owned()],
    counts_without_ledger: false,
};
