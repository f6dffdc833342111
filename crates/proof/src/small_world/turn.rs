//! What can happen next.

use super::digest::FastSet;
use super::model::Model;
use super::names;
use super::request::{Request, Rest};
use super::store::{Entry, Phase, Pod, State, Store, View};
use super::violation::Violation;

/// One thing that happens. Leaders, nodes and pod names are numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// A leader plans from what it sees, and sends a request of the first step. Until it sends
    /// one, that it has planned makes no difference.
    Act {
        leader: usize,
        view: View,
        /// Pods it knows to be gone, since it asked.
        gone: u32,
        request: Request,
    },
    /// A leader sends a further request of its current step.
    Send { leader: usize, request: Request },
    /// A leader drops the rest of its plan: it crashed, or a request failed.
    Crash { leader: usize },
    /// The same, but one of its requests is still under way.
    CrashLate { leader: usize, request: Request },
    /// The request that was under way arrives.
    Arrive { request: Request },
    /// The scheduler binds a pod.
    Bind { pod: u8 },
    /// The container of a pod starts.
    Start { pod: u8 },
    /// A pod ends.
    End { pod: u8, success: bool },
    /// A user deletes a pod.
    Delete { pod: u8 },
    /// A user cordons a node.
    Cordon { node: u8 },
    /// A user makes a node schedulable again.
    Uncordon { node: u8 },
    /// A node is replaced by another of the same name.
    Replace { node: u8 },
    /// An hour passes.
    Hour,
}

/// A turn that breaks a law.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) turn: Turn,
    pub(super) violation: Violation,
}

/// A turn and the state after it.
pub(super) type Next = (Turn, State);

impl Model {
    /// All that can happen in `state`, in a fixed order. Stops at the first violation.
    pub(super) fn turns(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        out.clear();
        let views = if state.plans.contains(&0) {
            self.views(state)
        } else {
            Vec::new()
        };
        for leader in 0..2 {
            if state.plans[leader] != 0 {
                self.goes_on(state, leader, out)?;
            } else if leader == 0 || state.plans[0] != 0 || !self.world.same_plan {
                // Of two leaders without a plan it makes no difference which one acts.
                self.acts(state, leader, &views, out)?;
            }
        }
        self.arrives(state, out)?;
        self.pods_live(state, out)?;
        self.users_act(state, out)
    }

    fn acts(
        &mut self,
        state: &State,
        leader: usize,
        views: &[View],
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let mut known: FastSet<u32> = FastSet::default();
        let all_gone = self.gone(state.store.pods);
        for view in views {
            for gone in [0, all_gone] {
                if gone == 0 || all_gone != 0 {
                    self.acts_from(state, leader, *view, gone, &mut known, out)?;
                }
                if all_gone == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn acts_from(
        &mut self,
        state: &State,
        leader: usize,
        view: View,
        gone: u32,
        known: &mut FastSet<u32>,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let planning = Turn::Act {
            leader,
            view,
            gone,
            request: Request::Create { pod: 0, node: 0 },
        };
        let broken = |violation| Broken {
            turn: planning,
            violation,
        };
        let plan = self
            .plan(leader, view, gone, state.store.hours)
            .map_err(broken)?;
        if plan == 0 || !known.insert(plan) {
            return Ok(());
        }
        let plan = self.settle(state.store, plan).map_err(broken)?;
        if plan == 0 || !known.insert(plan | 1 << 31) {
            return Ok(());
        }
        let turn = |request| Turn::Act {
            leader,
            view,
            gone,
            request,
        };
        self.send(state, leader, plan, turn, out)
    }

    fn goes_on(&mut self, state: &State, leader: usize, out: &mut Vec<Next>) -> Result<(), Broken> {
        let plan = state.plans[leader];
        let turn = |request| Turn::Send { leader, request };
        self.send(state, leader, plan, turn, out)?;
        let mut crashed = *state;
        crashed.plans[leader] = 0;
        self.push(Turn::Crash { leader }, crashed, out)?;
        if state.left.late_requests == 0 || state.under_way != 0 {
            return Ok(());
        }
        crashed.left.late_requests -= 1;
        for request in &self.plans.get(plan).requests {
            let under_way = self.plans.number(Rest {
                requests: vec![*request],
                ..Rest::default()
            });
            let turn = Turn::CrashLate {
                leader,
                request: *request,
            };
            let next = State {
                under_way,
                ..crashed
            };
            self.push(turn, next, out)?;
        }
        Ok(())
    }

    /// Each request of the first step of a plan, as the next to be sent.
    fn send(
        &mut self,
        state: &State,
        leader: usize,
        plan: u32,
        turn: impl Fn(Request) -> Turn,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let rest = self.plans.get(plan);
        for (at, request) in rest.requests.iter().enumerate() {
            let turn = turn(*request);
            let mut next = *state;
            if !self.may_arrive(&mut next, request) {
                continue;
            }
            let mut left = Rest::clone(&rest);
            left.requests.remove(at);
            left.failed |= self.has_changed(state.store, request);
            next.plans[leader] = self.plans.number(left);
            let store = self
                .carry_out(state.store, request)
                .map_err(|violation| Broken { turn, violation })?;
            self.change(next, store, turn, out)?;
        }
        Ok(())
    }

    /// Whether a request may arrive now. A creation for an attempt that is over costs something,
    /// lest there be ever more of them.
    fn may_arrive(&self, next: &mut State, request: &Request) -> bool {
        let Request::Create { pod, .. } = *request else {
            return true;
        };
        let there = self.pod(next.store.pods, pod).is_some_and(|pod| !pod.gone);
        let entry = self.entry(next.store.slices, pod);
        let over = entry.is_some_and(Entry::is_final);
        // A plan that is an hour old creates nothing any more.
        let now = names::seconds(names::time(next.store.hours));
        let withdrawn = entry.and_then(|entry| entry.finished.filter(|_| !over));
        if withdrawn.is_some_and(|since| since < now) {
            return false;
        }
        if self.world.strict || there || !over {
            return true;
        }
        let left = next.left.late_creations;
        next.left.late_creations = left.saturating_sub(1);
        left > 0
    }

    fn arrives(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        for request in &self.plans.get(state.under_way).requests {
            let turn = Turn::Arrive { request: *request };
            let mut next = *state;
            next.under_way = 0;
            if !self.may_arrive(&mut next, request) {
                continue;
            }
            let store = self
                .carry_out(state.store, request)
                .map_err(|violation| Broken { turn, violation })?;
            self.change(next, store, turn, out)?;
        }
        Ok(())
    }

    fn pods_live(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        let pods = self.pods.get(state.store.pods);
        for row in pods.iter().filter(|pod| !pod.gone) {
            let pod = row.name;
            if row.phase == Phase::Active && row.bound && !row.started {
                let started = Pod {
                    started: true,
                    ..*row
                };
                self.becomes(*state, started, Turn::Start { pod }, out)?;
                if row.deleted.is_some() {
                    let killed = row.end(Phase::Failed);
                    let turn = Turn::End {
                        pod,
                        success: false,
                    };
                    self.becomes(*state, killed, turn, out)?;
                }
            } else if row.phase == Phase::Active && row.bound {
                let end = |success| Turn::End { pod, success };
                self.becomes(*state, row.end(Phase::Succeeded), end(true), out)?;
                // A pod that is told to stop may be killed; one that is not needs a reason.
                let mut next = *state;
                let killed = row.deleted.is_some();
                if killed || state.left.failures > 0 {
                    next.left.failures -= u8::from(!killed);
                    self.becomes(next, row.end(Phase::Failed), end(false), out)?;
                }
            } else if row.phase == Phase::Active && row.deleted.is_none() {
                let bound = self.bound(row);
                self.becomes(*state, bound, Turn::Bind { pod }, out)?;
            }
            if state.left.deletions > 0 && row.deleted.is_none() {
                let mut next = *state;
                next.left.deletions -= 1;
                let deleted = row.delete(state.store.hours);
                self.becomes(next, deleted, Turn::Delete { pod }, out)?;
            }
        }
        Ok(())
    }

    /// A pod when it is bound; without a start deadline it makes no difference when it starts.
    pub(super) fn bound(&self, pod: &Pod) -> Pod {
        Pod {
            bound: true,
            started: !self.world.start_deadline,
            ..*pod
        }
    }

    fn becomes(
        &mut self,
        next: State,
        pod: Pod,
        turn: Turn,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let pods = self.with_pod(next.store.pods, pod);
        let store = Store { pods, ..next.store };
        self.change(next, store, turn, out)
    }

    fn users_act(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        let (store, nodes) = (state.store, state.store.nodes);
        for node in 0..self.world.nodes {
            let generation = nodes.generation(node);
            let with = |nodes| Store { nodes, ..store };
            if nodes.cordoned(node) {
                let open = nodes.with(node, generation, false);
                self.change(*state, with(open), Turn::Uncordon { node }, out)?;
            } else if state.left.cordons > 0 {
                let mut next = *state;
                next.left.cordons -= 1;
                let cordoned = nodes.with(node, generation, true);
                self.change(next, with(cordoned), Turn::Cordon { node }, out)?;
            }
            if state.left.replacements > 0 {
                let mut next = *state;
                next.left.replacements -= 1;
                let other = nodes.with(node, generation + 1, false);
                self.change(next, with(other), Turn::Replace { node }, out)?;
            }
        }
        if state.left.hours > 0 {
            let mut next = *state;
            next.left.hours -= 1;
            next.store.hours += 1;
            self.push(Turn::Hour, next, out)?;
        }
        Ok(())
    }

    /// The store becomes another, and what it was becomes the past.
    fn change(
        &mut self,
        mut next: State,
        store: Store,
        turn: Turn,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        if store != next.store {
            self.judge(store)
                .map_err(|violation| Broken { turn, violation })?;
            next.past = self.remember(next.past, next.store, store);
            next.store = store;
        }
        self.push(turn, next, out)
    }

    fn push(&mut self, turn: Turn, mut next: State, out: &mut Vec<Next>) -> Result<(), Broken> {
        for plan in next.plans.iter_mut().chain([&mut next.under_way]) {
            *plan = self
                .settle(next.store, *plan)
                .map_err(|violation| Broken { turn, violation })?;
        }
        out.push((turn, next));
        Ok(())
    }
}

/// Leaders in a fixed order: which of them is called the first makes no difference.
pub(super) fn canonical(mut state: State) -> (State, bool) {
    let swapped = state.plans[1] < state.plans[0];
    if swapped {
        state.plans.swap(0, 1);
    }
    (state, swapped)
}
