//! Reading CronJobs and what they start, as the store holds them.

use jiff::Timestamp;
use serde_json::Value;

use crate::history::{Key, Step};
use crate::object::{self, GROUP, JOBS, at, list, text, time};

/// Whether a run is a success: it is Complete, and no node of it has failed.
pub(super) fn has_succeeded(child: &Value) -> bool {
    object::reason(child, "Complete").is_some_and(|reason| reason != "CompletedWithFailures")
}

/// `status.observedGeneration`, if anybody has looked at the object: the CRDs write -1 before.
pub(super) fn observed_generation(object: &Value) -> Option<i64> {
    let observed = at(object, &["status", "observedGeneration"])?.as_i64()?;
    (observed >= 0).then_some(observed)
}

/// Resources of CronJobs: ours, and that of batch/v1.
pub(crate) const CRONS: [&str; 2] = ["cronjobs.carillon.dev", "cronjobs.batch"];
/// Resource of Jobs.
pub(crate) const JOBS_OF_BATCH: &str = "jobs.batch";
/// Resources of what a CronJob starts.
pub(crate) const CHILDREN: [&str; 2] = [JOBS_OF_BATCH, JOBS];
/// The finalizer that keeps a child until the status has its uid.
pub(crate) const HOLD: &str = "carillon.dev/run-tracking";
/// Annotation of a child: for which time it was started.
pub(crate) const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Annotation of a CronJob that asks for a run, and of the child that it gets.
pub(crate) const RUN_NOW: &str = "carillon.dev/run-now";

/// Uid of the CronJob that controls the object.
pub(crate) fn cron_of(object: &Value) -> Option<&str> {
    let owner = object::controller(object)?;
    let group = text(owner, &["apiVersion"]).split('/').next();
    let known = group.is_some_and(|group| [GROUP, "batch"].contains(&group));
    (text(owner, &["kind"]) == "CronJob" && known).then(|| text(owner, &["uid"]))
}

/// The kind of a child.
pub(crate) fn kind_of(key: &Key) -> &'static str {
    if &*key.resource == JOBS {
        "BroadcastJob"
    } else {
        "Job"
    }
}

/// The word a child was asked for with; empty when it was not.
pub(crate) fn request_of(child: &Value) -> &str {
    text(child, &["metadata", "annotations", RUN_NOW])
}

/// The word that a CronJob is asked for a run with: its annotation is `<its uid>/<word>`. Empty when it is
/// not asked, or another one is.
pub(crate) fn asked_of(cron: &Value) -> &str {
    let value = text(cron, &["metadata", "annotations", RUN_NOW]);
    let word = value.strip_prefix(object::uid(cron));
    word.and_then(|word| word.strip_prefix('/'))
        .unwrap_or_default()
}

/// For which time a child was started; `None`: on request (then it says when that was seen), or it does
/// not say.
pub(crate) fn tick_of(child: &Value) -> Option<Timestamp> {
    let written = text(child, &["metadata", "annotations", SCHEDULED]);
    let asked = !request_of(child).is_empty();
    written.parse().ok().filter(|_| !asked)
}

/// Whether the status notes that the run a child was asked for was started.
pub(crate) fn has_run_now(cron: &Value, child: &Value) -> bool {
    let request = request_of(child);
    let ran = list(cron, &["status", "handledRunNow"]);
    !request.is_empty() && ran.iter().any(|known| known == request)
}

/// The name of the child for a time.
pub(crate) fn name_for(cron: &str, tick: Timestamp) -> String {
    format!("{cron}-{}", tick.as_second().div_euclid(60))
}

/// Whether a child carries our finalizer.
pub(crate) fn is_held(child: &Value) -> bool {
    let finalizers = list(child, &["metadata", "finalizers"]);
    finalizers.iter().any(|finalizer| finalizer == HOLD)
}

/// Whether a step takes our finalizer off a child, or a child that has it out of the store.
pub(crate) fn lets_go(step: &Step) -> bool {
    let held = |child: Option<&Value>| child.is_some_and(is_held);
    CHILDREN.contains(&&*step.key.resource)
        && held(step.old.as_deref())
        && !held(step.new.as_deref())
}

/// The references of a status to children.
pub(crate) fn references(cron: &Value) -> &[Value] {
    list(cron, &["status", "active"])
}

/// Whether the status refers to a child of this kind and name, with or without its uid.
pub(crate) fn is_promised(cron: &Value, key: &Key) -> bool {
    references(cron)
        .iter()
        .any(|reference| reference["kind"] == kind_of(key) && reference["name"] == *key.name)
}

/// A time of the status.
pub(crate) fn status_time(cron: &Value, field: &str) -> Option<Timestamp> {
    time(cron, &["status", field])
}

/// The last tick that was run or, where that is noted, counted as missed.
pub(crate) fn last_counted(cron: &Value) -> Option<Timestamp> {
    let run = status_time(cron, "lastScheduleTime");
    run.max(status_time(cron, "lastMissedTime"))
}

/// Since when the schedule is in force that the status notes.
pub(crate) fn in_force_since(cron: &Value) -> Option<Timestamp> {
    time(cron, &["status", "scheduleInForce", "since"])
}

/// The last instant before which nothing is left to decide.
pub(crate) fn decided_until(cron: &Value) -> Option<Timestamp> {
    last_counted(cron).max(in_force_since(cron))
}

/// Whether two say the same schedule, be they a spec or what a status notes.
pub(crate) fn same_schedule(left: &Value, right: &Value) -> bool {
    let same = |field| text(left, &[field]) == text(right, &[field]);
    let is_once = |value| text(value, &["dstPolicy"]) == "Once";
    same("schedule") && same("timeZone") && is_once(left) == is_once(right)
}

/// The template of a child of this kind.
pub(crate) fn template_of<'v>(spec: &'v Value, kind: &str) -> Option<&'v Value> {
    let field = if kind == "Job" {
        "jobTemplate"
    } else {
        "broadcastJobTemplate"
    };
    at(spec, &[field]).or_else(|| at(spec, &["template", field]))
}

/// Whether a step of a BroadcastJob or Job is about its part as a child: it comes, it goes, or its
/// hold changes. The rest is the business of its own controller.
pub(crate) fn is_of_a_run(step: &Step) -> bool {
    let (old, new) = (step.old.as_deref(), step.new.as_deref());
    let Some(object) = old.or(new) else {
        return false;
    };
    let child = cron_of(object).is_some() || is_held(object);
    let held = |object: Option<&Value>| object.is_some_and(is_held);
    let deleted = |object: Option<&Value>| object.is_none_or(object::is_deleting);
    let touched = old.is_none() || deleted(new) && !deleted(old) || new.is_none();
    CHILDREN.contains(&&*step.key.resource) && child && (touched || held(old) != held(new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_of_which_nodes_failed_is_no_success() {
        for (type_, reason, status, succeeded) in [
            ("Complete", "AllNodesSucceeded", "True", true),
            ("Complete", "CompletionsReached", "True", true),
            ("Complete", "CompletedWithFailures", "True", false),
            ("Complete", "AllNodesSucceeded", "False", false),
            ("Failed", "MaxFailedNodesExceeded", "True", false),
        ] {
            let condition = json!({"type": type_, "reason": reason, "status": status});
            let child = json!({"status": {"conditions": [condition]}});
            assert_eq!(has_succeeded(&child), succeeded, "{child}");
        }
    }
}
