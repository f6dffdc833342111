//! Pods that may not be deleted until a Job has counted them, and that no Job controls: somebody took
//! their owner from them, or left them behind. They are released (upstream: `syncOrphanPod`).

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::POD;

use super::tables::ORPHAN_PODS;
use super::{Jobs, requests};
use crate::apply::release;
use crate::controllers::core::{Core, Next, Reconcile};
use crate::controllers::served::Served;
use crate::gate::Kind;

/// Beside the controller of Jobs, from what that reads.
pub const SERVED: Served = Served::beside::<Jobs>(
    ORPHAN_PODS,
    |tables, each| tables.jobs.each_orphan(each),
    |_, _, _, core| Some(Arc::new(OrphanPods { core })),
);

/// The controller. Pods whose Job is gone are released where Jobs are served.
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
            let pod = tables.jobs.orphan(key).filter(|pod| pod.tracked);
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
        core.release(key, None, &held, async |held| {
            let rv = held.rv.unwrap_or_default();
            let request = requests::release_orphan_pod(&key.namespace, &held.name, held.uid, rv);
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
