//! Replies are read several at a time.
//!
//! An API server under load answers one request after the other. Waking up for each reply costs as
//! much as reading it, so with many requests under way the process waits a little longer than it has
//! to, and finds several.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// With fewer requests under way someone may be waiting for this one.
const FEW: usize = 8;
/// So long for each request under way: 10,000 a second stay possible, however many there are.
const FOR_EACH: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(5);

/// Of the process: it has one thread that sends more than a request now and then.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// A request is under way.
pub(super) struct UnderWay(());

impl UnderWay {
    pub(super) fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// To be called when nothing is left to do but to wait for a socket. Blocks the thread.
pub(super) fn let_replies_gather() {
    let pause = pause(UNDER_WAY.load(Ordering::Relaxed));
    if !pause.is_zero() {
        std::thread::sleep(pause);
    }
}

fn pause(under_way: usize) -> Duration {
    if under_way < FEW {
        return Duration::ZERO;
    }
    let requests = u32::try_from(under_way).unwrap_or(u32::MAX);
    FOR_EACH.saturating_mul(requests).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_what_is_under_way_and_a_lone_request_does_not_wait() {
        for (under_way, micros) in [
            (0, 0),
            (1, 0),
            (7, 0),
            (8, 800),
            (32, 3_200),
            (64, 5_000),
            (usize::MAX, 5_000),
        ] {
            let expected = Duration::from_micros(micros);
            assert_eq!(pause(under_way), expected, "{under_way}");
        }
    }
}
