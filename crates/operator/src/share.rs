//! What namespaces share: workers, places among the requests in flight, room for what is large. Pure.
//!
//! The rules:
//! - inside a namespace it goes in order; namespaces take turns;
//! - who holds nothing goes first, and may have all that is free;
//! - who holds something leaves the spare to who comes next, and gets no more than half of the rest
//!   while another namespace waits;
//! - who holds nothing and finds too little is not overtaken by those who hold something.

pub mod permit;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// From so many on one is spare. Of fewer, one would be too large a part for a cluster with one tenant.
const SPARES_ONE: usize = 8;

/// What is held of a number of things, and who waits for them.
#[derive(Debug)]
pub struct Share<T> {
    size: usize,
    spare: usize,
    in_use: usize,
    waiting: usize,
    of: HashMap<Arc<str>, Namespace<T>>,
    /// Each namespace that waits, once; the first is the next.
    turns: VecDeque<Arc<str>>,
}

#[derive(Debug)]
struct Namespace<T> {
    held: usize,
    /// How much is wanted, and by whom.
    waiting: VecDeque<(usize, T)>,
}

/// Who has got something.
#[derive(Debug, Eq, PartialEq)]
pub struct Granted<T> {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// How much, to be given back.
    pub amount: usize,
    /// Who.
    pub who: T,
}

impl<T> Share<T> {
    /// Of things that are taken one by one.
    pub fn of(size: usize) -> Self {
        Self::sparing(size, usize::from(size >= SPARES_ONE))
    }

    /// Of which so much is left to who comes next.
    pub fn sparing(size: usize, spare: usize) -> Self {
        Self {
            size,
            spare,
            in_use: 0,
            waiting: 0,
            of: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Lets `who` wait for so much; for all that there is, if there is less.
    pub fn push(&mut self, namespace: &str, amount: usize, who: T) {
        let name = match self.of.get_key_value(namespace) {
            Some((name, _)) => name.clone(),
            None => namespace.into(),
        };
        let one = self.of.entry(name.clone()).or_insert_with(|| Namespace {
            held: 0,
            waiting: VecDeque::new(),
        });
        one.waiting
            .push_back((amount.clamp(1, self.size.max(1)), who));
        if one.waiting.len() == 1 {
            self.turns.push_back(name);
        }
        self.waiting += 1;
    }

    /// The next who gets what it waits for, if anybody may.
    pub fn pop(&mut self) -> Option<Granted<T>> {
        let turn = self.next()?;
        let namespace = self.turns.remove(turn)?;
        let one = self.of.get_mut(&namespace)?;
        let (amount, who) = one.waiting.pop_front()?;
        one.held += amount;
        self.in_use += amount;
        self.waiting -= 1;
        if !one.waiting.is_empty() {
            self.turns.push_back(namespace.clone());
        }
        Some(Granted {
            namespace,
            amount,
            who,
        })
    }

    /// Whose turn it is. No more namespaces are passed over than hold something or find too little.
    fn next(&self) -> Option<usize> {
        let free = self.size.saturating_sub(self.in_use);
        if free == 0 {
            return None;
        }
        let alone = self.turns.len() == 1;
        let half = (self.size - self.spare).div_ceil(2);
        let mut of_a_holder = None;
        let mut found_too_little = false;
        for (turn, namespace) in self.turns.iter().enumerate() {
            let Some((one, amount)) = self.first_of(namespace) else {
                continue;
            };
            if one.held == 0 {
                if amount <= free {
                    return Some(turn);
                }
                found_too_little = true;
            } else if amount + self.spare <= free && (alone || one.held + amount <= half) {
                of_a_holder = of_a_holder.or(Some(turn));
            }
        }
        of_a_holder.filter(|_| !found_too_little)
    }

    fn first_of(&self, namespace: &str) -> Option<(&Namespace<T>, usize)> {
        let one = self.of.get(namespace)?;
        Some((one, one.waiting.front()?.0))
    }

    /// Takes back what a namespace was given.
    pub fn give_back(&mut self, namespace: &str, amount: usize) {
        self.in_use = self.in_use.saturating_sub(amount);
        if let Some(one) = self.of.get_mut(namespace) {
            one.held = one.held.saturating_sub(amount);
        }
        self.drop_if_empty(namespace);
    }

    /// Lets only those of a namespace wait that `still_waits` says.
    pub fn retain(&mut self, namespace: &str, mut still_waits: impl FnMut(&T) -> bool) {
        if let Some(one) = self.of.get_mut(namespace) {
            let waited = one.waiting.len();
            one.waiting.retain(|(_, who)| still_waits(who));
            self.waiting -= waited - one.waiting.len();
            if waited > 0 && one.waiting.is_empty() {
                self.turns.retain(|waits| **waits != *namespace);
            }
        }
        self.drop_if_empty(namespace);
    }

    fn drop_if_empty(&mut self, namespace: &str) {
        let empty = |one: &Namespace<T>| one.held == 0 && one.waiting.is_empty();
        if self.of.get(namespace).is_some_and(empty) {
            self.of.remove(namespace);
        }
    }

    /// Nobody waits any longer.
    pub fn clear(&mut self) {
        self.waiting = 0;
        self.turns.clear();
        self.of.retain(|_, one| {
            one.waiting.clear();
            one.held > 0
        });
    }

    /// How much is held.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// How many wait.
    pub fn waiting_in_all(&self) -> usize {
        self.waiting
    }

    /// Who waits, about in the order in which they get something.
    pub fn waiting(&self) -> Vec<&T> {
        let mut all = Vec::new();
        for (turn, namespace) in self.turns.iter().enumerate() {
            let waiting = self.of.get(namespace).map(|one| &one.waiting);
            let waiting = waiting.into_iter().flatten().enumerate();
            all.extend(waiting.map(|(round, (_, who))| ((round, turn), who)));
        }
        all.sort_unstable_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, who)| who).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets so many of a namespace wait, each for so much.
    fn wait(share: &mut Share<usize>, namespace: &str, count: usize, amount: usize) {
        for who in 0..count {
            share.push(namespace, amount, who);
        }
    }

    /// Who gets something now, in order.
    fn granted(share: &mut Share<usize>) -> String {
        let pop = || {
            share
                .pop()
                .map(|got| format!("{}{}", got.namespace, got.who))
        };
        std::iter::from_fn(pop).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_order() {
        let mut share = Share::of(100);
        wait(&mut share, "a", 3, 1);
        wait(&mut share, "b", 1, 1);
        wait(&mut share, "c", 2, 1);
        let order: Vec<_> = share.waiting().into_iter().copied().collect();
        assert_eq!(order, [0, 0, 0, 1, 1, 2]);
        assert_eq!(granted(&mut share), "a0 b0 c0 a1 c1 a2");
        for (namespace, held) in [("a", 3), ("b", 1), ("c", 2)] {
            share.give_back(namespace, held);
        }
        assert!(share.of.is_empty() && share.turns.is_empty() && share.in_use() == 0);
    }

    #[test]
    fn a_namespace_by_itself_has_all_but_the_spare() {
        for (size, most) in [(1, 1), (4, 4), (7, 7), (8, 7), (32, 31)] {
            let mut share = Share::of(size);
            wait(&mut share, "a", 100, 1);
            while share.pop().is_some() {}
            assert_eq!(share.in_use(), most, "of {size}");
            share.give_back("a", 1);
            assert!(share.pop().is_some(), "it goes on");
        }
    }

    #[test]
    fn who_comes_next_finds_the_spare_whoever_holds_the_rest() {
        let mut share = Share::of(16);
        wait(&mut share, "slow", 100, 1);
        while share.pop().is_some() {}
        wait(&mut share, "quiet", 2, 1);
        assert_eq!(granted(&mut share), "quiet0");
        share.give_back("quiet", 1);
        assert_eq!(granted(&mut share), "quiet1");
    }

    #[test]
    fn who_has_half_gets_no_more_while_another_one_waits() {
        let mut share = Share::of(16);
        wait(&mut share, "slow", 100, 1);
        while share.pop().is_some() {}
        wait(&mut share, "other", 100, 1);
        // All that becomes free goes to the other one, until it has as much.
        let mut held = (15, 1);
        assert_eq!(granted(&mut share), "other0");
        for _ in 0..8 {
            share.give_back("slow", 1);
            held.0 -= 1;
            while let Some(got) = share.pop() {
                *(if &*got.namespace == "slow" {
                    &mut held.0
                } else {
                    &mut held.1
                }) += 1;
            }
        }
        assert_eq!(held, (8, 7), "one is spare");
        assert_eq!(granted(&mut share), "");
        share.retain("other", |_| false);
        share.give_back("other", 7);
        assert!(granted(&mut share).starts_with("slow"), "it is alone again");
        assert_eq!(share.in_use(), 15);
    }

    #[test]
    fn who_holds_nothing_is_before_who_holds_something() {
        let mut share = Share::of(8);
        wait(&mut share, "a", 100, 1);
        wait(&mut share, "b", 100, 1);
        while share.pop().is_some() {}
        for newcomer in ["c", "d", "e"] {
            wait(&mut share, newcomer, 1, 1);
        }
        assert_eq!(granted(&mut share), "c0", "the spare");
        share.give_back("a", 2);
        assert_eq!(granted(&mut share), "d0 e0");
    }

    #[test]
    fn what_is_small_passes_what_finds_no_room_and_a_stream_of_it_does_not_starve_that() {
        let mut share = Share::sparing(16, 4);
        wait(&mut share, "large", 1, 7);
        assert_eq!(granted(&mut share), "large0");
        wait(&mut share, "stream", 100, 1);
        let first = granted(&mut share);
        assert!(first.starts_with("stream0"), "{first}");
        // It finds too little. Those who hold something get no more before it, but a newcomer does.
        wait(&mut share, "whole", 1, 12);
        wait(&mut share, "quiet", 1, 1);
        assert_eq!(granted(&mut share), "quiet0");
        let held = share.of["stream"].held;
        share.give_back("stream", held);
        share.give_back("quiet", 1);
        assert_eq!(granted(&mut share), "stream5", "one, as it holds nothing");
        share.give_back("large", 7);
        assert_eq!(granted(&mut share).split(' ').next(), Some("whole0"));
    }

    #[test]
    fn something_larger_than_all_goes_by_itself() {
        let mut share = Share::sparing(16, 4);
        wait(&mut share, "a", 2, 100);
        assert_eq!(granted(&mut share), "a0");
        share.give_back("a", 16);
        assert_eq!(granted(&mut share), "a1");
    }

    #[test]
    fn whoever_may_is_served_however_many_namespaces_wait() {
        // Whatever comes and goes: not more than there is; nobody waits who holds nothing while something is free;
        // and what nobody holds any more leaves no trace.
        let mut random = fastrand::Rng::with_seed(7);
        let mut share = Share::of(16);
        let mut held: Vec<Arc<str>> = Vec::new();
        for step in 0..20_000 {
            if step < 19_000 && random.bool() {
                let namespace = format!("n{}", random.u8(0..6) * random.u8(0..6));
                share.push(&namespace, 1, step);
            }
            if !held.is_empty() && (step >= 19_000 || random.bool()) {
                let gone = held.swap_remove(random.usize(..held.len()));
                share.give_back(&gone, 1);
            }
            while let Some(got) = share.pop() {
                held.push(got.namespace);
            }
            assert!(held.len() <= 16 && held.len() == share.in_use());
            let waits_for_nothing = |n: &Arc<str>| share.of[n].held == 0;
            assert!(held.len() == 16 || !share.turns.iter().any(waits_for_nothing));
            assert!(held.len() >= 15 || share.turns.is_empty());
        }
        while let Some(gone) = held.pop() {
            share.give_back(&gone, 1);
            while let Some(got) = share.pop() {
                held.push(got.namespace);
            }
        }
        assert!(share.of.is_empty() && share.turns.is_empty());
    }
}
