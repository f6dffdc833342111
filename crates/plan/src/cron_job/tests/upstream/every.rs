//! The same for `@every`, which counts from its last run and not from the hour.

use serde_json::json;

use super::sync::{
    AFTER_HOUR, BEFORE_PRIOR_HOUR, BOTH, HOUR, Look, NEXT_HOUR, child, list, look, missed,
    never_ran, overdue, ran, starts, waits,
};
use crate::cron_job::Api;
use crate::cron_job::tests::fixture::Fixture;

/// `@every 1h`, which ran an hour and a minute before.
fn every(api: Api) -> Fixture {
    let mut cron = ran(api).with("schedule", json!("@every 1h"));
    cron.status["lastScheduleTime"] = json!(BEFORE_PRIOR_HOUR);
    cron
}

pub(super) fn is_time() {
    for api in BOTH {
        let mut cron = never_ran(api).with("schedule", json!("@every 1h"));
        let (now, next) = ("2026-01-01T10:59:00Z", "2026-01-01T11:59:00Z");
        assert_eq!(look(&mut cron, "2026-01-01T10:58:59Z"), waits(now));
        assert_eq!(look(&mut cron, now), starts(next));
    }
}

pub(super) fn not_time() {
    for api in BOTH {
        let mut cron = every(api);
        cron.status["lastScheduleTime"] = json!("2026-01-01T09:01:00Z");
        assert_eq!(look(&mut cron, HOUR), waits(AFTER_HOUR));
    }
}

pub(super) fn active() {
    for api in BOTH {
        let mut cron = every(api);
        let running = child(BEFORE_PRIOR_HOUR);
        cron.put("report-29454299", running);
        list(&mut cron, "report-29454299");
        let expected = Look {
            active: 2,
            ..starts("2026-01-01T10:59:00Z")
        };
        assert_eq!(look(&mut cron, AFTER_HOUR), expected);
    }
}

pub(super) fn long_overdue() {
    for api in BOTH {
        let mut cron = overdue(api).with("schedule", json!("@every 1h"));
        let expected = Look {
            told: vec!["TooManyMissedTimes"],
            ..starts(NEXT_HOUR)
        };
        assert_eq!(look(&mut cron, "2026-01-01T10:59:00Z"), expected);
        assert_eq!(cron.status["lastScheduleTime"], HOUR);
    }
}

pub(super) fn past_deadline() {
    for api in BOTH {
        let cron = overdue(api).with("schedule", json!("@every 1h"));
        let mut cron = cron.with("startingDeadlineSeconds", json!(10));
        assert_eq!(look(&mut cron, AFTER_HOUR), waits(NEXT_HOUR));
        missed(&cron, 168);
    }
}

pub(super) fn not_past_deadline() {
    for api in BOTH {
        let cron = overdue(api).with("schedule", json!("@every 1h"));
        let mut cron = cron.with("startingDeadlineSeconds", json!(10));
        assert_eq!(look(&mut cron, "2026-01-01T10:00:05Z"), starts(NEXT_HOUR));
        missed(&cron, 167);
    }
}
