//! What is done for a job when no more of it is known than that it needs a person.

use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use super::action::{Note, Plan, Step, write_status};
use super::spec::BroadcastJob;
use crate::condition;

impl BroadcastJob {
    /// Writes the stored status with Stalled, and an event; `None` if it says so already. kstatus, and with it Flux
    /// and `helm --wait`, takes a job for failed only if it is also not Reconciling, and has been looked at.
    pub fn stalled(&self, reason: &'static str, message: &str, now: Timestamp) -> Option<Plan> {
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
        let write = write_status(status, &self.status)?;
        Some(Plan {
            steps: vec![Step::needed(vec![write])],
            notes: vec![Note {
                warning: true,
                reason,
                action: "Stalling",
                message: message.to_owned(),
                about: None,
            }],
            ..Plan::default()
        })
    }
}
