//! What children are called, and what they are made of.

use std::collections::BTreeSet;

use carillon_api::names::{
    ANNOTATION_RUN_NOW, ANNOTATION_SCHEDULED_TIMESTAMP, FINALIZER_RUN_TRACKING,
    LABEL_CRON_JOB_NAME, LABEL_CRON_JOB_UID,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixture::{at, body, hourly, uid};
use crate::cron_job::{Api, Child, CronJob};
use crate::object_key::{CRON_JOB, ObjectKey};

const TICK: &str = "2026-01-01T11:00:00Z";

fn child(scheduled: Option<Timestamp>) -> Child {
    Child {
        scheduled,
        ..Child::default()
    }
}

fn body_at_tick(cron: &CronJob) -> Value {
    body(cron, &cron.run_at(at(TICK)))
}

#[test]
fn the_tick_of_a_run_is_read_back_from_its_child() {
    for (written, ticks) in [
        ("0 * * * *", 500),
        ("*/7 3 * * *", 500),
        ("@every 90s", 500),
        ("@every 1s", 120),
    ] {
        let cron = hourly(Api::Carillon)
            .with("schedule", json!(written))
            .cron();
        let schedule = cron.timetable.as_ref().unwrap();
        let mut tick = cron.meta.created;
        for _ in 0..ticks {
            tick = schedule.next(tick).unwrap();
            let name = cron.run_at(tick).name;
            assert_eq!(cron.tick_of(&name, &child(Some(tick))), Some(tick));
            // Without what it says itself, it is one of its minute; of a calendar, the same.
            let read = cron.tick_of(&name, &child(None)).unwrap();
            assert_eq!(cron.run_at(read).name, name);
            if !written.starts_with('@') {
                assert_eq!(read, tick);
            }
            // What it says is not believed if it is of another minute.
            let hour = SignedDuration::from_hours(1);
            let lie = cron.tick_of(&name, &child(Some(tick + hour)));
            assert_eq!(lie, Some(read));
        }
    }
}

#[test]
fn other_names_are_no_runs_of_ticks() {
    let cron = hourly(Api::Carillon).cron();
    for name in [
        "",
        "report",
        "report-",
        "report--5",
        "report-+5",
        "report-5a",
        "report-r5",
        "reports-29454420",
        "other-29454420",
        "report-29454420-1",
        "report-99999999999999999999",
        "report-9999999999999999",
    ] {
        assert_eq!(cron.tick_of(name, &child(Some(at(TICK)))), None, "{name}");
    }
}

#[test]
fn a_run_on_request_never_has_the_name_of_a_tick_or_of_another_request() {
    let cron = hourly(Api::Carillon).cron();
    let mut names = BTreeSet::new();
    for n in 0..5000 {
        let request = n.to_string();
        let run = cron.run_for(&request, at(TICK));
        assert_eq!(cron.minute_of(&run.name), None, "{}", run.name);
        let asked = Child {
            request: Some(request.as_str().into()),
            ..Child::default()
        };
        assert_eq!(cron.request_of(&run.name, &asked), Some(&*request));
        assert!(names.insert(run.name));
    }
    // The longest names still fit.
    let mut long = cron.clone();
    long.meta.owner = ObjectKey::of(CRON_JOB, "ops", "x".repeat(52), uid(1));
    assert_eq!(long.run_for("a", at(TICK)).name.len(), 63);
    assert!(long.run_at(at("9999-01-01T00:00:00Z")).name.len() <= 63);
    // Another CronJob of that name is asked anew.
    let mut other = cron.clone();
    other.meta.owner = ObjectKey::of(CRON_JOB, "ops", "report", uid(2));
    assert!(!names.contains(&other.run_for("1", at(TICK)).name));
}

#[test]
fn names_never_change_between_versions() {
    // Two versions of Carillon may lead in turn; other names would run a tick twice.
    let cron = hourly(Api::Carillon).cron();
    assert_eq!(
        cron.run_at(at("2026-01-01T11:00:59.9Z")).name,
        "report-29454420"
    );
    assert_eq!(cron.run_for("a", at(TICK)).name, "report-rs6jntz7q9");
}

#[test]
fn the_child_of_a_native_cron_job_has_no_more_than_the_time_the_owner_and_the_finalizer() {
    let cron = hourly(Api::Native).cron();
    let expected = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "report-29454420",
            "namespace": "ops",
            "labels": {"a": "b"},
            "annotations": {ANNOTATION_SCHEDULED_TIMESTAMP: TICK},
            "ownerReferences": [cron.meta.owner.reference()],
            "finalizers": [FINALIZER_RUN_TRACKING],
        },
        "spec": {"template": {"spec": {}}},
    });
    assert_eq!(body_at_tick(&cron), expected);
}

#[test]
fn the_child_of_a_cron_job_of_ours_is_labelled_and_its_pods_are_told_the_time() {
    let mut cron = hourly(Api::Carillon);
    cron.spec["jobTemplate"]["metadata"] = json!({
        "name": "mine", "finalizers": ["f"],
        "labels": {"a": "b"}, "annotations": {"c": "d"},
    });
    cron.spec["jobTemplate"]["spec"] =
        json!({"parallelism": 2, "template": {"metadata": {"annotations": {"e": "f"}}}});
    let cron = cron.cron();
    let expected = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "report-29454420",
            "namespace": "ops",
            "labels": {
                "a": "b", LABEL_CRON_JOB_NAME: "report", LABEL_CRON_JOB_UID: uid(1).to_string(),
            },
            "annotations": {"c": "d", ANNOTATION_SCHEDULED_TIMESTAMP: TICK},
            "ownerReferences": [cron.meta.owner.reference()],
            "finalizers": [FINALIZER_RUN_TRACKING],
        },
        "spec": {
            "parallelism": 2,
            "template": {
                "metadata": {"annotations": {"e": "f", ANNOTATION_SCHEDULED_TIMESTAMP: TICK}},
            },
        },
    });
    assert_eq!(body_at_tick(&cron), expected);
}

#[test]
fn a_run_on_request_has_its_request_in_place_of_a_time() {
    let cron = hourly(Api::Carillon).cron();
    let body = body(&cron, &cron.run_for("a", at(TICK)));
    let annotations = &body["metadata"]["annotations"];
    assert_eq!(annotations, &json!({ANNOTATION_RUN_NOW: "a"}));
    assert!(
        !body["spec"]
            .to_string()
            .contains(ANNOTATION_SCHEDULED_TIMESTAMP)
    );
}

#[test]
fn a_broadcast_job_template_makes_a_broadcast_job() {
    let cron = hourly(Api::Carillon).with("jobTemplate", Value::Null);
    let cron = cron.with("broadcastJobTemplate", json!({"spec": {"template": {}}}));
    let body = body_at_tick(&cron.cron());
    assert_eq!(
        (&body["apiVersion"], &body["kind"]),
        (&json!("carillon.dev/v1alpha1"), &json!("BroadcastJob"))
    );
    let pods = &body["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(pods[ANNOTATION_SCHEDULED_TIMESTAMP], TICK);
}

#[test]
fn what_is_null_in_a_template_is_as_if_it_were_not_there_and_what_is_odd_is_left_to_the_api_server()
{
    for template in [
        json!(null),
        json!({}),
        json!({"metadata": null, "spec": null}),
        json!({"metadata": {"labels": null, "annotations": null}, "spec": {"template": null}}),
        json!({"metadata": "m", "spec": "s"}),
        json!({"metadata": {"labels": "l", "annotations": []}, "spec": {"template": "t"}}),
        json!({"spec": {"template": {"metadata": []}}}),
        json!({"spec": {"template": {"metadata": {"annotations": "a"}}}}),
    ] {
        for api in [Api::Carillon, Api::Native] {
            let cron = hourly(api).with("jobTemplate", template.clone()).cron();
            let body = body_at_tick(&cron);
            let annotations = &body["metadata"]["annotations"];
            assert_eq!(annotations, &json!({ANNOTATION_SCHEDULED_TIMESTAMP: TICK}));
        }
    }
    for pods in [
        json!({}),
        json!({"metadata": null}),
        json!({"metadata": {"annotations": null}}),
    ] {
        let template = json!({"spec": {"template": pods}});
        let cron = hourly(Api::Carillon).with("jobTemplate", template).cron();
        let pods = &body_at_tick(&cron)["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(pods[ANNOTATION_SCHEDULED_TIMESTAMP], TICK);
    }
}

#[test]
fn times_are_written_as_go_writes_them() {
    for (zone, time, expected) in [
        (json!(null), TICK, "2026-01-01T11:00:00Z"),
        (json!("UTC"), TICK, "2026-01-01T11:00:00Z"),
        (json!("Asia/Kolkata"), TICK, "2026-01-01T16:30:00+05:30"),
        (json!("America/New_York"), TICK, "2026-01-01T06:00:00-05:00"),
        (
            json!("America/New_York"),
            "2026-07-01T11:00:00Z",
            "2026-07-01T07:00:00-04:00",
        ),
        // Its winter time is no other than UTC.
        (json!("Europe/London"), TICK, "2026-01-01T11:00:00Z"),
        (
            json!("Europe/London"),
            "2026-07-01T11:00:00Z",
            "2026-07-01T12:00:00+01:00",
        ),
        (json!("Atlantis"), TICK, "2026-01-01T11:00:00Z"),
    ] {
        let cron = hourly(Api::Native).with("timeZone", zone).cron();
        let body = body(&cron, &cron.run_at(at(time)));
        let written = &body["metadata"]["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP];
        assert_eq!(written, expected);
        assert_eq!(expected.parse::<Timestamp>().unwrap(), at(time));
    }
    // A zone in the schedule is not that of the CronJob.
    let cron = hourly(Api::Native).with("schedule", json!("TZ=Asia/Tokyo 0 * * * *"));
    let body = body_at_tick(&cron.cron());
    assert_eq!(
        body["metadata"]["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP],
        TICK
    );
}

#[test]
fn whatever_is_stored_can_be_read() {
    for (field, value) in [
        ("concurrencyPolicy", json!("")),
        ("concurrencyPolicy", json!(null)),
        ("missedRunPolicy", json!("Never")),
        ("startingDeadlineSeconds", json!(-1)),
        ("startingDeadlineSeconds", json!(i64::MAX)),
        ("jitterSeconds", json!(-1)),
        ("jitterSeconds", json!(i64::MAX)),
        ("successfulJobsHistoryLimit", json!(-1)),
        ("schedule", json!(null)),
        ("suspend", json!(null)),
        ("jobTemplate", json!(null)),
    ] {
        for api in [Api::Carillon, Api::Native] {
            let mut cron = hourly(api).with(field, value.clone());
            for now in [
                "2026-01-01T10:45:00Z",
                TICK,
                "2026-01-01T12:30:00Z",
                "9998-12-31T23:59:59Z",
            ] {
                for _ in 0..8 {
                    let plan = cron.plan(now);
                    cron.carry_out(&plan);
                }
            }
        }
    }
}
