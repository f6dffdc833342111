//! A user who edits what is served: each field that may change, at any time, from a seed.

use carillon_sim::Actor;
use carillon_sim::actors::Component;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use crate::scenario::{Subject, View};

/// The longest pause between two edits.
const LONGEST_PAUSE_MS: i64 = 8_000;
/// How often somebody looks after a job that failures have paused.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The editor.
#[derive(Debug)]
pub struct Editor {
    actor: Actor,
    rng: Rng,
    subject: &'static Subject,
    next: Timestamp,
    until: Timestamp,
    /// Times are judged by this machine's clock, which is right.
    clocks_are_right: bool,
}

impl Editor {
    /// One that knows what is served, and stops at `until`.
    pub fn new(
        actor: Actor,
        subject: &'static Subject,
        seed: u64,
        until: Timestamp,
        clocks_are_right: bool,
    ) -> Self {
        let next = actor.server().now();
        Self {
            actor,
            rng: Rng::with_seed(seed ^ 0x0065_6469_746f_7200),
            subject,
            next,
            until,
            clocks_are_right,
        }
    }

    fn edit(&mut self) {
        let actor = self.actor.clone();
        let view = View::new(&actor);
        (self.subject.edit)(&view, &mut self.rng, self.clocks_are_right);
    }
}

/// One of these.
pub(crate) fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())].clone()
}

impl Component for Editor {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        if now < self.until {
            if self.next <= now {
                self.edit();
                self.next = now + SignedDuration::from_millis(self.rng.i64(200..LONGEST_PAUSE_MS));
            }
            return Some(self.next.min(self.until));
        }
        if self.next < self.until + LOOKS_AGAIN {
            (self.subject.mend)(&self.actor);
            self.next = self.until + LOOKS_AGAIN;
        }
        let actor = self.actor.clone();
        let view = View::new(&actor);
        if self.next <= now && view.is("Paused") {
            view.resume(&self.rng.u64(..).to_string());
        }
        if self.next <= now {
            self.next = now + LOOKS_AGAIN;
        }
        (!view.has_ended()).then_some(self.next)
    }
}
