//! Bugs of Jobs: a pod that is counted twice or not at all, beside others or for nothing.

use carillon_operator::kinds::job::Jobs;
use carillon_plan::job::action::{Action, Plan, Step};
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::unanswered::Unanswered;
use carillon_plan::job::{Job, JobPod, JobPods, Limits, Snapshot, plan};
use jiff::Timestamp;
use serde_json::json;

use super::cases::{at, calm, not_told, stale, under};
use super::mutant::Mutant;
use crate::blow::{Blow, Point};
use crate::disturbance::Disturbance;
use crate::wire::{Message, Wire};

const FOUR: &str = "a job runs four pods, two at a time";
const NATIVE_FOUR: &str = "native: a job runs four pods, two at a time";
const FAILS: &str = "a job fails beyond its back-off limit";
const EACH_INDEX: &str = "each index succeeds";
const PER_INDEX: &str = "each index has failures of its own";
const SUCCEEDS_LATE: &str = "a pod of a work queue that counts as failed succeeds after all";
const HANGS: &str = "the deadline of a job passes while a pod hangs";

pub(super) fn mutants() -> Vec<Mutant> {
    [counting(), pods(), ends(), waits(), wires()].concat()
}

fn counting() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a pod of a Job is released before the status has it",
            "KEP-2307: the uid is stored before the finalizer goes",
            &["S5"],
            vec![calm(FOUR)],
        )
        .plans::<Jobs>(lets_go_first),
        Mutant::new(
            "a pod of a Job is counted while it is held",
            "k/k#130103 class: the counter moves before the finalizer is gone",
            &["S4"],
            vec![calm(FOUR)],
        )
        .plans::<Jobs>(counts_at_once),
        Mutant::new(
            "what was listed is forgotten with its pod",
            "k/k batch/v1 Job before 1.22: counts follow from the pods that are left",
            &["S4"],
            vec![calm(FOUR)],
        )
        .plans::<Jobs>(forgets_what_is_gone),
        Mutant::new(
            "a pod is listed as succeeded and as failed",
            "k/k#125410",
            &["S4", "S6", "422", "L1"],
            vec![calm(FOUR)],
        )
        .plans::<Jobs>(lists_twice),
        Mutant::new(
            "a pod that counts as failed completes its Job when it succeeds after all",
            "k/k batch/v1 Job: getNewFinishedPods looks for successes in the list of successes only",
            &["L1"],
            (3..=6)
                .map(|write| at(SUCCEEDS_LATE, write, Blow::Kill(Point::BeforeSend)))
                .collect(),
        )
        .plans::<Jobs>(completes_with_a_failure),
        Mutant::new(
            "a new leader decides from what it was told before it led",
            "k/k#59848 class: a cache that was filled once is taken to be current",
            &["S4"],
            (4..=12).map(|write| not_told(FOUR, "carillon/1.0", write)).collect(),
        )
        .speaks(Wire {
            remembers: Some(|call| call.resource() == "pods"),
            ..Wire::default()
        }),
        Mutant::new(
            "pods of a Job carry no finalizer",
            "k/k batch/v1 Job before 1.22: pods that go are not counted",
            &["S16", "S4"],
            vec![calm(FOUR)],
        )
        .speaks(rewrites(|message| {
            let metadata = message.body["metadata"].as_object_mut();
            if let Some(metadata) = metadata.filter(|_| creates_pod(&message.method, &message.path))
            {
                metadata.remove("finalizers");
            }
        })),
    ]
}

/// Ends as if what is listed as failed were not.
fn completes_with_a_failure(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let with_it = of_job(snapshot, now, |job| {
        if let Some(lists) = &mut job.status.uncounted_terminated_pods {
            lists.failed = None;
        }
    });
    let mut plan = plan(snapshot, now);
    let mut writes = with_it.steps.into_iter().flat_map(|step| step.actions);
    let ends = writes.find_map(|action| match action {
        Action::WriteStatus(write) => write.status.conditions,
        _ => None,
    });
    let Some(ends) = ends else {
        return plan;
    };
    for action in actions(&mut plan) {
        if let Action::WriteStatus(write) = action {
            write.status.conditions = Some(ends.clone());
        }
    }
    for step in &mut plan.steps {
        step.actions
            .retain(|action| !matches!(action, Action::CreatePod(_)));
    }
    plan
}

fn pods() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "one pod of a Job too many is created",
            "k/k#142142 class: creations are forgotten",
            &["S3"],
            vec![calm(FOUR)],
        )
        .plans::<Jobs>(|snapshot, now| of_job(snapshot, now, |job| job.spec.parallelism += 1)),
        Mutant::new(
            "an index that runs is started again",
            "k/k batch/v1 Job: duplicated indexes, found and removed later",
            &["S1"],
            vec![calm(EACH_INDEX)],
        )
        .plans::<Jobs>(starts_indexes_twice),
        Mutant::new(
            "pods of a Job have random names",
            "k/k batch/v1 Job: generateName, and expectations that a restart loses",
            &["S3", "S1"],
            // Where all pods are watched from the begin, the first list decides.
            vec![stale(NATIVE_FOUR, 2, 10)],
        )
        .plans::<Jobs>(random_names),
        Mutant::new(
            "names of pods follow from what is there",
            "kruise D7 class: the name of a pod that was counted is used again",
            &["S2", "L1"],
            vec![
                calm("a user deletes a pod that has succeeded and it counts"),
                calm(FOUR),
            ],
        )
        .plans::<Jobs>(names_by_number),
        Mutant::new(
            "a suspended Job goes on",
            "k/k batch/v1 Job: suspend is looked at when pods are created only",
            &["S3", "L1", "L4", "S9"],
            vec![calm("a job is suspended while it runs and goes on")],
        )
        .plans::<Jobs>(|snapshot, now| of_job(snapshot, now, |job| job.spec.suspend = false)),
        Mutant::new(
            "a pod is replaced while it is told to stop, whatever the policy",
            "KEP-3939: podReplacementPolicy Failed",
            &["S1", "S3"],
            vec![calm(
                "a pod that is told to stop is replaced when it has ended",
            )],
        )
        .plans::<Jobs>(|snapshot, now| {
            of_job(snapshot, now, |job| job.spec.replaces_only_failed = false)
        }),
    ]
}

fn ends() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a Job has ended before its pods",
            "KEP-3998: Failed and Complete come when all pods are terminated",
            &["S6"],
            vec![calm(HANGS)],
        )
        .plans::<Jobs>(ends_early),
        Mutant::new(
            "an ended Job keeps the finalizer of its pods",
            "k/k#109485 class: pods that nobody releases",
            &["L3", "L7"],
            vec![calm(EACH_INDEX)],
        )
        .plans::<Jobs>(keeps_the_last),
        Mutant::new(
            "the limit of failures is never reached",
            "k/k#27997: 84k pods",
            &["L1", "S12", "L7"],
            vec![calm(FAILS)],
        )
        .plans::<Jobs>(|snapshot, now| {
            of_job(snapshot, now, |job| job.spec.backoff_limit = i32::MAX)
        }),
        Mutant::new(
            "nobody waits for the deadline of a Job",
            "k/k batch/v1 Job: TestPastDeadlineJobFinished",
            &["L1", "L7"],
            vec![calm(HANGS)],
        )
        .plans::<Jobs>(|snapshot, now| Plan {
            wake: None,
            ..plan(snapshot, now)
        }),
        Mutant::new(
            "the time of a Job counts on while it is suspended",
            "k/k batch/v1 Job up to 1.35: startTime is kept",
            &["L1", "L7"],
            vec![calm(
                "the time of a deadline counts from when a job goes on",
            )],
        )
        .plans::<Jobs>(keeps_the_start),
        Mutant::new(
            "a Job that is over stops at its time to live, and not after it",
            "kruise D14 class: the time to live is judged too early",
            &["S9"],
            vec![calm("the time to live removes a job and its pods")],
        )
        .plans::<Jobs>(|snapshot, now| {
            of_job(snapshot, now, |job| {
                job.spec.ttl_seconds_after_finished =
                    job.spec.ttl_seconds_after_finished.map(|_| 0);
            })
        }),
    ]
}

fn waits() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "no wait before a failed pod of a Job is replaced",
            "k/k#27997 class: the back-off is reset",
            &["S12"],
            vec![calm("a pod fails twice and is replaced after a wait")],
        )
        .plans::<Jobs>(|snapshot, now| {
            let none = BackoffRecord::default();
            let limits = Limits {
                backoff: jiff::SignedDuration::ZERO,
                ..*snapshot.limits
            };
            let hasty = Snapshot {
                backoff: &none,
                limits: &limits,
                ..*snapshot
            };
            plan(&hasty, now)
        }),
        Mutant::new(
            "a pod that may still come to be keeps no place",
            "k/k batch/v1 Job: a creation without an answer is made again under another name",
            &["S1", "S2", "S3", "S12"],
            vec![under(
                "a job is suspended from the start and resumed elsewhere",
                Disturbance::unknown_creation(),
            )],
        )
        .plans::<Jobs>(|snapshot, now| {
            let none = Unanswered::new();
            let forgetful = Snapshot {
                unanswered: &none,
                ..*snapshot
            };
            plan(&forgetful, now)
        }),
        Mutant::new(
            "failures of an index are not carried on",
            "KEP-3850: the annotation that counts the failures of an index",
            &["L1", "S12", "L7"],
            vec![calm(PER_INDEX)],
        )
        .plans::<Jobs>(|snapshot, now| {
            let mut plan = plan(snapshot, now);
            for action in actions(&mut plan) {
                if let Action::CreatePod(pod) = action {
                    pod.failures = pod.failures.map(|_| 0);
                }
            }
            plan
        }),
    ]
}

fn wires() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "the status of a Job is written over whatever is there",
            "Sieve: updates without resourceVersion",
            &["S11"],
            vec![calm(FOUR)],
        )
        .speaks(rewrites(|message| {
            super::wires::without(message, "PATCH", "status", &["metadata", "resourceVersion"]);
        })),
        Mutant::new(
            "pods of a Job are deleted by name",
            "Sieve: stale deletes, without uid",
            &["S11"],
            vec![calm(HANGS)],
        )
        .speaks(rewrites(|message| {
            super::wires::without(message, "DELETE", "pods", &["preconditions", "uid"]);
        })),
    ]
}

fn rewrites(rewrites: fn(&mut Message)) -> Wire {
    Wire {
        rewrites: Some(rewrites),
        ..Wire::default()
    }
}

fn creates_pod(method: &http::Method, path: &str) -> bool {
    method == "POST" && path.contains("/pods")
}

fn actions(plan: &mut Plan) -> impl Iterator<Item = &mut Action> {
    plan.steps.iter_mut().flat_map(|step| &mut step.actions)
}

/// Plans for a Job that is not as it is.
fn of_job(snapshot: &Snapshot<'_>, now: Timestamp, change: impl FnOnce(&mut Job)) -> Plan {
    let mut job = snapshot.job.clone();
    change(&mut job);
    let other = Snapshot {
        job: &job,
        ..*snapshot
    };
    plan(&other, now)
}

/// Releases come first.
fn lets_go_first(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let releases = |step: &Step| {
        let mut actions = step.actions.iter();
        actions.any(|action| matches!(action, Action::ReleasePod { .. }))
    };
    plan.steps.sort_by_key(|step| !releases(step));
    plan
}

/// Uids move into the counters with the write that would have listed them.
fn counts_at_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        let Action::WriteStatus(write) = action else {
            continue;
        };
        let status = &mut write.status;
        let Some(uncounted) = status.uncounted_terminated_pods.take() else {
            continue;
        };
        for (uids, counter) in [
            (uncounted.succeeded, &mut status.succeeded),
            (uncounted.failed, &mut status.failed),
        ] {
            let many = uids.map_or(0, |uids| uids.len() as i32);
            *counter = Some(counter.unwrap_or(0) + many);
        }
    }
    plan
}

/// Uids of pods that are released are dropped, and not counted.
fn forgets_what_is_gone(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_job(snapshot, now, |job| {
        let held = snapshot.pods.values().filter(|pod| pod.tracked);
        let held: Vec<String> = held.map(|pod| pod.uid.to_string()).collect();
        if let Some(uncounted) = &mut job.status.uncounted_terminated_pods {
            let lists = [&mut uncounted.succeeded, &mut uncounted.failed];
            for uids in lists.into_iter().flatten() {
                uids.retain(|uid| held.contains(uid));
            }
        }
    })
}

fn lists_twice(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        if let Action::WriteStatus(write) = action
            && let Some(uncounted) = &mut write.status.uncounted_terminated_pods
        {
            uncounted.failed = uncounted.succeeded.clone();
        }
    }
    plan
}

/// Indexes that run are not seen as taken: pods of others are, which are one too many anyway.
fn starts_indexes_twice(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut pods: JobPods = snapshot.pods.clone();
    // It is the first that is not looked at.
    let first = pods.iter().find(|(_, pod)| pod.is_active());
    let first = first.map(|(name, _)| name.clone());
    if let Some(first) = first {
        pods.remove(&first);
    }
    let other = Snapshot {
        pods: &pods,
        ..*snapshot
    };
    let mut plan = plan(&other, now);
    for action in actions(&mut plan) {
        if let Action::CreatePod(pod) = action {
            pod.name = format!("{}-{:04x}", pod.name, fastrand::u16(..));
        }
    }
    plan
}

fn random_names(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        if let Action::CreatePod(pod) = action {
            pod.name = format!("job-{:05x}", fastrand::u32(..) >> 12);
        }
    }
    plan
}

fn names_by_number(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let mut number = 0;
    let active = |name: &str| snapshot.pods.get(name).is_some_and(JobPod::is_active);
    for action in actions(&mut plan) {
        if let Action::CreatePod(pod) = action {
            while active(&format!("job-{number}")) {
                number += 1;
            }
            pod.name = format!("job-{number}");
            number += 1;
        }
    }
    plan
}

/// As kube-controller-manager up to 1.35, which takes the start before a suspension for that of the Job.
fn keeps_the_start(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut job = snapshot.job.clone();
    job.spec.managed_by = None;
    let limits = Limits {
        strict_parity: true,
        ..*snapshot.limits
    };
    let theirs = Snapshot {
        job: &job,
        limits: &limits,
        ..*snapshot
    };
    let mut plan = plan(&theirs, now);
    for action in actions(&mut plan) {
        if let Action::WriteStatus(write) = action
            && snapshot.job.status.start_time.is_some()
        {
            let start = snapshot.job.status.start_time.clone();
            write.status.start_time = start;
        }
    }
    plan
}

/// The end is told with its reason.
fn ends_early(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for action in actions(&mut plan) {
        let Action::WriteStatus(write) = action else {
            continue;
        };
        let conditions = write.status.conditions.get_or_insert_default();
        let target = conditions
            .iter()
            .find(|c| c.type_ == "FailureTarget")
            .cloned();
        if let Some(mut end) = target.filter(|_| conditions.iter().all(|c| c.type_ != "Failed")) {
            "Failed".clone_into(&mut end.type_);
            conditions.push(end);
            let status = &mut write.status;
            (status.active, status.terminating) = (None, Some(0));
            status.uncounted_terminated_pods = serde_json::from_value(json!({})).ok();
        }
    }
    plan
}

/// Nothing is released by a plan for a Job that has begun to end, or after that.
fn keeps_the_last(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let met = |action: &mut Action| match action {
        Action::WriteStatus(write) => {
            let mut conditions = write.status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == "SuccessCriteriaMet")
        }
        _ => false,
    };
    let ends = snapshot.job.has("SuccessCriteriaMet") || actions(&mut plan).any(met);
    if ends {
        for step in &mut plan.steps {
            step.actions
                .retain(|action| !matches!(action, Action::ReleasePod { .. }));
        }
        plan.steps.retain(|step| !step.actions.is_empty());
    }
    plan
}
