//! The rules: what may not happen, and is judged by what did happen, whoever remembers it.

use carillon_api::{NodeState, Retry};
use carillon_plan::Uid;
use carillon_plan::pod::PodPhase;
use carillon_plan::record::Record;
use jiff::SignedDuration;

use super::leader::Running;
use super::objects::Pod;
use super::world::World;

pub(super) const NOT_PURE: &str = "the same snapshot gives the same plan";
pub(super) const REFUSED: &str =
    "the interlock refuses no plan of the only leader, made from what there is";
pub(super) const SEALED: &str = "a sealed slice neither grows nor loses its seal";
pub(super) const UNRECORDED: &str = "a pod is created for an attempt of the log";
const LIST: &str = "the list of retries only grows";
const OUTCOME_STAYS: &str = "an outcome stays as it was stored";
const OUTCOME_IS_TRUE: &str = "an outcome is what the pod has done";
const SUCCESS: &str = "a node that succeeded runs nothing more of its family";
const ONE_POD: &str = "a node has one live pod of a family";
const OVER: &str = "an attempt that is over starts nothing";
const TURN: &str = "a retry starts pods only when it is listed";
const TRIED: &str = "a retry does not try again what its maker did not know";
const AT_MOST_ONCE: &str = "with AtMostOnce a job starts one pod for a node";
const OWNER: &str = "no pod is created for a job that has gone before it was asked for";
const RELEASE: &str = "a pod is released after its outcome is stored";

impl World {
    pub(super) fn judge_list(&mut self, retries: Vec<Retry>) {
        if !retries.starts_with(&self.past.retries) {
            let what = format!("{:?}, then {retries:?}", self.past.retries);
            self.break_rule(LIST, what);
        }
        self.past.retries = retries;
    }

    /// A record is stored. `closing`: by another one of the family.
    pub(super) fn judge_record(
        &mut self,
        place: (Uid, u32, usize),
        record: &Record,
        closing: bool,
    ) {
        let of = place.0;
        if let Some(before) = self.past.outcomes.get(&place) {
            // A resume may accept a failure, once.
            let accepted =
                before.accepted || record.accepted && before.state != NodeState::Succeeded;
            let kept = Record {
                accepted,
                ..before.clone()
            };
            if kept != *record {
                let what = format!("{}: {before:?}, then {record:?}", self.name(of));
                self.break_rule(OUTCOME_STAYS, what);
            }
            self.past.outcomes.insert(place, kept);
            return;
        }
        if !record.is_final() {
            return;
        }
        self.past.outcomes.insert(place, record.clone());
        // What a leader stores that has not seen its job go is read by nobody.
        if !closing && self.past.orphaned && !self.jobs.now().contains_key(&of) {
            return;
        }
        let named = record.pod_uid.and_then(|uid| self.past.pods.get(&uid));
        let mut all = self.past.pods.values();
        let pod = named.or_else(|| all.find(|pod| pod.name == record.pod));
        let done = |pod: &Pod| pod.row.phase == PodPhase::Succeeded && !pod.row.interrupted;
        let wrong = if record.state == NodeState::Succeeded {
            !named.is_some_and(done)
        } else {
            pod.is_some_and(|pod| done(pod) && !self.may_be_unknown(pod, record))
        };
        if wrong {
            let (state, reason) = (record.state, &record.reason);
            let did = pod.map(|pod| (pod.row.phase, pod.row.interrupted));
            let what = format!(
                "{}: {} on {} is {state:?} {reason}; its pod is {did:?} (phase, was told to stop)",
                self.name(of),
                record.pod,
                record.node
            );
            self.break_rule(OUTCOME_IS_TRUE, what);
        }
    }

    /// Whether a pod that succeeded may be stored as something else.
    fn may_be_unknown(&self, pod: &Pod, record: &Record) -> bool {
        let there = self.pod(&pod.name).map(|pod| pod.row.uid) == Some(pod.row.uid);
        let vanished = record.state == NodeState::Unknown && !there;
        vanished
            || pod.late
            || *record.reason == *"NodeLost"
            || self.past.stripped.contains(&pod.row.uid)
    }

    /// A pod is created though its job is gone: that may be if it went since it was asked for.
    pub(super) fn judge_late(&mut self, pod: &str, job: Uid) {
        let gone = self.past.gone.get(&job);
        let since = gone.map_or(SignedDuration::MAX, |gone| self.now.duration_since(*gone));
        if !self.mode.late_creations || since > SignedDuration::from_secs(1) {
            let what = format!("{pod}; {} is gone since {since:#}", self.name(job));
            self.break_rule(OWNER, what);
        }
    }

    /// A pod is about to be created.
    pub(super) fn judge_creation(&mut self, plan: &Running, record: &Record) {
        let me = plan.job.meta.owner.uid;
        let (pod, node) = (&record.pod, &record.node);
        let starts = format!("{} starts {pod} on {node}", self.name(me));
        let counts = |other: &&Pod| !other.late && !self.past.stripped.contains(&other.row.uid);
        let machine = (node.clone(), record.node_uid);
        let before = self.past.succeeded.get(&machine);
        let before = before.and_then(|uid| self.past.pods.get(uid));
        if let Some(before) = before.filter(counts) {
            let whose = self.name(before.of);
            let what = format!("{starts}, where {} of {whose} succeeded", before.name);
            self.break_rule(SUCCESS, what);
            return;
        }
        let mut live = self.pods.now().values().filter(|pod| pod.is_live());
        if let Some(other) = live.find(|other| other.node == *node && !other.late) {
            let (name, whose) = (&other.name, self.name(other.of));
            let phase = other.row.phase;
            let what = format!("{starts}, where {name} of {whose} is {phase:?}");
            self.break_rule(ONE_POD, what);
            return;
        }
        if record.is_final() {
            self.break_rule(OVER, format!("{starts}: {record:?}"));
            return;
        }
        let Some(first) = &plan.job.retry_of else {
            return;
        };
        let me = me.to_string();
        let list = &self.past.retries;
        let Some(place) = list.iter().position(|retry| retry.uid == me) else {
            self.break_rule(TURN, starts);
            return;
        };
        let unknown = &list[first.known_retries.min(place)..place];
        let unknown: Vec<Uid> = unknown.iter().filter_map(|r| r.uid.parse().ok()).collect();
        let pods = self.past.pods.values().filter(counts);
        let here = |pod: &&Pod| {
            pod.row.started.is_some() && (&pod.node, pod.node_uid) == (node, machine.1)
        };
        let tried = pods.filter(here).find(|pod| unknown.contains(&pod.of));
        if let Some(tried) = tried {
            let what = format!("{starts}, which {} tried", self.name(tried.of));
            self.break_rule(TRIED, what);
        }
    }

    /// A pod is about to start.
    pub(super) fn judge_start(&mut self, pod: &Pod) {
        let outcomes = self.past.outcomes.values();
        let given_up = |record: &&Record| {
            record.pod == pod.name && matches!(&*record.reason, "Withdrawn" | "NotStarted")
        };
        if let Some(record) = outcomes.filter(|_| !pod.late).find(given_up) {
            let what = format!("{}: {:?} {}", pod.name, record.state, record.reason);
            self.break_rule(OVER, what);
            return;
        }
        let same = |other: &&Pod| {
            (other.of, &other.node, other.node_uid) == (pod.of, &pod.node, pod.node_uid)
                && other.row.uid != pod.row.uid
        };
        let pods = self.past.pods.values().filter(same);
        let mut started = pods.filter(|other| other.row.started.is_some() && !other.late);
        let before = started.find(|other| !self.past.stripped.contains(&other.row.uid));
        if let Some(before) = before.filter(|_| self.at_most_once && !pod.late) {
            let what = format!("{} on {}, after {}", pod.name, pod.node, before.name);
            self.break_rule(AT_MOST_ONCE, what);
        }
    }

    /// Our finalizer was taken off.
    pub(super) fn judge_release(&mut self, pod: &Pod) {
        let mut outcomes = self.past.outcomes.values();
        let stored =
            outcomes.any(|record| record.pod_uid == Some(pod.row.uid) || record.pod == pod.name);
        if !stored && self.staying(pod.of).is_some() {
            self.break_rule(RELEASE, pod.name.to_string());
        }
    }
}
