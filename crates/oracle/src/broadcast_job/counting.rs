//! S4: every outcome is counted exactly once.

pub mod last_status;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::alive::Alive;
use super::family;
use super::standing;
use super::window::Window;
use super::world::{Job, World, record_changes};
use crate::history::{History, Step};
use crate::invariant::Invariant::S4;
use crate::object::{self, JOBS, Node, PODS, Record, SLICES, at, number, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S4. For every job:
/// - a record that is final never changes and never goes while its job exists, unless somebody else
///   edits the slice;
/// - an attempt has one record: one for each pod name, and one for each (node name, attempt);
/// - a Succeeded record names the uid of a pod that was Succeeded at some revision before; a Failed
///   one with a uid that of a pod that had ended, or that somebody had deleted, or that was bound to
///   another node; and a success is one of a pod that is bound to the node of its record;
/// - a status never says more than the records: `succeeded` is at most the number of nodes whose
///   last record is Succeeded, `failed` at most the number of nodes with a Failed record, or with
///   AtMostOnce an interrupted one;
/// - `active` is at most the number of pods that had not ended within what we may have seen, and
///   `acknowledgedFailedNodes` that of the nodes whose failure was accepted;
/// - `succeeded` and `disrupted` never fall, nor does `failed` where `backoffLimitPerNode` is 0 and
///   the annotation `carillon.dev/retry` is absent;
/// - a status that says Complete or Failed says exactly what the records say, none of which is still
///   Started, and each pod that succeeded of its own accord has a Succeeded record.
///
/// The one thing of a final record that may change is that its failure is accepted, and no more failures are than a
/// status has told.
///
/// A job whose status or slices were edited by others is not judged from there on.
pub fn counted_exactly_once(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut pods = Outcomes::default();
    let mut alive = Alive::default();
    let mut edited: HashSet<&str> = HashSet::new();
    let mut accepted: HashMap<&str, Window<usize>> = HashMap::new();
    for step in &history.steps {
        alive.follow(step);
        let object = step.new.as_deref().or(step.old.as_deref());
        if let (JOBS, Some(job)) = (&*step.key.resource, object) {
            let told = pods.told.entry(object::uid(job)).or_default();
            *told = number(job, &["status", "failed"]).max(*told);
            let retry = text(job, &["metadata", "annotations", "carillon.dev/retry"]);
            pods.asked.extend(retry.split(',').map(str::trim));
        }
        match (&*step.key.resource, object) {
            (PODS, _) => pods.remember(step),
            (SLICES, Some(slice)) => {
                let uid = object::log_of(slice).unwrap_or_default();
                if assumptions.others(step) {
                    // Garbage collection takes the slices of a job that is gone.
                    if world.jobs.get(uid).is_some_and(Job::is_alive) {
                        edited.insert(uid);
                    }
                } else if !edited.contains(uid)
                    && let Some(job) = world
                        .jobs
                        .get(uid)
                        .filter(|job| job.gone.is_none() || family::is_retry(job.last))
                {
                    records_stay(&mut checked, (&world, job), &mut pods, step)?;
                }
            }
            (JOBS, Some(object)) if assumptions.others(step) => {
                let status = |object: Option<&'_ Value>| object.map(|job| job["status"].clone());
                let removed = step.new.is_none();
                if !removed
                    && status(step.old.as_deref()).is_some_and(|old| old != object["status"])
                {
                    edited.insert(object::uid(object));
                }
            }
            _ => {}
        }
        world.apply(step);
        if &*step.key.resource == SLICES
            && let Some(job) = object.and_then(object::log_of)
            && let Some(known) = world.jobs.get(job)
        {
            let accepted = accepted.entry(job).or_default();
            accepted.follow(step, accepted_pods(known).len());
        }
        if &*step.key.resource == JOBS
            && let Some(job) = step.new.as_deref()
            && !assumptions.others(step)
            && !edited.contains(object::uid(job))
            && step
                .old
                .as_deref()
                .is_none_or(|old| old["status"] != job["status"])
        {
            status_says_what_is_recorded(&mut checked, &world, &pods, step, job)?;
            let says = number(job, &["status", "acknowledgedFailedNodes"]);
            let known = accepted.get(object::uid(job));
            let most = known.map_or(0, |accepted| accepted.most(assumptions, step, None));
            checked.require(says <= most as i64, || {
                let what = format!("{says} failures are acknowledged, {most} were accepted");
                Violation::at(S4, step, what)
            })?;
            // While writes are refused a status gets a condition, and keeps the counts of what is recorded.
            let before = step.old.as_deref().map(counts_of);
            if before != Some(counts_of(job)) {
                let says = number(job, &["status", "active"]);
                let most = alive.most(object::uid(job), assumptions, step);
                checked.require(says <= most as i64, || {
                    let what = format!("the status says that {says} pods are active, {most} were");
                    Violation::at(S4, step, what)
                })?;
            }
        }
    }
    Ok(checked)
}

/// The status of a job without its conditions, what follows from them, and which spec they are about.
fn counts_of(job: &Value) -> Value {
    let mut status = job["status"].clone();
    if let Some(status) = status.as_object_mut() {
        for told in ["conditions", "summary", "observedGeneration"] {
            status.remove(told);
        }
    }
    status
}

/// What pods were seen to do, and what was recorded.
#[derive(Default)]
pub(crate) struct Outcomes<'h> {
    /// Uids of pods that had ended, or that somebody had deleted.
    over: HashSet<&'h str>,
    /// Pods that were Succeeded at some time, by uid, and their nodes.
    succeeded: HashMap<&'h str, &'h str>,
    /// Nodes of pods that are bound, by uid.
    bound: HashMap<&'h str, &'h str>,
    /// By job and name: the pods that succeeded without being told to stop, as their first end.
    by_themselves: HashMap<&'h str, BTreeMap<&'h str, Success<'h>>>,
    /// By job: the most failed nodes that its status ever told.
    told: HashMap<&'h str, i64>,
    /// Pods after which the annotation for retries ever asked for one more attempt.
    asked: HashSet<&'h str>,
    /// By job, name of the node and attempt: its record.
    attempts: HashMap<(&'h str, &'h str, i64), Record<'h>>,
}

/// A pod that succeeded.
#[derive(Clone, Copy)]
struct Success<'h> {
    uid: &'h str,
    node: &'h str,
}

impl Success<'_> {
    /// Whether it is the pod of this attempt, on its node.
    fn is_of(self, record: Record<'_>) -> bool {
        (self.uid, self.node) == (record.pod_uid(), record.node())
    }
}

impl<'h> Outcomes<'h> {
    pub(crate) fn remember(&mut self, step: &'h Step) {
        let Some(pod) = step.new.as_deref() else {
            return;
        };
        let uid = object::uid(pod);
        if object::has_ended(pod) || object::is_deleting(pod) {
            self.over.insert(uid);
        }
        let node = object::node_of(pod);
        if object::is_bound(pod) {
            self.bound.insert(uid, node);
        }
        if object::phase(pod) != "Succeeded" {
            return;
        }
        self.succeeded.insert(uid, node);
        let before = step.old.as_deref();
        let first = !before.is_some_and(|old| object::has_ended(old) || object::is_deleting(old));
        if let Some(job) = object::job_of(pod).filter(|_| first) {
            let pods = self.by_themselves.entry(job).or_default();
            pods.insert(object::name(pod), Success { uid, node });
        }
    }
}

/// The last pods that may have run of nodes whose failure was accepted.
fn accepted_pods<'h>(job: &Job<'h>) -> Vec<(Node<'h>, &'h str)> {
    if !job.records.values().any(|record| record.is_accepted()) {
        return Vec::new();
    }
    let tried = standing::tried(job).into_iter();
    let decides = tried.map(|(node, tried)| (node, tried.decides()));
    let accepted = decides.filter(|(_, record)| record.is_accepted());
    accepted
        .map(|(node, record)| (node, record.pod()))
        .collect()
}

/// Whether a failure was accepted, and nothing else of its record has changed.
fn is_accepted(old: Record<'_>, new: Record<'_>) -> bool {
    let without = |record: Record<'_>| {
        let mut record = record.0.clone();
        record["accepted"] = Value::Null;
        record
    };
    let failed = !matches!(old.state(), "Started" | "Succeeded");
    failed && new.is_accepted() && !old.is_accepted() && without(old) == without(new)
}

fn records_stay<'h>(
    checked: &mut Checked,
    (world, job): (&World<'h>, &Job<'h>),
    pods: &mut Outcomes<'h>,
    step: &'h Step,
) -> Result<(), Box<Violation>> {
    // Those that are to be tried again are not among the failed ones that a status tells, nor are those
    // whose node is gone.
    let accepted = accepted_pods(job).into_iter();
    let told = accepted.filter(|(node, pod)| !pods.asked.contains(pod) && world.has_node(*node));
    let mut accepts = told.count() as i64;
    for change in record_changes(step) {
        let bad = |what: String| Violation::at(S4, step, what);
        if let Some(old) = change.old.filter(|old| old.is_final()) {
            let stays = change.new == Some(old);
            checked.require(
                stays || change.new.is_some_and(|new| is_accepted(old, new)),
                || {
                    let now = change
                        .new
                        .map_or_else(|| "nothing".to_owned(), |new| new.0.to_string());
                    bad(format!("the final record {} became {now}", old.0))
                },
            )?;
            accepts += i64::from(!stays);
            let told = pods.told.get(object::uid(job.last)).copied().unwrap_or(0);
            checked.require(stays || accepts <= told, || {
                bad(format!("{accepts} failures are accepted, {told} were told"))
            })?;
        }
        let Some(record) = change.new else { continue };
        if change.old.is_none() {
            let known = job.records.get(record.pod()).copied();
            let attempt = (object::uid(job.last), record.node(), record.attempt());
            let before = pods.attempts.insert(attempt, record);
            let twin = known.or(before);
            checked.require(twin.is_none(), || {
                let twin = twin.map_or(String::new(), |twin| twin.0.to_string());
                bad(format!("attempt {} has another record: {twin}", record.0))
            })?;
        }
        let (state, uid) = (record.state(), record.pod_uid());
        let backed = match state {
            "Succeeded" => pods.succeeded.get(uid) == Some(&record.node()),
            "Failed" => {
                let elsewhere = || pods.bound.get(uid).is_some_and(|on| *on != record.node());
                uid.is_empty() || pods.over.contains(uid) || elsewhere()
            }
            _ => true,
        };
        checked.require(backed, || {
            bad(format!(
                "no pod with uid {uid:?} had such an end: {}",
                record.0
            ))
        })?;
    }
    Ok(())
}

/// What the records of a job add up to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Nodes whose last record is Succeeded.
    pub(crate) succeeded: i64,
    /// Nodes whose last attempt in which something may have run has failed.
    pub(crate) failed: i64,
    /// Those of them that would not have been tried again: the others do not count where the node is gone.
    failed_for_good: i64,
    /// Nodes with any Failed record or, with AtMostOnce, whose last attempt in which something may have run was
    /// interrupted.
    pub(crate) ever_failed: i64,
    /// Records that are Disrupted or Unknown.
    pub(crate) interrupted: i64,
}

impl Tally {
    pub(crate) fn of(job: &Job<'_>) -> Self {
        let mut tally = Self::default();
        let once = text(job.last, &["spec", "executionPolicy"]) == "AtMostOnce";
        for node in standing::tried(job).values() {
            let decides = node.decides();
            let failed = match decides.state() {
                "Failed" => true,
                _ => once && decides.is_interrupted() && node.ran.is_some(),
            };
            let left = number(job.last, &["spec", "backoffLimitPerNode"]) >= node.failures;
            let may_go = left && !once && !standing::is_decided(decides);
            tally.succeeded += i64::from(decides.state() == "Succeeded");
            tally.failed += i64::from(failed);
            tally.failed_for_good += i64::from(failed && !may_go);
            tally.ever_failed += i64::from(failed || node.failures > 0);
        }
        let interrupted = job
            .records
            .values()
            .filter(|record| record.is_interrupted());
        tally.interrupted = interrupted.count() as i64;
        tally
    }
}

fn status_says_what_is_recorded(
    checked: &mut Checked,
    world: &World<'_>,
    pods: &Outcomes<'_>,
    step: &Step,
    object: &Value,
) -> Result<(), Box<Violation>> {
    let Some(job) = world.jobs.get(object::uid(object)) else {
        return Ok(());
    };
    let says = |object: &Value, field| number(object, &["status", field]);
    let bad = |what: String| Violation::at(S4, step, what);
    let tally = Tally::of(job);
    let (succeeded, failed) = (says(object, "succeeded"), says(object, "failed"));
    let within = succeeded <= tally.succeeded && failed <= tally.ever_failed;
    checked.require(within, || {
        bad(format!(
            "the status says {succeeded} succeeded and {failed} failed, the records {tally:?}"
        ))
    })?;
    let retries = number(object, &["spec", "backoffLimitPerNode"]) > 0;
    let requested = |record: &Record<'_>| record.0["requested"] == true;
    let asked = at(object, &["metadata", "annotations", "carillon.dev/retry"]).is_some()
        || job.records.values().any(requested);
    for field in ["succeeded", "failed", "disrupted"] {
        let may_fall = field == "failed" && (retries || asked);
        let before = step.old.as_deref().map_or(0, |old| says(old, field));
        checked.require(may_fall || before <= says(object, field), || {
            bad(format!(
                "{field} fell from {before} to {}",
                says(object, field)
            ))
        })?;
    }
    let was_terminal = step.old.as_deref().is_some_and(object::is_terminal);
    if was_terminal || !object::is_terminal(object) {
        return Ok(());
    }
    let possible = tally.failed_for_good..=tally.failed;
    let adds_up = succeeded == tally.succeeded && possible.contains(&failed);
    checked.require(adds_up, || {
        bad(format!(
            "the job has ended and says {succeeded} succeeded and {failed} failed, the records {tally:?}"
        ))
    })?;
    let open = job.records.values().find(|record| !record.is_final());
    checked.require(open.is_none(), || {
        let open = open.map_or(String::new(), |record| record.0.to_string());
        bad(format!(
            "the job has ended with an attempt under way: {open}"
        ))
    })?;
    let uid = object::uid(object);
    for (name, pod) in pods.by_themselves.get(uid).into_iter().flatten() {
        // The pod of an attempt that was given up before is not counted.
        let record = job
            .records
            .get(name)
            .filter(|record| !record.pod_uid().is_empty());
        let lost = record.is_some_and(|record| {
            pod.is_of(*record) && record.state() != "Succeeded" && record.state() != "Unknown"
        });
        checked.require(!lost, || {
            let record = record.map_or(String::new(), |record| record.0.to_string());
            bad(format!(
                "pod {name} ({}) succeeded and is recorded as {record}",
                pod.uid
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    pub(super) fn ran(phase: &str, spec: Value) -> Scene {
        let scene = Scene::new().node("n1").node("n2").job(spec);
        scene.reserve("n1", 1).create("n1", 1).phase("n1", 1, phase)
    }

    pub(super) fn succeeded() -> Scene {
        ran("Succeeded", json!({})).ended("n1", 1, "Succeeded", "")
    }

    #[test]
    fn a_clean_run_is_counted_once() {
        holds(S4, &Scene::good(), &strict());
        let failed = ran("Failed", json!({})).ended("n1", 1, "Failed", "NonZeroExitCode");
        let failed = failed
            .counts(0, 1)
            .seal()
            .end("Failed", "MaxFailedNodesExceeded", 0, 1);
        holds(S4, &failed, &strict());
    }

    #[test]
    fn a_status_that_says_more_than_the_records_is_found() {
        let early = ran("Succeeded", json!({})).counts(1, 0);
        breaks(S4, &early, &strict(), "the status says 1 succeeded");
        let wrong = succeeded().counts(0, 1);
        breaks(S4, &wrong, &strict(), "1 failed");
    }

    #[test]
    fn a_status_that_counts_pods_that_are_not_there_as_active_is_found() {
        let active = |scene: Scene| scene.status(|status| status["active"] = json!(1));
        holds(S4, &active(ran("Running", json!({}))), &strict());
        let never = Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        breaks(S4, &active(never), &strict(), "1 pods are active, 0 were");
        breaks(S4, &active(succeeded().later(9)), &strict(), "0 were");
    }

    #[test]
    fn a_condition_may_come_to_a_status_whose_pod_has_ended_unrecorded() {
        let running = ran("Running", json!({})).status(|status| status["active"] = json!(1));
        let ended = running.phase("n1", 1, "Succeeded").later(60);
        let told = |scene: Scene| {
            scene.status(|status| {
                status["conditions"] = json!([{"type": "Stalled", "status": "True"}]);
                status["summary"] = json!("Stalled: WriteRefused");
                status["observedGeneration"] = json!(7);
            })
        };
        holds(S4, &told(ended), &strict());
    }

    #[test]
    fn a_final_record_neither_changes_nor_goes() {
        let changed = succeeded().record("n1", 1, |record| record["state"] = json!("Failed"));
        breaks(S4, &changed, &strict(), "the final record");
        let gone = succeeded().slice(|slice| slice["results"] = json!([]));
        breaks(S4, &gone, &strict(), "became nothing");
    }

    #[test]
    fn a_failure_is_accepted_once_it_was_told_and_a_success_never() {
        let accept =
            |scene: Scene| scene.record("n1", 1, |record| record["accepted"] = json!(true));
        let failed = || ran("Failed", json!({})).ended("n1", 1, "Failed", "NonZeroExitCode");
        holds(S4, &accept(failed().counts(0, 1)), &strict());
        breaks(
            S4,
            &accept(failed()),
            &strict(),
            "1 failures are accepted, 0",
        );
        breaks(
            S4,
            &accept(succeeded().counts(1, 0)),
            &strict(),
            "the final record",
        );
        let back = accept(failed().counts(0, 1))
            .record("n1", 1, |record| record["accepted"] = json!(false));
        breaks(S4, &back, &strict(), "the final record");
        let second = |scene: Scene| {
            let scene = scene.reserve("n2", 1).create("n2", 1).bind("n2", 1);
            let scene = scene.phase("n2", 1, "Failed");
            let scene = scene.ended("n2", 1, "Failed", "NonZeroExitCode");
            scene.record("n2", 1, |record| record["accepted"] = json!(true))
        };
        let one = accept(failed().counts(0, 1));
        breaks(
            S4,
            &second(one.clone()),
            &strict(),
            "2 failures are accepted, 1",
        );
        // A node that is gone is none that has failed, nor is one that is to be tried again.
        let gone = one.clone().remove("kubectl", (object::NODES, "n1"));
        holds(S4, &second(gone), &strict());
        let asked = one.edit("kubectl", (JOBS, "fix"), |job| {
            job["metadata"]["annotations"] = json!({"carillon.dev/retry": pod_name("n1", 1)});
        });
        holds(S4, &second(asked), &strict());
        let acknowledges = |scene: Scene, count: i64| {
            scene.status(|status| status["acknowledgedFailedNodes"] = json!(count))
        };
        let accepted = || accept(failed().counts(0, 1));
        holds(S4, &acknowledges(accepted(), 1), &strict());
        breaks(
            S4,
            &acknowledges(accepted(), 2),
            &strict(),
            "1 were accepted",
        );
        let done = accepted().succeed("n1", 2);
        breaks(S4, &acknowledges(done, 1), &strict(), "0 were accepted");
    }

    #[test]
    fn an_attempt_with_two_records_is_found() {
        let twice = Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        let twice = twice.slice(|slice| {
            let mut twin = slice["results"][0].clone();
            twin["podName"] = json!("fix-other");
            slice["results"].as_array_mut().unwrap().push(twin);
        });
        breaks(S4, &twice, &strict(), "has another record");
    }

    #[test]
    fn an_outcome_without_a_pod_that_had_it_is_found() {
        let running = ran("Running", json!({}));
        breaks(
            S4,
            &running.clone().ended("n1", 1, "Succeeded", ""),
            &strict(),
            "no pod with uid",
        );
        breaks(
            S4,
            &running.ended("n1", 1, "Failed", "X"),
            &strict(),
            "no pod with uid",
        );
        let flipped = ran("Succeeded", json!({})).phase("n1", 1, "Failed");
        holds(S4, &flipped.ended("n1", 1, "Succeeded", ""), &strict());
    }

    #[test]
    fn counters_do_not_fall() {
        let fell = succeeded().counts(1, 0).counts(0, 0);
        breaks(S4, &fell, &strict(), "succeeded fell from 1 to 0");
        let failed = |spec| {
            ran("Failed", spec)
                .ended("n1", 1, "Failed", "X")
                .counts(0, 1)
        };
        let retried = |spec| failed(spec).counts(0, 0);
        breaks(S4, &retried(json!({})), &strict(), "failed fell");
        holds(S4, &retried(json!({"backoffLimitPerNode": 1})), &strict());
        // Who has asked for the second attempt may have taken that back since.
        let again = failed(json!({})).reserve("n1", 2);
        let again = again.record("n1", 2, |record| record["requested"] = json!(true));
        holds(S4, &again.counts(0, 0), &strict());
    }

    #[test]
    fn at_the_end_the_status_is_the_sum_of_the_records_and_all_are_final() {
        let less = succeeded()
            .seal()
            .end("Complete", "AllNodesSucceeded", 0, 0);
        breaks(
            S4,
            &less,
            &strict(),
            "the job has ended and says 0 succeeded",
        );
        let open = succeeded()
            .reserve("n2", 1)
            .seal()
            .end("Complete", "AllNodesSucceeded", 1, 0);
        breaks(S4, &open, &strict(), "attempt under way");
    }

    #[test]
    fn a_pod_that_succeeded_of_its_own_accord_is_not_recorded_as_something_else() {
        let lost = ran("Succeeded", json!({}))
            .ended("n1", 1, "Failed", "X")
            .seal();
        let lost = lost.end("Failed", "MaxFailedNodesExceeded", 0, 1);
        breaks(S4, &lost, &strict(), "succeeded and is recorded as");
        let told = ran("Running", json!({})).delete_pod("kubectl", "n1", 1);
        let told = told
            .phase("n1", 1, "Succeeded")
            .ended("n1", 1, "Failed", "StoppedByFailure");
        holds(
            S4,
            &told.seal().end("Failed", "MaxFailedNodesExceeded", 0, 1),
            &strict(),
        );
    }

    #[test]
    fn what_others_edited_is_not_held_against_us() {
        let edited = succeeded().by("kubectl", "patch").slice(|slice| {
            slice["results"] = json!([]);
        });
        holds(S4, &edited.counts(0, 0), &strict());
    }

    #[test]
    fn a_pod_that_did_not_start_in_time_has_failed_when_it_was_told_to_stop() {
        let late = || ran("Pending", json!({"podStartDeadlineSeconds": 60})).later(60);
        let failed = |scene: Scene| scene.ended("n1", 1, "Failed", "ImagePullBackOff");
        holds(
            S4,
            &failed(late().delete_pod("carillon", "n1", 1)),
            &strict(),
        );
        breaks(S4, &failed(late()), &strict(), "no pod with uid");
    }

    #[test]
    fn a_success_on_another_node_is_none() {
        let elsewhere = || {
            let scene = ran("Pending", json!({})).edit("scheduler", (PODS, "fix-n1-1"), |pod| {
                pod["spec"]["nodeName"] = json!("n2");
            });
            scene.phase("n1", 1, "Succeeded")
        };
        let counted = elsewhere().ended("n1", 1, "Succeeded", "");
        breaks(S4, &counted, &strict(), "no pod with uid");
        let failed = elsewhere().ended("n1", 1, "Failed", "WrongNode");
        let ended = failed.seal().end("Failed", "MaxFailedNodesExceeded", 0, 1);
        holds(S4, &ended, &strict());
    }
}
