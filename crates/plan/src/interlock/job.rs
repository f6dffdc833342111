//! The same for Jobs: what a plan for one must never do.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use carillon_api::condition::reasons;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobStatus;

use super::{TRIPPED_RECHECK, Trip, trip};
use crate::job::action::{Action, NewPod, Note, OnError, Plan, Step};
use crate::job::indexes::Indexes;
use crate::job::{Job, JobPod, Snapshot};
use crate::pod::PodPhase;
use crate::uid::Uid;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    /// Pods are created or adopted, and Jobs deleted, by a plan that has asked whether the Job is as it
    /// was judged.
    pub const CONFIRMED_FIRST: &str = "confirmed_first";
    /// A Job that is suspended, being deleted, ending or over creates no pod.
    pub const STARTS: &str = "starts";
    /// No more pods run than parallelism and what is left to do allow, and no plan creates and removes.
    pub const PARALLELISM: &str = "parallelism";
    /// An index has one pod at a time, and none once it has succeeded or failed.
    pub const ONE_PER_INDEX: &str = "one_per_index";
    /// A uid is counted when its pod is let go, once, and each counter grows by those that leave its list.
    pub const COUNTS: &str = "counts";
    /// What a Job has come to is never taken back.
    pub const TERMINAL: &str = "terminal";
    /// A Job ends when none of its pods runs and all are counted, and is complete with as many successes as
    /// it asks for.
    pub const END: &str = "end";
    /// Pods are stopped by uid, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Pods that have ended are let go by uid, and only when that is stored, or stored by a step before.
    pub const RELEASE: &str = "release";
    /// A Job is deleted only when its time to live is over.
    pub const TIME_TO_LIVE: &str = "time_to_live";

    /// All of them.
    pub const ALL: [&str; 10] = [
        CONFIRMED_FIRST,
        STARTS,
        PARALLELISM,
        ONE_PER_INDEX,
        COUNTS,
        TERMINAL,
        END,
        DELETE,
        RELEASE,
        TIME_TO_LIVE,
    ];
}

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let mut check = Check {
        snapshot,
        now,
        stored: Stored::of(&snapshot.job.status),
        pods: Pods::of(snapshot),
        current: false,
        ends: is_ending(&snapshot.job.status)
            || actions().any(|action| match action {
                Action::WriteStatus(write) => is_ending(&write.status),
                _ => false,
            }),
        names: BTreeSet::new(),
        indexes: BTreeSet::new(),
        removes: false,
    };
    for step in &plan.steps {
        for action in &step.actions {
            check.action(action, step)?;
        }
    }
    Ok(())
}

/// What is done instead of a plan that must not be carried out: it is told, and looked at again. The
/// status of a Job has no place for it.
pub fn refuse(trip: &Trip, now: Timestamp) -> Plan {
    Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        notes: vec![Note {
            warning: true,
            reason: reasons::INTERLOCK_TRIPPED,
            action: "Planning",
            message: format!("the interlock refused a plan ({trip}); please report it"),
        }],
        ..Plan::default()
    }
}

/// Conditions that stay once they are True.
const FOR_EVER: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

fn is(status: &JobStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|known| known.type_ == type_ && known.status == "True")
}

fn is_ending(status: &JobStatus) -> bool {
    FOR_EVER.iter().any(|type_| is(status, type_))
}

/// Uids that a status keeps: of pods that have succeeded, and of those that have failed.
fn lists(status: &JobStatus) -> [HashSet<&str>; 2] {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let succeeded = uncounted.and_then(|of| of.succeeded.as_ref());
    let failed = uncounted.and_then(|of| of.failed.as_ref());
    [succeeded, failed].map(|uids| uids.into_iter().flatten().map(String::as_str).collect())
}

/// What a status says of pods, read once.
struct Stored<'a> {
    status: &'a JobStatus,
    lists: [HashSet<&'a str>; 2],
    succeeded: Indexes,
    failed: Indexes,
}

impl<'a> Stored<'a> {
    fn of(status: &'a JobStatus) -> Self {
        let read =
            |list: &Option<String>| Indexes::read(list.as_deref().unwrap_or_default(), u32::MAX);
        Self {
            status,
            lists: lists(status),
            succeeded: read(&status.completed_indexes),
            failed: read(&status.failed_indexes),
        }
    }

    fn has_index(&self, index: u32) -> bool {
        self.succeeded.contains(index) || self.failed.contains(index)
    }
}

/// What the pods amount to, in one walk.
struct Pods {
    /// They run; where pods are replaced only when they have ended, or were told to stop and have not.
    running: i64,
    /// The same, by index.
    by_index: BTreeMap<u32, usize>,
    /// They run, whatever is replaced when.
    active: i64,
    /// They have succeeded, and may not be counted yet.
    succeeded: i64,
}

impl Pods {
    fn of(snapshot: &Snapshot<'_>) -> Self {
        let waits = snapshot.job.spec.replaces_only_failed;
        let mut all = Self {
            running: 0,
            by_index: BTreeMap::new(),
            active: 0,
            succeeded: 0,
        };
        for pod in snapshot.pods.values() {
            all.active += i64::from(pod.is_active());
            all.succeeded += i64::from(pod.tracked && pod.phase == PodPhase::Succeeded);
            if !pod.phase.has_ended() && (waits || !pod.deleting) {
                all.running += 1;
                if let Some(index) = pod.index {
                    *all.by_index.entry(index).or_default() += 1;
                }
            }
        }
        all
    }
}

fn count(count: Option<i32>) -> i64 {
    count.unwrap_or(0).into()
}

struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    /// As stored when an action is done.
    stored: Stored<'a>,
    pods: Pods,
    /// The plan has asked whether it sees the present.
    current: bool,
    /// The Job is ending, or does so by this plan.
    ends: bool,
    names: BTreeSet<&'a str>,
    indexes: BTreeSet<u32>,
    /// The plan removes pods that are too many.
    removes: bool,
}

impl<'a> Check<'a> {
    fn action(&mut self, action: &'a Action, step: &Step) -> Result<(), Trip> {
        match action {
            Action::ConfirmCurrent => {
                self.current = step.on_error == OnError::Stop;
                Ok(())
            }
            Action::AdoptPod { name, .. } => self.confirmed(name),
            Action::DisownPod { .. } => Ok(()),
            Action::CreatePod(pod) => self.create(pod),
            Action::RemovePod { name, uid, .. } => self.remove(name, *uid),
            Action::StopPod { name, uid } => {
                self.judged(rules::DELETE, name, *uid)?;
                if self.ends {
                    return Ok(());
                }
                trip(
                    rules::DELETE,
                    format!("{name} is stopped, and the Job goes on"),
                )
            }
            Action::ReleasePod { name, uid, .. } => self.release(name, *uid),
            Action::WriteStatus(write) => {
                self.write(&write.status)?;
                if step.on_error == OnError::Stop {
                    self.stored = Stored::of(&write.status);
                }
                Ok(())
            }
            Action::DeleteJob => self.delete_job(),
        }
    }

    fn confirmed(&self, what: &str) -> Result<(), Trip> {
        if self.current {
            return Ok(());
        }
        let why = format!("nobody has asked whether the Job is as it was, before {what}");
        trip(rules::CONFIRMED_FIRST, why)
    }

    /// The pod of this name, if it is the one that was judged.
    fn judged(&self, rule: &'static str, name: &str, uid: Uid) -> Result<&'a JobPod, Trip> {
        let pod = self.snapshot.pods.get(name).filter(|pod| pod.uid == uid);
        let why = || format!("{name} ({uid}) is not the pod that was judged");
        pod.ok_or_else(|| Trip { rule, what: why() })
    }

    fn wanted(&self) -> i64 {
        let Job { spec, status, .. } = self.snapshot.job;
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let listed = uncounted
            .and_then(|of| of.succeeded.as_ref())
            .map_or(0, Vec::len);
        let done = match spec.completions.and_then(|end| u32::try_from(end).ok()) {
            // Of what has succeeded only what is still asked for.
            Some(end) if spec.is_indexed() => {
                let written = status.completed_indexes.as_deref().unwrap_or_default();
                Indexes::read(written, end).len().into()
            }
            _ => count(status.succeeded) + listed as i64,
        };
        let left = spec
            .completions
            .map_or(i64::MAX, |all| i64::from(all) - done);
        i64::from(spec.parallelism).min(left).max(0)
    }

    fn create(&mut self, new: &'a NewPod) -> Result<(), Trip> {
        let job = self.snapshot.job;
        self.confirmed(&new.name)?;
        if job.spec.suspend || job.meta.deleting || self.ends {
            let why = format!("{} is created for a Job that is not to start any", new.name);
            return trip(rules::STARTS, why);
        }
        let known = self.snapshot.pods.contains_key(new.name.as_str());
        if known || !self.names.insert(&new.name) {
            return trip(
                rules::ONE_PER_INDEX,
                format!("{} is there already", new.name),
            );
        }
        let running = self.pods.running + self.names.len() as i64;
        let wanted = self.wanted();
        if running > wanted || self.removes {
            let why = format!(
                "{running} pods would run, {wanted} may, and {} is one",
                new.name
            );
            return trip(rules::PARALLELISM, why);
        }
        match new.index {
            Some(index) => self.index(index),
            None if job.spec.is_indexed() => {
                trip(rules::ONE_PER_INDEX, format!("{} has no index", new.name))
            }
            None => Ok(()),
        }
    }

    fn index(&mut self, index: u32) -> Result<(), Trip> {
        let spec = &self.snapshot.job.spec;
        let end = spec
            .completions
            .and_then(|end| u32::try_from(end).ok())
            .unwrap_or(0);
        // Without a limit for each index none fails for good.
        let failed = spec.backoff_limit_per_index.is_some() && self.stored.failed.contains(index);
        let over = failed || self.stored.succeeded.contains(index);
        let runs = self.pods.by_index.contains_key(&index);
        if index >= end || over || runs || !self.indexes.insert(index) {
            let why = format!("index {index} is given a pod that it is not to have");
            return trip(rules::ONE_PER_INDEX, why);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str, uid: Uid) -> Result<(), Trip> {
        let pod = self.judged(rules::DELETE, name, uid)?;
        self.removes = true;
        let spec = &self.snapshot.job.spec;
        let out = spec.is_indexed()
            && pod.index.is_none_or(|index| {
                let twice = self.pods.by_index.get(&index).is_some_and(|pods| *pods > 1);
                twice
                    || spec
                        .completions
                        .is_some_and(|end| i64::from(index) >= end.into())
            });
        let many = self.pods.active;
        // What has just succeeded leaves less to do.
        if spec.suspend || out || many + self.pods.succeeded > self.wanted() {
            return Ok(());
        }
        let why = format!(
            "{name} is removed, {many} pods run and {} may",
            self.wanted()
        );
        trip(rules::DELETE, why)
    }

    fn release(&self, name: &str, uid: Uid) -> Result<(), Trip> {
        let pod = self.judged(rules::RELEASE, name, uid)?;
        let spec = &self.snapshot.job.spec;
        let uid = uid.to_string();
        let listed = || {
            self.stored
                .lists
                .iter()
                .any(|list| list.contains(uid.as_str()))
        };
        if self.snapshot.job.has_finished() || !pod.phase.has_ended() || listed() {
            return Ok(());
        }
        let failed = pod.phase == PodPhase::Failed;
        // Whether a rule ignores a failure is the planner's to say.
        let ignored = failed && spec.failure_rules.is_some();
        let by_index = spec.is_indexed()
            && pod.index.is_none_or(|index| {
                let known = self.stored.has_index(index);
                let end = spec.completions.unwrap_or(0);
                i64::from(index) >= end.into() || known && !failed
            });
        if ignored || by_index {
            return Ok(());
        }
        trip(
            rules::RELEASE,
            format!("{name} has ended and is not counted"),
        )
    }

    fn write(&self, new: &JobStatus) -> Result<(), Trip> {
        let old = self.stored.status;
        for type_ in FOR_EVER {
            if is(old, type_) && !is(new, type_) {
                return trip(rules::TERMINAL, format!("{type_} is taken back"));
            }
        }
        if is(new, "Complete") && is(new, "Failed") || count(new.failed) < count(old.failed) {
            return trip(
                rules::TERMINAL,
                "it is Complete and Failed, or fewer have failed",
            );
        }
        let pods = self.snapshot.pods.values();
        let ends = ["Complete", "Failed"].iter().any(|type_| is(new, type_));
        // Of a Job that is being deleted not all pods are looked at.
        if self.snapshot.job.meta.deleting {
            return Ok(());
        }
        if ends {
            let running = pods.filter(|pod| !pod.phase.has_ended()).count();
            let left: usize = lists(new).iter().map(HashSet::len).sum();
            if running > 0 || left > 0 {
                let why = format!("it ends while {running} pods run and {left} are to be counted");
                return trip(rules::END, why);
            }
        }
        if !is(old, "SuccessCriteriaMet") {
            self.enough(new)?;
        }
        self.counts(old, new)
    }

    /// Who says that all completions are there has them: stored, listed, or in pods that have succeeded
    /// and are not listed as failed.
    fn enough(&self, new: &JobStatus) -> Result<(), Trip> {
        let mut conditions = new.conditions.iter().flatten();
        let reached = conditions.any(|known| {
            let reason = known.reason.as_deref();
            known.type_ == "SuccessCriteriaMet" && reason == Some("CompletionsReached")
        });
        if !reached {
            return Ok(());
        }
        let spec = &self.snapshot.job.spec;
        let [succeeded, failed] = lists(new);
        let pods = self.snapshot.pods.values();
        let ended = pods.filter(|pod| pod.tracked && pod.phase == PodPhase::Succeeded);
        let ended = ended.map(|pod| (pod.uid.to_string(), pod.index));
        let ended = ended.filter(|(uid, _)| !failed.contains(uid.as_str()));
        let done = match spec.completions.and_then(|end| u32::try_from(end).ok()) {
            Some(end) if spec.is_indexed() => {
                let written = new.completed_indexes.as_deref().unwrap_or_default();
                let mut done = Indexes::read(written, end);
                done.extend(ended.filter_map(|(_, index)| index).filter(|at| *at < end));
                done.len().into()
            }
            _ => {
                let ended = ended.filter(|(uid, _)| !succeeded.contains(uid.as_str()));
                count(new.succeeded) + (succeeded.len() + ended.count()) as i64
            }
        };
        let wanted = spec.completions.map_or(1, i64::from);
        if done >= wanted {
            return Ok(());
        }
        let why = format!("it is complete with {done} of {wanted} successes");
        trip(rules::END, why)
    }

    fn counts(&self, old: &JobStatus, new: &JobStatus) -> Result<(), Trip> {
        let tracked = self.snapshot.pods.values().filter(|pod| pod.tracked);
        let tracked: HashSet<String> = tracked.map(|pod| pod.uid.to_string()).collect();
        let (was, is) = (lists(old), lists(new));
        if let Some(uid) = is[0].intersection(&is[1]).next() {
            return trip(rules::COUNTS, format!("{uid} has succeeded and failed"));
        }
        for (was, is) in was.iter().zip(&is) {
            if let Some(uid) = is
                .iter()
                .find(|uid| !was.contains(*uid) && !tracked.contains(**uid))
            {
                return trip(
                    rules::COUNTS,
                    format!("{uid} is no pod that is to be counted"),
                );
            }
            if let Some(uid) = was
                .iter()
                .find(|uid| !is.contains(*uid) && tracked.contains(**uid))
            {
                return trip(rules::COUNTS, format!("{uid} is counted and still held"));
            }
        }
        let left = |at: usize| was[at].difference(&is[at]).count() as i64;
        let grown = |new: Option<i32>, old: Option<i32>| count(new) - count(old);
        let indexed = self.snapshot.job.spec.is_indexed();
        let succeeded = indexed || grown(new.succeeded, old.succeeded) == left(0);
        if !succeeded || grown(new.failed, old.failed) != left(1) {
            let why = "the counters grow by others than were listed";
            return trip(rules::COUNTS, why);
        }
        Ok(())
    }

    fn delete_job(&self) -> Result<(), Trip> {
        self.confirmed("the Job is deleted")?;
        let job = self.snapshot.job;
        let ended = job
            .ended()
            .and_then(|ended| ended.last_transition_time.as_ref());
        let due = job
            .spec
            .ttl_seconds_after_finished
            .zip(ended)
            .map(|(seconds, ended)| {
                let over = ended
                    .0
                    .checked_add(SignedDuration::from_secs(seconds.into()));
                over.unwrap_or(Timestamp::MAX)
            });
        if due.is_some_and(|due| due <= self.now) {
            return Ok(());
        }
        trip(
            rules::TIME_TO_LIVE,
            "the Job is deleted before its time is over",
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::job::action::StatusWrite;
    use crate::job::backoff::BackoffRecord;
    use crate::job::{JobMeta, JobPods, Limits, plan};
    use crate::object_key::{JOB, ObjectKey};
    use crate::plan::Step as AnyStep;

    fn uid(n: u64) -> Uid {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn job(spec: &Value, status: &Value) -> Job {
        let mut spec = spec.clone();
        spec["template"] = json!({"spec": {"restartPolicy": "Never"}});
        let meta = JobMeta {
            owner: ObjectKey::of(JOB, "ops", "sum", uid(0)),
            generation: 1,
            rv: 1,
            deleting: false,
            created: now(),
        };
        Job::read(meta, &spec, status)
    }

    fn pod(n: u64, phase: PodPhase, index: Option<u32>) -> (Box<str>, JobPod) {
        let pod = JobPod {
            uid: uid(n),
            phase,
            index,
            tracked: true,
            created: now(),
            finished: Some(now()),
            ..JobPod::default()
        };
        (format!("p{n}").into(), pod)
    }

    fn judge(job: &Job, pods: &JobPods, actions: Vec<Action>) -> Result<(), &'static str> {
        let steps = actions
            .into_iter()
            .map(|action| AnyStep::needed(vec![action]));
        let plan = Plan {
            steps: steps.collect(),
            ..Plan::default()
        };
        on(job, pods, |snapshot| verify(snapshot, &plan, now())).map_err(|trip| trip.rule)
    }

    fn on<T>(job: &Job, pods: &JobPods, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        look(&Snapshot {
            job,
            pods,
            free: &JobPods::new(),
            backoff: &BackoffRecord::default(),
            limits: &Limits::default(),
        })
    }

    fn create(name: &str, index: Option<u32>) -> Action {
        Action::CreatePod(NewPod {
            name: name.to_owned(),
            index,
            failures: None,
            ignored_failures: None,
            why: crate::job::action::Why::New,
        })
    }

    fn write(status: Value) -> Action {
        Action::WriteStatus(Box::new(StatusWrite {
            status: serde_json::from_value(status).unwrap(),
            created: 0,
            removed: 0,
            backoff: BackoffRecord::default(),
        }))
    }

    fn release(n: u64) -> Action {
        Action::ReleasePod {
            name: format!("p{n}"),
            uid: uid(n),
            handled: None,
        }
    }

    fn stop(n: u64) -> Action {
        let name = format!("p{n}");
        Action::StopPod { name, uid: uid(n) }
    }

    fn remove(n: u64) -> Action {
        Action::RemovePod {
            name: format!("p{n}"),
            uid: uid(n),
            tracked: true,
        }
    }

    fn on_true(types: &[&str]) -> Value {
        let all = types.iter().map(|t| json!({"type": t, "status": "True"}));
        all.collect()
    }

    #[test]
    fn the_planners_own_plans_pass() {
        let spec = json!({"parallelism": 3, "completions": 6});
        let mut pods = JobPods::new();
        for phases in [
            vec![],
            vec![PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed],
            vec![PodPhase::Running; 5],
        ] {
            pods.extend((1..).zip(phases).map(|(n, phase)| pod(n, phase, None)));
            let job = job(&spec, &json!({}));
            let verdict = on(&job, &pods, |snapshot| {
                verify(snapshot, &plan(snapshot, now()), now())
            });
            assert_eq!(verdict, Ok(()));
        }
    }

    #[test]
    fn pods_are_created_by_who_has_asked_and_only_as_many_as_may_run() {
        let spec = json!({"parallelism": 2, "completions": 6});
        let open = job(&spec, &json!({}));
        let pods = JobPods::from([pod(1, PodPhase::Running, None)]);
        let confirm = Action::ConfirmCurrent;
        let asked = |creates: Vec<Action>| [vec![confirm.clone()], creates].concat();
        assert_eq!(judge(&open, &pods, asked(vec![create("a", None)])), Ok(()));
        let unasked = judge(&open, &pods, vec![create("a", None)]);
        assert_eq!(unasked, Err(rules::CONFIRMED_FIRST));
        let two = asked(vec![create("a", None), create("b", None)]);
        assert_eq!(judge(&open, &pods, two), Err(rules::PARALLELISM));
        let taken = asked(vec![create("p1", None)]);
        assert_eq!(judge(&open, &pods, taken), Err(rules::ONE_PER_INDEX));
        let mut suspended = spec.clone();
        suspended["suspend"] = json!(true);
        let ending = json!({"conditions": on_true(&["FailureTarget"])});
        for job in [job(&suspended, &json!({})), job(&spec, &ending)] {
            let one = asked(vec![create("a", None)]);
            assert_eq!(judge(&job, &pods, one), Err(rules::STARTS));
        }
    }

    #[test]
    fn an_index_has_one_pod() {
        let spec = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed"});
        let job = job(&spec, &json!({"completedIndexes": "1", "succeeded": 1}));
        let pods = JobPods::from([pod(1, PodPhase::Running, Some(0))]);
        let created = |index| {
            let actions = vec![Action::ConfirmCurrent, create("a", index)];
            judge(&job, &pods, actions)
        };
        assert_eq!(created(Some(2)), Ok(()));
        for index in [Some(0), Some(1), Some(4), None] {
            assert_eq!(created(index), Err(rules::ONE_PER_INDEX), "{index:?}");
        }
    }

    #[test]
    fn a_pod_is_listed_then_let_go_then_counted() {
        let spec = json!({"parallelism": 2, "completions": 6});
        let pods = JobPods::from([pod(1, PodPhase::Succeeded, None)]);
        let listed = json!({"uncountedTerminatedPods": {"succeeded": [uid(1).to_string()]}});
        let (fresh, known) = (job(&spec, &json!({})), job(&spec, &listed));
        let both = vec![write(listed.clone()), release(1)];
        assert_eq!(judge(&fresh, &pods, both), Ok(()));
        assert_eq!(judge(&fresh, &pods, vec![release(1)]), Err(rules::RELEASE));
        let counted = || write(json!({"succeeded": 1}));
        assert_eq!(judge(&known, &pods, vec![counted()]), Err(rules::COUNTS));
        assert_eq!(judge(&known, &JobPods::new(), vec![counted()]), Ok(()));
        assert_eq!(judge(&fresh, &pods, vec![counted()]), Err(rules::COUNTS));
        let unknown = judge(&fresh, &JobPods::new(), vec![write(listed)]);
        assert_eq!(unknown, Err(rules::COUNTS));
    }

    #[test]
    fn a_job_ends_when_nothing_runs_and_never_comes_back() {
        let spec = json!({"parallelism": 2, "completions": 1});
        let met = json!({"conditions": on_true(&["SuccessCriteriaMet"])});
        let done = || write(json!({"conditions": on_true(&["SuccessCriteriaMet", "Complete"])}));
        let job = job(&spec, &met);
        let pods = JobPods::from([pod(1, PodPhase::Running, None)]);
        assert_eq!(judge(&job, &pods, vec![done()]), Err(rules::END));
        assert_eq!(judge(&job, &JobPods::new(), vec![done()]), Ok(()));
        let back = judge(&job, &pods, vec![write(json!({}))]);
        assert_eq!(back, Err(rules::TERMINAL));
    }

    #[test]
    fn a_job_is_complete_with_as_many_successes_as_it_asks_for() {
        let met = |failed: &[u64], succeeded: i32, indexes: &str| {
            let failed: Vec<String> = failed.iter().map(|n| uid(*n).to_string()).collect();
            let reached = json!({"type": "SuccessCriteriaMet", "status": "True",
                "reason": "CompletionsReached"});
            write(json!({
                "conditions": [reached], "succeeded": succeeded, "completedIndexes": indexes,
                "uncountedTerminatedPods": {"failed": failed},
            }))
        };
        let ends = |spec: &Value, status: &Value, index, write| {
            let pods = JobPods::from([pod(1, PodPhase::Succeeded, index)]);
            judge(&job(spec, status), &pods, vec![write])
        };
        let (none, listed) = (
            json!({}),
            json!({"uncountedTerminatedPods": {"failed": [uid(1).to_string()]}}),
        );
        let queue = json!({"parallelism": 1});
        assert_eq!(ends(&queue, &none, None, met(&[], 0, "")), Ok(()));
        let counted = ends(&queue, &listed, None, met(&[1], 0, ""));
        assert_eq!(counted, Err(rules::END));
        let two = json!({"parallelism": 1, "completions": 2, "completionMode": "Indexed"});
        let half = json!({"completedIndexes": "1", "succeeded": 1});
        assert_eq!(ends(&two, &half, Some(0), met(&[], 1, "1")), Ok(()));
        assert_eq!(ends(&two, &none, Some(0), met(&[], 0, "")), Err(rules::END));
    }

    #[test]
    fn pods_are_stopped_for_a_reason_and_jobs_deleted_in_time() {
        let spec = json!({"parallelism": 1, "completions": 6, "ttlSecondsAfterFinished": 60});
        let open = job(&spec, &json!({}));
        let one = JobPods::from([pod(1, PodPhase::Running, None)]);
        let mut two = one.clone();
        two.extend([pod(2, PodPhase::Running, None)]);
        assert_eq!(judge(&open, &two, vec![remove(2)]), Ok(()));
        assert_eq!(judge(&open, &one, vec![remove(1)]), Err(rules::DELETE));
        assert_eq!(judge(&open, &one, vec![remove(2)]), Err(rules::DELETE));
        assert_eq!(judge(&open, &one, vec![stop(1)]), Err(rules::DELETE));
        let fails = write(json!({"conditions": on_true(&["FailureTarget"])}));
        assert_eq!(judge(&open, &one, vec![stop(1), fails]), Ok(()));
        let delete = || vec![Action::ConfirmCurrent, Action::DeleteJob];
        let ended = |seconds: i64| {
            let time = now() - SignedDuration::from_secs(seconds);
            let end = json!([{"type": "Complete", "status": "True",
                "lastTransitionTime": time.to_string()}]);
            job(&spec, &json!({"conditions": end}))
        };
        assert_eq!(judge(&ended(60), &one, delete()), Ok(()));
        assert_eq!(judge(&ended(59), &one, delete()), Err(rules::TIME_TO_LIVE));
        assert_eq!(judge(&open, &one, delete()), Err(rules::TIME_TO_LIVE));
    }
}
