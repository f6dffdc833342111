//! What users, other controllers and clocks do to a CronJob and its children.

use carillon_api::condition::{reasons as why, types};
use serde_json::{Value, json};

use super::fixture::{Fixture, at, hourly, reasons, uid, words};
use crate::condition::{self, Refusal};
use crate::cron_job::action::Action;
use crate::cron_job::{Api, Child, ChildKind, Ended, Refused, RunOutcome, Template};

/// The tick of 11:00, its child, and the one after.
const TICK: &str = "2026-01-01T11:00:00Z";
const NAME: &str = "report-29454420";
const NEXT_TICK: &str = "2026-01-01T12:00:00Z";
const NEXT: &str = "report-29454480";

/// Served since 10:45, for what an hourly CronJob says besides.
fn served(api: Api) -> Fixture {
    let mut cron = hourly(api);
    cron.settle("2026-01-01T10:45:00Z");
    cron
}

/// A child by somebody else.
fn theirs(n: u64) -> Child {
    Child {
        uid: uid(n),
        rv: 5,
        ..Child::default()
    }
}

fn message(cron: &Fixture, type_: &str) -> String {
    let cron = cron.cron();
    let condition = condition::find(&cron.status.conditions, type_);
    condition.unwrap().message.clone()
}

#[test]
fn a_write_that_is_refused_for_ever_is_told_before_what_it_stands_in_the_way_of() {
    let mut cron = served(Api::Carillon);
    cron.refusal = Some(Refusal("delete_child: denied".to_owned()));
    let told = cron.plan(TICK);
    assert_eq!((words(&told), told.again), (vec!["write_status"], true));
    cron.carry_out(&told);
    assert_eq!(message(&cron, types::STALLED), "delete_child: denied");
    // Once it is told, the rest is tried.
    let start = cron.plan(TICK);
    assert!(words(&start).contains(&"create_child"), "{start:?}");
    cron.carry_out(&start);
    assert_eq!(message(&cron, types::STALLED), "delete_child: denied");
    cron.refusal = None;
    let done = cron.plan(NEXT_TICK);
    cron.carry_out(&done);
    assert!(!condition::is_true(
        &cron.cron().status.conditions,
        types::STALLED
    ));
    // The status of a native one has no conditions.
    let mut native = served(Api::Native);
    native.refusal = Some(Refusal("delete_child: denied".to_owned()));
    assert!(words(&native.plan(TICK)).contains(&"create_child"));
}

#[test]
fn while_a_question_about_the_template_has_no_answer_the_rest_of_the_status_is_told() {
    let mut cron = hourly(Api::Carillon);
    cron.refusal = Some(Refusal("try_child: no reply".to_owned()));
    for _ in 0..2 {
        // Nobody answers.
        cron.template = Template::Unknown;
        let plan = cron.plan("2026-01-01T10:45:00Z");
        cron.carry_out(&plan);
    }
    assert_eq!(message(&cron, types::STALLED), "try_child: no reply");
    let status = cron.cron().status;
    assert_eq!(status.observed_generation, Some(1));
    assert!(status.next_schedule_time.is_some());
}

#[test]
fn while_it_is_not_known_whether_a_promise_was_kept_nothing_is_decided() {
    let mut cron = served(Api::Carillon).with("startingDeadlineSeconds", json!(1));
    let start = cron.plan(TICK);
    cron.die_after(1, &start);
    // The child was created, and the cache does not have it yet; the deadline is over.
    cron.unseen.insert(NAME.to_owned());
    for _ in 0..2 {
        let wait = cron.plan("2026-01-01T12:00:00Z");
        assert_eq!(words(&wait)[0], "confirm_gone");
        cron.carry_out(&wait);
        assert!(cron.status["lastMissedTime"].is_null() && cron.names().is_empty());
    }
    let run = Child {
        held: true,
        scheduled: Some(at(TICK)),
        ended: Some(Ended {
            outcome: RunOutcome::Succeeded,
            at: None,
        }),
        ..theirs(9)
    };
    cron.put(NAME, run);
    cron.settle("2026-01-01T12:00:00Z");
    assert_eq!(cron.names(), [NAME, NEXT]);
    assert!(cron.status["missedRuns"].is_null());
}

#[test]
fn a_run_that_may_have_been_started_is_not_started_as_another_kind() {
    for (now, request) in [(TICK, None), ("2026-01-01T10:50:00Z", Some("a"))] {
        let mut cron = served(Api::Carillon);
        cron.run_now = request.map(str::to_owned);
        let start = cron.plan(now);
        cron.die_after(1, &start);
        let name = cron.status["active"][0]["name"].clone();
        cron.unseen.insert(name.as_str().unwrap().to_owned());
        let mut cron = cron.with("broadcastJobTemplate", json!({"spec": {}}));
        let ask = cron.plan(now);
        assert!(words(&ask).contains(&"confirm_gone") && !words(&ask).contains(&"create_child"));
        // It was not.
        cron.unseen.clear();
        cron.settle(now);
        assert_eq!(cron.children.len(), 1);
        assert_eq!(
            cron.children.keys().next().unwrap().0,
            ChildKind::BroadcastJob
        );
    }
}

#[test]
fn a_run_that_comes_to_light_after_it_was_given_up_is_recorded_and_released() {
    let mut cron = served(Api::Carillon).with("startingDeadlineSeconds", json!(1));
    let start = cron.plan(TICK);
    cron.die_after(1, &start);
    // The creation is still under way when its promise is taken back.
    cron.settle("2026-01-01T11:30:00Z");
    assert_eq!(cron.status["missedRuns"], 1);
    let run = Child {
        held: true,
        deleting: true,
        scheduled: Some(at(TICK)),
        ..theirs(9)
    };
    cron.put(NAME, run);
    cron.settle("2026-01-01T11:30:00Z");
    assert!(cron.names().is_empty(), "it was released, and so is gone");
    assert_eq!(cron.status["lastScheduleTime"], TICK);
}

#[test]
fn promises_that_a_new_policy_does_not_let_be_kept_together_are_kept_one_after_the_other() {
    for policy in ["Forbid", "Replace"] {
        let mut cron = served(Api::Carillon);
        cron.run_now = Some("a".to_owned());
        let start = cron.plan(TICK);
        assert_eq!(
            words(&start),
            ["write_status", "create_child", "create_child"]
        );
        cron.die_after(1, &start);
        let mut cron = cron.with("concurrencyPolicy", json!(policy));
        cron.settle(TICK);
        assert_eq!(cron.status["handledRunNow"], json!(["a"]), "{policy}");
        let names: Vec<String> = cron.names().into_iter().map(str::to_owned).collect();
        for name in names {
            if cron.child(&name).ended.is_none() {
                cron.end(&name, RunOutcome::Succeeded, TICK);
            }
        }
        cron.settle(TICK);
        assert_eq!(cron.status["lastScheduleTime"], TICK, "{policy}");
    }
}

#[test]
fn a_child_that_another_controller_made_for_a_tick_is_the_run_of_that_tick() {
    for api in [Api::Carillon, Api::Native] {
        // By kube-controller-manager, which names the time, or by hand under that name.
        for scheduled in [Some(at(TICK)), None] {
            let mut cron = served(api).with("concurrencyPolicy", json!("Forbid"));
            cron.put(
                NAME,
                Child {
                    scheduled,
                    ..theirs(9)
                },
            );
            let adopt = cron.plan(TICK);
            assert_eq!(words(&adopt), ["write_status"]);
            cron.carry_out(&adopt);
            assert_eq!(cron.status["lastScheduleTime"], TICK);
            assert_eq!(cron.status["active"][0]["uid"], uid(9).to_string());
            let next = cron.plan("2026-01-01T12:00:00Z");
            assert_eq!(reasons(&next), ["JobAlreadyActive"]);
            // Gone, it does not run again.
            cron.children.clear();
            cron.settle("2026-01-01T11:59:00Z");
            assert!(cron.names().is_empty());
        }
    }
}

#[test]
fn two_ticks_of_one_minute_have_one_child() {
    for api in [Api::Carillon, Api::Native] {
        let mut cron = hourly(api).with("schedule", json!("@every 10s"));
        cron.settle("2026-01-01T10:30:10Z");
        let name = "report-29454390";
        assert_eq!(cron.names(), [name]);
        cron.settle("2026-01-01T10:30:20Z");
        cron.end(name, RunOutcome::Succeeded, "2026-01-01T10:30:22Z");
        cron.settle("2026-01-01T10:30:50Z");
        assert_eq!(cron.names(), [name]);
        let missed = &cron.status["missedRuns"];
        // The status of a native one has no place for it.
        assert_eq!(missed.as_i64(), (api == Api::Carillon).then_some(4));
        cron.settle("2026-01-01T10:31:00Z");
        assert_eq!(cron.names().len(), 2);
    }
}

#[test]
fn a_promise_is_for_any_tick_of_its_minute() {
    let cron = hourly(Api::Carillon).with("schedule", json!("@every 10s"));
    let mut cron = cron.with("startingDeadlineSeconds", json!(15));
    let start = cron.plan("2026-01-01T10:30:10Z");
    cron.die_after(1, &start);
    // It was created for 10:30:10; that tick is over, and another of the minute is due.
    let again = cron.plan("2026-01-01T10:30:30Z");
    assert!(again.notes.is_empty(), "{again:#?}");
    let run = Child {
        held: true,
        scheduled: Some(at("2026-01-01T10:30:10Z")),
        ..theirs(9)
    };
    cron.put("report-29454390", run);
    cron.settle("2026-01-01T10:30:30Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T10:30:10Z");
    assert_eq!(cron.status["missedRuns"], 2);
}

#[test]
fn every_keeps_its_phase_whatever_the_deadline_and_the_time_it_is_looked_at() {
    let mut cron = hourly(Api::Carillon).with("schedule", json!("@every 1h"));
    cron.spec["startingDeadlineSeconds"] = json!(60);
    for now in ["2026-01-01T10:45:00Z", "2026-01-01T11:10:00Z"] {
        cron.settle(now);
        let next = at("2026-01-01T11:30:00Z");
        assert_eq!(cron.plan(now).wake, Some(next));
        assert_eq!(cron.status["nextScheduleTime"], next.to_string());
    }
    cron.settle("2026-01-01T14:30:59Z");
    assert_eq!(cron.status["lastScheduleTime"], "2026-01-01T14:30:00Z");
    assert_eq!(cron.status["missedRuns"], 3);
    assert_eq!(cron.status["nextScheduleTime"], "2026-01-01T15:30:00Z");
}

#[test]
fn a_name_that_is_taken_loses_the_run_and_says_so() {
    for api in [Api::Carillon, Api::Native] {
        let mut cron = served(api);
        let start = cron.plan(TICK);
        cron.die_after(1, &start);
        cron.conflicts.insert(NAME.to_owned());
        let lost = cron.plan(TICK);
        assert_eq!(reasons(&lost), [why::NAME_CONFLICT]);
        assert!(lost.notes[0].message.contains("rename or delete"));
        cron.settle(TICK);
        assert!(cron.status["active"].is_null());
        assert!(cron.names().is_empty());
        cron.settle("2026-01-01T12:00:00Z");
        assert_eq!(cron.names(), [NEXT]);
    }
    let mut cron = served(Api::Carillon);
    cron.run_now = Some("a".to_owned());
    let start = cron.plan("2026-01-01T10:50:00Z");
    cron.die_after(1, &start);
    let name = cron.status["active"][0]["name"].clone();
    cron.conflicts.insert(name.as_str().unwrap().to_owned());
    let lost = cron.plan("2026-01-01T10:50:00Z");
    assert_eq!(reasons(&lost), [why::NAME_CONFLICT]);
    cron.settle("2026-01-01T10:50:00Z");
    assert!(cron.status["active"].is_null());
}

#[test]
fn only_the_names_of_children_are_believed() {
    // The template of a native CronJob may have any annotations, and everybody may edit them.
    let mut cron = served(Api::Native);
    cron.settle(TICK);
    let tick = cron.child(NAME);
    tick.request = Some("x".into());
    tick.scheduled = Some(at("2030-01-01T00:00:00Z"));
    tick.held = true;
    cron.status = json!({"active": [{"kind": "Job", "name": NAME}]});
    cron.end(NAME, RunOutcome::Succeeded, TICK);
    cron.settle(TICK);
    assert_eq!(cron.status["lastScheduleTime"], TICK);
    assert!(!cron.child(NAME).held);

    let mut cron = served(Api::Carillon);
    cron.run_now = Some("a".to_owned());
    let start = cron.plan("2026-01-01T10:50:00Z");
    cron.carry_out(&start);
    let name = cron.names()[0].to_owned();
    cron.child(&name).request = None;
    cron.settle("2026-01-01T10:50:00Z");
    assert_eq!(cron.status["handledRunNow"], json!(["a"]));
    assert!(!cron.child(&name).held);
}

#[test]
fn each_value_of_the_annotation_runs_once_however_it_is_changed() {
    let mut cron = served(Api::Carillon);
    for (value, dies) in [
        ("a", true),
        ("b", false),
        ("a", false),
        ("b", false),
        ("a", false),
    ] {
        cron.run_now = Some(value.to_owned());
        let plan = cron.plan("2026-01-01T10:50:00Z");
        if dies {
            cron.die_after(1, &plan);
        } else {
            cron.carry_out(&plan);
        }
    }
    cron.settle("2026-01-01T10:50:00Z");
    assert_eq!(cron.names().len(), 2);
    let mut ran: Vec<&str> = cron.status["handledRunNow"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, ["a", "b"]);
}

#[test]
fn a_child_that_does_not_go_is_replaced_once_and_stays_in_sight() {
    let mut cron = served(Api::Native).with("concurrencyPolicy", json!("Replace"));
    cron.settle(TICK);
    let start = cron.plan("2026-01-01T12:00:00Z");
    assert_eq!(
        words(&start),
        ["write_status", "delete_child", "create_child"]
    );
    cron.die_after(1, &start);
    let mut start = cron.plan("2026-01-01T12:00:00Z");
    assert_eq!(
        words(&start),
        ["confirm_current", "delete_child", "create_child"]
    );
    // Somebody's finalizer keeps it.
    start.steps.remove(1);
    cron.carry_out(&start);
    cron.child(NAME).deleting = true;
    cron.settle("2026-01-01T12:00:00Z");
    assert_eq!(cron.names(), [NAME, NEXT]);
    assert_eq!(cron.status["active"].as_array().unwrap().len(), 2);
    cron.children.retain(|(_, name), _| **name == *NEXT);
    let ask = cron.plan("2026-01-01T12:00:01Z");
    cron.carry_out(&ask);
    let gone = cron.plan("2026-01-01T12:00:01Z");
    assert_eq!(reasons(&gone), [""; 0], "that it was stopped was told");
    cron.settle("2026-01-01T12:00:01Z");
    assert_eq!(cron.status["active"].as_array().unwrap().len(), 1);
}

#[test]
fn a_status_that_was_edited_is_read_as_far_as_it_can_be() {
    let mut cron = served(Api::Carillon);
    cron.settle(TICK);
    let last = cron.status["lastScheduleTime"].clone();
    cron.status["active"] = json!([
        {"kind": "Job", "name": "report-29454360", "uid": "nobody"},
        {"kind": "Pod", "name": "p", "uid": uid(3).to_string()},
    ]);
    cron.status["missedRuns"] = json!(i64::MAX);
    cron.status["lastFailureTime"] = json!("yesterday");
    cron.settle("2026-01-01T15:00:00Z");
    assert_eq!(cron.status["active"].as_array().unwrap().len(), 1);
    assert_eq!(cron.status["missedRuns"], i64::MAX);
    assert_ne!(cron.status["lastScheduleTime"], last);

    // What is no uid makes a promise.
    let mut cron = served(Api::Carillon);
    cron.status["active"] = json!([{"kind": "Job", "name": NAME, "uid": ""}]);
    cron.settle(TICK);
    assert_eq!(cron.names(), [NAME]);

    // Wiped: what is still there does not run again.
    cron.status = json!({});
    cron.settle("2026-01-01T11:30:00Z");
    assert_eq!(cron.names(), [NAME]);
}

#[test]
fn what_was_decided_by_a_clock_that_was_wrong_is_told() {
    let mut cron = served(Api::Carillon);
    cron.status["lastScheduleTime"] = json!("2033-01-01T00:00:00Z");
    cron.settle(TICK);
    assert!(cron.names().is_empty());
    let message = message(&cron, types::SCHEDULED);
    assert!(message.contains("2033-01-01T00:00:00Z"), "{message}");
    assert_eq!(cron.status["nextScheduleTime"], "2033-01-01T01:00:00Z");
    // Looked at again and again, since a clock may be put right.
    let wait = cron.plan(TICK);
    assert_eq!(wait.wake, Some(at("2026-01-01T12:00:00Z")));
    // A new one with a share of its jitter is no such case.
    let mut cron = hourly(Api::Carillon).with("jitterSeconds", json!(86_400));
    cron.settle("2026-01-01T10:45:00Z");
    assert_eq!(self::message(&cron, types::SCHEDULED), "");
}

#[test]
fn the_condition_that_needs_a_person_stands_first() {
    let mut cron = served(Api::Carillon);
    cron.settle(TICK);
    cron.template = Template::Refused(Refused {
        reason: why::QUOTA_EXCEEDED,
        message: "exceeded quota".to_owned(),
    });
    let plan = cron.plan("2026-01-01T12:00:00Z");
    cron.carry_out(&plan);
    let first = &cron.status["conditions"][0];
    assert_eq!(
        (&first["type"], &first["status"]),
        (&json!("Stalled"), &json!("True"))
    );
}

#[test]
fn a_promise_whose_child_is_refused_is_taken_back_and_made_again_when_it_is_not() {
    let mut cron = served(Api::Carillon);
    let start = cron.plan(TICK);
    cron.die_after(1, &start);
    cron.template = Template::Refused(Refused {
        reason: why::QUOTA_EXCEEDED,
        message: "exceeded quota".to_owned(),
    });
    let plan = cron.plan(TICK);
    assert_eq!(words(&plan), ["confirm_gone", "try_child", "write_status"]);
    cron.absent.insert(NAME.to_owned());
    let plan = cron.plan(TICK);
    assert_eq!(words(&plan), ["try_child", "write_status"]);
    cron.carry_out(&plan);
    assert!(cron.status["active"].is_null());
    cron.settle(TICK);
    assert_eq!(cron.names(), [NAME]);
}

#[test]
fn a_requested_run_whose_child_is_refused_comes_when_it_is_not() {
    let mut cron = served(Api::Carillon);
    cron.run_now = Some("a".to_owned());
    let start = cron.plan("2026-01-01T10:10:00Z");
    cron.die_after(1, &start);
    let refused = Template::Refused(Refused {
        reason: why::QUOTA_EXCEEDED,
        message: "exceeded quota".to_owned(),
    });
    for at in ["2026-01-01T10:10:01Z", "2026-01-01T10:10:02Z"] {
        cron.template = refused.clone();
        let plan = cron.plan(at);
        cron.carry_out(&plan);
        for entry in cron.status["active"]
            .as_array()
            .cloned()
            .unwrap_or_default()
        {
            cron.absent
                .insert(entry["name"].as_str().unwrap().to_owned());
        }
    }
    cron.template = refused.clone();
    let plan = cron.plan("2026-01-01T10:10:03Z");
    cron.carry_out(&plan);
    cron.template = Template::Accepted;
    cron.settle("2026-01-01T10:10:30Z");
    assert_eq!(cron.names().len(), 1);
}

#[test]
fn of_years_of_missed_minutes_the_last_is_made_up_for_at_once() {
    let mut cron = hourly(Api::Carillon).with("schedule", json!("* * * * *"));
    let begin = std::time::Instant::now();
    cron.settle("2031-01-01T00:00:00Z");
    assert_eq!(cron.status["lastScheduleTime"], "2031-01-01T00:00:00Z");
    // More are not counted one by one.
    assert_eq!(cron.status["missedRuns"], 10_000);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    let plan = cron.plan("2031-01-01T00:00:01Z");
    assert!(plan.steps.is_empty() && plan.notes.is_empty());
}

#[test]
fn suspended_nothing_wakes_it_and_a_request_runs_all_the_same() {
    let mut cron = served(Api::Carillon).with("suspend", json!(true));
    cron.run_now = Some("a".to_owned());
    cron.settle("2026-01-01T15:10:00Z");
    assert_eq!(cron.names().len(), 1);
    assert_eq!(cron.status["handledRunNow"], json!(["a"]));
    assert!(cron.status["lastScheduleTime"].is_null() && cron.status["nextScheduleTime"].is_null());
    assert_eq!(cron.plan("2026-01-01T15:10:00Z").wake, None);
}

#[test]
fn a_cron_job_that_is_being_deleted_starts_nothing_and_holds_nothing() {
    let mut cron = served(Api::Carillon);
    let start = cron.plan(TICK);
    cron.carry_out(&start);
    cron.deleting = true;
    cron.settle("2026-01-01T12:00:00Z");
    assert_eq!(cron.names(), [NAME]);
    assert!(!cron.child(NAME).held);
}

#[test]
fn the_plan_does_not_depend_on_how_often_it_is_made() {
    let mut cron = served(Api::Carillon);
    cron.settle(TICK);
    let (once, twice) = (
        cron.plan("2026-01-01T11:20:00Z"),
        cron.plan("2026-01-01T11:40:00Z"),
    );
    assert!(once.steps.is_empty());
    assert_eq!(once, twice);
    let plan = cron.plan("2026-01-01T12:00:00Z");
    let creates = plan.steps.iter().flat_map(|step| &step.actions);
    assert_eq!(
        creates
            .filter(|action| matches!(action, Action::CreateChild(_)))
            .count(),
        1
    );
}

#[test]
fn the_template_of_a_new_generation_is_tried_long_before_its_first_run() {
    for (api, tried) in [(Api::Carillon, true), (Api::Native, false)] {
        let mut cron = hourly(api);
        cron.template = Template::Unknown;
        let plan = cron.plan("2026-01-01T10:45:00Z");
        assert_eq!(words(&plan).contains(&"try_child"), tried, "{api:?}");
    }
}
