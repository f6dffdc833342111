//! Replies and changes are read several at a time.
//!
//! An API server under load answers one request after the other, and says one change after the other.
//! Waking up for each costs as much as reading it, so the process waits a little longer than it has
//! to where nobody minds, and finds several.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::intake;
use super::urgent::SOCKETS;

/// With fewer requests under way someone may be waiting for this one.
const FEW: usize = 8;
/// The part of the time that a request usually takes. As large is the part of those under way whose
/// replies are there after it, so the API server never runs out of requests.
const PART: u32 = 4;
const LONGEST: Duration = Duration::from_millis(50);
/// How slowly what is usual changes.
const INERTIA: u32 = 16;

/// While a watch pauses and nobody waits for a reply; as little as a watch's pause itself may be seen.
const FOR_WATCHES: Duration = Duration::from_millis(20);

// Of the process: it has one thread that sends more than a request now and then.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static USUAL_MICROS: AtomicU32 = AtomicU32::new(0);
static PAUSING: AtomicUsize = AtomicUsize::new(0);

/// A request is under way for as long as this lives.
pub(crate) struct UnderWay(Instant);

impl UnderWay {
    pub(crate) fn begin() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self(Instant::now())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        let known = Duration::from_micros(USUAL_MICROS.load(Ordering::Relaxed).into());
        let now = usual(known, self.0.elapsed()).as_micros();
        USUAL_MICROS.store(now as u32, Ordering::Relaxed);
    }
}

/// A watch pauses for as long as this lives: there is more to come of it, and nobody wants it now.
pub(super) struct Pausing(());

impl Pausing {
    pub(super) fn begin() -> Self {
        PAUSING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Pausing {
    fn drop(&mut self) {
        PAUSING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// To be called when nothing is left to do but to wait for a socket. Blocks the thread, unless somebody
/// waited for that or something urgent comes.
pub(super) fn let_things_gather() {
    if intake::tell() {
        return;
    }
    let pause = pause(
        UNDER_WAY.load(Ordering::Relaxed),
        Duration::from_micros(USUAL_MICROS.load(Ordering::Relaxed).into()),
        PAUSING.load(Ordering::Relaxed),
    );
    if !pause.is_zero() {
        SOCKETS.pause(pause);
    }
}

fn pause(under_way: usize, usual: Duration, pausing: usize) -> Duration {
    match under_way {
        0 if pausing > 0 => FOR_WATCHES,
        0..FEW => Duration::ZERO,
        _ => (usual / PART).min(LONGEST),
    }
}

/// What a request usually takes, after one that took so long. A single slow one changes little.
fn usual(known: Duration, took: Duration) -> Duration {
    let took = took.min(LONGEST * PART);
    (known * (INERTIA - 1) + took) / INERTIA
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_pause_is_a_part_of_what_a_request_takes_and_a_lone_request_does_not_wait() {
        for (under_way, usual, pausing, expected) in [
            (0, millis(80), 0, Duration::ZERO),
            (1, millis(80), 1, Duration::ZERO),
            (7, millis(80), 3, Duration::ZERO),
            (8, millis(80), 0, millis(20)),
            (64, millis(80), 3, millis(20)),
            (64, Duration::ZERO, 0, Duration::ZERO),
            (64, Duration::MAX, 0, LONGEST),
        ] {
            let got = pause(under_way, usual, pausing);
            assert_eq!(got, expected, "{under_way} {usual:?} {pausing}");
        }
    }

    #[test]
    fn changes_gather_while_nobody_waits_for_a_reply() {
        assert_eq!(pause(0, millis(80), 1), FOR_WATCHES);
        assert_eq!(pause(1, millis(80), 1), Duration::ZERO);
    }

    #[test]
    fn what_is_usual_follows_the_requests_and_not_a_single_one() {
        let after = |known, took: &[Duration]| took.iter().fold(known, |u, took| usual(u, *took));
        let many = [millis(16); 100];
        assert!(after(Duration::ZERO, &many) > millis(15));
        assert!(after(millis(400), &many) < millis(17));
        assert!(after(millis(16), &[Duration::from_mins(1)]) <= millis(40));
    }
}
