//! Bugs of CronJobs: a tick that is run twice, beside another, too late or not at all.

use carillon_operator::kinds::cron_job::CronJobs;
use carillon_plan::cron_job::action::{Action, Plan, Step, Why};
use carillon_plan::cron_job::{Snapshot, plan};
use jiff::Timestamp;
use serde_json::json;

use super::cases::{calm, under};
use super::mutant::Mutant;
use super::run_sight::{first, of_children, of_cron, without};
use crate::blow::{Blow, Point};
use crate::disturbance::{AtWrite, Disturbance};
use crate::wire::{Message, Wire};

const FORBID: &str = "with Forbid each run waits for the one before";
const REPLACE: &str = "with Replace each run stops the one before";
const AT_ONCE: &str = "jobs end at once and live no longer";
const NONE_KEPT: &str = "no job that has succeeded is kept";

pub(super) fn mutants() -> Vec<Mutant> {
    [names_and_promises(), policies(), records(), wires()].concat()
}

fn names_and_promises() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "a run is created before it is promised",
            "batch/v1 CronJob: lastScheduleTime is written after the Job is created",
            &["S7"],
            vec![calm("each tick starts a job")],
        )
        .plans::<CronJobs>(|snapshot, now| {
            let creates = |action: &Action| matches!(action, Action::CreateChild(_));
            first(plan(snapshot, now), creates)
        }),
        Mutant::new(
            "runs have random names",
            "kruise D7 class; batch/v1 CronJob: the name is the lock",
            &["S7"],
            vec![calm("each tick starts a job")],
        )
        .plans::<CronJobs>(random_names),
        Mutant::new(
            "a run that was asked for is not remembered",
            "kruise ACJ1 class: known only from what is left of it",
            &["S7"],
            vec![calm("its user asks again for a run that there was")],
        )
        .plans::<CronJobs>(|snapshot, now| {
            of_cron(snapshot, now, |cron| cron.status.handled_run_now.clear())
        }),
    ]
}

fn policies() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "Forbid looks at the jobs in the cache",
            "kruise AdvancedCronJob: active is rebuilt from a list of children",
            &["S8"],
            vec![calm(FORBID)],
        )
        .plans::<CronJobs>(active_is_what_is_cached)
        // The gate waits for own writes: that they were made has to be told, and what was written lost.
        .speaks(Wire {
            overlooks: Some(|event| &*event.key.resource == "jobs.batch"),
            ..Wire::default()
        }),
        Mutant::new(
            "Replace starts the next run before it stops the one before",
            "batch/v1 CronJob: the order of its twelfth step",
            &["S8"],
            vec![calm(REPLACE)],
        )
        .plans::<CronJobs>(replaces_afterwards),
        Mutant::new(
            "a suspended CronJob goes on",
            "batch/v1 CronJob, its test: never ran, is time, suspended",
            &["S8", "L4"],
            vec![calm("it is suspended over ticks which are then left out")],
        )
        .plans::<CronJobs>(|snapshot, now| of_cron(snapshot, now, |cron| cron.suspended = false)),
        Mutant::new(
            "a tick is made up for after its deadline",
            "batch/v1 CronJob, its test: never ran, is time, past deadline",
            &["S8"],
            vec![calm(
                "the operator is down until the deadline of a tick has passed",
            )],
        )
        .plans::<CronJobs>(|snapshot, now| of_cron(snapshot, now, |cron| cron.deadline = None)),
    ]
}

fn records() -> Vec<Mutant> {
    vec![
        Mutant::new(
            "lastScheduleTime is that of the jobs that are left",
            "kruise AdvancedCronJob (ACJ1)",
            &["S7", "S8"],
            vec![calm(NONE_KEPT)],
        )
        .plans::<CronJobs>(last_of_those_left),
        Mutant::new(
            "runs are released before they are recorded",
            "KEP-2307 class: the finalizer goes before its reason is stored",
            &["S5"],
            vec![calm("each tick starts a job")],
        )
        .plans::<CronJobs>(lets_go_at_once),
        Mutant::new(
            "what has ended is removed before it is recorded",
            "batch/v1 CronJob: history is cleaned up first",
            &["S5"],
            vec![calm(AT_ONCE)],
        )
        .plans::<CronJobs>(removes_at_once),
        Mutant::new(
            "lastScheduleTime is when the run was started",
            "batch/v1beta1 CronJob: now instead of the scheduled time",
            &["S8"],
            vec![calm("runs come a little later than scheduled")],
        )
        .plans::<CronJobs>(notes_when_it_looked),
        Mutant::new(
            "missed runs are not counted",
            "batch/v1 CronJob: what was missed is lost silently",
            &["L1", "L4"],
            vec![calm(
                "the operator is down over two ticks and the last of them is run",
            )],
        )
        .plans::<CronJobs>(counts_nothing),
        Mutant::new(
            "a run that vanished is active for ever",
            "batch/v1 CronJob, its test: this started but went missing",
            &["L1", "L7"],
            vec![calm("a user deletes a job while it runs")],
        )
        .plans::<CronJobs>(|snapshot, now| {
            without(plan(snapshot, now), |action| {
                matches!(action, Action::ConfirmGone { .. })
            })
        }),
        Mutant::new(
            "nobody waits for the next tick",
            "kruise D12 class: a timer that is set once",
            &["L1", "L7"],
            vec![calm("each tick starts a job")],
        )
        .plans::<CronJobs>(|snapshot, now| Plan {
            wake: None,
            ..plan(snapshot, now)
        }),
        Mutant::new(
            "a run is released by the plan that records it, or never",
            "Sieve: cassandra-operator#398",
            &["L1", "L7"],
            vec![under(
                "each tick starts a job",
                Disturbance {
                    at: vec![AtWrite {
                        write: 4,
                        blow: Blow::Kill(Point::AfterReply),
                    }],
                    ..Disturbance::none(1)
                },
            )],
        )
        .plans::<CronJobs>(lets_go_of_active_ones),
    ]
}

fn wires() -> Vec<Mutant> {
    let rewrites = |rewrites: fn(&mut Message)| Wire {
        rewrites: Some(rewrites),
        ..Wire::default()
    };
    vec![
        Mutant::new(
            "runs are not held",
            "batch/v1 CronJob: a Job that its TTL or a user has deleted is started again",
            &["S7"],
            vec![calm(AT_ONCE)],
        )
        .speaks(rewrites(|message| {
            let metadata = message.body["metadata"].as_object_mut();
            if let Some(metadata) = metadata.filter(|_| message.method == "POST") {
                metadata.remove("finalizers");
            }
        })),
        Mutant::new(
            "the status of a CronJob is written over whatever is there",
            "Sieve: updates without resourceVersion",
            &["S11"],
            vec![calm("each tick starts a job")],
        )
        .speaks(rewrites(|message| {
            super::wires::without(message, "PATCH", "status", &["metadata", "resourceVersion"]);
        })),
        Mutant::new(
            "runs are deleted by name",
            "Sieve: stale deletes, without uid",
            &["S11"],
            vec![calm(NONE_KEPT)],
        )
        .speaks(rewrites(|message| {
            super::wires::without(message, "DELETE", "jobs", &["preconditions", "uid"]);
        })),
    ]
}

fn actions(plan: &mut Plan) -> impl Iterator<Item = &mut Action> {
    plan.steps.iter_mut().flat_map(|step| &mut step.actions)
}

fn random_names(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let suffix = format!("-{:04x}", fastrand::u16(..));
    for action in actions(&mut plan) {
        match action {
            Action::CreateChild(run) => run.name.push_str(&suffix),
            Action::WriteStatus(status) => {
                let promises = status.active.iter_mut().filter(|run| run.uid.is_none());
                promises.for_each(|run| run.name.push_str(&suffix));
            }
            _ => {}
        }
    }
    plan
}

fn active_is_what_is_cached(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_cron(snapshot, now, |cron| {
        cron.status.active.retain(|run| {
            let mut children = snapshot.children.keys();
            children.any(|(_, name)| **name == *run.name)
        });
    })
}

fn replaces_afterwards(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let replaces = |step: &Step| {
        let mut actions = step.actions.iter();
        actions.any(|action| {
            matches!(
                action,
                Action::DeleteChild {
                    why: Why::Replaced,
                    ..
                }
            )
        })
    };
    plan.steps.sort_by_key(replaces);
    plan
}

fn last_of_those_left(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let last = snapshot
        .children
        .values()
        .filter_map(|child| child.scheduled);
    let last = last.max().map(|last| json!(last.to_string()));
    let last = last.and_then(|last| serde_json::from_value(last).ok());
    of_cron(snapshot, now, |cron| cron.status.last_schedule_time = last)
}

fn lets_go_at_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let held = snapshot.children.iter().filter(|(_, child)| child.held);
    let release = held.map(|((kind, name), child)| Action::ReleaseChild {
        kind: *kind,
        name: name.to_string(),
        uid: child.uid,
    });
    let release: Vec<Action> = release.collect();
    if !release.is_empty() {
        plan.steps.insert(0, Step::wanted(release));
    }
    plan
}

fn removes_at_once(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    for ((kind, name), child) in snapshot.children {
        if child.ended.is_none() || !child.held {
            continue;
        }
        let (kind, name, uid) = (*kind, name.to_string(), child.uid);
        let delete = Action::DeleteChild {
            kind,
            name: name.clone(),
            uid,
            rv: child.rv,
            why: Why::History,
        };
        let release = Action::ReleaseChild { kind, name, uid };
        plan.steps.insert(0, Step::wanted(vec![release]));
        if !child.deleting {
            plan.steps.insert(0, Step::wanted(vec![delete]));
        }
    }
    plan
}

fn notes_when_it_looked(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    of_children(snapshot, now, |child| {
        child.scheduled = Timestamp::from_second(now.as_second()).ok();
    })
}

fn counts_nothing(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let known = &snapshot.cron.status;
    for action in actions(&mut plan) {
        if let Action::WriteStatus(status) = action {
            status.missed_runs = known.missed_runs;
        }
    }
    plan
}

fn lets_go_of_active_ones(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let mut plan = plan(snapshot, now);
    let active = &snapshot.cron.status.active;
    for step in &mut plan.steps {
        step.actions.retain(|action| match action {
            Action::ReleaseChild { name, .. } => {
                let mut children = snapshot.children.iter();
                let ended =
                    children.any(|((_, of), child)| **of == **name && child.ended.is_some());
                active.iter().any(|run| run.name == *name) && !ended
            }
            _ => true,
        });
    }
    plan.steps.retain(|step| !step.actions.is_empty());
    plan
}
