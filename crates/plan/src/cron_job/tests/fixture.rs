//! A CronJob, its children and a plan for them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::condition::Refusal;
use crate::cron_job::action::{Act, Action, Plan, Run};
use crate::cron_job::{
    Api, Child, ChildKind, Children, CronJob, Ended, RunOutcome, Snapshot, Template, plan,
};
use crate::interlock::{self, Trip};
use crate::meta::Meta;
use crate::object_key::ObjectKey;
use crate::uid::Uid;

/// Creation of every CronJob here.
pub(super) const CREATED: &str = "2026-01-01T10:30:00Z";

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn uid(n: u64) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

/// A request to another CronJob.
pub(super) const OF_ANOTHER: &str = "4e0c5d6a-0b1c-4d2e-8f3a-0000000000ff/a";

/// A plain word asks this CronJob for a run; anything else is a value as it is.
pub(super) fn asked_of_report(word: &str) -> String {
    let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain {
        format!("{}/{word}", uid(1))
    } else {
        word.to_owned()
    }
}

/// Everything a plan is made from, to be changed by a test.
#[derive(Clone, Debug)]
pub(super) struct Fixture {
    pub(super) api: Api,
    pub(super) created: Timestamp,
    pub(super) generation: i64,
    pub(super) spec: Value,
    pub(super) status: Value,
    pub(super) run_now: Option<String>,
    pub(super) deleting: bool,
    pub(super) children: Children,
    pub(super) gone: BTreeSet<Uid>,
    pub(super) absent: BTreeSet<String>,
    pub(super) conflicts: BTreeSet<String>,
    pub(super) template: Template,
    pub(super) refusal: Option<Refusal>,
    /// Names that the API server knows and the cache does not.
    pub(super) unseen: BTreeSet<String>,
}

/// An hourly CronJob that has never run, of which everything else is as it is by default.
pub(super) fn hourly(api: Api) -> Fixture {
    Fixture {
        api,
        created: at(CREATED),
        generation: 1,
        spec: json!({
            "schedule": "0 * * * *",
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {}}}},
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        }),
        status: json!({}),
        run_now: None,
        deleting: false,
        children: Children::default(),
        gone: BTreeSet::new(),
        absent: BTreeSet::new(),
        conflicts: BTreeSet::new(),
        template: Template::Accepted,
        refusal: None,
        unseen: BTreeSet::new(),
    }
}

impl Fixture {
    pub(super) fn with(mut self, field: &str, value: Value) -> Self {
        self.spec[field] = value;
        self
    }

    /// Somebody edits the stored object.
    pub(super) fn edit(&mut self, field: &str, value: Value) {
        self.spec[field] = value;
        self.generation += 1;
        self.template = Template::Unknown;
    }

    pub(super) fn cron(&self) -> CronJob {
        let meta = Meta {
            owner: ObjectKey::of(self.api.kind(), "ops", "report", uid(1)),
            generation: self.generation,
            rv: 7,
            deleting: self.deleting,
            created: self.created,
        };
        CronJob::read(
            meta,
            self.run_now.as_deref().map(asked_of_report),
            &self.spec,
            &self.status,
        )
    }

    /// The plan; the interlock has nothing against it.
    pub(super) fn plan(&self, now: &str) -> Plan {
        let cron = self.cron();
        let plan = plan(&self.snapshot(&cron), at(now));
        if let Err(trip) = self.verify(&plan, now) {
            panic!("{trip}\n{plan:#?}");
        }
        assert!(!plan.spins(at(now)), "{plan:#?}");
        plan
    }

    /// What the interlock says of a plan.
    pub(super) fn verify(&self, plan: &Plan, now: &str) -> Result<(), Trip> {
        let cron = self.cron();
        interlock::cron_job::verify(&self.snapshot(&cron), plan, at(now))
    }

    fn snapshot<'a>(&'a self, cron: &'a CronJob) -> Snapshot<'a> {
        Snapshot {
            cron,
            children: &self.children,
            gone: &self.gone,
            absent: &self.absent,
            conflicts: &self.conflicts,
            template: &self.template,
            refusal: self.refusal.as_ref(),
        }
    }

    /// Carries out the first so many actions of a plan, and dies.
    pub(super) fn die_after(&mut self, actions: usize, plan: &Plan) {
        let mut cut = plan.clone();
        let mut left = actions;
        for step in &mut cut.steps {
            step.actions.truncate(left);
            left -= step.actions.len();
        }
        self.carry_out(&cut);
    }

    /// Carries a plan out as if nothing went wrong.
    pub(super) fn carry_out(&mut self, plan: &Plan) {
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            match action {
                Action::TryChild(_) => self.template = Template::Accepted,
                Action::ConfirmCurrent => {}
                Action::ConfirmGone { name, .. } if self.unseen.contains(name) => {}
                Action::ConfirmGone { name, uid, .. } => match uid {
                    Some(uid) => drop(self.gone.insert(*uid)),
                    None => drop(self.absent.insert(name.clone())),
                },
                Action::WriteStatus(status) => self.status = serde_json::to_value(status).unwrap(),
                Action::CreateChild(run) => {
                    let child = Child {
                        uid: uid(run.time.as_second() as u64),
                        rv: 9,
                        held: true,
                        scheduled: run.request.is_none().then_some(run.time),
                        request: run.request.as_deref().map(Box::from),
                        started: Some(run.time),
                        ..Child::default()
                    };
                    let key = (run.kind, run.name.as_str().into());
                    assert!(self.children.insert(key, child).is_none(), "twice");
                }
                Action::DeleteChild { kind, name, .. } => {
                    let key = (*kind, name.as_str().into());
                    let child = self.children.get_mut(&key).unwrap();
                    child.deleting = true;
                    if !child.held {
                        self.children.remove(&key);
                    }
                }
                Action::ReleaseChild { kind, name, .. } => {
                    let key = (*kind, name.as_str().into());
                    let child = self.children.get_mut(&key).unwrap();
                    child.held = false;
                    if child.deleting {
                        self.children.remove(&key);
                    }
                }
            }
        }
    }

    /// Plans and carries out until nothing is left to do.
    pub(super) fn settle(&mut self, now: &str) {
        for _ in 0..20 {
            let plan = self.plan(now);
            if plan.steps.is_empty() {
                return;
            }
            self.carry_out(&plan);
        }
        panic!("it never settles: {:#?}", self.plan(now));
    }

    /// The only child ends.
    pub(super) fn end(&mut self, name: &str, outcome: RunOutcome, when: &str) {
        let key = (ChildKind::Job, name.into());
        self.children.get_mut(&key).unwrap().ended = Some(Ended {
            outcome,
            at: Some(at(when)),
        });
    }

    /// Puts a child there.
    pub(super) fn put(&mut self, name: &str, child: Child) -> &mut Child {
        let key = (ChildKind::Job, Box::from(name));
        self.children.insert(key.clone(), child);
        self.children.get_mut(&key).unwrap()
    }

    /// The child with this name.
    pub(super) fn child(&mut self, name: &str) -> &mut Child {
        self.children
            .get_mut(&(ChildKind::Job, name.into()))
            .unwrap()
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.children.keys().map(|(_, name)| &**name).collect()
    }
}

/// The words of a plan's actions, in order.
/// The child of a run, as the API server gets it.
pub(super) fn body(cron: &CronJob, run: &Run) -> Value {
    serde_json::to_value(cron.child_body(&cron.template.value(), run)).unwrap()
}

pub(super) fn words(plan: &Plan) -> Vec<&'static str> {
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    actions.map(Act::word).collect()
}

/// The reasons of a plan's notes, in order.
pub(super) fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.notes.iter().map(|note| note.reason).collect()
}
