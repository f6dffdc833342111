//! What asks for a run, and what does not.

use carillon_api::condition::{reasons as why, types};
use serde_json::{Value, json};

use super::fixture::{Fixture, OF_ANOTHER, hourly, reasons, uid};
use crate::cron_job::{Api, Asked};

const NOW: &str = "2026-01-01T10:50:00Z";

fn with(value: &str) -> Fixture {
    let mut cron = hourly(Api::Carillon);
    cron.run_now = Some(value.to_owned());
    cron
}

/// Status, reason and message of the condition.
fn ignored(cron: &Fixture) -> Option<(Value, Value, String)> {
    let conditions = cron.status["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == types::REQUEST_IGNORED)?;
    let message = found["message"].as_str().unwrap_or_default();
    Some((
        found["status"].clone(),
        found["reason"].clone(),
        message.to_owned(),
    ))
}

/// Settles, and counts the events about requests.
fn warnings(cron: &mut Fixture, now: &str) -> usize {
    let mut told = 0;
    loop {
        let plan = cron.plan(now);
        let reasons = reasons(&plan).into_iter();
        told += reasons
            .filter(|reason| *reason == types::REQUEST_IGNORED)
            .count();
        if plan.steps.is_empty() {
            return told;
        }
        cron.carry_out(&plan);
    }
}

#[test]
fn a_request_to_another_cron_job_starts_nothing_also_while_suspended_and_is_no_news() {
    // Copied, made anew, or restored: the annotation came along, the uid is another one.
    for suspended in [false, true] {
        let mut cron = with(OF_ANOTHER).with("suspend", json!(suspended));
        cron.settle(NOW);
        assert!(cron.names().is_empty(), "{:?}", cron.names());
        assert!(cron.status["handledRunNow"].is_null());
        assert_eq!(ignored(&cron), None);
    }
}

#[test]
fn what_cannot_be_read_starts_nothing_and_says_what_to_write() {
    let own = uid(1);
    let long = format!("{own}/{}", "x".repeat(64));
    for odd in [
        "to-day",
        "to day",
        "/",
        &format!("{own}"),
        &format!("{own}/"),
        &format!("{own}/a/b"),
        &format!("{own}/a b"),
        &format!("{}/a", own.to_string().to_uppercase()),
        &long,
    ] {
        let mut cron = with(odd);
        assert_eq!(warnings(&mut cron, NOW), 1, "{odd}");
        assert!(cron.names().is_empty(), "{odd}");
        let (status, reason, message) = ignored(&cron).unwrap();
        assert_eq!(
            (status, reason),
            (json!("True"), json!(why::UNREADABLE_REQUEST))
        );
        assert!(message.contains(&format!("write {own}/WORD")), "{message}");
        // It is told once, and does not keep the schedule from running.
        assert!(cron.plan(NOW).steps.is_empty(), "{odd}");
        assert_eq!(warnings(&mut cron, NOW), 0, "{odd}");
        cron.settle("2026-01-01T11:00:00Z");
        assert_eq!(cron.names().len(), 1, "{odd}");
        // It says so until somebody has written something else.
        cron.run_now = Some("b".to_owned());
        cron.settle("2026-01-01T11:00:00Z");
        assert_eq!(cron.names().len(), 2, "{odd}");
        let (status, reason, _) = ignored(&cron).unwrap();
        assert_eq!(
            (status, reason),
            (json!("False"), json!(why::NOTHING_IGNORED))
        );
    }
}

#[test]
fn of_what_was_found_only_a_harmless_beginning_is_shown() {
    let mut cron = with(&format!("\u{202e}\u{1b}[2J{}", "ü".repeat(1 << 17)));
    cron.settle(NOW);
    let (_, _, message) = ignored(&cron).unwrap();
    assert!(message.len() < 512, "{}", message.len());
    assert!(!message.contains(crate::printable::is_harmful), "{message}");
}

#[test]
fn a_native_cron_job_has_an_event_in_place_of_a_condition() {
    let mut cron = with("a");
    cron.api = Api::Native;
    let plan = cron.plan(NOW);
    let told: Vec<&str> = plan.notes.iter().map(|note| note.reason).collect();
    assert_eq!(told, [types::REQUEST_IGNORED]);
    assert!(plan.notes[0].message.contains("--from=cronjob/report"));
    cron.settle(NOW);
    assert!(cron.names().is_empty());
    assert!(cron.status["conditions"].is_null());
}

#[test]
fn what_is_asked_with_is_what_is_asked_for() {
    let cron = with("a").cron();
    assert_eq!(cron.asked(), Asked::Run("a"));
    assert_eq!(Some(cron.asks_with("a")), cron.run_now);
}
