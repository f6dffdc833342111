//! All nodes of the cluster, as one job sees them.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::condition::results;
use jiff::Timestamp;

use super::counts::Counts;
use super::family::{Elsewhere, Kin};
use super::index::Rest;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::standing::Standing;
use crate::eligibility::{self, Refusal};
use crate::node::NodeRow;
use crate::nodes_by_reason::NodesByReason;
use crate::record::Record;
use crate::record_index::Place;
use crate::uid::Uid;

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
    /// Nodes that failed and are not tried again, in the order of their names.
    pub(super) failed: Vec<Failure<'a>>,
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
    pub(super) refused: NodesByReason<'a>,
    /// How many of them the family has left nothing to do on.
    settled: usize,
}

/// What a node is served for.
#[derive(Clone, Copy, Debug)]
enum Tries {
    First,
    /// From this time on.
    Again(Option<Timestamp>),
}

/// A node that failed for good.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Failure<'a> {
    pub(super) node: &'a str,
    uid: Uid,
    /// The attempt that decided.
    pub(super) place: Place,
    /// A resume has accepted it.
    pub(super) accepted: bool,
    /// A rule says that the job fails by it.
    fails_job: bool,
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
        let apart = apart(snapshot, progress, kin);
        let mut survey = Self::of_the_rest(snapshot, progress, &apart, closed);
        for name in &apart {
            survey.look(snapshot, progress, kin, name, closed, now);
        }
        survey.candidates.sort_unstable();
        survey.failed.sort_unstable();
        for name in snapshot.job.placement.only.iter().flatten() {
            if !snapshot.nodes.contains_key(&**name) && !progress.has_tried(name) {
                survey.refused.add(results::NODE_NOT_FOUND, name);
            }
        }
        let nothing_to_do = survey.settled > 0 && survey.desired == 0 && survey.untouched;
        survey.is_settled =
            nothing_to_do && (closed || !survey.leaves_out_what_was_meant(snapshot, kin));
        survey
    }

    /// The nodes that the index knows all of.
    fn of_the_rest(
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        apart: &BTreeSet<&'a str>,
        closed: bool,
    ) -> Self {
        let rest = Rest::new(progress.index, apart);
        let Counts {
            desired,
            present,
            succeeded,
        } = rest.counts();
        let mut survey = Self {
            desired,
            present,
            succeeded,
            untouched: progress.index.records().is_empty(),
            ..Self::default()
        };
        for name in rest.failed() {
            survey.add_failures(snapshot, progress, name);
        }
        survey.refused.add_all(results::NODE_GONE, rest.gone());
        for (reason, nodes, count) in rest.refused() {
            survey.refused.add_all(reason, (nodes, count));
        }
        if !closed {
            let (nodes, count) = rest.eligible();
            survey.desired += count;
            survey.present += count;
            let nodes = nodes.take(snapshot.max_pod_changes + 1);
            let uid = |name| snapshot.nodes.get(name).map(|node| node.uid);
            let nodes = nodes.filter_map(|name| Some((name, uid(name)?)));
            survey.candidates.extend(nodes);
        }
        survey
    }
    /// The nodes of one name.
    fn look(
        &mut self,
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        kin: &Kin<'a>,
        name: &'a str,
        closed: bool,
        now: Timestamp,
    ) {
        let record = |place| progress.record(snapshot, place);
        let node = snapshot.nodes.get_key_value(name);
        let mut tries = Tries::First;
        let mut serves = true;
        for (uid, attempts) in progress.on(snapshot, name) {
            let there = node.is_some_and(|(_, node)| node.uid == uid);
            serves &= !there;
            let standing = attempts.standing(&snapshot.job.policies, record, there);
            let counts = standing.counts(there);
            self.desired += counts.desired;
            self.present += counts.present;
            self.succeeded += counts.succeeded;
            match standing {
                Standing::Started | Standing::Skipped | Standing::Succeeded => {}
                Standing::Failed => {
                    let (_, decided) = attempts.ran.unwrap_or(attempts.last);
                    self.has_failed(name, uid, decided, record(decided));
                }
                Standing::Gone => self.refused.add(results::NODE_GONE, name),
                Standing::Again(at) | Standing::Retry(at) => {
                    self.retrying += usize::from(matches!(standing, Standing::Retry(_)));
                    tries = Tries::Again(at.filter(|at| *at > now));
                    serves = true;
                }
            }
        }
        if let Some(node) = node.filter(|_| serves) {
            self.serve(snapshot, progress, kin, node, tries, closed);
        }
    }

    /// A node that is there, and is served for the first time or again.
    fn serve(
        &mut self,
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        kin: &Kin<'a>,
        (name, node): (&'a Arc<str>, &'a NodeRow),
        tries: Tries,
        closed: bool,
    ) {
        let again = matches!(tries, Tries::Again(_));
        let refusal = eligibility::refusal(&snapshot.job.placement, name, node);
        let elsewhere = kin.on((name, node.uid), again);
        match (elsewhere, refusal) {
            // It was never asked for, and is therefore not left out.
            (_, Some(Refusal::NotListed)) if !again => return,
            (Elsewhere::Settled(reason), refusal) if refusal != Some(Refusal::NotListed) => {
                self.settled += 1;
                self.refused.add(reason, name);
                return;
            }
            (_, refusal) if closed && (refusal.is_none() || again) => return,
            (_, None) => {
                let due = match tries {
                    Tries::First => None,
                    Tries::Again(due) => due,
                };
                self.eligible(snapshot, progress, elsewhere, (name, node.uid), due);
            }
            (_, Some(refusal)) if again => {
                self.held_up += 1;
                self.held_up_sample
                    .get_or_insert_with(|| (name, refusal.reason()));
            }
            (_, Some(refusal)) => {
                self.refused.add(refusal.reason(), name);
                return;
            }
        }
        self.desired += usize::from(!again);
        self.present += usize::from(!again);
    }

    /// The nodes of one name that have failed for good.
    fn add_failures(&mut self, snapshot: &Snapshot<'a>, progress: &Progress<'a>, name: &'a str) {
        let record = |place| progress.record(snapshot, place);
        let node = snapshot.nodes.get(name).map(|node| node.uid);
        for (uid, attempts) in progress.on(snapshot, name) {
            let there = node == Some(uid);
            let standing = attempts.standing(&snapshot.job.policies, record, there);
            if standing == Standing::Failed {
                let (_, decided) = attempts.ran.unwrap_or(attempts.last);
                self.has_failed(name, uid, decided, record(decided));
            }
        }
    }

    /// Whether a retry that has nothing to start was made for a node that is left out for the moment: for
    /// one that it names, or that another one of its family has begun with.
    fn leaves_out_what_was_meant(&self, snapshot: &Snapshot<'_>, kin: &Kin<'_>) -> bool {
        let settled = [results::ALREADY_SUCCEEDED, results::ALREADY_TRIED];
        if self
            .refused
            .reasons()
            .all(|reason| settled.contains(&reason))
        {
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

    fn has_failed(&mut self, node: &'a str, uid: Uid, place: Place, record: &Record) {
        self.failed.push(Failure {
            node,
            uid,
            place,
            accepted: record.accepted,
            fails_job: *record.reason == *results::JOB_FAILED_BY_RULE,
        });
    }

    /// How many of the failures a resume has accepted.
    pub(super) fn accepted(&self) -> usize {
        self.failed
            .iter()
            .filter(|failure| failure.accepted)
            .count()
    }

    /// The first failure for which a rule says that the job fails.
    pub(super) fn job_failed_by(&self) -> Option<&Failure<'a>> {
        self.failed.iter().find(|failure| failure.fails_job)
    }
}

/// Names of nodes that are looked at one by one: those that are tried again, that have changed, where a pod is,
/// or where others of the family have been.
fn apart<'a>(snapshot: &Snapshot<'a>, progress: &Progress<'a>, kin: &Kin<'a>) -> BTreeSet<&'a str> {
    let index = progress.index;
    let changed = progress.updates.keys();
    let changed = changed.map(|(slice, at)| &*snapshot.slices[*slice].records[*at].node);
    let in_the_way = progress.occupied().filter(|name| index.is_untried(name));
    let apart = index.unsettled().chain(in_the_way);
    apart.chain(changed).chain(kin.nodes()).collect()
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
