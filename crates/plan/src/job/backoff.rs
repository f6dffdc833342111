//! How long a Job waits before it replaces pods that failed (upstream: `backoff_utils.go`).

use jiff::{SignedDuration, Timestamp};

use super::pod::JobPod;

/// Failures in a row, and when the last of them was.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BackoffRecord {
    /// Failures after the last success.
    pub failures: u32,
    /// When the last of them ended.
    pub last: Option<Timestamp>,
}

impl BackoffRecord {
    /// The record with pods that have ended since, by the times they did; in any order. A success
    /// ends the row: only failures strictly after it count. Ignored failures are failures here. The
    /// last failure is the latest of the new ones, even if an earlier record knows a later one.
    #[must_use]
    pub fn after(
        &self,
        succeeded: impl Iterator<Item = Timestamp>,
        failed: impl Iterator<Item = Timestamp>,
    ) -> Self {
        let success = succeeded.max();
        let counting = failed.filter(|time| success.is_none_or(|success| *time > success));
        let (many, last) = counting.fold((0_u32, None), |(many, last), time| {
            (many.saturating_add(1), last.max(Some(time)))
        });
        let before = match success {
            Some(_) => Self::default(),
            None => *self,
        };
        Self {
            failures: before.failures.saturating_add(many),
            last: last.or(before.last),
        }
    }

    /// How long to wait until a pod may be created; zero: no longer. The wait is `base` after the
    /// first failure, twice as long with each further one, at most `max`.
    pub fn remaining(
        &self,
        now: Timestamp,
        base: SignedDuration,
        max: SignedDuration,
    ) -> SignedDuration {
        match self.last {
            Some(last) if self.failures > 0 => remaining(self.failures, last, now, base, max),
            _ => SignedDuration::ZERO,
        }
    }
}

/// How long to wait until a pod may replace this one, the last failed of its index; zero: no longer.
/// Counted and ignored failures of the index both lengthen the wait.
pub fn remaining_of_index(
    pod: &JobPod,
    now: Timestamp,
    base: SignedDuration,
    max: SignedDuration,
) -> SignedDuration {
    let before = pod.failures.saturating_add(pod.ignored_failures);
    remaining(before.saturating_add(1), ended(pod), now, base, max)
}

/// When a failed pod ended. One that says nothing of it counts from its creation, as upstream has it.
pub(super) fn ended(pod: &JobPod) -> Timestamp {
    pod.finished.unwrap_or(pod.created)
}

/// So often doubled, a nanosecond exceeds every duration.
const MOST_DOUBLINGS: u32 = 96;

fn remaining(
    failures: u32,
    last: Timestamp,
    now: Timestamp,
    base: SignedDuration,
    max: SignedDuration,
) -> SignedDuration {
    let mut wait = base;
    for _ in 1..failures.min(MOST_DOUBLINGS) {
        if wait >= max {
            break;
        }
        wait = wait.saturating_mul(2);
    }
    let elapsed = now.duration_since(last);
    let left = wait.min(max).saturating_sub(elapsed);
    left.max(SignedDuration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: SignedDuration = SignedDuration::from_secs(5);
    const MAX: SignedDuration = SignedDuration::from_secs(700);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record(failures: u32, last: Option<i64>) -> BackoffRecord {
        BackoffRecord {
            failures,
            last: last.map(at),
        }
    }

    #[test]
    fn a_success_ends_the_row_of_failures() {
        let none = record(0, None);
        let cases = [
            ("nothing", none, &[][..], &[][..], none),
            ("a failure", none, &[], &[10], record(1, Some(10))),
            (
                "failures in any order",
                none,
                &[],
                &[10, 9],
                record(2, Some(10)),
            ),
            ("failures before a success", none, &[10], &[8, 9], none),
            (
                "failures around a success",
                none,
                &[8],
                &[10, 6, 7, 9],
                record(2, Some(10)),
            ),
            (
                "failures around two",
                none,
                &[8, 9],
                &[10, 7, 9],
                record(1, Some(10)),
            ),
            ("a success and a failure at once", none, &[10], &[10], none),
            ("a success", record(3, Some(5)), &[10], &[], none),
            (
                "one failure more",
                record(2, None),
                &[],
                &[10],
                record(3, Some(10)),
            ),
            (
                "nothing new",
                record(2, Some(5)),
                &[],
                &[],
                record(2, Some(5)),
            ),
            (
                "a failure seen late",
                record(2, Some(9)),
                &[],
                &[5],
                record(3, Some(5)),
            ),
            ("a late success", record(2, Some(9)), &[5], &[], none),
            (
                "too many",
                record(u32::MAX, None),
                &[],
                &[5],
                record(u32::MAX, Some(5)),
            ),
        ];
        for (what, before, succeeded, failed, expected) in cases {
            let times = |seconds: &'static [i64]| seconds.iter().copied().map(at);
            let after = before.after(times(succeeded), times(failed));
            assert_eq!(after, expected, "{what}");
        }
    }

    #[test]
    fn the_wait_doubles_with_each_failure_up_to_the_longest() {
        let cases = [
            (0, 0, 0),
            (1, 0, 5),
            (1, 1, 4),
            (1, 5, 0),
            (1, 6, 0),
            (1, -1, 6),
            (3, 0, 20),
            (8, 0, 640),
            (9, 0, 700),
            (u32::MAX, 0, 700),
            (u32::MAX, 699, 1),
        ];
        for (failures, elapsed, expected) in cases {
            let left = record(failures, Some(100)).remaining(at(100 + elapsed), BASE, MAX);
            assert_eq!(left.as_secs(), expected, "{failures} failures, {elapsed} s");
        }
    }

    #[test]
    fn by_default_the_wait_is_the_longest_from_the_seventh_failure() {
        let limits = super::super::Limits::default();
        let wait = |failures| {
            let record = record(failures, Some(0));
            record
                .remaining(at(0), limits.backoff, limits.max_backoff)
                .as_secs()
        };
        assert_eq!(
            [wait(1), wait(2), wait(6), wait(7), wait(8)],
            [10, 20, 320, 600, 600]
        );
    }

    #[test]
    fn each_index_waits_for_its_counted_and_ignored_failures() {
        let cases = [
            (0, 0, 5),
            (2, 0, 20),
            (1, 1, 20),
            (0, 2, 20),
            (u32::MAX, 1, 700),
        ];
        for (failures, ignored_failures, expected) in cases {
            let pod = JobPod {
                failures,
                ignored_failures,
                finished: Some(at(100)),
                ..JobPod::default()
            };
            let left = remaining_of_index(&pod, at(100), BASE, MAX);
            assert_eq!(
                left.as_secs(),
                expected,
                "{failures} and {ignored_failures}"
            );
        }
        let created = JobPod {
            created: at(98),
            ..JobPod::default()
        };
        assert_eq!(
            remaining_of_index(&created, at(100), BASE, MAX).as_secs(),
            3
        );
    }

    #[test]
    fn no_times_or_durations_are_too_large() {
        let durations = [
            SignedDuration::MIN,
            -BASE,
            SignedDuration::ZERO,
            SignedDuration::from_nanos(1),
            MAX,
            SignedDuration::MAX,
        ];
        let times = [Timestamp::MIN, at(0), Timestamp::MAX];
        for (base, max) in durations
            .iter()
            .flat_map(|base| durations.map(|max| (*base, max)))
        {
            for (last, now) in times.iter().flat_map(|last| times.map(|now| (*last, now))) {
                let record = BackoffRecord {
                    failures: u32::MAX,
                    last: Some(last),
                };
                let left = record.remaining(now, base, max);
                assert!(!left.is_negative(), "{base} {max} {last} {now}");
            }
        }
        let longest = record(u32::MAX, Some(0));
        let left = longest.remaining(at(0), SignedDuration::from_nanos(1), SignedDuration::MAX);
        assert_eq!(left, SignedDuration::MAX);
    }
}
