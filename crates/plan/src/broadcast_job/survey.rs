//! All nodes of the cluster, as one job sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::Refused;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::Snapshot;
use super::family::{Elsewhere, Kin};
use super::progress::{Place, Progress};
use super::standing::Standing;
use crate::eligibility::{self, Refusal};
use crate::node::NodeCursor;
use crate::record::Record;
use crate::uid::Uid;

/// Names of nodes that status shows for each reason.
pub(super) const SAMPLE: usize = 3;

/// The nodes by what can be done with them.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    /// Nodes to serve that can be started now, in the order of their names.
    pub(super) candidates: Vec<(&'a Arc<str>, Uid)>,
    /// Nodes to serve that cannot be started now: a pod of an earlier attempt is still there, the
    /// node was tried before and is not eligible for the moment, or it waits out its back-off.
    pub(super) held_up: usize,
    /// One of the nodes tried before that have to wait, and why.
    pub(super) held_up_sample: Option<(&'a str, &'static str)>,
    /// One of the nodes where a pod is that belongs to none of their attempts, and the pod.
    pub(super) other_pod: Option<(&'a str, &'a str)>,
    /// Nodes to serve where a pod of another job of the family is still there.
    pub(super) elsewhere: usize,
    /// One of them, and whose pod it is.
    pub(super) elsewhere_sample: Option<(&'a str, &'a str)>,
    /// A pod of another job of the family has to be asked for.
    pub(super) asks_elsewhere: bool,
    /// The others of its family have done all that this retry was made for.
    pub(super) is_settled: bool,
    /// The last pods on nodes to be tried again, where they are not in the cache.
    pub(super) missing: Vec<(&'a str, Uid)>,
    /// Nodes whose pod succeeded.
    pub(super) succeeded: usize,
    /// Nodes that failed and are not tried again.
    pub(super) failed: usize,
    /// The first of them, and the attempt that decided.
    pub(super) failed_sample: Option<(&'a str, Place)>,
    /// The first of those for which a rule says that the job fails.
    pub(super) job_failed_by: Option<(&'a str, Place)>,
    /// The attempts with which nodes failed that a resume has not accepted.
    pub(super) failures: Vec<Place>,
    /// How many it has.
    pub(super) accepted: usize,
    /// Nodes that failed and are tried again.
    pub(super) retrying: usize,
    /// When the next back-off is over.
    pub(super) next_retry: Option<Timestamp>,
    /// Nodes to serve, whether started or not.
    pub(super) desired: usize,
    /// Those of them whose node object is there.
    pub(super) present: usize,
    /// No attempt was ever made.
    pub(super) untouched: bool,
    /// Nodes left out, by reason.
    pub(super) refused: Vec<Refused>,
}

impl<'a> Survey<'a> {
    /// `closed`: no further attempt can be made, and nodes without one came too late.
    pub(super) fn make(
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        kin: &Kin<'a>,
        closed: bool,
        now: Timestamp,
    ) -> Self {
        let mut survey = Self::default();
        let mut settled = 0;
        let mut refused: BTreeMap<&'static str, Refused> = BTreeMap::new();
        let mut refuse = |reason, node: &str| leave_out(&mut refused, reason, node);
        survey.desired = progress.nodes.len();
        survey.untouched = progress.nodes.is_empty();
        let mut again = BTreeMap::new();
        let mut cursor = NodeCursor::new(snapshot.nodes);
        for &((name, uid), ref attempts) in &progress.nodes {
            let there = cursor.find(name).is_some_and(|node| node.uid == uid);
            survey.present += usize::from(there);
            let record = |place| progress.record(snapshot, place);
            match attempts.standing(&snapshot.job.policies, record, there) {
                Standing::Started | Standing::Skipped => {}
                Standing::Succeeded => survey.succeeded += 1,
                Standing::Failed => {
                    let (_, decided) = attempts.ran.unwrap_or(attempts.last);
                    survey.has_failed(name, decided, record(decided));
                }
                Standing::Again(due) => {
                    again.insert((name, uid), due.filter(|due| *due > now));
                }
                Standing::Retry(due) => {
                    survey.retrying += 1;
                    again.insert((name, uid), due.filter(|due| *due > now));
                }
                Standing::Gone => {
                    refuse(results::NODE_GONE, name);
                    survey.desired -= 1;
                }
            }
        }
        // Both are in the order of names.
        let mut tried = progress.nodes.iter().map(|(id, _)| *id).peekable();
        for (name, node) in snapshot.nodes {
            let id = (&**name, node.uid);
            while tried.next_if(|tried| *tried < id).is_some() {}
            let due = again.get(&id);
            if due.is_none() && tried.peek() == Some(&id) {
                continue;
            }
            let refusal = eligibility::refusal(&snapshot.job.placement, name, node);
            let elsewhere = kin.on(id, due.is_some());
            if let Elsewhere::Settled(reason) = elsewhere
                && !matches!(refusal, Some(Refusal::NotListed))
            {
                settled += 1;
                refuse(reason, name);
                continue;
            }
            if closed && (refusal.is_none() || due.is_some()) {
                continue;
            }
            match refusal {
                None => {
                    let due = due.copied().flatten();
                    survey.eligible(snapshot, progress, elsewhere, (name, node.uid), due);
                }
                Some(refusal) if due.is_some() => {
                    survey.held_up += 1;
                    survey
                        .held_up_sample
                        .get_or_insert_with(|| (name, refusal.reason()));
                }
                // It was never asked for, and is therefore not left out.
                Some(Refusal::NotListed) => continue,
                Some(refusal) => {
                    refuse(refusal.reason(), name);
                    continue;
                }
            }
            survey.desired += usize::from(due.is_none());
            survey.present += usize::from(due.is_none());
        }
        for name in snapshot.job.placement.only.iter().flatten() {
            if !snapshot.nodes.contains_key(&**name) && !progress.has_tried(name) {
                refuse(results::NODE_NOT_FOUND, name);
            }
        }
        survey.refused = refused.into_values().collect();
        let nothing_to_do = settled > 0 && survey.desired == 0 && survey.untouched;
        survey.is_settled =
            nothing_to_do && (closed || !survey.leaves_out_what_was_meant(snapshot, kin));
        survey
    }

    /// Whether a retry that has nothing to start was made for a node that is left out for the moment: for
    /// one that it names, or that another one of its family has begun with.
    fn leaves_out_what_was_meant(&self, snapshot: &Snapshot<'_>, kin: &Kin<'_>) -> bool {
        let settled = [results::ALREADY_SUCCEEDED, results::ALREADY_TRIED];
        let mut refused = self.refused.iter();
        if refused.all(|refused| settled.contains(&&*refused.reason)) {
            return false;
        }
        let others = snapshot.family.into_iter();
        let mut begun = others
            .flat_map(|family| family.first.iter().chain(&family.retries))
            .flat_map(|member| member.slices.iter().flat_map(|slice| &slice.records));
        let left_out = |record: &Record| {
            let (name, uid) = (&record.node, record.node_uid);
            let is_there = snapshot.nodes.get(name).is_some_and(|node| node.uid == uid);
            is_there && !matches!(kin.on((name, uid), false), Elsewhere::Settled(_))
        };
        snapshot.job.placement.only.is_some() || begun.any(left_out)
    }

    /// A node to serve that is eligible: it can be started now, or something has to end before.
    fn eligible(
        &mut self,
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        elsewhere: Elsewhere<'a>,
        (name, uid): (&'a Arc<str>, Uid),
        due: Option<Timestamp>,
    ) {
        if let Some(pod) = progress.other_on(name, "") {
            self.held_up += 1;
            if !progress.is_of(snapshot, name, pod) {
                self.other_pod.get_or_insert((name, pod));
            }
        } else if let Elsewhere::Runs(whose, ask) = elsewhere {
            self.held_up += 1;
            self.elsewhere += 1;
            self.elsewhere_sample.get_or_insert((name, whose));
            self.missing.extend(ask);
        } else if let Elsewhere::Missing(pod, uid) = elsewhere {
            self.held_up += 1;
            self.asks_elsewhere = true;
            self.missing.push((pod, uid));
        } else if let Some(pod) = missing_on(snapshot, progress, name) {
            self.held_up += 1;
            self.missing.push(pod);
        } else if let Some(due) = due {
            self.held_up += 1;
            self.held_up_sample.get_or_insert((name, "BackOff"));
            self.next_retry = self.next_retry.into_iter().chain([due]).min();
        } else {
            self.candidates.push((name, uid));
        }
    }

    fn has_failed(&mut self, node: &'a str, place: Place, record: &Record) {
        self.failed += 1;
        self.failed_sample.get_or_insert((node, place));
        if record.accepted {
            self.accepted += 1;
        } else {
            self.failures.push(place);
        }
        if *record.reason == *results::JOB_FAILED_BY_RULE {
            self.job_failed_by.get_or_insert((node, place));
        }
    }
}

/// Counts a node that is left out.
fn leave_out(refused: &mut BTreeMap<&'static str, Refused>, reason: &'static str, node: &str) {
    let entry = refused.entry(reason).or_insert_with(|| Refused {
        reason: reason.to_owned(),
        ..Refused::default()
    });
    entry.count += 1;
    if entry.sample.len() < SAMPLE {
        entry.sample.push(node.to_owned());
    }
}

/// The last pod on the node, if it is missing in the cache: it may live all the same, as on a node
/// that was lost, and there must not be two. So it has to be asked about first.
fn missing_on<'a>(
    snapshot: &Snapshot<'a>,
    progress: &Progress<'a>,
    name: &str,
) -> Option<(&'a str, Uid)> {
    let record = progress.last_of_name(snapshot, name)?;
    let uid = record.pod_uid?;
    let known = snapshot.gone.contains(&uid)
        || snapshot.pods.contains_key(&record.pod)
        || snapshot.taken_pod(&record.pod, uid).is_some();
    (!known).then_some((&*record.pod, uid))
}
