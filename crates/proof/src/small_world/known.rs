//! What the planner is known to do wrong, mended from outside so that the search can go on.

use carillon_plan::Plan;
use carillon_plan::broadcast_job::{self, Snapshot};
use carillon_plan::parallelism::Parallelism;
use jiff::Timestamp;

/// The product's planner, but pods that are missing in the view take their place among
/// `parallelism`: they were seen once, and run as long as nobody has asked.
pub fn missing_pods_take_their_place(
    _leader: usize,
    snapshot: &Snapshot<'_>,
    now: Timestamp,
) -> Plan {
    let missing = snapshot
        .slices
        .iter()
        .flat_map(|slice| &slice.records)
        .filter(|record| !record.is_final() && !snapshot.pods.contains_key(&record.pod))
        .filter(|record| {
            record
                .pod_uid
                .is_some_and(|uid| !snapshot.gone.contains(&uid))
        })
        .count();
    let Parallelism::Count(count) = snapshot.job.parallelism else {
        return broadcast_job::plan(snapshot, now);
    };
    let mut job = snapshot.job.clone();
    job.parallelism = Parallelism::Count(count.saturating_sub(missing as u32));
    broadcast_job::plan(
        &Snapshot {
            job: &job,
            ..*snapshot
        },
        now,
    )
}
