//! L1, L2 and L6: what is wanted comes to pass.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::conditions::{not_stalled, other_outcome};
use super::counting::Tally;
use super::eligible;
use super::family;
use super::standing::{Standing, accepted, standing, standings, tried};
use super::world::{Job, World};
use crate::history::{History, Step};
use crate::invariant::Invariant::{self, L1, L2, L6};
use crate::object::{self, JOBS, Node, Record, at, is_true, number, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L1, for a run that is `over`.
///
/// Every job that is left, and that nobody has deleted, has come to where its spec says:
/// - Failed: no pod of it is left that has not ended, and Stalled tells its reason; for `MaxFailedNodesExceeded` a node failed, for
///   `DeadlineExceeded` there is, or was as that was decided, a deadline, and so on;
/// - Complete: its type is Always, no pod of it is left that has not ended, and its reason is
///   `AllNodesSucceeded` only if no node failed;
/// - paused, by `spec.paused` or because a node failed and the policy is Pause, in which case it is Stalled,
///   and not about to end;
/// - with `may_stall`: Stalled;
/// - open: every eligible node has an outcome (it succeeded, or failed and is not tried again: see
///   `backoffLimitPerNode`, `podFailurePolicy`, `executionPolicy` and the annotation `carillon.dev/retry`),
///   no attempt is under way on a node that answers, no more nodes have failed than FailFast and Pause
///   let pass, and the job has a reason to be open: type Never; no node at all and
///   `noEligibleNodesPolicy: Wait`; a node that is to be tried again and is not eligible; or one that does
///   not answer.
///
/// And when a job became Complete, each node that everybody saw as eligible had an outcome, and no
/// more nodes had failed than its policy lets pass, or let pass as its log was sealed. FailFast and
/// Pause let as many pass as `maxFailedNodes` says, or as a resume has accepted that are still failed.
pub fn all_is_done(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        done_at_the_end(L1, history, assumptions)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L6, for a run that is `over` and had `permanent_faults`: L1 holds although faults never ended.
pub fn all_is_done_under_pressure(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over && assumptions.permanent_faults {
        done_at_the_end(L6, history, assumptions)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L2, for a run that was `healed`: what L1 says of the end is so at the latest when the bound is
/// over, counted from the time of the last fault.
pub fn done_in_time(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let Some((healed, bound)) = assumptions.healed else {
        return Ok(checked);
    };
    let due = healed.checked_add(bound).unwrap_or(Timestamp::MAX);
    let mut world = World::new(assumptions);
    let mut last = None;
    for step in history.steps.iter().take_while(|step| step.at <= due) {
        world.apply(step);
        last = Some(step);
    }
    for (uid, job) in &world.jobs {
        each_is_done(L2, &mut checked, &world, assumptions, (uid, job), last)?;
    }
    Ok(checked)
}

fn done_at_the_end(invariant: Invariant, history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        world.apply(step);
        if let (JOBS, Some(old), Some(new)) = (&*step.key.resource, &step.old, &step.new)
            && is_true(new, "Complete")
            && !is_true(old, "Complete")
            && !assumptions.others(step)
        {
            let wrong = completed_too_early(&world, step, new);
            checked.require(wrong.is_none(), || {
                let wrong = wrong.unwrap_or_default();
                Violation::at(
                    invariant,
                    step,
                    format!("{} is Complete and {wrong}", step.key),
                )
            })?;
        }
    }
    for (uid, job) in &world.jobs {
        each_is_done(
            invariant,
            &mut checked,
            &world,
            assumptions,
            (uid, job),
            history.steps.last(),
        )?;
    }
    Ok(checked)
}

fn each_is_done(
    invariant: Invariant,
    checked: &mut Checked,
    world: &World<'_>,
    assumptions: &Assumptions,
    (_, job): (&str, &Job<'_>),
    last: Option<&Step>,
) -> Result<(), Box<Violation>> {
    if !job.is_alive() {
        return Ok(());
    }
    let wrong = not_done(world, assumptions, job);
    checked.require(wrong.is_none(), || {
        let what = format!("{}: {}", job.key, wrong.unwrap_or_default());
        Violation::in_state(invariant, last, job.key, Some(job.last), what)
    })
}

fn completed_too_early(world: &World<'_>, step: &Step, object: &Value) -> Option<String> {
    let job = world.jobs.get(object::uid(object))?;
    // What came after the seal came after the end.
    let seen = job.sealed_by.iter().copied().chain([object]);
    let wrong: Option<Vec<String>> = seen
        .map(|seen| too_early(world, (job, seen), step))
        .collect();
    wrong.and_then(|mut wrong| wrong.pop())
}

/// Why a job must not be Complete, as far as whoever has seen this version of it knows.
fn too_early(world: &World<'_>, (job, object): (&Job<'_>, &Value), step: &Step) -> Option<String> {
    let tried = tried(job);
    let open = world.nodes.keys().find(|name| {
        let mut versions = world.node_versions(name, step);
        versions.all(|node| {
            node.is_some_and(|node| {
                let known = tried.get(&(**name, object::uid(node)));
                let standing = known.map(|tried| standing(object, tried, true));
                !matches!(standing, Some(Standing::Succeeded | Standing::Failed))
                    && eligible::refusal(&object["spec"], node).is_none()
                    && !family::is_settled(world, object, node)
            })
        })
    });
    if let Some(node) = open {
        return Some(format!("node {node} is eligible and has no outcome"));
    }
    let is_seen = |(name, uid): Node<'_>| {
        let mut versions = world.node_versions(name, step).flatten();
        versions.any(|node| object::uid(node) == uid)
    };
    too_many_failures(world, job, &object["spec"], &is_seen)
}

/// Failures that the policy does not let pass.
fn too_many_failures(
    world: &World<'_>,
    job: &Job<'_>,
    spec: &Value,
    is_there: &dyn Fn(Node<'_>) -> bool,
) -> Option<String> {
    let policy = &spec["failurePolicy"];
    let standings = standings(world, job);
    let by_rule = standings.iter().find(|(_, tried, standing)| {
        *standing == Standing::Failed && tried.decides().reason() == "JobFailedByPodFailurePolicy"
    });
    if let Some(((node, _), ..)) = by_rule {
        return Some(format!("a rule says that the job fails with node {node}"));
    }
    let failed = standings
        .iter()
        .filter(|(.., standing)| *standing == Standing::Failed);
    let failed = failed.count() as i64;
    // Percentages are of the nodes of now.
    let gone = standings
        .iter()
        .filter(|(node, _, standing)| *standing != Standing::Gone && !is_there(*node));
    let desired = number(job.last, &["status", "desired"]) - gone.count() as i64;
    let tolerated = match &policy["maxFailedNodes"] {
        Value::String(percent) => {
            let percent: i64 = percent.trim_end_matches('%').parse().unwrap_or(0);
            desired * percent / 100
        }
        count => count.as_i64().unwrap_or(0),
    };
    let tolerated = tolerated.max(accepted(&standings) as i64);
    let policy = match text(policy, &["type"]) {
        "" => "FailFast",
        policy => policy,
    };
    (policy != "Continue" && failed > tolerated)
        .then(|| format!("{failed} nodes failed, {tolerated} may, and the policy is {policy}"))
}

/// What is left to be done, or should not be.
fn not_done(world: &World<'_>, assumptions: &Assumptions, job: &Job<'_>) -> Option<String> {
    let (object, spec) = (job.last, &job.last["spec"]);
    let never = text(spec, &["completionPolicy", "type"]) == "Never";
    let left = || {
        let pod = job.taking.iter().next()?;
        Some(format!("it has ended and pod {pod} has not"))
    };
    if (object::is_terminal(object) || is_true(object, "FailureTarget"))
        && is_true(object, "Paused")
    {
        return Some("it ends, and says that it is paused".to_owned());
    }
    if let Some(reason) = object::reason(object, "Failed") {
        let failed = || Tally::of(job).failed > 0;
        let any = |is_so: fn(&Value) -> bool| {
            let seen = job.failed_by.iter().map(|seen| &seen["spec"]);
            seen.chain([spec]).any(is_so)
        };
        let cause = match reason {
            "MaxFailedNodesExceeded" => failed(),
            "DeadlineExceeded" => {
                any(|spec| at(spec, &["completionPolicy", "activeDeadlineSeconds"]).is_some())
            }
            "NoEligibleNodes" => any(|spec| text(spec, &["noEligibleNodesPolicy"]) == "Fail"),
            "PodFailurePolicy" => {
                let decided =
                    |record: &Record<'_>| record.reason() == "JobFailedByPodFailurePolicy";
                job.records.values().any(decided)
            }
            _ => false,
        };
        let no_cause =
            || format!("it is Failed because of {reason:?}, for which there is no cause");
        let silent = || not_stalled(object, reason);
        return left().or_else(|| (!cause).then(no_cause)).or_else(silent);
    }
    if is_true(object, "Complete") {
        return left()
            .or_else(|| never.then(|| "it is Complete and of type Never".to_owned()))
            .or_else(|| other_outcome(object));
    }
    if is_true(object, "FailureTarget") {
        return Some("it is going to fail and has not".to_owned());
    }
    let failed = Tally::of(job).ever_failed > 0;
    let paused = is_true(object, "Paused");
    let by_policy = text(spec, &["failurePolicy", "type"]) == "Pause" && failed;
    if spec["paused"] == true || by_policy && paused {
        if !paused {
            return Some("it is paused and does not say so".to_owned());
        }
        return match object::reason(object, "Paused") {
            Some("PausedByFailure") => not_stalled(object, ""),
            _ => None,
        };
    }
    if paused {
        return Some("it says it is paused, and nothing pauses it".to_owned());
    }
    if is_true(object, "Stalled") {
        let condition = object::condition(object, "Stalled");
        let may = assumptions.may_stall || family::is_broken(world, object);
        return (!may).then(|| {
            format!(
                "it is Stalled: {}",
                condition.map_or(String::new(), Value::to_string)
            )
        });
    }
    open_without_reason(world, job, never)
}

fn open_without_reason(world: &World<'_>, job: &Job<'_>, never: bool) -> Option<String> {
    if family::waits(world, job.last) {
        return None;
    }
    let spec = &job.last["spec"];
    let standings = standings(world, job);
    // A node that is gone or does not answer may come back with the outcome of its pod.
    let answers = |(name, uid): Node<'_>| {
        let node = world.node(name).filter(|node| object::uid(node) == uid);
        node.is_some_and(is_ready)
    };
    let mut waits = false;
    for (id, tried, standing) in &standings {
        let node = world.node(id.0).filter(|node| object::uid(node) == id.1);
        let eligible = node.is_some_and(|node| eligible::refusal(spec, node).is_none());
        match standing {
            Standing::UnderWay if tried.latest.is_reservation() || answers(*id) => {
                return Some(format!("an attempt is under way: {}", tried.latest.0));
            }
            Standing::Again if eligible => {
                let found = tried.latest.0;
                return Some(format!(
                    "node {} is eligible and has no outcome, but {found}",
                    id.0
                ));
            }
            Standing::UnderWay | Standing::Again => waits = true,
            Standing::Succeeded | Standing::Failed | Standing::Skipped | Standing::Gone => {}
        }
    }
    let known: HashSet<Node<'_>> = standings.iter().map(|(id, ..)| *id).collect();
    let nodes = world
        .nodes
        .keys()
        .filter_map(|name| Some((*name, world.node(name)?)));
    let mut untouched = nodes.filter(|(name, node)| !known.contains(&(*name, object::uid(node))));
    if let Some((name, _)) = untouched.find(|(_, node)| {
        eligible::refusal(spec, node).is_none() && !family::is_settled(world, job.last, node)
    }) {
        return Some(format!("node {name} is eligible and has no outcome"));
    }
    if let Some(failures) = too_many_failures(world, job, spec, &|node| world.has_node(node)) {
        return Some(format!("it is open: {failures}"));
    }
    let served = standings.iter().any(|(.., s)| *s != Standing::Gone);
    let may_wait = match text(spec, &["noEligibleNodesPolicy"]) {
        "" | "Wait" => !served,
        _ => !standings.is_empty() && !served,
    };
    (!never && !waits && !may_wait).then(|| "every node is done and it is still open".to_owned())
}

/// Whether a node answers; one without the condition was never heard of.
fn is_ready(node: &Value) -> bool {
    object::condition(node, "Ready").is_none_or(|ready| ready["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::NODES;
    use crate::scene::{Scene, breaks, holds, over, strict};
    use jiff::SignedDuration;
    use serde_json::json;

    fn start(spec: Value) -> Scene {
        Scene::new().node("n1").job(spec)
    }

    fn failed(spec: Value) -> Scene {
        let scene = start(spec).reserve("n1", 1).create("n1", 1);
        scene
            .phase("n1", 1, "Failed")
            .ended("n1", 1, "Failed", "NonZeroExitCode")
    }

    #[test]
    fn a_run_is_judged_when_it_is_over() {
        holds(L1, &Scene::good(), &over());
        let open = start(json!({})).history();
        assert_eq!(
            all_is_done(&open, &Assumptions::default())
                .unwrap()
                .evaluations,
            0
        );
    }

    #[test]
    fn a_node_without_an_outcome_is_found() {
        breaks(
            L1,
            &start(json!({})),
            &over(),
            "node n1 is eligible and has no outcome",
        );
        breaks(L1, &start(json!({})).reserve("n1", 1), &over(), "Started");
        let missed = Scene::good().node("n3").remove("kubectl", (NODES, "n3"));
        holds(L1, &missed, &over());
        let early = start(json!({})).node("n2").succeed("n1", 1).seal();
        let early = early.end("Complete", "AllNodesSucceeded", 1, 0);
        breaks(L1, &early, &over(), "is Complete and node n2 is eligible");
        // Nobody need have seen a node that has just come.
        let lagging = Assumptions {
            lag_revisions: 100,
            ..over()
        };
        holds(L1, &early, &lagging);
    }

    #[test]
    fn an_attempt_that_never_ends_is_found() {
        let scene = start(json!({})).reserve("n1", 1).cordon("n1", true);
        breaks(L1, &scene, &over(), "an attempt is under way");
    }

    #[test]
    fn a_job_that_is_done_is_complete_unless_it_never_ends() {
        let done = |spec| start(spec).succeed("n1", 1).counts(1, 0);
        breaks(
            L1,
            &done(json!({})),
            &over(),
            "every node is done and it is still open",
        );
        let never = json!({"completionPolicy": {"type": "Never"}});
        holds(L1, &done(never.clone()), &over());
        let ended = done(never)
            .seal()
            .end("Complete", "AllNodesSucceeded", 1, 0);
        breaks(L1, &ended, &over(), "of type Never");
    }

    #[test]
    fn a_job_without_nodes_waits_if_it_may() {
        let empty = |policy| Scene::new().job(json!({"noEligibleNodesPolicy": policy}));
        holds(L1, &empty("Wait"), &over());
        breaks(L1, &empty("Complete"), &over(), "still open");
    }

    #[test]
    fn a_job_waits_for_a_node_that_was_interrupted_and_is_not_eligible() {
        let interrupted = |spec| {
            let scene = start(spec).reserve("n1", 1).create("n1", 1).bind("n1", 1);
            let scene = scene.cordon("n1", true).delete_pod("kubectl", "n1", 1);
            let scene = scene
                .phase("n1", 1, "Failed")
                .ended("n1", 1, "Disrupted", "PodDeleted");
            scene.node("n2").succeed("n2", 1)
        };
        holds(L1, &interrupted(json!({})), &over());
        let gone = interrupted(json!({})).remove("kubectl", (NODES, "n1"));
        breaks(L1, &gone, &over(), "still open");
        let once = interrupted(json!({"executionPolicy": "AtMostOnce"}));
        breaks(L1, &once, &over(), "the policy is FailFast");
        let back = interrupted(json!({})).cordon("n1", false);
        breaks(L1, &back, &over(), "node n1 is eligible and has no outcome");
    }

    #[test]
    fn a_failed_job_has_failed_for_a_reason_and_stopped_its_pods() {
        let ended = failed(json!({}))
            .condition("FailureTarget", "True", "MaxFailedNodesExceeded")
            .seal();
        breaks(L1, &ended, &over(), "going to fail and has not");
        let ended = ended.end("Failed", "MaxFailedNodesExceeded", 0, 1);
        holds(L1, &ended, &over());
        breaks(
            L1,
            &ended.clone().node("n2").create("n2", 1),
            &over(),
            "pod fix-n2-1 has not",
        );
        let silent = ended.clone().condition("Stalled", "False", "Resumed");
        breaks(L1, &silent, &over(), "it needs a person");
        let no_cause = start(json!({}))
            .seal()
            .end("Failed", "MaxFailedNodesExceeded", 0, 0);
        breaks(L1, &no_cause, &over(), "there is no cause");
        let no_deadline = start(json!({}))
            .seal()
            .end("Failed", "DeadlineExceeded", 0, 0);
        breaks(L1, &no_deadline, &over(), "there is no cause");
    }

    #[test]
    fn failures_are_not_passed_over() {
        breaks(L1, &failed(json!({})), &over(), "the policy is FailFast");
        let complete = failed(json!({}))
            .seal()
            .end("Complete", "CompletedWithFailures", 0, 1);
        breaks(L1, &complete, &over(), "the policy is FailFast");
        let goes_on = failed(json!({"failurePolicy": {"type": "Continue"}})).seal();
        holds(
            L1,
            &goes_on.end("Complete", "CompletedWithFailures", 0, 1),
            &over(),
        );
        let pauses = failed(json!({"failurePolicy": {"type": "Pause"}}));
        let passed_over = pauses
            .clone()
            .seal()
            .end("Complete", "CompletedWithFailures", 0, 1);
        breaks(L1, &passed_over, &over(), "the policy is Pause");
        let accepted = pauses.record("n1", 1, |record| record["accepted"] = json!(true));
        let accepted = accepted
            .seal()
            .end("Complete", "CompletedWithFailures", 0, 1);
        holds(L1, &accepted, &over());
        let as_if_all_well = failed(json!({"failurePolicy": {"type": "Continue"}})).seal();
        let as_if_all_well = as_if_all_well.end("Complete", "AllNodesSucceeded", 0, 1);
        breaks(L1, &as_if_all_well, &over(), "and 1 nodes failed");
        let retry = failed(json!({"backoffLimitPerNode": 1}));
        breaks(L1, &retry, &over(), "eligible and has no outcome");
    }

    #[test]
    fn a_paused_job_says_so_and_only_then_rests() {
        let paused = start(json!({"paused": true}));
        breaks(L1, &paused, &over(), "does not say so");
        holds(
            L1,
            &paused.condition("Paused", "True", "PausedByUser"),
            &over(),
        );
        let by_failure = failed(json!({"failurePolicy": {"type": "Pause"}}));
        let paused = by_failure
            .clone()
            .condition("Paused", "True", "PausedByFailure");
        breaks(L1, &paused, &over(), "it needs a person");
        let stalled = paused.condition("Stalled", "True", "PausedByFailure");
        holds(L1, &stalled, &over());
        let ended = by_failure.condition("Paused", "True", "PausedByFailure");
        let ended = ended.seal().end("Failed", "MaxFailedNodesExceeded", 0, 1);
        breaks(L1, &ended, &over(), "says that it is paused");
        let for_nothing = start(json!({})).condition("Paused", "True", "PausedByUser");
        breaks(L1, &for_nothing, &over(), "nothing pauses it");
    }

    #[test]
    fn a_stalled_job_is_accepted_where_it_is_presumed() {
        let stalled = start(json!({})).condition("Stalled", "True", "PodForbidden");
        breaks(L1, &stalled, &over(), "it is Stalled");
        let may = Assumptions {
            may_stall: true,
            ..over()
        };
        holds(L1, &stalled, &may);
    }

    #[test]
    fn what_is_done_too_late_is_found() {
        let scene = start(json!({}));
        let healed = scene.now();
        let bounded = Assumptions {
            healed: Some((healed, SignedDuration::from_secs(60))),
            ..Assumptions::default()
        };
        let end = |scene: Scene| {
            scene
                .succeed("n1", 1)
                .seal()
                .end("Complete", "AllNodesSucceeded", 1, 0)
        };
        holds(L2, &end(scene.clone()), &bounded);
        let late = end(scene.later(60)).history();
        let violation = done_in_time(&late, &bounded).unwrap_err();
        assert!(
            violation.what.contains("node n1 is eligible"),
            "{violation}"
        );
    }

    #[test]
    fn faults_that_never_end_are_no_excuse() {
        let pressed = Assumptions {
            permanent_faults: true,
            ..over()
        };
        holds(L6, &Scene::good(), &pressed);
        breaks(L6, &start(json!({})), &pressed, "has no outcome");
        let unpressed = all_is_done_under_pressure(&start(json!({})).history(), &over());
        assert_eq!(unpressed.unwrap().evaluations, 0);
    }

    #[test]
    fn a_job_waits_for_a_pod_on_a_node_that_does_not_answer() {
        let running = |ready: &str| {
            let scene = start(json!({}))
                .reserve("n1", 1)
                .create("n1", 1)
                .bind("n1", 1);
            scene
                .phase("n1", 1, "Running")
                .edit("kubelet", (NODES, "n1"), |node| {
                    node["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
                })
        };
        let seen = |scene: Scene| scene.record("n1", 1, |r| r["podUID"] = json!("pod-n1-1"));
        breaks(
            L1,
            &seen(running("True")),
            &over(),
            "an attempt is under way",
        );
        holds(L1, &seen(running("Unknown")), &over());
        breaks(L1, &running("Unknown"), &over(), "an attempt is under way");
        holds(
            L1,
            &seen(running("True")).remove("kubectl", (NODES, "n1")),
            &over(),
        );
    }

    #[test]
    fn failures_are_judged_by_the_policies() {
        let complete = |scene: Scene| scene.seal().end("Complete", "CompletedWithFailures", 0, 1);
        let tolerant = |max: Value| failed(json!({"failurePolicy": {"maxFailedNodes": max}}));
        holds(L1, &complete(tolerant(json!(1))), &over());
        breaks(
            L1,
            &complete(tolerant(json!(0))),
            &over(),
            "1 nodes failed, 0 may",
        );
        let percent = tolerant(json!("50%")).status(|status| status["desired"] = json!(2));
        holds(L1, &complete(percent), &over());
        let percent = tolerant(json!("50%")).status(|status| status["desired"] = json!(1));
        breaks(L1, &complete(percent), &over(), "1 nodes failed, 0 may");
        // Who has not heard that a node is gone counts it.
        let gone = || {
            let scene = tolerant(json!("50%")).status(|status| status["desired"] = json!(2));
            complete(scene.remove("kubectl", (NODES, "n1")))
        };
        let late = Assumptions {
            lag: SignedDuration::from_mins(1),
            ..over()
        };
        holds(L1, &gone(), &late);
        breaks(L1, &gone(), &over(), "1 nodes failed, 0 may");

        let asked = failed(json!({})).edit("kubectl", (JOBS, "fix"), |job| {
            job["metadata"]["annotations"] = json!({"carillon.dev/retry": "fix-n1-1"});
        });
        breaks(
            L1,
            &asked,
            &over(),
            "node n1 is eligible and has no outcome",
        );

        // Who has sealed the log without having heard of the request has decided before it.
        let asked_then_complete = || {
            let policy = json!({"failurePolicy": {"maxFailedNodes": 1}});
            let asked = failed(policy).edit("kubectl", (JOBS, "fix"), |job| {
                job["metadata"]["annotations"] = json!({"carillon.dev/retry": "fix-n1-1"});
            });
            complete(asked)
        };
        holds(L1, &asked_then_complete(), &late);
        let open = "node n1 is eligible and has no outcome";
        breaks(L1, &asked_then_complete(), &over(), open);

        let by_rule = |policy| {
            let scene =
                failed(json!({"failurePolicy": {"type": "Continue"}, "backoffLimitPerNode": 3}));
            scene.node("n2").cordon("n2", true).slice(|slice| {
                slice["results"][0]["reason"] = json!(policy);
            })
        };
        holds(
            L1,
            &complete(by_rule("NodeFailedByPodFailurePolicy")),
            &over(),
        );
        let job_fails = by_rule("JobFailedByPodFailurePolicy");
        breaks(
            L1,
            &complete(job_fails.clone()),
            &over(),
            "a rule says that the job fails",
        );
        holds(
            L1,
            &job_fails.seal().end("Failed", "PodFailurePolicy", 0, 1),
            &over(),
        );
        let no_rule = failed(json!({}))
            .seal()
            .end("Failed", "PodFailurePolicy", 0, 1);
        breaks(L1, &no_rule, &over(), "there is no cause");
    }

    #[test]
    fn what_a_policy_allowed_as_the_log_was_sealed_it_cannot_take_back() {
        let fails_fast = |job: &mut Value| job["spec"]["failurePolicy"] = json!({});
        let lets_pass = || failed(json!({"failurePolicy": {"type": "Continue"}}));
        let end = |scene: Scene| scene.end("Complete", "CompletedWithFailures", 0, 1);
        let edited = lets_pass().seal().edit("admin", (JOBS, "fix"), fails_fast);
        holds(L1, &end(edited), &over());
        let edited = lets_pass().edit("admin", (JOBS, "fix"), fails_fast);
        let strict = Assumptions {
            over: true,
            ..strict()
        };
        breaks(L1, &end(edited.seal()), &strict, "1 nodes failed, 0 may");
    }

    #[test]
    fn a_job_without_nodes_ends_as_it_was_told() {
        let fails = |policy| {
            let job = Scene::new().job(json!({"noEligibleNodesPolicy": policy}));
            job.seal().end("Failed", "NoEligibleNodes", 0, 0)
        };
        holds(L1, &fails("Fail"), &over());
        breaks(L1, &fails("Wait"), &over(), "there is no cause");
        let job = Scene::new().job(json!({"noEligibleNodesPolicy": "Fail"}));
        let decided = job.condition("FailureTarget", "True", "NoEligibleNodes");
        let waits = |job: &mut Value| job["spec"]["noEligibleNodesPolicy"] = json!("Wait");
        let edited = decided.edit("admin", (JOBS, "fix"), waits);
        let ended = edited.seal().end("Failed", "NoEligibleNodes", 0, 0);
        holds(L1, &ended, &over());
        let named = Scene::new().node("n1").job(json!({"nodeNames": ["n2"]}));
        holds(L1, &named, &over());
    }
}
