//! A recorded decision about a CronJob is made again.

use carillon_plan::cron_job::plan;
use carillon_plan::object_key::{CRON_JOB, NATIVE_CRON_JOB};
use serde_json::Value;

use super::memory::{Inputs, Memory, snapshot};
use crate::controllers::replay::{Irreproducible, judged, recorded, tables};
use crate::flight_recorder::Decision;
use crate::gate::Kind;

/// Plans again what `decision` recorded, from `objects` as they were then: the CronJob, and its Jobs
/// and BroadcastJobs, in any order. The digest of that plan; [`Decision::digest`] is the same if
/// nothing else went into it. The rules of time zones are those of this machine.
///
/// # Errors
/// When it cannot be done from this record and these objects.
pub fn replay(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<String, Irreproducible> {
    let (key, inputs) = recorded::<Inputs>(&[CRON_JOB, NATIVE_CRON_JOB], decision)?;
    let memory =
        Memory::recorded(&inputs, decision.generation).map_err(Irreproducible::Unreadable)?;
    let tables = tables(objects, decision)?;
    let cron = judged(tables.cron_job(&key), |cron| cron.meta.rv, decision)?;
    Ok(snapshot(&tables, cron, &memory, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}
