//! L1, L2, L4 and L6: when nothing happens any more, every tick was run or counted, and the status
//! says so.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::ending::{alike, limit};
use super::object::{self as of_cron};
use super::schedule::Schedule;
use super::world::{Cron, Crons, Decided};
use crate::history::{History, Key, Step};
use crate::invariant::Invariant::{self, L1, L2, L4, L6};
use crate::object::{self, at, number, text, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// A tick that has only just come need not be over.
const RECENT: SignedDuration = SignedDuration::from_secs(10);

/// L1, for a run that is `over`. Of every CronJob that is left and that nobody has deleted:
/// - the last tick that is more than 10 s old (and older than its jitter) was run or, where that is
///   noted, counted as missed. Exempt: it is suspended; its schedule cannot be read; the policy is
///   Forbid and a child has not ended; in batch/v1, which counts nothing, one with a deadline, or
///   whose spec was changed; with `may_stall`: all;
/// - no promise is left: each reference of `status.active` has a uid, and they are exactly the
///   children that we created and that have not ended; one that was created late may be among them;
/// - of the children that completed, and of those that failed, no more are there than the limits say;
/// - no child carries `carillon.dev/run-tracking`.
pub fn every_tick_is_settled(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        settled_by(L1, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L6, for a run that is `over` and had `permanent_faults`: what L1 says.
pub fn every_tick_is_settled_under_pressure(
    history: &History,
    assumptions: &Assumptions,
) -> Verdict {
    if assumptions.over && assumptions.permanent_faults {
        settled_by(L6, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L2, for a run that was `healed`: what L1 says of the end is so when the bound is over, counted from
/// the time of the last fault. Only the ticks up to the last fault are asked for: later ones, and
/// the children of those, may be on their way.
pub fn every_tick_is_settled_in_time(history: &History, assumptions: &Assumptions) -> Verdict {
    let Some((healed, bound)) = assumptions.healed else {
        return Ok(Checked::all_of(history));
    };
    let mut checked = Checked::all_of(history);
    let due = healed.checked_add(bound).unwrap_or(Timestamp::MAX);
    let (crons, last) = state_at(history, assumptions, due);
    for cron in crons.all.values().filter(|cron| cron.is_alive()) {
        let wrong = last.and_then(|last| open_tick(cron, assumptions, healed.min(last.at)));
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", cron.key, wrong.unwrap_or_default());
            Violation::in_state(L2, last, cron.key, Some(cron.last), what)
        })?;
    }
    Ok(checked)
}

/// L4, for a run that is `over`. Of every CronJob that is left, that nobody has deleted, and whose
/// status was not edited by others:
/// - `observedGeneration`, where there is one, is `metadata.generation`;
/// - `lastSuccessfulTime` is not before the end of a child that succeeded and is still there;
/// - in our own kind: the ticks of each schedule while it was in force (of the first one since its
///   creation), up to the last that was run or counted, are as many as those for which a child was
///   created and `missedRuns` together. Each write of the status decides some, of the schedule that was
///   in force before it. A run that was promised when the schedule was edited may be both.
pub fn notes_are_what_happened(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let (crons, last) = state_at(history, assumptions, Timestamp::MAX);
    let left = crons
        .all
        .values()
        .filter(|cron| cron.is_alive() && !cron.edited);
    for cron in left {
        let wrong = old_generation(cron)
            .or_else(|| success_not_noted(cron))
            .or_else(|| miscounted(cron));
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", cron.key, wrong.unwrap_or_default());
            Violation::in_state(L4, last, cron.key, Some(cron.last), what)
        })?;
    }
    Ok(checked)
}

fn state_at<'h>(
    history: &'h History,
    assumptions: &'h Assumptions,
    until: Timestamp,
) -> (Crons<'h>, Option<&'h Step>) {
    let mut crons = Crons::new(assumptions);
    let mut last = None;
    for step in history.steps.iter().take_while(|step| step.at <= until) {
        crons.apply(step);
        last = Some(step);
    }
    (crons, last)
}

fn settled_by(
    invariant: Invariant,
    history: &History,
    assumptions: &Assumptions,
    until: Timestamp,
) -> Verdict {
    let mut checked = Checked::all_of(history);
    let (crons, last) = state_at(history, assumptions, until);
    let now = last.map_or(Timestamp::UNIX_EPOCH, |last| last.at);
    for cron in crons.all.values().filter(|cron| cron.is_alive()) {
        let wrong = open_tick(cron, assumptions, now)
            .or_else(|| wrong_references(cron))
            .or_else(|| too_many_kept(cron))
            .or_else(|| still_held(cron));
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", cron.key, wrong.unwrap_or_default());
            Violation::in_state(invariant, last, cron.key, Some(cron.last), what)
        })?;
    }
    Ok(checked)
}

/// A tick before `now` that was neither run nor counted.
fn open_tick(cron: &Cron<'_>, assumptions: &Assumptions, now: Timestamp) -> Option<String> {
    let spec = &cron.last["spec"];
    let blocked = text(spec, &["concurrencyPolicy"]) == "Forbid"
        && cron.children.values().any(super::world::Child::runs);
    let uncounted = !cron.counts()
        && (at(spec, &["startingDeadlineSeconds"]).is_some_and(|d| !d.is_null())
            || cron.versions.len() > 1);
    if spec["suspend"] == true || blocked || uncounted || assumptions.may_stall {
        return None;
    }
    let schedule = Schedule::of(spec)?;
    let age = SignedDuration::from_secs(number(spec, &["jitterSeconds"])) + RECENT;
    let since = of_cron::decided_until(cron.last);
    let since = since.max(time(cron.last, &["metadata", "creationTimestamp"]))?;
    // What came before the schedule was changed may have been no tick.
    let changed = cron.versions.last().filter(|_| cron.versions.len() > 1);
    let since = changed.map_or(since, |((_, at), _)| since.max(*at));
    let open = schedule.ticks(since, now.checked_sub(age).ok()?);
    let open = open.last()?;
    Some(format!("{open} was neither run nor counted as missed"))
}

fn wrong_references(cron: &Cron<'_>) -> Option<String> {
    let references = of_cron::references(cron.last);
    let unkept = references
        .iter()
        .find(|reference| text(reference, &["uid"]).is_empty());
    if let Some(unkept) = unkept {
        return Some(format!("a promise is left: {unkept}"));
    }
    let said: BTreeSet<&str> = references.iter().map(|r| text(r, &["uid"])).collect();
    let running = cron.children.values().filter(|child| child.runs());
    let running: BTreeSet<&str> = running.map(|child| object::uid(child.object)).collect();
    let late = cron.children.values().filter(|child| child.runs_late());
    let late: BTreeSet<&str> = late.map(|child| object::uid(child.object)).collect();
    let known: BTreeSet<&str> = said.difference(&late).copied().collect();
    (known != running || said.len() != references.len())
        .then(|| format!("status.active has {said:?}, and {running:?} have not ended"))
}

fn too_many_kept(cron: &Cron<'_>) -> Option<String> {
    let spec = &cron.last["spec"];
    cron.children.values().find_map(|child| {
        let ended = object::is_terminal(child.object) && !object::is_deleting(child.object);
        let kept = limit(spec, child.object).filter(|_| ended)?;
        let found = alike(cron, child.object).count();
        let names: BTreeSet<&str> = alike(cron, child.object)
            .map(|child| object::name(child.object))
            .collect();
        (found as i64 > kept).then(|| format!("{names:?} are kept, and the limit is {kept}"))
    })
}

fn still_held(cron: &Cron<'_>) -> Option<String> {
    let mut children = cron.children.iter();
    let (key, _) = children.find(|(_, child)| of_cron::is_held(child.object))?;
    Some(format!("{key} still carries {}", of_cron::HOLD))
}

fn old_generation(cron: &Cron<'_>) -> Option<String> {
    let observed = of_cron::observed_generation(cron.last)?;
    let generation = number(cron.last, &["metadata", "generation"]);
    (observed != generation)
        .then(|| format!("observedGeneration is {observed}, and the generation {generation}"))
}

fn success_not_noted(cron: &Cron<'_>) -> Option<String> {
    let noted = of_cron::status_time(cron.last, "lastSuccessfulTime");
    let completed = |child: &Value| time(child, &["status", "completionTime"]);
    let ours = cron.children.values().filter(|child| child.ours);
    let ours = ours.filter(|child| of_cron::has_succeeded(child.object));
    let last = ours.filter_map(|child| completed(child.object)).max()?;
    (noted < Some(last)).then(|| format!("a child completed at {last}, and it says {noted:?}"))
}

fn miscounted(cron: &Cron<'_>) -> Option<String> {
    if !cron.counts() {
        return None;
    }
    let created = time(cron.last, &["metadata", "creationTimestamp"])?;
    let missed = number(cron.last, &["status", "missedRuns"]);
    let until = of_cron::last_counted(cron.last).unwrap_or(created);
    let (_, first) = cron.versions.first()?;
    let unnoted = [Decided {
        schedule: &first["spec"],
        after: created,
        until,
    }];
    // Nothing is noted before anything is decided.
    let decided = match cron.is_noted {
        false if cron.versions.len() > 1 => return None,
        false => &unnoted[..],
        true => &cron.decided,
    };
    let ticks = |decided: &Decided<'_>| {
        // The status was written after an edit that could not be read.
        let schedule = Schedule::of(decided.schedule);
        let after = decided.after.max(created);
        schedule.map_or(0, |schedule| schedule.ticks(after, decided.until).len())
    };
    let ticks = decided.iter().map(ticks).sum::<usize>() as i64;
    let open = cron.open as i64;
    let run = |runs: &[(&Key, &Value)]| -> BTreeSet<Timestamp> {
        let ticks = runs.iter().filter_map(|(_, run)| of_cron::tick_of(run));
        ticks.filter(|tick| *tick <= until).collect()
    };
    let (run, late) = (run(&cron.runs), run(&cron.late_runs));
    // A run that came late may have been noted, or counted as missed before.
    let late = late.difference(&run).count() as i64;
    let found = run.len() as i64 + missed;
    (!(ticks - late..=ticks + open).contains(&found)).then(|| {
        format!(
            "there were {ticks} ticks until {until}, of which {} were run, and missedRuns is {missed}",
            run.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::object::CRONS;
    use crate::scene::{Scene, breaks, holds, over};
    use serde_json::json;

    fn cron(fields: Value) -> Scene {
        Scene::new().cron(fields)
    }

    /// Something happens at this time.
    fn until(scene: Scene, time: &str) -> Scene {
        scene.at(time).node("n1").cordon("n1", true)
    }

    fn missed(scene: Scene, count: i64, last: &str) -> Scene {
        scene.cron_status(|status| {
            status["missedRuns"] = json!(count);
            status["lastMissedTime"] = json!(format!("2026-01-01T{last}Z"));
        })
    }

    #[test]
    fn a_run_is_judged_when_it_is_over() {
        for resource in CRONS {
            let scene = Scene::new().cron_of(resource, &json!({})).ran(5).ran(10);
            holds(L1, &scene, &over());
        }
        holds(L4, &Scene::two_runs(), &over());
        let open = until(cron(json!({})), "01:00:00").history();
        let strict = Assumptions::default();
        assert_eq!(
            every_tick_is_settled(&open, &strict).unwrap().evaluations,
            0
        );
    }

    #[test]
    fn a_tick_that_was_forgotten_is_found() {
        for resource in CRONS {
            let scene = Scene::new().cron_of(resource, &json!({})).ran(5);
            breaks(
                L1,
                &until(scene, "00:10:30"),
                &over(),
                "00:10:00Z was neither run",
            );
        }
        let recent = until(Scene::two_runs(), "00:15:05");
        holds(L1, &recent, &over());
        let counted = missed(until(Scene::two_runs(), "00:15:30"), 1, "00:15:00");
        holds(L1, &counted, &over());
        let jittered = cron(json!({"jitterSeconds": 60})).ran(5);
        holds(L1, &until(jittered, "00:10:30"), &over());
    }

    #[test]
    fn what_policy_excludes_is_not_asked_for() {
        let suspended = cron(json!({"suspend": true}));
        holds(L1, &until(suspended, "01:00:00"), &over());
        let forbid = cron(json!({"concurrencyPolicy": "Forbid"})).running(5);
        holds(L1, &until(forbid, "01:00:00"), &over());
        let deadline = json!({"startingDeadlineSeconds": 20});
        let batch = Scene::new().cron_of(CRONS[1], &deadline);
        holds(L1, &until(batch, "01:00:00"), &over());
        let ours = until(cron(deadline), "01:00:00");
        breaks(L1, &ours, &over(), "neither run nor counted");
        let stalled = Assumptions {
            may_stall: true,
            ..over()
        };
        holds(L1, &ours, &stalled);
        let changed = until(Scene::two_runs(), "00:59:00");
        let changed = changed.edit_cron(|cron| cron["spec"]["schedule"] = json!("@hourly"));
        breaks(
            L1,
            &until(changed.clone(), "01:00:30"),
            &over(),
            "01:00:00Z was neither",
        );
        holds(L1, &until(changed, "00:59:50"), &over());
    }

    #[test]
    fn the_status_refers_to_what_has_not_ended() {
        let promised = cron(json!({})).promise(5);
        breaks(L1, &promised, &over(), "a promise is left");
        let ended = cron(json!({})).running(5).end_run(5, "Complete");
        breaks(L1, &ended, &over(), "have not ended");
        let forgotten = cron(json!({})).running(5);
        let forgotten = forgotten.cron_status(|status| status["active"] = json!([]));
        breaks(L1, &forgotten, &over(), "have not ended");
    }

    #[test]
    fn history_limits_hold_and_nothing_is_held() {
        let limit = json!({"successfulJobsHistoryLimit": 1});
        let kept = cron(limit).ran(5).ran(10);
        breaks(L1, &kept, &over(), "are kept, and the limit is 1");
        holds(L1, &kept.delete_run("carillon", 5), &over());
        let held = cron(json!({})).promise(5).start(5).confirm(5);
        breaks(L1, &held, &over(), "still carries");
    }

    #[test]
    fn faults_that_never_end_change_nothing_about_that() {
        let pressed = Assumptions {
            permanent_faults: true,
            ..over()
        };
        holds(L6, &Scene::two_runs(), &pressed);
        let open = until(cron(json!({})), "01:00:00");
        breaks(L6, &open, &pressed, "neither run nor counted");
    }

    #[test]
    fn the_ticks_before_the_last_fault_are_settled_in_time() {
        let open = until(Scene::two_runs(), "01:00:00");
        let healed = |at: &str| Assumptions {
            healed: Some((at.parse().unwrap(), SignedDuration::from_mins(20))),
            ..Assumptions::default()
        };
        holds(L2, &open, &healed("2026-01-01T00:15:05Z"));
        let late = check_at(&open, &healed("2026-01-01T00:59:00Z"));
        assert!(late.what.contains("neither run nor counted"), "{late}");
    }

    fn check_at(scene: &Scene, assumptions: &Assumptions) -> Violation {
        *every_tick_is_settled_in_time(&scene.history(), assumptions).unwrap_err()
    }

    #[test]
    fn ticks_are_those_that_were_run_and_those_that_were_missed() {
        let two = || until(Scene::two_runs(), "00:26:00");
        holds(L4, &missed(two(), 3, "00:25:00"), &over());
        breaks(
            L4,
            &missed(two(), 2, "00:25:00"),
            &over(),
            "there were 5 ticks",
        );
        breaks(
            L4,
            &missed(two(), 4, "00:25:00"),
            &over(),
            "there were 5 ticks",
        );
        let skipped = cron(json!({})).ran(5).ran(15);
        breaks(L4, &skipped, &over(), "there were 3 ticks");
        // One whose request came late may have been given up before, and counted as missed.
        let late = Assumptions {
            late: std::sync::Arc::new(|step| step.rev == 3),
            ..over()
        };
        holds(L4, &missed(two(), 3, "00:25:00"), &late);
        holds(L4, &missed(two(), 4, "00:25:00"), &late);
        breaks(
            L4,
            &missed(two(), 2, "00:25:00"),
            &late,
            "of which 1 were run",
        );
        let uncounted = Scene::new().cron_of(CRONS[1], &json!({})).ran(5).ran(15);
        holds(L4, &uncounted, &over());
        let changed = skipped.edit_cron(|cron| cron["spec"]["schedule"] = json!("@hourly"));
        holds(L4, &changed, &over());
    }

    #[test]
    fn each_schedule_has_its_ticks_while_it_was_in_force() {
        let note = |scene: Scene, schedule: &str, since: &str| {
            scene.cron_status(|status| {
                let since = format!("2026-01-01T{since}Z");
                status["scheduleInForce"] = json!({"schedule": schedule, "since": since});
            })
        };
        // Ran at 5 and 10; edited at 17, after which 20 ran.
        let edited = |counted: i64| {
            let first = note(cron(json!({})), "*/5 * * * *", "00:00:00")
                .ran(5)
                .ran(10);
            let edited = first.at("00:17:00");
            let edited = edited.edit_cron(|cron| cron["spec"]["schedule"] = json!("*/2 * * * *"));
            let edited = note(edited, "*/2 * * * *", "00:17:00");
            missed(edited, counted, "00:15:00").ran(18).ran(20)
        };
        holds(L4, &edited(1), &over());
        breaks(L4, &edited(0), &over(), "there were 5 ticks");
        breaks(L4, &edited(4), &over(), "there were 5 ticks");
    }

    #[test]
    fn what_the_first_write_of_a_status_counts_is_of_the_schedule_that_it_notes() {
        let late = |counted: i64| {
            cron(json!({})).at("00:12:00").cron_status(|status| {
                let since = json!({"schedule": "*/5 * * * *", "since": "2026-01-01T00:00:00Z"});
                status["scheduleInForce"] = since;
                status["missedRuns"] = json!(counted);
                status["lastMissedTime"] = json!("2026-01-01T00:10:00Z");
            })
        };
        holds(L4, &late(2), &over());
        breaks(L4, &late(1), &over(), "there were 2 ticks");
    }

    #[test]
    fn a_time_that_was_run_too_early_is_one_of_the_schedule_that_was_in_force_then() {
        let note = |scene: Scene, schedule: &str, since: &str| {
            let scene = scene.edit_cron(|cron| cron["spec"]["schedule"] = json!(schedule));
            scene.cron_status(|status| {
                let since = format!("2026-01-01T{since}Z");
                status["scheduleInForce"] = json!({"schedule": schedule, "since": since});
            })
        };
        // A clock that is ahead ran 10 at 6; then the schedule was changed, and changed back.
        let early = note(cron(json!({})), "*/10 * * * *", "00:00:00").at("00:06:00");
        let early = early.ran(10);
        let edited = note(early.at("00:06:10"), "* * * * *", "00:06:10");
        let back = note(edited, "*/10 * * * *", "00:06:20");
        holds(L4, &back, &over());
    }

    #[test]
    fn the_status_says_what_happened_last() {
        let observed = |generation: i64| {
            Scene::two_runs().cron_status(|s| {
                s["observedGeneration"] = json!(generation);
                s["nextScheduleTime"] = json!("2026-01-01T00:15:00Z");
                s["conditions"] = json!([{"type": "Scheduled", "status": "True",
                    "reason": "Scheduled", "observedGeneration": 1}]);
            })
        };
        holds(L4, &observed(1), &over());
        breaks(L4, &observed(0), &over(), "observedGeneration is 0");
        let unnoted = cron(json!({})).running(5).end_run(5, "Complete");
        let unnoted = unnoted.cron_status(|status| status["active"] = json!([]));
        breaks(L4, &unnoted, &over(), "a child completed at");
    }
}
