//! The per-node records of a job, as the planner reads them from its result slices.
//!
//! The slices are a log of reservations: a new attempt is only ever added at the end of the last
//! slice (or as the first entry of the next), and every write of a slice names the resourceVersion
//! it was planned from. So two leaders cannot both reserve: one of them gets a conflict.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use carillon_api::node_result_slice::{NodeResult, Rest};
use carillon_api::{NodeState, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::uid::Uid;

/// One slice, in the order of its index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Slice {
    /// 0 for the first.
    pub index: u32,
    /// Uid of the slice object.
    pub uid: Uid,
    /// resourceVersion it was read at.
    pub rv: u64,
    /// No further attempt may be reserved, here or in a later slice.
    pub sealed: bool,
    /// Attempts, oldest first.
    pub records: Records,
}

/// The attempts of a slice. A copy costs nothing until one of the two is changed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Records(Arc<Vec<Record>>);

impl Records {
    /// Whether these are the other ones and not merely equal. False tells nothing.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Records {
    type Target = Vec<Record>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Records {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        Self(Arc::new(records.into_iter().collect()))
    }
}

impl From<Vec<Record>> for Records {
    fn from(records: Vec<Record>) -> Self {
        Self(Arc::new(records))
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = &'a Record;
    type IntoIter = std::slice::Iter<'a, Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Records {
    type Item = &'a mut Record;
    type IntoIter = std::slice::IterMut<'a, Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// One attempt on one node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// Node name.
    pub node: Arc<str>,
    /// Node uid.
    pub node_uid: Uid,
    /// 1 for the first attempt on a node of this name.
    pub attempt: u32,
    /// Started until an outcome is known.
    pub state: NodeState,
    /// Pod name.
    pub pod: Box<str>,
    /// Pod uid once the pod was seen. `None` while Started: reserved, about to be created.
    pub pod_uid: Option<Uid>,
    /// Why, for every state but Succeeded. While Started: why it is about to be given up.
    pub reason: Arc<str>,
    /// Exit code.
    pub exit_code: Option<i32>,
    /// Start of the first container.
    pub started: Option<Timestamp>,
    /// End of the last container. While Started: since when its promise is to be taken back.
    pub finished: Option<Timestamp>,
    /// Since when the node object is gone while the pod runs, as first noticed.
    pub node_gone: Option<Timestamp>,
    /// Last words.
    pub message: Box<str>,
    /// Somebody has asked for the attempt.
    pub requested: bool,
    /// Of a failure: a resume has accepted it.
    pub accepted: bool,
    /// Fields of a later version, if there are any: it may lead again.
    pub rest: Option<Arc<Rest>>,
}

impl Record {
    /// Whether the attempt is over.
    pub fn is_final(&self) -> bool {
        self.state != NodeState::Started
    }

    /// Seconds that an attempt ran which succeeded or failed.
    pub fn took(&self) -> Option<f64> {
        let ran = matches!(self.state, NodeState::Succeeded | NodeState::Failed);
        let took = self.finished?.duration_since(self.started?).as_secs_f64();
        ran.then_some(took.max(0.0))
    }

    /// Reads the stored form. `None` for an entry without usable uids, which cannot be ours.
    pub fn read(stored: &NodeResult) -> Option<Self> {
        let pod_uid = match stored.pod_uid.as_str() {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        Some(Self {
            node: stored.node_name.as_str().into(),
            node_uid: stored.node_uid.parse().ok()?,
            attempt: u32::try_from(stored.attempt).ok()?,
            state: stored.state,
            pod: stored.pod_name.as_str().into(),
            pod_uid,
            reason: stored.reason.as_str().into(),
            exit_code: stored.exit_code,
            started: stored.start_time.as_ref().map(|time| time.0),
            finished: stored.completion_time.as_ref().map(|time| time.0),
            node_gone: stored.node_gone_time.as_ref().map(|time| time.0),
            message: stored.message.as_str().into(),
            requested: stored.requested,
            accepted: stored.accepted,
            rest: kept(stored.rest.clone()),
        })
    }

    /// The stored form.
    pub fn write(&self) -> NodeResult {
        NodeResult {
            node_name: self.node.to_string(),
            node_uid: self.node_uid.to_string(),
            attempt: self.attempt as i32,
            state: self.state,
            pod_name: self.pod.to_string(),
            pod_uid: self.pod_uid.map(|uid| uid.to_string()).unwrap_or_default(),
            reason: self.reason.to_string(),
            exit_code: self.exit_code,
            start_time: self.started.map(Time),
            completion_time: self.finished.map(Time),
            node_gone_time: self.node_gone.map(Time),
            message: self.message.to_string(),
            requested: self.requested,
            accepted: self.accepted,
            rest: self.rest.as_deref().cloned().unwrap_or_default(),
        }
    }
}

/// Fields of a later version as a record keeps them: nearly none has any.
pub fn kept(rest: Rest) -> Option<Arc<Rest>> {
    (!rest.is_empty()).then(|| Arc::new(rest))
}

/// Labels every slice of a job carries.
pub fn slice_labels(job: &str, job_uid: Uid, index: u32) -> [(&'static str, String); 3] {
    [
        (names::LABEL_BROADCAST_JOB_NAME, job.to_owned()),
        (names::LABEL_BROADCAST_JOB_UID, job_uid.to_string()),
        (names::LABEL_SLICE_INDEX, index.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_stored() {
        let record = Record {
            node: "n1".into(),
            node_uid: "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap(),
            attempt: 2,
            state: NodeState::Failed,
            pod: "fix-abc".into(),
            pod_uid: Some("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01".parse().unwrap()),
            reason: "NonZeroExitCode".into(),
            exit_code: Some(3),
            started: Some(Timestamp::from_second(1_700_000_000).unwrap()),
            finished: Some(Timestamp::from_second(1_700_000_009).unwrap()),
            node_gone: Some(Timestamp::from_second(1_700_000_005).unwrap()),
            message: "no space left".into(),
            requested: true,
            accepted: true,
            rest: kept(Rest::from([("nodePool".to_owned(), json!({"a": [1]}))])),
        };
        let text = serde_json::to_string(&record.write()).unwrap();
        assert_eq!(
            Record::read(&serde_json::from_str(&text).unwrap()),
            Some(record)
        );
    }
}
