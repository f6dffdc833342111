//! A plan as the requests it sends, step by step.

use carillon_api::NodeState;
use carillon_api::condition::results;
use carillon_plan::broadcast_job::action::{Action, OnError, Plan, SliceWrite};

use super::model::Model;
use super::names;
use super::request::{FILLER, Request, Rest, Verdict};
use super::store::{Content, Entry, View, Why};

impl Model {
    /// The number of a plan made from `view`.
    pub(super) fn store_plan(&mut self, plan: &Plan, view: &View) -> u32 {
        let mut steps: Vec<Rest> = Vec::new();
        for step in &plan.steps {
            let requests: Vec<Request> = step
                .actions
                .iter()
                .filter_map(|action| self.read_action(action, view))
                .collect();
            steps.push(Rest {
                requests,
                stop: step.on_error == OnError::Stop,
                failed: false,
                next: 0,
            });
        }
        // A plan of nothing but words changes nothing that counts.
        let idle = |step: &Rest| {
            let words = |r: &Request| matches!(r, Request::Status { from, to, .. } if from == to);
            step.requests.iter().all(words)
        };
        if steps.iter().all(idle) {
            return 0;
        }
        let mut next = 0;
        for step in steps.into_iter().rev() {
            next = self.plans.number(Rest { next, ..step });
        }
        next
    }

    fn read_action(&mut self, action: &Action, view: &View) -> Option<Request> {
        Some(match action {
            Action::WriteSlice(write) => Request::Slice {
                index: write.index as u8,
                from: write.rv.map(|rv| rv as u32 - 1),
                to: self.store_content(write),
                seals: write.sealed.then_some(view.nodes),
            },
            Action::ConfirmSlice { index, rv } => Request::Confirm {
                index: *index as u8,
                from: *rv as u32 - 1,
            },
            Action::ConfirmPod { pod, seen } => Request::ConfirmPod {
                pod: self.names.number(pod),
                seen: seen.map(|(uid, rv)| (self.names.read_uid(uid).map_or(0, |(_, n)| n), rv)),
            },
            Action::CreatePod { pod, node, .. } => Request::Create {
                pod: self.names.number(pod),
                node: names::node_number(node),
            },
            Action::DeletePod { pod, uid, rv } => Request::Delete {
                pod: self.names.number(pod),
                incarnation: self.names.read_uid(*uid).map_or(0, |(_, n)| n),
                version: *rv,
            },
            Action::ReleasePod { pod, uid } => Request::Release {
                pod: self.names.number(pod),
                incarnation: self.names.read_uid(*uid).map_or(0, |(_, n)| n),
            },
            Action::WriteStatus(status) => Request::Status {
                from: view.status,
                to: Verdict::of(status).number(),
                succeeded: status.succeeded as u16,
                failed: status.failed as u16,
            },
            // What the answer may be is decided when a plan is made. The template is accepted, no pod loses
            // its label, and the job has no time to live, no family, and stays.
            Action::ConfirmGone { .. }
            | Action::LabelPod { .. }
            | Action::CheckTemplate { .. }
            | Action::ConfirmJob
            | Action::CloseLog { .. }
            | Action::JoinFamily { .. }
            | Action::DeleteJob => return None,
        })
    }

    fn store_content(&mut self, write: &SliceWrite) -> u32 {
        let mut content = Content {
            sealed: write.sealed,
            ..Content::default()
        };
        for record in write.records() {
            if record.node.starts_with(FILLER) {
                content.filled += 1;
                continue;
            }
            let node = names::node_number(&record.node);
            let timed = matches!(
                record.state,
                NodeState::Disrupted | NodeState::Unknown | NodeState::Started
            );
            content.entries.push(Entry {
                node,
                generation: names::generation(node, record.node_uid),
                attempt: record.attempt as u8,
                state: record.state,
                pod: self.names.number(&record.pod),
                pod_uid: record.pod_uid.and_then(|uid| self.names.read_uid(uid)),
                why: match &*record.reason {
                    results::NODE_LOST => Why::NodeLost,
                    results::WITHDRAWN => Why::Withdrawn,
                    "" => Why::Other,
                    _ if record.is_final() => Why::Other,
                    _ => Why::NotStarted,
                },
                finished: record.finished.filter(|_| timed).map(names::seconds),
            });
        }
        self.contents.number(content)
    }
}
