//! What is cached of CronJobs of both APIs, and of what they have started.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_plan::cron_job::{Children, CronJob};
use carillon_plan::{ObjectKey, Written};

use crate::store::owned::Owned;

/// Name of the controller in logs, metrics and the work queue.
pub const CONTROLLER: &str = "cronjob";

/// A CronJob, and the spec it was read from if that is small.
#[derive(Clone, Debug)]
pub struct CronJobRow {
    /// As the planner reads it.
    pub cron: Arc<CronJob>,
    pub(super) spec: Written,
}

impl CronJobRow {
    /// Bytes that the spec holds as it was written.
    pub fn bytes_of_text(&self) -> usize {
        self.spec.bytes_held()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct CronJobTables {
    pub(super) by_key: HashMap<Arc<ObjectKey>, CronJobRow>,
    pub(in crate::kinds) children: Owned<Children>,
}

impl CronJobTables {
    /// A CronJob.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<CronJob>> {
        self.by_key.get(key).map(|row| &row.cron)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CronJob>> {
        self.by_key.values().map(|row| &row.cron)
    }

    /// The children of a CronJob; or a child that is held and has lost its CronJob, by its own key.
    pub fn children(&self, cron_job: &ObjectKey) -> Option<&Children> {
        self.children.of(cron_job)
    }

    /// CronJobs, and the owners of what one has started.
    pub(super) fn each_key(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let owners = self.children.owners();
        self.by_key.keys().chain(owners).for_each(each);
    }
}
