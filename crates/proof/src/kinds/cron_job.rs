//! CronJobs, of carillon.dev and of batch/v1.

mod edits;
mod mischief;
mod random;
mod scenarios;
mod subject;

pub use self::subject::{NATIVE, SUBJECT, scenario};
use super::proved::ProvedKind;

/// CronJobs.
pub static KIND: ProvedKind = ProvedKind {
    kind: "CronJob",
    random: "swarm of CronJobs",
    scenario: random::scenario,
    scenarios: scenarios::all,
    undisturbed: Vec::new,
    together: |_, uid| vec![uid.to_owned()],
    counts_without_ledger: false,
};
