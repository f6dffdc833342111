//! One look at a CronJob, as in upstream's test of its controller: what it starts and stops, what it
//! says, and when it looks again. Its hours are ours, on another day.

use carillon_api::condition::reasons as why;
use serde_json::json;

use crate::cron_job::action::{Act, Action};
use crate::cron_job::tests::fixture::{Fixture, at, hourly, reasons, uid, words};
use crate::cron_job::{Api, Child, Ended, RunOutcome};

pub(super) const BEFORE_PRIOR_HOUR: &str = "2026-01-01T08:59:00Z";
const PRIOR_HOUR: &str = "2026-01-01T09:00:00Z";
const BEFORE_HOUR: &str = "2026-01-01T09:59:00Z";
pub(super) const HOUR: &str = "2026-01-01T10:00:00Z";
pub(super) const AFTER_HOUR: &str = "2026-01-01T10:01:00Z";
pub(super) const NEXT_HOUR: &str = "2026-01-01T11:00:00Z";
const WEEK_BEFORE: &str = "2025-12-25T10:00:00Z";
/// The children of 09:00 and 10:00.
const PRIOR: &str = "report-29454300";
const THIS: &str = "report-29454360";

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
pub(super) const BOTH: [Api; 2] = [Api::Native, Api::Carillon];

/// What one look leads to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) starts: usize,
    pub(super) stops: usize,
    pub(super) active: usize,
    /// Reasons of what is told.
    pub(super) told: Vec<&'static str>,
    pub(super) wakes: Option<&'static str>,
}

pub(super) fn never_ran(api: Api) -> Fixture {
    let mut cron = hourly(api);
    cron.created = at(BEFORE_HOUR);
    cron
}

/// It ran an hour before.
pub(super) fn ran(api: Api) -> Fixture {
    let mut cron = hourly(api);
    cron.created = at(BEFORE_PRIOR_HOUR);
    cron.status = json!({"lastScheduleTime": PRIOR_HOUR});
    cron
}

pub(super) fn list(cron: &mut Fixture, name: &str) {
    cron.status["active"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "namespace": "ops", "name": name,
        "uid": uid(9).to_string(),
    }]);
}

pub(super) fn child(scheduled: &str) -> Child {
    Child {
        uid: uid(9),
        rv: 5,
        scheduled: Some(at(scheduled)),
        ..Child::default()
    }
}

/// The run of an hour before has not ended.
fn active(api: Api) -> Fixture {
    let mut cron = ran(api);
    cron.put(PRIOR, child(PRIOR_HOUR));
    list(&mut cron, PRIOR);
    cron
}

/// It has, and that is not recorded yet.
fn done(api: Api) -> Fixture {
    let mut cron = active(api);
    cron.child(PRIOR).ended = Some(Ended {
        outcome: RunOutcome::Succeeded,
        at: Some(at("2026-01-01T09:02:00Z")),
    });
    cron
}

/// Looks until there is nothing to do; what is told is that of the first look.
pub(super) fn look(cron: &mut Fixture, now: &str) -> Look {
    let first = cron.plan(now);
    let mut look = Look {
        told: reasons(&first),
        ..Look::default()
    };
    if cron.api == Api::Carillon {
        // Counting is ours alone.
        look.told.retain(|reason| *reason != "MissSchedule");
    }
    let mut plan = first;
    for _ in 0..20 {
        if plan.steps.is_empty() {
            let cron = cron.cron();
            look.active = cron.status.active.len();
            let wakes = plan.wake.map(|wake| wake.to_string());
            look.wakes = wakes.map(|wake| &*wake.leak());
            return look;
        }
        look.starts += words(&plan)
            .iter()
            .filter(|w| **w == "create_child")
            .count();
        look.stops += words(&plan)
            .iter()
            .filter(|w| **w == "delete_child")
            .count();
        cron.carry_out(&plan);
        plan = cron.plan(now);
    }
    panic!("it never settles: {plan:#?}");
}

/// It waits for the next hour, having done nothing.
pub(super) fn waits(wakes: &'static str) -> Look {
    Look {
        wakes: Some(wakes),
        ..Look::default()
    }
}

/// It starts one run.
pub(super) fn starts(wakes: &'static str) -> Look {
    Look {
        starts: 1,
        active: 1,
        wakes: Some(wakes),
        ..Look::default()
    }
}

pub(super) fn missed(cron: &Fixture, count: i64) {
    let expected = if cron.api == Api::Native { 0 } else { count };
    assert_eq!(cron.cron().status.missed_runs, expected);
}

pub(super) fn no_schedule() {
    for (api, told) in [
        (Api::Native, "UnparseableSchedule"),
        (Api::Carillon, why::INVALID_SCHEDULE),
    ] {
        for policy in POLICIES {
            let cron = never_ran(api).with("concurrencyPolicy", json!(policy));
            let mut cron = cron.with("schedule", json!("no schedule at all"));
            let expected = Look {
                told: vec![told],
                ..Look::default()
            };
            assert_eq!(look(&mut cron, AFTER_HOUR), expected);
        }
    }
}

pub(super) fn no_zone() {
    for api in BOTH {
        let mut cron = never_ran(api).with("timeZone", json!("Europe/Atlantis"));
        let expected = Look {
            told: vec![why::UNKNOWN_TIME_ZONE],
            ..Look::default()
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
    }
}

pub(super) fn not_time() {
    for api in BOTH {
        for policy in POLICIES {
            let mut cron = never_ran(api).with("concurrencyPolicy", json!(policy));
            assert_eq!(look(&mut cron, BEFORE_HOUR), waits(HOUR));
        }
    }
}

pub(super) fn not_time_in_zone() {
    for api in BOTH {
        // Its hours begin at half past ours.
        let mut cron = never_ran(api).with("timeZone", json!("Asia/Kolkata"));
        assert_eq!(look(&mut cron, AFTER_HOUR), waits("2026-01-01T10:30:00Z"));
    }
}

pub(super) fn is_time() {
    for api in BOTH {
        for policy in POLICIES {
            let mut cron = never_ran(api).with("concurrencyPolicy", json!(policy));
            assert_eq!(look(&mut cron, AFTER_HOUR), starts(NEXT_HOUR));
            assert_eq!(cron.names(), [THIS]);
            assert_eq!(cron.status["lastScheduleTime"], HOUR);
        }
    }
}

pub(super) fn is_time_in_zone() {
    for api in BOTH {
        let mut cron = never_ran(api).with("timeZone", json!("Asia/Kolkata"));
        let next = "2026-01-01T11:30:00Z";
        assert_eq!(look(&mut cron, "2026-01-01T10:30:00Z"), starts(next));
    }
}

pub(super) fn inline_zone() {
    for (api, told) in [
        (Api::Native, vec!["UnsupportedSchedule"]),
        (Api::Carillon, vec![]),
    ] {
        let cron = never_ran(api).with("timeZone", json!("Asia/Kolkata"));
        let mut cron = cron.with("schedule", json!("TZ=UTC 0 * * * *"));
        let expected = Look {
            told,
            ..starts(NEXT_HOUR)
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
    }
}

pub(super) fn suspended() {
    for api in BOTH {
        let mut cron = never_ran(api).with("suspend", json!(true));
        assert_eq!(look(&mut cron, AFTER_HOUR), Look::default());
        assert_eq!(cron.status == json!({}), api == Api::Native);
    }
}

pub(super) fn past_deadline() {
    for api in BOTH {
        let mut cron = never_ran(api).with("startingDeadlineSeconds", json!(10));
        assert_eq!(look(&mut cron, AFTER_HOUR), waits(NEXT_HOUR));
        missed(&cron, 1);
    }
}

pub(super) fn not_past_deadline() {
    for api in BOTH {
        let mut cron = never_ran(api).with("startingDeadlineSeconds", json!(1_000_000));
        assert_eq!(look(&mut cron, AFTER_HOUR), starts(NEXT_HOUR));
    }
}

pub(super) fn done_not_time() {
    for api in BOTH {
        let mut cron = done(api);
        let expected = Look {
            told: vec!["SawCompletedJob"],
            ..waits(HOUR)
        };
        assert_eq!(look(&mut cron, BEFORE_HOUR), expected);
        assert_eq!(cron.status["lastSuccessfulTime"], "2026-01-01T09:02:00Z");
    }
}

pub(super) fn done_suspended() {
    for api in BOTH {
        let mut cron = done(api).with("suspend", json!(true));
        let expected = Look {
            told: vec!["SawCompletedJob"],
            ..Look::default()
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
    }
}

pub(super) fn exists_already() {
    for api in BOTH {
        let mut cron = done(api);
        let start = cron.plan(AFTER_HOUR);
        cron.die_after(1, &start);
        // It is there, so that creating it again changes nothing; then it is seen.
        let again = cron.plan(AFTER_HOUR);
        assert_eq!(words(&again), ["confirm_current", "create_child"]);
        cron.put(
            THIS,
            Child {
                held: true,
                uid: uid(10),
                ..child(HOUR)
            },
        );
        cron.settle(AFTER_HOUR);
        assert_eq!(cron.names(), [PRIOR, THIS]);
        assert_eq!(cron.status["lastScheduleTime"], HOUR);
    }
}

pub(super) fn done_unlisted() {
    for api in BOTH {
        let mut cron = done(api);
        cron.status["active"].take();
        assert_eq!(look(&mut cron, AFTER_HOUR), starts(NEXT_HOUR));
        assert_eq!(cron.status["lastSuccessfulTime"], "2026-01-01T09:02:00Z");
    }
}

pub(super) fn active_allow() {
    for api in BOTH {
        let expected = Look {
            active: 2,
            ..starts(NEXT_HOUR)
        };
        assert_eq!(look(&mut active(api), AFTER_HOUR), expected);
    }
}

pub(super) fn active_forbid() {
    for api in BOTH {
        let mut cron = active(api).with("concurrencyPolicy", json!("Forbid"));
        let plan = cron.plan(AFTER_HOUR);
        assert!(plan.notes.iter().all(|note| !note.warning));
        let expected = Look {
            active: 1,
            told: vec!["JobAlreadyActive"],
            ..waits(NEXT_HOUR)
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
        // Not given up: it starts when the other has ended.
        cron.end(PRIOR, RunOutcome::Succeeded, AFTER_HOUR);
        cron.settle(AFTER_HOUR);
        assert_eq!(cron.names(), [PRIOR, THIS]);
    }
}

pub(super) fn active_replace() {
    for api in BOTH {
        let mut cron = active(api).with("concurrencyPolicy", json!("Replace"));
        let expected = Look {
            stops: 1,
            ..starts(NEXT_HOUR)
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
        assert_eq!(cron.names(), [THIS]);
    }
}

pub(super) fn active_unseen_replace() {
    for api in BOTH {
        let mut cron = active(api).with("concurrencyPolicy", json!("Replace"));
        cron.children.clear();
        let plan = cron.plan(AFTER_HOUR);
        assert_eq!(words(&plan)[0], "confirm_gone");
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        let changes = |action: &&Action| ["create_child", "delete_child"].contains(&action.word());
        assert_eq!(actions.filter(changes).count(), 0);
    }
}

pub(super) fn active_past_deadline() {
    for api in BOTH {
        for policy in POLICIES {
            let cron = active(api).with("concurrencyPolicy", json!(policy));
            let mut cron = cron.with("startingDeadlineSeconds", json!(10));
            let expected = Look {
                active: 1,
                ..waits(NEXT_HOUR)
            };
            assert_eq!(look(&mut cron, AFTER_HOUR), expected);
            missed(&cron, 1);
        }
    }
}

/// It ran a week before, and that has ended.
pub(super) fn overdue(api: Api) -> Fixture {
    let mut cron = hourly(api);
    cron.created = at("2025-12-25T09:59:00Z");
    cron.status = json!({"lastScheduleTime": WEEK_BEFORE});
    cron
}

pub(super) fn long_overdue() {
    for api in BOTH {
        for policy in POLICIES {
            let cron = overdue(api).with("concurrencyPolicy", json!(policy));
            let mut cron = cron.with("startingDeadlineSeconds", json!(1_000_000));
            let expected = Look {
                told: vec!["TooManyMissedTimes"],
                ..starts(NEXT_HOUR)
            };
            assert_eq!(look(&mut cron, AFTER_HOUR), expected);
            missed(&cron, 167);
        }
    }
}

pub(super) fn medium_deadline() {
    for api in BOTH {
        let mut cron = overdue(api).with("startingDeadlineSeconds", json!(7200));
        assert_eq!(look(&mut cron, AFTER_HOUR), starts(NEXT_HOUR));
        missed(&cron, 167);
    }
}

pub(super) fn short_deadline() {
    for api in BOTH {
        let mut cron = overdue(api).with("startingDeadlineSeconds", json!(10));
        assert_eq!(look(&mut cron, HOUR), starts(NEXT_HOUR));
        missed(&cron, 167);
    }
}

pub(super) fn drifted_back() {
    for api in BOTH {
        let mut cron = done(api).with("concurrencyPolicy", json!("Forbid"));
        cron.status["lastScheduleTime"] = json!(HOUR);
        let expected = Look {
            told: vec!["SawCompletedJob"],
            ..waits(HOUR)
        };
        assert_eq!(look(&mut cron, BEFORE_HOUR), expected);
        assert_eq!(cron.status["lastScheduleTime"], HOUR);
    }
}

pub(super) fn went_missing() {
    for api in BOTH {
        for policy in POLICIES {
            let mut cron = ran(api).with("concurrencyPolicy", json!(policy));
            list(&mut cron, THIS);
            cron.status["lastScheduleTime"] = json!(HOUR);
            cron.unseen.insert(THIS.to_owned());
            for _ in 0..3 {
                let plan = cron.plan(AFTER_HOUR);
                assert_eq!(words(&plan)[0], "confirm_gone");
                cron.carry_out(&plan);
            }
            assert!(cron.names().is_empty());
            assert_eq!(cron.status["active"][0]["name"], THIS);
        }
    }
}

pub(super) fn unlisted() {
    for api in BOTH {
        for policy in POLICIES {
            let mut cron = ran(api).with("concurrencyPolicy", json!(policy));
            cron.put(THIS, child(HOUR));
            let restore = cron.plan(AFTER_HOUR);
            assert_eq!(words(&restore), ["write_status"]);
            let settled = look(&mut cron, AFTER_HOUR);
            assert_eq!((settled.starts, settled.stops, settled.active), (0, 0, 1));
            assert_eq!(cron.status["active"][0]["name"], THIS);
            assert_eq!(cron.status["lastScheduleTime"], HOUR);
        }
    }
}

pub(super) fn successful_time() {
    for api in BOTH {
        for limit in [json!(0), json!(10), json!(null)] {
            let mut cron = done(api).with("successfulJobsHistoryLimit", limit.clone());
            cron.settle(BEFORE_HOUR);
            assert_eq!(cron.status["lastSuccessfulTime"], "2026-01-01T09:02:00Z");
            assert_eq!(cron.names().is_empty(), limit == 0);
        }
    }
}

pub(super) fn different_owner() {
    for api in BOTH {
        let mut cron = ran(api);
        cron.conflicts.insert(THIS.to_owned());
        let expected = Look {
            told: vec![why::NAME_CONFLICT],
            ..waits(NEXT_HOUR)
        };
        let before = cron.status.clone();
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
        assert_eq!(cron.status == before, api == Api::Native);
        missed(&cron, 1);
    }
}
