//! Objects that may still create pods, as several checks look at them.

use std::collections::BTreeMap;

use carillon_api::names::{LABEL_BROADCAST_JOB_NAME, LABEL_BROADCAST_JOB_UID};
use serde_json::Value;

use crate::daemon_set::should_run::{ShouldRun, should_run};
use crate::eligibility::{Refusal, refusal};
use crate::node::NodeRow;
use crate::placement::Placement;
use crate::view::broadcast_job::progress::{Standing, standing};
use crate::view::daemon_set::read as sets;
use crate::view::daemon_set::resource;
use crate::view::read::{self, entries};

/// A BroadcastJob that has not ended, or a DaemonSet.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `BroadcastJob ops/fix`.
    pub place: String,
    /// Its namespace.
    pub namespace: String,
    /// What its pods ask of a node.
    pub placement: Placement,
    /// The labels of its pods.
    pub labels: BTreeMap<String, String>,
    /// How many pods it has yet to create, as its status says.
    pub wants: i32,
    /// Whether it is a DaemonSet.
    pub is_set: bool,
}

impl Subject {
    /// A BroadcastJob; `None` if it has ended or is deleted.
    pub fn job(object: &Value) -> Option<Self> {
        let stored = read::job(object);
        let job = stored.job;
        let (standing, status) = (standing(&job).0, &job.status);
        if standing.has_ended() || job.meta.deleting {
            return None;
        }
        let owner = &job.meta.owner;
        let mut labels = labels(object);
        labels.insert(LABEL_BROADCAST_JOB_NAME.to_owned(), owner.name.clone());
        labels.insert(LABEL_BROADCAST_JOB_UID.to_owned(), owner.uid.to_string());
        let wants = match standing {
            Standing::NotStarted => 1,
            _ => status.desired - status.succeeded - status.failed - status.active,
        };
        Some(Self {
            place: format!("BroadcastJob {}/{}", owner.namespace, owner.name),
            namespace: owner.namespace.clone(),
            labels,
            wants,
            is_set: false,
            placement: job.placement,
        })
    }

    /// A DaemonSet, of either API; `None` if it is deleted.
    pub fn set(object: &Value) -> Option<Self> {
        let set = sets::set(object).set;
        if set.meta.deleting {
            return None;
        }
        let (owner, status) = (&set.meta.owner, &set.status);
        Some(Self {
            place: format!("{} {}/{}", resource(&set), owner.namespace, owner.name),
            namespace: owner.namespace.clone(),
            placement: set.spec.placement.clone(),
            labels: labels(object),
            wants: status.desired_number_scheduled - status.current_number_scheduled,
            is_set: true,
        })
    }

    /// Why a node is left out, if it is: as the planner of its kind judges.
    pub fn refusal<'a>(&'a self, name: &str, node: &'a NodeRow) -> Option<Refusal<'a>> {
        if !self.is_set {
            return refusal(&self.placement, name, node);
        }
        match should_run(&self.placement, name, node) {
            ShouldRun::Yes => None,
            ShouldRun::OnlyIfThere(refusal) | ShouldRun::No(refusal) => Some(refusal),
        }
    }
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = entries(&object["spec"]["template"]["metadata"]["labels"]);
    let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.into())));
    labels.collect()
}
