//! A Job, its pods, and an API server of two maps.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobStatus;
use serde_json::{Value, json};

use super::super::action::{Action, Plan, StatusWrite};
use super::super::backoff::BackoffRecord;
use super::super::indexes::Indexes;
use super::super::unanswered::Unanswered;
use super::super::{Job, JobPod, JobPods, Limits, Snapshot, plan};
use crate::interlock;
use crate::meta::Meta;
use crate::object_key::{JOB, ObjectKey};
use crate::pod::{Failure, PodPhase};
use crate::uid::Uid;

pub(super) fn uid(n: u64) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

/// What is stored, what is remembered, and what has been seen to happen.
#[derive(Clone)]
pub(super) struct World {
    pub(super) job: Job,
    pub(super) pods: JobPods,
    /// Pods that nothing controls.
    pub(super) free: JobPods,
    pub(super) backoff: BackoffRecord,
    pub(super) unanswered: Unanswered,
    pub(super) limits: Limits,
    pub(super) now: Timestamp,
    pub(super) notes: Vec<&'static str>,
    /// Pods made so far.
    pub(super) made: u64,
    /// Uids of pods whose finalizer was taken so that they are not counted.
    pub(super) uncounted: BTreeSet<Uid>,
    pub(super) deleted: bool,
}

impl World {
    /// A Job with this spec, made a second ago.
    pub(super) fn new(spec: Value) -> Self {
        let mut spec = spec;
        if spec.get("template").is_none() {
            spec["template"] = json!({"spec": {"restartPolicy": "Never"}});
        }
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let meta = Meta::new(
            ObjectKey::of(JOB, "ops", "sum", uid(0)),
            now - SignedDuration::from_secs(1),
        );
        Self {
            job: Job::read(meta, &spec, &json!({})),
            pods: JobPods::new(),
            free: JobPods::new(),
            backoff: BackoffRecord::default(),
            unanswered: Unanswered::new(),
            limits: Limits::default(),
            now,
            notes: Vec::new(),
            made: 0,
            uncounted: BTreeSet::new(),
            deleted: false,
        }
    }

    /// The same with this status.
    pub(super) fn with_status(mut self, status: Value) -> Self {
        self.job.status = serde_json::from_value(status).unwrap();
        self
    }

    /// Adds a pod, after `change`.
    pub(super) fn pod(&mut self, change: impl FnOnce(&mut JobPod)) -> &mut JobPod {
        self.made += 1;
        let mut pod = JobPod {
            uid: uid(self.made),
            tracked: true,
            created: self.now,
            ..JobPod::default()
        };
        change(&mut pod);
        if pod.phase.has_ended() {
            pod.finished.get_or_insert(self.now);
        }
        let name: Box<str> = format!("p{}", self.made).into();
        self.pods.entry(name).insert_entry(pod).into_mut()
    }

    /// Adds so many pods in this phase.
    pub(super) fn pods_in(&mut self, phase: PodPhase, many: usize) {
        for _ in 0..many {
            self.pod(|pod| pod.phase = phase);
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let snapshot = Snapshot {
            job: &self.job,
            pods: &self.pods,
            free: &self.free,
            backoff: &self.backoff,
            unanswered: &self.unanswered,
            limits: &self.limits,
        };
        let plan = plan(&snapshot, self.now);
        if let Err(trip) = interlock::job::verify(&snapshot, &plan, self.now) {
            panic!("{trip}: {plan:?}");
        }
        assert!(!plan.spins(self.now), "{plan:?}");
        plan
    }

    /// Plans, and does the first `writes` of it. Whether there was more.
    pub(super) fn sync_until(&mut self, writes: usize) -> bool {
        let plan = self.plan();
        let actions: Vec<Action> = plan
            .steps
            .into_iter()
            .flat_map(|step| step.actions)
            .collect();
        let more = actions.len() > writes;
        for action in actions.into_iter().take(writes) {
            self.apply(action);
        }
        if !more {
            self.notes.extend(plan.notes.iter().map(|note| note.reason));
        }
        more
    }

    /// Plans and does all of it.
    pub(super) fn sync(&mut self) -> Plan {
        let plan = self.plan();
        self.sync_until(usize::MAX);
        plan
    }

    /// Syncs until nothing is left to do at once.
    pub(super) fn settle(&mut self) {
        for _ in 0..10 {
            if self.sync().steps.is_empty() {
                return;
            }
        }
        panic!("never at rest: {:?}", self.plan());
    }

    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::ConfirmCurrent => {}
            Action::ConfirmAbsent { name } => drop(self.unanswered.remove(&name)),
            Action::AdoptPod { name, .. } => {
                if let Some(mut pod) = self.free.remove(name.as_str()) {
                    pod.tracked = true;
                    self.pods.insert(name.into(), pod);
                }
            }
            Action::DisownPod { name, .. } => {
                if let Some(mut pod) = self.pods.remove(name.as_str()) {
                    pod.tracked = false;
                    self.free.insert(name.into(), pod);
                }
            }
            Action::CreatePod(new) => {
                if self.pods.contains_key(new.name.as_str()) {
                    return;
                }
                self.made += 1;
                let pod = JobPod {
                    uid: uid(self.made),
                    tracked: true,
                    created: self.now,
                    index: new.index,
                    failures: new.failures.unwrap_or(0),
                    ignored_failures: new.ignored_failures.unwrap_or(0),
                    ..JobPod::default()
                };
                self.pods.insert(new.name.into(), pod);
            }
            Action::RemovePod { name, uid, .. } => {
                self.uncounted.insert(uid);
                self.release(&name);
                self.delete(&name);
            }
            Action::StopPod { name, .. } => self.delete(&name),
            Action::ReleasePod { name, .. } => self.release(&name),
            Action::WriteStatus(write) => self.write(*write),
            Action::DeleteJob => self.deleted = true,
        }
    }

    fn write(&mut self, write: StatusWrite) {
        let old = std::mem::replace(&mut self.job.status, write.status);
        valid(&self.job, &old, &self.job.status);
        self.backoff = write.backoff;
        self.job.meta.rv += 1;
    }

    fn release(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.tracked = false;
            self.collect(name);
        }
    }

    /// Somebody deletes a pod.
    pub(super) fn delete(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.deleting = true;
            pod.ready = None;
            self.collect(name);
        }
    }

    /// A deleted pod is gone once nothing runs in it and nobody holds it.
    fn collect(&mut self, name: &str) {
        let gone = self.pods.get(name).is_some_and(|pod| {
            pod.deleting && !pod.tracked && (pod.phase.has_ended() || !pod.assigned)
        });
        if gone {
            self.pods.remove(name);
        }
    }

    /// The kubelet ends a pod.
    pub(super) fn end(&mut self, name: &str, phase: PodPhase, exit_code: i32) {
        let now = self.now;
        if let Some(pod) = self.pods.get_mut(name) {
            pod.phase = phase;
            pod.finished = Some(now);
            pod.ready = None;
            if phase == PodPhase::Failed {
                let failure = Failure {
                    exits: [("main".into(), exit_code)].into(),
                    conditions: [].into(),
                };
                pod.failure = Some(failure.into());
            }
            self.collect(name);
        }
    }

    /// Active, succeeded, failed.
    pub(super) fn counts(&self) -> (i32, i32, i32) {
        let status = &self.job.status;
        let count = |count: Option<i32>| count.unwrap_or(0);
        (
            count(status.active),
            count(status.succeeded),
            count(status.failed),
        )
    }

    /// Type, status and reason of the conditions.
    pub(super) fn conditions(&self) -> Vec<(&str, &str, &str)> {
        let conditions = self.job.status.conditions.iter().flatten();
        conditions
            .map(|known| {
                let reason = known.reason.as_deref().unwrap_or_default();
                (known.type_.as_str(), known.status.as_str(), reason)
            })
            .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.pods.keys().map(ToString::to_string).collect()
    }

    pub(super) fn active(&self) -> usize {
        self.pods.values().filter(|pod| pod.is_active()).count()
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }
}

/// What the API server refuses in a status (validation of `status` for Jobs, 1.36).
pub(super) fn valid(job: &Job, old: &JobStatus, new: &JobStatus) {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let has = |status: &JobStatus, type_: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|known| known.type_ == type_ && known.status == "True")
    };
    let spec = &job.spec;
    for (type_, other) in [
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ] {
        assert!(!(has(new, type_) && has(new, other)), "{type_} and {other}");
    }
    for type_ in ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"] {
        assert!(
            has(new, type_) || !has(old, type_),
            "{type_} was turned off"
        );
    }
    assert!(!has(new, "Failed") || has(new, "FailureTarget"));
    assert!(!has(new, "Complete") || has(new, "SuccessCriteriaMet"));
    assert!(count(new.failed) >= count(old.failed), "failed went down");
    let elastic = spec.is_indexed() && spec.completions == Some(spec.parallelism);
    assert!(
        elastic || count(new.succeeded) >= count(old.succeeded),
        "succeeded went down"
    );
    for number in [
        new.active,
        new.ready,
        new.terminating,
        new.succeeded,
        new.failed,
    ] {
        assert!(count(number) >= 0, "{new:?}");
    }
    assert!(
        count(new.ready) <= count(new.active),
        "more ready than active: {new:?}"
    );
    let uncounted = new.uncounted_terminated_pods.as_ref();
    let uids: Vec<&String> = uncounted
        .into_iter()
        .flat_map(|lists| [&lists.succeeded, &lists.failed])
        .flat_map(|list| list.iter().flatten())
        .collect();
    let distinct: BTreeSet<&&String> = uids.iter().collect();
    assert_eq!(distinct.len(), uids.len(), "a uid twice: {new:?}");
    let finished = has(new, "Complete") || has(new, "Failed");
    if finished {
        assert_eq!(
            (count(new.active), count(new.terminating), uids.len()),
            (0, 0, 0)
        );
        let never_started = spec.suspend && spec.completions == Some(0);
        assert!(new.start_time.is_some() || never_started);
    }
    assert_eq!(new.completion_time.is_some(), has(new, "Complete"));
    if let (Some(before), Some(after)) = (&old.start_time, &new.start_time) {
        let resumed = has(old, "Suspended") && !has(new, "Suspended");
        assert!(
            before == after || spec.suspend || resumed,
            "startTime moved"
        );
    }
    let completions = u32::try_from(spec.completions.unwrap_or(0)).unwrap_or(0);
    let read = |text: &Option<String>| Indexes::read(text.as_deref().unwrap_or(""), completions);
    let (done, failed) = (read(&new.completed_indexes), read(&new.failed_indexes));
    for (written, indexes) in [
        (&new.completed_indexes, &done),
        (&new.failed_indexes, &failed),
    ] {
        assert_eq!(written.as_deref().unwrap_or(""), indexes.to_string());
        assert!(spec.is_indexed() || indexes.is_empty());
    }
    assert_eq!(
        done.intersection_len(&failed),
        0,
        "an index that succeeded and failed"
    );
    assert!(new.failed_indexes.is_none() || spec.backoff_limit_per_index.is_some());
}
