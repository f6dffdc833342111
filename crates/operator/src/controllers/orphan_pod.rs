//! Pods that may not be deleted until a Job has counted them, and that no Job controls: somebody took
//! their owner from them, or left them behind. They are let go (upstream: `syncOrphanPod`).

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::POD;

use super::core::{Core, Next, Reconcile};
use crate::apply::release;
use crate::gate::Kind;
use crate::request;
use crate::store::controller;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = controller::ORPHAN_POD;

/// The controller. Pods whose Job is gone are let go where Jobs are served.
#[derive(Debug)]
pub struct OrphanPods {
    /// What every controller works with.
    pub core: Core,
}

impl Reconcile for OrphanPods {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn reconcile(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let held: Vec<Held> = {
            let tables = core.store.read();
            let pod = tables.orphan_pod(key).filter(|pod| pod.tracked);
            let held = pod.map(|pod| Held {
                kind: POD,
                name: key.name.as_str().into(),
                uid: key.uid,
                // As it was seen: a Job may adopt it meanwhile, and count it.
                rv: Some(pod.rv),
                watched: false,
            });
            held.into_iter().collect()
        };
        core.let_go(key, None, &held, async |held| {
            let rv = held.rv.unwrap_or_default();
            let request = request::release_orphan_pod(&key.namespace, &held.name, held.uid, rv);
            release(&core.writes, Kind::Pod, request).await
        })
        .await
    }

    fn forget(&self, _: &ObjectKey) {}

    fn discard_derived(&self, _: &ObjectKey) {}

    fn remembers(&self) -> usize {
        0
    }

    /// The work queue's metrics say all there is to say.
    fn count(&self, _: &'static str, _: f64) {}
}
