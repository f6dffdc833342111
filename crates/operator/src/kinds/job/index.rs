//! Jobs of batch/v1, by key, and by what their pods bear.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use carillon_plan::job::Job;
use carillon_plan::node::Labels;
use carillon_plan::selector::{label, selects};
use carillon_plan::{ObjectKey, Uid};

/// Labels with the uid of the Job that a pod was made for; the first is today's.
pub(super) const CONTROLLER_UID: [&str; 2] =
    ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Whether a Job selects by its own uid, as all do that leave their selector to the API server.
fn selects_by_uid(job: &Job) -> bool {
    let labels = job.spec.selector.as_ref();
    let labels = labels.and_then(|selector| selector.match_labels.as_ref());
    let uid = labels.and_then(|labels| CONTROLLER_UID.iter().find_map(|key| labels.get(*key)));
    uid.is_some_and(|uid| uid.parse() == Ok(job.meta.owner.uid))
}

/// Jobs of batch/v1. A pod that nothing controls bears the uid of one as a label.
#[derive(Debug, Default)]
pub(super) struct JobIndex {
    pub(super) rows: HashMap<Arc<ObjectKey>, Arc<Job>>,
    /// By the uid that the API server gave them.
    by_uid: HashMap<Uid, Arc<ObjectKey>>,
    /// Those, unfinished or not, that select by other labels than their own uid.
    other_selectors: HashSet<Arc<ObjectKey>>,
}

impl JobIndex {
    /// The Job of this key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Job>> {
        self.rows.get(key)
    }

    /// All of them.
    pub(super) fn values(&self) -> impl ExactSizeIterator<Item = &Arc<Job>> {
        self.rows.values()
    }

    /// The Jobs of a namespace that select a pod with these labels.
    pub(super) fn selecting(
        &self,
        namespace: &str,
        labels: &Labels,
    ) -> impl Iterator<Item = Arc<ObjectKey>> {
        let mut uids = CONTROLLER_UID.iter().filter_map(|key| label(labels, key));
        let own = uids.find_map(|uid| uid.parse().ok());
        let jobs = self.perhaps_selecting(own).filter(move |job| {
            let selector = job.spec.selector.as_ref();
            *job.meta.owner.namespace == *namespace
                && selector.is_some_and(|selector| selects(selector, labels))
        });
        jobs.map(|job| job.meta.owner.clone())
    }

    /// Those that may select a pod which bears this uid as a label: the one of that uid, and those
    /// that select by other labels, which are few.
    fn perhaps_selecting(&self, uid: Option<Uid>) -> impl Iterator<Item = &Arc<Job>> {
        let own = uid.and_then(|uid| self.by_uid.get(&uid));
        let keys = own.into_iter().chain(&self.other_selectors);
        keys.filter_map(|key| self.rows.get(key))
    }

    /// Enters a Job. The one that was there.
    pub(super) fn insert(&mut self, job: Arc<Job>, ours: bool) -> Option<Arc<Job>> {
        let key = &job.meta.owner;
        if ours && !selects_by_uid(&job) {
            self.other_selectors.insert(key.clone());
        } else {
            self.other_selectors.remove(key);
        }
        self.by_uid.insert(key.uid, key.clone());
        self.rows.insert(key.clone(), job)
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.other_selectors.remove(key);
        self.by_uid.remove(&key.uid);
        self.rows.remove(key).is_some()
    }
}
