//! How much later than scheduled Jobs came to be, by the API server's clock.

use anyhow::{Context, Result};
use carillon_testbed::AuditEvent;
use serde::Serialize;

use crate::bench::api_writes::seconds;

/// Seconds from the time a run was scheduled for to the answer to the request that created its Job.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Skew {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Skew {
    /// Of at least one.
    pub(super) fn of(mut late: Vec<f64>) -> Self {
        late.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let rank = (part * late.len() as f64).ceil() as usize;
            late[rank.clamp(1, late.len()) - 1]
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p99_of_a_hundred_leaves_one_out() {
        let skew = Skew::of((1..=100).map(f64::from).collect());
        assert!((skew.p50 - 50.0).abs() < 1e-9 && (skew.p99 - 99.0).abs() < 1e-9);
        assert!((skew.max - 100.0).abs() < 1e-9);
    }
}
