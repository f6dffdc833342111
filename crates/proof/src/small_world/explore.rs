//! Breadth first through all states.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::time::Instant;

use super::digest::{Already, FastSet, digest};
use super::model::Model;
use super::outcome::{Finding, Outcome};
use super::path;
use super::store::{State, Store};
use super::turn::{Broken, Turn};
use super::violation::Violation;
use super::world::World;

/// Where to stop if the world turns out to be larger than thought.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Distinct states at most.
    pub states: u32,
}

/// Visits every state of `world`, or stops at the first violation or at the limit.
///
/// Of a visited state only 128 bits are kept: with 10⁸ states the chance that any two share them
/// is below 10⁻²². In each state the laws are checked for every change that can follow; from
/// each distinct state of the store, a leader that is left alone must come to the end.
pub fn explore(world: &World, limits: Limits) -> Outcome {
    let begin = Instant::now();
    let mut search = Search::new(world);
    let found = search.run(limits);
    let (violation, exhausted) = match found {
        Ok(exhausted) => (None, exhausted),
        Err(broken) => (Some(search.finding(broken)), false),
    };
    Outcome {
        states: search.visited.len(),
        transitions: search.transitions,
        depth: search.depth,
        stores: search.stores.len(),
        views: search.model.planned.len(),
        violation,
        exhausted,
        duration: begin.elapsed(),
    }
}

struct Search {
    model: Model,
    visited: HashSet<u128, BuildHasherDefault<Already>>,
    stores: FastSet<Store>,
    /// From which state each was first reached, and by which of that one's turns.
    links: Vec<(u32, u16)>,
    transitions: u64,
    depth: usize,
}

/// Where a violation was found.
struct Place {
    state: u32,
    turn: Option<Turn>,
    violation: Violation,
}

impl Search {
    fn new(world: &World) -> Self {
        Self {
            model: Model::new(world),
            visited: HashSet::default(),
            stores: FastSet::default(),
            links: Vec::new(),
            transitions: 0,
            depth: 0,
        }
    }

    /// Whether all states were visited.
    fn run(&mut self, limits: Limits) -> Result<bool, Place> {
        let start = self.model.start();
        self.visited.insert(digest(&start));
        self.links.push((0, 0));
        let mut frontier = vec![(start, 0)];
        let mut turns = Vec::new();
        while !frontier.is_empty() {
            let mut next_frontier = Vec::new();
            for (state, number) in frontier {
                self.check_end(&state, number)?;
                let at = |Broken { turn, violation }| Place {
                    state: number,
                    turn: Some(turn),
                    violation,
                };
                self.model.turns(&state, &mut turns).map_err(at)?;
                self.transitions += turns.len() as u64;
                for (ordinal, (_, next)) in turns.iter().enumerate() {
                    let mut next = *next;
                    self.model.put_in_order(&mut next);
                    if !self.visited.insert(digest(&next)) {
                        continue;
                    }
                    if self.links.len() >= limits.states as usize {
                        return Ok(false);
                    }
                    next_frontier.push((next, self.links.len() as u32));
                    self.links.push((number, ordinal as u16));
                }
            }
            frontier = next_frontier;
            self.depth += usize::from(!frontier.is_empty());
        }
        Ok(true)
    }

    fn check_end(&mut self, state: &State, number: u32) -> Result<(), Place> {
        if !self.stores.insert(state.store) {
            return Ok(());
        }
        self.model
            .ends_well(state.store)
            .map_err(|violation| Place {
                state: number,
                turn: None,
                violation,
            })
    }

    fn finding(&mut self, place: Place) -> Finding {
        let mut ordinals = Vec::new();
        let mut at = place.state;
        while at != 0 {
            let (from, ordinal) = self.links[at as usize];
            ordinals.push(ordinal);
            at = from;
        }
        ordinals.reverse();
        Finding {
            path: path::read(&mut self.model, &ordinals, place.turn),
            violation: place.violation,
        }
    }
}
