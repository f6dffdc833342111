//! DaemonSet, of carillon.dev and of apps/v1: one pod on each node that should have one.

pub mod action;
pub mod backoff;
mod claim;
mod excuse;
pub(crate) mod history;
pub(crate) mod lifecycle;
mod manage;
pub(crate) mod on_nodes;
mod parting;
pub mod pod;
pub mod pod_body;
mod pod_name;
pub(crate) mod progress;
pub mod refused;
pub mod revision;
pub(crate) mod rolling_update;
pub mod should_run;
mod snapshot;
pub mod spec;
mod status;
pub mod taken;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use carillon_api::condition::{reasons, types};
use carillon_api::daemon_set::DEFAULT_BURST_REPLICAS;
use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use self::action::{Action, NewPod, NewRevision, Note, Plan, Step};
use self::history::{Current, Stored, beyond_limit, current};
use self::lifecycle::{is_available, waits};
pub use self::manage::Why;
use self::manage::{Managed, manage};
use self::on_nodes::{OnNodes, desired, on_nodes};
pub use self::parting::preparing_note;
pub use self::pod::{DaemonPod, DaemonPods};
use self::pod::{LABEL_GENERATION, LABEL_REVISION, Named};
use self::pod_name::free_name;
pub use self::revision::{DataDigest, Revision, Revisions};
pub use self::rolling_update::Budget;
use self::rolling_update::{is_updated, rolling_update, room_for_new};
pub use self::snapshot::Snapshot;
pub use self::spec::DaemonSet;
use self::spec::Quota;
pub use self::status::is_settled;
use crate::condition;
use crate::selector::selects_by;

/// What should happen now. Source: `syncDaemonSet`.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let set = snapshot.set;
    if set.meta.deleting {
        return Plan::default();
    }
    if is_empty(&set.spec.selector) {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        return unusable(snapshot, (reasons::SELECTING_ALL, message), now);
    }
    if let Some(plan) = told_first(snapshot, now) {
        return plan;
    }
    let current = current(snapshot);
    if selects_by_state(set, &current.hash) {
        let message = "spec.selector depends on the label lifecycle.apps.kruise.io/state, by which pods are told that \
                       they go: select by other labels";
        return unusable(snapshot, (reasons::INVALID_SPEC, message), now);
    }
    if !selects_its_own(set, &current.hash) {
        let message = "spec.selector does not select the pods of spec.template: give the template labels \
                       that it selects";
        return unusable(snapshot, (reasons::INVALID_SPEC, message), now);
    }
    let claims = claim::claim(snapshot);
    if !claims.is_empty() {
        return Plan {
            steps: claims,
            ..Plan::default()
        };
    }
    let mut plan = Plan::default();
    match &current.stored {
        Stored::NameTaken => return counts_collision(snapshot),
        Stored::Again(others) => {
            plan.steps = merge(snapshot, &current, others);
            plan.again = true;
            return plan;
        }
        Stored::No => plan.steps.push(Step::needed(vec![create(&current)])),
        Stored::Once(uid, number) if *number < current.number => {
            let action = Action::RenumberRevision {
                name: current.name.clone(),
                uid: *uid,
                number: current.number,
            };
            plan.steps.push(Step::needed(vec![action]));
        }
        Stored::Once(..) => {}
    }
    let on_nodes = survey(snapshot, (&current.hash, current.since));
    pods(snapshot, &on_nodes, &current.hash, &mut plan, now);
    let old = beyond_limit(snapshot, &current).into_iter();
    let old = old.map(|(name, revision)| Action::DeleteRevision {
        name: name.to_owned(),
        uid: revision.uid,
        rv: revision.rv,
    });
    plan.steps.push(Step::wanted(old.collect()));
    let wake = write_status(snapshot, &on_nodes, &current, &mut plan, now);
    plan.wake = plan.wake.into_iter().chain(wake).min();
    plan.steps.retain(|step| !step.actions.is_empty());
    plan
}

/// What is on each node, and which nodes are excused. The current revision: its hash, and since when it is stored.
pub(crate) fn survey<'a>(
    snapshot: &Snapshot<'a>,
    (hash, since): (&str, Option<Timestamp>),
) -> OnNodes<'a> {
    let mut on_nodes = on_nodes(snapshot);
    excuse::note(snapshot.set, &mut on_nodes, (hash, since));
    on_nodes
}

fn is_empty(selector: &LabelSelector) -> bool {
    let LabelSelector {
        match_labels,
        match_expressions,
    } = selector;
    match_labels.iter().flatten().next().is_none()
        && match_expressions.iter().flatten().next().is_none()
}

/// Whether it would keep the pods and revisions that it makes. Otherwise it would make them for ever.
fn selects_its_own(set: &DaemonSet, hash: &str) -> bool {
    let state = set.spec.pod_labels.get(LABEL_LIFECYCLE_STATE);
    selects_in_state(set, hash, state.map(String::as_str))
}

/// The same of a pod that is told so.
fn selects_in_state(set: &DaemonSet, hash: &str, state: Option<&str>) -> bool {
    let generation = set
        .template_generation
        .map(|generation| generation.to_string());
    selects_by(&set.spec.selector, |key| match key {
        LABEL_REVISION => Some(hash),
        LABEL_GENERATION if generation.is_some() => generation.as_deref(),
        LABEL_LIFECYCLE_STATE => state,
        key => set.spec.pod_labels.get(key).map(String::as_str),
    })
}

/// Whether it would let go of a pod that is told that it goes, or that it stays.
fn selects_by_state(set: &DaemonSet, hash: &str) -> bool {
    let selects = |state| selects_in_state(set, hash, state);
    !set.native && selects(None) != selects(Some(STATE_PREPARING_DELETE))
}

/// It does nothing, and says why.
fn unusable(
    snapshot: &Snapshot<'_>,
    (reason, message): (&'static str, &str),
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    plan.notes.push(Note {
        warning: true,
        reason,
        action: "Syncing",
        message: message.to_owned(),
        about: None,
    });
    let set = snapshot.set;
    if set.native {
        return plan;
    }
    let mut status = set.status.clone();
    let (conditions, generation) = (&mut status.conditions, set.meta.generation);
    condition::set(
        conditions,
        types::STALLED,
        true,
        reason,
        message,
        generation,
        now,
    );
    status.observed_generation = Some(generation);
    status.summary = condition::stalled(&status.conditions).unwrap_or_default();
    if status == set.status {
        return Plan::default();
    }
    plan.steps
        .push(Step::needed(vec![Action::WriteStatus(Box::new(status))]));
    plan
}

/// What is refused may stand in the way of the rest of a plan, and so of its status. That of a native
/// DaemonSet has no conditions.
fn told_first(snapshot: &Snapshot<'_>, now: Timestamp) -> Option<Plan> {
    let (set, refusal) = (snapshot.set, snapshot.refusal?);
    if set.native {
        return None;
    }
    let mut status = set.status.clone();
    let news = refusal.tell(&mut status.conditions, set.meta.generation, now);
    status.observed_generation = Some(set.meta.generation);
    status.summary = condition::stalled(&status.conditions).unwrap_or_default();
    let write = Action::WriteStatus(Box::new(status));
    news.then(|| Plan {
        steps: vec![Step::needed(vec![write])],
        again: true,
        ..Plan::default()
    })
}

/// The next hash makes another name.
fn counts_collision(snapshot: &Snapshot<'_>) -> Plan {
    let mut status = snapshot.set.status.clone();
    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
    Plan {
        steps: vec![Step::needed(vec![Action::WriteStatus(Box::new(status))])],
        again: true,
        ..Plan::default()
    }
}

fn create(current: &Current<'_>) -> Action {
    Action::CreateRevision(NewRevision {
        name: current.name.clone(),
        hash: current.hash.clone(),
        number: current.number,
    })
}

/// Of several revisions with the same data one stays. Pods of the others get its hash first; pods of other data keep
/// theirs, which upstream overwrites, so that they are never updated (kubernetes issue 111280).
fn merge(
    snapshot: &Snapshot<'_>,
    current: &Current<'_>,
    others: &[(&str, &Revision)],
) -> Vec<Step> {
    let hashes: BTreeSet<&str> = others
        .iter()
        .map(|(name, revision)| revision.hash(name))
        .filter(|hash| *hash != current.hash)
        .collect();
    let pods = snapshot.pods.iter();
    let relabelled =
        pods.filter(|(_, pod)| pod.revision().is_some_and(|hash| hashes.contains(hash)));
    let relabelled = relabelled.map(|(name, pod)| Action::RelabelPod {
        name: name.to_string(),
        uid: pod.uid,
        hash: current.hash.clone(),
    });
    let deleted = others
        .iter()
        .map(|(name, revision)| Action::DeleteRevision {
            name: (*name).to_owned(),
            uid: revision.uid,
            rv: revision.rv,
        });
    let mut steps = vec![
        Step::needed(relabelled.collect()),
        Step::wanted(deleted.collect()),
    ];
    steps.retain(|step| !step.actions.is_empty());
    steps
}

/// Which pods come and go.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PodChanges<'a> {
    /// Nodes that get a pod.
    pub create: Vec<&'a str>,
    /// Nodes that get a second pod when it is known that old pods of others go.
    waiting: Vec<&'a str>,
    /// Pods that are deleted, by name, with why.
    pub delete: Vec<(&'a str, Why)>,
    /// When a failed pod may be replaced.
    pub wake: Option<Timestamp>,
}

/// What should happen to pods now. `hash`: the current revision.
pub(crate) fn pod_changes<'a>(
    snapshot: &Snapshot<'a>,
    nodes: &OnNodes<'a>,
    hash: &str,
    now: Timestamp,
) -> PodChanges<'a> {
    let managed = manage(snapshot, nodes, hash, now);
    let next = rolling_update(snapshot, nodes, &managed, hash, now);
    let deletions_first = waits_for_deletions(snapshot, nodes, &managed, (hash, now));
    let (mut create, mut waiting) = (managed.create, next.create);
    if !deletions_first {
        create.append(&mut waiting);
    }
    let deleted = managed.delete.into_iter();
    let mut delete: Vec<_> = deleted.map(|((name, _), why)| (name, why)).collect();
    let known: BTreeSet<&str> = delete.iter().map(|(name, _)| *name).collect();
    let outdated = next.delete.into_iter().filter(|name| !known.contains(name));
    delete.extend(outdated.map(|name| (name, Why::Outdated)));
    // Others have their turn before a node for which something was refused, whatever they need.
    let refused = |node: &str| nodes.get(node).and_then(|node| node.refused);
    let of_pod = |name: &str| refused(snapshot.pods.get(name)?.node.as_deref()?);
    create.sort_by_key(|node| refused(node));
    delete.sort_by_key(|(name, _)| of_pod(name));
    PodChanges {
        create,
        waiting,
        delete,
        wake: managed.wake,
    }
}

/// Whether no node gets a second pod before it is known that old pods of others are gone. Pods are created before others
/// are deleted: two nodes would have two pods where one may. Whoever sees the deletion plans again. If it is refused,
/// others go on where the new pod is available, but no more nodes than may have two pods anyway stay behind with both.
/// Of apps/v1 a refusal stops them, as with upstream.
fn waits_for_deletions(
    snapshot: &Snapshot<'_>,
    nodes: &OnNodes<'_>,
    managed: &Managed<'_>,
    (hash, now): (&str, Timestamp),
) -> bool {
    let set = snapshot.set;
    let is_left_behind = |pod: &DaemonPod| {
        let node = pod.node.as_deref().and_then(|node| nodes.get(node));
        node.is_some_and(|node| {
            let mut pods = node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
            let has_new =
                pods.any(|(_, pod)| is_updated(set, pod, hash) && is_available(set, pod, now));
            node.deletion_refused && has_new && !set.native
        })
    };
    // One that waits for its hook is not about to go.
    let goes = |((_, pod), why): &&(Named<'_>, Why)| *why == Why::Outdated && !waits(set, pod);
    let outdated = managed.delete.iter().filter(goes);
    let (mut going, mut left_behind) = (0, 0);
    for ((_, pod), _) in outdated {
        if is_left_behind(pod) {
            left_behind += 1;
        } else {
            going += 1;
        }
    }
    let budget = Budget::of(set.spec.update, desired(nodes));
    let may_surge = budget.map_or(0, |budget| budget.max_surge);
    going > 0 || left_behind > may_surge
}

fn pods(snapshot: &Snapshot<'_>, nodes: &OnNodes<'_>, hash: &str, plan: &mut Plan, now: Timestamp) {
    let changes = pod_changes(snapshot, nodes, hash, now);
    let free_again = taken::next(snapshot.taken_pods, snapshot.set.meta.generation, now);
    plan.wake = changes.wake.into_iter().chain(free_again).min();
    let desired = desired(nodes);
    let burst = snapshot.set.spec.burst;
    let burst = burst.unwrap_or(Quota::Count(DEFAULT_BURST_REPLICAS));
    let most = burst
        .of_at_most(desired)
        .max(1)
        .min(snapshot.max_pod_changes);
    let room = room_for_new(snapshot.set, nodes, (hash, desired));
    let creatable = changes.create.iter().filter_map(|node| {
        let name = free_name(snapshot, node, now)?;
        Some(Action::CreatePod(NewPod {
            name,
            node: (*node).to_owned(),
            hash: hash.to_owned(),
        }))
    });
    let mut creatable = creatable.take(room);
    let created: Vec<Action> = creatable.by_ref().take(most).collect();
    let parting = parting::part(snapshot, &changes.delete);
    let set = snapshot.set;
    let deleted = parting.delete.iter().take(most).map(|(pod, why)| {
        plan.notes.extend(why_deleted(snapshot, *pod, *why));
        parting::delete(set, *pod, *why)
    });
    let deleted: Vec<Action> = deleted.collect();
    let prepared = parting.prepare.iter().take(most);
    let prepared = prepared.map(|(pod, why)| parting::prepare(*pod, *why, now));
    let prepared: Vec<Action> = prepared.collect();
    let kept: Vec<Action> = parting
        .keep
        .iter()
        .take(most)
        .map(|pod| parting::keep(*pod))
        .collect();
    // A node without a free name, and one that gets no pod on purpose, is no rest.
    let rest = parting.delete.len() > deleted.len()
        || parting.prepare.len() > prepared.len()
        || parting.keep.len() > kept.len()
        || creatable.next().is_some();
    plan.again |= rest
        && !(created.is_empty() && deleted.is_empty() && prepared.is_empty() && kept.is_empty());
    plan.steps.push(Step::wanted(kept));
    plan.steps.push(Step::slowly(created));
    plan.steps.push(Step::wanted(deleted));
    plan.steps.push(Step::wanted(prepared));
}

/// What people are told of a pod that has ended.
fn why_deleted(snapshot: &Snapshot<'_>, (name, pod): Named<'_>, why: Why) -> Option<Note> {
    let (warning, reason, found, doing) = match why {
        Why::Failed => (true, "FailedDaemonPod", "failed", "kill"),
        Why::Succeeded => (false, "SucceededDaemonPod", "succeeded", "delete"),
        Why::Duplicate | Why::NotWanted | Why::Outdated => return None,
    };
    let namespace = &snapshot.set.meta.owner.namespace;
    let node = pod.node.as_deref().unwrap_or_default();
    Some(Note {
        warning,
        reason,
        action: "Syncing",
        message: format!(
            "Found {found} daemon pod {namespace}/{name} on node {node}, will try to {doing} it"
        ),
        about: Some(pod.uid.to_string()),
    })
}

/// Plans the status if it says anything new. When to look again.
fn write_status(
    snapshot: &Snapshot<'_>,
    on_nodes: &OnNodes<'_>,
    current: &Current<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Option<Timestamp> {
    let set = snapshot.set;
    let mut status = status::count(set, on_nodes, &current.hash, now);
    status.observed_generation = Some(set.meta.generation);
    status.collision_count = set.status.collision_count;
    let wake = status::next_available(set, on_nodes, now);
    let deadline = if set.native {
        None
    } else {
        progress::tell(snapshot, on_nodes, &mut status, (&current.hash, now))
    };
    let mut gathers = None;
    if status != set.status {
        gathers = status::gathers_until(snapshot, &status, now);
        if gathers.is_none() {
            let write = Action::WriteStatus(Box::new(status));
            plan.steps.push(Step::wanted(vec![write]));
        }
    }
    [wake, deadline, gathers].into_iter().flatten().min()
}
