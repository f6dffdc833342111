//! S3: no more pods at a time than allowed.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::desired::Desired;
use super::window::Window;
use super::world::{Job, World, record_changes};
use crate::history::{History, Step};
use crate::invariant::Invariant::S3;
use crate::object::{self, SLICES, at, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S3. The pods of a job that take a place are those that exist and have not ended (a pod that is
/// being deleted still does, if it was bound), and the reservations whose pod does not exist yet.
/// Exempt: pods whose attempt is recorded as NodeLost, and pods whose node is gone or not ready
/// for `nodeLostTimeoutSeconds`, or that should be dead for `podTerminationTimeoutSeconds`, if that is set.
/// - At every reservation that is appended: no more take a place than `spec.parallelism` allows.
/// - At every creation of a pod: the pod was reserved before, no more take a place than
///   `spec.parallelism` allowed at some time since its reservation, and no more pods have not ended than it
///   allows. A promise stays when `parallelism` was lowered, and waits for its place.
///
/// What is allowed is the largest value of the window that an instance may still see. Percentages
/// are of the nodes that have a record or are eligible, rounded up.
pub fn parallelism_is_kept(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut bounds: HashMap<&str, Bounds<'_>> = HashMap::new();
    let mut reserved: HashMap<(&str, &str), (u64, Timestamp)> = HashMap::new();
    for step in &history.steps {
        let created = world.created_pod(step);
        world.apply(step);
        for uid in world.concerned(step) {
            bounds.entry(uid).or_default().follow(&world, uid, step);
        }
        let most =
            |job: &str, since: Option<&_>| Some(bounds.get(job)?.most(assumptions, step, since));
        if let Some((job, pod)) = created {
            let name = object::name(pod);
            let since = reserved.get(&(job, name)).copied();
            checked.require(since.is_some(), || {
                let what = format!("pod {name} of job {job} was created without a reservation");
                Violation::at(S3, step, what)
            })?;
            for (counted, since) in [(Counted::PodsAndPromises, since), (Counted::Pods, None)] {
                let most = (most(job, since.as_ref()), counted);
                room(&world, assumptions, &mut checked, step, job, most)?;
            }
        }
        if &*step.key.resource != SLICES || assumptions.others(step) {
            continue;
        }
        let Some(job) = step.new.as_deref().and_then(object::log_of) else {
            continue;
        };
        let mut appended = false;
        for change in record_changes(step) {
            if let (None, Some(record)) = (change.old, change.new) {
                reserved.insert((job, record.pod()), (step.rev, step.at));
                appended = true;
            }
        }
        if appended {
            let most = (most(job, None), Counted::PodsAndPromises);
            room(&world, assumptions, &mut checked, step, job, most)?;
        }
    }
    Ok(checked)
}

/// What takes a place.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Counted {
    Pods,
    PodsAndPromises,
}

fn room(
    world: &World<'_>,
    assumptions: &Assumptions,
    checked: &mut Checked,
    step: &Step,
    uid: &str,
    (most, counted): (Option<usize>, Counted),
) -> Result<(), Box<Violation>> {
    let (Some(job), Some(most)) = (world.jobs.get(uid), most) else {
        return Ok(());
    };
    // What was promised by a request that has arrived after the end of the job is kept by nobody.
    let promises = counted == Counted::PodsAndPromises && job.gone.is_none();
    let taking = job.taking.iter();
    let taking = taking.filter(|name| promises || job.pods.contains_key(**name));
    let taking: Vec<_> = taking.collect();
    let taken = if taking.len() <= most {
        taking.len()
    } else {
        let lost = |name: &&&&str| is_lost(world, assumptions, job, step, name);
        taking.len() - taking.iter().filter(lost).count()
    };
    checked.require(taken <= most, || {
        let what = format!(
            "{taken} pods of job {} run or are promised, {most} may: {taking:?}",
            job.key
        );
        Violation::at(S3, step, what)
    })
}

/// Whether the node of a pod has not answered for `nodeLostTimeoutSeconds`, or the pod was to be dead for
/// `podTerminationTimeoutSeconds`.
fn is_lost(
    world: &World<'_>,
    assumptions: &Assumptions,
    job: &Job<'_>,
    now: &Step,
    name: &str,
) -> bool {
    let (Some(pod), Some(record)) = (job.pods.get(name), job.records.get(name)) else {
        return false;
    };
    if !object::is_bound(pod) {
        return false;
    }
    let killed = time(pod, &["metadata", "deletionTimestamp"]);
    let node = world
        .node(record.node())
        .filter(|node| object::uid(node) == record.node_uid());
    let silent = match node {
        None => world.nodes.get(record.node()).and_then(|versions| {
            let gone = versions.iter().rfind(|version| version.node.is_none());
            gone.map(|version| version.since.1)
        }),
        Some(node) => object::condition(node, "Ready")
            .filter(|ready| ready["status"] != "True")
            .and_then(|ready| time(ready, &["lastTransitionTime"])),
    };
    let long_ago = |since: Option<Timestamp>, field: &str| {
        let timeout = at(job.last, &["spec", field]).and_then(Value::as_i64);
        since.zip(timeout).is_some_and(|(since, timeout)| {
            let limit = SignedDuration::from_secs(timeout) - assumptions.clock_skew;
            now.at.duration_since(since) >= limit
        })
    };
    long_ago(killed, "podTerminationTimeoutSeconds") || long_ago(silent, "nodeLostTimeoutSeconds")
}

/// How many pods a job was allowed, over time. A percentage and the nodes it is of come by two watches: an
/// instance may know the last of the one and an earlier state of the other.
#[derive(Debug, Default)]
struct Bounds<'h> {
    desired: Desired<'h>,
    parallelism: Window<&'h Value>,
    present: Window<usize>,
}

impl<'h> Bounds<'h> {
    fn follow(&mut self, world: &World<'h>, uid: &str, step: &'h Step) {
        let Some(job) = world.jobs.get(uid) else {
            return;
        };
        self.desired.follow(world, uid, step);
        let parallelism = &job.last["spec"]["parallelism"];
        self.parallelism.follow(step, parallelism);
        self.present.follow(step, self.desired.present());
    }

    fn most(
        &self,
        assumptions: &Assumptions,
        now: &Step,
        since: Option<&(u64, Timestamp)>,
    ) -> usize {
        let present = self.present.most(assumptions, now, since);
        let allowed = |parallelism: &&Value| match parallelism {
            Value::String(percent) => {
                let percent: usize = percent.trim_end_matches('%').parse().unwrap_or(0);
                (present * percent).div_ceil(100)
            }
            Value::Number(number) => number.as_u64().unwrap_or(0) as usize,
            _ => usize::MAX,
        };
        let parallelism = self.parallelism.seen(assumptions, now, since);
        parallelism.map(allowed).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{JOBS, NODES};
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn start(parallelism: &Value) -> Scene {
        let nodes = Scene::new().node("n1").node("n2").node("n3");
        nodes.job(json!({"parallelism": parallelism}))
    }

    fn lower(scene: Scene, parallelism: i64) -> Scene {
        scene.edit("kubectl", (JOBS, "fix"), |job| {
            job["spec"]["parallelism"] = json!(parallelism);
        })
    }

    #[test]
    fn a_place_is_free_when_the_pod_has_ended() {
        let scene = start(&json!(1)).succeed("n1", 1).succeed("n2", 1);
        holds(S3, &scene, &strict());
        let without = Scene::new().node("n1").node("n2").job(json!({}));
        holds(
            S3,
            &without.reserve("n1", 1).reserve("n2", 1).create("n1", 1),
            &strict(),
        );
    }

    #[test]
    fn a_reservation_beyond_parallelism_is_found() {
        let scene = start(&json!(1)).reserve("n1", 1).reserve("n2", 1);
        breaks(S3, &scene, &strict(), "2 pods of job");
    }

    #[test]
    fn a_terminating_pod_keeps_its_place_and_one_of_a_lost_node_does_not() {
        let terminating = start(&json!(1))
            .reserve("n1", 1)
            .create("n1", 1)
            .bind("n1", 1)
            .delete_pod("kubectl", "n1", 1);
        let told = terminating
            .clone()
            .ended("n1", 1, "Disrupted", "PodDeleted");
        breaks(S3, &told.reserve("n2", 1), &strict(), "2 pods of job");
        let lost = terminating.ended("n1", 1, "Unknown", "NodeLost");
        holds(S3, &lost.reserve("n2", 1).create("n2", 1), &strict());
    }

    #[test]
    fn a_pod_that_is_deleted_before_it_is_bound_takes_no_place() {
        let made = start(&json!(1)).reserve("n1", 1).create("n1", 1);
        let deleted = made.clone().delete_pod("kubectl", "n1", 1);
        holds(S3, &deleted.reserve("n2", 1), &strict());
        breaks(S3, &made.reserve("n2", 1), &strict(), "2 pods of job");
    }

    #[test]
    fn a_pod_without_a_reservation_is_found() {
        let scene = start(&json!(1)).create("n1", 1);
        breaks(S3, &scene, &strict(), "without a reservation");
    }

    #[test]
    fn a_reservation_in_a_slice_that_its_deleted_retry_has_left_behind_is_one() {
        let left = start(&json!(1)).slice(|slice| {
            slice["metadata"]["ownerReferences"] = json!([{"apiVersion": "carillon.dev/v1alpha1",
                "kind": "BroadcastJob", "name": "first", "uid": "first"}]);
        });
        holds(S3, &left.reserve("n1", 1).create("n1", 1), &strict());
    }

    #[test]
    fn when_parallelism_was_lowered_a_promise_waits_for_its_place_and_no_new_one_is_made() {
        let lowered = lower(start(&json!(2)).reserve("n1", 1).reserve("n2", 1), 1);
        let kept = lowered.create("n1", 1);
        holds(S3, &kept, &strict());
        breaks(
            S3,
            &kept.clone().create("n2", 1),
            &strict(),
            "2 pods of job",
        );
        breaks(
            S3,
            &kept.clone().reserve("n3", 1),
            &strict(),
            "3 pods of job",
        );
        let ended = kept.bind("n1", 1).phase("n1", 1, "Succeeded");
        holds(S3, &ended.create("n2", 1), &strict());
    }

    #[test]
    fn what_is_promised_when_the_job_is_gone_takes_no_place_and_a_pod_does() {
        let open = start(&json!(1)).reserve("n1", 1).create("n1", 1);
        let pod = open.pod("n2", 1);
        let late = open.remove("user", (JOBS, "fix")).reserve("n2", 1);
        holds(S3, &late, &strict());
        breaks(S3, &late.create_pod(pod), &strict(), "2 pods of job");
    }

    #[test]
    fn a_late_pod_of_a_reservation_that_was_given_up_counts() {
        let scene = start(&json!(1))
            .reserve("n1", 1)
            .record("n1", 1, |record| record["state"] = json!("Disrupted"))
            .reserve("n2", 1)
            .create("n1", 1);
        breaks(S3, &scene, &strict(), "2 pods of job");
    }

    #[test]
    fn an_old_value_counts_only_as_long_as_somebody_may_see_it() {
        let scene = lower(start(&json!(2)).reserve("n1", 1), 1).reserve("n2", 1);
        breaks(S3, &scene, &strict(), "2 pods of job");
        let lagging = Assumptions {
            lag: SignedDuration::from_secs(10),
            ..strict()
        };
        holds(S3, &scene, &lagging);
        let late = lower(start(&json!(2)).reserve("n1", 1), 1)
            .later(60)
            .reserve("n2", 1);
        breaks(S3, &late, &lagging, "2 pods of job");
    }

    #[test]
    fn a_percentage_is_of_the_nodes_to_serve_and_rounded_up() {
        let two_of_three = start(&json!("50%")).reserve("n1", 1).reserve("n2", 1);
        holds(S3, &two_of_three, &strict());
        breaks(
            S3,
            &two_of_three.clone().reserve("n3", 1),
            &strict(),
            "3 pods of job",
        );
        let cordoned = start(&json!("50%")).cordon("n3", true).reserve("n1", 1);
        breaks(S3, &cordoned.reserve("n2", 1), &strict(), "2 pods of job");
        let replaced = start(&json!("50%"))
            .remove("kubectl", (NODES, "n3"))
            .node_with_uid("n3", "another")
            .reserve("n1", 1)
            .reserve("n2", 1);
        holds(S3, &replaced, &strict());
    }

    #[test]
    fn a_new_percentage_may_be_of_the_nodes_that_were_there_before() {
        let raised = start(&json!("1%"))
            .remove("kubectl", (NODES, "n3"))
            .edit("kubectl", (JOBS, "fix"), |job| {
                job["spec"]["parallelism"] = json!("67%");
            })
            .reserve("n1", 1)
            .reserve("n2", 1);
        let lagging = Assumptions {
            lag: SignedDuration::from_secs(10),
            ..strict()
        };
        holds(S3, &raised.clone().reserve("n3", 1), &lagging);
        holds(S3, &raised, &strict());
        breaks(S3, &raised.reserve("n3", 1), &strict(), "3 pods of job");
    }

    #[test]
    fn a_pod_whose_node_does_not_answer_holds_up_nobody() {
        let silent = |timeout: i64| {
            let scene = Scene::new().node("n1").node("n2");
            let scene = scene.job(json!({"parallelism": 1, "nodeLostTimeoutSeconds": timeout}));
            let scene = scene.reserve("n1", 1).create("n1", 1).bind("n1", 1);
            let since = scene.now().to_string();
            scene.edit("kubelet", (NODES, "n1"), |node| {
                node["status"]["conditions"] = json!([
                    {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]);
            })
        };
        holds(
            S3,
            &silent(60).later(60).reserve("n2", 1).create("n2", 1),
            &strict(),
        );
        breaks(
            S3,
            &silent(60).later(10).reserve("n2", 1),
            &strict(),
            "2 pods of job",
        );
        let gone = |seconds| silent(60).remove("kubectl", (NODES, "n1")).later(seconds);
        holds(S3, &gone(60).reserve("n2", 1), &strict());
        breaks(S3, &gone(10).reserve("n2", 1), &strict(), "2 pods of job");
        let killed = |seconds| {
            let scene = silent(3600).delete_pod("kubectl", "n1", 1).later(seconds);
            scene.edit("kubectl", (JOBS, "fix"), |job| {
                job["spec"]["podTerminationTimeoutSeconds"] = json!(60);
            })
        };
        holds(S3, &killed(60).reserve("n2", 1), &strict());
        breaks(S3, &killed(10).reserve("n2", 1), &strict(), "2 pods of job");
    }
}
