//! What kube-controller-manager does about Jobs, in brief and without pods: they run as a script says,
//! end, and go when their time to live is over. Jobs that name another controller are left to it;
//! their pods are released once they are gone.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::component::{Component, all, seconds, text, uid};
use super::timers::Timers;
use crate::{Actor, Delete, Propagation, Server};

/// Annotation of a Job: what becomes of it. `5s`: it completes after that time; `5s fail`: it fails;
/// `never`. Without it, it completes after a second.
pub const JOB_FATE: &str = "sim.carillon.dev/job-fate";

/// Between the condition that announces an end and the end, while pods are stopped and counted.
const ENDING: SignedDuration = SignedDuration::from_millis(100);
/// The finalizer of pods that are not yet counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// How long a pod is left to whoever served its Job.
const LET_GO_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// The Job controller and the TTL controller.
#[derive(Debug)]
pub struct JobController {
    actor: Actor,
    running: Timers,
    ending: Timers,
    orphaned: Timers,
}

/// What becomes of a Job.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fate {
    /// How long it runs; `None`: for ever.
    after: Option<SignedDuration>,
    fails: bool,
}

impl Fate {
    fn of(job: &Value) -> Self {
        let words = job["metadata"]["annotations"][JOB_FATE].as_str();
        let words = words.unwrap_or("1s").split_whitespace();
        let words: Vec<&str> = words.collect();
        Self {
            after: words.first().and_then(|time| time.parse().ok()),
            fails: words.get(1) == Some(&"fail"),
        }
    }

    /// The condition that announces the end, the end, and the reason for both.
    fn conditions(self) -> (&'static str, &'static str, &'static str) {
        if self.fails {
            ("FailureTarget", "Failed", "BackoffLimitExceeded")
        } else {
            ("SuccessCriteriaMet", "Complete", "CompletionsReached")
        }
    }
}

impl JobController {
    /// One that has seen nothing yet.
    pub fn new(server: &Server) -> Self {
        Self {
            actor: server.actor("system:kube-controller-manager"),
            running: Timers::default(),
            ending: Timers::default(),
            orphaned: Timers::default(),
        }
    }

    /// Does what is due about one Job.
    fn step(&mut self, job: &Value, now: Timestamp) -> Option<Timestamp> {
        if !text(job, "/metadata/deletionTimestamp").is_empty() {
            return None;
        }
        if let Some(ended) = ended_at(job) {
            return self.expire(job, ended, now);
        }
        if job["spec"]["suspend"] == true {
            self.suspend(job, now);
            return None;
        }
        if text(job, "/status/startTime").is_empty() {
            self.start(job, now);
        }
        self.run(job, now)
    }

    fn start(&self, job: &Value, now: Timestamp) {
        let mut status = json!({
            "startTime": seconds(now), "active": 1, "ready": 1, "terminating": 0,
            "uncountedTerminatedPods": {},
        });
        if is_true(job, "Suspended") {
            status["conditions"] = condition("Suspended", "False", "JobResumed", now);
        }
        self.write(job, &status);
    }

    /// Stops its pods; it starts anew when it goes on.
    fn suspend(&mut self, job: &Value, now: Timestamp) {
        self.running.stop(uid(job));
        self.ending.stop(uid(job));
        if !is_true(job, "Suspended") {
            let status = json!({
                "startTime": Value::Null, "active": 0, "ready": 0,
                "conditions": condition("Suspended", "True", "JobSuspended", now),
            });
            self.write(job, &status);
        }
    }

    fn run(&mut self, job: &Value, now: Timestamp) -> Option<Timestamp> {
        let fate = Fate::of(job);
        if let Some(due) = self.running.wait(uid(job), fate.after?, now) {
            return Some(due);
        }
        let (announced, end, reason) = fate.conditions();
        if !is_true(job, announced) {
            let conditions = condition(announced, "True", reason, now);
            self.write(job, &json!({"ready": 0, "conditions": conditions}));
        }
        if let Some(due) = self.ending.wait(uid(job), ENDING, now) {
            return Some(due);
        }
        let mut status = json!({
            "active": 0, "ready": 0, "conditions": condition(end, "True", reason, now),
        });
        status[if fate.fails { "failed" } else { "succeeded" }] = json!(1);
        if !fate.fails {
            status["completionTime"] = seconds(now);
        }
        self.write(job, &status);
        // The end is a change, which brings the next look.
        None
    }

    /// A Job that has ended goes when its time to live is over, after what it owns.
    fn expire(&self, job: &Value, ended: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let ttl = job["spec"]["ttlSecondsAfterFinished"].as_i64()?;
        let due = ended + SignedDuration::from_secs(ttl);
        if due > now {
            return Some(due);
        }
        let how = Delete {
            uid: Some(uid(job).to_owned()),
            ..Delete::with(Propagation::Foreground)
        };
        let (namespace, name) = place(job);
        drop(self.actor.delete("jobs", namespace, name, &how));
        None
    }

    /// Pods that nobody will count any more lose the finalizer; whoever served their Job may be faster.
    fn release(&mut self, now: Timestamp) -> Option<Timestamp> {
        let (pods, jobs) = (all(&self.actor, "pods"), all(&self.actor, "jobs"));
        let jobs: HashSet<_> = jobs.iter().map(|job| (place(job).0, uid(job))).collect();
        self.orphaned.keep(&pods);
        let mut wake = Vec::new();
        for pod in &pods {
            let finalizers = pod["metadata"]["finalizers"].as_array();
            let mut finalizers = finalizers.into_iter().flatten();
            let owner = pod["metadata"]["ownerReferences"][0]["uid"].as_str();
            if !finalizers.any(|finalizer| finalizer == TRACKING)
                || owner.is_some_and(|owner| jobs.contains(&(place(pod).0, owner)))
            {
                self.orphaned.stop(uid(pod));
            } else if let Some(due) = self.orphaned.wait(uid(pod), LET_GO_AFTER, now) {
                wake.push(due);
            } else {
                let rest = pod["metadata"]["finalizers"].as_array();
                let rest = rest
                    .into_iter()
                    .flatten()
                    .filter(|known| **known != TRACKING);
                let patch = json!({"metadata": {"finalizers": rest.collect::<Vec<_>>()}});
                let (namespace, name) = place(pod);
                drop(self.actor.patch_merge("pods", namespace, name, &patch));
            }
        }
        wake.into_iter().min()
    }

    /// Merges into the status. A Job that is gone or was replaced needs none.
    fn write(&self, job: &Value, status: &Value) {
        let (namespace, name) = place(job);
        drop(self.actor.patch_status("jobs", namespace, name, status));
    }
}

impl Component for JobController {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        let jobs = all(&self.actor, "jobs");
        self.running.keep(&jobs);
        self.ending.keep(&jobs);
        let jobs = jobs.iter().filter(|job| is_served(job));
        let wake = jobs.filter_map(|job| self.step(job, now)).min();
        wake.into_iter().chain(self.release(now)).min()
    }
}

/// Whether nobody else is to serve the Job.
fn is_served(job: &Value) -> bool {
    let manager = &job["spec"]["managedBy"];
    manager.is_null() || manager == "kubernetes.io/job-controller"
}

fn place(job: &Value) -> (&str, &str) {
    (
        text(job, "/metadata/namespace"),
        text(job, "/metadata/name"),
    )
}

fn condition(type_: &str, status: &str, reason: &str, now: Timestamp) -> Value {
    json!([{
        "type": type_, "status": status, "reason": reason, "message": "",
        "lastProbeTime": seconds(now), "lastTransitionTime": seconds(now),
    }])
}

fn is_true(job: &Value, type_: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// When the Job completed or failed, if it has.
fn ended_at(job: &Value) -> Option<Timestamp> {
    let conditions = job["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let end = conditions.find(|condition| {
        let ends = ["Complete", "Failed"]
            .iter()
            .any(|end| condition["type"] == *end);
        ends && condition["status"] == "True"
    })?;
    // An end without a time is one of long ago.
    let time = end["lastTransitionTime"].as_str().unwrap_or_default();
    Some(time.parse().unwrap_or(Timestamp::UNIX_EPOCH))
}
