//! S6: what a Job has come to stays.

use serde_json::Value;

use super::object::{self as of_job};
use super::status_rules;
use super::world::{Job, Jobs};
use crate::history::History;
use crate::invariant::Invariant::S6;
use crate::object::{has_ended, is_terminal, is_true};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S6. In every write of the status of a Job by us (or by nobody knows whom), unless others have written
/// it before:
/// - it is one that the API server takes: [`status_rules::refused`];
/// - where it says that the Job has ended, no pod of the Job is there that has not ended; those that
///   others made, or that came late, do not count.
///
/// And no pod is created for a Job that has ended, has begun to end, is gone, or was deleted by
/// somebody, in all of the versions that we may have seen.
pub fn terminal_is_absorbing(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some((job, new)) = jobs.written(step) {
            let refused = status_rules::refused(job.last, new);
            let wrong = refused.first();
            let wrong = wrong.map(|wrong| format!("{}: {}", wrong.field, wrong.why));
            let wrong = wrong.or_else(|| runs_on(job, new));
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S6, step, what)
            })?;
        }
        if let Some((job, _)) = jobs.created(step) {
            let open = job.gone.is_none_or(|gone| assumptions.may_see(step, gone))
                && jobs.seen(job, step).any(is_open);
            checked.require(open, || {
                let what = format!("{} was created for {}, which has ended", step.key, job.key);
                Violation::at(S6, step, what)
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

fn is_open(job: &Value) -> bool {
    !is_terminal(job) && !of_job::is_ending(job) && !crate::object::is_deleting(job)
}

fn runs_on(job: &Job<'_>, new: &Value) -> Option<String> {
    let types = ["Complete", "Failed"];
    let mut ends = types
        .iter()
        .filter(|type_| is_true(new, type_) && !is_true(job.last, type_));
    let end = ends.next()?;
    let mut present = job.present().map(|(_, pod)| pod);
    let running = present.find(|pod| pod.ours && !has_ended(pod.last));
    running.map(|pod| format!("it is {end}, and {} has not ended", pod.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::scene::begun;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    #[test]
    fn an_end_in_order_holds() {
        holds(S6, &Scene::summed(), &strict());
        let failed = begun().sum_ended(1, "Failed", "failed");
        let failed = failed.sum_is("FailureTarget", "Failed", "BackoffLimitExceeded");
        holds(S6, &failed, &strict());
    }

    #[test]
    fn what_the_api_server_would_refuse_is_found() {
        let back = Scene::summed().sum_status(|status| status["conditions"] = json!([]));
        breaks(S6, &back, &strict(), "cannot disable");
        let again = Scene::summed().sum_status(|status| {
            status["completionTime"] = json!("2027-01-01T00:00:00Z");
        });
        breaks(S6, &again, &strict(), "immutable");
    }

    #[test]
    fn a_job_ends_after_its_pods_and_starts_none_after_that() {
        breaks(
            S6,
            &begun().sum_completes(),
            &strict(),
            "sum-1 has not ended",
        );
        let after = Scene::summed().sum_starts(3);
        breaks(S6, &after, &strict(), "which has ended");
        let fails = begun().sum_is("FailureTarget", "", "DeadlineExceeded");
        breaks(S6, &fails.sum_starts(2), &strict(), "which has ended");
        let gone = begun().remove_sum("kubectl").sum_starts(2);
        breaks(S6, &gone, &strict(), "which has ended");
    }
}
