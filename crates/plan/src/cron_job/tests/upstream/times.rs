//! What is due and what comes next, as in upstream's tests of its arithmetic.

use carillon_api::condition::reasons as why;
use jiff::Timestamp;
use serde_json::json;

use crate::cron_job::Api;
use crate::cron_job::due::{self, Due};
use crate::cron_job::tests::fixture::{Fixture, at, hourly, reasons};

/// A schedule since `decided`.
fn scheduled(schedule: &str, decided: &str) -> Fixture {
    let mut cron = hourly(Api::Native).with("schedule", json!(schedule));
    cron.created = at(decided);
    cron
}

fn due_at(cron: &Fixture, now: &str) -> Due {
    let cron = cron.cron();
    due::due(
        &cron,
        cron.timetable.as_ref().unwrap(),
        cron.meta.created,
        at(now),
    )
}

fn next_after(schedule: &str, decided: &str, now: &str) -> Option<Timestamp> {
    let cron = scheduled(schedule, decided).cron();
    due::next(cron.timetable.as_ref().unwrap(), cron.meta.created, at(now))
}

fn changed(schedule: &str, last: &str) -> Option<Timestamp> {
    let mut cron = scheduled(schedule, "2026-01-01T08:00:00Z");
    cron.status = json!({"lastScheduleTime": last});
    cron.plan("2026-01-01T09:59:59Z").wake
}

pub(super) fn schedule_changed() {
    let wake = changed("0 * * * *", "2026-01-01T09:30:00Z");
    assert_eq!(wake, Some(at("2026-01-01T10:00:00Z")));
}

pub(super) fn cadence_decrease() {
    let wake = changed("@every 3m", "2026-01-01T09:59:00Z");
    assert_eq!(wake, Some(at("2026-01-01T10:02:00Z")));
}

pub(super) fn cadence_increase() {
    let wake = changed("@every 1m", "2026-01-01T09:59:00Z");
    assert_eq!(wake, Some(at("2026-01-01T10:00:00Z")));
}

pub(super) fn time_zone_changed() {
    assert_eq!(changed("no schedule", "2026-01-01T09:30:00Z"), None);
    let mut cron = scheduled("0 10 * * *", "2026-01-01T08:00:00Z");
    cron.spec["timeZone"] = json!("Asia/Kolkata");
    let wake = cron.plan("2026-01-01T09:59:59Z").wake;
    assert_eq!(wake, Some(at("2026-01-02T04:30:00Z")));
}

pub(super) fn next_schedule_time() {
    let hours = scheduled("0 * * * *", "2026-01-01T09:59:00Z");
    for (now, expected) in [
        ("2026-01-01T09:59:59Z", None),
        ("2026-01-01T10:00:00Z", Some("2026-01-01T10:00:00Z")),
        ("2026-01-01T10:01:00Z", Some("2026-01-01T10:00:00Z")),
        ("2026-01-01T12:01:00Z", Some("2026-01-01T12:00:00Z")),
        // More than 240 are missed; the last runs all the same.
        ("2026-01-11T12:00:00Z", Some("2026-01-11T12:00:00Z")),
    ] {
        let due = due_at(&hours, now);
        assert_eq!(
            due.run,
            expected.map(at).into_iter().collect::<Vec<_>>(),
            "{now}"
        );
        assert_eq!(due.many, now > "2026-01-06");
    }
    // A deadline leaves fewer of them.
    let late = hours.with("startingDeadlineSeconds", json!(600));
    assert!(!due_at(&late, "2026-01-11T12:00:00Z").many);
    let never = scheduled("59 23 31 2 *", "2026-01-01T09:59:00Z");
    assert_eq!(due_at(&never, "2031-01-01T00:00:00Z"), Due::default());
}

pub(super) fn bursts() {
    // Last run on Thursday, asked on Friday afternoon: upstream finds none.
    let cron = scheduled("30 10,11,12 * * 1-5", "2026-01-01T10:30:00Z");
    let due = due_at(&cron, "2026-01-02T16:30:00Z");
    assert_eq!(due.run, [at("2026-01-02T12:30:00Z")]);
    assert!(!due.many);
}

pub(super) fn every_long_ago() {
    let cron = scheduled("@every 1h", "2026-01-01T10:01:00Z");
    let due = due_at(&cron, "2026-01-08T10:00:00Z");
    assert_eq!(due.run, [at("2026-01-08T09:01:00Z")]);
    assert!(due.many);
}

pub(super) fn rogue() {
    for (api, told) in [
        (Api::Native, "InvalidSchedule"),
        (Api::Carillon, why::NEVER_FIRES),
    ] {
        let mut cron = hourly(api).with("schedule", json!("59 23 31 2 *"));
        let plan = cron.plan("2026-01-01T10:45:00Z");
        assert_eq!(reasons(&plan), [told]);
        assert_eq!(plan.wake, None);
        cron.settle("2026-01-01T10:45:00Z");
        assert!(cron.names().is_empty());
    }
}

pub(super) fn outside_deadline() {
    let cron = scheduled("*/5 * * * *", "2026-01-01T08:00:00Z");
    let cron = cron.with("startingDeadlineSeconds", json!(60));
    let due = due_at(&cron, "2026-01-01T10:02:00Z");
    assert_eq!(due.over, Some(at("2026-01-01T10:00:00Z")));
    assert!(due.run.is_empty());
    let due = due_at(&cron, "2026-01-01T10:00:59Z");
    assert_eq!(due.over, Some(at("2026-01-01T09:55:00Z")));
    assert_eq!(due.run, [at("2026-01-01T10:00:00Z")]);
}

pub(super) fn most_recent() {
    for (schedule, last, now, expected) in [
        (
            "0 * * * *",
            "2026-01-01T05:00:00Z",
            "2026-01-01T10:01:00Z",
            "2026-01-01T10:00:00Z",
        ),
        (
            "30 6-16/4 * * 1-5",
            "2026-01-01T10:30:00Z",
            "2026-01-02T06:31:00Z",
            "2026-01-02T06:30:00Z",
        ),
        // Friday to Monday.
        (
            "30 6-16/4 * * 1-5",
            "2026-01-02T14:30:00Z",
            "2026-01-05T06:31:00Z",
            "2026-01-05T06:30:00Z",
        ),
        (
            "30 6-16/4 * * 1-5",
            "2026-01-01T10:30:00Z",
            "2026-01-04T12:00:00Z",
            "2026-01-02T14:30:00Z",
        ),
    ] {
        let due = due_at(&scheduled(schedule, last), now);
        assert_eq!(due.run, [at(expected)], "{schedule}");
        assert!(!due.many);
    }
}

pub(super) fn durations() {
    for (schedule, last, now, minutes) in [
        (
            "30 6-16/4 * * 1-5",
            "2026-01-02T14:30:00Z",
            "2026-01-05T06:31:00Z",
            239,
        ),
        (
            "30 10,11,12 * * 1-5",
            "2026-01-01T10:30:00Z",
            "2026-01-02T16:30:00Z",
            66 * 60,
        ),
        (
            "0 12 * * 4",
            "2026-01-01T12:00:00Z",
            "2026-01-20T11:30:00Z",
            48 * 60 + 30,
        ),
        (
            "0 12 * * 5",
            "2026-01-01T10:00:00Z",
            "2026-01-01T16:00:00Z",
            20 * 60,
        ),
    ] {
        let next = next_after(schedule, last, now).unwrap();
        let waits = next.duration_since(at(now));
        assert_eq!(waits.as_mins(), minutes, "{schedule}");
    }
}
