//! A path that people can read and a test can walk again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::model::Model;
use super::request::{Request, Verdict};
use super::store::{Nodes, Phase, State, View};
use super::turn::{Turn, canonical};
use super::violation::Violation;
use super::world::World;

/// One step of a path, in words that tell it from every other that could be taken there.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PathStep(pub String);

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Walks a path again. The violation it leads to, if it still does; `Err` with the number of the
/// first step that is no longer possible.
pub fn replay(world: &World, path: &[PathStep]) -> Result<Option<Violation>, usize> {
    let mut model = Model::new(world);
    let mut state = model.start();
    let mut turns = Vec::new();
    let mut exchanged = false;
    for (at, step) in path.iter().enumerate() {
        if let Err(broken) = model.turns(&state, &mut turns)
            && model.tell(&state, broken.turn, exchanged) == step.0
        {
            return Ok(Some(broken.violation));
        }
        let next = turns
            .iter()
            .find(|(turn, _)| model.tell(&state, *turn, exchanged) == step.0);
        state = next.ok_or(at)?.1;
        exchanged ^= model.put_in_order(&mut state);
    }
    Ok(model.ends_well(state.store).err())
}

/// The path that takes these turns, each counted among those possible, and `last` at the end.
pub(super) fn read(model: &mut Model, ordinals: &[u16], last: Option<Turn>) -> Vec<PathStep> {
    let mut state = model.start();
    let mut exchanged = false;
    let mut path = Vec::new();
    let mut turns = Vec::new();
    for ordinal in ordinals {
        // Nothing was wrong on the way here when these were taken before.
        let _ = model.turns(&state, &mut turns);
        let Some((turn, next)) = turns.get(usize::from(*ordinal)).copied() else {
            return path;
        };
        path.push(PathStep(model.tell(&state, turn, exchanged)));
        state = next;
        exchanged ^= model.put_in_order(&mut state);
    }
    path.extend(last.map(|turn| PathStep(model.tell(&state, turn, exchanged))));
    path
}

impl Model {
    /// Puts the leaders in order where they are alike. Whether they changed places.
    pub(super) fn put_in_order(&self, state: &mut State) -> bool {
        let mut swapped = false;
        if self.world.same_plan {
            (*state, swapped) = canonical(*state);
        }
        swapped
    }

    fn tell(&mut self, state: &State, turn: Turn, exchanged: bool) -> String {
        let newest = self.view(state.store);
        let who = |leader: usize| if (leader == 0) == exchanged { "B" } else { "A" };
        let pod = |number: u8| self.names.name(number);
        match turn {
            Turn::Act {
                leader,
                view,
                gone,
                request,
            } => {
                let sees = self.tell_view(view, newest, gone);
                format!("{}{sees} {}", who(leader), self.tell_request(&request))
            }
            Turn::Send { leader, request } => {
                format!(
                    "{} goes on and {}",
                    who(leader),
                    self.tell_request(&request)
                )
            }
            Turn::Crash { leader } => format!("{} drops its plan", who(leader)),
            Turn::CrashLate { leader, request } => {
                let request = self.tell_request(&request);
                format!("{} crashes; still under way: {request}", who(leader))
            }
            Turn::Arrive { request } => {
                format!(
                    "what was under way arrives: {}",
                    self.tell_request(&request)
                )
            }
            Turn::Bind { pod: number } => format!("{} is bound", pod(number)),
            Turn::Start { pod: number } => format!("{} starts", pod(number)),
            Turn::End {
                pod: number,
                success,
            } => {
                let how = if success { "succeeds" } else { "fails" };
                format!("{} {how}", pod(number))
            }
            Turn::Delete { pod: number } => format!("a user deletes {}", pod(number)),
            Turn::Cordon { node } => format!("a user cordons n{node}"),
            Turn::Uncordon { node } => format!("a user uncordons n{node}"),
            Turn::Replace { node } => format!("n{node} is replaced by another of that name"),
            Turn::Hour => "an hour passes".to_owned(),
        }
    }

    /// What is old in a view.
    fn tell_view(&self, view: View, newest: View, gone: u32) -> String {
        let mut old = Vec::new();
        if view.status != newest.status {
            old.push(format!("job {:?}", Verdict::read(view.status)));
        }
        if view.slices != newest.slices {
            let slices: Vec<String> = self
                .slices
                .at(view.slices)
                .iter()
                .map(|number| self.tell_content(*number))
                .collect();
            old.push(format!("slices {}", slices.join(" ")));
        }
        if view.pods != newest.pods {
            let pods: Vec<String> = self
                .pods
                .at(view.pods)
                .iter()
                .map(|pod| {
                    let phase = match pod.phase {
                        Phase::Active if pod.started => "running",
                        Phase::Active if pod.bound => "bound",
                        Phase::Active => "waiting",
                        Phase::Succeeded => "succeeded",
                        Phase::Failed => "failed",
                    };
                    let deleted = if pod.deleted.is_some() {
                        " deleted"
                    } else {
                        ""
                    };
                    let free = if pod.tracked { "" } else { " released" };
                    format!("{} {phase}{deleted}{free}", self.names.name(pod.name))
                })
                .collect();
            old.push(format!("pods [{}]", pods.join(", ")));
        }
        if view.nodes != newest.nodes {
            old.push(format!("nodes [{}]", self.tell_nodes(view.nodes)));
        }
        let asked = if gone == 0 {
            ""
        } else {
            ", having asked which pods are gone,"
        };
        if old.is_empty() {
            asked.to_owned()
        } else {
            format!(", still seeing {},{asked}", old.join(" and "))
        }
    }

    fn tell_nodes(&self, nodes: Nodes) -> String {
        let rows: Vec<String> = (0..self.world.nodes)
            .map(|node| {
                let cordoned = if nodes.cordoned(node) {
                    " cordoned"
                } else {
                    ""
                };
                format!("n{node}.{}{cordoned}", nodes.generation(node))
            })
            .collect();
        rows.join(", ")
    }

    /// Attempts as node.generation/attempt; a star is a pod not yet seen.
    fn tell_content(&self, number: u32) -> String {
        let content = self.contents.at(number);
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
        let sealed = if content.sealed { " sealed" } else { "" };
        format!("[{}]{sealed}", entries.join(", "))
    }

    fn tell_request(&self, request: &Request) -> String {
        match *request {
            Request::Slice {
                index, from, to, ..
            } => {
                let verb = if from.is_some() { "writes" } else { "creates" };
                format!("{verb} slice {index} {}", self.tell_content(to))
            }
            Request::Confirm { index, .. } => format!("confirms slice {index}"),
            Request::ConfirmPod { pod, seen } => {
                let there = if seen.is_some() {
                    "as seen"
                } else {
                    "not there"
                };
                format!("confirms that {} is {there}", self.names.name(pod))
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
