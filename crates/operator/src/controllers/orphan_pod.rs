//! Pods that may not be deleted until a Job has counted them, and that no Job controls: somebody took
//! their owner from them, or left them behind. They are let go (upstream: `syncOrphanPod`).

use carillon_plan::Uid;

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

    async fn sync(&self, uid: Uid) -> Next {
        let core = &self.core;
        let request = {
            let tables = core.store.read();
            let found = tables.free_pod(uid).filter(|(.., pod)| pod.tracked);
            // As it was seen: a Job may adopt it meanwhile, and count it.
            found.map(|(namespace, name, pod)| {
                let request = request::release_orphan_pod(namespace, name, uid, pod.rv);
                (request, namespace.to_owned(), name.to_owned())
            })
        };
        let Some((request, namespace, name)) = request else {
            return Next::Forget;
        };
        match settled(core.writes.send(request, None).await) {
            Ok(released) => {
                if released.is_some() {
                    tracing::info!(controller = NAME, ns = %namespace, %name, %uid, "released a pod that no Job controls");
                }
                Next::Forget
            }
            Err(error) => {
                tracing::warn!(controller = NAME, ns = %namespace, %name, %uid, %error, "cannot release a pod that no Job controls");
                Next::Failed(None)
            }
        }
    }

    fn forget(&self, _: Uid) {}

    /// The work queue's metrics say all there is to say.
    fn observe(&self, _: &'static str, _: f64) {}
}
