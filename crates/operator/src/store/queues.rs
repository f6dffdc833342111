//! Who is woken by changes: the queue of each controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carillon_plan::ObjectKey;
use carillon_plan::object_key::POD;

use super::{Key, Store, Tables, Wake};
use crate::queue::{QueueView, WorkQueue};

/// The queue of each controller that runs.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// Of BroadcastJobs.
    pub broadcast_jobs: Option<WorkQueue<Arc<ObjectKey>>>,
    /// Of CronJobs.
    pub cron_jobs: Option<WorkQueue<Arc<ObjectKey>>>,
    /// Of Jobs of batch/v1.
    pub jobs: Option<WorkQueue<Arc<ObjectKey>>>,
    /// Of pods that no Job controls.
    pub orphan_pods: Option<WorkQueue<Arc<ObjectKey>>>,
    /// Whether nobody takes keys, so that none is entered. Clones share it.
    pub stands_by: Arc<AtomicBool>,
}

impl Queues {
    /// What they hold, for `/debug/queue`.
    pub fn view(&self) -> Vec<QueueView> {
        self.all().map(WorkQueue::view).collect()
    }

    /// No key is handed out any more.
    pub fn shutdown(&self) {
        self.all().for_each(WorkQueue::shutdown);
    }

    fn all(&self) -> impl Iterator<Item = &WorkQueue<Arc<ObjectKey>>> {
        let all = self.broadcast_jobs.iter().chain(&self.cron_jobs);
        all.chain(&self.jobs).chain(&self.orphan_pods)
    }

    /// Enters what is there once, and from now on what has changed.
    pub fn open(&self, store: &Store) {
        let tables = store.read();
        self.stands_by.store(false, Ordering::Release);
        each_key(&tables, &mut |key| {
            self.wake(Wake::Now(key), Duration::ZERO);
        });
    }

    /// Whom nobody looks after need not be woken, and nobody while another process looks after all.
    pub(super) fn wake(&self, wake: Wake, batch: Duration) {
        if self.stands_by.load(Ordering::Acquire) {
            return;
        }
        let (key, delay) = match wake {
            Wake::Now(key) => (key, Duration::ZERO),
            Wake::Soon(key) => (key, batch),
        };
        let (queue, key) = match key {
            Key::BroadcastJob(key) => (&self.broadcast_jobs, key),
            Key::CronJob(key) => (&self.cron_jobs, key),
            Key::Job(key) => (&self.jobs, key),
            Key::OrphanPod(key) => (&self.orphan_pods, key),
        };
        if let Some(queue) = queue {
            queue.add_after(key, delay);
        }
    }
}

/// All that a controller may have to look after, and whose rows have outlived it. Some more than once.
fn each_key(tables: &Tables, each: &mut impl FnMut(Key)) {
    let of_pods = tables.pods.owners().chain(tables.taken_pods.owners());
    let owners = of_pods.chain(tables.slices.owners());
    for key in tables.jobs.keys().chain(owners) {
        each(Key::BroadcastJob(key.clone()));
    }
    for key in tables.cron_jobs.keys().chain(tables.families.owners()) {
        each(Key::CronJob(key.clone()));
    }
    let ours = tables.native_jobs().filter(|job| tables.is_ours(job));
    let ours = ours.map(|job| &job.meta.owner);
    for key in ours.chain(tables.job_pods.owners()) {
        each(Key::Job(key.clone()));
    }
    for (namespace, pods) in &tables.free_pods {
        let tracked = pods.iter().filter(|(_, pod)| pod.tracked);
        for (name, pod) in tracked {
            each(Key::OrphanPod(ObjectKey::of(
                POD,
                &**namespace,
                &**name,
                pod.uid,
            )));
        }
    }
}
