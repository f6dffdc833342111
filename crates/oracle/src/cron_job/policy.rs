//! S8: what may run beside each other, and when.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{self as of_cron, CRONS};
use super::world::{Child, Cron, Crons};
use crate::history::History;
use crate::invariant::Invariant::S8;
use crate::object::{self, at, number, text, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S8. At every creation of a child of a CronJob (by us, or by nobody knows whom; late requests
/// apart), where all specs that we may have seen say so:
/// - `concurrencyPolicy: Forbid`: no other child that we created has not ended, in the state before;
/// - `Replace`: none that nobody has deleted;
/// - `suspend: true`: it was asked for by `carillon.dev/run-now`;
/// - it is not created before its tick (less `clock_skew`), nor after tick, `startingDeadlineSeconds`
///   and what we may lag behind (plus `clock_skew`), each later by an offset of 0 to `jitterSeconds`.
///   The offset is the same for all children: there is one that fits them all.
///
/// And at every write of the status by us: `lastScheduleTime` does not go back and does not vanish,
/// and when it changes a child of that tick is or was there; `scheduleInForce` does not vanish, and
/// changes only to the schedule of a spec that we may have seen, which it did not say before; the first
/// one is in force since the creation unless the spec was edited, and none is in force later than now
/// (plus `clock_skew`). A CronJob whose status was edited by others is not judged so from there on.
pub fn policy_is_kept(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    let mut offsets: HashMap<(&str, i64), Offset> = HashMap::new();
    for step in &history.steps {
        if let Some((cron, child)) = crons.created(step) {
            let specs: Vec<&Value> = crons.specs(cron, step).collect();
            let uid = object::uid(cron.last);
            let wrong = beside_others(cron, &specs)
                .or_else(|| while_suspended(child, &specs))
                .or_else(|| {
                    let tick = of_cron::tick_of(child)?;
                    let jitter = jitter(&specs)?;
                    let offset = offsets
                        .entry((uid, jitter))
                        .or_insert_with(|| Offset::up_to(jitter));
                    offset.narrow(assumptions, step.at.duration_since(tick), deadline(&specs));
                    offset.is_impossible()
                });
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S8, step, what)
            })?;
        }
        if let (Some(old), Some(new)) = (step.old.as_deref(), step.new.as_deref())
            && CRONS.contains(&&*step.key.resource)
            && !assumptions.others(step)
            && let Some(cron) = crons.all.get(object::uid(new)).filter(|cron| !cron.edited)
        {
            let specs: Vec<&Value> = crons.specs(cron, step).collect();
            let latest = step.at + assumptions.clock_skew;
            let wrong = bad_schedule_time(cron, old, new)
                .or_else(|| bad_in_force(cron, &specs, [old, new], latest));
            checked.require(wrong.is_none(), || {
                Violation::at(
                    S8,
                    step,
                    format!("{}: {}", step.key, wrong.unwrap_or_default()),
                )
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

/// Others that the policy does not let run beside a new child.
fn beside_others(cron: &Cron<'_>, specs: &[&Value]) -> Option<String> {
    let all_say = |policy: &str| {
        let mut policies = specs.iter().map(|spec| text(spec, &["concurrencyPolicy"]));
        policies.all(|said| said == policy)
    };
    let other = |but_for: fn(&Child<'_>) -> bool| {
        let mut others = cron.children.iter();
        let (key, _) = others.find(|(_, child)| child.runs() && !but_for(child))?;
        Some(format!("{key} has not ended"))
    };
    if all_say("Forbid") {
        let other = other(|_| false)?;
        return Some(format!("{other}, and the policy is Forbid"));
    }
    let other = all_say("Replace").then(|| other(|child| object::is_deleting(child.object)));
    Some(format!("{}, and the policy is Replace", other??))
}

fn while_suspended(child: &Value, specs: &[&Value]) -> Option<String> {
    let scheduled = of_cron::tick_of(child).is_some();
    let suspended = specs.iter().all(|spec| spec["suspend"] == true);
    (scheduled && suspended).then(|| "the CronJob is suspended".to_owned())
}

/// The jitter, if it did not just change.
fn jitter(specs: &[&Value]) -> Option<i64> {
    let mut all = specs.iter().map(|spec| number(spec, &["jitterSeconds"]));
    let first = all.next()?;
    all.all(|jitter| jitter == first).then_some(first)
}

/// The longest deadline, if all have one.
fn deadline(specs: &[&Value]) -> Option<SignedDuration> {
    let deadlines = specs
        .iter()
        .map(|spec| at(spec, &["startingDeadlineSeconds"]).and_then(Value::as_i64));
    let longest: Option<Vec<i64>> = deadlines.collect();
    Some(SignedDuration::from_secs(longest?.into_iter().max()?))
}

/// What the share of a CronJob of its jitter may be, by what it did so far.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: SignedDuration,
    most: SignedDuration,
}

impl Offset {
    fn up_to(jitter: i64) -> Self {
        Self {
            least: SignedDuration::ZERO,
            most: SignedDuration::from_secs(jitter),
        }
    }

    /// A child was created so long after its tick.
    fn narrow(
        &mut self,
        assumptions: &Assumptions,
        after: SignedDuration,
        deadline: Option<SignedDuration>,
    ) {
        self.most = self.most.min(after + assumptions.clock_skew);
        if let Some(deadline) = deadline {
            let late = after - deadline - assumptions.lag - assumptions.clock_skew;
            self.least = self.least.max(late);
        }
    }

    fn is_impossible(self) -> Option<String> {
        (self.least > self.most).then(|| {
            format!(
                "it came too early or too late: its clock would be {:#} behind at least and {:#} at most",
                self.least, self.most
            )
        })
    }
}

fn bad_schedule_time(cron: &Cron<'_>, old: &Value, new: &Value) -> Option<String> {
    let of = |object| of_cron::status_time(object, "lastScheduleTime");
    let (was, is) = (of(old), of(new));
    if was == is {
        return None;
    }
    let Some(is) = is.filter(|is| was.is_none_or(|was| was < *is)) else {
        return Some(format!("lastScheduleTime went from {was:?} to {is:?}"));
    };
    let ran = |tick: Timestamp| {
        let name = of_cron::name_for(&cron.key.name, tick);
        let mut runs = cron.runs.iter().chain(&cron.late_runs);
        runs.any(|(key, child)| *key.name == *name && of_cron::tick_of(child) == Some(tick))
    };
    (!ran(is)).then(|| format!("lastScheduleTime is {is}, for which no child was ever created"))
}

fn bad_in_force(
    cron: &Cron<'_>,
    specs: &[&Value],
    [old, new]: [&Value; 2],
    latest: Timestamp,
) -> Option<String> {
    let noted =
        |cron: &Value| Some(cron["status"]["scheduleInForce"].clone()).filter(|v| !v.is_null());
    let (was, is) = (noted(old), noted(new));
    if was == is {
        return None;
    }
    let wrong = |what: &str| {
        Some(format!(
            "scheduleInForce went from {was:?} to {is:?}: {what}"
        ))
    };
    let Some(is) = &is else {
        return wrong("it was lost");
    };
    if !specs.iter().any(|spec| of_cron::same_schedule(spec, is)) {
        return wrong("nobody has written that");
    }
    let since = of_cron::in_force_since(new);
    if since.is_none_or(|since| since > latest) {
        return wrong("it is in force later than now");
    }
    match &was {
        Some(was) if of_cron::same_schedule(was, is) => wrong("it was not edited"),
        None if cron.versions.len() == 1
            && since != time(new, &["metadata", "creationTimestamp"]) =>
        {
            wrong("it is the first")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::scene::run_name;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn cron(fields: Value) -> Scene {
        Scene::new().cron(fields)
    }

    #[test]
    fn a_clean_run_keeps_to_its_policy() {
        for policy in ["Allow", "Forbid", "Replace"] {
            let scene = cron(json!({"concurrencyPolicy": policy}));
            holds(S8, &scene.ran(5).ran(10), &strict());
        }
        holds(S8, &cron(json!({})).running(5).running(10), &strict());
    }

    #[test]
    fn forbid_lets_nothing_run_beside_another() {
        let forbid = || cron(json!({"concurrencyPolicy": "Forbid"})).running(5);
        breaks(
            S8,
            &forbid().promise(10).start(10),
            &strict(),
            "policy is Forbid",
        );
        // It has not ended because somebody deletes it.
        let held = cron(json!({"concurrencyPolicy": "Forbid"}))
            .promise(5)
            .start(5);
        let deleting = held.delete_run("kubectl", 5).promise(10).start(10);
        breaks(S8, &deleting, &strict(), "policy is Forbid");
        let ended = forbid().end_run(5, "Failed").promise(10).start(10);
        holds(S8, &ended, &strict());
        let changed = forbid()
            .promise(10)
            .edit_cron(|cron| cron["spec"]["concurrencyPolicy"] = json!("Allow"));
        holds(S8, &changed.start(10), &strict());
        // Somebody who is behind may not know yet that it is forbidden.
        let late = cron(json!({}))
            .running(5)
            .promise(10)
            .edit_cron(|cron| cron["spec"]["concurrencyPolicy"] = json!("Forbid"))
            .start(10);
        breaks(S8, &late, &strict(), "policy is Forbid");
        let lagging = Assumptions {
            lag_revisions: 3,
            ..strict()
        };
        holds(S8, &late, &lagging);
    }

    #[test]
    fn replace_deletes_what_runs_first() {
        let replace = || {
            let scene = cron(json!({"concurrencyPolicy": "Replace"}));
            scene.promise(5).start(5).confirm(5)
        };
        let beside = replace().promise(10).start(10);
        breaks(S8, &beside, &strict(), "policy is Replace");
        let replaced = replace().delete_run("carillon", 5).promise(10).start(10);
        holds(S8, &replaced, &strict());
    }

    #[test]
    fn a_suspended_cron_job_runs_only_on_request() {
        let suspended = cron(json!({"suspend": true}));
        breaks(
            S8,
            &suspended.clone().promise(5).start(5),
            &strict(),
            "is suspended",
        );
        let asked = suspended.ask("a");
        let run = asked.asked_run("a");
        holds(S8, &asked.create_run(run), &strict());
        let just_now = cron(json!({}))
            .promise(5)
            .edit_cron(|cron| cron["spec"]["suspend"] = json!(true))
            .start(5);
        breaks(S8, &just_now, &strict(), "is suspended");
        let lagging = Assumptions {
            lag_revisions: 3,
            ..strict()
        };
        holds(S8, &just_now, &lagging);
    }

    #[test]
    fn a_run_is_neither_early_nor_after_its_deadline() {
        let early = cron(json!({})).promise_name(&run_name(5));
        breaks(S8, &early.start(5), &strict(), "too early");
        let within = |seconds| {
            let scene = cron(json!({"startingDeadlineSeconds": 60}));
            scene.promise(5).later(seconds).start(5)
        };
        holds(S8, &within(60), &strict());
        breaks(S8, &within(65), &strict(), "too late");
        let lagging = Assumptions {
            lag: SignedDuration::from_secs(10),
            ..strict()
        };
        holds(S8, &within(65), &lagging);
        holds(
            S8,
            &cron(json!({})).promise(5).later(100_000).start(5),
            &strict(),
        );
    }

    #[test]
    fn jitter_moves_all_runs_by_the_same_time() {
        let jittered = |first: i64, second: i64| {
            let scene = cron(json!({"jitterSeconds": 120, "startingDeadlineSeconds": 30}));
            let first = scene.promise(5).later(first).start(5);
            first.promise(10).later(second).start(10)
        };
        holds(S8, &jittered(60, 80), &strict());
        breaks(S8, &jittered(10, 100), &strict(), "would be");
        breaks(S8, &jittered(100, 10), &strict(), "would be");
        breaks(S8, &jittered(100, 170), &strict(), "would be");
    }

    #[test]
    fn the_last_schedule_time_goes_forward_to_what_was_run() {
        let set = |scene: Scene, time: Value| {
            scene.cron_status(|status| status["lastScheduleTime"] = time)
        };
        let back = set(Scene::two_runs(), json!("2026-01-01T00:05:00Z"));
        breaks(S8, &back, &strict(), "lastScheduleTime went from");
        let lost = set(Scene::two_runs(), Value::Null);
        breaks(S8, &lost, &strict(), "lastScheduleTime went from");
        let ahead = set(Scene::two_runs(), json!("2026-01-01T00:15:00Z"));
        breaks(S8, &ahead, &strict(), "no child was ever created");
        let late = Assumptions {
            late: std::sync::Arc::new(|step| step.rev == 3),
            ..strict()
        };
        let came_late = || cron(json!({})).promise(5).start(5);
        holds(S8, &came_late().confirm(5), &late);
        let other = set(came_late(), json!("2026-01-01T00:10:00Z"));
        breaks(S8, &other, &late, "no child was ever created");
        let edited = Scene::two_runs().edit_cron(|cron| {
            cron["status"]["lastScheduleTime"] = json!("2027-01-01T00:00:00Z");
        });
        holds(S8, &set(edited, json!("2026-01-01T00:05:00Z")), &strict());
    }

    #[test]
    fn a_schedule_comes_in_force_when_it_is_edited_and_not_later_than_now() {
        let note = |scene: Scene, schedule: &str, since: &str| {
            scene.cron_status(|status| {
                let since = format!("2026-01-01T{since}Z");
                status["scheduleInForce"] = json!({
                    "schedule": schedule, "dstPolicy": "AsWritten", "since": since,
                });
            })
        };
        let (every_five, hourly) = ("*/5 * * * *", "0 * * * *");
        let first = || note(cron(json!({})), every_five, "00:00:00").ran(5);
        holds(S8, &first(), &strict());
        let later = note(cron(json!({})).at("00:05:00"), every_five, "00:05:00");
        breaks(S8, &later, &strict(), "it is the first");
        let again = note(first(), every_five, "00:04:00");
        breaks(S8, &again, &strict(), "it was not edited");
        let lost = first().cron_status(|status| status["scheduleInForce"] = Value::Null);
        breaks(S8, &lost, &strict(), "it was lost");
        let unknown = note(first(), hourly, "00:05:00");
        breaks(S8, &unknown, &strict(), "nobody has written that");
        let edited = || first().edit_cron(|cron| cron["spec"]["schedule"] = json!(hourly));
        holds(S8, &note(edited(), hourly, "00:05:00"), &strict());
        let ahead = note(edited(), hourly, "00:06:00");
        breaks(S8, &ahead, &strict(), "later than now");
    }
}
