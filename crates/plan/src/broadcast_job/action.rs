//! What a plan for a BroadcastJob does.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use carillon_api::{BroadcastJobStatus, Retry};

use super::columns;
use crate::digest::line;
pub use crate::plan::{Act, Note, OnError};
use crate::record::{Record, Records};
use crate::uid::Uid;

/// A plan for a BroadcastJob.
pub type Plan = crate::plan::Plan<Action>;
/// A step of it.
pub type Step = crate::plan::Step<Action>;

/// The write of `status` with its columns filled in; `None` if that is `old`.
pub fn write_status(mut status: BroadcastJobStatus, old: &BroadcastJobStatus) -> Option<Action> {
    columns::fill(&mut status);
    (status != *old).then(|| Action::WriteStatus(Box::new(status)))
}

/// One write, or one question only the API server can answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask whether the API server accepts such pods (dry run).
    CheckTemplate {
        /// Nodes, and names of pods for them: one after the other is tried until one is accepted.
        pods: Vec<(Arc<str>, Box<str>)>,
    },
    /// Ask whether a pod that was seen once, and is not in the cache, is really gone.
    ConfirmGone {
        /// Name of the pod.
        pod: Box<str>,
        /// Uid it had.
        uid: Uid,
    },
    /// Ask whether the job is still as it was read: nothing else of the plan would notice.
    ConfirmJob,
    /// Ask whether a slice is still as it was read: promises in it are about to be kept.
    ConfirmSlice {
        /// Index of the slice.
        index: u32,
        /// resourceVersion it was read at.
        rv: u64,
    },
    /// Ask whether a pod is still as it was read: what it has not done is about to be stored as its
    /// end.
    ConfirmPod {
        /// Name of the pod.
        pod: Box<str>,
        /// Uid and resourceVersion it was read at; `None`: there was none of this name.
        seen: Option<(Uid, u64)>,
    },
    /// Create or update a result slice.
    WriteSlice(SliceWrite),
    /// Create the pod of a reserved attempt.
    CreatePod {
        /// Name of the pod, made from job uid, node and attempt.
        pod: Box<str>,
        /// Node it is for.
        node: Arc<str>,
        /// Index of the slice that holds its reservation.
        slice: u32,
    },
    /// Delete a pod, if it is still the one that was judged.
    DeletePod {
        /// Name of the pod.
        pod: Box<str>,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
    },
    /// Put the label back on a pod that has lost it, so that it is found until it is released.
    LabelPod {
        /// Name of the pod.
        pod: Box<str>,
        /// Precondition.
        uid: Uid,
    },
    /// Remove our finalizer: the result is stored.
    ReleasePod {
        /// Name of the pod.
        pod: Box<str>,
        /// Precondition.
        uid: Uid,
    },
    /// Write the job's status, if the job is still the one that was judged.
    WriteStatus(Box<BroadcastJobStatus>),
    /// Write a slice of another retry of the family that is gone: its log is closed, so that this one can
    /// have its turn.
    CloseLog {
        /// Name of that retry.
        name: Box<str>,
        /// Its uid.
        uid: Uid,
        /// The slice.
        write: SliceWrite,
    },
    /// Enter the job, a retry, into the list that the first job of its family has in its status, if that one
    /// is still as it was read.
    JoinFamily {
        /// Name of the first job.
        first: Box<str>,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
        /// The whole list.
        retries: Vec<Retry>,
    },
    /// Delete the job: its time to live is over.
    DeleteJob,
}

impl Act for Action {
    fn word(&self) -> &'static str {
        match self {
            Self::CheckTemplate { .. } => "check_template",
            Self::ConfirmGone { .. } => "confirm_gone",
            Self::ConfirmJob => "confirm_job",
            Self::ConfirmSlice { .. } => "confirm_slice",
            Self::ConfirmPod { .. } => "confirm_pod",
            Self::WriteSlice(_) => "write_slice",
            Self::CreatePod { .. } => "create_pod",
            Self::DeletePod { .. } => "delete_pod",
            Self::LabelPod { .. } => "label_pod",
            Self::ReleasePod { .. } => "release_pod",
            Self::WriteStatus(_) => "write_status",
            Self::CloseLog { .. } => "close_log",
            Self::JoinFamily { .. } => "join_family",
            Self::DeleteJob => "delete_job",
        }
    }

    fn object(&self) -> Option<String> {
        Some(match self {
            Self::CheckTemplate { pods } => {
                let nodes: Vec<&str> = pods.iter().map(|(node, _)| &**node).collect();
                format!("on {}", nodes.join(", "))
            }
            Self::CreatePod { pod, node, .. } => format!("{pod} on {node}"),
            Self::ConfirmGone { pod, .. }
            | Self::ConfirmPod { pod, .. }
            | Self::DeletePod { pod, .. }
            | Self::LabelPod { pod, .. }
            | Self::ReleasePod { pod, .. } => pod.to_string(),
            Self::ConfirmSlice { index, .. } => format!("slice {index}"),
            Self::WriteSlice(slice) => slice.summary(),
            Self::CloseLog { name, write, .. } => format!("{name}: {}", write.summary()),
            Self::WriteStatus(status) => {
                let on = status.conditions.iter().filter(|c| c.status == "True");
                let on: Vec<_> = on.map(|c| format!("{}={}", c.type_, c.reason)).collect();
                format!("{} {}", status.done, on.join(" "))
            }
            Self::JoinFamily { first, retries, .. } => {
                format!("{first}: {} retries", retries.len())
            }
            Self::ConfirmJob | Self::DeleteJob => return None,
        })
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let word = self.word();
        match self {
            Self::CheckTemplate { pods } => {
                let pods: Vec<_> = pods.iter().map(|(node, pod)| (&**node, pod)).collect();
                line(out, &(word, pods))
            }
            Self::CreatePod { node, pod, slice } => line(out, &(word, &**node, pod, slice)),
            Self::ConfirmGone { pod, uid }
            | Self::LabelPod { pod, uid }
            | Self::ReleasePod { pod, uid } => line(out, &(word, pod, uid.to_string())),
            Self::ConfirmSlice { index, rv } => line(out, &(word, index, rv)),
            Self::ConfirmPod { pod, seen } => {
                let seen = seen.map(|(uid, rv)| (uid.to_string(), rv));
                line(out, &(word, pod, seen))
            }
            Self::DeletePod { pod, uid, rv } => line(out, &(word, pod, uid.to_string(), rv)),
            Self::WriteSlice(slice) => {
                line(out, &(word, slice.index, slice.rv, slice.sealed))?;
                slice.write_results(out)
            }
            Self::CloseLog { name, uid, write } => {
                let (index, rv) = (write.index, write.rv);
                line(out, &(word, name, uid.to_string(), index, rv, write.sealed))?;
                write.write_results(out)
            }
            Self::WriteStatus(status) => line(out, &(word, status)),
            Self::JoinFamily {
                first,
                uid,
                rv,
                retries,
            } => line(out, &(word, first, uid.to_string(), rv, retries)),
            Self::ConfirmJob | Self::DeleteJob => line(out, &word),
        }
    }
}

/// A result slice as it will be: what is kept of it, what changes, and what is added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceWrite {
    /// Index of the slice.
    pub index: u32,
    /// resourceVersion it was planned from. `None`: the slice is created, and must not exist.
    pub rv: Option<u64>,
    /// No further attempt may be reserved.
    pub sealed: bool,
    /// Its results as they were read.
    pub kept: Records,
    /// Those of them that change, by place.
    pub changed: BTreeMap<usize, Record>,
    /// Results that are added.
    pub added: Vec<Record>,
}

impl SliceWrite {
    /// How many results it will hold.
    pub fn len(&self) -> usize {
        self.kept.len() + self.added.len()
    }

    /// Whether it will hold none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of its results.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let kept = self.kept.iter().enumerate();
        let kept = kept.map(|(at, record)| self.changed.get(&at).unwrap_or(record));
        kept.chain(&self.added)
    }

    /// Changes what it will hold, for those who put mistakes into plans.
    pub fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<Record>) -> T) -> T {
        let mut records: Vec<Record> = self.records().cloned().collect();
        let changed = change(&mut records);
        self.added = records.split_off(self.kept.len().min(records.len()));
        self.kept.truncate(records.len());
        let all = self.kept.iter().zip(records).enumerate();
        let other = all.filter(|(_, (old, new))| *old != new);
        self.changed = other.map(|(at, (_, new))| (at, new)).collect();
        changed
    }

    fn summary(&self) -> String {
        let seal = if self.sealed { ", sealed" } else { "" };
        format!("slice {}: {} results{seal}", self.index, self.len())
    }

    fn write_results(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        line(out, &(self.kept.len(), self.changed.len()))?;
        for (at, record) in &self.changed {
            line(out, &(at, record.write()))?;
        }
        let mut added = self.added.iter();
        added.try_for_each(|record| line(out, &record.write()))
    }
}

/// Deletes and releases, as bounded steps.
pub(super) fn stop(
    pods: impl IntoIterator<Item = (impl AsRef<str>, Uid, u64)>,
    most: usize,
) -> Option<Step> {
    let actions: Vec<Action> = pods
        .into_iter()
        .take(most)
        .map(|(pod, uid, rv)| Action::DeletePod {
            pod: pod.as_ref().into(),
            uid,
            rv,
        })
        .collect();
    (!actions.is_empty()).then(|| Step::wanted(actions))
}

pub(super) fn release(pods: impl IntoIterator<Item = (impl AsRef<str>, Uid)>) -> Option<Step> {
    let actions: Vec<Action> = pods
        .into_iter()
        .map(|(pod, uid)| Action::ReleasePod {
            pod: pod.as_ref().into(),
            uid,
        })
        .collect();
    (!actions.is_empty()).then(|| Step::wanted(actions))
}
