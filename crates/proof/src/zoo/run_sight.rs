//! Plans for a CronJob made from something else than what is there.

use carillon_plan::cron_job::action::{Action, Plan, Step};
use carillon_plan::cron_job::{Child, Children, CronJob, Snapshot, plan};
use jiff::Timestamp;

/// The plan for another CronJob.
pub(super) fn of_cron(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    change: impl FnOnce(&mut CronJob),
) -> Plan {
    let mut cron = snapshot.cron.clone();
    change(&mut cron);
    plan(
        &Snapshot {
            cron: &cron,
            ..*snapshot
        },
        now,
    )
}

/// The plan for other children.
pub(super) fn of_children(
    snapshot: &Snapshot<'_>,
    now: Timestamp,
    change: impl Fn(&mut Child),
) -> Plan {
    let mut children: Children = snapshot.children.clone();
    children.values_mut().for_each(change);
    plan(
        &Snapshot {
            children: &children,
            ..*snapshot
        },
        now,
    )
}

/// Puts the steps that have such an action before all others.
pub(super) fn first(mut plan: Plan, which: fn(&Action) -> bool) -> Plan {
    plan.steps
        .sort_by_key(|step: &Step| !step.actions.iter().any(which));
    plan
}

/// The plan without these actions.
pub(super) fn without(mut plan: Plan, which: fn(&Action) -> bool) -> Plan {
    for step in &mut plan.steps {
        step.actions.retain(|action| !which(action));
    }
    plan.steps.retain(|step| !step.actions.is_empty());
    plan
}
