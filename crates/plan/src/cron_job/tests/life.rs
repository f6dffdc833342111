//! The life of a run, plan by plan.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::fixture::{at, hourly, reasons, words};
use crate::cron_job::{Api, RunOutcome};

#[test]
fn a_run_is_promised_started_recorded_released_and_taken_off_in_this_order() {
    for api in [Api::Carillon, Api::Native] {
        let mut cron = hourly(api);
        cron.settle("2026-01-01T10:45:00Z");
        let wait = cron.plan("2026-01-01T10:45:00Z");
        assert_eq!(wait.wake, Some(at("2026-01-01T11:00:00Z")));

        let start = cron.plan("2026-01-01T11:00:00Z");
        assert_eq!(words(&start), ["write_status", "create_child"], "{api:?}");
        cron.carry_out(&start);
        assert_eq!(cron.names(), ["report-29454420"]);
        assert!(cron.status["active"][0]["uid"].is_null());
        assert!(cron.status["lastScheduleTime"].is_null());

        let record = cron.plan("2026-01-01T11:00:01Z");
        assert_eq!(words(&record), ["write_status", "release_child"]);
        cron.carry_out(&record);
        assert!(cron.status["active"][0]["uid"].is_string());
        assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T11:00:00Z");
        assert!(cron.plan("2026-01-01T11:00:03Z").steps.is_empty());

        cron.end(
            "report-29454420",
            RunOutcome::Succeeded,
            "2026-01-01T11:05:00Z",
        );
        let over = cron.plan("2026-01-01T11:05:01Z");
        assert_eq!(reasons(&over), ["SawCompletedJob"]);
        cron.carry_out(&over);
        assert!(cron.status["active"].is_null());
        assert_eq!(cron.status["lastSuccessfulTime"], "2026-01-01T11:05:00Z");
        assert!(cron.plan("2026-01-01T11:05:02Z").steps.is_empty());
    }
}

#[test]
fn without_a_time_zone_the_times_are_those_of_utc() {
    for api in [Api::Carillon, Api::Native] {
        for zone in [None, Some(Value::Null)] {
            let mut cron = hourly(api).with("schedule", json!("30 2 * * *"));
            if let Some(zone) = zone {
                cron = cron.with("timeZone", zone);
            }
            let schedule = cron.cron().timetable.unwrap();
            assert_eq!(*schedule.zone(), TimeZone::UTC, "{api:?}");
            // On these days the clocks of Europe leave 02:30 out, or strike it twice.
            for (after, next) in [
                ("2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z"),
                ("2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z"),
                ("2026-10-24T12:00:00Z", "2026-10-25T02:30:00Z"),
                ("2026-10-25T02:30:00Z", "2026-10-26T02:30:00Z"),
            ] {
                assert_eq!(schedule.next(at(after)), Some(at(next)), "{api:?}");
            }
            cron.settle("2026-01-01T10:45:00Z");
            let wait = cron.plan("2026-01-01T10:45:00Z");
            assert_eq!(wait.wake, Some(at("2026-01-02T02:30:00Z")), "{api:?}");
        }
    }
}

#[test]
fn a_run_that_is_complete_and_has_failed_nodes_is_no_success() {
    let name = "report-29454420";
    for (outcome, succeeded) in [
        (RunOutcome::Succeeded, true),
        (RunOutcome::CompletedWithFailures, false),
        (RunOutcome::Failed, false),
    ] {
        let mut cron = hourly(Api::Carillon)
            .with("successfulJobsHistoryLimit", json!(0))
            .with("failedJobsHistoryLimit", json!(1));
        cron.settle("2026-01-01T11:00:00Z");
        cron.end(name, outcome, "2026-01-01T11:05:00Z");
        cron.settle("2026-01-01T11:05:01Z");
        let noted =
            ["lastSuccessfulTime", "lastFailureTime"].map(|field| cron.status[field].is_string());
        assert_eq!(noted, [succeeded, !succeeded], "{outcome:?}");
        assert_eq!(cron.names().is_empty(), succeeded, "{outcome:?}");
    }
}

#[test]
fn a_run_that_is_recorded_is_released_by_whoever_comes_after_a_crash() {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T10:45:00Z");
    let start = cron.plan("2026-01-01T11:00:00Z");
    cron.carry_out(&start);
    let record = cron.plan("2026-01-01T11:00:01Z");
    cron.die_after(1, &record);
    let release = cron.plan("2026-01-01T11:00:02Z");
    assert_eq!(words(&release), ["release_child"]);
}

#[test]
fn a_promise_is_kept_after_a_crash_only_by_who_sees_the_present() {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T10:45:00Z");
    let start = cron.plan("2026-01-01T11:00:00Z");
    // Killed between the two writes.
    let mut cut = start.clone();
    cut.steps.truncate(1);
    cron.carry_out(&cut);
    let again = cron.plan("2026-01-01T11:00:30Z");
    assert_eq!(words(&again), ["confirm_current", "create_child"]);
    cron.settle("2026-01-01T11:00:30Z");
    assert_eq!(cron.names().len(), 1);
}

#[test]
fn a_promise_nobody_may_keep_any_more_is_taken_back_when_it_is_certain_that_it_was_not_kept() {
    let mut cron = hourly(Api::Carillon).with("startingDeadlineSeconds", json!(60));
    cron.settle("2026-01-01T10:45:00Z");
    let mut cut = cron.plan("2026-01-01T11:00:00Z");
    cut.steps.truncate(1);
    cron.carry_out(&cut);
    let late = cron.plan("2026-01-01T11:30:00Z");
    assert!(words(&late).contains(&"confirm_gone"), "{late:#?}");
    cron.settle("2026-01-01T11:30:00Z");
    assert!(cron.status["active"].is_null());
    assert_eq!(cron.status["missedRuns"], 1);
    assert_eq!(cron.status["lastMissedTime"], "2026-01-01T11:00:00Z");
    assert!(cron.names().is_empty());
}

#[test]
fn the_latest_of_missed_runs_is_made_up_for_and_the_others_are_counted() {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T10:45:00Z");
    cron.settle("2026-01-01T15:10:00Z");
    assert_eq!(cron.names(), ["report-29454660"]);
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T15:00:00Z");
    assert_eq!(cron.status["missedRuns"], 4);
    assert_eq!(cron.status["nextScheduleTime"], "2026-01-01T16:00:00Z");
}

#[test]
fn all_missed_runs_are_made_up_for_one_after_the_other_where_that_is_asked_for() {
    let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!("All"));
    cron.settle("2026-01-01T10:45:00Z");
    cron.settle("2026-01-01T15:10:00Z");
    assert_eq!(cron.names().len(), 5);
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T15:00:00Z");
    assert!(cron.status["missedRuns"].is_null());
}

#[test]
fn with_skip_a_run_that_is_late_is_left_out_and_counted() {
    let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!("Skip"));
    cron.settle("2026-01-01T10:45:00Z");
    cron.settle("2026-01-01T15:10:00Z");
    assert!(cron.names().is_empty());
    assert_eq!(cron.status["missedRuns"], 5);
    cron.settle("2026-01-01T16:00:30Z");
    assert_eq!(cron.names(), ["report-29454720"]);
}

#[test]
fn one_run_that_was_missed_is_told_as_one() {
    let expected = [
        (
            "2026-01-01T11:30:00Z",
            "Could not start the run of 2026-01-01T11:00:00Z in time",
        ),
        (
            "2026-01-01T15:10:00Z",
            "Could not start 5 runs in time, the last one of 2026-01-01T15:00:00Z",
        ),
    ];
    for (now, message) in expected {
        let mut cron = hourly(Api::Carillon).with("missedRunPolicy", json!("Skip"));
        cron.settle("2026-01-01T10:45:00Z");
        let plan = cron.plan(now);
        let note = plan.notes.iter().find(|note| note.reason == "MissSchedule");
        assert_eq!(note.unwrap().message, message);
    }
}

#[test]
fn forbid_waits_and_replace_stops_first() {
    for (policy, expected) in [
        ("Forbid", &["report-29454420"][..]),
        ("Replace", &["report-29454480"]),
        ("Allow", &["report-29454420", "report-29454480"]),
    ] {
        let mut cron = hourly(Api::Native).with("concurrencyPolicy", json!(policy));
        cron.settle("2026-01-01T11:00:00Z");
        cron.settle("2026-01-01T12:00:00Z");
        assert_eq!(cron.names(), expected, "{policy}");
    }
}

#[test]
fn a_run_that_is_retried_outlives_the_limit_until_its_retries_have_ended() {
    let mut cron = hourly(Api::Carillon).with("successfulJobsHistoryLimit", json!(1));
    for now in [
        "2026-01-01T11:00:01Z",
        "2026-01-01T12:00:01Z",
        "2026-01-01T13:00:01Z",
    ] {
        cron.settle(now);
        let last = cron.names().pop().unwrap().to_owned();
        cron.end(&last, RunOutcome::Succeeded, now);
        if let [first] = cron.names()[..] {
            let first = first.to_owned();
            cron.child(&first).retried = true;
        }
    }
    let now = "2026-01-01T13:01:00Z";
    cron.settle(now);
    let [retried, kept] = cron.names()[..] else {
        panic!("{:?}", cron.names());
    };
    let (retried, kept) = (retried.to_owned(), kept.to_owned());
    cron.child(&retried).retried = false;
    cron.settle(now);
    assert_eq!(cron.names(), [&*kept]);
}
