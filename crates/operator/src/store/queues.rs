//! Who is woken by changes: the queue of each controller.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_plan::ObjectKey;
use carillon_plan::object_key::POD;

use super::{Key, Store, Tables, Wake};
use crate::controllers::{broadcast_job, cron_job, job, orphan_pod};
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
    /// Whose keys they take; all, if nothing is said. Clones share it.
    pub doors: Option<Arc<Doors>>,
}

/// Whose keys queues take.
#[derive(Debug, Default)]
pub struct Doors {
    /// By controller, the namespaces; `None` for all.
    open: Mutex<HashMap<&'static str, HashSet<Option<Arc<str>>>>>,
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

    /// Enters what a controller has to look after in a namespace, or in all, once; and from now on what has changed.
    pub fn open(&self, store: &Store, controller: &'static str, namespace: Option<&Arc<str>>) {
        let Some(doors) = &self.doors else { return };
        let tables = store.read();
        lock(&doors.open)
            .entry(controller)
            .or_default()
            .insert(namespace.cloned());
        each_key(&tables, &mut |key| {
            let (of, _, object) = self.taker(&key);
            if of == controller && namespace.is_none_or(|only| **only == *object.namespace) {
                self.wake(Wake::Now(key), Duration::ZERO);
            }
        });
    }

    /// Whom nobody looks after need not be woken, and nobody before the queue is open to it.
    pub(super) fn wake(&self, wake: Wake, batch: Duration) {
        let (key, delay) = match wake {
            Wake::Now(key) => (key, Duration::ZERO),
            Wake::Soon(key) => (key, batch),
        };
        let (controller, queue, object) = self.taker(&key);
        let may_enter = |doors: &Arc<Doors>| {
            let open = lock(&doors.open);
            let mut open = open.get(controller).into_iter().flatten();
            open.any(|only| {
                only.as_deref()
                    .is_none_or(|only| only == &*object.namespace)
            })
        };
        if self.doors.as_ref().is_none_or(may_enter)
            && let Some(queue) = queue
        {
            queue.add_after(object.clone(), delay);
        }
    }

    /// The controller that looks after an object, and its queue if it runs.
    fn taker<'a>(
        &'a self,
        key: &'a Key,
    ) -> (
        &'static str,
        Option<&'a WorkQueue<Arc<ObjectKey>>>,
        &'a Arc<ObjectKey>,
    ) {
        let (controller, queue, object) = match key {
            Key::BroadcastJob(key) => (broadcast_job::NAME, &self.broadcast_jobs, key),
            Key::CronJob(key) => (cron_job::NAME, &self.cron_jobs, key),
            Key::Job(key) => (job::NAME, &self.jobs, key),
            Key::OrphanPod(key) => (orphan_pod::NAME, &self.orphan_pods, key),
        };
        (controller, queue.as_ref(), object)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A set stays whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
