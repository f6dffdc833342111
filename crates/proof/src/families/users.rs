//! What users do to jobs and pods.

use carillon_api::NodeState;
use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::PodPhase;
use carillon_plan::record::{Record, Records, Slice};
use carillon_plan::{ObjectKey, Uid};
use serde_json::{Value, json};

use super::objects::{JobObject, Of, SliceObject};
use super::world::World;

const FIRST: &str = "fix";

impl World {
    /// The first job of the family.
    pub(super) fn make_first(&mut self) {
        self.make(self.first, FIRST.to_owned(), None);
    }

    /// A retry; who makes it may not know of all that there are.
    pub(super) fn make_retry(&mut self) {
        let listed = self.past.retries.len();
        let known = if self.rng.bool() {
            listed
        } else {
            self.rng.usize(0..=listed)
        };
        let uid = self.uid(Of::Job);
        let name = format!("{FIRST}-retry-{}", self.names.len());
        self.make(uid, name, Some(known));
        if self.one_in(16) {
            self.fill(uid);
        }
    }

    fn make(&mut self, uid: Uid, name: String, knows: Option<usize>) {
        let spec = self.spec(knows);
        self.say(format!("a user makes {name}: {spec}"));
        self.names.insert(uid, name.clone());
        let job = JobObject {
            owner: ObjectKey::of(BROADCAST_JOB, "ops", name, uid),
            spec,
            status: Value::Null,
            generation: 1,
            rv: self.version(),
            deleting: false,
            resume: None,
        };
        self.jobs.change().insert(uid, job);
    }

    fn spec(&mut self, knows: Option<usize>) -> Value {
        let (first, at_most_once) = (self.first.to_string(), self.at_most_once);
        let names = self.node_names.clone();
        let rng = &mut self.rng;
        let mut one_in = |times: usize| rng.usize(0..times) == 0;
        let restarts = !at_most_once && one_in(4);
        let (starts_late, ends, lives, paused) = (one_in(3), one_in(4), one_in(4), one_in(8));
        let chosen = knows.is_some() && one_in(2) || one_in(8);
        let mut spec = json!({
            "template": {"spec": {
                "restartPolicy": if restarts { "OnFailure" } else { "Never" },
                "containers": [{"name": "c", "image": "i"}],
            }},
            "parallelism": rng.u32(1..=2),
            "executionPolicy": if at_most_once { "AtMostOnce" } else { "AtLeastOnce" },
            "failurePolicy": {
                "type": (["Continue", "FailFast", "Pause"][rng.usize(0..3)]),
                "maxFailedNodes": ([json!(0), json!(1), json!("50%")][rng.usize(0..3)]),
            },
            "noEligibleNodesPolicy": (["Wait", "Complete", "Fail"][rng.usize(0..3)]),
            "nodeLostTimeoutSeconds": ([300, 10][rng.usize(0..2)]),
            "podTerminationTimeoutSeconds": ([300, 10][rng.usize(0..2)]),
            "completionPolicy": {"type": "Always"},
        });
        if !at_most_once {
            spec["backoffLimitPerNode"] = json!(rng.u32(0..3));
        }
        if starts_late {
            spec["podStartDeadlineSeconds"] = json!(rng.u32(1..41));
        }
        if ends {
            spec["completionPolicy"]["activeDeadlineSeconds"] = json!(rng.u32(20..120));
        }
        if lives {
            spec["completionPolicy"]["ttlSecondsAfterFinished"] = json!(rng.u32(0..100));
        }
        if paused {
            spec["paused"] = json!(true);
        }
        if let Some(known) = knows {
            spec["retryOf"] = json!({"name": FIRST, "uid": first, "knownRetries": known});
        }
        let some: Vec<&String> = names.iter().filter(|_| rng.usize(0..3) > 0).collect();
        if chosen && !some.is_empty() {
            spec["nodeNames"] = json!(some);
        }
        spec
    }

    /// A retry has done so much, on nodes that are gone, that its slice is full, or nearly.
    fn fill(&mut self, job: Uid) {
        let room = self.rng.usize(0..3);
        self.say(format!("its slice has room for {room} results"));
        let over = |at: usize| Record {
            node: format!("gone-{at}").into(),
            node_uid: Uid::MAX,
            attempt: 1,
            state: NodeState::Disrupted,
            pod: format!("gone-{at}").into(),
            reason: "Withdrawn".into(),
            finished: Some(self.now),
            ..Record::default()
        };
        let records = (room..MAX_RESULTS_PER_SLICE).map(over).collect();
        let owners = [job, self.first].into();
        for index in 0..=u32::from(room == 0) {
            let slice = Slice {
                index,
                uid: self.uid(Of::Slice),
                rv: self.version(),
                sealed: false,
                records: if index == 0 {
                    Records::clone(&records)
                } else {
                    Records::default()
                },
            };
            let owners = std::collections::BTreeSet::clone(&owners);
            let slice = SliceObject {
                slice,
                of: job,
                owners,
            };
            self.slices.change().insert((job, index), slice);
        }
    }

    /// A user changes or deletes one of the jobs.
    pub(super) fn change_a_job(&mut self) {
        let jobs: Vec<Uid> = self.jobs.now().keys().copied().collect();
        let Some(job) = self.rng.choice(jobs) else {
            return;
        };
        let what = self.rng.usize(0..10);
        // With the first job the family ends.
        if job == self.first && what < 3 && !self.one_in(3) {
            return;
        }
        let name = self.name(job);
        match what {
            0 | 1 => {
                self.say(format!("a user deletes {name}"));
                self.remove_job(job);
            }
            2 => {
                self.say(format!("a user deletes {name} in the foreground"));
                self.change_job(job, |job| job.deleting = true);
                let now = self.now;
                self.past.gone.entry(job).or_insert(now);
            }
            3 if self.mode.orphans && self.rng.bool() => {
                self.say(format!("a user deletes {name} with --cascade=orphan"));
                self.orphan(job);
            }
            3..7 => {
                self.say(format!("a user pauses {name}, or not"));
                self.change_job(job, |job| {
                    let paused = job.spec["paused"] == json!(true);
                    job.spec["paused"] = json!(!paused);
                });
            }
            _ => {
                self.say(format!("a user resumes {name}"));
                self.resume(job);
            }
        }
    }

    fn change_job(&mut self, job: Uid, change: impl FnOnce(&mut JobObject)) {
        let version = self.version();
        if let Some(job) = self.jobs.change().get_mut(&job) {
            change(job);
            job.generation += 1;
            job.rv = version;
        }
    }

    /// Acknowledges the failures of a job.
    fn resume(&mut self, job: Uid) {
        let version = self.version();
        if let Some(job) = self.jobs.change().get_mut(&job) {
            job.resume = Some(version.to_string());
            job.rv = version;
        }
    }

    /// Lets all jobs go on that users have paused, or a failure.
    pub(super) fn resume_all(&mut self) {
        let jobs: Vec<Uid> = self.jobs.now().keys().copied().collect();
        for job in jobs {
            self.change_job(job, |job| job.spec["paused"] = json!(false));
            self.resume(job);
        }
    }

    fn orphan(&mut self, job: Uid) {
        self.past.orphaned = true;
        self.remove_job(job);
        for name in self.pod_names() {
            if self
                .pod(&name)
                .is_some_and(|pod| pod.owned && pod.of == job)
            {
                self.change_pod(&name, |pod| pod.owned = false);
            }
        }
        let owned: Vec<(Uid, u32)> = (self.slices.now().iter())
            .filter(|(_, slice)| slice.owners.contains(&job))
            .map(|(key, _)| *key)
            .collect();
        for key in owned {
            let version = self.version();
            if let Some(slice) = self.slices.change().get_mut(&key) {
                slice.owners.remove(&job);
                slice.slice.rv = version;
            }
        }
    }

    /// Something happens to a pod.
    pub(super) fn change_a_pod(&mut self) {
        let names = self.pod_names();
        let Some(name) = self.rng.choice(names) else {
            return;
        };
        let Some(pod) = self.pod(&name).cloned() else {
            return;
        };
        match self.rng.usize(0..12) {
            0 if pod.row.deletion.is_none() => {
                self.say(format!("a user deletes {name}"));
                self.delete_pod(&name);
            }
            1 if self.one_in(4) => {
                // A pod whose uid is stored nowhere can be told from none.
                if self.is_named(pod.row.uid) && !self.past.is_stored(&name) {
                    self.say(format!("a user removes {name} by force"));
                    self.past.stripped.insert(pod.row.uid);
                    self.remove_pod(&name);
                }
            }
            2 if self.mode.taken_pods => self.take(&name),
            3 if self.one_in(3) && pod.row.phase == PodPhase::Running => {
                self.say(format!("{name} restarts"));
                self.change_pod(&name, |pod| pod.row.restarts += 1);
            }
            _ if pod.row.phase.has_ended() => {}
            _ if pod.row.phase == PodPhase::Running => {
                let code = if pod.row.deletion.is_some() {
                    [0, 137, 1][self.rng.usize(0..3)]
                } else if !self.has_node_of(&pod) {
                    137
                } else {
                    self.rng.i32(0..2)
                };
                self.end_pod(&name, code);
            }
            _ => self.bind_or_start(&name),
        }
    }

    /// A user takes a pod from its job, or gives it back. A job knows a pod that was taken by the uid that
    /// its record names, or that its leader remembers.
    fn take(&mut self, name: &str) {
        let Some(pod) = self.pod(name) else { return };
        let remembered = self.mode.leaders == 1 && !self.mode.crashes;
        if self.past.is_stored(name) || !remembered && !self.is_named(pod.row.uid) {
            return;
        }
        let (label, owned) = (self.rng.bool(), self.rng.bool());
        self.say(format!(
            "a user changes {name}: label {label}, owner {owned}"
        ));
        self.change_pod(name, |pod| (pod.label, pod.owned) = (label, owned));
    }

    /// Something happens to a node.
    pub(super) fn change_a_node(&mut self) {
        let names = self.node_names.clone();
        let Some(name) = self.rng.choice(names) else {
            return;
        };
        let now = self.now;
        let there = self.nodes.now().contains_key(&*name);
        match self.rng.usize(0..6) {
            0 => {
                self.say(format!("node {name} goes"));
                self.nodes.change().remove(&*name);
            }
            1 | 2 if !there => {
                self.say(format!("node {name} comes"));
                self.add_node(&name);
            }
            3 => {
                self.say(format!("node {name} becomes ready, or does not"));
                if let Some(node) = self.nodes.change().get_mut(&*name) {
                    let ready = node.not_ready_since.is_none();
                    node.not_ready_since = ready.then_some(now);
                }
            }
            _ => {
                self.say(format!("node {name} is cordoned, or not"));
                if let Some(node) = self.nodes.change().get_mut(&*name) {
                    node.unschedulable = !node.unschedulable;
                }
            }
        }
    }
}
