//! A world small enough to see through: a CronJob and its children as the API server holds them, two
//! leaders that see any mixture of old states of it, and faults wherever there can be one.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::condition::reasons;
use carillon_api::cron_job::ScheduleInForce;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cron_job::action::{Action, OnError, Plan, Run, Why};
use crate::cron_job::{
    Api, Child, ChildKind, Children, CronJob, Ended, Refused, RunOutcome, Snapshot, Template, plan,
};
use crate::interlock;
use crate::meta::Meta;
use crate::object_key::ObjectKey;
use crate::uid::Uid;

/// A child as the API server holds it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) child: Child,
    /// Its controller is our CronJob.
    pub(super) ours: bool,
    /// It was not created by a leader.
    pub(super) stray: bool,
    /// Somebody else's finalizer.
    pub(super) stuck: bool,
}

/// What a leader remembers and sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Leader {
    /// Versions of the CronJob, of Jobs and of BroadcastJobs that it sees.
    pub(super) sees: [usize; 3],
    /// How much its clock is off.
    pub(super) skew: SignedDuration,
    generation: i64,
    gone: BTreeSet<Uid>,
    absent: BTreeSet<String>,
    conflicts: BTreeSet<String>,
    template: Template,
}

/// Where a leader is hit while it carries out a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fault {
    /// It dies after so many writes.
    pub(super) dies_after: Option<usize>,
    /// The reply to this write is lost.
    pub(super) lost: Option<usize>,
    /// A creation that it does not live to send is sent nevertheless, late.
    pub(super) late: bool,
}

/// What a child was created for.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Cause {
    Tick(Timestamp),
    Request(String),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) api: Api,
    pub(super) created: Timestamp,
    pub(super) now: Timestamp,
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) generation: i64,
    pub(super) run_now: Option<String>,
    pub(super) deleting: bool,
    pub(super) objects: BTreeMap<(ChildKind, Box<str>), Object>,
    pub(super) leaders: [Leader; 2],
    /// The API server refuses creations.
    pub(super) refuses: bool,
    /// A creation under way.
    pub(super) late: Option<Run>,
    /// What children were created for, ever.
    pub(super) causes: BTreeSet<Cause>,
    /// Every lastScheduleTime there ever was.
    pub(super) recorded: BTreeSet<Timestamp>,
    /// So many creations arrived late, or may have when their schedule was edited.
    pub(super) latecomers: usize,
    /// Every schedule that was in force, from when on, and up to when all was decided before.
    pub(super) in_force: Vec<(ScheduleInForce, Timestamp)>,
    /// Somebody has edited the status.
    pub(super) edited: bool,
    rv: u64,
    crons: Vec<CronJob>,
    jobs: [Vec<Children>; 2],
}

impl World {
    pub(super) fn new(api: Api, created: Timestamp, spec: Value) -> Self {
        let mut world = Self {
            api,
            created,
            now: created,
            spec,
            status: json!({}),
            generation: 1,
            run_now: None,
            deleting: false,
            objects: BTreeMap::new(),
            leaders: Default::default(),
            refuses: false,
            late: None,
            causes: BTreeSet::new(),
            recorded: BTreeSet::new(),
            latecomers: 0,
            in_force: Vec::new(),
            edited: false,
            rv: 0,
            crons: Vec::new(),
            jobs: [vec![Children::new()], vec![Children::new()]],
        };
        world.changed();
        world
    }

    /// The CronJob has changed.
    pub(super) fn changed(&mut self) {
        self.rv += 1;
        let meta = Meta {
            owner: ObjectKey::of(self.api.kind(), "ops", "report", super::fixture::uid(1)),
            generation: self.generation,
            rv: self.rv,
            deleting: self.deleting,
            created: self.created,
        };
        let cron = CronJob::read(
            meta,
            self.run_now.as_deref().map(super::fixture::asked_of_report),
            &self.spec,
            &self.status,
        );
        if let Some(last) = &cron.status.last_schedule_time {
            self.recorded.insert(last.0);
        }
        if let Some(new) = &cron.status.schedule_in_force
            && self.in_force.last().is_none_or(|(last, _)| last != new)
        {
            let before = self.crons.last().map_or(self.created, decided);
            self.in_force.push((new.clone(), before));
            let active = cron.status.active.iter();
            self.latecomers += active.filter(|entry| entry.uid.is_none()).count();
        }
        self.crons.push(cron);
    }

    /// Somebody edits the spec.
    pub(super) fn set(&mut self, field: &str, value: Value) {
        self.spec[field] = value;
        self.generation += 1;
        self.changed();
    }

    /// The CronJob as it is.
    pub(super) fn cron(&self) -> &CronJob {
        self.crons.last().unwrap()
    }

    fn published(&mut self, kind: ChildKind) {
        let ours = self.objects.iter().filter(|(_, object)| object.ours);
        let ours = ours.filter(|((of, _), _)| *of == kind);
        let ours = ours.map(|(key, object)| (key.clone(), object.child.clone()));
        let version = ours.collect();
        self.jobs[kind as usize].push(version);
    }

    /// Changes a child, which goes when nothing holds it any more.
    pub(super) fn change(&mut self, key: &(ChildKind, Box<str>), how: impl FnOnce(&mut Object)) {
        self.rv += 1;
        let Some(object) = self.objects.get_mut(key) else {
            return;
        };
        how(object);
        object.child.rv = self.rv;
        if object.child.deleting && !object.child.held && !object.stuck {
            self.objects.remove(key);
        }
        self.published(key.0);
    }

    /// Somebody makes an object.
    pub(super) fn make(&mut self, kind: ChildKind, name: &str, ours: bool, child: Child) {
        let key = (kind, Box::from(name));
        if self.objects.contains_key(&key) {
            return;
        }
        self.rv += 1;
        let child = Child {
            uid: super::fixture::uid(1000 + self.rv),
            rv: self.rv,
            ..child
        };
        let object = Object {
            child,
            ours,
            stray: true,
            stuck: false,
        };
        self.objects.insert(key, object);
        self.published(kind);
    }

    /// A leader sees a bit more, or everything.
    pub(super) fn sees(&mut self, who: usize, of: usize, steps: usize) {
        let newest = [
            self.crons.len() - 1,
            self.jobs[0].len() - 1,
            self.jobs[1].len() - 1,
        ];
        let seen = &mut self.leaders[who].sees[of];
        *seen = newest[of].min(seen.saturating_add(steps));
    }

    pub(super) fn sees_all(&mut self, who: usize) {
        for of in 0..3 {
            self.sees(who, of, usize::MAX);
        }
    }

    /// What a leader would do; the interlock has nothing against it.
    pub(super) fn plan(&self, who: usize) -> (CronJob, Plan) {
        let leader = &self.leaders[who];
        let cron = self.crons[leader.sees[0]].clone();
        let mut children = self.jobs[0][leader.sees[1]].clone();
        children.extend(self.jobs[1][leader.sees[2]].clone());
        let template = if leader.generation == cron.meta.generation {
            leader.template.clone()
        } else {
            Template::Unknown
        };
        let snapshot = Snapshot {
            cron: &cron,
            children: &children,
            gone: &leader.gone,
            absent: &leader.absent,
            conflicts: &leader.conflicts,
            template: &template,
            refusal: None,
        };
        let now = self.now + leader.skew;
        let plan = plan(&snapshot, now);
        if let Err(trip) = interlock::cron_job::verify(&snapshot, &plan, now) {
            panic!("{trip}\n{plan:#?}\n{:#?}", self.status);
        }
        assert!(plan.wake.is_none_or(|wake| wake > now), "{plan:#?}");
        (cron, plan)
    }

    /// A leader plans, and carries it out as far as it comes. Whether there was something to do.
    pub(super) fn act(&mut self, who: usize, fault: Fault) -> bool {
        let (cron, plan) = self.plan(who);
        let leader = &mut self.leaders[who];
        if leader.generation != cron.meta.generation {
            leader.generation = cron.meta.generation;
            leader.template = Template::Unknown;
        }
        let busy = !plan.steps.is_empty();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            if let Action::CreateChild(run) = action {
                leader.absent.remove(&run.name);
            }
        }
        let mut writes = 0;
        for step in plan.steps {
            let mut failed = false;
            for action in step.actions {
                let writing = !matches!(
                    action,
                    Action::TryChild(_) | Action::ConfirmGone { .. } | Action::ConfirmCurrent
                );
                if writing && fault.dies_after == Some(writes) {
                    if let Action::CreateChild(run) = action
                        && fault.late
                    {
                        self.late = Some(run);
                    }
                    self.dies(who);
                    return busy;
                }
                let done = self.perform(who, &cron, &action);
                failed |= !done || writing && fault.lost == Some(writes);
                writes += usize::from(writing);
            }
            if failed && step.on_error == OnError::Stop {
                break;
            }
        }
        busy
    }

    fn dies(&mut self, who: usize) {
        let leader = &mut self.leaders[who];
        *leader = Leader {
            sees: leader.sees,
            skew: leader.skew,
            ..Leader::default()
        };
    }

    fn perform(&mut self, who: usize, cron: &CronJob, action: &Action) -> bool {
        let current = cron.meta.rv == self.cron().meta.rv;
        match action {
            Action::TryChild(run) => {
                let accepted = !self.refuses || self.objects.contains_key(&key(run));
                self.leaders[who].template = if accepted {
                    Template::Accepted
                } else {
                    refused()
                };
                return accepted;
            }
            Action::ConfirmGone { kind, name, uid } => {
                let found = self.objects.get(&(*kind, name.as_str().into()));
                let leader = &mut self.leaders[who];
                match (uid, found) {
                    (Some(uid), Some(found)) if found.child.uid == *uid => {}
                    (Some(uid), _) => drop(leader.gone.insert(*uid)),
                    (None, Some(found)) if found.ours => {}
                    (None, _) => drop(leader.absent.insert(name.clone())),
                }
            }
            Action::ConfirmCurrent => return current,
            Action::WriteStatus(status) => {
                if !current {
                    return false;
                }
                // One that is being deleted may have come without conditions.
                let has_none = self.api == Api::Native || status.conditions.is_empty();
                assert_eq!(status.summary.is_empty(), has_none, "{status:?}");
                let mut status = serde_json::to_value(status).unwrap();
                if self.api == Api::Native {
                    let fields = ["active", "lastScheduleTime", "lastSuccessfulTime"];
                    let native = status.as_object_mut().unwrap();
                    native.retain(|field, _| fields.contains(&&**field));
                }
                self.status = status;
                self.changed();
            }
            Action::CreateChild(run) => {
                if let Some(there) = self.objects.get(&key(run)) {
                    if !there.ours {
                        self.leaders[who].conflicts.insert(run.name.clone());
                    }
                } else if self.refuses {
                    self.leaders[who].template = refused();
                    return false;
                } else {
                    self.create(run, true);
                    self.leaders[who].template = Template::Accepted;
                }
            }
            Action::DeleteChild {
                kind,
                name,
                uid,
                rv,
                why,
            } => {
                let key = (*kind, name.as_str().into());
                let Some(found) = self.objects.get(&key) else {
                    return true;
                };
                if found.child.uid != *uid || found.child.rv != *rv {
                    return *why == Why::History;
                }
                self.change(&key, |object| object.child.deleting = true);
            }
            Action::ReleaseChild { kind, name, uid } => {
                let key = (*kind, name.as_str().into());
                let found = self.objects.get(&key);
                if found.is_some_and(|object| object.child.uid == *uid) {
                    self.change(&key, |object| object.child.held = false);
                }
            }
        }
        true
    }

    /// A child is created, and all that may be said against that is said here.
    fn create(&mut self, run: &Run, in_time: bool) {
        let cron = self.cron();
        let cause = match &run.request {
            Some(request) => Cause::Request(request.clone()),
            None => Cause::Tick(run.time),
        };
        if in_time {
            let mut active = cron.status.active.iter();
            assert!(
                active.any(|entry| entry.name == run.name
                    && entry.kind == run.kind.kind()
                    && entry.uid.is_none()),
                "{} was not promised",
                run.name
            );
            assert!(!cron.suspended || run.request.is_some(), "suspended");
            assert!(
                !self.deleting,
                "{} is started while it is deleted",
                run.name
            );
            assert_eq!(run.kind, cron.child, "{} is of another template", run.name);
            if !self.edited && self.latecomers == 0 {
                self.keeps_to_policy(run);
            }
        }
        assert!(self.causes.insert(cause), "{} ran twice", run.name);
        self.make(
            run.kind,
            &run.name,
            true,
            Child {
                held: true,
                scheduled: run.request.is_none().then_some(run.time),
                request: run.request.as_deref().map(Box::from),
                started: Some(run.time),
                ..Child::default()
            },
        );
        self.objects.get_mut(&key(run)).unwrap().stray = false;
    }

    fn keeps_to_policy(&self, run: &Run) {
        let others = self.objects.iter().filter(|(_, object)| object.ours);
        let mut others = others.filter(|(_, o)| !o.stray && o.child.ended.is_none());
        match self.spec["concurrencyPolicy"].as_str() {
            Some("Forbid") => {
                let other = others.next();
                assert!(other.is_none(), "{} beside {other:?}", run.name);
            }
            Some("Replace") => {
                let other = others.find(|(_, object)| !object.child.deleting);
                assert!(other.is_none(), "{} beside {other:?}", run.name);
            }
            _ => {}
        }
    }

    /// The creation that was under way arrives, if its run has none yet.
    pub(super) fn arrives(&mut self) {
        let Some(run) = self.late.take() else { return };
        let cause = match &run.request {
            Some(request) => Cause::Request(request.clone()),
            None => Cause::Tick(run.time),
        };
        if !self.causes.contains(&cause) && !self.objects.contains_key(&key(&run)) {
            self.latecomers += 1;
            self.create(&run, false);
        }
    }

    /// Every child ends.
    pub(super) fn all_end(&mut self) {
        let keys: Vec<_> = self.objects.keys().cloned().collect();
        for key in keys {
            if self.objects[&key].child.ended.is_none() {
                self.ends(&key, RunOutcome::Succeeded);
            }
        }
    }

    pub(super) fn ends(&mut self, key: &(ChildKind, Box<str>), outcome: RunOutcome) {
        let at = Some(self.now);
        self.change(key, |object| {
            object.child.ended = Some(Ended { outcome, at });
        });
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }
}

/// Up to when a CronJob says that it has decided.
pub(super) fn decided(cron: &CronJob) -> Timestamp {
    let status = &cron.status;
    let times = [&status.last_schedule_time, &status.last_missed_time];
    let last = times.iter().filter_map(|time| Some(time.as_ref()?.0));
    last.max().unwrap_or(cron.meta.created)
}

fn key(run: &Run) -> (ChildKind, Box<str>) {
    (run.kind, run.name.as_str().into())
}

fn refused() -> Template {
    Template::Refused(Refused {
        reason: reasons::QUOTA_EXCEEDED,
        message: "exceeded quota".to_owned(),
    })
}
