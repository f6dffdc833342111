//! The jobs of a family, as they are stored.

use super::spec::BroadcastJob;
use super::taken::TakenPods;
use crate::pod::{PodRow, Pods};
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// The other jobs of the family of a job.
#[derive(Clone, Debug, Default)]
pub struct Family<'a> {
    /// The job that is retried. `None`: it is not there, or another one has its name.
    pub first: Option<Member<'a>>,
    /// Those that its status lists, in that order; the job itself may be one of them.
    pub retries: Vec<Member<'a>>,
    /// Of a job that is retried: one of its retries that has not ended, whether it has had its turn or not.
    pub open: Option<&'a str>,
    /// Of a retry whose first job is not there: the uid of a job that has its name.
    pub other: Option<Uid>,
}

/// A job of a family.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: Uid,
    /// It, if it is there.
    pub job: Option<&'a BroadcastJob>,
    /// Its result slices, by index.
    pub slices: &'a [Slice],
    /// The pods it controls.
    pub pods: &'a Pods,
    /// Those that were taken from it and are watched.
    pub taken: Option<&'a TakenPods>,
    /// Why its results cannot be relied upon.
    pub problem: Option<String>,
}

impl<'a> Member<'a> {
    /// The pod under the name of an attempt that is, or may be, its own: one whose uid was never stored may have
    /// been taken from it before.
    pub(super) fn pod_of(&self, record: &Record) -> Option<&'a PodRow> {
        let taken = self.taken.filter(|_| record.pod_uid.is_none());
        let taken = || Some(&taken?.get(&record.pod)?.pod);
        self.pods.get(&record.pod).or_else(taken)
    }
}
