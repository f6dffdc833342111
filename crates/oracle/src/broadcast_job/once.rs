//! S1 and S2: one pod at a time on a node, and none after its work is done.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::family;
use super::standing::{is_decided, may_have_run};
use super::window::Window;
use super::world::{MadeFor, World};
use crate::history::{History, Step};
use crate::invariant::Invariant::{S1, S2};
use crate::object::{self, PODS, Record, number, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S1. At every revision, for each family of jobs (a job and its retries) and each node (by name): at most
/// one pod that a job of it controls, or did when it was made, that is for that node (`spec.nodeName`, or else
/// the required node affinity on `metadata.name`), and whose phase is not Succeeded or Failed. A pod that is
/// being deleted still counts. Pods that are known to be made by somebody else, or by a late request, do not.
pub fn one_pod_per_node(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut there: HashMap<(&str, &str), BTreeSet<&str>> = HashMap::new();
    let mut foreign: HashSet<&str> = HashSet::new();
    let mut made_for = MadeFor::default();
    let mut first: HashMap<&str, &str> = HashMap::new();
    for step in &history.steps {
        if let (object::JOBS, Some(job)) = (&*step.key.resource, &step.new) {
            first.insert(object::uid(job), family::first_of(job));
        }
        if &*step.key.resource != PODS {
            continue;
        }
        for (pod, exists) in [(&step.old, false), (&step.new, true)] {
            let Some(pod) = pod.as_deref() else { continue };
            made_for.follow(pod);
            let Some(job) = made_for.job_of(pod) else {
                continue;
            };
            let others = assumptions.others(step) || (assumptions.late)(step);
            if exists && step.old.is_none() && others {
                foreign.insert(object::uid(pod));
            }
            let node = object::node_of(pod);
            let job = first.get(job).copied().unwrap_or(job);
            let pods = there.entry((job, node)).or_default();
            pods.remove(object::uid(pod));
            if !exists || object::has_ended(pod) || foreign.contains(object::uid(pod)) {
                continue;
            }
            pods.insert(object::uid(pod));
            checked.require(pods.len() <= 1, || {
                let what = format!(
                    "job {job} has {} pods on node {node:?} that have not ended: {pods:?}",
                    pods.len()
                );
                Violation::at(S1, step, what)
            })?;
        }
    }
    Ok(checked)
}

/// S2. At every creation of a pod of a job:
/// - no earlier pod of the job on that node (by uid of the node, as reserved) has succeeded. A
///   success counts if nobody had deleted the pod before it ended, or if it is recorded as one: a
///   pod that was told to stop has not done its work (decision 0011). Neither has one that is bound to
///   another node than that of its record;
/// - the job has had no other pod of that name, which is to say that an attempt has one pod. Exempt:
///   somebody else took our finalizer from the earlier one;
/// - with `executionPolicy: AtMostOnce`: no earlier pod of the job was bound to that node, since it may
///   have run;
/// - the last pod of the job that may have run on that node was interrupted, or has failed and is to be
///   tried again: no more records of the node are Failed than `backoffLimitPerNode` (default 0), and the
///   last is not final by a rule of `podFailurePolicy`.
///
/// And of the others of its family: no pod of one of them has succeeded on that node, no retry was bound to
/// it that whoever made this one did not know (`knownRetries`), and all that had their turn before this one
/// have ended.
///
/// The last two do not hold where the annotation `carillon.dev/retry` asked for one more attempt.
pub fn run_once(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut past = Past::default();
    for step in &history.steps {
        if let Some((job, pod)) = world.created_pod(step) {
            past.judge_creation(&world, (&mut checked, assumptions), (job, pod), step)?;
        }
        world.apply(step);
        past.remember(&world, assumptions, step);
    }
    Ok(checked)
}

/// What earlier pods have done.
#[derive(Default)]
struct Past<'h> {
    /// By job and uid of the node: the pod that succeeded.
    done: HashMap<(&'h str, &'h str), &'h str>,
    /// By job and uid of the node: pods that were bound, without those that the kubelet has refused.
    ran: HashMap<(&'h str, &'h str), BTreeSet<&'h str>>,
    /// By job and uid of the node: names of the attempts that failed.
    failed: HashMap<(&'h str, &'h str), BTreeSet<&'h str>>,
    /// By job and name: uid of the pod.
    pods: HashMap<(&'h str, &'h str), &'h str>,
    /// By uid of the pod: uid of the node it is for.
    node: HashMap<&'h str, &'h str>,
    /// Pods from which somebody else took the finalizer.
    stripped: HashSet<&'h str>,
    /// By job and uid of the node: the last record of an attempt in which something may have run.
    latest: HashMap<(&'h str, &'h str), Record<'h>>,
    /// By job: `backoffLimitPerNode`.
    limits: HashMap<&'h str, Window<usize>>,
    /// By job and name of the pod: when an attempt was promised.
    reserved: HashMap<(&'h str, &'h str), (u64, Timestamp)>,
    /// By job: all that the annotation for retries ever asked for.
    asked: HashMap<&'h str, BTreeSet<&'h str>>,
}

impl<'h> Past<'h> {
    fn judge_creation(
        &mut self,
        world: &World<'h>,
        (checked, assumptions): (&mut Checked, &Assumptions),
        (job, pod): (&'h str, &'h Value),
        step: &'h Step,
    ) -> Result<(), Box<Violation>> {
        let (name, uid) = (object::name(pod), object::uid(pod));
        let node = world.node_uid(job, pod);
        let bad = |what: String| Violation::at(S2, step, what);
        if let Some(earlier) = self.pods.insert((job, name), uid) {
            checked.require(self.stripped.contains(earlier), || {
                bad(format!(
                    "pod {name} of job {job} was there before, with uid {earlier}: one attempt has two pods"
                ))
            })?;
        }
        self.node.insert(uid, node);
        let Some(spec) = world.jobs.get(job).map(|job| &job.last["spec"]) else {
            return Ok(());
        };
        let done = self.done.get(&(job, node));
        checked.require(done.is_none(), || {
            bad(format!(
                "pod {name} is for node {} ({node}), where pod {} of the same job has succeeded",
                object::node_of(pod),
                done.unwrap_or(&""),
            ))
        })?;
        self.judge_family(world, checked, (job, node, name), step)?;
        let asked = self.is_asked_again(job, node);
        if text(spec, &["executionPolicy"]) == "AtMostOnce" && !asked {
            let ran = self.ran_on(job, node);
            checked.require(ran.is_none(), || {
                bad(format!(
                    "pod {name} is for node {} ({node}), where pod {} may have run, and executionPolicy is AtMostOnce",
                    object::node_of(pod),
                    ran.unwrap_or_default(),
                ))
            })?;
        }
        let failed = self.failed.get(&(job, node)).map_or(0, BTreeSet::len);
        // An attempt that was promised is kept when the limit was lowered.
        let since = self.reserved.get(&(job, name));
        let limit = self.limits.get(job);
        let most = limit.map_or(0, |limit| limit.most(assumptions, step, since));
        let latest = self.latest.get(&(job, node));
        let decided = latest.is_some_and(|record| is_decided(*record));
        // An interruption takes nothing from what the attempt was allowed for, nor from who asked for it.
        let interrupted = latest.is_some_and(|record| record.state() != "Failed");
        let may_be_tried = asked || interrupted || failed <= most && !decided;
        checked.require(may_be_tried, || {
            bad(format!(
                "pod {name} is for node {} ({node}), which has failed {failed} times{}; it may be tried again {most} times",
                object::node_of(pod),
                if decided { " and for good" } else { "" },
            ))
        })
    }

    fn judge_family(
        &self,
        world: &World<'h>,
        checked: &mut Checked,
        (uid, node, name): (&'h str, &'h str, &'h str),
        step: &'h Step,
    ) -> Result<(), Box<Violation>> {
        let Some(job) = world.jobs.get(uid) else {
            return Ok(());
        };
        let bad =
            |what: &str| Violation::at(S2, step, format!("pod {name} of {}: {what}", job.key));
        for (other, _) in family::others(world, job.last) {
            let done = self.done.get(&(other, node));
            checked.require(done.is_none(), || {
                let done = done.unwrap_or(&"");
                bad(&format!(
                    "pod {done} of another job of its family has succeeded on the node"
                ))
            })?;
        }
        for other in family::unknown_before(world, job.last) {
            let ran = self.ran_on(other, node);
            checked.require(ran.is_none(), || {
                let ran = ran.unwrap_or_default();
                bad(&format!(
                    "a retry that was not known has tried the node with pod {ran}"
                ))
            })?;
        }
        let no_turn = family::has_no_turn(world, job.last);
        checked.require(no_turn.is_none(), || bad(&no_turn.unwrap_or_default()))
    }

    /// A pod of the job that may have run on a node.
    fn ran_on(&self, job: &str, node: &str) -> Option<&'h str> {
        self.ran.get(&(job, node))?.first().copied()
    }

    /// Whether a person has asked for one more attempt after the last one that ran.
    fn is_asked_again(&self, job: &str, node: &str) -> bool {
        let Some(latest) = self.latest.get(&(job, node)) else {
            return false;
        };
        self.asked
            .get(job)
            .is_some_and(|asked| asked.contains(latest.pod()))
    }

    fn remember(&mut self, world: &World<'h>, assumptions: &Assumptions, step: &'h Step) {
        match &*step.key.resource {
            PODS => self.remember_pod(world, assumptions, step),
            object::JOBS => {
                let Some(job) = step.new.as_deref() else {
                    return;
                };
                let retry = text(job, &["metadata", "annotations", "carillon.dev/retry"]);
                let entries = retry.split(',').map(str::trim);
                let uid = object::uid(job);
                self.asked.entry(uid).or_default().extend(entries);
                let limit = number(job, &["spec", "backoffLimitPerNode"]).max(0);
                let limits = self.limits.entry(uid).or_default();
                limits.follow(step, limit as usize);
            }
            object::SLICES => {
                let Some(job) = step.new.as_deref().and_then(object::log_of) else {
                    return;
                };
                if !world.jobs.contains_key(job) {
                    return;
                }
                let changes = crate::broadcast_job::world::record_changes(step);
                for record in changes.iter().filter_map(|change| change.new) {
                    let node = (job, record.node_uid());
                    let promise = self.reserved.entry((job, record.pod()));
                    promise.or_insert((step.rev, step.at));
                    if may_have_run(record) {
                        let latest = self.latest.entry(node).or_insert(record);
                        if latest.attempt() <= record.attempt() {
                            *latest = record;
                        }
                    }
                    match record.state() {
                        "Succeeded" => {
                            self.done.insert(node, record.pod());
                        }
                        "Failed" => {
                            self.failed.entry(node).or_default().insert(record.pod());
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn remember_pod(&mut self, world: &World<'h>, assumptions: &Assumptions, step: &'h Step) {
        if let Some(old) = step.old.as_deref()
            && object::loses_finalizer(step)
            && assumptions.others(step)
        {
            self.stripped.insert(object::uid(old));
        }
        let Some(pod) = step.new.as_deref() else {
            return;
        };
        let Some(job) = object::job_of(pod) else {
            return;
        };
        // Pods of others are not there.
        let Some(node) = self.node.get(object::uid(pod)) else {
            return;
        };
        let before = step.old.as_deref();
        let has_run = before.is_some_and(|old| object::phase(old) == "Running");
        let ran = self.ran.entry((job, node)).or_default();
        if object::was_rejected(pod) && !has_run {
            ran.remove(object::name(pod));
        } else if object::is_bound(pod) {
            ran.insert(object::name(pod));
        }
        let told_to_stop = before.is_some_and(object::is_deleting);
        let ended_before = before.is_some_and(object::has_ended);
        let record = world.jobs.get(job);
        let record = record.and_then(|job| job.records.get(object::name(pod)));
        let elsewhere = record.is_some_and(|record| record.node() != object::node_of(pod));
        let succeeds = object::phase(pod) == "Succeeded" && !ended_before && !told_to_stop;
        if succeeds && !elsewhere {
            self.done.insert((job, node), object::name(pod));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    fn start() -> Scene {
        Scene::new().node("n1").job(json!({}))
    }

    #[test]
    fn a_second_pod_may_follow_on_a_node_when_the_first_has_ended() {
        let interrupted = start()
            .reserve("n1", 1)
            .create("n1", 1)
            .bind("n1", 1)
            .delete_pod("kubectl", "n1", 1)
            .phase("n1", 1, "Failed")
            .ended("n1", 1, "Disrupted", "PodDeleted")
            .release("n1", 1)
            .succeed("n1", 2);
        holds(S1, &interrupted, &strict());
        holds(S2, &interrupted, &strict());
        holds(S1, &Scene::good(), &strict());
        holds(S2, &Scene::good(), &strict());
    }

    #[test]
    fn a_terminating_pod_still_is_one_on_its_node() {
        let scene = start()
            .reserve("n1", 1)
            .create("n1", 1)
            .delete_pod("kubectl", "n1", 1)
            .create("n1", 2);
        breaks(S1, &scene, &strict(), "2 pods on node \"n1\"");
    }

    #[test]
    fn a_pod_that_was_taken_from_its_job_still_is_one_on_its_node() {
        let taken = |to: Value| {
            let scene = start().reserve("n1", 1).create("n1", 1);
            scene.edit("tenant", (PODS, &pod_name("n1", 1)), move |pod| {
                pod["metadata"]["ownerReferences"] = to;
            })
        };
        let other = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x", "controller": true}]);
        for to in [json!([]), other] {
            let second = taken(to.clone()).create("n1", 2);
            breaks(S1, &second, &strict(), "2 pods on node \"n1\"");
            let ended = taken(to).phase("n1", 1, "Failed").create("n1", 2);
            holds(S1, &ended, &strict());
        }
    }

    #[test]
    fn a_pod_that_somebody_else_made_does_not_count() {
        let scene = start().create("n1", 1);
        let foreign = scene.pod("n1", 9);
        let name = pod_name("n1", 9);
        let scene = scene.step("kubectl", "create", (PODS, &name), Some(foreign), None);
        holds(S1, &scene, &strict());
        let unknown = start().create("n1", 1).create("n1", 9).nobody();
        breaks(S1, &unknown, &strict(), "2 pods");
    }

    #[test]
    fn a_pod_bound_elsewhere_counts_where_it_is_bound() {
        let scene = start().node("n2").create("n1", 1).create("n2", 1);
        let name = pod_name("n2", 1);
        let scene = scene.edit("scheduler", (PODS, &name), |pod| {
            pod["spec"]["nodeName"] = json!("n1");
        });
        breaks(S1, &scene, &strict(), "2 pods on node \"n1\"");
    }

    #[test]
    fn a_node_that_is_done_gets_no_further_pod() {
        let scene = start().succeed("n1", 1).reserve("n1", 2).create("n1", 2);
        breaks(
            S2,
            &scene,
            &strict(),
            "pod fix-n1-1 of the same job has succeeded",
        );
        // The success was seen in the store, though it was never recorded.
        let unrecorded = start()
            .reserve("n1", 1)
            .create("n1", 1)
            .phase("n1", 1, "Succeeded")
            .reserve("n1", 2)
            .create("n1", 2);
        breaks(S2, &unrecorded, &strict(), "has succeeded");
    }

    #[test]
    fn a_success_after_the_order_to_stop_does_not_count_unless_it_is_recorded() {
        let stopped = start()
            .reserve("n1", 1)
            .create("n1", 1)
            .delete_pod("kubectl", "n1", 1)
            .phase("n1", 1, "Succeeded");
        let again = stopped.clone().ended("n1", 1, "Disrupted", "PodDeleted");
        holds(S2, &again.reserve("n1", 2).create("n1", 2), &strict());
        let counted = stopped.ended("n1", 1, "Succeeded", "");
        let counted = counted.reserve("n1", 2).create("n1", 2);
        breaks(S2, &counted, &strict(), "has succeeded");
    }

    #[test]
    fn a_machine_that_was_replaced_is_served_again() {
        let scene = start()
            .succeed("n1", 1)
            .remove("kubectl", (object::NODES, "n1"))
            .node_with_uid("n1", "another")
            .succeed("n1", 2);
        holds(S2, &scene, &strict());
    }

    #[test]
    fn an_attempt_has_one_pod_unless_its_finalizer_was_stripped() {
        let made_again = |scene: Scene| {
            let mut pod = scene.pod("n1", 1);
            pod["metadata"]["uid"] = json!("second");
            scene.create_pod(pod)
        };
        let created = start().reserve("n1", 1).create("n1", 1);
        let name = pod_name("n1", 1);
        let ours = made_again(created.clone().remove("carillon", (PODS, &name)));
        breaks(S2, &ours, &strict(), "one attempt has two pods");
        let theirs = made_again(created.remove("kubectl", (PODS, &name)));
        holds(S2, &theirs, &strict());
    }

    #[test]
    fn at_most_once_leaves_a_node_alone_where_a_pod_may_have_run() {
        let start = Scene::new()
            .node("n1")
            .job(json!({"executionPolicy": "AtMostOnce"}));
        let unbound = start
            .reserve("n1", 1)
            .create("n1", 1)
            .delete_pod("carillon", "n1", 1)
            .ended("n1", 1, "Disrupted", "Withdrawn");
        holds(
            S2,
            &unbound.clone().reserve("n1", 2).create("n1", 2),
            &strict(),
        );
        let bound = unbound.reserve("n1", 2).create("n1", 2).bind("n1", 2);
        let bound = bound.reserve("n1", 3).create("n1", 3);
        breaks(S2, &bound, &strict(), "pod fix-n1-2 may have run");
    }

    #[test]
    fn a_failed_node_is_tried_again_as_often_as_allowed() {
        let failed_twice = |limit: i64| {
            let mut scene = Scene::new()
                .node("n1")
                .job(json!({"backoffLimitPerNode": limit}));
            for attempt in 1..3 {
                scene = scene
                    .reserve("n1", attempt)
                    .create("n1", attempt)
                    .phase("n1", attempt, "Failed")
                    .ended("n1", attempt, "Failed", "NonZeroExitCode");
            }
            scene.reserve("n1", 3).create("n1", 3)
        };
        holds(S2, &failed_twice(2), &strict());
        breaks(S2, &failed_twice(1), &strict(), "has failed 2 times");
    }

    #[test]
    fn a_person_may_ask_for_one_more_attempt() {
        let asked = |scene: Scene, entry: &str| {
            let scene = scene.edit("kubectl", (object::JOBS, "fix"), |job| {
                job["metadata"]["annotations"] = json!({"carillon.dev/retry": entry});
            });
            scene.reserve("n1", 2).create("n1", 2)
        };
        let failed = || {
            let scene = start()
                .reserve("n1", 1)
                .create("n1", 1)
                .phase("n1", 1, "Failed");
            scene.ended("n1", 1, "Failed", "NonZeroExitCode")
        };
        holds(S2, &asked(failed(), "fix-n2-1, fix-n1-1"), &strict());
        breaks(
            S2,
            &asked(failed(), "fix-n1-2"),
            &strict(),
            "has failed 1 times",
        );
        let further = asked(failed(), "fix-n1-1").bind("n1", 2);
        let interrupted = further
            .clone()
            .delete_pod("kubectl", "n1", 2)
            .phase("n1", 2, "Failed")
            .ended("n1", 2, "Disrupted", "PodDeleted");
        holds(S2, &interrupted.reserve("n1", 3).create("n1", 3), &strict());
        let failed_again =
            further
                .phase("n1", 2, "Failed")
                .ended("n1", 2, "Failed", "NonZeroExitCode");
        breaks(
            S2,
            &failed_again.reserve("n1", 3).create("n1", 3),
            &strict(),
            "has failed 2 times",
        );
        let once = Scene::new()
            .node("n1")
            .job(json!({"executionPolicy": "AtMostOnce"}));
        let once = once.reserve("n1", 1).create("n1", 1).bind("n1", 1);
        let once = once.ended("n1", 1, "Unknown", "NodeLost");
        holds(S2, &asked(once.clone(), "fix-n1-1"), &strict());
        breaks(S2, &asked(once, "fix-n2-1"), &strict(), "may have run");
    }

    #[test]
    fn a_failure_that_a_rule_made_final_is_not_tried_again() {
        let failed = |reason: &str| {
            let scene = Scene::new()
                .node("n1")
                .job(json!({"backoffLimitPerNode": 5}));
            let scene = scene
                .reserve("n1", 1)
                .create("n1", 1)
                .phase("n1", 1, "Failed");
            scene
                .ended("n1", 1, "Failed", reason)
                .reserve("n1", 2)
                .create("n1", 2)
        };
        holds(S2, &failed("NonZeroExitCode"), &strict());
        breaks(
            S2,
            &failed("NodeFailedByPodFailurePolicy"),
            &strict(),
            "for good",
        );
    }
}
