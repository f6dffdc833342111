//! S12: what one job may cost.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::back_off;
use super::desired::Desired;
use super::eligible;
use super::world::{World, record_changes};
use crate::cron_job::object::is_of_a_run;
use crate::history::{History, Step};
use crate::invariant::Invariant::S12;
use crate::object::{self, JOB_LABELS, JOBS, NODES, PODS, SLICES, at, number, text};
use crate::requests::Requests;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S12. For every job:
/// - a pod is created only for a node that was eligible at some revision since the job exists, or as we
///   may still have seen it then;
/// - the pods created for a node (by uid) are at most one, plus those interrupted (deleted, evicted
///   or robbed of their finalizer by others before they ended, or stopped by us before they were bound
///   or because their reservation had been withdrawn) or refused by the kubelet, plus
///   `backoffLimitPerNode` for failed ones. With a `podFailurePolicy`, which may call an end an
///   interruption: plus the records that say so. And plus what the annotation `carillon.dev/retry`
///   asked for;
/// - after a failure of a node its next pod comes no sooner than 10 s after the recorded end, doubled
///   for each further failure up to 10 minutes, unless the annotation asks for it;
/// - a pod is written at most `writes_per_pod` times by us;
/// - our writes of job, slices and pods are at most a base, plus so many for each record, and for
///   each change of the job or of a node by others.
pub fn bounded_cost(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut costs: HashMap<&str, Cost<'_>> = HashMap::new();
    let mut writes = Requests::default();
    // How often others have changed the labels of a pod by which it is found.
    let mut mislabelled: HashMap<&str, u64> = HashMap::new();
    for step in &history.steps {
        let created = world.created_pod(step);
        if let Some((job, pod)) = created
            && world.jobs.contains_key(job)
        {
            let node = world.node_uid(job, pod);
            let cost = costs.entry(job).or_default();
            cost.creation(&world, &mut checked, step, (job, pod, node))?;
            let (job, pod) = (&world.jobs[job], object::name(pod));
            let hasty = back_off::too_soon(job, pod, &cost.asked, assumptions, step);
            checked.require(hasty.is_none(), || {
                Violation::at(S12, step, hasty.unwrap_or_default())
            })?;
        }
        if &*step.key.resource == PODS {
            note_interruption(&mut costs, &world, assumptions, step);
        }
        world.apply(step);
        for uid in world.concerned(step) {
            let cost = costs.entry(uid).or_default();
            cost.desired.follow(&world, uid, step);
            let by_others = !assumptions.ours(step) || is_of_a_run(step);
            cost.provoked += u64::from(by_others && [JOBS, NODES].contains(&&*step.key.resource));
            match (&*step.key.resource, step.new.as_deref()) {
                (SLICES, _) => cost.note_records(step),
                (JOBS, Some(job)) => {
                    let retry = text(job, &["metadata", "annotations", "carillon.dev/retry"]);
                    cost.asked.extend(retry.split(',').map(str::trim));
                    cost.follow(&job["spec"]);
                }
                _ => {}
            }
        }
        if let (PODS, Some(old), Some(new)) = (&*step.key.resource, &step.old, &step.new)
            && !assumptions.ours(step)
            && JOB_LABELS.iter().any(|label| {
                let of = |pod: &Value| text(pod, &["metadata", "labels", label]).to_owned();
                of(old) != of(new)
            })
        {
            *mislabelled.entry(object::uid(new)).or_default() += 1;
        }
        let written = step.new.as_deref().or(step.old.as_deref());
        // What a CronJob does with a job it started is not the job's cost, but a change by others.
        let ours = assumptions.ours(step) && !is_of_a_run(step);
        let Some(object) = written.filter(|_| ours) else {
            continue;
        };
        let job = match &*step.key.resource {
            JOBS => Some(object::uid(object)),
            PODS => object::job_of(object),
            SLICES => object::log_of(object),
            _ => None,
        };
        if &*step.key.resource == PODS {
            let writes = writes.count(object::uid(object), step);
            let again = mislabelled.get(object::uid(object)).copied().unwrap_or(0);
            checked.require(writes <= assumptions.writes_per_pod + again, || {
                let what = format!("{} was written {writes} times", step.key);
                Violation::at(S12, step, what)
            })?;
        }
        if let Some(job) = job {
            let cost = costs.entry(job).or_default();
            cost.writes += 1;
            let (base, each) = assumptions.writes_per_job;
            let most = base + each * (cost.records.len() as u64 + cost.provoked);
            checked.require(cost.writes <= most, || {
                let what = format!(
                    "{} writes for job {job} with {} attempts, after {} changes by others; {most} are allowed",
                    cost.writes,
                    cost.records.len(),
                    cost.provoked
                );
                Violation::at(S12, step, what)
            })?;
        }
    }
    Ok(checked)
}

#[derive(Default)]
struct Cost<'h> {
    desired: Desired<'h>,
    /// By uid of the node: pods created.
    created: HashMap<&'h str, u64>,
    /// By uid of the pod: uid of the node.
    node: HashMap<&'h str, &'h str>,
    /// Pods that were interrupted.
    interrupted: HashSet<&'h str>,
    /// By uid of the node: how many of its pods were.
    interruptions: HashMap<&'h str, u64>,
    /// Names of pods that are recorded as failed or as interrupted, with uid of the node.
    failed: BTreeSet<(&'h str, &'h str)>,
    recorded: BTreeSet<(&'h str, &'h str)>,
    records: HashSet<&'h str>,
    /// All that the annotation for retries ever asked for.
    asked: BTreeSet<&'h str>,
    /// The largest `backoffLimitPerNode`, and whether there ever was a `podFailurePolicy`.
    limit: u64,
    judged_by_policy: bool,
    writes: u64,
    provoked: u64,
}

impl<'h> Cost<'h> {
    fn creation(
        &mut self,
        world: &World<'h>,
        checked: &mut Checked,
        step: &'h Step,
        (job, pod, node): (&'h str, &'h Value, &'h str),
    ) -> Result<(), Box<Violation>> {
        let ever = self.desired.ever_eligible.contains(node);
        checked.require(
            ever || seems_eligible(world, step, (job, pod, node)),
            || {
                let what = format!(
                    "pod {} is for node {} ({node:?}), which was never eligible",
                    object::name(pod),
                    object::node_of(pod)
                );
                Violation::at(S12, step, what)
            },
        )?;
        self.node.insert(object::uid(pod), node);
        let created = self.created.entry(node).or_default();
        *created += 1;
        let created = *created;
        let of_node = |set: &BTreeSet<(&str, &str)>| {
            set.range((node, "")..)
                .take_while(|(n, _)| *n == node)
                .count() as u64
        };
        let seen = self.interruptions.get(node).copied().unwrap_or_default();
        let interruptions = if self.judged_by_policy {
            seen.max(of_node(&self.recorded))
        } else {
            seen
        };
        let most = 1 + interruptions + self.limit.min(of_node(&self.failed)) + self.asked(node);
        checked.require(created <= most, || {
            let what = format!(
                "pod {} is number {created} for node {}; {interruptions} were interrupted",
                object::name(pod),
                object::node_of(pod)
            );
            Violation::at(S12, step, what)
        })
    }

    /// The most that the policies have allowed so far: they may be edited.
    fn follow(&mut self, spec: &Value) {
        let limit = number(spec, &["backoffLimitPerNode"]).max(0) as u64;
        self.limit = self.limit.max(limit);
        let policy = [
            &["podFailurePolicy"][..],
            &["failurePolicy", "podFailurePolicy"],
        ];
        self.judged_by_policy |= policy.iter().any(|path| at(spec, path).is_some());
    }

    /// Further attempts that a person has asked for.
    fn asked(&self, node: &str) -> u64 {
        let known = self.failed.union(&self.recorded);
        let asked = known.filter(|(on, pod)| *on == node && self.asked.contains(pod));
        asked.count() as u64
    }

    fn note_records(&mut self, step: &'h Step) {
        for record in record_changes(step).iter().filter_map(|change| change.new) {
            let entry = (record.node_uid(), record.pod());
            self.records.insert(record.pod());
            match record.state() {
                "Failed" => self.failed.insert(entry),
                "Disrupted" | "Unknown" => self.recorded.insert(entry),
                _ => continue,
            };
        }
    }
}

/// Whether the node of a pod was eligible in a version that we may still see.
fn seems_eligible(world: &World<'_>, step: &Step, (job, pod, uid): (&str, &Value, &str)) -> bool {
    let versions = world.node_versions(object::node_of(pod), step).flatten();
    let mut versions = versions.filter(|node| object::uid(node) == uid);
    versions.any(|node| {
        let mut specs = world.specs(job, step);
        specs.any(|spec| eligible::refusal(spec, node).is_none())
    })
}

fn note_interruption<'h>(
    costs: &mut HashMap<&'h str, Cost<'h>>,
    world: &World<'h>,
    assumptions: &Assumptions,
    step: &'h Step,
) {
    let Some(old) = step.old.as_deref() else {
        return;
    };
    let Some(cost) = object::job_of(old).and_then(|job| costs.get_mut(job)) else {
        return;
    };
    let new = step.new.as_deref();
    let deleted = !object::is_deleting(old) && new.is_none_or(object::is_deleting);
    let ours = assumptions.ours(step);
    let withdrawn = || {
        let job = world.jobs.get(object::job_of(old)?)?;
        let record = job.records.get(object::name(old))?;
        Some(record.reason() == "Withdrawn")
    };
    let in_vain = !object::is_bound(old) || withdrawn() == Some(true);
    let stopped = deleted && !object::has_ended(old) && (!ours || in_vain);
    let robbed = object::loses_finalizer(step) && assumptions.others(step);
    let disrupted = new.is_some_and(object::is_disrupted);
    let rejected = new.is_some_and(object::was_rejected) && object::phase(old) == "Pending";
    if !(stopped || robbed || disrupted || rejected) || !cost.interrupted.insert(object::uid(old)) {
        return;
    }
    if let Some(node) = cost.node.get(object::uid(old)) {
        *cost.interruptions.entry(node).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    fn ran(spec: Value) -> Scene {
        let scene = Scene::new().node("n1").job(spec);
        scene.reserve("n1", 1).create("n1", 1).bind("n1", 1)
    }

    fn again(scene: Scene) -> Scene {
        scene.reserve("n1", 2).create("n1", 2)
    }

    #[test]
    fn a_clean_run_costs_what_it_may() {
        holds(S12, &Scene::good(), &strict());
    }

    #[test]
    fn a_node_was_eligible_once_or_is_seen_so() {
        let cordoned = Scene::new().node("n1").cordon("n1", true).job(json!({}));
        let started = cordoned.reserve("n1", 1).create("n1", 1);
        breaks(S12, &started, &strict(), "which was never eligible");
        let lags = Assumptions {
            lag_revisions: 5,
            ..strict()
        };
        holds(S12, &started, &lags);
    }

    #[test]
    fn a_node_that_failed_is_left_alone_for_a_while_unless_somebody_asks() {
        let failed = |spec| {
            let scene = ran(spec).phase("n1", 1, "Failed");
            let scene = scene.ended("n1", 1, "Failed", "NonZeroExitCode");
            let now = json!(scene.now().to_string());
            scene.record("n1", 1, |record| record["completionTime"] = now)
        };
        let twice = json!({"backoffLimitPerNode": 2});
        let soon = again(failed(twice.clone()).later(1));
        breaks(S12, &soon, &strict(), "are to be waited");
        let later = again(failed(twice.clone()).later(9));
        holds(S12, &later, &strict());
        let asked = failed(twice).edit("kubectl", (JOBS, "fix"), |job| {
            job["metadata"]["annotations"] = json!({"carillon.dev/retry": "fix-n1-1"});
        });
        holds(S12, &again(asked.later(1)), &strict());
    }

    #[test]
    fn a_node_that_was_never_eligible_gets_no_pod() {
        let scene = Scene::new().node("n1").cordon("n1", true).job(json!({}));
        breaks(
            S12,
            &scene.reserve("n1", 1).create("n1", 1),
            &strict(),
            "never eligible",
        );
    }

    #[test]
    fn a_further_pod_needs_an_interruption_of_the_one_before() {
        breaks(
            S12,
            &again(ran(json!({}))),
            &strict(),
            "number 2 for node n1",
        );
        let deleted = ran(json!({})).delete_pod("kubectl", "n1", 1);
        holds(S12, &again(deleted), &strict());
        let stopped = |reason| {
            let over = ran(json!({})).ended("n1", 1, "Disrupted", reason);
            again(over.delete_pod("carillon", "n1", 1))
        };
        holds(S12, &stopped("Withdrawn"), &strict());
        breaks(S12, &stopped("NodeLost"), &strict(), "number 2 for node n1");
        let evicted = ran(json!({})).edit("kubelet", (PODS, &pod_name("n1", 1)), |pod| {
            pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
        });
        holds(S12, &again(evicted), &strict());
        let ended = ran(json!({}))
            .phase("n1", 1, "Failed")
            .delete_pod("kubectl", "n1", 1);
        breaks(S12, &again(ended), &strict(), "number 2");
        let stopped = ran(json!({})).delete_pod("carillon", "n1", 1);
        breaks(S12, &again(stopped), &strict(), "number 2");
        let unbound = Scene::new()
            .node("n1")
            .job(json!({}))
            .reserve("n1", 1)
            .create("n1", 1);
        holds(
            S12,
            &again(unbound.delete_pod("carillon", "n1", 1)),
            &strict(),
        );
    }

    #[test]
    fn failed_pods_are_replaced_as_often_as_allowed_and_refused_ones_always() {
        let failed = |spec| {
            let scene = ran(spec).phase("n1", 1, "Failed");
            again(scene.ended("n1", 1, "Failed", "NonZeroExitCode"))
        };
        breaks(S12, &failed(json!({})), &strict(), "number 2");
        holds(S12, &failed(json!({"backoffLimitPerNode": 1})), &strict());
        let name = pod_name("n1", 1);
        let refused = ran(json!({})).edit("kubelet", (PODS, &name), |pod| {
            pod["status"] = json!({"phase": "Failed", "reason": "OutOfcpu"});
        });
        let refused = refused.ended("n1", 1, "Disrupted", "RejectedByKubelet");
        holds(S12, &again(refused), &strict());
        let ignored = |spec| {
            let scene = ran(spec).phase("n1", 1, "Failed");
            again(scene.ended("n1", 1, "Disrupted", "Ignored"))
        };
        breaks(S12, &ignored(json!({})), &strict(), "number 2");
        holds(
            S12,
            &ignored(json!({"podFailurePolicy": {"rules": []}})),
            &strict(),
        );
    }

    #[test]
    fn writes_are_bounded() {
        let mut scene = ran(json!({}));
        for label in 0..3 {
            scene = scene.edit("carillon", (PODS, &pod_name("n1", 1)), |pod| {
                pod["metadata"]["labels"]["n"] = json!(label);
            });
        }
        breaks(S12, &scene, &strict(), "was written 4 times");
        let stormy = |writes: i64| {
            let start = ran(json!({}));
            (0..writes).fold(start, |scene, n| {
                scene.counts(0, 0).status(|s| s["n"] = json!(n))
            })
        };
        let tight = Assumptions {
            writes_per_job: (4, 2),
            ..strict()
        };
        // Reservation, pod, and two writes of the status each time; one attempt and one job.
        holds(S12, &stormy(3), &tight);
        let beyond = stormy(3).counts(0, 0);
        breaks(S12, &beyond, &tight, "9 writes for job");
    }

    #[test]
    fn a_person_may_ask_for_one_more() {
        let asked = |entry: &str| {
            let scene = ran(json!({})).phase("n1", 1, "Failed");
            let scene = scene.ended("n1", 1, "Failed", "NonZeroExitCode");
            again(scene.edit("kubectl", (JOBS, "fix"), |job| {
                job["metadata"]["annotations"] = json!({"carillon.dev/retry": entry});
            }))
        };
        holds(S12, &asked("fix-n1-1"), &strict());
        breaks(S12, &asked("fix-n2-1"), &strict(), "number 2");
    }
}
