//! The kubelets of all nodes: run what a script says.

use std::collections::BTreeMap;
use std::fmt;

use carillon_oracle::Key;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::component::{
    Component, KUBELET_STOPPED, delete, has_ended, patch_status, seconds, text, uid, version,
};
use super::pod_queue::PodQueue;
use crate::{Actor, Server};

/// How long a container that failed waits for its restart.
const RESTART_AFTER: SignedDuration = SignedDuration::from_secs(10);
/// Exit code of a container that did not stop by itself.
const KILLED: i32 = 137;
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// What becomes of a pod.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Time from the binding until the container starts.
    pub start: SignedDuration,
    /// Why its kubelet refuses to run it, if it does.
    pub refused: Option<&'static str>,
    /// Why it never starts, if it does not: the waiting reason of its container.
    pub waits: Option<&'static str>,
    /// What the container does, one entry for each start; the last one is repeated.
    pub works: Vec<Work>,
    /// Exit code when it is told to stop; `None` when it does not listen and is killed.
    pub obeys: Option<i32>,
}

/// What a container does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Ends with this exit code after this time.
    Ends(SignedDuration, i32),
    /// Runs until it is stopped.
    Hangs,
    /// Runs until its node needs the room, after this time.
    Evicted(SignedDuration),
    /// Runs until it has used more disk than its own limits allow, after this time.
    OverLimit(SignedDuration),
}

impl Fate {
    /// Starts soon and ends like this.
    pub fn ends(after: SignedDuration, exit_code: i32) -> Self {
        Self {
            start: SignedDuration::from_millis(50),
            refused: None,
            waits: None,
            works: vec![Work::Ends(after, exit_code)],
            obeys: Some(143),
        }
    }

    fn work(&self, start: usize) -> Work {
        let last = self.works.last().copied().unwrap_or(Work::Hangs);
        self.works.get(start).copied().unwrap_or(last)
    }
}

/// The fate of the n-th pod (from 0) on the node of this name. Of the pods of a Job, which run
/// anywhere: of the n-th of the Job, whose place is called `job`, or of its index, called `index-3`.
pub type Fates = Box<dyn Fn(&str, usize) -> Fate>;

/// All kubelets.
pub struct Kubelets {
    actor: Actor,
    fates: Fates,
    /// By namespace, uid of the Job, if it is of one, and place.
    counts: BTreeMap<(String, String, String), usize>,
    pods: BTreeMap<Key, Pod>,
    queue: PodQueue,
}

/// A pod as its kubelet knows it.
struct Pod {
    uid: String,
    fate: Fate,
    state: State,
    starts: usize,
    first_start: Option<Timestamp>,
    /// How the container ended the last time, when it was restarted since.
    last: Option<Value>,
    /// All that was told of it, and at which version it was stored last.
    told: (Map<String, Value>, u64),
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Waits { until: Timestamp },
    Runs { since: Timestamp },
    Ended,
}

impl fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelets").finish_non_exhaustive()
    }
}

impl Kubelets {
    /// Kubelets whose pods meet these fates.
    pub fn new(server: &Server, fates: Fates) -> Self {
        Self {
            actor: server.actor("kubelet"),
            fates,
            counts: BTreeMap::new(),
            pods: BTreeMap::new(),
            queue: PodQueue::default(),
        }
    }
}

impl Component for Kubelets {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        for (key, object) in self.queue.take(self.actor.server(), now) {
            // Its name may be that of another pod by now.
            let uid = object.as_deref().map(uid);
            if self
                .pods
                .get(&key)
                .is_some_and(|pod| Some(&*pod.uid) != uid)
            {
                self.pods.remove(&key);
            }
            let Some(object) = &object else { continue };
            let node = text(object, "/spec/nodeName");
            let alive = self
                .actor
                .get("nodes", "", node)
                .is_ok_and(|node| node["metadata"]["annotations"][KUBELET_STOPPED] != "true");
            if !alive {
                continue;
            }
            let pod = self.pods.entry(key.clone()).or_insert_with(|| {
                let (owner, place) = place(object, node);
                let of = text(object, "/metadata/namespace").to_owned();
                let count = self.counts.entry((of, owner, place.clone())).or_default();
                let fate = (self.fates)(&place, *count);
                *count += 1;
                let until = now + fate.start;
                Pod {
                    uid: text(object, "/metadata/uid").to_owned(),
                    fate,
                    state: State::Waits { until },
                    starts: 0,
                    first_start: None,
                    last: None,
                    told: (Map::new(), 0),
                }
            });
            if let Some(at) = pod.step(&self.actor, object, now) {
                self.queue.again(key, at);
            }
        }
        self.queue.next()
    }
}

/// Uid of the Job that a pod is of, and what its place is called.
fn place(pod: &Value, node: &str) -> (String, String) {
    let owner = &pod["metadata"]["ownerReferences"][0];
    if owner["apiVersion"] != "batch/v1" || owner["kind"] != "Job" {
        return (String::new(), node.to_owned());
    }
    let index = pod["metadata"]["annotations"][COMPLETION_INDEX].as_str();
    let place = index.map_or_else(|| "job".to_owned(), |index| format!("index-{index}"));
    (text(owner, "/uid").to_owned(), place)
}

impl Pod {
    fn step(&mut self, actor: &Actor, object: &Value, now: Timestamp) -> Option<Timestamp> {
        if version(object) < self.told.1 {
            // The API server has forgotten it: its kubelet tells it again.
            self.tell(actor, object, json!({}));
            return Some(now);
        }
        if has_ended(object) {
            self.state = State::Ended;
        }
        let told: Option<Timestamp> = text(object, "/metadata/deletionTimestamp").parse().ok();
        match (self.state, told) {
            (State::Ended, None) => None,
            (State::Ended, Some(_)) => {
                // The pod has ended and its node has cleaned up: the object may go.
                let metadata = &object["metadata"];
                let holds = metadata["finalizers"].as_array();
                let held = holds.is_some_and(|finalizers| !finalizers.is_empty());
                // What a restored backup has of it is told again.
                if metadata["deletionGracePeriodSeconds"] != 0 || !held {
                    delete(actor, object, Some(0));
                }
                None
            }
            (State::Waits { .. }, Some(_)) => {
                // A container that has run before a restart ended with its failure.
                let code = (self.starts > 0).then_some(1);
                self.end(actor, object, code, now, None);
                None
            }
            (State::Waits { until }, None) => self.wait(actor, object, until, now),
            (State::Runs { since }, told) => self.run(actor, object, since, told, now),
        }
    }

    fn wait(
        &mut self,
        actor: &Actor,
        object: &Value,
        until: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if let Some(reason) = self.fate.refused.filter(|_| self.starts == 0) {
            self.state = State::Ended;
            let message = format!("Pod was rejected: {reason}");
            let status = json!({"phase": "Failed", "reason": reason, "message": message});
            self.tell(actor, object, status);
            return None;
        }
        if let Some(reason) = self.fate.waits {
            if object["status"]["containerStatuses"].is_null() {
                let waiting = json!({"reason": reason, "message": "it does not start"});
                let status =
                    json!({"containerStatuses": [self.container(object, "waiting", &waiting)]});
                self.tell(actor, object, status);
            }
            return None;
        }
        if until > now {
            return Some(until);
        }
        self.starts += 1;
        self.first_start.get_or_insert(now);
        self.state = State::Runs { since: now };
        let running = json!({"startedAt": seconds(now)});
        let status = json!({
            "phase": "Running",
            "startTime": seconds(self.first_start.unwrap_or(now)),
            "containerStatuses": [self.container(object, "running", &running)],
            "conditions": [ready(true, now)],
        });
        self.tell(actor, object, status);
        self.run(actor, object, now, None, now)
    }

    fn run(
        &mut self,
        actor: &Actor,
        object: &Value,
        since: Timestamp,
        told: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let work = self.fate.work(self.starts - 1);
        let own = match work {
            Work::Ends(after, code) => Some((since + after, code)),
            Work::Evicted(after) | Work::OverLimit(after) => Some((since + after, KILLED)),
            Work::Hangs => None,
        };
        let stopped = told.map(|due| match self.fate.obeys {
            Some(code) => (now, code),
            None => (due, KILLED),
        });
        let (end, code, own_doing) = match (own, stopped) {
            (Some((end, code)), Some((kill, _))) if end <= kill => (end, code, true),
            (Some((end, code)), None) => (end, code, true),
            (_, Some((kill, code))) => (kill, code, false),
            (None, None) => return None,
        };
        if end > now {
            return Some(end);
        }
        let because = match work {
            Work::Evicted(_) => Some(vec![json!({
                "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
                "lastTransitionTime": seconds(end),
            })]),
            Work::OverLimit(_) => Some(Vec::new()),
            Work::Ends(..) | Work::Hangs => None,
        };
        if own_doing && because.is_some() {
            self.end(actor, object, Some(code), end, because);
            return None;
        }
        let restarts = match text(object, "/spec/restartPolicy") {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        };
        let restarts = restarts && own_doing && told.is_none();
        if !restarts {
            self.end(actor, object, Some(code), end, None);
            return None;
        }
        let until = now + RESTART_AFTER;
        self.state = State::Waits { until };
        self.last = Some(terminated(code, since, end));
        let waiting = json!({"reason": "CrashLoopBackOff"});
        let status = json!({
            "containerStatuses": [self.container(object, "waiting", &waiting)],
            "conditions": [ready(false, end)],
        });
        self.tell(actor, object, status);
        Some(until)
    }

    /// The pod is over. `code` is `None` when its container never ran; `evicted` says that the kubelet has ended it,
    /// and with which conditions.
    fn end(
        &mut self,
        actor: &Actor,
        object: &Value,
        code: Option<i32>,
        end: Timestamp,
        evicted: Option<Vec<Value>>,
    ) {
        let since = match self.state {
            State::Runs { since } => since,
            State::Waits { .. } | State::Ended => end,
        };
        self.state = State::Ended;
        let mut status = json!({
            "phase": if code == Some(0) { "Succeeded" } else { "Failed" },
        });
        let mut conditions: Vec<Value> = Vec::new();
        if let Some(code) = code {
            let state = terminated(code, since, end);
            status["containerStatuses"] = json!([self.container(object, "terminated", &state)]);
            conditions.push(ready(false, end));
        }
        if let Some(because) = evicted {
            status["reason"] = json!("Evicted");
            conditions.extend(because);
        }
        if !conditions.is_empty() {
            status["conditions"] = json!(conditions);
        }
        self.tell(actor, object, status);
    }

    fn tell(&mut self, actor: &Actor, object: &Value, status: Value) {
        let (told, at) = &mut self.told;
        if let Value::Object(status) = status {
            told.extend(status);
        }
        if let Some(version) = patch_status(actor, object, &json!(told)) {
            *at = version;
        }
    }

    /// The status of the first container, which stands for all.
    fn container(&self, object: &Value, state: &str, detail: &Value) -> Value {
        let restarts = self.starts.saturating_sub(1);
        let name = &object["spec"]["containers"][0]["name"];
        let mut status = json!({"name": name, "restartCount": restarts, "state": {state: detail}});
        if let Some(last) = &self.last {
            status["lastState"] = json!({"terminated": last});
        }
        status
    }
}

fn ready(yes: bool, since: Timestamp) -> Value {
    let status = if yes { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": seconds(since)})
}

fn terminated(code: i32, since: Timestamp, end: Timestamp) -> Value {
    json!({
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": seconds(since),
        "finishedAt": seconds(end),
        "message": if code == 0 { String::new() } else { format!("ended with {code}") },
    })
}
