//! A recorded decision about a BroadcastJob is made again.

use carillon_plan::broadcast_job::plan;
use carillon_plan::object_key::BROADCAST_JOB;
use serde_json::Value;

use super::inputs::Inputs;
use super::kept::Kept;
use super::memory::{Memory, snapshot};
use crate::controllers::replay::{Irreproducible, judged, recorded, tables};
use crate::flight_recorder::Decision;
use crate::gate::Kind;

/// Plans again what `decision` recorded, from `objects` as they were then: the job, its pods and
/// NodeResultSlices, and all nodes, in any order. The digest of that plan; [`Decision::digest`] is
/// the same if nothing else went into it.
///
/// # Errors
/// When it cannot be done from this record and these objects.
pub fn replay(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<String, Irreproducible> {
    let (key, inputs) = recorded::<Inputs>(&[BROADCAST_JOB], decision)?;
    if let Some(why) = inputs.incomplete {
        return Err(Irreproducible::Incomplete(why));
    }
    let mut tables = tables(objects, decision)?;
    tables.recall(&key.namespace, &inputs.remembered);
    let job = judged(tables.job(&key), |job| job.rv, decision)?;
    let mut memory = Memory::recorded(&inputs).map_err(Irreproducible::Unreadable)?;
    memory.results_lost = Kept::default().catch_up(&tables, job);
    let most = inputs.max_pod_changes;
    Ok(snapshot(&tables, job, &memory, most, None, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}
