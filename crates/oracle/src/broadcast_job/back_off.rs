//! How long a node that failed is left alone.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::world::Job;
use crate::history::Step;
use crate::object::{self, time};
use crate::verdict::Assumptions;

const FIRST: SignedDuration = SignedDuration::from_secs(10);
const MOST: SignedDuration = SignedDuration::from_mins(10);

/// Why this pod comes too soon after the failure of the one before, if it does. `asked` is what the
/// annotation for retries ever asked for.
pub(crate) fn too_soon(
    job: &Job<'_>,
    pod: &str,
    asked: &BTreeSet<&str>,
    assumptions: &Assumptions,
    step: &Step,
) -> Option<String> {
    let node = job.records.get(pod)?.node_uid();
    let before = || {
        let records = job.records.values();
        records.filter(|record| record.node_uid() == node && record.pod() != pod)
    };
    let latest = before().max_by_key(|record| record.attempt())?;
    if latest.state() != "Failed" || asked.contains(latest.pod()) {
        return None;
    }
    let failures = before().filter(|record| record.state() == "Failed").count();
    let doublings = u32::try_from(failures.saturating_sub(1).min(16)).unwrap_or(16);
    let wait = (FIRST * 2_i32.pow(doublings)).min(MOST);
    let failed = time(latest.0, &["completionTime"])?;
    let waited = step.at.duration_since(failed);
    (waited + assumptions.clock_skew < wait).then(|| {
        format!(
            "pod {} came {waited:#} after failure {failures} of its node, and {wait:#} are to be waited",
            object::name(step.new.as_deref().unwrap_or(latest.0)),
        )
    })
}
