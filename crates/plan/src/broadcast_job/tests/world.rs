//! A world small enough to see through: nodes, pods, records and status as the API server would
//! hold them, and a kubelet that does what it is told.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_api::{NodeState, Retry};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::broadcast_job::action::{Act, Action, OnError, Plan, SliceWrite};
use crate::broadcast_job::{
    BroadcastJob, Changes, Family, Index, Member, Refused, Requests, Snapshot, Taken, TakenPod,
    TakenPods, Template, plan, settle,
};
use crate::condition::Refusal;
use crate::interlock::{self, Trip};
use crate::meta::Meta;
use crate::node::{NodeRow, Nodes};
use crate::object_key::{BROADCAST_JOB, ObjectKey};
use crate::pod::{Deletion, End, Failure, PodPhase, PodRow, Pods, Waiting};
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// Another job of the family, as this one sees it.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) name: String,
    pub(super) uid: Uid,
    pub(super) job: Option<BroadcastJob>,
    pub(super) slices: Vec<Slice>,
    pub(super) pods: Pods,
    pub(super) taken: TakenPods,
    pub(super) problem: Option<String>,
}

impl Other {
    fn member(&self) -> Member<'_> {
        Member {
            name: &self.name,
            uid: self.uid,
            job: self.job.as_ref(),
            slices: &self.slices,
            pods: &self.pods,
            taken: Some(&self.taken),
            problem: self.problem.clone(),
        }
    }
}

/// The family of a job, as it sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    pub(super) first: Option<Other>,
    pub(super) retries: Vec<Other>,
    pub(super) open: Option<String>,
    pub(super) other: Option<Uid>,
}

pub(super) struct World {
    pub(super) owner: Arc<ObjectKey>,
    pub(super) rv: u64,
    pub(super) others: Option<Others>,
    /// The list that it has entered itself into, and the version that was meant.
    pub(super) joined: Option<(u64, Vec<Retry>)>,
    /// Slices of others that it has written, and whose.
    pub(super) closed: Vec<(Uid, SliceWrite)>,
    pub(super) now: Timestamp,
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) generation: i64,
    pub(super) resume: Option<String>,
    pub(super) retry: Option<String>,
    pub(super) deleting: bool,
    pub(super) nodes: Nodes,
    pub(super) pods: Pods,
    /// Pods that have lost their owner, and those that have lost their label, too.
    pub(super) unowned: TakenPods,
    pub(super) unseen: Pods,
    /// Uids of pods, as the answer to their creation has told them.
    pub(super) uids: BTreeMap<Box<str>, Uid>,
    /// What was learnt of these.
    pub(super) asked: BTreeMap<Uid, TakenPod>,
    pub(super) slices: Vec<Slice>,
    pub(super) template: Template,
    pub(super) gone: BTreeSet<Uid>,
    pub(super) conflicts: BTreeSet<Box<str>>,
    pub(super) disputed: BTreeSet<Box<str>>,
    pub(super) creation_problem: Option<Refused>,
    pub(super) refused: BTreeMap<Box<str>, u64>,
    pub(super) refusal: Option<Refusal>,
    pub(super) max_pod_changes: usize,
    /// Every pod ever created: (name, node).
    pub(super) created: Vec<(Box<str>, Arc<str>)>,
    /// Every pod that has run.
    pub(super) ran: BTreeSet<Box<str>>,
    pub(super) job_deleted: bool,
    pub(super) serial: u64,
    follower: RefCell<Follower>,
}

/// What is kept from plan to plan.
#[derive(Default)]
struct Follower {
    index: Index,
    nodes: Nodes,
    pods: Pods,
}

impl Follower {
    /// A plan is the same with what was kept of those before as without.
    fn agrees(&mut self, snapshot: &Snapshot<'_>, fresh: &Plan, now: Timestamp) {
        let (old, new) = (&self.nodes, snapshot.nodes);
        let names: BTreeSet<&Arc<str>> = old.keys().chain(new.keys()).collect();
        let other = names
            .into_iter()
            .filter(|name| old.get(*name) != new.get(*name));
        let nodes: Vec<Arc<str>> = other.cloned().collect();
        let (old_pods, pods) = (&self.pods, snapshot.pods);
        let names: BTreeSet<&Box<str>> = old_pods.keys().chain(pods.keys()).collect();
        let changed_pods = names
            .into_iter()
            .filter(|name| old_pods.get(*name) != pods.get(*name));
        let other_pods: Vec<Box<str>> = changed_pods.cloned().collect();
        let changes = Changes {
            nodes: &nodes,
            pods: &other_pods,
        };
        (self.index).follow(snapshot.job, new, pods, snapshot.slices, Some(changes));
        assert_eq!(
            self.index,
            Index::of(snapshot.job, new, pods, snapshot.slices)
        );
        self.nodes.clone_from(new);
        self.pods.clone_from(pods);
        let with = |index| Snapshot {
            index: Some(index),
            ..*snapshot
        };
        assert_eq!(plan(&with(&self.index), now), *fresh);
        // Nor does it matter which attempts are left alone.
        let awake = self.index.all_awake(pods);
        assert_eq!(plan(&with(&awake), now), *fresh);
        let verdict = interlock::broadcast_job::verify(&with(&awake), fresh, now);
        assert_eq!(
            verdict,
            interlock::broadcast_job::verify(snapshot, fresh, now)
        );
    }
}

/// A job that runs everywhere, with these further fields.
pub(super) fn spec(more: Value) -> Value {
    let mut spec = json!({
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

impl World {
    pub(super) fn new(nodes: usize, more: Value) -> Self {
        let mut world = Self {
            owner: ObjectKey::of(BROADCAST_JOB, "ops", "job", Uid::MAX),
            rv: 1,
            others: None,
            joined: None,
            closed: Vec::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            spec: spec(more),
            status: Value::Null,
            generation: 1,
            resume: None,
            retry: None,
            deleting: false,
            nodes: Nodes::new(),
            pods: Pods::new(),
            unowned: TakenPods::new(),
            unseen: Pods::new(),
            uids: BTreeMap::new(),
            asked: BTreeMap::new(),
            slices: Vec::new(),
            template: Template::Accepted,
            gone: BTreeSet::new(),
            conflicts: BTreeSet::new(),
            disputed: BTreeSet::new(),
            creation_problem: None,
            refused: BTreeMap::new(),
            refusal: None,
            max_pod_changes: 500,
            created: Vec::new(),
            ran: BTreeSet::new(),
            job_deleted: false,
            serial: 0,
            follower: RefCell::default(),
        };
        for n in 0..nodes {
            world.join(&format!("n{n:04}"));
        }
        world
    }

    pub(super) fn uid(&mut self) -> Uid {
        self.serial += 1;
        format!("00000000-0000-0000-0000-{:012x}", self.serial)
            .parse()
            .unwrap()
    }

    /// A node joins, or is replaced by another of the same name.
    pub(super) fn join(&mut self, name: &str) {
        let uid = self.uid();
        self.nodes.insert(
            name.into(),
            NodeRow {
                uid,
                ..NodeRow::default()
            },
        );
    }

    pub(super) fn node(&mut self, name: &str) -> &mut NodeRow {
        self.nodes.get_mut(name).unwrap()
    }

    pub(super) fn job(&self) -> BroadcastJob {
        let meta = Meta {
            owner: self.owner.clone(),
            generation: self.generation,
            rv: self.rv,
            deleting: self.deleting,
            created: Timestamp::UNIX_EPOCH,
        };
        BroadcastJob::read(
            meta,
            Requests {
                resume: self.resume.clone(),
                retry: self.retry.clone(),
            },
            &self.spec,
            &self.status,
        )
    }

    /// The plan, which the interlock must let pass.
    pub(super) fn plan(&self) -> Plan {
        let plan = self.snapshot(|snapshot| {
            let fresh = plan(snapshot, self.now);
            self.follower
                .borrow_mut()
                .agrees(snapshot, &fresh, self.now);
            fresh
        });
        if let Err(trip) = self.verify(&plan) {
            panic!("the interlock refuses a plan: {trip}\n{plan:?}");
        }
        assert!(!plan.spins(self.now), "{plan:?}");
        plan
    }

    /// What the interlock says of a plan.
    pub(super) fn verify(&self, plan: &Plan) -> Result<(), Trip> {
        self.snapshot(|snapshot| {
            let verdict = interlock::broadcast_job::verify(snapshot, plan, self.now);
            let (job, nodes, pods) = (snapshot.job, snapshot.nodes, snapshot.pods);
            let awake = Index::of(job, nodes, pods, snapshot.slices).all_awake(pods);
            let awake = Snapshot {
                index: Some(&awake),
                ..*snapshot
            };
            let other = interlock::broadcast_job::verify(&awake, plan, self.now);
            let rule = |verdict: &Result<(), Trip>| verdict.clone().err().map(|trip| trip.rule);
            assert_eq!(rule(&verdict), rule(&other), "{plan:?}");
            verdict
        })
    }

    pub(super) fn snapshot<T>(&self, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let job = self.job();
        let family = self.others.as_ref().map(|others| Family {
            first: others.first.as_ref().map(Other::member),
            retries: others.retries.iter().map(Other::member).collect(),
            open: others.open.as_deref(),
            other: others.other,
        });
        look(&Snapshot {
            job: &job,
            nodes: &self.nodes,
            pods: &self.pods,
            taken: Taken {
                watched: &self.unowned,
                asked: &self.asked,
            },
            created: &self.uids,
            slices: &self.slices,
            template: &self.template,
            gone: &self.gone,
            conflicts: &self.conflicts,
            disputed: &self.disputed,
            creation_problem: self.creation_problem.as_ref(),
            refused: &self.refused,
            refusal: self.refusal.as_ref(),
            family: family.as_ref(),
            max_pod_changes: self.max_pod_changes,
            index: None,
        })
    }

    /// Plans and applies the first `writes` actions, as a process would that then crashes.
    pub(super) fn crash_after(&mut self, writes: usize) -> usize {
        let plan = self.plan();
        let created = self.created.len();
        let mut done = 0;
        for step in plan.steps {
            for action in step.actions {
                if done == writes {
                    return done;
                }
                let asks = matches!(
                    action,
                    Action::ConfirmJob | Action::ConfirmSlice { .. } | Action::ConfirmPod { .. }
                );
                done += usize::from(!asks);
                let ok = self.apply(action, created);
                if !ok && step.on_error == OnError::Stop {
                    assert!(asks, "a needed action failed");
                    return done;
                }
            }
        }
        done
    }

    /// Plans and applies until nothing is left to do at this time.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.crash_after(usize::MAX) == 0 {
                return;
            }
        }
        panic!("the plan never becomes empty: {:?}", self.plan());
    }

    fn apply(&mut self, action: Action, created_before: usize) -> bool {
        match action {
            Action::CheckTemplate { .. } => self.template = Template::Accepted,
            Action::ConfirmGone { pod, uid } => {
                if let Some(row) = self.unseen.get(&pod).filter(|row| row.uid == uid) {
                    let taken = TakenPod {
                        pod: row.clone(),
                        why: "its label is gone".into(),
                        asked: Some(self.now),
                    };
                    self.asked.insert(uid, taken);
                } else if self.row(&pod).is_none_or(|row| row.uid != uid) {
                    self.gone.insert(uid);
                }
            }
            Action::ConfirmJob => {}
            Action::ConfirmSlice { index, rv } => {
                assert_eq!(
                    self.slices[index as usize].rv, rv,
                    "asked about another version"
                );
            }
            Action::ConfirmPod { pod, .. } if self.unseen.contains_key(&pod) => {
                self.conflicts.insert(pod);
                return false;
            }
            Action::ConfirmPod { pod, seen } => {
                let row = self.pods.get(&pod).map(|row| (row.uid, row.rv));
                assert_eq!(row, seen, "asked about another version");
            }
            Action::WriteSlice(write) => self.write_slice(&write),
            Action::CreatePod { pod, node, .. } => return self.create(pod, node),
            Action::DeletePod { pod, uid, .. } => {
                self.asked.remove(&uid);
                self.delete_if(&pod, uid);
            }
            Action::LabelPod { pod, uid } => {
                self.asked.remove(&uid);
                if let Some(row) = self.unseen.remove(&pod) {
                    self.pods.insert(pod, row);
                }
            }
            Action::ReleasePod { pod, uid } => {
                self.asked.remove(&uid);
                if let Some(row) = self.row(&pod).filter(|row| row.uid == uid) {
                    row.tracked = false;
                    if row.deletion.is_some() && (row.phase.has_ended() || row.node.is_none()) {
                        self.vanish(&pod);
                    }
                }
            }
            Action::WriteStatus(mut status) => {
                assert_ne!(status.summary, "", "kubectl shows it");
                settle(&mut status, self.created.len() - created_before);
                self.status = serde_json::to_value(&*status).unwrap();
            }
            Action::CloseLog { uid, write, .. } => self.closed.push((uid, write)),
            Action::JoinFamily { rv, retries, .. } => self.joined = Some((rv, retries)),
            Action::DeleteJob => self.job_deleted = true,
        }
        true
    }

    pub(super) fn write_slice(&mut self, write: &SliceWrite) {
        self.serial += 1;
        // As they come back from the API server.
        let records = write.records().map(Record::write);
        let records = records.map(|result| Record::read(&result).unwrap());
        let at = write.index as usize;
        let known = self.slices.get(at).map(|slice| slice.rv);
        assert_eq!(known, write.rv, "written from another version");
        let slice = Slice {
            index: write.index,
            rv: self.serial,
            sealed: write.sealed,
            records: records.collect(),
            ..Slice::default()
        };
        if known.is_some() {
            self.slices[at] = slice;
        } else {
            assert_eq!(at, self.slices.len());
            self.slices.push(slice);
        }
    }

    fn create(&mut self, pod: Box<str>, node: Arc<str>) -> bool {
        if self.pods.contains_key(&pod) {
            return true;
        }
        if self.creation_problem.is_some() {
            return false;
        }
        let row = PodRow {
            uid: self.uid(),
            rv: 1,
            tracked: true,
            created: Some(self.now),
            ..PodRow::default()
        };
        self.created.push((pod.clone(), node));
        self.uids.insert(pod.clone(), row.uid);
        self.pods.insert(pod, row);
        true
    }

    fn delete_if(&mut self, pod: &str, uid: Uid) {
        let now = self.now;
        if let Some(row) = self.row(pod).filter(|row| row.uid == uid) {
            row.interrupted |= !row.phase.has_ended();
            row.deletion.get_or_insert(Deletion {
                due: now + SignedDuration::from_secs(30),
                grace_seconds: 30,
            });
            if !row.tracked && (row.phase.has_ended() || row.node.is_none()) {
                self.vanish(pod);
            }
        }
    }

    /// A pod with the labels and the owner of the job's runs on a node, and no attempt has made it.
    pub(super) fn stray(&mut self, name: &str, node: &str) -> &mut PodRow {
        let row = PodRow {
            uid: self.uid(),
            rv: 1,
            node: Some(node.into()),
            phase: PodPhase::Running,
            ..PodRow::default()
        };
        self.pods.entry(name.into()).insert_entry(row).into_mut()
    }

    /// A pod, whosever it is by now.
    pub(super) fn row(&mut self, pod: &str) -> Option<&mut PodRow> {
        let unowned = self.unowned.get_mut(pod).map(|taken| &mut taken.pod);
        let unseen = self.unseen.get_mut(pod);
        self.pods.get_mut(pod).or(unowned).or(unseen)
    }

    /// Somebody takes the owner from a pod.
    pub(super) fn take_owner(&mut self, pod: &str) {
        let taken = TakenPod {
            pod: self.pods.remove(pod).unwrap(),
            why: "nothing controls it".into(),
            asked: None,
        };
        self.unowned.insert(pod.into(), taken);
    }

    /// Somebody takes the label from a pod.
    pub(super) fn take_label(&mut self, pod: &str) {
        let row = self.pods.remove(pod).unwrap();
        self.unseen.insert(pod.into(), row);
    }

    /// Somebody deletes a pod.
    pub(super) fn delete(&mut self, pod: &str) {
        let uid = self.row(pod).unwrap().uid;
        self.delete_if(pod, uid);
    }

    /// A pod disappears at once, as when its finalizer is stripped and it is deleted by force.
    pub(super) fn vanish(&mut self, pod: &str) {
        self.pods.remove(pod);
        self.unowned.remove(pod);
        self.unseen.remove(pod);
    }

    /// Name of the last pod created for `node`.
    pub(super) fn pod_on(&self, node: &str) -> Box<str> {
        self.created
            .iter()
            .rev()
            .find(|(_, on)| &**on == node)
            .unwrap()
            .0
            .clone()
    }

    /// Binds and starts every pod that waits.
    pub(super) fn run_all(&mut self) {
        let nodes: Vec<(Box<str>, Arc<str>)> = self.created.clone();
        for (pod, node) in nodes {
            if let Some(row) = self
                .pods
                .get_mut(&pod)
                .filter(|row| row.phase == PodPhase::Pending)
                && row.deletion.is_none()
                && self.nodes.contains_key(&node)
            {
                row.node = Some(node);
                row.waiting = None;
                self.ran.insert(pod);
                row.phase = PodPhase::Running;
                row.started = Some(self.now);
            }
        }
    }

    /// Creates what there is to create, and its pods run and are seen to run.
    pub(super) fn start(&mut self) {
        self.settle();
        self.run_all();
        self.settle();
    }

    /// Ends the pod of `node` with `exit_code`.
    pub(super) fn end(&mut self, node: &str, exit_code: i32) {
        let (pod, now) = (self.pod_on(node), self.now);
        let row = self.row(&pod).unwrap();
        row.rv += 1;
        row.phase = if exit_code == 0 {
            PodPhase::Succeeded
        } else {
            row.failure = Some(Arc::new(Failure {
                exits: [("c".into(), exit_code)].into(),
                ..Failure::default()
            }));
            PodPhase::Failed
        };
        row.end = Some(Box::new(End {
            exit_code: Some(exit_code),
            reason: "".into(),
            message: "last words".into(),
            finished: Some(now),
            silent: false,
        }));
    }

    /// The pod of `node` does not start: a container waits, or the scheduler finds no room.
    pub(super) fn wait_for(&mut self, node: &str, reason: &str, bound: bool) {
        let pod = self.pod_on(node);
        let row = self.pods.get_mut(&pod).unwrap();
        row.node = bound.then(|| node.into());
        row.waiting = Some(Box::new(Waiting {
            reason: reason.into(),
            message: "in their words".into(),
        }));
    }

    /// The kubelet refuses to run the pod of `node`.
    pub(super) fn reject(&mut self, node: &str) {
        let pod = self.pod_on(node);
        let row = self.pods.get_mut(&pod).unwrap();
        row.rv += 1;
        row.node = Some(node.into());
        row.phase = PodPhase::Failed;
        row.started = None;
        row.failure = Some(Arc::new(Failure::default()));
        row.end = Some(Box::new(End {
            silent: true,
            reason: "OutOfcpu".into(),
            message: "in its words".into(),
            ..End::default()
        }));
    }

    /// The pod of `node` is evicted: told to stop, and marked as the cluster's doing.
    pub(super) fn evict(&mut self, node: &str) {
        let pod = self.pod_on(node);
        self.delete(&pod);
        let row = self.pods.get_mut(&pod).unwrap();
        row.disrupted = true;
        let failure = Failure {
            exits: [("c".into(), 143)].into(),
            conditions: [("DisruptionTarget".into(), "True".into())].into(),
        };
        self.end(node, 143);
        self.pods.get_mut(&pod).unwrap().failure = Some(Arc::new(failure));
    }

    /// Every running pod ends well; those being deleted are killed.
    pub(super) fn end_all(&mut self) {
        let now = self.now;
        for row in self
            .pods
            .values_mut()
            .filter(|row| row.phase == PodPhase::Running)
        {
            let code = if row.deletion.is_some() { 137 } else { 0 };
            row.phase = if code == 0 {
                PodPhase::Succeeded
            } else {
                PodPhase::Failed
            };
            let end = End {
                exit_code: Some(code),
                finished: Some(now),
                ..End::default()
            };
            row.end = Some(Box::new(end));
        }
    }

    /// Runs the job to where nothing changes any more.
    pub(super) fn run_to_the_end(&mut self) {
        for _ in 0..1000 {
            let before = (self.created.len(), self.status.clone(), self.slices.clone());
            self.settle();
            self.run_all();
            self.settle();
            self.pass(1);
            self.end_all();
            self.settle();
            if before == (self.created.len(), self.status.clone(), self.slices.clone()) {
                return;
            }
        }
        panic!("the job never comes to rest: {}", self.status);
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// (status, reason) of a condition.
    pub(super) fn condition(&self, type_: &str) -> Option<(bool, String)> {
        let job = self.job();
        let condition = crate::condition::find(&job.status.conditions, type_)?;
        Some((condition.status == "True", condition.reason.clone()))
    }

    pub(super) fn is(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|(on, _)| on)
    }

    /// Message of a condition.
    pub(super) fn message(&self, type_: &str) -> String {
        let job = self.job();
        let condition = crate::condition::find(&job.status.conditions, type_);
        condition.unwrap().message.clone()
    }

    /// Words of the actions that are planned.
    pub(super) fn words(&self) -> Vec<&'static str> {
        let plan = self.plan();
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        actions.map(Action::word).collect()
    }

    /// Name of the pod of an attempt.
    pub(super) fn pod_of(&self, node: &str, attempt: u32) -> String {
        let owner = self.job().meta.owner;
        crate::name::pod(&owner.name, owner.uid, node, attempt)
    }

    /// State and reason of every attempt on `node`.
    pub(super) fn attempts(&self, node: &str) -> Vec<(NodeState, String)> {
        let records = self.slices.iter().flat_map(|slice| &slice.records);
        records
            .filter(|record| &*record.node == node)
            .map(|record| (record.state, record.reason.to_string()))
            .collect()
    }

    pub(super) fn creations_on(&self, node: &str) -> usize {
        self.created.iter().filter(|(_, on)| &**on == node).count()
    }

    /// Pods that exist and have not ended.
    pub(super) fn live(&self) -> usize {
        self.pods
            .values()
            .filter(|pod| !pod.phase.has_ended())
            .count()
    }

    pub(super) fn cordon(&mut self, name: &str) {
        self.node(name).unschedulable = true;
    }
}
