//! Children: what they are made of, and which of them are kept.

use carillon_api::condition::reasons as why;
use carillon_api::names::ANNOTATION_SCHEDULED_TIMESTAMP;
use serde_json::json;

use crate::cron_job::action::Action;
use crate::cron_job::tests::fixture::{Fixture, at, body, hourly, uid};
use crate::cron_job::{Api, Child, Ended, Refused, RunOutcome, Template};

const NOW: &str = "2026-01-01T10:45:00Z";

pub(super) fn template_changed() {
    let mut cron = hourly(Api::Native);
    cron.spec["jobTemplate"]["metadata"]["labels"] = json!({"a": "c"});
    let cron = cron.cron();
    let body = body(&cron, &cron.run_at(at("2026-01-01T11:00:00Z")));
    assert_eq!(body["metadata"]["labels"], json!({"a": "c"}));
}

/// Children that have ended, with when each was started.
fn ended(started: &[(&str, Option<&str>)]) -> Fixture {
    let mut cron = hourly(Api::Native);
    for (at_, (name, begin)) in started.iter().enumerate() {
        cron.put(
            name,
            Child {
                uid: uid(at_ as u64 + 10),
                rv: 5,
                started: begin.map(at),
                ended: Some(Ended {
                    outcome: RunOutcome::Succeeded,
                    at: None,
                }),
                ..Child::default()
            },
        );
    }
    cron
}

fn deleted(cron: &Fixture) -> Vec<String> {
    let plan = cron.plan(NOW);
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    actions
        .filter_map(|action| match action {
            Action::DeleteChild { name, .. } => Some(name.clone()),
            _ => None,
        })
        .collect()
}

pub(super) fn deleted_when_refused() {
    let hour = Some("2026-01-01T09:00:00Z");
    let mut cron = ended(&[("a", hour), ("b", hour), ("c", hour), ("d", hour)]);
    cron.template = Template::Refused(Refused {
        reason: why::QUOTA_EXCEEDED,
        message: "exceeded quota".to_owned(),
    });
    assert_eq!(deleted(&cron), ["a"]);
}

pub(super) fn not_deleted() {
    let hour = Some("2026-01-01T09:00:00Z");
    let cron = ended(&[("a", hour), ("b", hour), ("c", hour)]);
    assert!(deleted(&cron).is_empty());
}

pub(super) fn by_start_time() {
    let (early, late) = (Some("2026-01-01T08:00:00Z"), Some("2026-01-01T09:00:00Z"));
    // In the order in which they are deleted.
    for children in [
        vec![("a", early), ("b", late)],
        vec![("b", early), ("a", late)],
        vec![("a", late), ("b", late)],
        vec![("b", late), ("a", None)],
        vec![("a", None), ("b", None)],
    ] {
        let mut cron = ended(&children);
        cron.spec["successfulJobsHistoryLimit"] = json!(0);
        let expected: Vec<&str> = children.iter().map(|(name, _)| *name).collect();
        assert_eq!(deleted(&cron), expected);
    }
}

pub(super) fn from_template() {
    for (zone, time) in [
        (json!(null), "2026-01-01T11:00:00Z"),
        (json!("Asia/Tokyo"), "2026-01-01T20:00:00+09:00"),
        (json!("UTC"), "2026-01-01T11:00:00Z"),
    ] {
        let mut cron = hourly(Api::Native).with("timeZone", zone);
        cron.spec["jobTemplate"]["metadata"]["annotations"] = json!({"x": "y"});
        let cron = cron.cron();
        let body = body(&cron, &cron.run_at(at("2026-01-01T11:00:00Z")));
        let meta = &body["metadata"];
        assert_eq!(meta["name"], "report-29454420");
        assert_eq!(meta["labels"], json!({"a": "b"}));
        let annotations = json!({"x": "y", ANNOTATION_SCHEDULED_TIMESTAMP: time});
        assert_eq!(meta["annotations"], annotations);
    }
}
