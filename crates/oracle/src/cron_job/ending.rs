//! S9: no child is stopped or removed without a reason that is stored.

use serde_json::Value;

use super::object::{self as of_cron, CHILDREN};
use super::world::{Child, Cron, Crons};
use crate::broadcast_job::stopping;
use crate::history::{History, Step};
use crate::invariant::Invariant::S9;
use crate::job;
use crate::object::{self, JOBS, at, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S9. Where a request of ours deletes a child of a CronJob that nobody had deleted, one of these was
/// so in the state before (specs: in one that we may have seen):
/// - it has ended, and more children with that end are there, or were as far as we may have seen, than
///   `successfulJobsHistoryLimit` or `failedJobsHistoryLimit` keeps;
/// - it has not ended, and the policy is Replace;
/// - it is a BroadcastJob whose own time to live is over;
/// - the request that created it is known to have been late.
pub fn child_ended_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    let mut removed: Vec<(&str, &Step)> = Vec::new();
    for step in &history.steps {
        let deletes = step.new.as_deref().is_none_or(object::is_deleting);
        if let Some(old) = step.old.as_deref()
            && CHILDREN.contains(&&*step.key.resource)
            && deletes
            && !object::is_deleting(old)
            && let Some(cron) = crons.of_child(old)
        {
            let own = &*step.key.resource == JOBS
                && stopping::why_not_yet(assumptions, step, old).is_none()
                || job::ownership::is_judged_here(step, assumptions);
            if assumptions.ours(step) && !own {
                let specs: Vec<&Value> = crons.specs(cron, step).collect();
                // What somebody else has just removed may still be counted.
                let unseen = removed.iter().filter(|(of, at)| {
                    *of == object::uid(cron.last) && assumptions.may_see(step, (at.rev, at.at))
                });
                let unseen = unseen.filter_map(|(_, at)| at.old.as_deref());
                let refused = why_not(cron, step, old, &specs, unseen);
                checked.require(refused.is_none(), || {
                    let why = refused.unwrap_or_default();
                    Violation::at(S9, step, format!("{} was deleted: {why}", step.key))
                })?;
            } else {
                removed.push((object::uid(cron.last), step));
            }
        }
        crons.apply(step);
    }
    Ok(checked)
}

fn why_not<'a>(
    cron: &Cron<'_>,
    step: &Step,
    old: &Value,
    specs: &[&Value],
    unseen: impl Iterator<Item = &'a Value>,
) -> Option<String> {
    let child = cron.children.get(&step.key)?;
    let made_by_others = !child.ours && !of_cron::is_held(old);
    if !child.ours && !made_by_others {
        return None;
    }
    if !object::is_terminal(old) {
        let mut policies = specs.iter().map(|spec| text(spec, &["concurrencyPolicy"]));
        let replaced = child.ours && policies.any(|policy| policy == "Replace");
        return (!replaced).then(|| "it has not ended, and nothing replaces it".to_owned());
    }
    let kept = specs.iter().filter_map(|spec| limit(spec, old)).min();
    let Some(kept) = kept else {
        return Some("it has ended, and all are kept".to_owned());
    };
    let unseen = unseen.filter(|child| ended_alike(child, old));
    let found = alike(cron, old).count() + unseen.count();
    (found as i64 <= kept).then(|| format!("{found} ended so, and {kept} are kept"))
}

/// How many children that ended as this one are kept; `None`: all.
pub(super) fn limit(spec: &Value, child: &Value) -> Option<i64> {
    let field = if of_cron::has_succeeded(child) {
        "successfulJobsHistoryLimit"
    } else {
        "failedJobsHistoryLimit"
    };
    at(spec, &[field]).and_then(Value::as_i64)
}

/// The children that ended as this one and that nobody has deleted, with this one.
pub(super) fn alike<'c, 'h>(
    cron: &'c Cron<'h>,
    child: &'c Value,
) -> impl Iterator<Item = &'c Child<'h>> {
    let children = cron.children.values();
    children
        .filter(move |other| ended_alike(other.object, child) && !object::is_deleting(other.object))
}

fn ended_alike(one: &Value, other: &Value) -> bool {
    object::is_terminal(one) && of_cron::has_succeeded(one) == of_cron::has_succeeded(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn three(fields: Value) -> Scene {
        Scene::new().cron(fields).ran(5).ran(10).ran(15)
    }

    #[test]
    fn a_child_beyond_the_history_limit_goes() {
        let two = json!({"successfulJobsHistoryLimit": 2});
        let deleted = three(two.clone()).delete_run("carillon", 5);
        holds(S9, &deleted, &strict());
        let one_more = deleted.delete_run("carillon", 10);
        breaks(S9, &one_more, &strict(), "2 ended so, and 2 are kept");
        let failed = Scene::new().cron(two).ran(5).ran(10);
        let failed = failed.running(15).end_run(15, "Failed");
        breaks(
            S9,
            &failed.delete_run("carillon", 15),
            &strict(),
            "1 ended so",
        );
        let all = three(json!({"successfulJobsHistoryLimit": null}));
        breaks(
            S9,
            &all.delete_run("carillon", 5),
            &strict(),
            "all are kept",
        );
    }

    #[test]
    fn what_a_user_has_just_deleted_may_still_be_counted() {
        let two = json!({"successfulJobsHistoryLimit": 2});
        let lagging = Assumptions {
            lag_revisions: 1,
            ..strict()
        };
        let both = |first| {
            let scene = three(two.clone()).delete_run(first, 10);
            scene.delete_run("carillon", 5)
        };
        holds(S9, &both("kubectl"), &lagging);
        breaks(
            S9,
            &both("kubectl"),
            &strict(),
            "2 ended so, and 2 are kept",
        );
        breaks(
            S9,
            &both("carillon"),
            &lagging,
            "2 ended so, and 2 are kept",
        );
    }

    #[test]
    fn a_child_that_runs_is_only_replaced() {
        let running = |policy| {
            Scene::new()
                .cron(json!({"concurrencyPolicy": policy}))
                .running(5)
        };
        holds(S9, &running("Replace").delete_run("carillon", 5), &strict());
        let allowed = running("Allow").delete_run("carillon", 5);
        breaks(S9, &allowed, &strict(), "nothing replaces it");
        let late = Assumptions {
            late: std::sync::Arc::new(|step| step.rev == 3),
            ..strict()
        };
        let late_one = Scene::new().cron(json!({})).promise(5).start(5);
        holds(S9, &late_one.delete_run("carillon", 5), &late);
    }

    #[test]
    fn what_others_started_is_not_replaced() {
        let scene = Scene::new().cron(json!({"concurrencyPolicy": "Replace"}));
        let mut run = scene.run(5);
        run["metadata"]["finalizers"] = json!([]);
        let place = ("jobs.batch", "night-by-hand");
        run["metadata"]["name"] = json!(place.1);
        let scene = scene.step("kubectl", "create", place, Some(run), None);
        let body = json!({"preconditions": {"uid": "run-5", "resourceVersion": "7"}});
        let deleted = scene.step("carillon", "delete", place, None, Some(body));
        breaks(S9, &deleted, &strict(), "nothing replaces it");
    }

    #[test]
    fn a_broadcast_job_may_be_deleted_by_its_cron_job() {
        let (scene, place) =
            crate::cron_job::scene::broadcast(&json!({"concurrencyPolicy": "Replace"}));
        let uid = scene.object(place.0, &place.1)["metadata"]["uid"].clone();
        let body = json!({"preconditions": {"uid": uid, "resourceVersion": "7"}});
        let gone = scene.step("carillon", "delete", (place.0, &place.1), None, Some(body));
        holds(S9, &gone, &strict());
    }
}
