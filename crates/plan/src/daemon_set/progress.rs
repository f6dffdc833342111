//! What a DaemonSet of carillon.dev says of itself beyond numbers: conditions, and which nodes are refused, hold an
//! update up, or are excused.

use carillon_api::condition::{reasons, types};
use carillon_api::{DaemonSetStatus, Refused};
use jiff::{SignedDuration, Timestamp};

use super::lifecycle::{is_available, is_preparing};
use super::on_nodes::{OnNode, OnNodes, desired};
use super::pod::DaemonPod;
use super::rolling_update::{Budget, Pair, is_selected, pair, room_for_new};
use super::should_run::ShouldRun;
use super::snapshot::Snapshot;
use super::spec::{DaemonSet, Update};
use crate::condition::{self, Refusal, whole_seconds};
use crate::nodes_by_reason::NodesByReason;
use crate::pod::PodPhase;

/// So long may an update stand still.
const PROGRESS_DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// While it says one of these, the time of an update runs.
const REASONS_OF_WAITING: [&str; 2] = [reasons::UPDATING, reasons::PROGRESS_DEADLINE_EXCEEDED];

fn reason_of<'s>(status: &'s DaemonSetStatus, type_: &str) -> &'s str {
    let condition = condition::find(&status.conditions, type_);
    condition.map_or("", |condition| &condition.reason)
}

/// The nodes by how far an update has come with them.
#[derive(Debug, Default)]
struct Nodes<'a> {
    refused: NodesByReason<'a>,
    waiting: NodesByReason<'a>,
    excused: NodesByReason<'a>,
    /// They keep an old pod that is available, and could be updated.
    in_turn: usize,
    /// They keep an old pod, as the spec says.
    kept: usize,
    /// They get no pod, as `partitionedScaling` says.
    empty: usize,
    /// They hold the update up.
    holding: usize,
    /// They have no available pod, and keep the one that they have, as the spec says.
    stuck: usize,
    /// Of those that hold it up: they have an old pod.
    holding_old: usize,
    /// They were sick before, and have their old pod.
    excused_old: usize,
    /// They have no pod where `partitionedScaling` may be the reason; and why they have none, if it is not.
    without: Vec<(&'a str, &'static str)>,
}

impl<'a> Nodes<'a> {
    fn of(snapshot: &Snapshot<'a>, on_nodes: &OnNodes<'a>, hash: &str, now: Timestamp) -> Self {
        let mut all = Self::default();
        for (name, node) in on_nodes {
            match node.should {
                Some(ShouldRun::Yes) => all.add(snapshot.set, name, node, (hash, now)),
                Some(ShouldRun::OnlyIfThere(refusal) | ShouldRun::No(refusal)) => {
                    all.refused.add(refusal.reason(), name);
                }
                None => {}
            }
            // A pod that should not be there holds no update up, and somebody has to let go of it all the same.
            if !node.runs() && waits_for_hook(snapshot.set, node) {
                all.waiting.add(PRE_DELETE_HOOK, name);
            }
        }
        all.partition(snapshot.set, on_nodes, hash);
        all
    }

    /// What the partition keeps.
    fn partition(&mut self, set: &DaemonSet, on_nodes: &OnNodes<'a>, hash: &str) {
        let desired = desired(on_nodes);
        let room = room_for_new(set, on_nodes, (hash, desired));
        for (at, (name, why)) in std::mem::take(&mut self.without).into_iter().enumerate() {
            if at < room {
                self.holding += 1;
                self.waiting.add(why, name);
            } else {
                self.empty += 1;
            }
        }
        let counts = (self.in_turn, self.kept + self.empty + self.excused_old);
        let by_partition = kept_by_partition(set, desired, counts);
        self.in_turn -= by_partition;
        self.kept += by_partition;
        // Where it keeps all that are left, nobody moves those of them that are not available.
        let kept = set.spec.partition.of_at_most(desired);
        let old = self.in_turn + self.kept + self.stuck + self.excused_old + self.holding_old;
        if kept > 0 && old <= kept {
            self.holding -= self.holding_old;
            self.stuck += self.holding_old;
        }
    }

    fn add(
        &mut self,
        set: &DaemonSet,
        name: &'a str,
        node: &OnNode<'a>,
        (hash, now): (&str, Timestamp),
    ) {
        let is_old = || matches!(pair(set, node.pods.iter(), hash), Pair::Old(_));
        match stands(set, node, (hash, now)) {
            Stands::Updated => {}
            Stands::InTurn => {
                self.in_turn += 1;
                // It needs a second name for its turn.
                if let Some(why) = why_no_second(set, node) {
                    self.waiting.add(why, name);
                }
            }
            Stands::Kept(_) if node.pods.is_empty() => {
                self.without.push((name, why_unavailable(set, node)));
            }
            Stands::Kept(_) => self.kept += 1,
            Stands::Excused(excuse) => {
                self.excused_old += usize::from(is_old());
                self.excused.add(excuse, name);
            }
            Stands::Stuck(why) => {
                self.stuck += 1;
                self.waiting.add(why, name);
            }
            Stands::Holding(why) => {
                self.holding += 1;
                self.holding_old += usize::from(is_old());
                self.waiting.add(why, name);
            }
        }
    }
}

/// How far an update has come with a node that should have a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stands {
    /// It has an available pod of the current template.
    Updated,
    /// It keeps an old pod that is available, and could be updated. The partition may keep some of them.
    InTurn,
    /// It keeps an old pod, or has none, as a field of the spec says.
    Kept(&'static str),
    /// It was sick before.
    Excused(&'static str),
    /// It has no available pod, and the update is not about it.
    Stuck(&'static str),
    /// It holds the update up.
    Holding(&'static str),
}

/// Field that keeps an old pod, or lets a node be without one.
pub(crate) const PARTITION: &str = "Partition";

/// A node has no pod, or none of the current template, since somebody else's pod has its name.
pub(crate) const POD_NAME_TAKEN: &str = "PodNameTaken";
/// A pod of the node is to be deleted, and waits for its hook.
pub(crate) const PRE_DELETE_HOOK: &str = "PreDeleteHook";

/// Whether one of its pods was told that it goes.
pub(crate) fn waits_for_hook(set: &DaemonSet, node: &OnNode<'_>) -> bool {
    node.pods.iter().any(|(_, pod)| is_preparing(set, pod))
}

/// Where a node stands that should have a pod.
pub(crate) fn stands(set: &DaemonSet, node: &OnNode<'_>, (hash, now): (&str, Timestamp)) -> Stands {
    let available = |pod: &DaemonPod| is_available(set, pod, now);
    let in_update = set.spec.update != Update::OnDelete && is_selected(set, node);
    let pair = pair(set, node.pods.iter(), hash);
    let keeps_old = matches!(pair, Pair::Old(_)) && !in_update;
    match pair {
        Pair::New(new) if available(new) => return Stands::Updated,
        Pair::Old((_, old)) if available(old) => {
            return match set.spec.update {
                Update::OnDelete => Stands::Kept("OnDelete"),
                Update::Rolling { .. } if is_selected(set, node) => Stands::InTurn,
                Update::Rolling { .. } => Stands::Kept("NotSelected"),
            };
        }
        _ => {}
    }
    if let Some(excuse) = node.excuse {
        Stands::Excused(excuse)
    } else if node.pods.is_empty() && set.spec.partitioned_scaling {
        Stands::Kept(PARTITION)
    } else if keeps_old {
        Stands::Stuck(why_unavailable(set, node))
    } else {
        // One that has its old pod may need a second name first.
        let no_second = || why_no_second(set, node).filter(|_| !waits_for_hook(set, node));
        let no_second = matches!(pair, Pair::Old(_)).then(no_second).flatten();
        Stands::Holding(no_second.unwrap_or_else(|| why_unavailable(set, node)))
    }
}

/// How many of the nodes whose turn would come keep their old pod by `partition`; `kept` keep it anyway.
pub(crate) fn kept_by_partition(
    set: &DaemonSet,
    desired: usize,
    (in_turn, kept): (usize, usize),
) -> usize {
    let partition = set.spec.partition.of_at_most(desired);
    partition.saturating_sub(kept).min(in_turn)
}

/// The nodes that a status names, by reason.
pub(crate) struct Told {
    pub refused: Vec<Refused>,
    pub waiting_for: Vec<Refused>,
    pub excused: Vec<Refused>,
}

/// Those of a DaemonSet whose status does not name them, as a native one's.
pub(crate) fn told(
    snapshot: &Snapshot<'_>,
    on_nodes: &OnNodes<'_>,
    (hash, now): (&str, Timestamp),
) -> Told {
    let nodes = Nodes::of(snapshot, on_nodes, hash, now);
    Told {
        refused: nodes.refused.told(),
        waiting_for: nodes.waiting.told(),
        excused: nodes.excused.told(),
    }
}

/// Why a node has no available pod. Of several pods the newest is the one that is waited for.
fn why_unavailable(set: &DaemonSet, node: &OnNode<'_>) -> &'static str {
    if waits_for_hook(set, node) {
        return PRE_DELETE_HOOK;
    }
    let newest = node
        .pods
        .iter()
        .max_by_key(|(_, pod)| (!pod.is_deleting(), pod.created));
    match newest {
        None if node.name_taken => POD_NAME_TAKEN,
        None if node.left_over.is_some() => "PodTerminating",
        None => "PodMissing",
        Some((_, pod)) if pod.is_deleting() => "PodTerminating",
        Some((_, pod)) => match pod.phase {
            PodPhase::Failed | PodPhase::Succeeded => "PodEnded",
            _ if !pod.bound => "PodNotScheduled",
            _ if pod.ready.is_some() => "MinReadySeconds",
            PodPhase::Pending => "PodNotStarted",
            PodPhase::Running | PodPhase::Unknown => "PodNotReady",
        },
    }
}

/// Why a node that has its old pod gets no second one: both names are in use.
fn why_no_second(set: &DaemonSet, node: &OnNode<'_>) -> Option<&'static str> {
    if !set.spec.update.may_surge() || set.native {
        return None;
    }
    let goes = node.left_over.is_some() || node.pods.iter().any(|(_, pod)| pod.is_deleting());
    match (node.name_taken, goes) {
        (true, _) => Some(POD_NAME_TAKEN),
        (false, true) => Some("PodTerminating"),
        (false, false) => None,
    }
}

/// Completes a status whose numbers are known. When to look again.
pub(super) fn tell(
    snapshot: &Snapshot<'_>,
    on_nodes: &OnNodes<'_>,
    status: &mut DaemonSetStatus,
    (hash, now): (&str, Timestamp),
) -> Option<Timestamp> {
    let set = snapshot.set;
    let nodes = Nodes::of(snapshot, on_nodes, hash, now);
    status.update_revision = Some(hash.to_owned());
    let desired = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or(0);
    status.updated = format!("{updated}/{desired}");
    // What was updated once is no update that stands still, whatever becomes of its pods.
    let was_complete = reason_of(&set.status, types::PROGRESSING) == reasons::UPDATE_COMPLETE
        && set.status.update_revision == status.update_revision
        && nodes.in_turn == 0;
    let waits = nodes.in_turn + nodes.holding > 0 && !set.spec.paused && !was_complete;
    let moved = {
        let old = &set.status;
        let available = |status: &DaemonSetStatus| status.number_available.unwrap_or(0);
        let waited = REASONS_OF_WAITING.contains(&reason_of(old, types::PROGRESSING));
        old.update_revision != status.update_revision
            || old.updated_number_scheduled != status.updated_number_scheduled
            || available(status) > available(old)
            || waits && !waited
    };
    let known = set.status.last_progress_time.clone().filter(|_| !moved);
    let since = known.unwrap_or_else(|| whole_seconds(now));
    status.last_progress_time = Some(since.clone());
    let min_ready = SignedDuration::from_secs(set.spec.min_ready_seconds.into());
    let deadline = since.0.checked_add(PROGRESS_DEADLINE + min_ready).ok();
    let late = waits && deadline.is_some_and(|deadline| deadline <= now);
    status.conditions.clone_from(&set.status.conditions);
    conditions(snapshot, &nodes, status, (late, was_complete), now);
    status.refused = nodes.refused.told();
    status.waiting_for = nodes.waiting.told();
    status.excused = nodes.excused.told();
    status.summary = summary(status, &nodes);
    deadline.filter(|deadline| waits && *deadline > now)
}

fn conditions(
    snapshot: &Snapshot<'_>,
    nodes: &Nodes<'_>,
    status: &mut DaemonSetStatus,
    (late, was_complete): (bool, bool),
    now: Timestamp,
) {
    let set = snapshot.set;
    let words = Words::of(set, nodes, status);
    let stalled = snapshot.refusal.map(Refusal::stalled);
    let stands_still = (reasons::PROGRESS_DEADLINE_EXCEEDED, &*words.waiting);
    let stalled = stalled.or_else(|| late.then_some(stands_still));
    let generation = set.meta.generation;
    let was_stalled = condition::is_true(&status.conditions, types::STALLED);
    let mut set = |type_: &str, is: bool, reason: &str, message: &str| {
        let conditions = &mut status.conditions;
        condition::set(conditions, type_, is, reason, message, generation, now);
    };
    match stalled {
        Some((reason, message)) => set(types::STALLED, true, reason, message),
        None if was_stalled => set(types::STALLED, false, reasons::RESUMED, ""),
        None => {}
    }
    let (is, reason) = words.progressing(late, was_complete);
    set(types::PROGRESSING, is, reason, &words.waiting);
    let (is, reason) = words.available();
    set(types::AVAILABLE, is, reason, &words.unavailable);
    let (is, reason) = words.ready();
    set(types::READY, is, reason, &words.waiting);
}

/// What conditions say.
struct Words<'n, 'a> {
    nodes: &'n Nodes<'a>,
    paused: bool,
    /// No more nodes are without an available pod than may be, besides those that get none on purpose.
    enough: bool,
    waiting: String,
    unavailable: String,
}

impl<'n, 'a> Words<'n, 'a> {
    fn of(set: &DaemonSet, nodes: &'n Nodes<'a>, status: &DaemonSetStatus) -> Self {
        let desired = usize::try_from(status.desired_number_scheduled).unwrap_or(0);
        let unavailable = usize::try_from(status.number_unavailable.unwrap_or(0)).unwrap_or(0);
        let excused = nodes.excused.count();
        let budget = Budget::of(set.spec.update, desired);
        let allowed = budget.map_or(0, |budget| budget.max_unavailable);
        let counts = [
            (nodes.holding + nodes.stuck, "have no available pod"),
            (nodes.in_turn, "wait for their turn"),
            (nodes.kept, "keep their old pod"),
            (nodes.empty, "get no pod, as partitionedScaling says"),
            (excused, "were sick before"),
        ];
        let on_purpose = match nodes.empty {
            0 => String::new(),
            empty => format!(", {empty} of them as partitionedScaling says"),
        };
        let rest = counts.iter().filter(|(count, _)| *count > 0);
        let rest: Vec<String> = rest
            .map(|(count, what)| format!(", {count} {what}"))
            .collect();
        let updated = &status.updated;
        Self {
            nodes,
            paused: set.spec.paused && nodes.in_turn > 0,
            enough: unavailable.saturating_sub(excused + nodes.empty) <= allowed,
            waiting: format!(
                "{updated} nodes have a pod of the current template{}",
                rest.concat()
            ),
            unavailable: format!(
                "{unavailable} of {desired} nodes have no available pod{on_purpose}"
            ),
        }
    }

    fn progressing(&self, late: bool, was_complete: bool) -> (bool, &'static str) {
        if late {
            (false, reasons::PROGRESS_DEADLINE_EXCEEDED)
        } else if self.paused {
            (false, reasons::PAUSED_BY_USER)
        } else if self.nodes.in_turn + self.nodes.holding > 0 && !was_complete {
            (true, reasons::UPDATING)
        } else {
            (true, reasons::UPDATE_COMPLETE)
        }
    }

    fn available(&self) -> (bool, &'static str) {
        if self.enough {
            (true, reasons::ENOUGH_AVAILABLE)
        } else {
            (false, reasons::PODS_UNAVAILABLE)
        }
    }

    fn ready(&self) -> (bool, &'static str) {
        match self.nodes {
            Nodes { holding: 1.., .. } | Nodes { stuck: 1.., .. } => {
                (false, reasons::PODS_UNAVAILABLE)
            }
            _ if self.paused => (false, reasons::PAUSED_BY_USER),
            Nodes { in_turn: 1.., .. } => (false, reasons::UPDATING),
            // Who keeps them waits for no more than the rest: so tools judge a StatefulSet with a partition.
            Nodes { kept: 1.., .. } | Nodes { empty: 1.., .. } => (true, reasons::OLD_PODS_KEPT),
            _ => (true, reasons::UPDATE_COMPLETE),
        }
    }
}

/// One word for kubectl's table: why it does not go on, or how far it is. A healthy update is `Updating`, whatever its
/// nodes wait for meanwhile.
fn summary(status: &DaemonSetStatus, nodes: &Nodes<'_>) -> String {
    if let Some(stalled) = condition::stalled(&status.conditions) {
        return stalled;
    }
    let updates = reason_of(status, types::PROGRESSING) == reasons::UPDATING
        && condition::is_true(&status.conditions, types::AVAILABLE);
    let word = match (reason_of(status, types::READY), nodes.waiting.commonest()) {
        (reasons::UPDATE_COMPLETE, _) => "Complete",
        (reasons::PAUSED_BY_USER, _) => "Paused",
        _ if updates => reasons::UPDATING,
        (reason, commonest) => commonest.unwrap_or(reason),
    };
    word.to_owned()
}
