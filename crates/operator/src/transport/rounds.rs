//! The moments at which watches are read: the same for all.
//!
//! What one watch tells may rest on what another told before it, as a Job on the pods that it is to
//! adopt. Read at moments of their own, the Job could be there a whole pause before its pods.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// As long as it takes to come to all connections that have something, and not much longer.
const OPEN: Duration = Duration::from_millis(2);

/// The rounds of the connections that share it.
#[derive(Debug)]
pub(super) struct Rounds {
    pause: Duration,
    last: Mutex<Option<Round>>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    began: Instant,
}

impl Rounds {
    /// Rounds that are at least so far apart.
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            pause,
            last: Mutex::new(None),
        }
    }

    /// Until when a connection has to wait that was read in round `mine`: each is read once in a round,
    /// and at once when the last one is long over.
    pub(super) fn wait(&self, mine: u64, now: Instant) -> Option<Instant> {
        let last = (*self.last())?;
        let next = last.began + self.pause;
        let is_open = now < last.began + OPEN && mine != last.number;
        (now < next && !is_open).then_some(next)
    }

    /// The number of the round in which something was read, the first of a new one or not.
    pub(super) fn read(&self, now: Instant) -> u64 {
        let mut last = self.last();
        match *last {
            Some(round) if now < round.began + self.pause => round.number,
            earlier => {
                let number = earlier.map_or(0, |round| round.number + 1);
                *last = Some(Round { number, began: now });
                number
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Option<Round>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(50);

    #[test]
    fn a_connection_is_read_once_in_a_round_and_the_next_round_is_the_same_for_all() {
        let (rounds, begin) = (Rounds::new(PAUSE), Instant::now());
        assert_eq!(rounds.wait(0, begin), None);
        let earlier = rounds.read(begin - PAUSE);
        let mine = rounds.read(begin);
        let next = Some(begin + PAUSE);
        // (read in it, after, has to wait until)
        for (read_in, after, expected) in [
            (mine, Duration::ZERO, next),
            (earlier, Duration::ZERO, None),
            (earlier, OPEN / 2, None),
            (earlier, OPEN, next),
            (mine, PAUSE / 2, next),
            (mine, PAUSE, None),
            (earlier, PAUSE, None),
        ] {
            let got = rounds.wait(read_in, begin + after);
            assert_eq!(got, expected, "{read_in} {after:?}");
        }
        assert_eq!(rounds.read(begin + OPEN / 2), mine);
        let later = rounds.read(begin + PAUSE);
        assert_eq!(rounds.wait(mine, begin + PAUSE), None);
        let after_next = next.map(|next| next + PAUSE);
        assert_eq!(rounds.wait(later, begin + PAUSE), after_next);
    }
}
