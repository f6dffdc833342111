//! A sign of life of the thread that plans.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::check::Check;
use crate::clock;

/// A thread that has not come to its heartbeat for so long will not: the longest plans take seconds.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// Beats as long as the tasks of a thread have their turns.
#[derive(Debug)]
pub struct Heartbeat {
    longest_silence: Duration,
    first: Instant,
    /// Milliseconds after the first.
    last: AtomicU64,
}

impl Heartbeat {
    /// The first one is now. A thread is taken for dead once there was none for longer than this.
    pub fn new(longest_silence: Duration) -> Arc<Self> {
        Arc::new(Self {
            longest_silence,
            first: clock::instant(),
            last: AtomicU64::new(0),
        })
    }

    /// Beats for ever; to be spawned on the thread in question.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.beat(clock::instant());
            tokio::time::sleep(self.longest_silence / 6).await;
        }
    }

    /// Fails for a dead thread.
    pub fn check(self: &Arc<Self>) -> Check {
        let heartbeat = Arc::clone(self);
        Check::new("planning", move || {
            let silence = heartbeat.silence(clock::instant());
            let longest = heartbeat.longest_silence;
            if silence <= longest {
                return Ok(());
            }
            let (silence, longest) = (silence.as_secs_f64(), longest.as_secs_f64());
            Err(format!(
                "the planning thread has not moved for {silence:.1} s; {longest} s are the most"
            ))
        })
    }

    fn beat(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.first).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Release);
    }

    fn silence(&self, now: Instant) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        now.saturating_duration_since(self.first)
            .saturating_sub(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_turns_is_alive_and_one_that_does_not_is_not() {
        let heartbeat = Heartbeat::new(LONGEST_SILENCE);
        let check = heartbeat.check();
        let running = tokio::spawn(heartbeat.run());
        tokio::time::sleep(10 * LONGEST_SILENCE).await;
        assert_eq!((check.ask)(), Ok(()));
        running.abort();
        tokio::time::sleep(LONGEST_SILENCE / 2).await;
        assert_eq!((check.ask)(), Ok(()));
        tokio::time::sleep(LONGEST_SILENCE / 2 + Duration::from_millis(100)).await;
        let why = (check.ask)().unwrap_err();
        assert!(why.contains("has not moved for 3"), "{why}");
    }
}
