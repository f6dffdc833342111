//! What an open job does next: record, stop, start.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::condition::{reasons, results};
use carillon_api::{FailurePolicyType, NodeState, Refused};
use jiff::{SignedDuration, Timestamp};

use super::progress::{Place, Progress};
use super::status::{self, End, Facts, Pause};
use super::{Cause, Snapshot, TEMPLATE_RECHECK, Template, ledger, release, stop, stored_cause};
use crate::action::{Action, Plan, Step, Tally};
use crate::eligibility;
use crate::name;
use crate::record::Record;
use crate::uid::Uid;

/// Names of refused nodes that status shows for each reason.
const SAMPLE: usize = 3;

/// All nodes of the cluster, seen by a job.
#[derive(Debug, Default)]
pub(super) struct Survey<'a> {
    /// Nodes to serve that can be started now, in the order of their names.
    pub(super) candidates: Vec<(&'a Arc<str>, Uid)>,
    /// Nodes to serve that cannot be started now: a pod of an earlier attempt is still there, or
    /// the node was interrupted and is not eligible for the moment.
    pub(super) held_up: usize,
    /// Nodes to serve, whether started or not.
    pub(super) desired: usize,
    /// Nodes left out, by reason.
    pub(super) refused: Vec<Refused>,
}

impl<'a> Survey<'a> {
    fn make(snapshot: &Snapshot<'a>, progress: &Progress<'a>) -> Self {
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
                None => survey.candidates.push((name, node.uid)),
                Some(_) if interrupted => survey.held_up += 1,
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

/// The plan of a job that has not ended.
pub(super) fn work(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let stored = stored_cause(job);
    let mut progress = Progress::read(snapshot, stored.as_ref().map(super::stop_reason), now);
    let survey = Survey::make(snapshot, &progress);
    let pause = Pause::decide(job, progress.count(NodeState::Failed), now);
    let all_done = survey.desired > 0
        && survey.candidates.is_empty()
        && survey.held_up == 0
        && progress.running.is_empty()
        && progress.reserved.is_empty()
        && progress.missing.is_empty();
    let deadline = deadline(snapshot, &pause, now);
    let cause = match &stored {
        Some(cause) => Some(cause.clone()),
        None if pause.reason.is_some() => None,
        None => new_cause(snapshot, &progress, all_done, deadline, now),
    };

    let mut plan = Plan::default();
    let mut start = Start::default();
    if cause.is_some() {
        for (place, record) in std::mem::take(&mut progress.reserved) {
            progress.give_up(place, record, NodeState::Skipped, results::NOT_STARTED);
        }
    } else if pause.reason.is_none() && job.problems.is_empty() {
        start = Start::choose(snapshot, &mut progress, &survey);
    }
    let end = match &cause {
        Some(_) if progress.running.is_empty() && progress.missing.is_empty() => Some(End::Failed),
        None if all_done && pause.reason.is_none() && !job.never_ends => Some(End::Complete),
        _ => None,
    };

    if !progress.missing.is_empty() {
        let ask = |&(pod, uid): &(&str, Uid)| Action::ConfirmGone {
            pod: pod.into(),
            uid,
        };
        let questions = progress
            .missing
            .iter()
            .take(snapshot.max_pod_changes)
            .map(ask)
            .collect();
        plan.steps.push(Step::wanted(questions));
        plan.again = true;
    }
    if let Some(check) = start.check.take() {
        plan.steps.push(Step::wanted(vec![check]));
        plan.again = true;
    }
    let seal = cause.is_some() || end.is_some();
    let reservations = std::mem::take(&mut start.reservations);
    plan.steps.extend(ledger::write(
        snapshot.slices,
        &progress.updates,
        reservations,
        seal,
    ));

    let facts = Facts {
        job,
        progress: &progress,
        survey: &survey,
        pause: &pause,
        cause: cause.as_ref(),
        end,
        stalled: stalled(snapshot),
        creation_problem: snapshot.creation_problem,
        now,
    };
    let (status, notes) = status::next(&facts);
    plan.notes = notes;
    let mut status =
        (status != job.status).then(|| Step::needed(vec![Action::WriteStatus(Box::new(status))]));
    // The decision to fail is stored before the first pod is stopped, so that whoever reads the
    // pod's end later knows whose doing it was.
    if cause.is_some() {
        plan.steps.extend(status.take());
    }
    let stopping = progress
        .running
        .iter()
        .filter(|(_, pod)| cause.is_some() && pod.deletion.is_none());
    let to_stop: BTreeMap<&str, (Uid, u64)> = stopping
        .map(|(record, pod)| (&*record.pod, *pod))
        .chain(progress.to_stop.iter().copied())
        .map(|(name, pod)| (name, (pod.uid, pod.rv)))
        .collect();
    plan.again |= to_stop.len() > snapshot.max_pod_changes;
    plan.steps.extend(stop(
        to_stop.into_iter().map(|(name, (uid, rv))| (name, uid, rv)),
        snapshot.max_pod_changes,
    ));
    plan.again |= start.more;
    if !start.creations.is_empty() {
        plan.steps.push(Step::slowly(start.creations));
    }
    plan.steps.extend(status);
    plan.again |= progress.to_release.len() > snapshot.max_pod_changes;
    plan.steps.extend(release(
        progress
            .to_release
            .iter()
            .take(snapshot.max_pod_changes)
            .copied(),
    ));

    plan.wake = [
        deadline.filter(|_| cause.is_none() && end.is_none()),
        progress.next_lost,
        recheck(snapshot),
    ]
    .into_iter()
    .flatten()
    .min();
    plan.tally = Tally {
        desired: survey.desired,
        refused: survey
            .refused
            .iter()
            .map(|refused| refused.count as usize)
            .sum(),
        active: progress.running.len(),
        reserved: progress.reserved.len(),
        waiting: survey.candidates.len() + survey.held_up,
        succeeded: progress.count(NodeState::Succeeded),
        failed: progress.count(NodeState::Failed),
    };
    plan
}

/// When the job's time is over. Paused time does not count, and while paused nothing is due.
fn deadline(snapshot: &Snapshot<'_>, pause: &Pause, now: Timestamp) -> Option<Timestamp> {
    let seconds = snapshot.job.deadline_seconds?;
    if pause.reason.is_some() {
        return None;
    }
    let start = snapshot
        .job
        .status
        .start_time
        .as_ref()
        .map_or(now, |time| time.0);
    let allowed = seconds.saturating_add(pause.paused_seconds);
    // A deadline beyond the end of time is none.
    start.checked_add(SignedDuration::from_secs(allowed)).ok()
}

fn new_cause(
    snapshot: &Snapshot<'_>,
    progress: &Progress<'_>,
    all_done: bool,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Option<Cause> {
    if snapshot.job.failure == FailurePolicyType::FailFast {
        let failed = progress
            .nodes
            .iter()
            .find(|(_, latest)| latest.state == NodeState::Failed);
        if let Some(((node, _), _)) = failed {
            let failures = progress.count(NodeState::Failed);
            return Some(Cause {
                reason: reasons::NODE_FAILED.to_owned(),
                message: format!(
                    "{failures} failed, among them node {node}, and failurePolicy is FailFast"
                ),
            });
        }
    }
    // Ends are judged by when the pods ended, not by when the operator looked.
    let deadline = deadline.filter(|deadline| *deadline <= now)?;
    let in_time = all_done
        && progress
            .nodes
            .values()
            .all(|latest| latest.finished.is_none_or(|at| at <= deadline));
    (!in_time).then(|| Cause {
        reason: reasons::DEADLINE_EXCEEDED.to_owned(),
        message: format!(
            "activeDeadlineSeconds ({}) passed at {deadline:.0}",
            snapshot.job.deadline_seconds.unwrap_or_default()
        ),
    })
}

/// What keeps a job from starting anything until a person acts.
fn stalled<'a>(snapshot: &'a Snapshot<'_>) -> Option<(&'static str, String)> {
    if let Some(problem) = snapshot.job.problems.first() {
        let others = match snapshot.job.problems.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        return Some((reasons::INVALID_SPEC, format!("{problem}{others}")));
    }
    match snapshot.template {
        Template::Refused { problem, .. } => Some((problem.reason, problem.message.clone())),
        Template::Unknown | Template::Accepted => None,
    }
}

fn recheck(snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    match snapshot.template {
        Template::Refused { at, .. } => at.checked_add(TEMPLATE_RECHECK).ok(),
        Template::Unknown | Template::Accepted => None,
    }
}

/// What is started now.
#[derive(Debug, Default)]
struct Start {
    check: Option<Action>,
    reservations: Vec<Record>,
    creations: Vec<Action>,
    more: bool,
}

impl Start {
    fn choose<'a>(
        snapshot: &Snapshot<'a>,
        progress: &mut Progress<'a>,
        survey: &Survey<'a>,
    ) -> Self {
        let job = snapshot.job;
        let taken = progress.running.len() + progress.reserved.len() + progress.occupying;
        let room = job.parallelism.of(survey.desired).saturating_sub(taken);
        let first = match progress.reserved.first() {
            Some((_, record)) => Some(&record.node),
            None if room > 0 => survey.candidates.first().map(|(node, _)| *node),
            None => None,
        };
        let Some(first) = first else {
            return Self::default();
        };
        if *snapshot.template != Template::Accepted {
            return Self {
                check: check(snapshot, first),
                ..Self::default()
            };
        }
        let mut start = Self::default();
        start.keep_promises(snapshot, progress);
        let budget = snapshot
            .max_pod_changes
            .saturating_sub(start.creations.len());
        start.more = survey.candidates.len().min(room) > budget;
        for &(node, node_uid) in survey.candidates.iter().take(room.min(budget)) {
            let attempt = progress.next_attempt(node);
            let pod: Box<str> = name::pod(&job.owner.name, job.owner.uid, node, attempt).into();
            start.creations.push(Action::CreatePod {
                pod: pod.clone(),
                node: node.clone(),
            });
            start.reservations.push(Record {
                node: node.clone(),
                node_uid,
                attempt,
                pod,
                ..Record::default()
            });
        }
        start
    }

    /// Creates what was reserved before and is still wanted. The name makes a second try harmless.
    fn keep_promises<'a>(&mut self, snapshot: &Snapshot<'a>, progress: &mut Progress<'a>) {
        let mut kept: Vec<(Place, &Record)> = Vec::new();
        for (place, record) in std::mem::take(&mut progress.reserved) {
            let node = snapshot
                .nodes
                .get(&record.node)
                .filter(|node| node.uid == record.node_uid);
            let Some(node) = node else {
                progress.give_up(place, record, NodeState::Disrupted, results::NODE_GONE);
                continue;
            };
            if eligibility::refusal(&snapshot.job.placement, &record.node, node).is_some() {
                progress.give_up(place, record, NodeState::Disrupted, results::WITHDRAWN);
                continue;
            }
            kept.push((place, record));
            if self.creations.len() < snapshot.max_pod_changes {
                let (pod, node) = (record.pod.clone(), record.node.clone());
                self.creations.push(Action::CreatePod { pod, node });
            }
        }
        progress.reserved = kept;
    }
}

/// Asks about the template, unless the last answer is recent.
fn check(snapshot: &Snapshot<'_>, node: &Arc<str>) -> Option<Action> {
    if let Template::Refused { .. } = snapshot.template {
        return None;
    }
    let owner = &snapshot.job.owner;
    let pod = name::pod(&owner.name, owner.uid, node, 0).into();
    Some(Action::CheckTemplate {
        node: node.clone(),
        pod,
    })
}
