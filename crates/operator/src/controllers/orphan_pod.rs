//! Pods that may not be deleted until a Job has counted them, and that no Job controls: somebody took
//! their owner from them, or left them behind. They are let go (upstream: `syncOrphanPod`).

use std::sync::Arc;

use carillon_plan::ObjectKey;

use super::core::{Controller, Core, Next};
use crate::apply::settled;
use crate::request;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = "job_orphan_pod";

/// The controller. Pods whose Job is gone are let go where Jobs are served.
#[derive(Debug)]
pub struct OrphanPods {
    /// What every controller works with.
    pub core: Core,
}

impl Controller for OrphanPods {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn sync(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let (namespace, name, uid) = (&*key.namespace, &*key.name, key.uid);
        let tracked = {
            let tables = core.store.read();
            let pod = tables.free_pod(key).filter(|pod| pod.tracked);
            pod.map(|pod| pod.rv)
        };
        let Some(rv) = tracked else {
            return Next::Forget;
        };
        // As it was seen: a Job may adopt it meanwhile, and count it.
        let request = request::release_orphan_pod(namespace, name, uid, rv);
        match settled(core.writes.send(request, None).await) {
            Ok(released) => {
                if released.done().is_some() {
                    tracing::info!(controller = NAME, ns = namespace, name, %uid, "released a pod that no Job controls");
                }
                Next::Forget
            }
            Err(error) => {
                tracing::warn!(controller = NAME, ns = namespace, name, %uid, %error, "cannot release a pod that no Job controls");
                Next::Failed(None)
            }
        }
    }

    fn forget(&self, _: &ObjectKey) {}

    fn remembers(&self) -> usize {
        0
    }

    /// The work queue's metrics say all there is to say.
    fn observe(&self, _: &'static str, _: f64) {}
}
