//! Tells when the machine stood still or its clock jumped: a test that fails then has failed for another reason.

use std::sync::Once;
use std::time::{Duration, Instant, SystemTime};

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);
/// Leases and deadlines of tests bear less than this.
const NOTED: Duration = Duration::from_secs(5);

/// Watches until the process ends, and says on standard error what it sees.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            let mut last = (Instant::now(), SystemTime::now());
            loop {
                std::thread::sleep(EVERY);
                let now = (Instant::now(), SystemTime::now());
                let ran = now.0.duration_since(last.0);
                if let Some(seen) = told(ran, last.1, now.1) {
                    eprintln!("{seen}: what fails now may have failed because of that");
                }
                last = now;
            }
        });
    });
}

/// What is to be said of two looks, `ran` apart by the clock that nobody sets.
fn told(ran: Duration, before: SystemTime, after: SystemTime) -> Option<String> {
    let late = ran.saturating_sub(EVERY);
    if late >= NOTED {
        return Some(format!("the machine stood still for {}s", late.as_secs()));
    }
    match after.duration_since(before + ran) {
        Ok(ahead) if ahead >= NOTED => {
            Some(format!("the clock jumped ahead by {}s", ahead.as_secs()))
        }
        Err(behind) if behind.duration() >= NOTED => Some(format!(
            "the clock jumped back by {}s",
            behind.duration().as_secs()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_and_a_jump_of_the_clock_are_told_and_a_little_delay_is_not() {
        let zero = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
        let seen = |ran: u64, clock: i64| {
            let after = if clock < 0 {
                zero - Duration::from_secs(clock.unsigned_abs())
            } else {
                zero + Duration::from_secs(clock.unsigned_abs())
            };
            told(Duration::from_secs(ran), zero, after)
        };
        assert_eq!(seen(1, 1), None);
        assert_eq!(seen(4, 4), None);
        for (ran, clock, expected) in [
            (30, 30, "the machine stood still for 29s"),
            (1, 3601, "the clock jumped ahead by 3600s"),
            (1, -59, "the clock jumped back by 60s"),
        ] {
            assert_eq!(seen(ran, clock).as_deref(), Some(expected));
        }
    }
}
