//! A path that people can read and a test can walk again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::{Model, kind};
use super::requests::{Request, Verdict};
use super::store::State;
use super::turn::{Turn, canonical};
use super::{Violation, World};

/// One step of a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PathStep {
    /// What happens, for [`replay`].
    pub turn: Turn,
    /// What happens, for people.
    pub what: String,
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Walks a path again. The violation it leads to, if it still does; `Err` with the number of the
/// first step that is no longer possible.
pub fn replay(world: &World, path: &[PathStep]) -> Result<Option<Violation>, usize> {
    let mut model = Model::new(world);
    let mut state = model.start();
    let mut turns = Vec::new();
    for (at, step) in path.iter().enumerate() {
        if let Err(broken) = model.turns(&state, &mut turns)
            && broken.turn == step.turn
        {
            return Ok(Some(broken.violation));
        }
        let next = turns.iter().find(|(turn, _)| *turn == step.turn);
        state = next.ok_or(at)?.1;
    }
    Ok(model.ends_well(state.store).err())
}

/// The path that takes these turns, each counted among those possible, and `last` at the end.
pub(super) fn read(model: &mut Model, ordinals: &[u16], last: Option<Turn>) -> Vec<PathStep> {
    let mut state = model.start();
    let mut exchanged = false;
    let mut path = Vec::new();
    let mut turns = Vec::new();
    let step = |model: &Model, state: &State, turn: Turn, exchanged: bool| PathStep {
        what: model.tell(state, turn, exchanged),
        turn: if exchanged { turn.exchanged() } else { turn },
    };
    for ordinal in ordinals {
        // Nothing was wrong on the way here when these were taken before.
        let _ = model.turns(&state, &mut turns);
        let Some((turn, next)) = turns.get(usize::from(*ordinal)).copied() else {
            return path;
        };
        path.push(step(model, &state, turn, exchanged));
        state = next;
        if model.world.same_plan {
            let swapped;
            (state, swapped) = canonical(next);
            exchanged ^= swapped;
        }
    }
    path.extend(last.map(|turn| step(model, &state, turn, exchanged)));
    path
}

impl Model {
    fn tell(&self, state: &State, turn: Turn, exchanged: bool) -> String {
        let who = |leader: usize| if (leader == 0) == exchanged { "B" } else { "A" };
        let pod = |number: u8| self.names.name(number);
        let plan = |leader: usize| self.plans.at(state.leaders[leader].plan);
        let (text, seen) = match turn {
            Turn::Plan { leader, look } => {
                let kinds: Vec<&str> = [
                    (kind::JOB, "job"),
                    (kind::SLICES, "slices"),
                    (kind::PODS, "pods"),
                    (kind::NODES, "nodes"),
                ]
                .into_iter()
                .filter(|(bit, _)| look & bit != 0)
                .map(|(_, name)| name)
                .collect();
                let looks = if kinds.is_empty() {
                    "plans from what it saw before".to_owned()
                } else {
                    format!("looks at {} and plans", kinds.join(", "))
                };
                (format!("{} {looks}", who(leader)), 0)
            }
            Turn::Send {
                leader,
                request,
                seen,
            } => {
                let request = plan(leader).requests[request];
                (
                    format!("{} {}", who(leader), self.tell_request(&request)),
                    seen,
                )
            }
            Turn::Conflict { leader } => (
                format!("{}'s write of status meets another", who(leader)),
                0,
            ),
            Turn::Crash { leader, under_way } => {
                let late = under_way.map(|at| {
                    let request = self.tell_request(&plan(leader).requests[at]);
                    format!(", while this is under way: it {request}")
                });
                (
                    format!("{} crashes{}", who(leader), late.unwrap_or_default()),
                    0,
                )
            }
            Turn::StaleRestart { leader } => {
                (format!("{} restarts and sees old states", who(leader)), 0)
            }
            Turn::Arrive { seen } => {
                let request = self.plans.at(state.under_way).requests.first();
                let what = request.map(|request| self.tell_request(request));
                (
                    format!(
                        "what was under way arrives: it {}",
                        what.unwrap_or_default()
                    ),
                    seen,
                )
            }
            Turn::Bind { pod: number, seen } => (format!("{} is bound", pod(number)), seen),
            Turn::End {
                pod: number,
                success,
                seen,
            } => {
                let how = if success { "succeeds" } else { "fails" };
                (format!("{} {how}", pod(number)), seen)
            }
            Turn::Delete { pod: number, seen } => (format!("a user deletes {}", pod(number)), seen),
            Turn::Cordon { node, seen } => (format!("a user cordons n{node}"), seen),
            Turn::Uncordon { node, seen } => (format!("a user uncordons n{node}"), seen),
            Turn::Replace { node, seen } => {
                (format!("n{node} is replaced by another of that name"), seen)
            }
            Turn::Hour => ("an hour passes".to_owned(), 0),
        };
        let lookers: Vec<&str> = (0..2)
            .filter(|leader| seen >> leader & 1 == 1)
            .map(who)
            .chain((seen >> 2 & 1 == 1).then_some("the old view"))
            .collect();
        if lookers.is_empty() {
            text
        } else {
            format!("{text} (just before: {} looked)", lookers.join(", "))
        }
    }

    fn tell_request(&self, request: &Request) -> String {
        match *request {
            Request::ConfirmGone { pod, .. } => {
                format!("asks whether {} is gone", self.names.name(pod))
            }
            Request::Slice { index, from, to } => {
                let content = self.contents.at(to);
                let entries: Vec<String> = content
                    .entries
                    .iter()
                    .map(|entry| {
                        let seen = if entry.pod_uid.is_some() { "" } else { "*" };
                        format!(
                            "n{}.{}/{} {:?}{seen}",
                            entry.node, entry.generation, entry.attempt, entry.state
                        )
                    })
                    .collect();
                let verb = if from.is_some() { "writes" } else { "creates" };
                let sealed = if content.sealed { " sealed" } else { "" };
                format!("{verb} slice {index}{sealed} [{}]", entries.join(", "))
            }
            Request::Create { pod, node } => {
                format!("creates {} for n{node}", self.names.name(pod))
            }
            Request::Delete { pod, .. } => format!("deletes {}", self.names.name(pod)),
            Request::Release { pod, .. } => format!("releases {}", self.names.name(pod)),
            Request::Status { to, .. } => format!("writes status {:?}", Verdict::read(to)),
        }
    }
}
