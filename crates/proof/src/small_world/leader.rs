//! What a leader plans from what it sees: the real planner, asked once for each view.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use carillon_api::BroadcastJobStatus;
use carillon_api::NodeState;
use carillon_api::condition::{reasons, results, types};
use carillon_plan::Uid;
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{BroadcastJob, Snapshot, Taken, TakenPods, Template};
use carillon_plan::condition::{self, whole_seconds};
use carillon_plan::node::{self, NodeRow};
use carillon_plan::pod::{self, Deletion, PodRow, Pods};
use carillon_plan::record::{Record, Records, Slice};
use jiff::SignedDuration;

use super::model::{Model, Question};
use super::names;
use super::request::{FILLER, Verdict};
use super::store::{Content, Entry, Nodes, Phase, Pod, View, Why};
use super::violation::Violation;

/// Grace period of every deletion.
const GRACE: i64 = 30;

impl Model {
    /// The number of the plan that leader makes; 0 when nothing is to be done.
    pub(super) fn plan(
        &mut self,
        leader: usize,
        view: View,
        gone: u32,
        hours: u8,
    ) -> Result<u32, Violation> {
        let same = self.world.same_plan;
        let question = Question {
            view,
            gone,
            hours,
            leader: if same { 0 } else { leader },
        };
        if let Some(number) = self.planned.get(&question) {
            return Ok(*number);
        }
        let plan = self.ask(question);
        if same {
            let other = self.ask(Question {
                leader: 1,
                ..question
            });
            if plan != other {
                return Err(Violation {
                    law: "the same view gives the same plan, whoever leads",
                    detail: format!("{plan:?} and {other:?}"),
                });
            }
        }
        let number = self.store_plan(&plan, &view);
        self.planned.insert(question, number);
        Ok(number)
    }

    fn ask(&mut self, question: Question) -> Plan {
        let view = question.view;
        let nodes = self.node_rows(view.nodes);
        let slices = self.slice_rows(view.slices);
        let pods = self.pod_rows(view.pods);
        let job = self.job(view.status);
        let gone: BTreeSet<Uid> = (0..32)
            .filter(|name| question.gone >> name & 1 == 1)
            .map(|name| names::pod_uid(name, 0))
            .collect();
        let snapshot = Snapshot {
            job: &job,
            nodes: &nodes,
            pods: &pods,
            taken: Taken {
                watched: &TakenPods::new(),
                asked: &BTreeMap::new(),
            },
            created: &BTreeMap::new(),
            slices: &slices,
            template: &Template::Accepted,
            gone: &gone,
            conflicts: &BTreeSet::new(),
            disputed: &BTreeSet::new(),
            creation_problem: None,
            refused: &BTreeMap::new(),
            refusal: None,
            family: None,
            max_pod_changes: 500,
            index: None,
        };
        (self.world.planner)(question.leader, &snapshot, names::time(question.hours))
    }

    fn job(&mut self, status: u8) -> Rc<BroadcastJob> {
        let blank = &self.blank;
        let job = self.jobs.entry(status).or_insert_with(|| {
            let mut job = blank.clone();
            job.meta.rv = u64::from(status) + 1;
            job.status = stored_status(Verdict::read(status));
            Rc::new(job)
        });
        Rc::clone(job)
    }

    fn node_rows(&mut self, nodes: Nodes) -> Rc<node::Nodes> {
        let count = self.world.nodes;
        let rows = self.node_rows.entry(nodes).or_insert_with(|| {
            let row = |number| NodeRow {
                uid: names::node_uid(number, nodes.generation(number)),
                unschedulable: nodes.cordoned(number),
                ..NodeRow::default()
            };
            Rc::new((0..count).map(|n| (names::node(n), row(n))).collect())
        });
        Rc::clone(rows)
    }

    fn slice_rows(&mut self, slices: u32) -> Rc<Vec<Slice>> {
        if let Some(rows) = self.slice_rows.get(&slices) {
            return Rc::clone(rows);
        }
        let list = self.slices.get(slices);
        let rows = list.iter().enumerate().map(|(index, number)| Slice {
            index: index as u32,
            uid: Uid::MAX,
            rv: u64::from(*number) + 1,
            sealed: self.contents.at(*number).sealed,
            records: self.records(self.contents.at(*number)),
        });
        let rows: Rc<Vec<Slice>> = Rc::new(rows.collect());
        self.slice_rows.insert(slices, Rc::clone(&rows));
        rows
    }

    fn records(&self, content: &Content) -> Records {
        let filler = (0..content.filled).map(|number| Record {
            node: format!("{FILLER}{number:03}").into(),
            node_uid: Uid::MAX,
            attempt: 1,
            state: NodeState::Succeeded,
            pod: format!("{FILLER}pod-{number:03}").into(),
            pod_uid: Some(Uid::MAX),
            ..Record::default()
        });
        filler
            .chain(content.entries.iter().map(|entry| self.record(entry)))
            .collect()
    }

    fn record(&self, entry: &Entry) -> Record {
        let reason = match (entry.state, entry.why) {
            (_, Why::NodeLost) => results::NODE_LOST,
            (_, Why::Withdrawn) => results::WITHDRAWN,
            (_, Why::NotStarted) => results::POD_START_DEADLINE_EXCEEDED,
            (NodeState::Started | NodeState::Succeeded, Why::Other) => "",
            (_, Why::Other) => results::POD_DELETED,
        };
        Record {
            node: names::node(entry.node),
            node_uid: names::node_uid(entry.node, entry.generation),
            attempt: entry.attempt.into(),
            state: entry.state,
            pod: self.names.name(entry.pod).into(),
            pod_uid: entry
                .pod_uid
                .map(|(name, incarnation)| names::pod_uid(name, incarnation)),
            reason: reason.into(),
            finished: entry
                .finished
                .map(|second| names::time(0) + SignedDuration::from_secs(second.into())),
            ..Record::default()
        }
    }

    fn pod_rows(&self, pods: u32) -> Pods {
        let table = self.pods.at(pods);
        table
            .iter()
            .map(|pod| (self.names.name(pod.name).into(), pod_row(pod)))
            .collect()
    }
}

fn pod_row(pod: &Pod) -> PodRow {
    let asked = pod.deleted.map(names::time);
    let second = SignedDuration::from_secs(1);
    let ended = pod.phase != Phase::Active;
    let end = || pod::End {
        exit_code: Some(match pod.phase {
            Phase::Failed if pod.ended_late => 137,
            Phase::Failed => 3,
            Phase::Active | Phase::Succeeded => 0,
        }),
        finished: Some(match asked {
            Some(asked) if pod.ended_late => asked + second,
            _ => names::time(0),
        }),
        ..pod::End::default()
    };
    PodRow {
        uid: names::pod_uid(pod.name, pod.incarnation),
        rv: pod.version(),
        node: pod.bound.then(|| names::node(pod.node)),
        phase: pod.phase(),
        created: Some(names::time(pod.born)),
        started: pod.started.then(|| names::time(pod.born)),
        tracked: pod.tracked,
        deletion: asked.map(|asked| Deletion {
            due: asked + SignedDuration::from_secs(GRACE),
            grace_seconds: GRACE,
        }),
        end: ended.then(|| Box::new(end())),
        ..PodRow::default()
    }
}

fn stored_status(verdict: Verdict) -> BroadcastJobStatus {
    let mut status = BroadcastJobStatus::default();
    if verdict.started {
        status.observed_generation = Some(1);
        status.start_time = Some(whole_seconds(names::time(0)));
    }
    if verdict.ended() {
        status.completion_time = Some(whole_seconds(names::time(0)));
    }
    for (is, type_, reason) in [
        (
            verdict.failing,
            types::FAILURE_TARGET,
            reasons::MAX_FAILED_NODES_EXCEEDED,
        ),
        (
            verdict.complete,
            types::COMPLETE,
            reasons::ALL_NODES_SUCCEEDED,
        ),
        (
            verdict.failed,
            types::FAILED,
            reasons::MAX_FAILED_NODES_EXCEEDED,
        ),
    ] {
        if is {
            let (list, now) = (&mut status.conditions, names::time(0));
            condition::set(list, type_, true, reason, "", 1, now);
        }
    }
    status
}
