//! L3: a deletion ends.

use serde_json::Value;

use super::family;
use super::world::World;
use crate::history::History;
use crate::invariant::Invariant::L3;
use crate::object;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L3, for a run that is `over`. Of every job that somebody deleted:
/// - the job is gone;
/// - no pod of it keeps our finalizer;
/// - with `garbage_collection` its pods and slices are gone; slices of a retry stay as long as the first
///   job of its family, and those stay that have lost their owner.
pub fn deletion_ends(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let mut world = World::new(assumptions);
    for step in &history.steps {
        world.apply(step);
    }
    for job in world.jobs.values().filter(|job| !job.is_alive()) {
        let bad = |what: String| {
            Violation::in_state(L3, history.steps.last(), job.key, Some(job.last), what)
        };
        checked.require(job.gone.is_some(), || {
            bad(format!("{} was deleted and is still there", job.key))
        })?;
        let kept = job.pods.iter().find(|(_, pod)| object::is_tracked(pod));
        checked.require(kept.is_none(), || {
            let name = kept.map_or("", |(name, _)| name);
            bad(format!(
                "{} is gone and pod {name} keeps our finalizer",
                job.key
            ))
        })?;
        // What was left behind, or taken from it, nobody collects.
        let slices = job.slices.iter().filter(|_| !family::outlives(&world, job));
        let all = job.pods.iter().chain(slices);
        let owned = |(_, object): &(_, &&Value)| object::log_of(object).is_some();
        let left = all.filter(owned).map(|(name, _)| name).next();
        checked.require(left.is_none() || !assumptions.garbage_collection, || {
            bad(format!(
                "{} is gone and {} is not",
                job.key,
                left.unwrap_or(&"")
            ))
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{JOBS, PODS, SLICES};
    use crate::scene::{Scene, breaks, holds, pod_name};
    use serde_json::json;

    #[test]
    fn nothing_is_left_of_a_deleted_job() {
        let over = Assumptions {
            over: true,
            ..Assumptions::default()
        };
        let run = Scene::new()
            .node("n1")
            .job(json!({}))
            .reserve("n1", 1)
            .create("n1", 1);
        let deleting = run.clone().edit("kubectl", (JOBS, "fix"), |job| {
            job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        breaks(L3, &deleting, &over, "is still there");
        let gone = run.remove("kubectl", (JOBS, "fix"));
        breaks(L3, &gone, &over, "pod fix-n1-1 keeps our finalizer");
        let released = gone.release("n1", 1);
        breaks(L3, &released, &over, "fix-n1-1 is not");
        let without_collection = Assumptions {
            garbage_collection: false,
            ..over.clone()
        };
        holds(L3, &released, &without_collection);
        let collected = released.remove("gc", (PODS, &pod_name("n1", 1)));
        breaks(L3, &collected, &over, "fix-results-0 is not");
        holds(
            L3,
            &collected.remove("gc", (SLICES, "fix-results-0")),
            &over,
        );
    }
}
