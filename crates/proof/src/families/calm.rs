//! The end of a history: nothing goes wrong any more, and all has to come to rest, as it should.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_plan::pod::PodPhase;
use carillon_plan::{ObjectKey, Uid};
use serde_json::json;

use super::leader::Leader;
use super::objects::{JobObject, Pod};
use super::world::World;

const RESTS: &str = "without faults a family comes to rest";
const ENDS: &str = "every job ends, or says why it waits";
const HELD: &str = "no pod keeps our finalizer";
const COLLECTED: &str = "what belonged to a job that is gone goes";

/// Rounds until there must be rest.
const MOST_ROUNDS: usize = 700;
/// Rounds in which nothing happens, with which there is rest.
const QUIET_ROUNDS: usize = 24;
/// Plans that a job may have in one moment.
const MOST_PLANS: usize = 60;
/// Those of a job that waits for its user.
const ASKED: usize = 3;
/// What it then says.
const OF_NO_USE: &str = "delete it if it is of no use any more";
/// Seconds that pass from one round to the next.
const PAUSES: [i64; 10] = [1, 5, 11, 61, 1, 5, 11, 61, 1, 700];

impl World {
    /// The faults stop: one leader is left, which has just begun.
    pub(super) fn calm_down(&mut self) {
        self.say("the faults stop".to_owned());
        self.leaders = vec![Leader::default()];
        for name in self.node_names.clone() {
            if !self.nodes.now().contains_key(&*name) {
                self.add_node(&name);
            }
        }
        for node in self.nodes.change().values_mut() {
            node.unschedulable = false;
            node.not_ready_since = None;
        }
        if self.rng.usize(0..3) > 0 {
            self.resume_all();
        }
        let some_fail = self.one_in(3);
        let mut quiet = 0;
        for round in 0..MOST_ROUNDS {
            let before = self.length();
            let mut busy = self.plan_for_all();
            busy |= self.after_deletion(0);
            busy |= self.collect(true);
            busy |= self.all_pods_go_on(some_fail);
            if self.failure.is_some() {
                return;
            }
            self.pass(PAUSES[round % PAUSES.len()]);
            quiet = if busy && self.length() > before {
                0
            } else {
                quiet + 1
            };
            if quiet > QUIET_ROUNDS {
                self.judge_rest();
                return;
            }
        }
        self.break_rule(RESTS, format!("not in {MOST_ROUNDS} rounds"));
    }

    /// True unless the plans of all jobs did nothing but ask.
    fn plan_for_all(&mut self) -> bool {
        let mut busy = false;
        let jobs: Vec<Uid> = self.jobs.now().keys().copied().collect();
        for job in jobs {
            let mut plans = 0;
            while self.think(0, self.newest(), job) {
                self.act_to_the_end(0);
                if self.failure.is_some() {
                    return busy;
                }
                plans += 1;
                // It is asked again from time to time whether its user has done it.
                if plans > ASKED && self.asks_its_user(job) {
                    break;
                }
                if plans > MOST_PLANS {
                    let what = format!("plans for {} in one moment", self.name(job));
                    self.break_rule(RESTS, what);
                    return busy;
                }
                busy = true;
            }
        }
        busy
    }

    /// Whether a job has asked its user to delete something.
    fn asks_its_user(&self, job: Uid) -> bool {
        let job = self.jobs.now().get(&job);
        job.is_some_and(|job| State::of(job).says(OF_NO_USE))
    }

    /// Whether a pod is one that a job has asked its user to delete.
    fn is_asked_for(&self, pod: &str) -> bool {
        let mut states = self.jobs.now().values().map(State::of);
        let pod = format!("pod {pod} on node");
        states.any(|state| state.says(OF_NO_USE) && state.says(&pod))
    }

    /// Kubelets do what is to be done, and users what they are asked for. True if there is something.
    fn all_pods_go_on(&mut self, some_fail: bool) -> bool {
        let mut busy = false;
        for name in self.pod_names() {
            let Some(pod) = self.pod(&name).cloned() else {
                continue;
            };
            if !pod.owned && !pod.row.tracked && self.is_asked_for(&name) {
                self.remove_pod(&name);
                busy = true;
                continue;
            }
            if pod.row.phase.has_ended() {
                continue;
            }
            busy |= pod.is_live();
            let is_bound = pod.row.node.is_some();
            let killed = pod.row.deletion.is_some() || !self.has_node_of(&pod);
            if killed && is_bound {
                self.end_pod(&name, 137);
            } else if killed && !pod.owned && !pod.row.tracked {
                // It waits for a machine that is gone, and is nobody's: its user removes it.
                self.remove_pod(&name);
            } else if killed {
                self.remove_if_over(&name);
            } else if pod.row.phase == PodPhase::Running {
                let fails = some_fail && self.rng.bool();
                self.end_pod(&name, i32::from(fails));
            } else {
                self.bind_or_start(&name);
            }
        }
        busy
    }

    fn judge_rest(&mut self) {
        let states: Vec<State> = (self.jobs.now().values()).map(State::of).collect();
        let jobs = self.jobs.now().values();
        let unfinished: Vec<String> = jobs
            .zip(&states)
            .filter(|(job, state)| {
                // A job that has begun waits for its nodes to come back: all are here but those that it
                // was filled with.
                let waits =
                    job.spec["noEligibleNodesPolicy"] == json!("Wait") || state.says("NodeGone");
                job.deleting || !self.may_rest(state, &states, waits)
            })
            .map(|(_, state)| format!("{}: {:?}", state.job.name, state.on))
            .collect();
        if let Some(job) = unfinished.into_iter().next() {
            self.break_rule(ENDS, job);
        }
        let pods: Vec<Pod> = self.pods.now().values().cloned().collect();
        for pod in pods {
            let gone = !self.jobs.now().contains_key(&pod.of);
            // One that lost its label after its outcome was stored, or with its job, is known to nobody.
            let is_known = pod.label || !gone && !self.past.is_stored(&pod.name);
            let (label, owned, phase) = (pod.label, pod.owned, pod.row.phase);
            let what = format!(
                "{} is {phase:?}, label {label}, owner {owned}, late {}; its job is gone: {gone}",
                pod.name, pod.late
            );
            if pod.row.tracked && is_known {
                self.break_rule(HELD, what);
            } else if gone && owned && !pod.row.tracked {
                self.break_rule(COLLECTED, what);
            }
        }
    }

    /// Whether a job has ended, or has a reason to wait that is true.
    fn may_rest(&self, state: &State, all: &[State], waits_for_nodes: bool) -> bool {
        if state.has_ended() || state.is("Paused") {
            return true;
        }
        let lost = |retry: &carillon_api::Retry| {
            let job: Uid = retry.uid.parse().unwrap_or_default();
            let slices = self.slices.now();
            !self.jobs.now().contains_key(&job) && !slices.contains_key(&(job, 0))
        };
        let family_is_gone =
            self.staying(self.first).is_none() || self.past.retries.iter().any(lost);
        if family_is_gone && state.is("Stalled") && state.says("RetriedJobGone") {
            return true;
        }
        let mut others = all.iter().filter(|other| other.job != state.job);
        let waits_for = |other: &State| {
            let waits = !other.has_ended() && (other.is("Paused") || other.is("Stalled"));
            waits && state.says(&format!("BroadcastJob {} has not ended", other.job.name))
        };
        others.any(waits_for) || waits_for_nodes && state.says("NoEligibleNodes")
    }
}

/// What a job says of itself.
struct State {
    job: Arc<ObjectKey>,
    /// Its conditions that are true, with reason and message.
    on: BTreeMap<String, String>,
}

impl State {
    fn of(job: &JobObject) -> Self {
        let conditions = job.read().status.conditions;
        let on = conditions.into_iter().filter(|c| c.status == "True");
        Self {
            job: job.owner.clone(),
            on: on
                .map(|c| (c.type_, format!("{}: {}", c.reason, c.message)))
                .collect(),
        }
    }

    fn is(&self, type_: &str) -> bool {
        self.on.contains_key(type_)
    }

    fn has_ended(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn says(&self, words: &str) -> bool {
        self.on.values().any(|text| text.contains(words))
    }
}
