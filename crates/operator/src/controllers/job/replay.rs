//! A recorded decision about a Job is made again.

use carillon_plan::Uid;
use carillon_plan::job::plan;
use serde::Deserialize;
use serde_json::Value;

use super::memory::{Inputs, snapshot};
use crate::controllers::replay::{Irreproducible, tables};
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
    let unreadable = |error: String| Irreproducible::Unreadable(error);
    let inputs =
        Inputs::deserialize(&decision.inputs).map_err(|error| unreadable(error.to_string()))?;
    let (memory, limits) = inputs.recorded();
    let uid: Uid = decision
        .uid
        .parse()
        .map_err(|error: carillon_plan::uid::NotAUid| unreadable(error.to_string()))?;
    let tables = tables(objects, decision)?;
    let job = tables.native_job(uid);
    let found = job.map(|job| job.meta.rv);
    let Some(job) = job.filter(|job| job.meta.rv == decision.resource_version) else {
        let recorded = decision.resource_version;
        return Err(Irreproducible::Other { found, recorded });
    };
    Ok(snapshot(&tables, job, &memory, &limits, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}
