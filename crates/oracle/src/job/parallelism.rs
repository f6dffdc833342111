//! S3: no more pods run than a Job wants.

use super::object::is_live;
use super::tracking::wanted;
use super::world::Jobs;
use crate::history::History;
use crate::invariant::Invariant::S3;
use crate::judge::{Assumptions, Checked, Verdict, Violation};

/// S3. Where a pod is created for a Job (by us, or by nobody knows whom), the pods of the Job that have
/// not ended and were not told to stop are, with this one, at most the larger number of pods that
/// one of the versions wants which we may have seen: `parallelism`, or what is left of `completions`.
/// And one of these versions is not suspended. Pods that others made, or that came late, do not count.
pub fn parallelism_is_kept(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some((job, pod)) = jobs.created(step) {
            let many = job.live().count() as i64 + i64::from(is_live(pod));
            let seen = jobs
                .seen(job, step)
                .filter(|seen| seen["spec"]["suspend"] != true);
            let most = seen.map(wanted).max();
            checked.require(most.is_some_and(|most| many <= most), || {
                let what = match most {
                    None => format!("{} is suspended", job.key),
                    Some(most) => format!("{many} pods of {} run, at most {most} may", job.key),
                };
                Violation::at(S3, step, what)
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}
