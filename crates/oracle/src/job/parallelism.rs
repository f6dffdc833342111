//! S3: no more pods run than a Job wants.

use super::object::is_live;
use super::tracking::wanted;
use super::world::Jobs;
use crate::history::History;
use crate::invariant::Invariant::S3;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    #[test]
    fn no_more_pods_run_than_are_wanted() {
        let two = || {
            Scene::new()
                .sum(json!({"completions": 4}))
                .sum_starts(1)
                .sum_starts(2)
        };
        holds(S3, &two(), &strict());
        breaks(S3, &two().sum_starts(3), &strict(), "3 pods of");
        holds(S3, &two().sum_phase(1, "Failed").sum_starts(3), &strict());
        holds(S3, &two().sum_stops("kubectl", 1).sum_starts(3), &strict());
        let raised = two().edit_sum(|job| job["spec"]["parallelism"] = json!(3));
        holds(S3, &raised.sum_starts(3), &strict());
    }

    #[test]
    fn no_more_run_than_are_left_to_do() {
        let one_left = || Scene::new().sum(json!({})).sum_ran(1).sum_starts(2);
        holds(S3, &one_left(), &strict());
        breaks(S3, &one_left().sum_starts(3), &strict(), "at most 1 may");
        let fields = json!({"completionMode": "Indexed", "completions": 2});
        let indexed = Scene::new().sum(fields).sum_ran_index(1, 0, "0");
        let indexed = indexed.sum_starts_index(2, 1).sum_starts_index(3, 1);
        breaks(S3, &indexed, &strict(), "at most 1 may");
    }

    #[test]
    fn a_suspended_job_starts_nothing_in_the_eyes_of_who_knows() {
        let job = Scene::new().sum(json!({}));
        let suspended = job.edit_sum(|job| job["spec"]["suspend"] = json!(true));
        let started = suspended.sum_starts(1);
        breaks(S3, &started, &strict(), "is suspended");
        let lagging = Assumptions {
            lag_revisions: 2,
            ..strict()
        };
        holds(S3, &started, &lagging);
    }
}
