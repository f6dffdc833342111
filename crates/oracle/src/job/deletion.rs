//! L3: nothing of a Job that is deleted or has ended is left that only we hold.

use jiff::Timestamp;

use super::object as of_job;
use super::world::Jobs;
use crate::history::History;
use crate::invariant::Invariant::L3;
use crate::object::{is_terminal, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L3, for a run that is `over`:
/// - no pod carries the tracking finalizer of a Job that has ended, is gone, or was deleted by somebody;
/// - with `garbage_collection`, a Job that somebody has deleted is gone, and so is every pod that it
///   still controls.
pub fn nothing_is_held(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let (jobs, last) = Jobs::at(history, assumptions, Timestamp::MAX);
    let over = |job: &&super::world::Job<'_>| !job.is_alive() || is_terminal(job.last);
    for job in jobs.all.values().filter(over) {
        let bad = |what: String| Violation::in_state(L3, last, job.key, Some(job.last), what);
        let mut present = job.pods.values().filter(|pod| pod.gone.is_none());
        let held = present.find(|pod| of_job::is_tracked(pod.last));
        checked.require(held.is_none(), || {
            let pod = held.map_or(String::new(), |pod| pod.key.to_string());
            bad(format!("{} is over, and {pod} is held by us", job.key))
        })?;
        if job.is_alive() || !assumptions.garbage_collection {
            continue;
        }
        checked.require(job.gone.is_some(), || {
            bad(format!("{} was deleted and is still there", job.key))
        })?;
        let mut present = job.present().map(|(_, pod)| pod);
        let left = present.find(|pod| of_job::job_of(pod.last) == Some(uid(job.last)));
        checked.require(left.is_none(), || {
            let pod = left.map_or(String::new(), |pod| pod.key.to_string());
            bad(format!("{} is gone, and {pod} is not", job.key))
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, over, strict};
    use serde_json::json;

    #[test]
    fn no_pod_is_held_of_a_job_that_is_over() {
        holds(L3, &Scene::summed(), &over());
        let late = Scene::summed().edit("kubectl", ("pods", "sum-1"), |pod| {
            pod["metadata"]["finalizers"] = json!([of_job::TRACKING]);
        });
        breaks(L3, &late, &over(), "is held by us");
        let running = Scene::new().sum(json!({})).sum_starts(1);
        nothing_is_held(&running.history(), &strict()).unwrap();
    }

    #[test]
    fn a_deleted_job_goes_with_its_pods() {
        let running = || Scene::new().sum(json!({})).sum_starts(1);
        let deleting = running().sum_frees(1).edit_sum(|job| {
            job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:06:00Z");
        });
        breaks(L3, &deleting, &over(), "is still there");
        let gone = running().remove_sum("kubectl");
        breaks(L3, &gone, &over(), "is held by us");
        let left = gone.sum_frees(1);
        breaks(L3, &left, &over(), "is gone, and pods ops/sum-1 is not");
        let without_collection = Assumptions {
            garbage_collection: false,
            ..over()
        };
        holds(L3, &left, &without_collection);
        holds(L3, &left.remove("gc", ("pods", "sum-1")), &over());
    }
}
