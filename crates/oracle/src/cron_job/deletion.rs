//! L3: nothing of a deleted CronJob is left that only we hold.

use super::object as of_cron;
use super::world::Crons;
use crate::history::History;
use crate::invariant::Invariant::L3;
use crate::object;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L3, for a run that is `over`. Of every CronJob that somebody deleted:
/// - no child of it carries `carillon.dev/run-tracking`;
/// - with `garbage_collection` it is gone, and so is every child that it still controls.
pub fn nothing_is_held(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let crons = Crons::at_the_end(history, assumptions);
    for cron in crons.all.values().filter(|cron| !cron.is_alive()) {
        let bad = |what: String| {
            Violation::in_state(L3, history.steps.last(), cron.key, Some(cron.last), what)
        };
        let mut children = cron.children.iter();
        let held = children.find(|(_, child)| of_cron::is_held(child.object));
        checked.require(held.is_none(), || {
            let child = held.map_or(String::new(), |(key, _)| key.to_string());
            bad(format!(
                "{} was deleted, and {child} is held by us",
                cron.key
            ))
        })?;
        if !assumptions.garbage_collection {
            continue;
        }
        checked.require(cron.gone.is_some(), || {
            bad(format!("{} was deleted and is still there", cron.key))
        })?;
        let mut children = cron.children.iter();
        let left = children
            .find(|(_, child)| of_cron::cron_of(child.object) == Some(object::uid(cron.last)));
        checked.require(left.is_none(), || {
            let child = left.map_or(String::new(), |(key, _)| key.to_string());
            bad(format!("{} is gone, and {child} is not", cron.key))
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds};
    use serde_json::json;

    #[test]
    fn nothing_of_a_deleted_cron_job_is_held() {
        let over = Assumptions {
            over: true,
            ..Assumptions::default()
        };
        let run = Scene::new().cron(json!({})).promise(5).start(5);
        let deleting = run.clone().confirm(5).release_run(5).edit_cron(|cron| {
            cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:06:00Z");
        });
        breaks(L3, &deleting, &over, "is still there");
        let gone = run.remove_cron("kubectl");
        breaks(L3, &gone, &over, "is held by us");
        let collected = gone.clone().delete_run("gc", 5);
        breaks(L3, &collected, &over, "is held by us");
        holds(L3, &collected.release_run(5), &over);
        let left = gone.release_run(5);
        breaks(L3, &left, &over, "is gone, and jobs.batch ops/night-");
        let without_collection = Assumptions {
            garbage_collection: false,
            ..over.clone()
        };
        holds(L3, &left, &without_collection);
        let orphaned = left.edit(
            "gc",
            ("jobs.batch", &crate::cron_job::scene::run_name(5)),
            |run| {
                run["metadata"]["ownerReferences"] = json!([]);
            },
        );
        holds(L3, &orphaned, &over);
    }
}
