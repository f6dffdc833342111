//! What the API server does with a request, and which requests have become pointless.

use super::model::Model;
use super::request::{Request, Rest};
use super::store::{Pod, Store};
use super::violation::Violation;

impl Model {
    /// The store after a request that is not refused.
    pub(super) fn carry_out(
        &mut self,
        store: Store,
        request: &Request,
    ) -> Result<Store, Violation> {
        let mut after = store;
        match *request {
            Request::Slice { index, to, .. } => {
                if self.is_refused(store, request) {
                    return Ok(store);
                }
                let mut list = self.slices.at(store.slices).clone();
                let at = usize::from(index);
                if at < list.len() {
                    list[at] = to;
                } else {
                    list.push(to);
                }
                after.slices = self.slices.number(list);
            }
            Request::Confirm { .. } | Request::ConfirmPod { .. } => {}
            Request::Create { pod, node } => {
                let known = self.pod(store.pods, pod);
                if known.is_some_and(|known| !known.gone) {
                    return Ok(store);
                }
                let incarnation = known.map_or(0, |known| known.incarnation + 1);
                let deadline = self.world.start_deadline;
                let bound = !self.world.scheduler;
                let pod = Pod {
                    started: bound && !deadline,
                    born: if deadline { store.hours } else { 0 },
                    ..Pod::created(pod, incarnation, node, bound)
                };
                after.pods = self.with_pod(store.pods, pod);
            }
            Request::Delete { pod, .. } => {
                if self.is_pointless(store, request) {
                    return Ok(store);
                }
                if let Some(pod) = self.pod(store.pods, pod) {
                    after.pods = self.with_pod(store.pods, pod.delete(store.hours));
                }
            }
            Request::Release { pod, .. } => {
                if self.is_pointless(store, request) {
                    return Ok(store);
                }
                if let Some(pod) = self.pod(store.pods, pod) {
                    after.pods = self.with_pod(store.pods, pod.release());
                }
            }
            Request::Status { to, .. } => {
                if self.is_refused(store, request) {
                    return Ok(store);
                }
                after.status = to;
            }
        }
        if after != store {
            self.judge_request(store, request, after)?;
        }
        Ok(after)
    }

    /// Whether the API server refuses a write that the plan relies on. It then does for ever: no
    /// version comes back.
    fn is_refused(&self, store: Store, request: &Request) -> bool {
        match *request {
            Request::Slice {
                index, from, to, ..
            } => {
                let list = self.slices.at(store.slices);
                let found = list.get(usize::from(index)).copied();
                let (Some(found), Some(from)) = (found, from) else {
                    return found.is_some() != from.is_some();
                };
                let (old, new) = (self.contents.at(found), self.contents.at(to));
                let fenced = old.sealed && (!new.sealed || new.entries.len() > old.entries.len());
                fenced || self.world.server.slice_version && found != from
            }
            Request::Confirm { index, from } => {
                let list = self.slices.at(store.slices);
                list.get(usize::from(index)) != Some(&from)
            }
            Request::Status { from, .. } => {
                self.world.server.status_version && from != store.status
            }
            _ => false,
        }
    }

    /// Whether a pod is not as a plan relies on. Unlike what is refused for ever, this may come and go: a
    /// plan that relies on there being none is asked when its request arrives.
    pub(super) fn has_changed(&self, store: Store, request: &Request) -> bool {
        let Request::ConfirmPod { pod, seen } = *request else {
            return false;
        };
        let found = self.pod(store.pods, pod).filter(|pod| !pod.gone);
        found.map(|pod| (pod.incarnation, pod.version())) != seen
    }

    /// Whether a request has nothing to do any more, and never will have.
    fn is_pointless(&self, store: Store, request: &Request) -> bool {
        let (name, judged, version) = match *request {
            Request::Release { pod, incarnation } => (pod, incarnation, None),
            Request::Delete {
                pod,
                incarnation,
                version,
            } => (pod, incarnation, Some(version)),
            _ => return false,
        };
        let Some(pod) = self.pod(store.pods, name).filter(|pod| !pod.gone) else {
            return true;
        };
        match version {
            None => pod.incarnation != judged || !pod.tracked,
            Some(_) if !self.world.server.delete_preconditions => pod.deleted.is_some(),
            Some(version) => pod.incarnation != judged || pod.version() != version,
        }
    }

    /// A plan without the requests that have become pointless, and up to the first that it relies
    /// on and that would be refused. Nothing is lost by leaving out at once what can only fail:
    /// whoever is about to see a refusal may as well have seen it.
    pub(super) fn settle(&mut self, store: Store, mut plan: u32) -> Result<u32, Violation> {
        while plan != 0 {
            let rest = self.plans.get(plan);
            if rest.requests.is_empty() {
                plan = if rest.failed && rest.stop {
                    0
                } else {
                    rest.next
                };
                continue;
            }
            let words = |r: &Request| matches!(r, Request::Status { from, to, .. } if from == to);
            let settled = |r: &Request| {
                !words(r) && !self.is_pointless(store, r) && !self.is_refused(store, r)
            };
            if rest.requests.iter().all(settled) {
                break;
            }
            let mut left = Rest {
                requests: Vec::new(),
                ..Rest::clone(&rest)
            };
            for request in &rest.requests {
                match *request {
                    Request::Status {
                        from,
                        to,
                        succeeded,
                        failed,
                        ..
                    } if from == to => self.judge_counts(store, succeeded, failed)?,
                    _ if self.is_pointless(store, request) => {}
                    _ if self.is_refused(store, request) => left.failed = true,
                    _ => left.requests.push(*request),
                }
            }
            plan = self.plans.number(left);
        }
        Ok(plan)
    }
}
