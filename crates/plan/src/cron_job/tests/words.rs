//! What people are told: of native CronJobs in upstream's words.

use serde_json::json;

use super::fixture::{hourly, reasons};
use crate::cron_job::Api;

#[test]
fn why_a_native_cron_job_cannot_be_scheduled_is_told_in_the_words_of_kube_controller_manager() {
    let zone = r#"invalid timeZone: "Europe/Atlantis": unknown time zone Europe/Atlantis"#;
    for (field, value, reason, words) in [
        ("timeZone", "Europe/Atlantis", "UnknownTimeZone", zone),
        (
            "schedule",
            "0 0 31 2 *",
            "InvalidSchedule",
            "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second",
        ),
        (
            "schedule",
            "now",
            "UnparseableSchedule",
            r#"unparseable schedule: "now" : "#,
        ),
        (
            "schedule",
            "TZ=UTC 0 * * * *",
            "UnsupportedSchedule",
            r#"CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported"#,
        ),
    ] {
        let cron = hourly(Api::Native).with(field, json!(value));
        let plan = cron.plan("2026-01-01T10:45:00Z");
        assert_eq!(reasons(&plan), [reason], "{value}");
        let said = &plan.notes[0].message;
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn kubectl_shows_whether_a_cron_job_is_scheduled_suspended_or_stalled_and_why() {
    for (field, value, shown) in [
        ("schedule", json!("0 * * * *"), "Scheduled"),
        ("suspend", json!(true), "Suspended"),
        (
            "timeZone",
            json!("Europe/Atlantis"),
            "Stalled: UnknownTimeZone",
        ),
        ("schedule", json!("now"), "Stalled: InvalidSchedule"),
        ("schedule", json!("0 0 31 2 *"), "Stalled: NeverFires"),
    ] {
        let mut cron = hourly(Api::Carillon).with(field, value.clone());
        cron.settle("2026-01-01T10:45:00Z");
        assert_eq!(cron.status["summary"], shown, "{field}: {value}");
    }
    let mut native = hourly(Api::Native);
    native.settle("2026-01-01T11:00:00Z");
    assert_eq!(
        native.status.get("summary"),
        None,
        "upstream has no such field"
    );
}

#[test]
fn a_run_that_was_stopped_for_a_later_one_is_not_called_missing() {
    let mut cron = hourly(Api::Native).with("concurrencyPolicy", json!("Replace"));
    cron.settle("2026-01-01T11:00:00Z");
    let mut told = Vec::new();
    for _ in 0..10 {
        let plan = cron.plan("2026-01-01T12:00:00Z");
        told.extend(reasons(&plan));
        cron.carry_out(&plan);
    }
    assert!(cron.plan("2026-01-01T12:00:00Z").steps.is_empty());
    assert_eq!(cron.names(), ["report-29454480"]);
    assert!(told.is_empty(), "{told:?}");
}
