//! When nothing goes wrong any more: does a leader alone bring the job to its end?

use carillon_api::NodeState;

use super::Violation;
use super::model::{Model, kind};
use super::requests::{Request, Rest, Verdict};
use super::store::{Phase, Pod, Store, View};

/// Rounds after which a job that has not ended never will.
const ROUNDS: usize = 200;

impl Model {
    /// Runs a job from `store` with one leader that sees everything, while pods are bound and end
    /// and time passes, until nothing happens any more. Then it must be over.
    pub(super) fn ends_well(&mut self, store: Store) -> Result<(), Violation> {
        let mut store = store;
        let mut view = self.look(View::default(), store, kind::ALL);
        let (mut gone, mut seen) = (0u32, Vec::new());
        let mut idle_hours = 0;
        while seen.len() < ROUNDS {
            if !self.ends_well.insert((store, view.pods, gone)) {
                // It was here before, and went on from here. A circle would have been idle.
                return if seen.contains(&(store, view.pods, gone)) {
                    Err(self.stuck(store))
                } else {
                    Ok(())
                };
            }
            seen.push((store, view.pods, gone));
            view = self.look(view, store, kind::ALL);
            let plan = self.plan(0, view, gone, store.hours)?;
            let before = (store, gone);
            if plan != 0 {
                (store, gone) = self.apply(store, plan, gone)?;
            }
            if (store, gone) == before {
                store = self.time_passes(store);
            }
            if store.hours != before.0.hours {
                idle_hours += 1;
                if self.is_over(store) || idle_hours > 3 {
                    break;
                }
            } else {
                idle_hours = 0;
            }
        }
        if self.is_over(store) {
            Ok(())
        } else {
            Err(self.stuck(store))
        }
    }

    fn stuck(&mut self, store: Store) -> Violation {
        // What was marked as good on the way here was not.
        self.ends_well.clear();
        let pods = self.pods.at(store.pods).iter();
        let left: Vec<String> = pods
            .filter(|pod| pod.tracked)
            .map(|pod| self.pod_text(pod))
            .collect();
        let open = self.entries(store.slices).filter(|entry| {
            matches!(
                entry.state,
                NodeState::Started | NodeState::Disrupted | NodeState::Unknown
            )
        });
        Violation {
            law: "a leader alone brings the job to its end and lets every pod go",
            detail: format!(
                "{:?}; tracked: {}; attempts not done: {}",
                Verdict::read(store.status),
                left.join(", "),
                open.count()
            ),
        }
    }

    fn is_over(&self, store: Store) -> bool {
        let pods = self.pods.at(store.pods);
        Verdict::read(store.status).ended()
            && pods.iter().all(|pod| !pod.tracked && !pod.occupies())
    }

    fn apply(
        &mut self,
        mut store: Store,
        mut plan: u32,
        mut gone: u32,
    ) -> Result<(Store, u32), Violation> {
        loop {
            plan = self.settle(store, plan, gone)?;
            if plan == 0 {
                return Ok((store, gone));
            }
            let mut rest = Rest::clone(&self.plans.get(plan));
            let request = rest.requests.remove(0);
            if let Request::ConfirmGone { pod, incarnation } = request {
                let found = self.pod(store.pods, pod);
                if !found.is_some_and(|p| !p.gone && p.incarnation == incarnation) {
                    gone |= 1 << pod;
                }
            }
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
        let waiting = active().any(|pod| !pod.bound && pod.deleted.is_none());
        for pod in active() {
            let next = if waiting && !pod.bound && pod.deleted.is_none() {
                Pod {
                    bound: true,
                    ..*pod
                }
            } else if !waiting && pod.bound {
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
