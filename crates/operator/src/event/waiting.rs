//! Events that wait to be written, pure: each namespace has its own queue, and they take turns.

use std::collections::{HashMap, VecDeque};

use super::Event;

/// Events of one namespace that wait at most.
pub(super) const OF_ONE: usize = 1024;
/// Events that wait at most.
pub(super) const IN_ALL: usize = 4 * OF_ONE;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    of: HashMap<String, VecDeque<Event>>,
    /// Each namespace of which something waits, once; the first is the next.
    turns: VecDeque<String>,
    in_all: usize,
}

impl Waiting {
    /// Lets `event` wait. The event that is dropped for it: itself if its namespace has too many, else one
    /// of the namespace that has most.
    pub(super) fn push(&mut self, event: Event) -> Option<Event> {
        let namespace = &event.regarding.namespace;
        let mine = self.of.get(namespace).map_or(0, VecDeque::len);
        let mut dropped = None;
        if mine >= OF_ONE {
            return Some(event);
        }
        if self.in_all >= IN_ALL {
            let most = self.of.values_mut().max_by_key(|events| events.len());
            match most.filter(|most| most.len() > mine + 1) {
                Some(most) => dropped = most.pop_back(),
                None => return Some(event),
            }
            self.in_all -= 1;
        }
        if mine == 0 {
            self.turns.push_back(namespace.clone());
        }
        self.of
            .entry(namespace.clone())
            .or_default()
            .push_back(event);
        self.in_all += 1;
        dropped
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<Event> {
        let namespace = self.turns.pop_front()?;
        let events = self.of.get_mut(&namespace)?;
        let event = events.pop_front();
        self.in_all -= usize::from(event.is_some());
        if events.is_empty() {
            self.of.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    fn of(namespace: &str, note: usize) -> Event {
        let mut event = event("u", &note.to_string());
        event.regarding.namespace = namespace.into();
        event
    }

    fn all(waiting: &mut Waiting) -> Vec<(String, String)> {
        let pop = || waiting.pop().map(|e| (e.regarding.namespace, e.note));
        std::iter::from_fn(pop).collect()
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_order() {
        let mut waiting = Waiting::default();
        for (namespace, note) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2)] {
            assert_eq!(waiting.push(of(namespace, note)), None);
        }
        let written: String = all(&mut waiting)
            .into_iter()
            .map(|(n, note)| n + &note)
            .collect();
        assert_eq!(written, "a1b1c1a2c2a3");
        assert!(waiting.of.is_empty() && waiting.turns.is_empty() && waiting.in_all == 0);
    }

    #[test]
    fn what_waits_is_bounded_and_is_dropped_where_most_waits() {
        let mut waiting = Waiting::default();
        let dropped = (0..2 * OF_ONE).filter_map(|n| waiting.push(of("noisy", n)));
        assert_eq!(dropped.count(), OF_ONE);
        for n in 0..IN_ALL + 10 {
            waiting.push(of(&format!("quiet-{n}"), n));
        }
        assert_eq!(waiting.in_all, IN_ALL);
        // One of each, so that nobody can be asked to give way.
        let last = of("last", 0);
        assert_eq!(waiting.push(last.clone()), Some(last));
        let written = all(&mut waiting);
        assert_eq!(written.len(), IN_ALL);
        assert!(written.iter().any(|(namespace, _)| namespace == "noisy"));
    }
}
