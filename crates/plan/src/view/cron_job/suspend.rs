//! What to write to suspend a CronJob and to resume it, and which runs that brings.

use carillon_api::ConcurrencyPolicy;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::foresee::{active, creation, creation_if_alone, replaced};
use super::read::StoredCron;
use super::step_from;
use crate::condition::whole_seconds;
use crate::cron_job::{Children, MOST_MADE_UP};

/// The merge patch that suspends a CronJob, or ends that; `None` when it is so already.
pub fn suspend(stored: &StoredCron, suspend: bool) -> Result<Option<Value>, String> {
    let cron = &stored.cron;
    if cron.meta.deleting {
        return Err(format!("{} is being deleted", cron.meta.owner.name));
    }
    Ok((cron.suspended != suspend).then(|| json!({"spec": {"suspend": suspend}})))
}

/// What a CronJob does once it is no longer suspended.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resumed {
    /// The times that are made up for, oldest first.
    pub runs: Vec<Timestamp>,
    /// How many were due and are not.
    pub missed: u64,
    /// Forbid: runs that must have ended before the first.
    pub waits_for: Vec<String>,
    /// Replace: runs that are stopped for it.
    pub replaces: Vec<String>,
    /// They run one after the other.
    pub one_by_one: bool,
    /// The next time after now.
    pub next: Option<Timestamp>,
}

/// What the planner does when a CronJob is no longer suspended from now on.
pub fn resumed(stored: &StoredCron, children: &Children, now: Timestamp) -> Resumed {
    let mut cron = stored.cron.clone();
    cron.suspended = false;
    cron.run_now = None;
    let Ok(schedule) = &stored.cron.timetable else {
        return Resumed::default();
    };
    let forbid = cron.concurrency == ConcurrencyPolicy::Forbid;
    let mut resumed = Resumed {
        one_by_one: forbid,
        replaces: replaced(&cron, children, now),
        ..Resumed::default()
    };
    let waits = creation(&cron, children, now).is_none();
    let clock = now.checked_sub(cron.offset).unwrap_or(now);
    let decided = stored.decided_until().unwrap_or(now);
    // From tick to tick, as if each run were recorded at once.
    while let Some(run) = creation_if_alone(&cron, children, now) {
        cron.status.last_schedule_time = Some(whole_seconds(run.time));
        resumed.runs.push(run.time);
        if resumed.runs.len() >= MOST_MADE_UP {
            break;
        }
    }
    if waits && forbid && !resumed.runs.is_empty() {
        resumed.waits_for = active(&stored.cron, children);
    }
    // Far beyond what anybody reads; a schedule may be of seconds.
    let due = schedule.count(decided, clock, 100_000);
    resumed.missed = due.saturating_sub(resumed.runs.len() as u64);
    let from = step_from(stored, schedule, clock, now);
    resumed.next = schedule.next(from);
    resumed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::cron_job::samples::{at, hourly, run};

    const NOW: &str = "2026-01-01T14:05:00Z";

    /// Created at 10:30; so 11:00 to 14:00 were due.
    fn of(spec: &Value, status: &Value, children: &Children) -> Resumed {
        let mut spec = spec.clone();
        spec["suspend"] = json!(true);
        resumed(&hourly(&spec, status), children, at(NOW))
    }

    fn times(resumed: &Resumed) -> Vec<String> {
        resumed.runs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_a_change_is_written() {
        let on = hourly(&json!({"suspend": true}), &json!({}));
        let off = hourly(&json!({}), &json!({}));
        assert_eq!(suspend(&on, true), Ok(None));
        assert_eq!(suspend(&off, false), Ok(None));
        assert_eq!(
            suspend(&on, false),
            Ok(Some(json!({"spec": {"suspend": false}})))
        );
        let mut deleting = off;
        deleting.cron.meta.deleting = true;
        assert!(
            suspend(&deleting, true)
                .unwrap_err()
                .contains("being deleted")
        );
    }

    #[test]
    fn what_is_made_up_for_is_up_to_the_policy() {
        let with = |policy: &str| {
            let spec = json!({"missedRunPolicy": policy});
            let found = of(&spec, &json!({}), &Children::new());
            (times(&found), found.missed)
        };
        assert_eq!(with("Latest"), (vec!["2026-01-01T14:00:00Z".to_owned()], 3));
        assert_eq!(with("Skip"), (vec![], 4));
        let (all, missed) = with("All");
        assert_eq!((all.len(), missed), (4, 0));
        assert_eq!(all[0], "2026-01-01T11:00:00Z");
    }

    #[test]
    fn a_deadline_that_has_passed_leaves_only_the_next_run() {
        let found = of(
            &json!({"startingDeadlineSeconds": 60}),
            &json!({}),
            &Children::new(),
        );
        assert_eq!((times(&found), found.missed), (vec![], 4));
        assert_eq!(found.next, Some(at("2026-01-01T15:00:00Z")));
    }

    fn one_that_runs() -> (Value, Children) {
        let mut children = Children::new();
        run(&mut children, "2026-01-01T11:00:00Z", None, true);
        let ((kind, name), child) = children.first_key_value().unwrap();
        let entry = json!({"kind": kind.kind(), "name": name, "uid": child.uid.to_string()});
        let status = json!({"active": [entry], "lastScheduleTime": "2026-01-01T11:00:00Z"});
        (status, children)
    }

    #[test]
    fn a_run_that_has_not_ended_is_waited_for_or_replaced_or_neither() {
        let (status, children) = one_that_runs();
        let with = |policy| of(&json!({"concurrencyPolicy": policy}), &status, &children);
        let name = [children.keys().next().unwrap().1.to_string()];
        let forbid = with("Forbid");
        assert_eq!(forbid.waits_for, name);
        assert_eq!(
            (times(&forbid), forbid.missed),
            (vec!["2026-01-01T14:00:00Z".to_owned()], 2)
        );
        let replace = with("Replace");
        assert_eq!(
            (replace.replaces.as_slice(), replace.runs.len()),
            (&name[..], 1)
        );
        let allow = with("Allow");
        assert!(allow.waits_for.is_empty() && allow.replaces.is_empty());
    }

    #[test]
    fn a_run_that_was_deleted_is_not_waited_for() {
        let (status, _) = one_that_runs();
        let found = of(
            &json!({"concurrencyPolicy": "Forbid"}),
            &status,
            &Children::new(),
        );
        assert_eq!((found.waits_for.len(), found.runs.len()), (0, 1));
    }

    #[test]
    fn with_an_unusable_schedule_nothing_is_made_up_for() {
        let found = of(&json!({"schedule": "soon"}), &json!({}), &Children::new());
        assert_eq!(found, Resumed::default());
    }
}
