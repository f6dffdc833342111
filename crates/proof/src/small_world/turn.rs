//! What can happen next.

use serde::{Deserialize, Serialize};

use super::Violation;
use super::model::{Model, kind};
use super::requests::{Request, Rest};
use super::store::{Leader, Phase, Pod, State, Store};

/// One thing that happens. Leaders, nodes and pod names are numbers. Where an object changes,
/// `seen` has a bit for each leader that looked just before (bit 2: the view for a stale restart).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Turn {
    /// A leader sees these kinds (bits: job 1, slices 2, pods 4, nodes 8) as they are, and plans.
    Plan {
        /// Who.
        leader: usize,
        /// What it looks at before.
        look: u8,
    },
    /// A leader sends a request of its current step, and has its reply.
    Send {
        /// Who.
        leader: usize,
        /// Which of those that are left.
        request: usize,
        /// Who looked just before.
        seen: u8,
    },
    /// A leader's write of status is refused, since another has written other words or counts.
    Conflict {
        /// Who.
        leader: usize,
    },
    /// A leader stops and starts again. One of its requests may still be under way.
    Crash {
        /// Who.
        leader: usize,
        /// Which of those that are left arrives later.
        under_way: Option<usize>,
    },
    /// A leader stops, starts again, and sees old states.
    StaleRestart {
        /// Who.
        leader: usize,
    },
    /// The request that was under way arrives.
    Arrive {
        /// Who looked just before.
        seen: u8,
    },
    /// The scheduler binds a pod.
    Bind {
        /// Its name.
        pod: u8,
        /// Who looked just before.
        seen: u8,
    },
    /// A pod ends.
    End {
        /// Its name.
        pod: u8,
        /// With exit code 0.
        success: bool,
        /// Who looked just before.
        seen: u8,
    },
    /// A user deletes a pod.
    Delete {
        /// Its name.
        pod: u8,
        /// Who looked just before.
        seen: u8,
    },
    /// A user cordons a node.
    Cordon {
        /// Its number.
        node: u8,
        /// Who looked just before.
        seen: u8,
    },
    /// A user makes a node schedulable again.
    Uncordon {
        /// Its number.
        node: u8,
        /// Who looked just before.
        seen: u8,
    },
    /// A node is replaced by another of the same name.
    Replace {
        /// Its number.
        node: u8,
        /// Who looked just before.
        seen: u8,
    },
    /// An hour passes.
    Hour,
}

/// A turn that breaks a law.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) turn: Turn,
    pub(super) violation: Violation,
}

/// Bit of the view for a stale restart among those who look.
const OLD: u8 = 4;

/// The state after a turn, settled but not yet put into canonical order.
pub(super) type Next = (Turn, State);

impl Model {
    /// All that can happen in `state`, in a fixed order. Stops at the first violation.
    pub(super) fn turns(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        out.clear();
        for leader in 0..2 {
            if state.leaders[leader].plan == 0 {
                self.plans(state, leader, out)?;
            } else {
                self.sends(state, leader, out)?;
                self.interruptions(state, leader, out)?;
            }
            self.stale_restart(state, leader, out)?;
        }
        self.arrival(state, out)?;
        self.pods_live(state, out)?;
        self.users_act(state, out)
    }

    fn plans(&mut self, state: &State, leader: usize, out: &mut Vec<Next>) -> Result<(), Broken> {
        let it = state.leaders[leader];
        let fresh = self.look(it.view, state.store, kind::ALL);
        let mut news = 0;
        for (differs, bit) in [
            (fresh.status != it.view.status, kind::JOB),
            (fresh.slices != it.view.slices, kind::SLICES),
            (fresh.pods != it.view.pods, kind::PODS),
            (fresh.nodes != it.view.nodes, kind::NODES),
        ] {
            if differs {
                news |= bit;
            }
        }
        for look in subsets(news) {
            let turn = Turn::Plan { leader, look };
            let view = self.look(it.view, state.store, look);
            let plan = self
                .plan(leader, view, it.gone, state.store.hours)
                .map_err(|violation| Broken { turn, violation })?;
            if plan != 0 {
                let mut next = *state;
                next.leaders[leader] = Leader { view, plan, ..it };
                self.push(turn, next, out)?;
            }
        }
        Ok(())
    }

    fn sends(&mut self, state: &State, leader: usize, out: &mut Vec<Next>) -> Result<(), Broken> {
        let rest = self.plans.get(state.leaders[leader].plan);
        for (at, request) in rest.requests.iter().enumerate() {
            let turn = |seen| Turn::Send {
                leader,
                request: at,
                seen,
            };
            let mut next = *state;
            let mut left = Rest::clone(&rest);
            left.requests.remove(at);
            next.leaders[leader].plan = self.plans.number(left);
            let store = self
                .carry_out(state.store, request)
                .map_err(|violation| Broken {
                    turn: turn(0),
                    violation,
                })?;
            if let Request::ConfirmGone { pod, incarnation } = *request {
                let there = self
                    .pod(store.pods, pod)
                    .is_some_and(|p| !p.gone && p.incarnation == incarnation);
                if !there {
                    next.leaders[leader].gone |= 1 << pod;
                }
            }
            self.change(next, store, turn, out)?;
        }
        Ok(())
    }

    fn interruptions(
        &mut self,
        state: &State,
        leader: usize,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let rest = self.plans.get(state.leaders[leader].plan);
        let status = |request: &Request| matches!(request, Request::Status { .. });
        if rest.loose || rest.requests.iter().any(status) {
            let mut next = *state;
            next.leaders[leader].plan = 0;
            self.push(Turn::Conflict { leader }, next, out)?;
        }
        if state.left.crashes == 0 {
            return Ok(());
        }
        let mut crashed = *state;
        crashed.left.crashes -= 1;
        crashed.leaders[leader].plan = 0;
        crashed.leaders[leader].gone = 0;
        let under_way = None;
        self.push(Turn::Crash { leader, under_way }, crashed, out)?;
        if state.left.late_requests == 0 || state.under_way != 0 {
            return Ok(());
        }
        for (at, request) in rest.requests.iter().enumerate() {
            if matches!(request, Request::ConfirmGone { .. }) {
                continue;
            }
            let mut next = crashed;
            next.left.late_requests -= 1;
            next.under_way = self.plans.number(Rest {
                requests: vec![*request],
                ..Rest::default()
            });
            let under_way = Some(at);
            self.push(Turn::Crash { leader, under_way }, next, out)?;
        }
        Ok(())
    }

    fn stale_restart(
        &mut self,
        state: &State,
        leader: usize,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        if state.left.stale_restarts == 0 {
            return Ok(());
        }
        let mut next = *state;
        next.left.stale_restarts -= 1;
        next.leaders[leader] = Leader {
            view: state.old,
            ..Leader::default()
        };
        self.push(Turn::StaleRestart { leader }, next, out)
    }

    fn arrival(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        if state.under_way == 0 {
            return Ok(());
        }
        let rest = self.plans.get(state.under_way);
        let turn = |seen| Turn::Arrive { seen };
        let mut next = *state;
        next.under_way = 0;
        for request in &rest.requests {
            let store = self
                .carry_out(state.store, request)
                .map_err(|violation| Broken {
                    turn: turn(0),
                    violation,
                })?;
            self.change(next, store, turn, out)?;
        }
        Ok(())
    }

    fn pods_live(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        let pods = self.pods.get(state.store.pods);
        for pod in pods.iter().filter(|pod| !pod.gone) {
            let name = pod.name;
            if pod.phase == Phase::Active && pod.bound {
                let success = true;
                let turn = |seen| Turn::End {
                    pod: name,
                    success,
                    seen,
                };
                self.pod_becomes(state, *state, pod.end(Phase::Succeeded), turn, out)?;
                // A pod that is told to stop may well be killed; one that is not needs a reason.
                let mut next = *state;
                let killed = pod.deleted.is_some();
                if killed || state.left.failures > 0 {
                    next.left.failures -= u8::from(!killed);
                    let turn = |seen| Turn::End {
                        pod: name,
                        success: false,
                        seen,
                    };
                    self.pod_becomes(state, next, pod.end(Phase::Failed), turn, out)?;
                }
            } else if pod.phase == Phase::Active && pod.deleted.is_none() {
                let bound = Pod {
                    bound: true,
                    ..*pod
                };
                let turn = |seen| Turn::Bind { pod: name, seen };
                self.pod_becomes(state, *state, bound, turn, out)?;
            }
            if state.left.deletions > 0 && pod.deleted.is_none() {
                let mut next = *state;
                next.left.deletions -= 1;
                let deleted = pod.delete(state.store.hours);
                let turn = |seen| Turn::Delete { pod: name, seen };
                self.pod_becomes(state, next, deleted, turn, out)?;
            }
        }
        Ok(())
    }

    fn pod_becomes(
        &mut self,
        state: &State,
        next: State,
        pod: Pod,
        turn: impl Fn(u8) -> Turn,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let pods = self.with_pod(state.store.pods, pod);
        let store = Store {
            pods,
            ..state.store
        };
        self.change(next, store, turn, out)
    }

    fn users_act(&mut self, state: &State, out: &mut Vec<Next>) -> Result<(), Broken> {
        let (store, nodes) = (state.store, state.store.nodes);
        for node in 0..self.world.nodes {
            let generation = nodes.generation(node);
            let mut become_ = |model: &mut Self, next, nodes, turn: &dyn Fn(u8) -> Turn| {
                let store = Store { nodes, ..store };
                model.change(next, store, turn, out)
            };
            if nodes.cordoned(node) {
                let open = nodes.with(node, generation, false);
                become_(self, *state, open, &|seen| Turn::Uncordon { node, seen })?;
            } else if state.left.cordons > 0 {
                let mut next = *state;
                next.left.cordons -= 1;
                let cordoned = nodes.with(node, generation, true);
                become_(self, next, cordoned, &|seen| Turn::Cordon { node, seen })?;
            }
            if state.left.replacements > 0 {
                let mut next = *state;
                next.left.replacements -= 1;
                let other = nodes.with(node, generation + 1, false);
                become_(self, next, other, &|seen| Turn::Replace { node, seen })?;
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

    /// The store becomes another; whoever is behind may or may not have looked just before.
    fn change(
        &mut self,
        next: State,
        store: Store,
        turn: impl Fn(u8) -> Turn,
        out: &mut Vec<Next>,
    ) -> Result<(), Broken> {
        let before = next.store;
        if store == before {
            return self.push(turn(0), next, out);
        }
        self.judge(store).map_err(|violation| Broken {
            turn: turn(0),
            violation,
        })?;
        let changed = differing(before, store);
        let mut behind = 0;
        for (at, leader) in next.leaders.iter().enumerate() {
            if self.look(leader.view, before, changed) != leader.view {
                behind |= 1 << at;
            }
        }
        let kinds_of_old = if self.world.ages_differ {
            changed
        } else {
            kind::ALL
        };
        if next.left.stale_restarts > 0 && self.look(next.old, before, kinds_of_old) != next.old {
            behind |= OLD;
        }
        for seen in subsets(behind) {
            let mut next = State { store, ..next };
            for at in 0..2 {
                if seen >> at & 1 == 1 {
                    next.leaders[at].view = self.look(next.leaders[at].view, before, changed);
                }
            }
            if seen & OLD != 0 {
                next.old = self.look(next.old, before, kinds_of_old);
            }
            self.push(turn(seen), next, out)?;
        }
        Ok(())
    }

    fn push(&mut self, turn: Turn, mut next: State, out: &mut Vec<Next>) -> Result<(), Broken> {
        for at in 0..2 {
            let plan = next.leaders[at].plan;
            next.leaders[at].plan = self
                .settle(next.store, plan, next.leaders[at].gone)
                .map_err(|violation| Broken { turn, violation })?;
        }
        next.under_way = self
            .settle(next.store, next.under_way, 0)
            .map_err(|violation| Broken { turn, violation })?;
        if next.left.stale_restarts == 0 {
            next.old = super::store::View::default();
        }
        if next.left.crashes == 0 {
            next.left.late_requests = 0;
        }
        out.push((turn, next));
        Ok(())
    }
}

/// Kinds in which two stores differ.
fn differing(one: Store, other: Store) -> u8 {
    let bit = |differs: bool, bit: u8| if differs { bit } else { 0 };
    bit(one.status != other.status, kind::JOB)
        | bit(one.slices != other.slices, kind::SLICES)
        | bit(one.pods != other.pods, kind::PODS)
        | bit(one.nodes != other.nodes, kind::NODES)
}

/// Every set of these bits, the empty one first.
fn subsets(bits: u8) -> impl Iterator<Item = u8> {
    (0..=bits).filter(move |subset| subset & !bits == 0)
}

/// Leaders in a fixed order: which of them is called the first makes no difference.
pub(super) fn canonical(mut state: State) -> (State, bool) {
    let swapped = state.leaders[1] < state.leaders[0];
    if swapped {
        state.leaders.swap(0, 1);
    }
    (state, swapped)
}

impl Turn {
    /// The same turn with the two leaders' names exchanged.
    pub(super) fn exchanged(self) -> Self {
        let bits = |seen: u8| seen & OLD | seen << 1 & 2 | seen >> 1 & 1;
        match self {
            Self::Plan { leader, look } => Self::Plan {
                leader: 1 - leader,
                look,
            },
            Self::Send {
                leader,
                request,
                seen,
            } => Self::Send {
                leader: 1 - leader,
                request,
                seen: bits(seen),
            },
            Self::Conflict { leader } => Self::Conflict { leader: 1 - leader },
            Self::Crash { leader, under_way } => Self::Crash {
                leader: 1 - leader,
                under_way,
            },
            Self::StaleRestart { leader } => Self::StaleRestart { leader: 1 - leader },
            Self::Arrive { seen } => Self::Arrive { seen: bits(seen) },
            Self::Bind { pod, seen } => Self::Bind {
                pod,
                seen: bits(seen),
            },
            Self::End { pod, success, seen } => Self::End {
                pod,
                success,
                seen: bits(seen),
            },
            Self::Delete { pod, seen } => Self::Delete {
                pod,
                seen: bits(seen),
            },
            Self::Cordon { node, seen } => Self::Cordon {
                node,
                seen: bits(seen),
            },
            Self::Uncordon { node, seen } => Self::Uncordon {
                node,
                seen: bits(seen),
            },
            Self::Replace { node, seen } => Self::Replace {
                node,
                seen: bits(seen),
            },
            Self::Hour => Self::Hour,
        }
    }
}
