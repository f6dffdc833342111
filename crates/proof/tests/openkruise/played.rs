//! Plays a scenario, has it judged, and answers questions about what happened.

use std::sync::Arc;

use carillon_oracle::{Key, Step as Change};
use carillon_proof::case::Case;
use carillon_proof::connection::Late;
use carillon_proof::crash_anywhere;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::kinds::broadcast_job;
use carillon_proof::scenario::{Scenario, Step, View};
use carillon_proof::world::{Outcome, USER};
use carillon_sim::actors::{Fate, KUBELET_STOPPED, Work};
use jiff::SignedDuration;
use serde_json::{Value, json};

const JOBS: &str = "broadcastjobs.carillon.dev";

/// A job on three nodes, each of which succeeds after two seconds.
pub(crate) fn three_nodes(spec: Value) -> Scenario {
    Scenario {
        nodes: 3,
        spec,
        ..broadcast_job::scenario("openkruise")
    }
}

/// Ends well after two seconds.
pub(crate) fn succeeds() -> Fate {
    Fate::ends(SignedDuration::from_secs(2), 0)
}

/// Ends with `code` after two seconds.
pub(crate) fn exits(code: i32) -> Fate {
    Fate::ends(SignedDuration::from_secs(2), code)
}

/// Runs until it is stopped.
pub(crate) fn hangs() -> Fate {
    Fate {
        works: vec![Work::Hangs],
        ..succeeds()
    }
}

/// Does `act` as soon as `when` holds.
pub(crate) fn step(when: fn(&View<'_>) -> bool, act: fn(&View<'_>)) -> Step {
    later(when, 0, act)
}

/// Does `act` so many seconds after `when` holds for the first time.
pub(crate) fn later(when: fn(&View<'_>) -> bool, seconds: i64, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SignedDuration::from_secs(seconds),
        act,
    }
}

/// Cordons a node, or uncordons it.
pub(crate) fn cordon(view: &View<'_>, node: &str, yes: bool) {
    view.patch_node(node, &json!({"spec": {"unschedulable": yes}}));
}

/// Stops a node's kubelet, or starts it.
pub(crate) fn silence(view: &View<'_>, node: &str, yes: bool) {
    let value = if yes { "true" } else { "false" };
    let patch = json!({"metadata": {"annotations": {KUBELET_STOPPED: value}}});
    view.patch_node(node, &patch);
}

/// What has been played, and that the oracle found nothing wrong with it.
pub(crate) struct Played(Outcome);

/// Plays it undisturbed.
pub(crate) fn play(scenario: &Scenario) -> Played {
    play_with(scenario, Disturbance::none(1))
}

/// Plays it while something goes wrong.
pub(crate) fn play_with(scenario: &Scenario, disturbance: Disturbance) -> Played {
    let case = Case {
        scenario: scenario.name.to_owned(),
        seed: crash_anywhere::SEED,
        disturbance,
    };
    let outcome = case.run(scenario).unwrap();
    if let Err(failure) = case.judge(scenario, &outcome, None) {
        panic!("{failure}\n{:#?}", outcome.end);
    }
    assert_eq!(outcome.unmet, 0, "faults that met no request");
    Played(outcome)
}

impl Played {
    /// Every change of objects of this resource.
    pub(crate) fn changes(&self, resource: &str) -> impl Iterator<Item = &Change> {
        let steps = self.0.history.steps.iter();
        steps.filter(move |step| &*step.key.resource == resource)
    }

    /// How many processes of the operator were killed.
    pub(crate) fn kills(&self) -> usize {
        let exits = self.0.exits.iter();
        exits.filter(|why| why.ends_with("killed")).count()
    }

    /// Requests that were on their way when their process was stopped, and since when.
    pub(crate) fn late(&self) -> &[Late] {
        &self.0.late
    }

    /// Whether another process of the operator has changed something since that one was stopped.
    pub(crate) fn others_wrote_after(&self, (request, since): &Late) -> bool {
        let mut steps = self.0.history.steps.iter().filter(|step| step.at > *since);
        steps.any(|step| {
            let by = step.by.as_ref();
            by.is_some_and(|by| by.user == USER && by.agent != request.agent)
        })
    }

    /// Seconds from the begin of the run to a change.
    pub(crate) fn seconds(&self, change: &Change) -> i64 {
        change
            .at
            .duration_since(self.0.history.steps[0].at)
            .as_secs()
    }

    /// Every state of the job, with the seconds when it came to be.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (i64, &Value)> {
        self.changes(JOBS)
            .filter_map(|change| Some((self.seconds(change), &**change.new.as_ref()?)))
    }

    /// The last state of the job.
    pub(crate) fn job(&self) -> &Value {
        self.jobs().last().unwrap().1
    }

    /// A number of the last status.
    pub(crate) fn count(&self, field: &str) -> i64 {
        self.job()["status"][field].as_i64().unwrap_or(0)
    }

    /// Seconds until a condition was True for the first time.
    pub(crate) fn when(&self, type_: &str) -> Option<i64> {
        let mut jobs = self.jobs();
        jobs.find(|(_, job)| holds(job, type_)).map(|(at, _)| at)
    }

    /// Seconds until a condition had this reason for the first time.
    pub(crate) fn when_reason(&self, type_: &str, reason: &str) -> Option<i64> {
        let mut jobs = self.jobs();
        jobs.find(|(_, job)| condition(job, type_).is_some_and(|c| c["reason"] == reason))
            .map(|(at, _)| at)
    }

    /// Reason of the last Complete or Failed that is True.
    pub(crate) fn end(&self) -> (&str, &str) {
        for type_ in ["Complete", "Failed"] {
            if let Some(found) = condition(self.job(), type_).filter(|c| c["status"] == "True") {
                return (type_, found["reason"].as_str().unwrap());
            }
        }
        ("open", "")
    }

    /// Creations of pods for a node.
    pub(crate) fn pods_for(&self, node: &str) -> Vec<&Change> {
        let made = |change: &&Change| change.old.is_none();
        self.changes("pods")
            .filter(made)
            .filter(|change| meant_for(change.new.as_ref().unwrap()) == node)
            .collect()
    }

    /// Pods that were created.
    pub(crate) fn pods(&self) -> usize {
        self.changes("pods")
            .filter(|change| change.old.is_none())
            .count()
    }

    /// The pods that are left.
    pub(crate) fn pods_left(&self) -> Vec<Arc<Value>> {
        let mut left = std::collections::BTreeMap::<&Key, Option<Arc<Value>>>::new();
        for change in self.changes("pods") {
            left.insert(&change.key, change.new.clone());
        }
        left.into_values().flatten().collect()
    }

    /// Pods that the operator has told to stop.
    pub(crate) fn stopped_by_us(&self) -> usize {
        self.changes("pods")
            .filter(|change| {
                let by = change.by.as_ref();
                by.is_some_and(|by| by.user == USER && by.verb == "delete")
            })
            .count()
    }

    /// Writes of the operator to objects of this resource.
    pub(crate) fn written_by_us(&self, resource: &str) -> usize {
        self.changes(resource)
            .filter(|change| change.by.as_ref().is_some_and(|by| by.user == USER))
            .count()
    }

    /// The records of a node, by attempt.
    pub(crate) fn records(&self, node: &str) -> Vec<&Value> {
        let mut slices = std::collections::BTreeMap::<&Key, &Value>::new();
        for change in self.changes("noderesultslices.carillon.dev") {
            if let Some(new) = &change.new {
                slices.insert(&change.key, new);
            }
        }
        let mut records: Vec<&Value> = slices
            .into_values()
            .flat_map(|slice| slice["results"].as_array().into_iter().flatten())
            .filter(|record| record["nodeName"] == node)
            .collect();
        records.sort_by_key(|record| record["attempt"].as_i64());
        records
    }

    /// State and reason of each record of a node; the reason of a success is empty.
    pub(crate) fn outcomes(&self, node: &str) -> Vec<(&str, &str)> {
        self.records(node)
            .into_iter()
            .map(|record| {
                let text = |field: &str| record[field].as_str().unwrap_or_default();
                (text("state"), text("reason"))
            })
            .collect()
    }
}

/// Whether a condition of a job is True.
pub(crate) fn holds(job: &Value, type_: &str) -> bool {
    condition(job, type_).is_some_and(|condition| condition["status"] == "True")
}

/// A condition of a job.
pub(crate) fn condition<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// The node that a pod was made for.
fn meant_for(pod: &Value) -> &str {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms/0/matchFields/0/values/0";
    pod.pointer(terms)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The user who writes what no user of a cluster would, such as the status of a pod.
pub(crate) fn as_cluster(
    view: &View<'_>,
    resource: &str,
    namespace: &str,
    name: &str,
    status: &Value,
) {
    let actor = view.server().actor("cluster");
    actor
        .patch_status(resource, namespace, name, status)
        .unwrap();
}

/// Whether the job has this reason in a condition.
pub(crate) fn says(view: &View<'_>, type_: &str, reason: &str) -> bool {
    view.job()
        .is_some_and(|job| condition(&job, type_).is_some_and(|c| c["reason"] == reason))
}
