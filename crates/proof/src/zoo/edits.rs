//! What live edits have led to: wrong decisions of Carillon itself, found by a review. Most of them show in
//! random schedules, with a user who edits what is served or a kubelet that refuses pods.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use carillon_operator::kinds::cron_job::CronJobs;
use std::collections::{HashMap, HashSet};

use carillon_api::condition::{reasons, results, types};
use carillon_api::policy::PodFailurePolicyAction;
use carillon_api::{FailurePolicyType, NodeState};
use carillon_plan::broadcast_job::action::{Action, Plan};
use carillon_plan::broadcast_job::{Snapshot, plan};
use carillon_plan::condition;
use carillon_plan::max_failed_nodes::MaxFailedNodes;
use carillon_plan::parallelism::Parallelism;
use carillon_plan::record::Record;
use carillon_plan::uid::Uid;
use jiff::Timestamp;

use super::cases::calm;
use super::mutant::Mutant;
use super::run_sight::of_cron;
use super::sight::{actions, of_job, of_pods, of_records};
use crate::case::Case;
use crate::kinds::{ProvedKind, broadcast_job, cron_job};

pub(super) fn mutants() -> Vec<Mutant> {
    [attempts(), places(), failures(), times()].concat()
}

/// The random schedules of these seeds.
fn seeds(kind: &ProvedKind, seeds: &[u64]) -> Vec<Case> {
    let seeds = seeds.iter();
    seeds.map(|seed| kind.case_without_lags(*seed)).collect()
}

fn jobs(seeds: &[u64]) -> Vec<Case> {
    self::seeds(&broadcast_job::KIND, seeds)
}

fn attempts() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "an attempt in which nothing ran decides for its node",
            "Carillon, issue 23, A.1",
            &["S2", "L1", "L4"],
            jobs(&[219, 845]),
        )
        .plans::<BroadcastJobs>(last_attempt_decides),
        Mutant::new(
            "a pod that no record names is released before it has ended",
            "Carillon, issue 23, A.2",
            &["S5"],
            vec![calm(
                "a copy of a pod hangs on a node that is not served as the job ends",
            )],
        )
        .plans::<BroadcastJobs>(lets_go_of_strays),
        Mutant::new(
            "a pod that its kubelet has refused has failed",
            "Carillon, issue 23, A.7",
            &["S4"],
            jobs(&[4, 6]),
        )
        .plans::<BroadcastJobs>(refused_is_failed),
        Mutant::new(
            "a node that is deleted with attempts left has failed",
            "Carillon, issue 23, A.9",
            &["S4", "L1"],
            jobs(&[16, 78]),
        )
        .plans::<BroadcastJobs>(gone_is_failed),
    ]
}

fn places() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "what is promised is created whatever parallelism says now",
            "Carillon, issue 23, A.4",
            &["S3"],
            vec![calm("parallelism is lowered while a quota is full")],
        )
        .plans::<BroadcastJobs>(promises_need_no_place),
        Mutant::new(
            "a percentage is of all nodes that were ever served",
            "Carillon, issue 23, A.5",
            &["S3"],
            jobs(&[74]),
        )
        .plans::<BroadcastJobs>(percent_of_all_ever),
        Mutant::new(
            "what the pod as a whole asks for is not looked at",
            "Carillon, issue 23, A.10",
            &["S12"],
            vec![calm("a pod as a whole asks for more than any node has")],
        )
        .plans::<BroadcastJobs>(|snapshot, now| {
            of_job(snapshot, now, |job| job.placement.requests.clear())
        }),
    ]
}

fn failures() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a failure that was accepted counts as accepted when its node has succeeded",
            "Carillon, issue 23, A.3",
            &["S4", "L1"],
            vec![calm(
                "a failure that was accepted is made good and the next one pauses the job",
            )],
        )
        .plans::<BroadcastJobs>(accepts_for_ever),
        Mutant::new(
            "a job that has ended is paused",
            "Carillon, issue 23, A.6",
            &["L1"],
            vec![calm(
                "the deadline passes while a pod hangs that Pause would let pass",
            )],
        )
        .plans::<BroadcastJobs>(ends_paused),
        Mutant::new(
            "a resume accepts failures that nobody has seen",
            "Carillon, issue 23, A.11",
            &["S4"],
            jobs(&[13, 8]),
        )
        .plans::<BroadcastJobs>(accepts_unseen),
        Mutant::new(
            "a rule that counts an interruption has no effect",
            "Carillon, issue 23, A.12",
            &["S4"],
            vec![calm("a rule counts an eviction as a failure")],
        )
        .plans::<BroadcastJobs>(counts_by_no_rule),
    ]
}

fn times() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "an edit of the schedule has a past",
            "Carillon, issue 23, A.13; batch/v1 CronJob: what is missed is judged by the new schedule since the last run",
            &["S7", "L4"],
            seeds(&cron_job::KIND, &[1, 5]),
        )
        .plans::<CronJobs>(|snapshot, now| {
            of_cron(snapshot, now, |cron| {
                cron.status.schedule_in_force = None;
                cron.meta.generation = 1;
            })
        }),
    ]
}

type Node<'a> = (&'a str, Uid);

fn node_of(record: &Record) -> Node<'_> {
    (&record.node, record.node_uid)
}

fn all_records<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = &'a Record> + use<'a> {
    snapshot.slices.iter().flat_map(|slice| &slice.records)
}

/// As if the attempts had been others, and what is stored of them stays as it is.
fn as_if(snapshot: &Snapshot<'_>, now: Timestamp, change: impl FnMut(&mut Record)) -> Plan {
    let mut plan = of_records(snapshot, now, change);
    for action in actions(&mut plan) {
        if let Action::WriteSlice(write) = action
            && let Some(slice) = snapshot.slices.get(write.index as usize)
        {
            write.kept = slice.records.clone();
        }
    }
    plan
}

fn last_attempt_decides(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut last: HashMap<Node<'_>, &Record> = HashMap::new();
    for record in all_records(snapshot) {
        let known = last.entry(node_of(record)).or_insert(record);
        if known.attempt < record.attempt {
            *known = record;
        }
    }
    let withdrawn = |record: &Record| *record.reason == *results::WITHDRAWN;
    let last = last.into_iter().filter(|(_, record)| withdrawn(record));
    let hidden: HashSet<(String, Uid)> = last
        .map(|((node, uid), _)| (node.to_owned(), uid))
        .collect();
    as_if(snapshot, now, |record| {
        let node = (record.node.to_string(), record.node_uid);
        if record.is_final() && hidden.contains(&node) {
            record.state = NodeState::Disrupted;
            record.reason = results::WITHDRAWN.into();
        }
    })
}

fn lets_go_of_strays(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let named = all_records(snapshot).filter_map(|record| record.pod_uid);
    let named: HashSet<Uid> = named.collect();
    let open = all_records(snapshot).filter(|record| !record.is_final());
    let open: HashSet<&str> = open.map(|record| &*record.pod).collect();
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        if let Action::DeletePod { pod, uid, .. } = action
            && !named.contains(uid)
            && !open.contains(&**pod)
        {
            let (pod, uid) = (pod.clone(), *uid);
            *action = Action::ReleasePod { pod, uid };
        }
    }
    plan
}

fn refused_is_failed(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_pods(snapshot, now, |_, pod| {
        if pod.was_rejected()
            && let Some(end) = &mut pod.end
        {
            end.silent = false;
        }
    })
}

fn gone_is_failed(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let nodes = snapshot.nodes;
    as_if(snapshot, now, |record| {
        let machine = nodes.get(&record.node).map(|node| node.uid);
        if record.state == NodeState::Failed && machine != Some(record.node_uid) {
            record.reason = results::FAILED_BY_RULE.into();
        }
    })
}

fn promises_need_no_place(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let open = all_records(snapshot).filter(|record| !record.is_final());
    let open = open.count() as u32;
    of_job(snapshot, now, |job| {
        if let Parallelism::Count(count) = &mut job.parallelism {
            *count = (*count).max(open);
        }
    })
}

fn percent_of_all_ever(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut ever: HashSet<Node<'_>> = all_records(snapshot).map(node_of).collect();
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|(_, node)| !node.unschedulable);
    ever.extend(nodes.map(|(name, node)| (&**name, node.uid)));
    of_job(snapshot, now, |job| {
        if let Parallelism::Percent(_) = job.parallelism {
            job.parallelism = Parallelism::Count(job.parallelism.of(ever.len()) as u32);
        }
    })
}

fn accepts_for_ever(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let accepted = all_records(snapshot).filter(|record| record.accepted);
    let (accepted, known) = (
        accepted.count() as i32,
        snapshot.job.status.acknowledged_failed_nodes,
    );
    let mut plan = of_job(snapshot, now, |job| {
        if let MaxFailedNodes::Count(count) = &mut job.policies.max_failed_nodes {
            *count = (*count).max(accepted as u32);
        }
    });
    for action in actions(&mut plan) {
        if let Action::WriteStatus(status) = action {
            status.acknowledged_failed_nodes = status.acknowledged_failed_nodes.max(known);
        }
    }
    plan
}

fn ends_paused(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        let Action::WriteStatus(status) = action else {
            continue;
        };
        let fails = condition::is_true(&status.conditions, types::FAILURE_TARGET);
        if fails && status.failed > 0 && job.failure == FailurePolicyType::Pause {
            let (type_, reason) = (types::PAUSED, reasons::PAUSED_BY_FAILURE);
            let conditions = &mut status.conditions;
            condition::set(
                conditions,
                type_,
                true,
                reason,
                "",
                job.meta.generation,
                now,
            );
        }
    }
    plan
}

fn accepts_unseen(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_job(snapshot, now, |job| {
        if job.resume != job.status.last_handled_resume {
            job.status.failed = i32::MAX;
        }
    })
}

fn counts_by_no_rule(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_job(snapshot, now, |job| {
        let rules = &mut job.policies.failure_rules;
        rules.retain(|rule| rule.action != PodFailurePolicyAction::Count);
    })
}
