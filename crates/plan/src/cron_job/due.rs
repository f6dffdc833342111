//! Which ticks are due, and which are over without a run.
//!
//! All times here are on the CronJob's own clock: the machine's, less the object's share of
//! `jitterSeconds`. So a tick is due when that clock has reached it, and a deadline counts from then.

use carillon_api::MissedRunPolicy;
use jiff::{SignedDuration, Timestamp};

use super::spec::CronJob;
use crate::schedule::Schedule;

/// With `missedRunPolicy: All`, runs that are made up for at most; the oldest are given up.
pub const MOST_MADE_UP: usize = 100;
/// With `missedRunPolicy: Skip` and no deadline, a run that could not start within this time is
/// given up.
pub const IN_TIME: SignedDuration = SignedDuration::from_secs(60);
/// From so many missed runs on, people are warned.
pub(super) const MANY: u64 = 100;

/// What the ticks since the last decided one come to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Due {
    /// The last tick that is over without a run.
    pub over: Option<Timestamp>,
    /// Ticks to run, oldest first.
    pub run: Vec<Timestamp>,
    /// More than 100 ticks were missed.
    pub many: bool,
}

/// What is due at `clock`, when everything until `decided` is decided.
pub(super) fn due(
    cron: &CronJob,
    schedule: &Schedule,
    decided: Timestamp,
    clock: Timestamp,
) -> Due {
    let late = |limit: SignedDuration| clock.checked_sub(limit).unwrap_or(Timestamp::MIN);
    let floor = match (cron.deadline, cron.missed) {
        (Some(deadline), _) => late(deadline),
        (None, MissedRunPolicy::Skip) => late(IN_TIME),
        (None, _) => Timestamp::MIN,
    };
    let mut due = Due::default();
    if floor > decided {
        due.over = schedule.latest(decided, floor.min(clock));
    }
    // From tick to tick, so that `@every` keeps its phase.
    let from = due.over.unwrap_or(decided);
    due.many = schedule.count(from, clock, MANY + 1) > MANY;
    if cron.missed == MissedRunPolicy::All {
        let mut until = clock;
        while let Some(tick) = schedule.latest(from, until) {
            if due.run.len() == MOST_MADE_UP {
                due.over = Some(tick);
                break;
            }
            due.run.push(tick);
            let Ok(before) = tick.checked_sub(SignedDuration::from_secs(1)) else {
                break;
            };
            until = before;
        }
        due.run.reverse();
    } else {
        due.run.extend(schedule.latest(from, clock));
    }
    due
}

/// The first tick that is neither decided nor due at `clock`.
pub(super) fn next(schedule: &Schedule, decided: Timestamp, clock: Timestamp) -> Option<Timestamp> {
    // From tick to tick, as above; the search may give up sooner from farther back.
    let last = schedule.latest(decided, clock).unwrap_or(decided);
    schedule
        .next(last)
        .or_else(|| schedule.next(clock.max(decided)))
}
