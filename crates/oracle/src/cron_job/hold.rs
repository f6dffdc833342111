//! S4 and S5: what a CronJob notes, and that a child is kept until it is noted.

use super::object::{self as of_cron, CRONS};
use super::world::Crons;
use crate::history::{History, Step};
use crate::invariant::Invariant::{S4, S5};
use crate::object::{self, number};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S5. Where `carillon.dev/run-tracking` is taken off a child of a CronJob (or a child that has it
/// leaves the store) by a request of ours, or by one that is not known, one of these was so in the
/// state before:
/// - `status.active` of the CronJob has or had the uid of the child;
/// - the tick of the child is not after `lastScheduleTime`, or `handledRunNow` has what it was asked for with;
/// - the CronJob is gone, or somebody has deleted it;
/// - the request that created the child is known to have been late.
pub fn held_until_noted(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    for step in &history.steps {
        if let Some(child) = step.old.as_deref()
            && of_cron::lets_go(step)
            && !assumptions.others(step)
        {
            let cron = crons.of_child(child).filter(|cron| cron.is_alive());
            let noted = cron.is_none_or(|cron| {
                let known = cron.children.get(&step.key);
                let late = known.is_some_and(|child| child.late || !child.ours);
                let noted = of_cron::status_time(cron.last, "lastScheduleTime");
                let over = of_cron::tick_of(child)
                    .is_some_and(|tick| noted.is_some_and(|noted| tick <= noted));
                let over = over || of_cron::has_run_now(cron.last, child);
                cron.noted.contains(object::uid(child)) || over || late
            });
            checked.require(noted, || {
                let what = format!(
                    "{} ({}) was released before the status had it",
                    step.key,
                    object::uid(child)
                );
                Violation::at(S5, step, what)
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

/// S4. In every write of the status of a CronJob by us `lastSuccessfulTime`, `lastMissedTime` and
/// `missedRuns` do not go back and do not vanish. A CronJob whose status was edited by others is not
/// judged from there on.
pub fn notes_only_grow(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    for step in &history.steps {
        let cron = step.new.as_deref().map(object::uid);
        let cron = cron.and_then(|uid| crons.all.get(uid));
        if CRONS.contains(&&*step.key.resource)
            && !assumptions.others(step)
            && cron.is_some_and(|cron| !cron.edited)
        {
            let fell = fell(step);
            checked.require(fell.is_none(), || {
                let what = format!("{} of {} went back", fell.unwrap_or_default(), step.key);
                Violation::at(S4, step, what)
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

/// A field that is less than it was.
fn fell(step: &Step) -> Option<&'static str> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    let earlier = |field: &str| of_cron::status_time(new, field) < of_cron::status_time(old, field);
    let missed = |object| number(object, &["status", "missedRuns"]);
    ["lastSuccessfulTime", "lastMissedTime"]
        .into_iter()
        .find(|field| earlier(field))
        .or_else(|| (missed(new) < missed(old)).then_some("missedRuns"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::object::JOBS_OF_BATCH;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn created() -> Scene {
        Scene::new().cron(json!({})).promise(5).start(5)
    }

    #[test]
    fn a_child_that_is_noted_may_go() {
        holds(S5, &Scene::two_runs(), &strict());
        // It was noted and is over; the release comes late.
        let over = created().confirm(5).end_run(5, "Complete").settle(5);
        holds(S5, &over.release_run(5), &strict());
        let asked = Scene::new().cron(json!({})).ask("a");
        let run = asked.asked_run("a");
        let noted = asked.create_run(run).cron_status(|status| {
            status["active"][0]["uid"] = json!("run-a");
        });
        let ended = noted.cron_status(|status| status["active"] = json!([]));
        let gone = ended.remove("carillon", (JOBS_OF_BATCH, "night-ra"));
        holds(S5, &gone, &strict());
        let asked = Scene::new().cron(json!({})).ask("a");
        let run = asked.asked_run("a");
        let ran = asked.create_run(run);
        let gone = |scene: Scene| scene.remove("carillon", (JOBS_OF_BATCH, "night-ra"));
        breaks(S5, &gone(ran.clone()), &strict(), "released before");
        let noted = ran.cron_status(|status| {
            status["active"] = json!([]);
            status["handledRunNow"] = json!(["a"]);
        });
        holds(S5, &gone(noted), &strict());
    }

    #[test]
    fn a_child_may_not_go_before() {
        breaks(
            S5,
            &created().release_run(5),
            &strict(),
            "before the status had it",
        );
        breaks(
            S5,
            &created().release_run(5).nobody(),
            &strict(),
            "released",
        );
        let deleted = created().delete_run("kubectl", 5).release_run(5);
        breaks(S5, &deleted, &strict(), "released");
        let other = created().cron_status(|status| status["active"][0]["uid"] = json!("other"));
        breaks(S5, &other.release_run(5), &strict(), "released");
    }

    #[test]
    fn the_child_of_a_cron_job_that_is_gone_or_that_came_late_may_go() {
        holds(
            S5,
            &created().remove_cron("kubectl").release_run(5),
            &strict(),
        );
        let deleting = created().edit_cron(|cron| {
            cron["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:06:00Z");
        });
        holds(S5, &deleting.release_run(5), &strict());
        let late = Assumptions {
            late: std::sync::Arc::new(|step| step.rev == 3),
            ..strict()
        };
        holds(S5, &created().release_run(5), &late);
    }

    #[test]
    fn what_was_noted_stays_noted() {
        holds(S4, &Scene::two_runs(), &strict());
        let noted = || {
            Scene::two_runs().cron_status(|status| {
                status["missedRuns"] = json!(3);
                status["lastMissedTime"] = json!("2026-01-01T00:15:00Z");
            })
        };
        let set = |field: &str, value| noted().cron_status(|status| status[field] = value);
        let earlier = json!("2026-01-01T00:05:02Z");
        breaks(S4, &set("missedRuns", json!(2)), &strict(), "missedRuns");
        breaks(
            S4,
            &set("lastMissedTime", earlier.clone()),
            &strict(),
            "lastMissedTime",
        );
        breaks(
            S4,
            &set("lastSuccessfulTime", earlier),
            &strict(),
            "lastSuccessfulTime",
        );
        breaks(
            S4,
            &set("lastSuccessfulTime", json!(null)),
            &strict(),
            "lastSuccessfulTime",
        );
        let edited = noted().edit_cron(|cron| cron["status"]["missedRuns"] = json!(9));
        holds(
            S4,
            &edited.cron_status(|s| s["missedRuns"] = json!(4)),
            &strict(),
        );
    }
}
