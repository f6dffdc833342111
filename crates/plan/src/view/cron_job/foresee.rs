//! What the planner would do next, asked without doing it.

use std::collections::BTreeSet;

use carillon_api::cron_job::RunReference;
use jiff::Timestamp;

use crate::cron_job::action::{Action, Plan, Run, Why};
use crate::cron_job::{Child, Children, CronJob, Snapshot, Template, plan, referred};

/// The plan for a CronJob of which all children are known.
pub(in crate::view) fn planned(cron: &CronJob, children: &Children, now: Timestamp) -> Plan {
    let is_missing = |entry: &&RunReference| referred(children, entry).is_none();
    let missing = || cron.status.active.iter().filter(is_missing);
    let gone = missing().filter_map(|entry| entry.uid.as_ref()?.parse().ok());
    let absent = missing().filter(|entry| entry.uid.is_none());
    let snapshot = Snapshot {
        cron,
        children,
        gone: &gone.collect(),
        absent: &absent.map(|entry| entry.name.clone()).collect(),
        conflicts: &BTreeSet::new(),
        // Otherwise it would ask first.
        template: &Template::Accepted,
        refusal: None,
    };
    plan(&snapshot, now)
}

fn actions(plan: Plan) -> impl Iterator<Item = Action> {
    plan.steps.into_iter().flat_map(|step| step.actions)
}

/// The run it would start now.
pub(super) fn creation(cron: &CronJob, children: &Children, now: Timestamp) -> Option<Run> {
    actions(planned(cron, children, now)).find_map(|action| match action {
        Action::CreateChild(run) => Some(run),
        _ => None,
    })
}

/// The same if no other run were active.
pub(super) fn creation_if_alone(
    cron: &CronJob,
    children: &Children,
    now: Timestamp,
) -> Option<Run> {
    let mut cron = cron.clone();
    cron.status.active.clear();
    // A held child would be taken for an active one.
    let released = children.iter().map(|(key, child)| {
        let child = Child {
            held: false,
            ..child.clone()
        };
        (key.clone(), child)
    });
    creation(&cron, &released.collect(), now)
}

/// The children it would stop now, so that another can run.
pub(super) fn replaced(cron: &CronJob, children: &Children, now: Timestamp) -> Vec<String> {
    let replaced = actions(planned(cron, children, now)).filter_map(|action| match action {
        Action::DeleteChild {
            name,
            why: Why::Replaced,
            ..
        } => Some(name),
        _ => None,
    });
    replaced.collect()
}

/// Names of the runs that have not ended.
pub(super) fn active(cron: &CronJob, children: &Children) -> Vec<String> {
    let entries = cron.status.active.iter();
    let open = entries.filter(|entry| {
        let child = referred(children, entry);
        child.is_some_and(|child| child.ended.is_none())
    });
    open.map(|entry| entry.name.clone()).collect()
}
