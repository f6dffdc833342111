//! L4: what the conditions of a CronJob of our own kind say when all is done.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object as of_cron;
use super::schedule::Schedule;
use super::world::{Cron, Crons};
use crate::history::History;
use crate::invariant::Invariant::L4;
use crate::object::{self, number, text, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Reasons of `Stalled` that are about children. They do not outlive what caused them.
const OF_CHILDREN: [&str; 4] = [
    "InvalidTemplate",
    "QuotaExceeded",
    "JobForbidden",
    "JobCreationFailing",
];
/// Later ticks are not looked for.
const AHEAD: SignedDuration = SignedDuration::from_hours(24 * 40);

/// L4, for a run that is `over`. Of every CronJob of carillon.dev that is left, that nobody has deleted,
/// whose status was not edited by others, and says which generation it is of:
/// - `Scheduled` is False, with a reason that is true, if it is suspended, its zone is not known, its
///   schedule cannot be read, or has no time; otherwise True with reason `Scheduled`;
/// - `Stalled` is True, with a reason that is true, if somebody has to act: for the same reasons, but for
///   suspension, or because children are refused, which is possible with `may_stall` only; otherwise it
///   is not True;
/// - what they say that is so is of the last generation;
/// - `nextScheduleTime` is the first time of its schedule after the last that was run or counted, or
///   since it is in force, and there is none where `Scheduled` is False.
pub fn conditions_are_true(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let crons = Crons::at_the_end(history, assumptions);
    let judged = |cron: &&Cron<'_>| {
        let observed = of_cron::observed_generation(cron.last);
        cron.is_alive() && !cron.edited && cron.counts() && observed.is_some()
    };
    for cron in crons.all.values().filter(judged) {
        let created = time(cron.last, &["metadata", "creationTimestamp"]).unwrap_or_default();
        let obstacles = obstacles(&cron.last["spec"], created);
        let wrong = bad_scheduled(cron, &obstacles)
            .or_else(|| bad_stalled(cron, &obstacles, assumptions))
            .or_else(|| bad_next(cron, &obstacles, created));
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", cron.key, wrong.unwrap_or_default());
            Violation::in_state(L4, history.steps.last(), cron.key, Some(cron.last), what)
        })?;
    }
    Ok(checked)
}

/// Why nothing is run by schedule.
fn obstacles(spec: &Value, from: Timestamp) -> Vec<&'static str> {
    let mut obstacles = Vec::new();
    if spec["suspend"] == true {
        obstacles.push("Suspended");
    }
    if Schedule::parse("@daily", text(spec, &["timeZone"])).is_none() {
        obstacles.push("UnknownTimeZone");
    } else if let Some(schedule) = Schedule::of(spec) {
        if schedule.never_fires(from) {
            obstacles.push("NeverFires");
        }
    } else {
        obstacles.push("InvalidSchedule");
    }
    obstacles
}

fn bad_scheduled(cron: &Cron<'_>, obstacles: &[&str]) -> Option<String> {
    let Some(scheduled) = object::condition(cron.last, "Scheduled") else {
        return Some("it has no condition Scheduled".to_owned());
    };
    let (status, reason) = (text(scheduled, &["status"]), text(scheduled, &["reason"]));
    let right = match obstacles {
        [] => (status, reason) == ("True", "Scheduled"),
        obstacles => status == "False" && obstacles.contains(&reason),
    };
    let said =
        || format!("Scheduled is {status} because of {reason:?}, and there are {obstacles:?}");
    (!right).then(said).or_else(|| old(cron, scheduled))
}

fn bad_stalled(cron: &Cron<'_>, obstacles: &[&str], assumptions: &Assumptions) -> Option<String> {
    let mut wrong_spec = obstacles.iter().filter(|reason| **reason != "Suspended");
    let Some(stalled) = object::condition(cron.last, "Stalled") else {
        let reason = wrong_spec.next()?;
        return Some(format!("it does not say that it is Stalled: {reason}"));
    };
    let reason = text(stalled, &["reason"]);
    let right = if text(stalled, &["status"]) == "True" {
        wrong_spec.any(|known| *known == reason)
            || assumptions.may_stall && OF_CHILDREN.contains(&reason)
    } else {
        // To be suspended hides what else is wrong with a schedule.
        wrong_spec.next().is_none() || obstacles.contains(&"Suspended")
    };
    let said = || format!("it is {stalled}, and there are {obstacles:?}");
    // What is over may stay as it was said.
    let says = || old(cron, stalled).filter(|_| text(stalled, &["status"]) == "True");
    (!right).then(said).or_else(says)
}

/// A condition of an earlier generation.
fn old(cron: &Cron<'_>, condition: &Value) -> Option<String> {
    let observed = number(condition, &["observedGeneration"]);
    let generation = number(cron.last, &["metadata", "generation"]);
    (observed != generation)
        .then(|| format!("{condition} is of generation {observed}, and there is {generation}"))
}

fn bad_next(cron: &Cron<'_>, obstacles: &[&str], created: Timestamp) -> Option<String> {
    let said = of_cron::status_time(cron.last, "nextScheduleTime");
    if !obstacles.is_empty() {
        return said.map(|said| format!("its next run is at {said}, and there are {obstacles:?}"));
    }
    // Where Forbid lets a run wait, a tick may have come that is neither run nor counted.
    let waits = cron
        .children
        .values()
        .any(|child| child.runs() || child.runs_late());
    let after = of_cron::decided_until(cron.last).unwrap_or(created);
    let next = Schedule::of(&cron.last["spec"])?.first(after, after.checked_add(AHEAD).ok()?)?;
    (said != Some(next) && !waits)
        .then(|| format!("its next run is at {next} after {after}, and it says {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::object::CRONS;
    use crate::scene::{Scene, breaks, holds, over};
    use serde_json::json;

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "observedGeneration": 1})
    }

    /// One that says this, and when it runs next.
    fn says(fields: Value, conditions: &[Value], next: Option<&str>) -> Scene {
        let scene = Scene::new().cron(fields);
        scene.cron_status(|status| {
            status["observedGeneration"] = json!(1);
            status["conditions"] = json!(conditions);
            status["nextScheduleTime"] = json!(next);
        })
    }

    const NEXT: Option<&str> = Some("2026-01-01T00:05:00Z");

    #[test]
    fn one_that_runs_says_so_and_when() {
        let scheduled = condition("Scheduled", "True", "Scheduled");
        let good = |next| says(json!({}), std::slice::from_ref(&scheduled), next);
        holds(L4, &good(NEXT), &over());
        breaks(L4, &good(None), &over(), "its next run is at");
        breaks(
            L4,
            &good(Some("2026-01-01T00:10:00Z")),
            &over(),
            "its next run",
        );
        breaks(L4, &says(json!({}), &[], NEXT), &over(), "no condition");
        let old = good(NEXT).edit_cron(|cron| cron["metadata"]["generation"] = json!(2));
        let old = old.cron_status(|status| status["observedGeneration"] = json!(2));
        breaks(L4, &old, &over(), "is of generation 1");
        let native = Scene::new().cron_of(CRONS[1], &json!({}));
        holds(L4, &native, &over());
    }

    #[test]
    fn what_stands_in_the_way_is_said() {
        for (fields, reason, stalls) in [
            (json!({"suspend": true}), "Suspended", false),
            (json!({"timeZone": "No/Where"}), "UnknownTimeZone", true),
            (json!({"schedule": "0 0 31 2 *"}), "NeverFires", true),
            (json!({"schedule": "60 * * * *"}), "InvalidSchedule", true),
        ] {
            let mut conditions = vec![condition("Scheduled", "False", reason)];
            if stalls {
                let silent = says(fields.clone(), &conditions, None);
                breaks(L4, &silent, &over(), "does not say that it is Stalled");
                conditions.push(condition("Stalled", "True", reason));
            }
            holds(L4, &says(fields.clone(), &conditions, None), &over());
            let next = says(fields.clone(), &conditions, NEXT);
            breaks(L4, &next, &over(), "its next run is at");
            let wrong = [condition("Scheduled", "True", "Scheduled")];
            breaks(
                L4,
                &says(fields, &wrong, None),
                &over(),
                "Scheduled is True",
            );
        }
    }

    #[test]
    fn what_is_over_is_not_said_any_more() {
        let scheduled = condition("Scheduled", "True", "Scheduled");
        let refused = condition("Stalled", "True", "QuotaExceeded");
        let both = || says(json!({}), &[scheduled.clone(), refused.clone()], NEXT);
        breaks(L4, &both(), &over(), "QuotaExceeded");
        let may_stall = Assumptions {
            may_stall: true,
            ..over()
        };
        holds(L4, &both(), &may_stall);
        let resumed = condition("Stalled", "False", "Resumed");
        holds(L4, &says(json!({}), &[scheduled, resumed], NEXT), &over());
    }
}
