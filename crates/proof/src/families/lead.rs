//! What a leader does: it plans for one job at a time, and is anywhere within its plan.

use std::collections::{BTreeMap, BTreeSet};

use carillon_plan::broadcast_job::action::{Act, Action, OnError};
use carillon_plan::{Uid, interlock};

use super::leader::{Memory, Running};
use super::rules::{NOT_PURE, REFUSED};
use super::view::Seen;
use super::world::World;

fn words(action: &Action) -> String {
    let object = action.object().unwrap_or_default();
    format!("{} {object}", action.word())
}

impl World {
    pub(super) fn memory(&mut self, leader: usize, job: Uid) -> &mut Memory {
        self.leaders[leader].memory.entry(job).or_default()
    }

    /// The process ends where it is, and may begin anew.
    pub(super) fn crash(&mut self, leader: usize) {
        self.leaders[leader].running = None;
        let forgets = self.rng.bool();
        if forgets {
            self.leaders[leader].memory.clear();
        }
        self.say(format!("L{leader} crashes, forgets: {forgets}"));
    }

    /// A leader plans for a job. True if there is something to do.
    pub(super) fn think(&mut self, leader: usize, seen: Seen, job: Uid) -> bool {
        let now = self.now;
        let mut memory = std::mem::take(self.memory(leader, job));
        memory.forget_disputed(now);
        let planner = self.planner;
        let made = self.look(seen, job, &mut memory, |snapshot| {
            let plan = planner(snapshot, now);
            let verdict = interlock::broadcast_job::verify(snapshot, &plan, now);
            let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
            let own: BTreeSet<Uid> = records.filter_map(|record| record.pod_uid).collect();
            (plan, verdict, snapshot.job.clone(), own)
        });
        // In tables of another order.
        let again = self.look(seen, job, &mut memory, |snapshot| planner(snapshot, now));
        *self.memory(leader, job) = memory;
        let Some((plan, verdict, job, own)) = made else {
            return false;
        };
        self.plans += 1;
        if again.as_ref() != Some(&plan) {
            self.break_rule(NOT_PURE, format!("{plan:?} and {again:?}"));
        }
        if let Err(trip) = verdict {
            let what = format!("L{leader} for {}: {trip}", job.meta.owner.name);
            if self.leaders.len() == 1 && seen == self.newest() {
                self.break_rule(REFUSED, what);
            } else {
                self.refused += 1;
                self.say(format!("refused by the interlock: {what}"));
            }
            return false;
        }
        if plan.steps.is_empty() {
            return false;
        }
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        let actions: Vec<String> = actions.map(words).collect();
        let old = if seen == self.newest() {
            String::new()
        } else {
            format!(" from {seen:?} of {:?}", self.newest())
        };
        self.say(format!(
            "L{leader} plans for {}{old}: {}",
            job.meta.owner.name,
            actions.join("; ")
        ));
        let steps = plan.steps.into_iter();
        let steps = steps.map(|step| (step.actions.into(), step.on_error));
        self.leaders[leader].running = Some(Running {
            job,
            made_at: now,
            own,
            asked_for_job: None,
            relies_on: BTreeMap::new(),
            created: 0,
            steps: steps.collect(),
            failed: false,
        });
        true
    }

    /// One request of the plan of a leader. What it only asks is followed by the next one at once: the answer is
    /// that of the moment before.
    pub(super) fn act(&mut self, leader: usize) {
        while let Some(mut running) = self.leaders[leader].running.take() {
            let Some((action, on_error)) = running.next() else {
                return;
            };
            let (word, what) = (action.word(), words(&action));
            let went_through = self.perform(leader, &mut running, action);
            if went_through {
                *self.requests.entry(word).or_default() += 1;
            }
            let how = if went_through { "" } else { " fails" };
            self.say(format!("L{leader}   {what}{how}"));
            running.failed |= !went_through && on_error == OnError::Stop;
            self.leaders[leader].running = Some(running);
            if !(went_through && word.starts_with("confirm_")) {
                return;
            }
        }
    }

    /// All that is left of the plan of a leader.
    pub(super) fn act_to_the_end(&mut self, leader: usize) {
        while self.leaders[leader].running.is_some() {
            self.act(leader);
        }
    }
}
