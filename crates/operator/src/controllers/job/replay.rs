//! A recorded decision about a Job is made again.

use carillon_plan::job::plan;
use carillon_plan::object_key::JOB;
use serde_json::Value;

use super::memory::{Inputs, snapshot};
use crate::controllers::replay::{Irreproducible, judged, recorded, tables};
use crate::flight_recorder::Decision;
use crate::gate::Kind;

/// Plans again what `decision` recorded, from `objects` as they were then: the Job and its pods, in
/// any order. The digest of that plan; [`Decision::digest`] is the same if nothing else went into it.
///
/// # Errors
/// When it cannot be done from this record and these objects.
pub fn replay(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<String, Irreproducible> {
    let (key, inputs) = recorded::<Inputs>(&[JOB], decision)?;
    let (memory, limits) = inputs.recorded();
    let tables = tables(objects, decision)?;
    let job = judged(tables.native_job(&key), |job| job.meta.rv, decision)?;
    Ok(snapshot(&tables, job, &memory, &limits, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}
