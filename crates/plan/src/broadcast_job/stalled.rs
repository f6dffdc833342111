//! What the status of a job says when no more of it is known than that it needs a person.

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use super::spec::BroadcastJob;
use crate::condition;

impl BroadcastJob {
    /// The stored status, with Stalled. kstatus, and with it Flux and `helm --wait`, takes a job for failed only if it
    /// is also not Reconciling, and has been looked at.
    pub fn stalled(&self, reason: &str, message: &str, now: Timestamp) -> BroadcastJobStatus {
        let generation = self.meta.generation;
        let mut status = self.status.clone();
        let conditions = &mut status.conditions;
        let ended = |type_| condition::is_true(conditions, type_);
        let ended = ended(types::COMPLETE) || ended(types::FAILED);
        let mut set = |type_: &str, on: bool, reason: &str, message: &str| {
            condition::set(conditions, type_, on, reason, message, generation, now);
        };
        set(types::STALLED, true, reason, message);
        if !ended {
            let reconciling = condition::find(&self.status.conditions, types::RECONCILING);
            let counts = reconciling.map_or("", |stored| &stored.message);
            set(types::RECONCILING, false, reasons::STALLED, counts);
            status.observed_generation = Some(generation);
        }
        status
    }
}
