//! L3: nothing of a Job that is deleted or has ended is left that only we hold.

use jiff::Timestamp;

use super::object as of_job;
use super::world::Jobs;
use crate::history::History;
use crate::invariant::Invariant::L3;
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{is_terminal, uid};

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
        let mut present = job.present().map(|(_, pod)| pod);
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
