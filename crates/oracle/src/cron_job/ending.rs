//! S9: no child is stopped or removed without a reason that is stored.

use serde_json::Value;

use super::object::{self as of_cron, CHILDREN};
use super::world::{Child, Cron, Crons};
use crate::history::{History, Step};
use crate::invariant::Invariant::S9;
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{self, JOBS, at, text};
use crate::stopping;

/// S9. Where a request of ours deletes a child of a CronJob that nobody had deleted, one of these was
/// so in the state before (specs: in one that we may have seen):
/// - it has ended, and more children with that end are there than `successfulJobsHistoryLimit` or
///   `failedJobsHistoryLimit` keeps;
/// - it has not ended, and the policy is Replace;
/// - it is a BroadcastJob whose own time to live is over;
/// - the request that created it is known to have been late.
pub fn child_ended_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    for step in &history.steps {
        let deletes = step.new.as_deref().is_none_or(object::is_deleting);
        if let Some(old) = step.old.as_deref()
            && CHILDREN.contains(&&*step.key.resource)
            && deletes
            && !object::is_deleting(old)
            && assumptions.ours(step)
            && let Some(cron) = crons.of_child(old)
        {
            let specs: Vec<&Value> = crons.specs(cron, step).collect();
            let own = &*step.key.resource == JOBS
                && stopping::why_not_yet(assumptions, step, old).is_none();
            let refused = why_not(cron, step, old, &specs).filter(|_| !own);
            checked.require(refused.is_none(), || {
                let why = refused.unwrap_or_default();
                Violation::at(S9, step, format!("{} was deleted: {why}", step.key))
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

fn why_not(cron: &Cron<'_>, step: &Step, old: &Value, specs: &[&Value]) -> Option<String> {
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
    let found = alike(cron, old).count();
    (found as i64 <= kept).then(|| format!("{found} ended so, and {kept} are kept"))
}

/// How many children that ended as this one are kept; `None`: all.
pub(super) fn limit(spec: &Value, child: &Value) -> Option<i64> {
    let field = if object::is_true(child, "Complete") {
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
    let completed = object::is_true(child, "Complete");
    cron.children.values().filter(move |other| {
        object::is_terminal(other.object)
            && object::is_true(other.object, "Complete") == completed
            && !object::is_deleting(other.object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds};
    use serde_json::json;

    fn strict() -> Assumptions {
        Assumptions::default()
    }

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
