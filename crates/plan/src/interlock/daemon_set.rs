//! The same for DaemonSets: what a plan for one must never do. Whether a node gets a pod is the planner's to say.

mod hook;
mod placement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::DaemonSetStatus;
use carillon_api::condition::reasons;
use jiff::{SignedDuration, Timestamp};

use self::hook::Hook;
use self::placement::takes_pods;
use super::TRIPPED_RECHECK;
use super::trip::{Trip, trip};
use crate::condition;
use crate::daemon_set::action::{Action, NewPod, NewRevision, Note, OnError, Plan, Step};
use crate::daemon_set::spec::{Quota, Update};
use crate::daemon_set::{DaemonPod, DaemonSet, Snapshot, Why};
use crate::pod::PodPhase;
use crate::uid::Uid;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    pub use super::super::left_behind::rules::LEFT_BEHIND;

    /// Pods and revisions are adopted by a plan that has asked whether the DaemonSet is as it was judged.
    pub const CONFIRMED_FIRST: &str = "confirmed_first";
    /// A DaemonSet that is being deleted, or whose selector is empty, touches no pod and no revision.
    pub const ACTS: &str = "acts";
    /// A node has one pod, and a second one of another revision only with a surge. A new one has a name that no pod
    /// has, and is for a node that is there.
    pub const ONE_PER_NODE: &str = "one_per_node";
    /// Pods are deleted by uid, and only for a reason that holds.
    pub const DELETE: &str = "delete";
    /// A pod that carries the hook of `preDelete` is not deleted, nor told again and again that it goes; one that stays is
    /// told so.
    pub const PRE_DELETE: &str = "pre_delete";
    /// An update takes no more available pods away than the budget allows.
    pub const BUDGET: &str = "budget";
    /// A revision is deleted only when no pod carries its hash, and never the current one; numbers only rise; pods are
    /// made from a revision that is stored, or stored by a step before.
    pub const HISTORY: &str = "history";
    /// Numbers of a status fit each other, and what was counted or observed is never taken back.
    pub const STATUS: &str = "status";

    /// All of them.
    pub const ALL: [&str; 9] = [
        CONFIRMED_FIRST,
        ACTS,
        ONE_PER_NODE,
        DELETE,
        PRE_DELETE,
        BUDGET,
        HISTORY,
        STATUS,
        LEFT_BEHIND,
    ];
}

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    let mut check = Check {
        snapshot,
        now,
        current: false,
        stored: None,
        on_nodes: on_nodes(snapshot),
        hook: Hook::of(snapshot.set),
        created: BTreeMap::new(),
        deleted: BTreeSet::new(),
        duplicates: BTreeSet::new(),
        kept: BTreeSet::new(),
        relabelled: BTreeSet::new(),
    };
    for step in &plan.steps {
        for action in &step.actions {
            check.action(action, step)?;
        }
    }
    check.budget(plan)
}

/// What is done instead of a plan that must not be carried out: it is told, and looked at again. The status of a
/// native DaemonSet has no place for it.
pub fn refuse(set: &DaemonSet, trip: &Trip, now: Timestamp) -> Plan {
    let message = format!("the interlock refused a plan ({trip}); please report it");
    let mut plan = Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        ..Plan::default()
    };
    let mut status = set.status.clone();
    if !set.native {
        condition::set(
            &mut status.conditions,
            carillon_api::condition::types::STALLED,
            true,
            reasons::INTERLOCK_TRIPPED,
            &message,
            set.meta.generation,
            now,
        );
        status.summary = condition::stalled(&status.conditions).unwrap_or_default();
    }
    if status != set.status {
        let write = Action::WriteStatus(Box::new(status));
        plan.steps.push(Step::needed(vec![write]));
    }
    plan.notes.push(Note {
        warning: true,
        reason: reasons::INTERLOCK_TRIPPED,
        action: "Planning",
        message,
        about: None,
    });
    plan
}

/// How many of `total` a budget allows at most.
fn most(quota: Quota, total: usize) -> usize {
    match quota {
        Quota::Count(count) => count as usize,
        Quota::Percent(percent) => (total * percent as usize).div_ceil(100),
    }
}

/// Pods that are not over, by node.
type OnNodes<'a> = BTreeMap<&'a str, Vec<&'a DaemonPod>>;

fn on_nodes<'a>(snapshot: &Snapshot<'a>) -> OnNodes<'a> {
    let mut on_nodes = OnNodes::new();
    for pod in snapshot.pods.values() {
        let is_over = pod.phase.has_ended() && pod.deletion.is_some();
        if let Some(node) = pod.node.as_deref().filter(|_| !is_over) {
            on_nodes.entry(node).or_default().push(pod);
        }
    }
    on_nodes
}

struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    /// The plan has asked whether it sees the present.
    current: bool,
    /// The hash of a revision that an earlier step stores.
    stored: Option<&'a str>,
    on_nodes: OnNodes<'a>,
    hook: Hook<'a>,
    /// Nodes that get a pod, and its name.
    created: BTreeMap<&'a str, &'a str>,
    deleted: BTreeSet<Uid>,
    /// Those of them that go since another one is there.
    duplicates: BTreeSet<Uid>,
    /// They were told that they stay.
    kept: BTreeSet<Uid>,
    relabelled: BTreeSet<Uid>,
}

impl<'a> Check<'a> {
    fn action(&mut self, action: &'a Action, step: &Step) -> Result<(), Trip> {
        let set = self.snapshot.set;
        let tells = matches!(action, Action::WriteStatus(_) | Action::ConfirmCurrent);
        let selects = &set.spec.selector;
        let selects_all = selects.match_labels.iter().flatten().count() == 0
            && selects.match_expressions.iter().flatten().count() == 0;
        if !tells && (set.meta.deleting || selects_all) {
            return trip(
                rules::ACTS,
                format!("{set} must not act", set = set.meta.owner),
            );
        }
        match action {
            Action::ConfirmCurrent => {
                self.current = step.on_error == OnError::Stop;
                Ok(())
            }
            Action::AdoptPod { name, .. } | Action::AdoptRevision { name, .. } => {
                if self.current {
                    return Ok(());
                }
                let why = format!(
                    "nobody has asked whether the DaemonSet is as it was, before {name} is adopted"
                );
                trip(rules::CONFIRMED_FIRST, why)
            }
            Action::DisownPod { .. } | Action::DisownRevision { .. } => Ok(()),
            Action::CreateRevision(revision) => {
                if step.on_error == OnError::Stop {
                    self.stored = Some(&revision.hash);
                }
                self.create_revision(revision)
            }
            Action::RenumberRevision { name, uid, number } => self.renumber(name, *uid, *number),
            Action::RelabelPod { name, uid, .. } => {
                self.pod(rules::HISTORY, name, *uid)?;
                self.relabelled.insert(*uid);
                Ok(())
            }
            Action::DeleteRevision { name, uid, .. } => self.delete_revision(name, *uid),
            Action::CreatePod(pod) => self.create(pod),
            Action::PreparePod {
                name, uid, rv, why, ..
            } => {
                self.going(name, *uid, *why)?;
                self.prepare(name, (*uid, *rv))
            }
            Action::KeepPod { name, uid, rv } => self.keep(name, (*uid, *rv)),
            Action::DeletePod {
                name, uid, rv, why, ..
            } => {
                self.going(name, *uid, *why)?;
                self.delete(name, (*uid, *rv))
            }
            Action::WriteStatus(status) => self.write(status),
        }
    }

    fn create(&mut self, new: &'a NewPod) -> Result<(), Trip> {
        let snapshot = self.snapshot;
        let known = snapshot.revisions.iter();
        let mut hashes = known.map(|(name, revision)| revision.hash(name));
        if self.stored != Some(&*new.hash) && !hashes.any(|hash| hash == new.hash) {
            let why = format!(
                "{} is made from revision {}, which is not stored",
                new.name, new.hash
            );
            return trip(rules::HISTORY, why);
        }
        let name = new.name.as_str();
        let known = snapshot.pods.contains_key(name) || snapshot.free.contains_key(name);
        let node = new.node.as_str();
        let twice = self.created.insert(node, name).is_some();
        if known || twice || !snapshot.nodes.contains_key(node) {
            let why = format!(
                "{name} is created for node {node}: it is there, or the node is not, or gets two"
            );
            return trip(rules::ONE_PER_NODE, why);
        }
        let there = self.on_nodes.get(node).map_or(&[][..], Vec::as_slice);
        let surges = self.surge() > 0;
        // With a surge those that are on their way out do not count, as upstream.
        let counted = there.iter().filter(|pod| !surges || pod.deletion.is_none());
        let counted = counted.filter(|pod| !pod.phase.has_ended() || !surges);
        let counted: Vec<_> = counted.collect();
        let same = counted.iter().any(|pod| pod.revision() == Some(&*new.hash));
        if counted.len() > usize::from(surges) || same {
            let why = format!(
                "{name} is created on node {node}, which has {} pods",
                counted.len()
            );
            return trip(rules::ONE_PER_NODE, why);
        }
        Ok(())
    }

    fn surge(&self) -> usize {
        match self.snapshot.set.spec.update {
            Update::Rolling { max_surge, .. } => most(max_surge, 1),
            Update::OnDelete => 0,
        }
    }

    /// The pod of this name, if it is the one that was judged.
    fn pod(&self, rule: &'static str, name: &str, uid: Uid) -> Result<&'a DaemonPod, Trip> {
        let pod = self.snapshot.pods.get(name).filter(|pod| pod.uid == uid);
        let what = || format!("{name} ({uid}) is not the pod that was judged");
        pod.ok_or_else(|| Trip { rule, what: what() })
    }

    /// A pod is deleted, or told that it is.
    fn going(&mut self, name: &str, uid: Uid, why: Why) -> Result<(), Trip> {
        let pod = self.pod(rules::DELETE, name, uid)?;
        self.deleted.insert(uid);
        let others = pod.node.as_deref().and_then(|node| self.on_nodes.get(node));
        let others = others.into_iter().flatten();
        let mut others = others.filter(|other| other.uid != uid && other.deletion.is_none());
        let holds = match why {
            Why::Failed => pod.phase == PodPhase::Failed,
            Why::Succeeded => pod.phase == PodPhase::Succeeded,
            Why::Duplicate => {
                self.duplicates.insert(uid);
                others.any(|other| !self.duplicates.contains(&other.uid))
            }
            Why::Outdated => self.snapshot.set.spec.update != Update::OnDelete || self.surge() > 0,
            Why::NotWanted => true,
        };
        if holds && pod.deletion.is_none() {
            return Ok(());
        }
        let why = why.word();
        trip(
            rules::DELETE,
            format!("{name} is deleted as {why}, which it is not"),
        )
    }

    fn available(&self, pod: &DaemonPod) -> bool {
        let enough = SignedDuration::from_secs(self.snapshot.set.spec.min_ready_seconds.into());
        // Without such a time the clock of the kubelet does not matter.
        let is_over = |since: Timestamp| {
            let due = since.checked_add(enough);
            enough.is_zero() || due.is_ok_and(|due| due <= self.now)
        };
        pod.ready.is_some_and(is_over) && pod.deletion.is_none() && !self.hook.told(pod)
    }

    /// Nodes that lose their last available pod to the update, and those that should have one, have lost it and are not
    /// known to have been sick before, are no more than the budget.
    fn budget(&self, plan: &Plan) -> Result<(), Trip> {
        let Update::Rolling {
            max_unavailable, ..
        } = self.snapshot.set.spec.update
        else {
            return Ok(());
        };
        if self.surge() > 0 {
            return Ok(());
        }
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        let outdated: BTreeSet<Uid> = actions
            .filter_map(|action| match action {
                Action::DeletePod {
                    uid,
                    why: Why::Outdated,
                    ..
                }
                | Action::PreparePod {
                    uid,
                    why: Why::Outdated,
                    ..
                } => Some(*uid),
                _ => None,
            })
            .collect();
        let (mut taken, mut down, mut told) = (0, 0, 0);
        for (node, pods) in &self.on_nodes {
            let available = || pods.iter().filter(|pod| self.available(pod));
            let loses = available().any(|pod| outdated.contains(&pod.uid));
            let keeps = available().any(|pod| !self.deleted.contains(&pod.uid));
            let row = self.snapshot.nodes.get(*node);
            let is_well = row.is_some_and(|row| {
                row.not_ready_since.is_none() && !row.unschedulable && !row.deleting
            });
            let goes = |pod: &&DaemonPod| outdated.contains(&pod.uid) && pod.ready.is_some();
            let mut going = pods.iter().copied().filter(goes);
            told += usize::from(is_well && going.any(|pod| self.hook.told(pod)));
            // What an update leaves alone does not hold it up.
            taken += usize::from(loses && !keeps);
            let is_down = is_well && self.is_selected(node) && available().next().is_none();
            down += usize::from(is_down && self.takes_pods(node));
        }
        let nodes = self.snapshot.nodes.len().max(self.on_nodes.len());
        let allowed = most(max_unavailable, nodes).max(1);
        if told > allowed {
            let why = format!(
                "{told} pods that serve and were told that they go are replaced, {allowed} may be"
            );
            return trip(rules::BUDGET, why);
        }
        if taken == 0 || taken + down <= allowed {
            return Ok(());
        }
        let why = format!(
            "{taken} available pods are replaced, {down} nodes are without one, {allowed} may be"
        );
        trip(rules::BUDGET, why)
    }

    /// Whether a node should have a pod: what is left on another one is none of the update's.
    fn takes_pods(&self, node: &str) -> bool {
        let wish = &self.snapshot.set.spec.placement;
        let row = self.snapshot.nodes.get(node);
        row.is_some_and(|row| takes_pods(wish, node, row))
    }

    /// Whether `rollingUpdate.selector` selects a node.
    fn is_selected(&self, node: &str) -> bool {
        let Some(selector) = &self.snapshot.set.spec.node_selector else {
            return true;
        };
        let row = self.snapshot.nodes.get(node);
        let label = |key: &str| row.and_then(|row| row.label(key));
        let mut labels = selector.match_labels.iter().flatten();
        let mut expressions = selector.match_expressions.iter().flatten();
        labels.all(|(key, value)| label(key) == Some(value))
            && expressions.all(|wanted| {
                let found = label(&wanted.key);
                let listed = found.is_some_and(|found| {
                    let mut values = wanted.values.iter().flatten();
                    values.any(|value| value == found)
                });
                match &*wanted.operator {
                    "In" => listed,
                    "NotIn" => !listed,
                    "Exists" => found.is_some(),
                    "DoesNotExist" => found.is_none(),
                    _ => false,
                }
            })
    }

    fn create_revision(&self, new: &NewRevision) -> Result<(), Trip> {
        let known = self.snapshot.revisions.iter();
        let mut known = known.map(|(name, revision)| (&**name, revision.number));
        if known.any(|(name, number)| name == new.name || number >= new.number && number < i64::MAX)
        {
            let why = format!(
                "revision {} with number {} is not the newest",
                new.name, new.number
            );
            return trip(rules::HISTORY, why);
        }
        Ok(())
    }

    fn renumber(&self, name: &str, uid: Uid, number: i64) -> Result<(), Trip> {
        let known = self.snapshot.revisions.get(name);
        let rises = known.is_some_and(|known| known.uid == uid && known.number < number);
        if rises {
            return Ok(());
        }
        trip(
            rules::HISTORY,
            format!("revision {name} gets number {number}, which is no higher"),
        )
    }

    fn delete_revision(&self, name: &str, uid: Uid) -> Result<(), Trip> {
        let revisions = &self.snapshot.revisions;
        let Some(known) = revisions.get(name).filter(|known| known.uid == uid) else {
            return trip(
                rules::HISTORY,
                format!("{name} ({uid}) is not the revision that was judged"),
            );
        };
        let hash = known.hash(name);
        let others = revisions.iter().filter(|(other, _)| ***other != *name);
        let mut others = others.filter(|(name, revision)| revision.hash(name) == hash);
        let kept = others.next().is_some();
        let pods = self.snapshot.pods.values();
        let mut pods = pods.filter(|pod| !self.relabelled.contains(&pod.uid));
        let used = !kept && pods.any(|pod| pod.revision() == Some(hash));
        if used
            || self.stored == Some(hash)
            || known.data == self.snapshot.set.data && revisions.len() < 2
        {
            return trip(
                rules::HISTORY,
                format!("revision {name} is deleted while pods need it"),
            );
        }
        Ok(())
    }

    fn write(&self, new: &DaemonSetStatus) -> Result<(), Trip> {
        let old = &self.snapshot.set.status;
        let none = |count: Option<i32>| count.unwrap_or(0);
        let desired = new.desired_number_scheduled;
        let within = [
            new.current_number_scheduled,
            new.number_ready,
            none(new.number_available),
            none(new.updated_number_scheduled),
        ];
        let fits = within.iter().all(|count| (0..=desired).contains(count))
            && none(new.number_available) + none(new.number_unavailable) <= desired;
        let generation = Some(self.snapshot.set.meta.generation);
        let back = none(new.collision_count) < none(old.collision_count)
            || new.observed_generation < old.observed_generation.min(generation);
        // What was stored before and stays as it was is nobody's mistake here.
        let same = desired == old.desired_number_scheduled && new.number_ready == old.number_ready;
        if (fits || same) && !back {
            return Ok(());
        }
        trip(
            rules::STATUS,
            "its numbers do not fit, or what was observed is taken back",
        )
    }
}

impl Check<'_> {
    /// One with a hook is not deleted, and what its hook is has not changed meanwhile.
    fn delete(&self, name: &str, (uid, rv): (Uid, Option<u64>)) -> Result<(), Trip> {
        let pod = self.leaving(name, uid)?;
        if self.hook.is_on(pod) {
            let why = format!("{name} is deleted, and carries the hook of lifecycle.preDelete");
            return trip(rules::PRE_DELETE, why);
        }
        if self.hook.is_some() && rv != Some(pod.rv) {
            let why = format!("{name} is deleted whatever has become of it, and may have a hook");
            return trip(rules::PRE_DELETE, why);
        }
        Ok(())
    }

    /// Once, and only one that has to wait.
    fn prepare(&self, name: &str, (uid, rv): (Uid, u64)) -> Result<(), Trip> {
        let pod = self.leaving(name, uid)?;
        if self.hook.is_on(pod) && !self.hook.told(pod) && rv == pod.rv {
            return Ok(());
        }
        let why = format!("{name} is told that it goes: it was told, has no hook, or has changed");
        trip(rules::PRE_DELETE, why)
    }

    /// One that goes was not told that it stays.
    fn leaving(&self, name: &str, uid: Uid) -> Result<&DaemonPod, Trip> {
        if self.kept.contains(&uid) {
            return trip(
                rules::PRE_DELETE,
                format!("{name} goes, and is told that it stays"),
            );
        }
        self.pod(rules::PRE_DELETE, name, uid)
    }

    /// Only one that was told that it goes, and that does not go.
    fn keep(&mut self, name: &str, (uid, rv): (Uid, u64)) -> Result<(), Trip> {
        let pod = self.pod(rules::PRE_DELETE, name, uid)?;
        self.kept.insert(uid);
        let goes = self.deleted.contains(&uid) || pod.deletion.is_some();
        if Hook::carries_word(pod) && !goes && !self.snapshot.set.native && rv == pod.rv {
            return Ok(());
        }
        let why = format!("{name} is told that it stays: nobody has said otherwise, or it goes");
        trip(rules::PRE_DELETE, why)
    }
}
