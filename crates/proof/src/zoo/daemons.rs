//! Bugs of DaemonSets: a node with two pods or none, an update that takes more than it may, a history that is lost.

use std::sync::Arc;

use carillon_operator::kinds::daemon_set::DaemonSets;
use carillon_plan::daemon_set::action::{Action, Plan, Step};
use carillon_plan::daemon_set::backoff::FailedNodes;
use carillon_plan::daemon_set::spec::{Quota, Spec, Update};
use carillon_plan::daemon_set::{DaemonPod, DaemonPods, Snapshot, Why, plan};
use carillon_plan::node::{Effect, NodeRow, Nodes, Taint};
use jiff::Timestamp;

use super::cases::{calm, not_told, stale, stopped};
use super::mutant::Mutant;
use super::wires::without;
use crate::wire::{Message, Wire};

const THREE: &str = "daemon: a pod on each of three nodes";
const NATIVE: &str = "native daemon: a pod on each of three nodes";
const UPDATE: &str = "daemon: an update, one node at a time";
const SURGE: &str = "daemon: an update with a surge";
const NATIVE_SURGE: &str = "native daemon: an update with a surge";
const HOOK: &str = "daemon: an update of pods that wait for a hook";
const HOOK_SURGE: &str = "daemon: an update with a surge of pods that wait for a hook";
const HOOK_BACK: &str = "daemon: an update that is taken back while a pod waits for a hook";
const COPIED: &str = "daemon: a revision is copied half way through an update";
const TAINTED: &str = "daemon: a node is tainted, and is not any more";
const TAINTED_HOOK: &str =
    "daemon: a node is tainted, and not any more while its pod waits for a hook";
const BACK: &str = "daemon: an update that is taken back half way";
const WITHOUT_HISTORY: &str =
    "native daemon: an update that is taken back half way, without a history";

pub(super) fn mutants() -> Vec<Mutant> {
    [
        pods(),
        nodes(),
        budgets(),
        updates(),
        hooks(),
        history(),
        wires(),
    ]
    .concat()
}

fn pods() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "pods of a DaemonSet have random names",
            "k/k#54096: generateName, and a new leader whose cache lags",
            &["S1"],
            (3..=12)
                .map(|write| not_told(NATIVE, "carillon/0.0", write))
                .collect(),
        )
        .plans::<DaemonSets>(|snapshot, now| {
            renamed(plan(snapshot, now), |_| {
                format!("agent-{:08x}", fastrand::u32(..))
            })
        })
        .speaks(Wire {
            remembers: Some(|call| call.resource() == "pods"),
            ..Wire::default()
        }),
        Mutant::new(
            "a pod of a DaemonSet that is told to stop is replaced at once",
            "k/k DaemonSet: TestDaemonSetRespectsTermination",
            &["S1"],
            vec![calm("daemon: an update of pods that stop slowly")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let staying = |pod: &DaemonPod| pod.deletion.is_none();
            let hasty = of_pods(snapshot, now, |pods| pods.retain(|_, pod| staying(pod)));
            renamed(hasty, |name| format!("{name}-{:08x}", fastrand::u32(..)))
        }),
        Mutant::new(
            "a failed pod of a DaemonSet is replaced at once, for ever",
            "k/k#65240: kubelet and controller go round in circles",
            &["S12"],
            vec![calm(
                "daemon: pods that are always evicted come again, ever later",
            )],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let none = FailedNodes::default();
            let hasty = Snapshot {
                failed: &none,
                ..*snapshot
            };
            plan(&hasty, now)
        }),
        Mutant::new(
            "a DaemonSet that goes still makes pods",
            "k/k DaemonSet: TestDontDoAnythingIfBeingDeleted",
            &["S11"],
            vec![calm("daemon: its pods go, and it with them")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut set = snapshot.set.clone();
            set.meta.deleting = false;
            plan(
                &Snapshot {
                    set: &set,
                    ..*snapshot
                },
                now,
            )
        }),
        Mutant::new(
            "a released pod is deleted instead",
            "k/k DaemonSet: TestDealsWithExistingPods",
            &["S9"],
            vec![calm("daemon: a pod that is not selected is released")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            for action in actions(&mut plan) {
                if let Action::DisownPod { name, uid } = action {
                    *action = Action::DeletePod {
                        name: name.clone(),
                        uid: *uid,
                        rv: None,
                        node: String::new(),
                        why: Why::NotWanted,
                    };
                }
            }
            plan
        }),
    ]
}

fn nodes() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a NoSchedule taint drives pods away",
            "k/k DaemonSet: TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod",
            &["S9"],
            vec![calm("daemon: a node that takes no more pods keeps its own")],
        )
        .speaks(without_reading_nodes())
        .plans::<DaemonSets>(|snapshot, now| {
            of_nodes(snapshot, now, |node| {
                let taints = node.taints.iter().cloned();
                let worse = taints.map(|taint| Taint {
                    effect: Effect::NoExecute,
                    ..taint
                });
                node.taints = worse.collect();
            })
        }),
        Mutant::new(
            "a NoExecute taint drives no pod away",
            "k/k DaemonSet: TestNoExecuteTaintedDoesEvicitRunningIntolerantPod",
            &["L1", "L7"],
            vec![calm("native daemon: a node is tainted")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_nodes(snapshot, now, |node| node.taints = Arc::default())
        }),
        Mutant::new(
            "the node is not read before its pod goes",
            "k/k DaemonSet: podsShouldBeOnNode judges by its cache of nodes",
            &["S9"],
            [TAINTED, TAINTED_HOOK]
                .into_iter()
                .flat_map(|scenario| (20..=40).map(move |revision| (scenario, revision)))
                .flat_map(|(scenario, revision)| {
                    (9..=12).map(move |write| stale(scenario, write, revision))
                })
                .collect(),
        )
        .speaks(without_reading_nodes()),
        Mutant::new(
            "a sick node uses up the budget of an update",
            "k/k#63465, #73011, #77203, #95457",
            &["L1"],
            vec![calm("daemon: an update while a node is silent")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_nodes(snapshot, now, |node| node.not_ready_since = None)
        }),
        Mutant::new(
            "a cordoned node loses its pod",
            "k/k DaemonSet before 1.12: unschedulable nodes",
            &["S9"],
            vec![calm("daemon: a node is cordoned and keeps its pod")],
        )
        .speaks(without_reading_nodes())
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            let cordoned = |pod: &&DaemonPod| {
                let row = pod
                    .node
                    .as_deref()
                    .and_then(|node| snapshot.nodes.get(node));
                row.is_some_and(|row| row.unschedulable) && pod.deletion.is_none()
            };
            let pods = snapshot.pods.iter().filter(|(_, pod)| cordoned(pod));
            let stopped = pods.map(|(name, pod)| Action::DeletePod {
                name: name.to_string(),
                uid: pod.uid,
                rv: None,
                node: pod.node.as_deref().unwrap_or_default().to_owned(),
                why: Why::NotWanted,
            });
            plan.steps.push(Step::wanted(stopped.collect()));
            plan
        }),
    ]
}

/// Who reads a node before its pod goes is told that there is none.
fn without_reading_nodes() -> Wire {
    Wire {
        asks: Some(|path| {
            if path.starts_with("/api/v1/nodes/") {
                path.push_str("-not-read");
            }
        }),
        ..Wire::default()
    }
}

fn budgets() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "one node too many is taken down",
            "kruise#1012 class: maxUnavailable is overshot",
            &["S3"],
            vec![calm(UPDATE)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_spec(snapshot, now, |spec| {
                if let Update::Rolling {
                    max_unavailable, ..
                } = &mut spec.update
                {
                    *max_unavailable = Quota::Count(2);
                }
            })
        }),
        Mutant::new(
            "what an update has taken down is not counted",
            "kruise#1323, k/k#123232: several bad revisions in a row",
            &["S3"],
            vec![calm(
                "daemon: an update of one node, and then of the others",
            )],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_pods(snapshot, now, |pods| {
                for pod in pods.values_mut() {
                    // As if each pod that was told to be ready were so.
                    pod.ready = pod.ready.or(Some(pod.created));
                    pod.deletion = None;
                }
            })
        }),
        Mutant::new(
            "pods count as available as soon as they are ready",
            "k/k#123232 class: minReadySeconds is not waited for",
            &["S3"],
            vec![calm(
                "daemon: an update whose pods have to be ready for a while",
            )],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_spec(snapshot, now, |spec| spec.min_ready_seconds = 0)
        }),
        Mutant::new(
            "all nodes surge at once",
            "KEP-1591: maxSurge",
            &["S3"],
            vec![calm(SURGE), calm(NATIVE_SURGE)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_spec(snapshot, now, |spec| {
                if let Update::Rolling { max_surge, .. } = &mut spec.update {
                    *max_surge = Quota::Percent(100);
                }
            })
        }),
        Mutant::new(
            "with a surge the old pod does not wait for the new one",
            "KEP-1591: an old pod goes when the new one is available",
            &["S3"],
            vec![calm(SURGE)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let many = |pod: &DaemonPod| {
                let others = snapshot
                    .pods
                    .values()
                    .filter(|other| other.node == pod.node);
                others.count() > 1
            };
            of_pods(snapshot, now, |pods| {
                for pod in pods.values_mut().filter(|pod| many(pod)) {
                    pod.ready = pod.ready.or(Some(pod.created));
                }
            })
        }),
    ]
}

fn updates() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "an update goes on while it is paused",
            "kruise DaemonSet: paused is looked at when an update begins only",
            &["S9"],
            vec![calm("daemon: an update that is paused half way")],
        )
        .plans::<DaemonSets>(|snapshot, now| of_spec(snapshot, now, |spec| spec.paused = false)),
        Mutant::new(
            "an update does not know its partition",
            "kruise DaemonSet: partition of status.desiredNumberScheduled, which is 0 at first",
            &["S9"],
            vec![calm(
                "daemon: an update of one node, and then of the others",
            )],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_spec(snapshot, now, |spec| spec.partition = Quota::Count(0))
        }),
        Mutant::new(
            "OnDelete replaces pods, too",
            "k/k DaemonSet: updateStrategy OnDelete",
            &["S9"],
            vec![calm("daemon: an update by request")],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            of_spec(snapshot, now, |spec| spec.update = Update::default())
        }),
    ]
}

fn hooks() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a pod is deleted whatever hook it carries",
            "kruise DaemonSet: lifecycle.preDelete, syncWithPreparingDelete",
            &["S9"],
            vec![calm(HOOK)],
        )
        .plans::<DaemonSets>(|snapshot, now| of_spec(snapshot, now, |spec| spec.pre_delete = None)),
        Mutant::new(
            "a pod that was told that it goes counts as available",
            "kruise DaemonSet: isPodPreDeleting counts as unavailable",
            &["S3"],
            vec![calm(HOOK)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let told = snapshot.pods.values().filter(|pod| pod.told.is_some());
            let told = u32::try_from(told.count()).unwrap_or(0);
            of_spec(snapshot, now, |spec| {
                if let Update::Rolling {
                    max_unavailable, ..
                } = &mut spec.update
                {
                    *max_unavailable = Quota::Count(1 + told);
                }
            })
        }),
        Mutant::new(
            "a pod is told again and again that it goes",
            "kruise DaemonSet: UpdatePodLifecycle leaves a pod alone that is in the state",
            &["S12"],
            vec![calm(HOOK)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            let told = snapshot.pods.iter();
            let told = told.filter(|(_, pod)| pod.told.is_some() && pod.deletion.is_none());
            let again = told.map(|(name, pod)| Action::PreparePod {
                name: name.to_string(),
                uid: pod.uid,
                rv: pod.rv,
                node: pod.node.as_deref().unwrap_or_default().to_owned(),
                why: Why::Outdated,
                at: now,
            });
            plan.steps.push(Step::wanted(again.collect()));
            plan
        }),
        Mutant::new(
            "a pod that is to stay after all is not told so",
            "kruise DaemonSet: a pod that was told that it goes is deleted whatever is decided since",
            &["L1"],
            vec![calm(HOOK_BACK)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            for step in &mut plan.steps {
                let keeps = |action: &Action| matches!(action, Action::KeepPod { .. });
                step.actions.retain(|action| !keeps(action));
            }
            plan.steps.retain(|step| !step.actions.is_empty());
            plan
        }),
        Mutant::new(
            "nodes surge while old pods wait for their hook",
            "KEP-1591: maxSurge, with kruise's lifecycle.preDelete",
            &["S3"],
            vec![calm(HOOK_SURGE)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let told = snapshot.pods.values().filter(|pod| pod.told.is_some());
            let told = u32::try_from(told.count()).unwrap_or(0);
            of_spec(snapshot, now, |spec| {
                if let Update::Rolling { max_surge, .. } = &mut spec.update {
                    *max_surge = Quota::Count(1 + told);
                }
            })
        }),
    ]
}

fn history() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "all pods get the hash of the revision that stays",
            "k/k#111280: and outdated ones are never updated",
            &["S16"],
            vec![calm(COPIED)],
        )
        .plans::<DaemonSets>(relabels_all),
        Mutant::new(
            "revisions beyond the limit go while pods need them",
            "k/k DaemonSet: cleanupHistory looks at what is live",
            &["S5"],
            vec![calm(WITHOUT_HISTORY)],
        )
        .plans::<DaemonSets>(forgets_used_revisions),
        Mutant::new(
            "a revision is deleted whatever has become of it",
            "k/k DaemonSet: cleanupHistory deletes by name",
            &["S5"],
            (13..=17)
                .map(|write| stopped(WITHOUT_HISTORY, write))
                .collect(),
        )
        .speaks(rewrites(|message| {
            let path = ["preconditions", "resourceVersion"];
            without(message, "DELETE", "controllerrevisions", &path);
        })),
        Mutant::new(
            "the revision of a template that comes back stays old",
            "k/k DaemonSet: rollback, the same object with a higher number",
            &["L1", "S9"],
            vec![calm(BACK)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            for step in &mut plan.steps {
                let renumbers = |action: &Action| matches!(action, Action::RenumberRevision { .. });
                step.actions.retain(|action| !renumbers(action));
            }
            plan.steps.retain(|step| !step.actions.is_empty());
            plan
        }),
        Mutant::new(
            "pods come before the revision that they are made from",
            "k/k DaemonSet: constructHistory is first",
            &["S16"],
            vec![calm(THREE)],
        )
        .plans::<DaemonSets>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            let stores = |action: &Action| matches!(action, Action::CreateRevision(_));
            plan.steps
                .sort_by_key(|step| step.actions.iter().any(stores));
            plan
        }),
    ]
}

fn wires() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "the status of a DaemonSet is written over whatever is there",
            "Sieve: updates without resourceVersion",
            &["S11"],
            vec![calm(THREE)],
        )
        .speaks(rewrites(|message| {
            without(message, "PATCH", "status", &["metadata", "resourceVersion"]);
        })),
        Mutant::new(
            "pods of a DaemonSet are deleted by name",
            "Sieve: stale deletes, without uid",
            &["S11"],
            vec![calm(UPDATE)],
        )
        .speaks(rewrites(|message| {
            without(message, "DELETE", "pods", &["preconditions", "uid"]);
        })),
        Mutant::new(
            "the scheduler places pods of a DaemonSet where it likes",
            "k/k DaemonSet: ScheduleDaemonSetPods, the term for metadata.name",
            &["S16", "L1"],
            vec![calm(THREE)],
        )
        .speaks(rewrites(|message| {
            without(message, "POST", "pods", &["spec", "affinity"]);
        })),
        Mutant::new(
            "that a pod of a DaemonSet is gone is not noticed",
            "k/k#54096 class: a watch loses an event",
            &["L1", "L7"],
            vec![calm("daemon: a pod that somebody deletes comes again")],
        )
        .speaks(Wire {
            overlooks: Some(|event| event.kind == "DELETED" && &*event.key.resource == "pods"),
            ..Wire::default()
        }),
    ]
}

fn rewrites(rewrites: fn(&mut Message)) -> Wire {
    Wire {
        rewrites: Some(rewrites),
        ..Wire::default()
    }
}

fn actions(plan: &mut Plan) -> impl Iterator<Item = &mut Action> {
    plan.steps.iter_mut().flat_map(|step| &mut step.actions)
}

fn renamed(mut plan: Plan, name: impl Fn(&str) -> String) -> Plan {
    for action in actions(&mut plan) {
        if let Action::CreatePod(pod) = action {
            pod.name = name(&pod.name);
        }
    }
    plan
}

/// The plan for a DaemonSet that says something else.
fn of_spec(snapshot: &Snapshot<'_>, now: Timestamp, change: impl FnOnce(&mut Spec)) -> Plan {
    let mut set = snapshot.set.clone();
    change(Arc::make_mut(&mut set.spec));
    plan(
        &Snapshot {
            set: &set,
            ..*snapshot
        },
        now,
    )
}

/// The plan for other pods.
fn of_pods(snapshot: &Snapshot<'_>, now: Timestamp, change: impl FnOnce(&mut DaemonPods)) -> Plan {
    let mut pods = snapshot.pods.clone();
    change(&mut pods);
    plan(
        &Snapshot {
            pods: &pods,
            ..*snapshot
        },
        now,
    )
}

/// The plan for other nodes.
fn of_nodes(snapshot: &Snapshot<'_>, now: Timestamp, change: impl Fn(&mut NodeRow)) -> Plan {
    let mut nodes: Nodes = snapshot.nodes.clone();
    nodes.values_mut().for_each(change);
    plan(
        &Snapshot {
            nodes: &nodes,
            ..*snapshot
        },
        now,
    )
}

fn relabels_all(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let stays = actions(&mut plan).find_map(|action| match action {
        Action::RelabelPod { hash, .. } => Some(hash.clone()),
        _ => None,
    });
    let Some(stays) = stays else { return plan };
    let others = snapshot.pods.iter();
    let others = others.filter(|(_, pod)| pod.revision() != Some(&*stays));
    let relabelled = others.map(|(name, pod)| Action::RelabelPod {
        name: name.to_string(),
        uid: pod.uid,
        hash: stays.clone(),
    });
    plan.steps.insert(0, Step::wanted(relabelled.collect()));
    plan
}

fn forgets_used_revisions(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let newest = snapshot.revisions.values().map(|revision| revision.number);
    let newest = newest.max();
    let old = snapshot.revisions.iter();
    let old = old.filter(|(_, revision)| Some(revision.number) != newest && !revision.deleting);
    let deleted = old.map(|(name, revision)| Action::DeleteRevision {
        name: name.to_string(),
        uid: revision.uid,
        rv: revision.rv,
    });
    plan.steps.push(Step::wanted(deleted.collect()));
    plan
}
