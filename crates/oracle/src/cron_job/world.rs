//! CronJobs and their children at a revision, kept up to date step by step.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::object::{self as of_cron, CHILDREN, CRONS};
use crate::history::{History, Key, Step};
use crate::object::{self, text, time};
use crate::verdict::Assumptions;

/// Every CronJob, with what it started.
#[derive(Debug)]
pub(crate) struct Crons<'h> {
    assumptions: &'h Assumptions,
    /// By uid, also those that are gone.
    pub(crate) all: BTreeMap<&'h str, Cron<'h>>,
    /// Uid of the CronJob that started a child, by uid of the child, whatever became of either.
    starter: BTreeMap<&'h str, &'h str>,
}

/// A CronJob with what it started.
#[derive(Debug)]
pub(crate) struct Cron<'h> {
    /// Its name in the store.
    pub(crate) key: &'h Key,
    /// It as it is, or was when it went.
    pub(crate) last: &'h Value,
    /// As it was before, each since when; one for each spec.
    pub(crate) versions: Vec<((u64, Timestamp), &'h Value)>,
    /// Times from which an interval may be counted: its creation, every tick that was noted, and since
    /// when a schedule was in force.
    pub(crate) bases: Vec<Timestamp>,
    /// Whether its status ever noted which schedule is in force.
    pub(crate) is_noted: bool,
    /// What each write of its status decided, since that is noted.
    pub(crate) decided: Vec<Decided<'h>>,
    /// So many runs were promised when the schedule changed: they may count as missed and yet be started.
    pub(crate) open: usize,
    /// Words that it was ever asked for a run with.
    pub(crate) requests: Vec<&'h str>,
    /// Uids of the children that its status ever had among the active ones.
    pub(crate) noted: BTreeSet<&'h str>,
    /// When it went.
    pub(crate) gone: Option<(u64, Timestamp)>,
    /// Somebody else wrote its status.
    pub(crate) edited: bool,
    /// Its children that exist, by key.
    pub(crate) children: BTreeMap<&'h Key, Child<'h>>,
    /// Every child that we created, as it was created, oldest first.
    pub(crate) runs: Vec<(&'h Key, &'h Value)>,
    /// The same of those whose request was late: they may run what was given up before.
    pub(crate) late_runs: Vec<(&'h Key, &'h Value)>,
}

/// Times of a schedule that a write of the status decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided<'h> {
    /// The schedule, as the status noted it before.
    pub(crate) schedule: &'h Value,
    /// All times up to this one were decided before, or are not its own.
    pub(crate) after: Timestamp,
    /// The last instant that was decided.
    pub(crate) until: Timestamp,
}

/// A child that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<'h> {
    /// The child.
    pub(crate) object: &'h Value,
    /// We created it, in time.
    pub(crate) ours: bool,
    /// The request that created it is known to have been late.
    pub(crate) late: bool,
}

impl Child<'_> {
    /// Whether it is ours and has not ended.
    pub(crate) fn runs(&self) -> bool {
        self.ours && !object::is_terminal(self.object)
    }

    /// Whether it came late and has not ended.
    pub(crate) fn runs_late(&self) -> bool {
        self.late && !object::is_terminal(self.object)
    }
}

impl Cron<'_> {
    /// Whether it exists and nobody has deleted it.
    pub(crate) fn is_alive(&self) -> bool {
        self.gone.is_none() && !object::is_deleting(self.last)
    }

    /// Whether it is the kind that counts what it missed.
    pub(crate) fn counts(&self) -> bool {
        &*self.key.resource == CRONS[0]
    }
}

impl<'h> Crons<'h> {
    /// Before the first revision.
    pub(crate) fn new(assumptions: &'h Assumptions) -> Self {
        Self {
            assumptions,
            all: BTreeMap::new(),
            starter: BTreeMap::new(),
        }
    }

    /// After the last revision.
    pub(crate) fn at_the_end(history: &'h History, assumptions: &'h Assumptions) -> Self {
        let mut crons = Self::new(assumptions);
        for step in &history.steps {
            crons.apply(step);
        }
        crons
    }

    /// Whether the step creates a child of a CronJob, and is not known to be somebody else's or late;
    /// with the CronJob as it is before, and the child.
    pub(crate) fn created(&self, step: &'h Step) -> Option<(&Cron<'h>, &'h Value)> {
        let child = step.new.as_deref().filter(|_| step.old.is_none())?;
        let ours = CHILDREN.contains(&&*step.key.resource)
            && !self.assumptions.others(step)
            && !(self.assumptions.late)(step);
        let cron = self.all.get(of_cron::cron_of(child).filter(|_| ours)?)?;
        Some((cron, child))
    }

    /// The CronJob that a child is of, as it is before a step: by who started it, or by its owner.
    pub(crate) fn of_child(&self, child: &Value) -> Option<&Cron<'h>> {
        let starter = self.starter.get(object::uid(child)).copied();
        self.all.get(starter.or_else(|| of_cron::cron_of(child))?)
    }

    /// The specs of a CronJob that an instance acting at `now` may see.
    pub(crate) fn specs<'c>(
        &self,
        cron: &'c Cron<'h>,
        now: &Step,
    ) -> impl Iterator<Item = &'h Value> + use<'c, 'h> {
        let known = |(since, _): &(_, _)| !self.assumptions.may_see(now, *since);
        let first = cron.versions.iter().rposition(known).unwrap_or(0);
        cron.versions[first..].iter().map(|(_, cron)| &cron["spec"])
    }

    /// The next state.
    pub(crate) fn apply(&mut self, step: &'h Step) {
        match &*step.key.resource {
            resource if CRONS.contains(&resource) => self.apply_cron(step),
            resource if CHILDREN.contains(&resource) => self.apply_child(step),
            _ => {}
        }
    }

    fn apply_cron(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let cron = self.all.entry(object::uid(object)).or_insert_with(|| Cron {
            key: &step.key,
            last: object,
            versions: Vec::new(),
            bases: Vec::new(),
            is_noted: false,
            decided: Vec::new(),
            open: 0,
            requests: Vec::new(),
            noted: BTreeSet::new(),
            gone: None,
            edited: false,
            children: BTreeMap::new(),
            runs: Vec::new(),
            late_runs: Vec::new(),
        });
        cron.last = object;
        let known = cron.versions.last();
        if known.is_none_or(|(_, known)| known["spec"] != object["spec"]) {
            cron.versions.push(((step.rev, step.at), object));
        }
        let bases = [
            ["metadata", "creationTimestamp"],
            ["status", "lastScheduleTime"],
            ["status", "lastMissedTime"],
        ];
        let bases = bases.iter().filter_map(|path| time(object, path));
        for base in bases.chain(of_cron::in_force_since(object)) {
            if !cron.bases.contains(&base) {
                cron.bases.push(base);
            }
        }
        let noted = &object["status"]["scheduleInForce"];
        cron.is_noted |= !noted.is_null();
        if let Some(before) = step.old.as_deref() {
            let old = &before["status"]["scheduleInForce"];
            let is_first = old.is_null();
            let changes = !is_first && old != noted;
            let since = of_cron::in_force_since(object);
            let counted = of_cron::last_counted(object);
            let (schedule, after, until) = if is_first {
                (noted, of_cron::last_counted(before).max(since), counted)
            } else {
                // It was in force until another one is.
                let until = counted.max(since.filter(|_| changes));
                (old, of_cron::decided_until(before), until)
            };
            if let (Some(after), Some(until)) = (after, until)
                && after < until
            {
                cron.decided.push(Decided {
                    schedule,
                    after,
                    until,
                });
            }
            if changes {
                let promised = of_cron::references(before).iter();
                let promised = promised.filter(|run| text(run, &["uid"]).is_empty());
                cron.open += promised.count();
            }
        }
        let references = of_cron::references(object).iter();
        let uids = references.map(|reference| text(reference, &["uid"]));
        cron.noted.extend(uids.filter(|uid| !uid.is_empty()));
        let request = of_cron::asked_of(object);
        if !request.is_empty() && cron.requests.last() != Some(&request) {
            cron.requests.push(request);
        }
        if let Some(old) = step.old.as_deref()
            && self.assumptions.others(step)
            && step.new.is_some()
            && old["status"] != object["status"]
        {
            cron.edited = true;
        }
        cron.gone = step.new.is_none().then_some((step.rev, step.at));
    }

    fn apply_child(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let uid = object::uid(object);
        let created = self.created(step).is_some();
        if step.old.is_none()
            && !self.assumptions.others(step)
            && let Some(cron) = of_cron::cron_of(object)
        {
            self.starter.insert(uid, cron);
        }
        let owner = self.starter.get(uid).copied();
        let owner = owner.or_else(|| of_cron::cron_of(object));
        let Some(cron) = owner.and_then(|owner| self.all.get_mut(owner)) else {
            return;
        };
        if step.new.is_none() {
            cron.children.remove(&step.key);
            return;
        }
        if created {
            cron.runs.push((&step.key, object));
        }
        let before = cron.children.get(&step.key).filter(|_| step.old.is_some());
        let ours = created || before.is_some_and(|child| child.ours);
        let comes_late =
            step.old.is_none() && !self.assumptions.others(step) && (self.assumptions.late)(step);
        if comes_late {
            cron.late_runs.push((&step.key, object));
        }
        let late = comes_late || before.is_some_and(|child| child.late);
        cron.children
            .insert(&step.key, Child { object, ours, late });
    }
}
