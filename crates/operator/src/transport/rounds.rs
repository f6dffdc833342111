//! The moments at which watches are read: the same for all.
//!
//! What one watch tells may rest on what another told before it, as a Job on the pods that it is to
//! adopt. Read at moments of their own, the Job could be there a whole pause before its pods.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::pace::Pace;
use super::urgent::Urgent;

/// As long as it takes to come to all connections that have something, and not much longer.
const OPEN: Duration = Duration::from_millis(2);
/// As many changes of a prompt connection are read at once; of more the rest comes with the next round.
/// Each pause gives one back.
const AT_ONCE: u32 = 8;

/// The rounds of the connections that share it.
#[derive(Debug)]
pub(super) struct Rounds {
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Round>,
    pausing: Vec<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    began: Instant,
}

impl Rounds {
    /// Rounds that are so far apart, unless something prompt comes.
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            pause,
            state: Mutex::default(),
        }
    }

    /// The round that is not over, with when it is, if one whose turn is this has to wait for that: each
    /// is read once in a round, and at once when the last one is long over.
    fn wait(&self, turn: Turn, now: Instant) -> Option<(u64, Instant)> {
        let last = self.state().last?;
        let next = last.began + self.pause;
        let is_its_turn = match turn {
            Turn::Now => true,
            Turn::After(mine) => mine != last.number && now < last.began + OPEN,
            Turn::WaitsFor(round) => round != last.number,
        };
        (now < next && !is_its_turn).then_some((last.number, next))
    }

    /// The number of the round in which something was read: the one under way, or a new one.
    fn read(&self, now: Instant, early: bool) -> u64 {
        let mut state = self.state();
        match state.last {
            Some(round) if now < round.began + self.pause && !early => round.number,
            earlier => {
                let number = earlier.map_or(0, |round| round.number + 1);
                state.last = Some(Round { number, began: now });
                mem::take(&mut state.pausing)
                    .iter()
                    .for_each(Waker::wake_by_ref);
                number
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's part in the rounds.
#[derive(Debug)]
pub(super) struct Member {
    rounds: Arc<Rounds>,
    turn: Turn,
    pace: Pace,
    /// How often it may still be read before the next round.
    early_reads: u32,
    last_read: Option<Instant>,
    urgent: Option<Arc<Urgent>>,
}

/// When a connection may be read again.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Now: there was much, so that there is more, or an answer is waited for.
    Now,
    /// In a later round than this one, if it comes to it in time.
    After(u64),
    /// As soon as this round is over: it has waited for that.
    WaitsFor(u64),
}

impl Member {
    pub(super) fn new(rounds: Arc<Rounds>, pace: Pace, urgent: Option<Arc<Urgent>>) -> Self {
        Self {
            rounds,
            turn: Turn::Now,
            pace,
            early_reads: 0,
            last_read: None,
            urgent,
        }
    }

    /// Until when it has to wait, if it has to. Woken then, or when a round begins before that: who has
    /// waited for a round is read in it, however late a busy thread comes to it.
    pub(super) fn wait(&mut self, now: Instant, waker: &Waker) -> Option<Instant> {
        let wait = self.rounds.wait(self.turn, now);
        let wait = wait.filter(|_| self.early_reads == 0);
        if let Some(urgent) = &self.urgent {
            urgent.set_wanted(wait.is_none());
        }
        let (round, next) = wait?;
        self.turn = Turn::WaitsFor(round);
        let pausing = &mut self.rounds.state().pausing;
        if !pausing.iter().any(|known| known.will_wake(waker)) {
            pausing.push(waker.clone());
        }
        Some(next)
    }

    /// To be called after each read: there may be more at once, or it is over until the next round.
    pub(super) fn has_read(&mut self, now: Instant, is_more: bool) {
        if is_more {
            self.turn = Turn::Now;
            return;
        }
        let early = self.early_reads > 0 && self.rounds.wait(self.turn, now).is_some();
        if early {
            self.early_reads -= 1;
        }
        if self.pace == Pace::Prompt {
            let pauses = self.last_read.map_or(AT_ONCE, |last| {
                let pauses = (now - last).as_nanos() / self.rounds.pause.as_nanos().max(1);
                u32::try_from(pauses).unwrap_or(AT_ONCE)
            });
            self.early_reads = self.early_reads.saturating_add(pauses).min(AT_ONCE);
        }
        self.last_read = Some(now);
        self.turn = Turn::After(self.rounds.read(now, early));
    }

    /// To be read as soon as there is something.
    pub(super) fn answer_soon(&mut self) {
        self.turn = Turn::Now;
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(50);

    fn members(paces: [Pace; 2]) -> [Member; 2] {
        let rounds = Arc::new(Rounds::new(PAUSE));
        paces.map(|pace| Member::new(Arc::clone(&rounds), pace, None))
    }

    fn wait(member: &mut Member, now: Instant) -> Option<Instant> {
        member.wait(now, noop_waker_ref())
    }

    #[test]
    fn a_connection_is_read_once_in_a_round_and_the_next_round_is_the_same_for_all() {
        let begin = Instant::now();
        let next = Some(begin + PAUSE);
        // (read in it, after, has to wait until)
        for (read_in_it, after, expected) in [
            (true, Duration::ZERO, next),
            (false, Duration::ZERO, None),
            (false, OPEN / 2, None),
            (false, OPEN, next),
            (true, PAUSE / 2, next),
            (true, PAUSE, None),
            (false, PAUSE, None),
        ] {
            let [mut pods, mut nodes] = members([Pace::Gathered; 2]);
            assert_eq!(wait(&mut nodes, begin), None);
            nodes.has_read(begin - PAUSE, false);
            pods.has_read(begin, false);
            let member = if read_in_it { &mut pods } else { &mut nodes };
            assert_eq!(
                wait(member, begin + after),
                expected,
                "{read_in_it} {after:?}"
            );
        }
    }

    #[test]
    fn as_many_prompt_changes_are_read_at_once_as_pauses_have_passed_and_eight_at_most() {
        let [mut jobs, _] = members([Pace::Prompt; 2]);
        let mut now = Instant::now();
        // One of them is the first of a round.
        for (after, expected) in [(0, 9), (1, 2), (3, 4), (1000, 9)] {
            now += after * PAUSE;
            let mut reads = 0;
            while wait(&mut jobs, now).is_none() {
                jobs.has_read(now, false);
                reads += 1;
                now += PAUSE / 100;
            }
            assert_eq!(reads, expected, "after {after} pauses");
        }
    }

    #[test]
    fn something_prompt_begins_a_round_for_all() {
        let [mut jobs, mut pods] = members([Pace::Prompt, Pace::Gathered]);
        let begin = Instant::now();
        jobs.has_read(begin, false);
        pods.has_read(begin, false);
        let now = begin + PAUSE / 2;
        assert_eq!(wait(&mut pods, now), Some(begin + PAUSE));
        assert_eq!(wait(&mut jobs, now), None);
        jobs.has_read(now, false);
        assert_eq!(wait(&mut pods, now), None);
        pods.has_read(now, false);
        assert_eq!(wait(&mut pods, now), Some(now + PAUSE));
    }

    #[test]
    fn who_has_waited_for_a_round_is_read_in_it_also_by_a_busy_thread() {
        for pace in [Pace::Gathered, Pace::Prompt] {
            let [mut pods, mut others] = members([Pace::Gathered, pace]);
            let begin = Instant::now();
            others.has_read(begin, false);
            pods.has_read(begin, false);
            let next = begin + PAUSE;
            assert_eq!(wait(&mut pods, begin), Some(next));
            others.has_read(next, false);
            assert_eq!(wait(&mut pods, next + 2 * OPEN), None);
            pods.has_read(next + 2 * OPEN, false);
            assert_eq!(wait(&mut pods, next + 3 * OPEN), Some(next + PAUSE));
        }
    }
}
