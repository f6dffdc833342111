//! A recorded decision about a CronJob is made again.

use carillon_plan::Uid;
use carillon_plan::cron_job::plan;
use serde::Deserialize;
use serde_json::Value;

use super::memory::{Inputs, Memory, snapshot};
use crate::controllers::replay::{Irreproducible, tables};
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
    let unreadable = |error: String| Irreproducible::Unreadable(error);
    let inputs =
        Inputs::deserialize(&decision.inputs).map_err(|error| unreadable(error.to_string()))?;
    let memory = Memory::recorded(&inputs, decision.generation).map_err(unreadable)?;
    let uid: Uid = decision
        .uid
        .parse()
        .map_err(|error: carillon_plan::uid::NotAUid| unreadable(error.to_string()))?;
    let tables = tables(objects, decision)?;
    let cron = tables.cron_job(uid);
    let found = cron.map(|cron| cron.meta.rv);
    let Some(cron) = cron.filter(|cron| cron.meta.rv == decision.resource_version) else {
        let recorded = decision.resource_version;
        return Err(Irreproducible::Other { found, recorded });
    };
    Ok(snapshot(&tables, cron, &memory, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}
