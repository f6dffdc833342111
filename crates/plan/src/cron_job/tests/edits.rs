//! What an edit of the schedule means for times before it.

use carillon_api::condition::{reasons as why, types};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, hourly, reasons, words};
use crate::condition;
use crate::cron_job::{Api, RunOutcome};

/// Ran at 03:00 of the second day, and that run has ended.
fn nightly(api: Api) -> Fixture {
    let mut cron = hourly(api).with("schedule", json!("0 3 * * *"));
    cron.settle("2026-01-01T10:45:00Z");
    cron.settle("2026-01-02T03:00:00Z");
    let [night] = cron.names()[..] else { panic!() };
    let night = night.to_owned();
    cron.end(&night, RunOutcome::Succeeded, "2026-01-02T03:10:00Z");
    cron.settle("2026-01-02T03:10:01Z");
    cron
}

fn message(cron: &Fixture, type_: &str) -> String {
    let cron = cron.cron();
    let condition = condition::find(&cron.status.conditions, type_);
    condition.map_or_else(String::new, |condition| condition.message.clone())
}

#[test]
fn a_schedule_is_in_force_from_its_edit_on_and_times_before_it_are_not_missed() {
    for policy in ["All", "Latest", "Skip"] {
        for (field, value) in [
            ("schedule", "*/5 * * * *"),
            ("schedule", "0 11 * * *"),
            ("timeZone", "Asia/Tokyo"),
        ] {
            let mut cron = nightly(Api::Carillon).with("missedRunPolicy", json!(policy));
            cron.edit(field, json!(value));
            cron.settle("2026-01-02T18:01:00Z");
            assert_eq!(
                cron.names().len(),
                1,
                "{policy} {value}: {:?}",
                cron.names()
            );
            assert!(cron.status["missedRuns"].is_null(), "{policy} {value}");
            let next = cron.status["nextScheduleTime"].as_str().unwrap().to_owned();
            cron.settle(&next);
            assert_eq!(cron.status["lastScheduleTime"], next, "{policy} {value}");
            assert!(cron.status["missedRuns"].is_null(), "{policy} {value}");
        }
    }
}

#[test]
fn a_native_cron_job_makes_up_for_one_time_of_its_new_schedule_as_ever() {
    let mut cron = nightly(Api::Native);
    cron.edit("schedule", json!("*/5 * * * *"));
    cron.settle("2026-01-02T12:01:00Z");
    assert_eq!(cron.names().len(), 2);
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-02T12:00:00Z");
}

/// Since when its schedule is in force, as the status says.
fn since(cron: &Fixture) -> &Value {
    &cron.status["scheduleInForce"]["since"]
}

/// Served since 10:45, and the run of 11:00 goes on under Forbid, so that that of 12:00 waits.
fn waiting() -> Fixture {
    let mut cron = hourly(Api::Carillon).with("concurrencyPolicy", json!("Forbid"));
    cron.settle("2026-01-01T10:45:00Z");
    cron.settle("2026-01-01T11:00:00Z");
    cron.settle("2026-01-01T12:00:00Z");
    assert_eq!(cron.names(), [ELEVEN]);
    cron
}

const ELEVEN: &str = "report-29454420";
const TWELVE: &str = "report-29454480";

#[test]
fn what_the_former_schedule_owed_is_counted_and_told() {
    let mut cron = waiting();
    cron.edit("schedule", json!("5-55/5 * * * *"));
    let plan = cron.plan("2026-01-01T12:02:00Z");
    assert!(reasons(&plan).contains(&"MissSchedule"), "{:?}", plan.notes);
    cron.settle("2026-01-01T12:02:00Z");
    assert_eq!(cron.status["missedRuns"], 1);
    assert_eq!(cron.status["lastMissedTime"], "2026-01-01T12:00:00Z");
    assert_eq!(since(&cron), "2026-01-01T12:02:00Z");
    cron.end(ELEVEN, RunOutcome::Succeeded, "2026-01-01T12:03:00Z");
    cron.settle("2026-01-01T12:03:00Z");
    assert_eq!(cron.names(), [ELEVEN], "12:00 is a time before the edit");
    cron.settle("2026-01-01T12:05:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T12:05:00Z");
    assert_eq!(cron.status["missedRuns"], 1);
}

#[test]
fn a_time_that_is_one_of_both_schedules_was_due_whenever_the_edit_was_made() {
    for (field, value) in [
        ("schedule", "0 */2 * * *"),
        ("schedule", "00 * * * *"),
        ("timeZone", "Etc/UTC"),
        ("dstPolicy", "Once"),
    ] {
        let mut cron = waiting();
        cron.edit(field, json!(value));
        cron.settle("2026-01-01T12:02:00Z");
        assert!(cron.status["missedRuns"].is_null(), "{value}");
        cron.end(ELEVEN, RunOutcome::Succeeded, "2026-01-01T12:03:00Z");
        cron.settle("2026-01-01T12:03:00Z");
        assert_eq!(
            cron.status["lastScheduleTime"], "2026-01-01T12:00:00Z",
            "{value}"
        );
        assert!(cron.status["missedRuns"].is_null(), "{value}");
    }
}

#[test]
fn an_edit_that_was_made_while_nobody_looked_counts_from_when_it_is_seen() {
    // Down from 11:30 on; edited at some time until 14:10.
    let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!("All"));
    cron.settle("2026-01-01T11:00:00Z");
    cron.end(ELEVEN, RunOutcome::Succeeded, "2026-01-01T11:01:00Z");
    cron.settle("2026-01-01T11:01:01Z");
    cron.edit("schedule", json!("5-55/5 * * * *"));
    cron.settle("2026-01-01T14:10:30Z");
    assert_eq!(cron.names(), [ELEVEN]);
    // Of the former: 12:00, 13:00, 14:00.
    assert_eq!(cron.status["missedRuns"], 3);
    assert_eq!(since(&cron), "2026-01-01T14:10:30Z");
    cron.settle("2026-01-01T14:15:00Z");
    assert_eq!(cron.names().len(), 2);
}

#[test]
fn of_two_edits_each_that_was_seen_counts() {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T11:00:00Z");
    // There and back again before anybody looked: nothing was edited.
    cron.edit("schedule", json!("*/5 * * * *"));
    cron.edit("schedule", json!("0 * * * *"));
    cron.settle("2026-01-01T13:01:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T13:00:00Z");
    assert_eq!(since(&cron), super::fixture::CREATED);
    // There, and back later: what is due in between is of the one in between.
    cron.edit("schedule", json!("*/40 * * * *"));
    cron.settle("2026-01-01T13:30:00Z");
    cron.settle("2026-01-01T13:40:00Z");
    cron.edit("schedule", json!("0 * * * *"));
    cron.settle("2026-01-01T14:10:00Z");
    // Both have 14:00.
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T14:00:00Z");
    cron.edit("schedule", json!("30 * * * *"));
    cron.settle("2026-01-01T14:35:00Z");
    cron.edit("schedule", json!("0 * * * *"));
    cron.settle("2026-01-01T14:50:00Z");
    cron.settle("2026-01-01T15:00:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T15:00:00Z");
    assert_eq!(cron.status["missedRuns"], 1, "12:00, and not 14:30");
}

#[test]
fn while_it_is_suspended_a_schedule_is_edited_like_any_other() {
    for policy in ["All", "Latest"] {
        let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!(policy));
        cron.settle("2026-01-01T10:45:00Z");
        cron.edit("suspend", json!(true));
        cron.settle("2026-01-01T10:46:00Z");
        cron.edit("schedule", json!("5,35 * * * *"));
        cron.settle("2026-01-01T13:10:00Z");
        // Of the former: 11:00, 12:00, 13:00.
        assert_eq!(cron.status["missedRuns"], 3, "{policy}");
        cron.edit("suspend", json!(false));
        cron.settle("2026-01-01T14:10:00Z");
        // Of the new one: 13:35, 14:05.
        let runs = if policy == "All" { 2 } else { 1 };
        assert_eq!(cron.names().len(), runs, "{policy}");
        assert_eq!(cron.status["missedRuns"], 5 - runs, "{policy}");
        // Resumed and edited at once, it begins with the next time.
        cron.edit("suspend", json!(true));
        cron.settle("2026-01-01T14:11:00Z");
        cron.edit("suspend", json!(false));
        cron.edit("schedule", json!("* * * * *"));
        cron.settle("2026-01-01T16:00:30Z");
        assert_eq!(cron.names().len(), runs, "{policy}");
        // 14:35, 15:05 and 15:35.
        assert_eq!(cron.status["missedRuns"], 8 - runs, "{policy}");
        assert_eq!(cron.status["nextScheduleTime"], "2026-01-01T16:01:00Z");
    }
}

#[test]
fn another_edit_or_a_jitter_moves_no_time() {
    for (field, value) in [
        ("jobTemplate", json!({"spec": {"backoffLimit": 1}})),
        ("jitterSeconds", json!(0)),
        ("concurrencyPolicy", json!("Forbid")),
    ] {
        let mut cron = hourly(Api::Carillon).with("jitterSeconds", json!(7200));
        cron.settle("2026-01-01T10:45:00Z");
        let late = cron.cron().offset.as_secs();
        assert!(late > 600, "{late}");
        cron.edit(field, value);
        // The time that waited for its share of the jitter is not lost when that goes.
        let now = if field == "jitterSeconds" { 600 } else { late };
        let now = at("2026-01-01T11:00:00Z").as_second() + now;
        cron.settle(&jiff::Timestamp::from_second(now).unwrap().to_string());
        assert_eq!(
            cron.status["lastScheduleTime"], "2026-01-01T11:00:00Z",
            "{field}"
        );
        assert!(cron.status["missedRuns"].is_null(), "{field}");
        assert_eq!(since(&cron), super::fixture::CREATED, "{field}");
    }
}

#[test]
fn a_schedule_that_is_not_noted_is_that_since_the_creation_unless_it_may_have_been_edited() {
    // Never served before 13:01, and as it was created.
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T13:01:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T13:00:00Z");
    // It was edited before anybody looked.
    let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!("All"));
    cron.edit("schedule", json!("*/5 * * * *"));
    cron.settle("2026-01-01T13:01:00Z");
    assert!(cron.names().is_empty() && cron.status["missedRuns"].is_null());
    assert_eq!(since(&cron), "2026-01-01T13:01:00Z");
    cron.settle("2026-01-01T13:05:00Z");
    assert_eq!(cron.names().len(), 1);
    // Written by an earlier version, or lost: as if it had been there since the last decision.
    let mut cron = nightly(Api::Carillon);
    cron.status["scheduleInForce"].take();
    let mut edited = cron.clone();
    cron.settle("2026-01-03T03:00:10Z");
    assert_eq!(cron.names().len(), 2);
    assert_eq!(since(&cron), super::fixture::CREATED);
    edited.edit("schedule", json!("*/5 * * * *"));
    edited.settle("2026-01-02T12:01:00Z");
    assert_eq!(edited.names().len(), 1);
    assert!(edited.status["missedRuns"].is_null());
    // All of the status is lost: what may have been edited makes up for nothing.
    edited.status = json!({});
    edited.settle("2026-01-02T13:01:00Z");
    assert_eq!(edited.names().len(), 1);
}

#[test]
fn what_cannot_be_read_or_lies_ahead_is_put_right_by_the_next_edit() {
    // Somebody writes nonsense: as if nothing were noted.
    let mut cron = nightly(Api::Carillon);
    cron.status["scheduleInForce"] = json!({"schedule": 3});
    cron.settle("2026-01-03T03:00:10Z");
    assert_eq!(cron.names().len(), 2);
    // A former schedule that means nothing owed nothing.
    cron.status["scheduleInForce"]["schedule"] = json!("now");
    cron.settle("2026-01-04T03:30:00Z");
    assert_eq!(since(&cron), "2026-01-04T03:30:00Z");
    assert!(cron.status["missedRuns"].is_null());
    // A clock that was far ahead wrote it: it is told, and an edit ends it.
    cron.status["scheduleInForce"]["since"] = json!("2033-01-01T00:00:00Z");
    cron.settle("2026-01-05T03:30:00Z");
    assert_eq!(cron.names().len(), 2);
    let said = message(&cron, types::SCHEDULED);
    assert!(said.contains("2033-01-01T00:00:00Z"), "{said}");
    cron.edit("schedule", json!("0 4 * * *"));
    cron.settle("2026-01-05T03:31:00Z");
    assert_eq!(message(&cron, types::SCHEDULED), "");
    cron.settle("2026-01-05T04:00:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-05T04:00:00Z");
    // A restored backup has spec and status of one moment; a clock that goes back is not followed.
    cron.edit("schedule", json!("0 5 * * *"));
    cron.settle("2026-01-05T04:30:00Z");
    cron.edit("schedule", json!("* * * * *"));
    cron.settle("2026-01-05T03:50:00Z");
    cron.settle("2026-01-05T04:00:59Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-05T04:00:00Z");
}

#[test]
fn a_promise_that_the_edit_finds_is_kept_only_if_it_is_still_due() {
    for kept in [true, false] {
        for (schedule, due) in [("7-59/7 * * * *", false), ("0,30 * * * *", true)] {
            let mut cron = hourly(Api::Carillon);
            cron.settle("2026-01-01T11:30:00Z");
            let start = cron.plan("2026-01-01T12:00:00Z");
            cron.die_after(if kept { 2 } else { 1 }, &start);
            cron.edit("schedule", json!(schedule));
            let plan = cron.plan("2026-01-01T12:00:30Z");
            let creates = words(&plan).contains(&"create_child");
            assert_eq!(creates, due && !kept, "{kept} {schedule}: {plan:#?}");
            cron.settle("2026-01-01T12:00:30Z");
            let ran = kept || due;
            assert_eq!(cron.names().contains(&TWELVE), ran, "{kept} {schedule}");
            let missed = cron.status["missedRuns"].as_i64().unwrap_or(0);
            assert_eq!(missed, i64::from(!ran), "{kept} {schedule}");
            assert!(cron.status["active"].as_array().unwrap().len() == 1 + usize::from(ran));
        }
    }
}

#[test]
fn a_jitter_that_is_raised_is_no_wrong_clock() {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T11:00:00Z");
    cron.edit("jitterSeconds", json!(86_400));
    assert!(cron.cron().offset.as_secs() > 60);
    cron.settle("2026-01-01T11:00:10Z");
    assert_eq!(message(&cron, types::SCHEDULED), "");
    // It wakes for the next time, and not for one that is decided.
    let wake = at("2026-01-01T12:00:00Z") + cron.cron().offset;
    assert_eq!(cron.plan("2026-01-01T11:00:10Z").wake, Some(wake));
}

#[test]
fn the_29th_of_february_comes_again_after_eight_years() {
    for api in [Api::Carillon, Api::Native] {
        let mut cron = hourly(api).with("schedule", json!("0 0 29 2 *"));
        cron.created = at("2096-01-01T00:00:00Z");
        cron.settle("2096-03-01T00:00:00Z");
        assert_eq!(cron.status["lastScheduleTime"], "2096-02-29T00:00:00Z");
        for now in ["2096-03-01T00:00:01Z", "2103-01-01T00:00:00Z"] {
            cron.settle(now);
            let plan = cron.plan(now);
            assert_eq!(plan.wake, Some(at("2104-02-29T00:00:00Z")), "{now}");
            assert_eq!(reasons(&plan), [""; 0], "{now}");
        }
        if api == Api::Carillon {
            assert_eq!(cron.status["nextScheduleTime"], "2104-02-29T00:00:00Z");
            assert_eq!(cron.status["conditions"][0]["reason"], why::SCHEDULED);
        }
        cron.settle("2104-02-29T00:00:00Z");
        assert_eq!(cron.status["lastScheduleTime"], "2104-02-29T00:00:00Z");
    }
}
