//! Who is woken by changes: the queue of each controller.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_plan::ObjectKey;

use super::key::Wake;
use super::shared::Store;
use super::tables::Tables;
use crate::queue::{QueueView, WorkQueue};

/// Names all that a controller may have to look after, and whose rows have outlived it. Some more than once.
pub type EachKey = fn(&Tables, &mut dyn FnMut(&Arc<ObjectKey>));

/// The queue of a controller that runs.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Name of the controller.
    pub controller: &'static str,
    /// What it may have to look after.
    pub each_key: EachKey,
    /// Its keys.
    pub keys: WorkQueue<Arc<ObjectKey>>,
}

/// The queue of each controller that runs.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    all: Vec<Queue>,
    /// Whose keys they take; all, if nothing is said. Clones share it.
    doors: Option<Arc<Doors>>,
}

/// Whose keys queues take.
#[derive(Debug, Default)]
struct Doors {
    /// By controller, the namespaces; `None` for all.
    open: Mutex<HashMap<&'static str, HashSet<Option<Arc<str>>>>>,
}

impl Queues {
    /// Queues that take no key before they are opened.
    pub fn closed(all: Vec<Queue>) -> Self {
        Self {
            all,
            doors: Some(Arc::default()),
        }
    }

    /// The queue of one controller, which takes each key at once.
    pub fn open_to_all(controller: &'static str, keys: WorkQueue<Arc<ObjectKey>>) -> Self {
        let queue = Queue {
            controller,
            each_key: |_, _| {},
            keys,
        };
        Self {
            all: vec![queue],
            doors: None,
        }
    }

    /// What they hold, for `/debug/queue`.
    pub fn view(&self) -> Vec<QueueView> {
        self.all.iter().map(|queue| queue.keys.view()).collect()
    }

    /// No key is handed out any more.
    pub fn shutdown(&self) {
        self.all.iter().for_each(|queue| queue.keys.shutdown());
    }

    /// The keys of a controller, if it runs.
    pub fn of(&self, controller: &str) -> Option<&WorkQueue<Arc<ObjectKey>>> {
        self.find(controller).map(|queue| &queue.keys)
    }

    fn find(&self, controller: &str) -> Option<&Queue> {
        self.all.iter().find(|queue| queue.controller == controller)
    }

    /// Enters what a controller has to look after in a namespace, or in all, once; and from now on what has changed.
    pub fn open(&self, store: &Store, controller: &'static str, namespace: Option<&Arc<str>>) {
        let Some(doors) = &self.doors else { return };
        let tables = store.read();
        lock(&doors.open)
            .entry(controller)
            .or_default()
            .insert(namespace.cloned());
        let Some(queue) = self.find(controller) else {
            return;
        };
        (queue.each_key)(&tables, &mut |key| {
            if namespace.is_none_or(|only| **only == *key.namespace) {
                queue.keys.add_after(key.clone(), Duration::ZERO);
            }
        });
    }

    /// Ignores keys whose controller does not run, or whose queue is not open to them yet.
    pub(super) fn wake(&self, wake: &Wake, batch: Duration) {
        let (key, delay) = match wake {
            Wake::Now(key) => (key, Duration::ZERO),
            Wake::Soon(key) => (key, batch),
        };
        let (controller, object) = (key.controller(), key.object());
        let may_enter = |doors: &Arc<Doors>| {
            let open = lock(&doors.open);
            let mut open = open.get(controller).into_iter().flatten();
            open.any(|only| {
                only.as_deref()
                    .is_none_or(|only| only == &*object.namespace)
            })
        };
        if self.doors.as_ref().is_none_or(may_enter)
            && let Some(queue) = self.of(controller)
        {
            queue.add_after(object.clone(), delay);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A set stays whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
