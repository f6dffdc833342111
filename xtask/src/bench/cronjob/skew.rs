//! How much later than scheduled Jobs came to be, by the API server's clock.

use anyhow::{Context, Result};
use carillon_testbed::AuditEvent;
use serde::Serialize;

use crate::bench::api_writes::seconds;
use crate::bench::quantile::quantile;

/// Seconds from the time a run was scheduled for to the answer to the request that created its Job.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Skew {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Skew {
    pub(super) fn of(late: &[f64]) -> Self {
        let at = |share| quantile(late.iter().copied(), share);
        Self {
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Of each Job that was created in a namespace.
pub(super) fn of_creations(events: &[AuditEvent], namespace: &str) -> Result<Vec<f64>> {
    let created = events.iter().filter(|event| {
        event.verb == "create" && event.resource == "jobs" && event.namespace == namespace
    });
    created
        .map(|event| {
            let minute = event
                .name
                .rsplit('-')
                .next()
                .and_then(|minute| minute.parse::<u64>().ok());
            let minute = minute.with_context(|| format!("{} has no minute", event.name))?;
            Ok(seconds(&event.stage_time)? - (minute * 60) as f64)
        })
        .collect()
}
