//! What a plan for a CronJob is made from.

use std::collections::BTreeSet;

use carillon_api::condition::reasons;
use jiff::SignedDuration;

use super::child::Children;
use super::spec::CronJob;
use crate::condition::Refusal;
use crate::uid::Uid;

/// Reasons for which children are refused: asked about again until they are not.
pub const REFUSALS: [&str; 4] = [
    reasons::INVALID_TEMPLATE,
    reasons::QUOTA_EXCEEDED,
    reasons::JOB_FORBIDDEN,
    reasons::JOB_CREATION_FAILING,
];

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// The children it controls.
    pub children: &'a Children,
    /// Uids of children that were asked for and are gone.
    pub gone: &'a BTreeSet<Uid>,
    /// Names of promised children that were asked for and are not there.
    pub absent: &'a BTreeSet<String>,
    /// Names of promised children that are somebody else's.
    pub conflicts: &'a BTreeSet<String>,
    /// What the API server said of such children.
    pub template: &'a Template,
    /// What else is refused again and again.
    pub refusal: Option<&'a Refusal>,
}

/// What is known about whether the API server accepts such children.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Template {
    /// It was not asked, or the answer was for another generation.
    #[default]
    Unknown,
    /// It does.
    Accepted,
    /// It does not, for now.
    Refused(Refused),
}

/// A refusal of the API server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Reason of the condition that reports it.
    pub reason: &'static str,
    /// Its words.
    pub message: String,
}

/// Clocks differ by less.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(60);
