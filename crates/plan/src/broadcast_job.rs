//! BroadcastJob: one pod on every node that fits, run to completion, each exactly once.
//!
//! The records decide what has been done (see [`crate::record`]); pods only add outcomes to them.

pub mod action;
mod cause;
mod columns;
mod counts;
mod decide;
pub mod family;
mod finish;
mod index;
mod ledger;
mod member;
mod order;
mod pause;
mod pod_outcome;
mod policies;
mod progress;
mod reader;
mod reconcile;
mod retry_of;
mod snapshot;
mod spec;
mod stalled;
mod standing;
mod start;
mod status;
mod survey;
pub mod taken;

use carillon_api::condition::types;
use jiff::Timestamp;

use self::action::Plan;
pub use self::columns::state;
pub use self::family::{Family, Member, no_first};
pub use self::index::{Changes, Index};
pub use self::policies::Policies;
pub use self::snapshot::{DISPUTED, Refused, Snapshot, TEMPLATE_RECHECK, Template};
pub use self::spec::{BroadcastJob, Requests};
pub use self::standing::{
    RETRY_BASE, RETRY_MAX, Standing as NodeStanding, last_that_ran, standing_after,
};
pub use self::status::settle;
pub use self::taken::{Taken, TakenPod, TakenPods};
use crate::condition;

/// The plan.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let ended = |type_| condition::is_true(&job.status.conditions, type_);
    let mut fresh = None;
    if job.meta.deleting {
        return finish::release_everything(snapshot);
    }
    let (snapshot, index) = snapshot.indexed(&mut fresh);
    if ended(types::COMPLETE) || ended(types::FAILED) {
        finish::after_the_end(&snapshot, index, now)
    } else {
        told_first(&snapshot, now).unwrap_or_else(|| reconcile::work(&snapshot, index, now))
    }
}

/// What is refused may stand in the way of the rest of a plan, and so of its status.
fn told_first(snapshot: &Snapshot<'_>, now: Timestamp) -> Option<Plan> {
    let (job, refusal) = (snapshot.job, snapshot.refusal?);
    if refusal.is_told(&job.status.conditions) {
        return None;
    }
    let (reason, message) = refusal.stalled();
    let told = job.stalled(reason, message, now)?;
    Some(Plan {
        again: true,
        ..told
    })
}

#[cfg(test)]
mod tests;
