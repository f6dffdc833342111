//! The script of a scenario, played.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use carillon_sim::Actor;
use carillon_sim::actors::Component;
use jiff::Timestamp;

use super::step::Step;
use super::view::View;

/// The script's user, one step after the other.
pub struct User {
    actor: Actor,
    script: std::vec::IntoIter<Step>,
    next: Option<(Step, Option<Timestamp>)>,
    done: Rc<Cell<bool>>,
}

impl User {
    /// A user who follows `script`.
    pub fn new(actor: Actor, script: Vec<Step>) -> Self {
        let mut script = script.into_iter();
        let next = script.next().map(|step| (step, None));
        Self {
            actor,
            script,
            done: Rc::new(Cell::new(next.is_none())),
            next,
        }
    }

    /// Whether the script is at its end.
    pub fn done(&self) -> Rc<Cell<bool>> {
        self.done.clone()
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

impl Component for User {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        loop {
            let (step, due) = self.next.as_mut()?;
            let view = View::new(&self.actor);
            let due = match due {
                Some(due) => *due,
                None if (step.when)(&view) => *due.insert(now + step.after),
                None => return None,
            };
            if due > now {
                return Some(due);
            }
            (step.act)(&view);
            self.next = self.script.next().map(|step| (step, None));
            self.done.set(self.next.is_none());
        }
    }
}
