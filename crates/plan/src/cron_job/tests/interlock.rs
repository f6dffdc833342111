//! Each rule of the interlock refuses a plan that was spoilt by hand. That it lets good plans pass
//! is checked wherever a plan is made in these tests.

use carillon_api::CronJobStatus;
use carillon_api::condition::types;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixture::{Fixture, at, hourly, uid};
use crate::condition::{self, whole_seconds};
use crate::cron_job::action::{Act, Action, OnError, Plan, Run, Step, Why};
use crate::cron_job::{Api, Child, ChildKind, RunOutcome};
use crate::interlock::cron_job::{refuse, rules};
use crate::interlock::{TRIPPED_RECHECK, Trip};
use crate::uid::Uid;

const TICK: &str = "2026-01-01T11:00:00Z";
const NEXT: &str = "2026-01-01T12:00:00Z";
const NAME: &str = "report-29454420";

/// The good plan of `cron`, which passes, after `spoil`, which does not.
fn trips(cron: &Fixture, now: &str, rule: &str, spoil: impl FnOnce(&mut Plan)) {
    let mut plan = cron.plan(now);
    spoil(&mut plan);
    let trip = cron.verify(&plan, now).expect_err(rule);
    assert_eq!(trip.rule, rule, "{trip}");
    assert!(rules::ALL.contains(&trip.rule) && !trip.what.is_empty());
}

fn status(plan: &mut Plan) -> &mut CronJobStatus {
    let mut actions = plan.steps.iter_mut().flat_map(|step| &mut step.actions);
    let found = actions.find_map(|action| match action {
        Action::WriteStatus(status) => Some(status),
        _ => None,
    });
    found.unwrap()
}

fn run(plan: &mut Plan) -> &mut Run {
    let mut actions = plan.steps.iter_mut().flat_map(|step| &mut step.actions);
    let found = actions.find_map(|action| match action {
        Action::CreateChild(run) => Some(run),
        _ => None,
    });
    found.unwrap()
}

fn drop_steps_with(plan: &mut Plan, word: &str) {
    plan.steps
        .retain(|step| step.actions.iter().all(|action| action.word() != word));
}

fn put_first(plan: &mut Plan, action: Action) {
    plan.steps.insert(0, Step::needed(vec![action]));
}

fn delete(cron: &mut Fixture, name: &str, why: Why) -> Action {
    let child = cron.child(name);
    Action::DeleteChild {
        kind: ChildKind::Job,
        name: name.to_owned(),
        uid: child.uid,
        rv: child.rv,
        why,
    }
}

fn release(cron: &mut Fixture, name: &str) -> Action {
    Action::ReleaseChild {
        kind: ChildKind::Job,
        name: name.to_owned(),
        uid: cron.child(name).uid,
    }
}

/// Served, and about to start the run of 11:00.
fn fresh() -> Fixture {
    let mut cron = hourly(Api::Carillon);
    cron.settle("2026-01-01T10:45:00Z");
    cron
}

/// The run of 11:00 is promised.
fn promised() -> Fixture {
    let mut cron = fresh();
    let start = cron.plan(TICK);
    cron.die_after(1, &start);
    cron
}

/// It goes on, recorded and released.
fn running(policy: &str) -> Fixture {
    let mut cron = fresh().with("concurrencyPolicy", json!(policy));
    cron.settle(TICK);
    cron
}

#[test]
fn a_child_is_created_only_for_a_promise_that_is_stored_before() {
    let (cron, rule) = (fresh(), rules::PROMISED_FIRST);
    trips(&cron, TICK, rule, |plan| {
        drop_steps_with(plan, "write_status");
    });
    trips(&cron, TICK, rule, |plan| plan.steps.swap(0, 1));
    trips(&cron, TICK, rule, |plan| {
        plan.steps[0].on_error = OnError::GoOn;
    });
    trips(&cron, TICK, rule, |plan| status(plan).active.clear());
    trips(&cron, TICK, rule, |plan| run(plan).name.push('1'));
    trips(&cron, TICK, rule, |plan| {
        run(plan).kind = ChildKind::BroadcastJob;
    });
    // A stored promise is kept only by who sees the present.
    let cron = promised();
    trips(&cron, TICK, rule, |plan| {
        drop_steps_with(plan, "confirm_current");
    });
    trips(&cron, TICK, rule, |plan| {
        plan.steps[0].on_error = OnError::GoOn;
    });
}

#[test]
fn a_run_has_one_child() {
    let mut cron = promised();
    let twice = |plan: &mut Plan| {
        let again = run(plan).clone();
        plan.steps
            .push(Step::wanted(vec![Action::CreateChild(again)]));
    };
    trips(&cron, TICK, rules::ONE_PER_RUN, twice);
    let both = fresh();
    trips(&both, TICK, rules::ONE_PER_RUN, |plan| {
        let active = &mut status(plan).active;
        let mut other = active[0].clone();
        other.kind = "BroadcastJob".to_owned();
        active.push(other);
    });
    let plan = cron.plan(TICK);
    cron.put(NAME, Child::default());
    let trip = cron.verify(&plan, TICK).unwrap_err();
    assert_eq!(trip.rule, rules::ONE_PER_RUN);
}

#[test]
fn nothing_starts_beside_another_run_where_the_policy_is_not_allow() {
    for policy in ["Forbid", "Replace"] {
        // The plan for Allow is none for another policy.
        let cron = running("Allow");
        let plan = cron.plan(NEXT);
        let cron = cron.with("concurrencyPolicy", json!(policy));
        let trip = cron.verify(&plan, NEXT).unwrap_err();
        assert_eq!(trip.rule, rules::CONCURRENCY, "{policy}");
    }
    let mut cron = running("Replace");
    let rule = rules::CONCURRENCY;
    trips(&cron, NEXT, rule, |plan| {
        drop_steps_with(plan, "delete_child");
    });
    trips(&cron, NEXT, rule, |plan| {
        let create = plan.steps.len() - 1;
        plan.steps.swap(create - 1, create);
    });
    // Nor beside one that is not seen.
    let plan = cron.plan(NEXT);
    cron.children.clear();
    assert!(cron.verify(&plan, NEXT).is_err());
}

#[test]
fn what_is_replaced_is_of_its_own_kind_whoever_else_has_its_name() {
    let mut cron = fresh().with("concurrencyPolicy", json!("Replace"));
    cron.spec["broadcastJobTemplate"] = json!({"spec": {}});
    cron.settle(TICK);
    cron.put(NAME, Child::default());
    // It passes.
    let plan = cron.plan(NEXT);
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let words: Vec<&str> = actions.map(Act::word).collect();
    assert_eq!(words, ["write_status", "delete_child", "create_child"]);
}

#[test]
fn nothing_starts_out_of_its_time() {
    let cron = fresh();
    let plan = cron.plan(TICK);
    let refuses = |cron: &Fixture, now: &str| {
        let trip = cron.verify(&plan, now).unwrap_err();
        assert_eq!(trip.rule, rules::STARTS, "{trip}");
    };
    refuses(&cron, "2026-01-01T10:59:59Z");
    refuses(&cron.clone().with("suspend", json!(true)), TICK);
    refuses(&cron.clone().with("schedule", json!("no schedule")), TICK);
    refuses(&cron.clone().with("jitterSeconds", json!(86_400)), TICK);
    let late = cron.clone().with("startingDeadlineSeconds", json!(10));
    refuses(&late, "2026-01-01T11:00:12Z");
    let mut deleting = cron.clone();
    deleting.deleting = true;
    refuses(&deleting, TICK);
    // A run on request may start while it is suspended, but not of one that is being deleted.
    let mut asked = fresh().with("suspend", json!(true));
    asked.run_now = Some("a".to_owned());
    let plan = asked.plan(TICK);
    for other in [None, Some("b"), Some(super::fixture::OF_ANOTHER)] {
        let mut not_asked = asked.clone();
        not_asked.run_now = other.map(str::to_owned);
        let trip = not_asked.verify(&plan, TICK).unwrap_err();
        assert_eq!(trip.rule, rules::STARTS, "{other:?}");
    }
    asked.deleting = true;
    assert_eq!(asked.verify(&plan, TICK).unwrap_err().rule, rules::STARTS);
}

#[test]
fn times_and_counts_of_the_status_do_not_go_back() {
    let mut cron = running("Allow");
    cron.status["missedRuns"] = json!(3);
    for field in ["lastSuccessfulTime", "lastFailureTime", "lastMissedTime"] {
        cron.status[field] = json!("2026-01-01T10:00:00Z");
    }
    let spoils: [fn(&mut CronJobStatus); 6] = [
        |status| status.missed_runs = 2,
        |status| status.last_schedule_time = None,
        |status| status.last_schedule_time = Some(whole_seconds(at("2026-01-01T10:59:00Z"))),
        |status| status.last_successful_time = None,
        |status| status.last_failure_time = None,
        |status| status.last_missed_time = Some(whole_seconds(at("2026-01-01T09:00:00Z"))),
    ];
    for spoil in spoils {
        trips(&cron, NEXT, rules::FORWARD, |plan| spoil(status(plan)));
    }
}

#[test]
fn a_schedule_comes_in_force_by_an_edit_only_and_starts_nothing_for_a_time_before() {
    let cron = running("Allow");
    let noted = |status: &mut CronJobStatus| status.schedule_in_force.clone().unwrap();
    let spoils: [fn(&mut CronJobStatus); 4] = [
        |status| status.schedule_in_force = None,
        |status| status.schedule_in_force.as_mut().unwrap().since = whole_seconds(at(TICK)),
        |status| status.schedule_in_force.as_mut().unwrap().schedule = "5 * * * *".to_owned(),
        |status| status.schedule_in_force.as_mut().unwrap().time_zone = Some("UTC".to_owned()),
    ];
    for spoil in spoils {
        trips(&cron, NEXT, rules::FORWARD, |plan| spoil(status(plan)));
    }
    // An edit is put in force as it is, and not later than now; nor does the former one stay.
    let mut edited = cron.clone();
    edited.edit("schedule", json!("0 */2 * * *"));
    trips(&edited, NEXT, rules::FORWARD, |plan| {
        let mut noted = noted(status(plan));
        noted.since = whole_seconds(at(NEXT) + SignedDuration::from_secs(1));
        status(plan).schedule_in_force = Some(noted);
    });
    let former = cron.cron().status.schedule_in_force;
    trips(&edited, NEXT, rules::STARTS, |plan| {
        status(plan).schedule_in_force = former;
    });
    // Its time is that of the edit.
    trips(&edited, NEXT, rules::STARTS, |plan| {
        let mut noted = noted(status(plan));
        noted.since = whole_seconds(at(NEXT));
        status(plan).schedule_in_force = Some(noted);
    });
    // One that is not noted is that since the creation, unless it may have been edited.
    let mut fresh = hourly(Api::Carillon);
    trips(&fresh, TICK, rules::FORWARD, |plan| {
        let mut noted = noted(status(plan));
        noted.since = whole_seconds(at("2026-01-01T10:59:59Z"));
        status(plan).schedule_in_force = Some(noted);
    });
    fresh.generation = 2;
    let plan = fresh.plan("2026-01-01T10:59:00Z");
    assert_eq!(fresh.verify(&plan, TICK), Ok(()));
}

#[test]
fn no_run_that_may_be_there_is_forgotten_and_none_that_is_not_is_recorded() {
    let rule = rules::RECORD;
    let trips_writing = |cron: &Fixture, spoil: fn(&mut CronJobStatus)| {
        let mut status = cron.cron().status;
        spoil(&mut status);
        trips(cron, TICK, rule, |plan| {
            put_first(plan, Action::WriteStatus(Box::new(status)));
        });
    };
    // A promise, of which nobody has asked what became.
    trips_writing(&promised(), |status| status.active.clear());
    // A run that goes on; it is there, and is not seen.
    trips_writing(&running("Allow"), |status| status.active.clear());
    let mut unseen = running("Allow");
    unseen.children.clear();
    trips_writing(&unseen, |status| status.active.clear());
    // A run that nobody has seen.
    trips_writing(&promised(), |status| {
        status.active[0].uid = Some(uid(77).to_string());
    });
    trips_writing(&fresh(), |status| {
        status.last_schedule_time = Some(whole_seconds(at(TICK)));
    });
}

/// Three children have ended and are kept; the oldest is that of 11:00.
fn three_ended(held: bool) -> Fixture {
    let mut cron = fresh();
    for now in [TICK, NEXT, "2026-01-01T13:00:00Z"] {
        cron.settle(now);
        let last = cron.names().pop().unwrap().to_owned();
        cron.end(&last, RunOutcome::Succeeded, now);
    }
    cron.settle("2026-01-01T13:01:00Z");
    cron.child(NAME).held = held;
    cron
}

fn with_deletion(mut cron: Fixture, why: Why, on_error: OnError) -> Result<(), Trip> {
    let now = "2026-01-01T13:01:00Z";
    let mut plan = Plan::default();
    plan.steps.push(Step {
        on_error,
        ..Step::needed(vec![delete(&mut cron, NAME, why)])
    });
    cron.verify(&plan, now)
}

#[test]
fn children_are_deleted_by_version_and_for_a_reason_only() {
    let refused = |cron: Fixture, why, on_error| {
        let trip = with_deletion(cron, why, on_error).unwrap_err();
        assert_eq!(trip.rule, rules::DELETE, "{trip}");
    };
    let ended = || three_ended(false);
    let limited = || ended().with("successfulJobsHistoryLimit", json!(2));
    assert_eq!(
        with_deletion(limited(), Why::History, OnError::GoOn),
        Ok(())
    );
    // The limit keeps it, or there is none.
    refused(ended(), Why::History, OnError::GoOn);
    let endless = ended().with("successfulJobsHistoryLimit", Value::Null);
    refused(endless, Why::History, OnError::GoOn);
    // It is held, still active, or has not ended.
    let mut held = limited();
    held.child(NAME).held = true;
    refused(held, Why::History, OnError::GoOn);
    let mut active = limited();
    let uid = active.child(NAME).uid.to_string();
    active.status["active"] = json!([{"kind": "Job", "name": NAME, "uid": uid}]);
    refused(active, Why::History, OnError::GoOn);
    let mut running = limited();
    running.child(NAME).ended = None;
    refused(running, Why::History, OnError::GoOn);
    // A retry of it is open.
    let mut retried = limited();
    retried.child(NAME).retried = true;
    refused(retried, Why::History, OnError::GoOn);
    // Nothing replaces it, or what does would not wait.
    refused(ended(), Why::Replaced, OnError::Stop);
    let replace = ended().with("concurrencyPolicy", json!("Replace"));
    refused(replace, Why::Replaced, OnError::GoOn);
    // It is another one by now.
    for change in [
        |child: &mut Child| child.rv += 1,
        |child: &mut Child| child.uid = Uid::MAX,
    ] {
        let mut cron = limited();
        let judged = delete(&mut cron, NAME, Why::History);
        change(cron.child(NAME));
        let mut plan = Plan::default();
        plan.steps.push(Step::wanted(vec![judged]));
        let trip = cron.verify(&plan, "2026-01-01T13:01:00Z").unwrap_err();
        assert_eq!(trip.rule, rules::DELETE);
    }
    // One more than are too many.
    let mut cron = limited();
    let second = delete(&mut cron, "report-29454480", Why::History);
    let first = delete(&mut cron, NAME, Why::History);
    let mut plan = Plan::default();
    plan.steps.push(Step::wanted(vec![first, second]));
    let trip = cron.verify(&plan, "2026-01-01T13:01:00Z").unwrap_err();
    assert_eq!(trip.rule, rules::DELETE);
}

#[test]
fn a_child_that_is_listed_as_active_under_another_name_is_kept() {
    let deletes = |cron: &mut Fixture| {
        let plan = cron.plan("2026-01-01T13:01:00Z");
        let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
        actions.any(|action| matches!(action, Action::DeleteChild { .. }))
    };
    let mut cron = three_ended(false).with("successfulJobsHistoryLimit", json!(2));
    assert!(deletes(&mut cron));
    let uid = cron.child(NAME).uid.to_string();
    cron.status["active"] = json!([{"kind": "Job", "name": "edited", "uid": uid}]);
    assert!(!deletes(&mut cron));
}

#[test]
fn a_child_is_released_only_when_its_run_is_stored() {
    let verdict = |mut cron: Fixture| {
        let mut plan = Plan::default();
        put_first(&mut plan, release(&mut cron, NAME));
        cron.verify(&plan, TICK).map_err(|trip| trip.rule)
    };
    let held = Child {
        uid: uid(9),
        held: true,
        scheduled: Some(at(TICK)),
        ..Child::default()
    };
    // Promised, and not recorded; or only later in the plan, or by a step that may fail.
    let mut cron = promised();
    cron.put(NAME, held.clone());
    assert_eq!(verdict(cron.clone()), Err(rules::RELEASE));
    trips(&cron, TICK, rules::RELEASE, |plan| plan.steps.reverse());
    trips(&cron, TICK, rules::RELEASE, |plan| {
        plan.steps[0].on_error = OnError::GoOn;
    });
    // The one that is recorded is another.
    let mut other = cron.clone();
    other.status["active"][0]["uid"] = json!(uid(8).to_string());
    assert_eq!(verdict(other), Err(rules::RELEASE));
    // Neither active nor over, as far as the status says.
    let mut stray = fresh();
    stray.put(NAME, held.clone());
    assert_eq!(verdict(stray.clone()), Err(rules::RELEASE));
    let mut asked = fresh();
    asked.run_now = Some("a".to_owned());
    let start = asked.plan("2026-01-01T10:50:00Z");
    asked.carry_out(&start);
    let name = asked.names()[0].to_owned();
    asked.status["active"].take();
    let mut plan = Plan::default();
    put_first(&mut plan, release(&mut asked, &name));
    assert_eq!(asked.verify(&plan, TICK).unwrap_err().rule, rules::RELEASE);
    asked.status["handledRunNow"] = json!(["a"]);
    assert_eq!(asked.verify(&plan, TICK), Ok(()));
    // All of them are released when the CronJob goes.
    stray.deleting = true;
    assert_eq!(verdict(stray), Ok(()));
    // What is not there is not released.
    let mut plan = Plan::default();
    put_first(&mut plan, release(&mut cron, NAME));
    cron.children.clear();
    assert_eq!(cron.verify(&plan, TICK).unwrap_err().rule, rules::RELEASE);
}

#[test]
fn a_refused_plan_is_told_and_planned_again_and_writes_nothing_else() {
    let trip = Trip {
        rule: rules::ONE_PER_RUN,
        what: "it is there already".to_owned(),
    };
    let mut cron = running("Allow");
    let plan = refuse(&cron.cron(), &trip, at(NEXT));
    assert_eq!(plan.wake, Some(at(NEXT) + TRIPPED_RECHECK));
    assert!(plan.notes[0].message.contains("it is there already"));
    cron.carry_out(&plan);
    let stored = cron.cron().status;
    assert_eq!(stored.conditions[0].type_, types::STALLED);
    assert!(condition::is_true(&stored.conditions, types::STALLED));
    assert!(refuse(&cron.cron(), &trip, at(NEXT)).steps.is_empty());
    // A native one has no conditions.
    let native = hourly(Api::Native).cron();
    assert!(refuse(&native, &trip, at(NEXT)).steps.is_empty());
}

#[test]
fn a_deadline_counts_from_when_the_run_was_due_with_its_jitter() {
    let mut cron = fresh().with("jitterSeconds", json!(3600));
    cron.spec["startingDeadlineSeconds"] = json!(10);
    let due = at(TICK) + cron.cron().offset;
    let in_time = (due + SignedDuration::from_secs(9)).to_string();
    let plan = cron.plan(&in_time);
    assert!(
        plan.steps
            .iter()
            .flat_map(|step| &step.actions)
            .any(|a| a.word() == "create_child")
    );
    let late = (due + SignedDuration::from_secs(12)).to_string();
    assert_eq!(cron.verify(&plan, &late).unwrap_err().rule, rules::STARTS);
}
