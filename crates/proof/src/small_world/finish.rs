//! When nothing goes wrong any more: does a leader alone bring the job to its end?

use super::model::Model;
use super::request::{Rest, Verdict};
use super::store::{Phase, Pod, Store};
use super::violation::Violation;

/// Rounds after which a job that has not ended never will.
const ROUNDS: usize = 200;
/// Hours that pass without anything else before the job is taken to be at rest.
const IDLE_HOURS: u8 = 2;

impl Model {
    /// Runs a job from `store` with one leader that sees everything, while pods are bound and end
    /// and time passes, until nothing happens any more. Then it must be over.
    pub(super) fn ends_well(&mut self, mut store: Store) -> Result<(), Violation> {
        let (mut way, mut idle) = (Vec::new(), 0);
        while idle < IDLE_HOURS && way.len() < ROUNDS {
            if self.ends_well.contains(&store) {
                self.ends_well.extend(way);
                return Ok(());
            }
            way.push(store);
            let view = self.view(store);
            let gone = self.gone(store.pods);
            let plan = self.plan(0, view, gone, store.hours)?;
            let before = store;
            store = self.apply(store, plan)?;
            if store == before {
                store = self.time_passes(store);
            }
            idle = if store.hours == before.hours {
                0
            } else {
                idle + 1
            };
        }
        if self.is_over(store) {
            self.ends_well.extend(way);
            return Ok(());
        }
        let pods = self.pods.at(store.pods).iter();
        let left: Vec<String> = pods
            .filter(|pod| pod.tracked)
            .map(|pod| self.pod_text(pod))
            .collect();
        Err(Violation {
            law: "a leader alone brings the job to its end and lets every pod go",
            detail: format!("{:?}, held: {left:?}", Verdict::read(store.status)),
        })
    }

    fn is_over(&self, store: Store) -> bool {
        let pods = self.pods.at(store.pods);
        let ended = Verdict::read(store.status).ended();
        ended
            && pods
                .iter()
                .all(|pod| !pod.tracked && (pod.gone || pod.phase != Phase::Active))
    }

    fn apply(&mut self, mut store: Store, mut plan: u32) -> Result<Store, Violation> {
        loop {
            plan = self.settle(store, plan)?;
            if plan == 0 {
                return Ok(store);
            }
            let mut rest = Rest::clone(&self.plans.get(plan));
            let request = rest.requests.remove(0);
            rest.failed |= self.has_changed(store, &request);
            store = self.carry_out(store, &request)?;
            self.judge(store)?;
            plan = self.plans.number(rest);
        }
    }

    /// Nodes become schedulable, pods are bound, then end, then an hour passes.
    fn time_passes(&mut self, mut store: Store) -> Store {
        let start = store;
        for node in 0..self.world.nodes {
            let generation = store.nodes.generation(node);
            store.nodes = store.nodes.with(node, generation, false);
        }
        let pods = self.pods.get(store.pods);
        let active = || pods.iter().filter(|pod| pod.occupies());
        let waits = |pod: &Pod| !pod.bound && pod.deleted.is_none();
        let binding = active().any(waits);
        for pod in active() {
            let next = if binding && waits(pod) {
                self.bound(pod)
            } else if !binding && pod.bound && !pod.started && pod.deleted.is_none() {
                Pod {
                    started: true,
                    ..*pod
                }
            } else if !binding && pod.bound {
                let killed = pod.deleted.is_some();
                pod.end(if killed {
                    Phase::Failed
                } else {
                    Phase::Succeeded
                })
            } else {
                continue;
            };
            store.pods = self.with_pod(store.pods, next);
        }
        if store == start {
            store.hours += 1;
        }
        store
    }
}
