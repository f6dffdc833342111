//! All nodes of the cluster, as one job sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::condition::results;
use carillon_api::{NodeState, Refused};
use jiff::Timestamp;

use super::progress::{Latest, Progress};
use super::{RETRY_BASE, RETRY_MAX, Snapshot};
use crate::eligibility;
use crate::uid::Uid;

/// Names of refused nodes that status shows for each reason.
const SAMPLE: usize = 3;

/// The nodes by what can be done with them.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    /// Nodes to serve that can be started now, in the order of their names.
    pub(super) candidates: Vec<(&'a Arc<str>, Uid)>,
    /// Nodes to serve that cannot be started now: a pod of an earlier attempt is still there, the
    /// node was interrupted and is not eligible for the moment, or it waits out its back-off.
    pub(super) held_up: usize,
    /// One of the interrupted nodes that have to wait, and why.
    pub(super) held_up_sample: Option<(&'a str, &'static str)>,
    /// When the next back-off is over.
    pub(super) next_retry: Option<Timestamp>,
    /// Nodes to serve, whether started or not.
    pub(super) desired: usize,
    /// Nodes left out, by reason.
    pub(super) refused: Vec<Refused>,
}

impl<'a> Survey<'a> {
    pub(super) fn make(snapshot: &Snapshot<'a>, progress: &Progress<'a>, now: Timestamp) -> Self {
        let mut survey = Self::default();
        let mut refused: BTreeMap<&'static str, Refused> = BTreeMap::new();
        let mut refuse = |reason: &'static str, node: &str| {
            let entry = refused.entry(reason).or_insert_with(|| Refused {
                reason: reason.to_owned(),
                ..Refused::default()
            });
            entry.count += 1;
            if entry.sample.len() < SAMPLE {
                entry.sample.push(node.to_owned());
            }
        };
        survey.desired = progress.nodes.len();
        for (name, node) in snapshot.nodes {
            let latest = progress.nodes.get(&(&**name, node.uid));
            let interrupted = match latest.map(|latest| latest.state) {
                None => false,
                Some(NodeState::Disrupted | NodeState::Unknown) => true,
                Some(_) => continue,
            };
            match eligibility::refusal(&snapshot.job.placement, name, node) {
                None if progress.occupied.contains(&**name) => survey.held_up += 1,
                None => match latest.and_then(|latest| retry_at(latest, now)) {
                    Some(due) => {
                        survey.held_up += 1;
                        survey.held_up_sample.get_or_insert((name, "BackOff"));
                        survey.next_retry = survey.next_retry.into_iter().chain([due]).min();
                    }
                    None => survey.candidates.push((name, node.uid)),
                },
                Some(refusal) if interrupted => {
                    survey.held_up += 1;
                    survey
                        .held_up_sample
                        .get_or_insert_with(|| (name, refusal.reason()));
                }
                Some(refusal) => {
                    refuse(refusal.reason(), name);
                    continue;
                }
            }
            survey.desired += usize::from(!interrupted);
        }
        for (&(name, uid), latest) in &progress.nodes {
            let there = snapshot.nodes.get(name).is_some_and(|node| node.uid == uid);
            if !there && matches!(latest.state, NodeState::Disrupted | NodeState::Unknown) {
                refuse(results::NODE_GONE, name);
                survey.desired -= 1;
            }
        }
        survey.refused = refused.into_values().collect();
        survey
    }
}

/// When an interrupted node may be tried again, if not now: at once after the first attempt, then
/// after 10 s, doubled up to 10 minutes, so that a node that never lets a pod live costs little.
fn retry_at(latest: &Latest, now: Timestamp) -> Option<Timestamp> {
    let doublings = latest.attempt.checked_sub(2)?.min(16);
    let wait = (RETRY_BASE * (1 << doublings)).min(RETRY_MAX);
    let due = latest.finished?.checked_add(wait).ok()?;
    (due > now).then_some(due)
}
