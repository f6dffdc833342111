//! What a plan starts, and what has to go first.

use carillon_api::ConcurrencyPolicy;

use super::account::Account;
use super::action::{Action, Run, Why};
use super::child::{kind_of, referred};
use super::history;
use super::promise::is_to;
use super::snapshot::Snapshot;

/// What a plan starts, and what has to go first.
#[derive(Debug, Default)]
pub(super) struct Starts {
    pub(super) replaced: Vec<Action>,
    pub(super) created: Vec<Action>,
}

impl Starts {
    /// Promises a run, or keeps its promise, if it may start now.
    pub(super) fn add(&mut self, snapshot: &Snapshot<'_>, account: &mut Account<'_>, run: Run) {
        if !self.make_room(snapshot, account, &run) {
            return;
        }
        let active = &mut account.status.active;
        if !active.iter().any(|entry| is_to(entry, run.kind, &run.name)) {
            active.push(snapshot.cron.reference(run.kind, &run.name));
        }
        self.created.push(Action::CreateChild(run));
    }

    /// Whether a run may start beside the others; with Replace, these are stopped for it.
    fn make_room(&mut self, snapshot: &Snapshot<'_>, account: &mut Account<'_>, run: &Run) -> bool {
        let concurrency = snapshot.cron.concurrency;
        let active = account.status.active.iter();
        let mut others = active.filter(|entry| !is_to(entry, run.kind, &run.name));
        if concurrency == ConcurrencyPolicy::Allow {
            return true;
        }
        if concurrency == ConcurrencyPolicy::Forbid {
            let alone = others.next().is_none();
            if !alone {
                let message = "Not starting job because prior execution is running and concurrency \
                               policy is Forbid";
                account.note(false, "JobAlreadyActive", "Scheduling", message.to_owned());
            }
            return alone;
        }
        let mut stopped = Vec::new();
        for entry in others {
            let Some(kind) = kind_of(entry) else { continue };
            match referred(snapshot.children, entry) {
                Some(child) if !child.deleting => {
                    stopped.push(history::delete(kind, &entry.name, child, Why::Replaced));
                }
                Some(_) => {}
                // Promised, or asked for already: what it becomes is known soon.
                None => return false,
            }
        }
        self.replaced.extend(stopped);
        true
    }
}
