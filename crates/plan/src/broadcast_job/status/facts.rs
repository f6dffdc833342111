//! What the status of an open job is computed from.

use jiff::Timestamp;

use crate::broadcast_job::decide::Stage;
use crate::broadcast_job::family::Kin;
use crate::broadcast_job::pause::Pause;
use crate::broadcast_job::progress::Progress;
use crate::broadcast_job::snapshot::Refused;
use crate::broadcast_job::spec::BroadcastJob;
use crate::broadcast_job::survey::Survey;

/// What a status is computed from.
pub(in crate::broadcast_job) struct Facts<'a> {
    pub(in crate::broadcast_job) job: &'a BroadcastJob,
    pub(in crate::broadcast_job) progress: &'a Progress<'a>,
    pub(in crate::broadcast_job) survey: &'a Survey<'a>,
    pub(in crate::broadcast_job) kin: &'a Kin<'a>,
    pub(in crate::broadcast_job) pause: &'a Pause,
    pub(in crate::broadcast_job) stage: &'a Stage,
    pub(in crate::broadcast_job) stalled: Option<(&'static str, String)>,
    pub(in crate::broadcast_job) creation_problem: Option<&'a Refused>,
    /// Nothing is started, and this pod is on a node to serve and belongs to none of its attempts.
    pub(in crate::broadcast_job) other_pod: Option<(&'a str, &'a str)>,
    /// It enters itself into the list of its family now, or asks what it has to know before.
    pub(in crate::broadcast_job) is_about_to_begin: bool,
    pub(in crate::broadcast_job) now: Timestamp,
}
