//! A job and its retries, as people ask for them: one outcome for each node, and who tries it again.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::condition::results;

use super::ledger::{Ledger, Node, is_of};
use super::progress::{Standing, standing};
use crate::broadcast_job::{BroadcastJob, NodeStanding, standing_after};
use crate::record::{Record, Slice};
use crate::uid::Uid;
use crate::view::read::StoredJob;

/// A job of a family, and what it has done.
#[derive(Clone, Debug)]
pub struct Relative {
    /// The job.
    pub stored: StoredJob,
    /// Its result slices, by index.
    pub slices: Vec<Slice>,
}

impl Relative {
    /// A job and its results as they are stored. A retry that is deleted stores none any more: the outcome of
    /// what was under way there is unknown, as the next retry will write.
    pub fn new(stored: StoredJob, mut slices: Vec<Slice>) -> Self {
        let job = &stored.job;
        if job.meta.deleting && job.retry_of.is_some() && !standing(job).0.has_ended() {
            let records = slices.iter_mut().flat_map(|slice| &mut slice.records);
            for record in records.filter(|record| record.state == NodeState::Started) {
                record.state = NodeState::Unknown;
                record.reason = results::JOB_DELETED.into();
            }
        }
        Self { stored, slices }
    }

    fn job(&self) -> &BroadcastJob {
        &self.stored.job
    }

    /// Whether it starts nothing until somebody resumes it.
    fn is_paused(&self) -> bool {
        self.job().paused || standing(self.job()).0 == Standing::Paused
    }

    /// Why it starts nothing until a person acts, if so.
    fn stalled(&self) -> Option<String> {
        match standing(self.job()) {
            (Standing::Stalled, Some(why)) => Some(format!("{}: {}", why.reason, why.message)),
            _ => None,
        }
    }
}

/// Puts the retries of `first` among these jobs into their order: those that have had their turn, then
/// those that wait for it, by name.
pub fn retries(first: &BroadcastJob, jobs: Vec<StoredJob>) -> Vec<StoredJob> {
    let of_first = |stored: &StoredJob| {
        let retry_of = stored.job.retry_of.as_ref();
        retry_of.is_some_and(|named| {
            named.uid == first.meta.owner.uid && named.name == first.meta.owner.name
        })
    };
    let mut retries: Vec<StoredJob> = jobs.into_iter().filter(of_first).collect();
    let place = |stored: &StoredJob| {
        let uid = stored.job.meta.owner.uid.to_string();
        let mut listed = first.status.retries.iter();
        let place = listed.position(|retry| retry.uid == uid);
        (
            place.unwrap_or(usize::MAX),
            stored.job.meta.owner.name.clone(),
        )
    };
    retries.sort_by_cached_key(place);
    retries
}

fn has_run_nothing(record: &Record) -> bool {
    match record.state {
        NodeState::Skipped => true,
        NodeState::Disrupted => *record.reason == *results::WITHDRAWN,
        NodeState::Started | NodeState::Succeeded | NodeState::Failed | NodeState::Unknown => false,
    }
}

/// Whether a node may have succeeded in a retry that was deleted, if this is its last outcome: no retry runs it.
pub fn may_have_succeeded(record: &Record) -> bool {
    record.state == NodeState::Unknown && *record.reason == *results::JOB_DELETED
}

/// Why nothing is left to do for a retry on a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settled<'a> {
    /// The reason that `status.refused` has for it.
    pub reason: &'static str,
    /// The job of the family that has done it.
    pub by: &'a str,
}

/// A node that has failed and is tried again already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tried<'a> {
    /// Its name.
    pub node: &'a str,
    /// The job that tries it.
    pub by: &'a str,
    /// Whether that one is paused.
    pub paused: bool,
}

/// The jobs of a family with their records by node, the first job first.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    all: Vec<(&'a Relative, Ledger<'a>)>,
}

impl<'a> Members<'a> {
    /// Sorts the records of a family.
    pub fn read(family: &'a [Relative]) -> Self {
        let all = family.iter().map(|one| (one, Ledger::read(&one.slices)));
        Self { all: all.collect() }
    }

    /// The jobs and their records.
    pub fn all(&self) -> impl Iterator<Item = (&'a BroadcastJob, &Ledger<'a>)> {
        self.all.iter().map(|(one, ledger)| (one.job(), ledger))
    }

    /// The records of a job, if it is one of them.
    pub fn ledger_of(&self, job: &BroadcastJob) -> Option<&Ledger<'a>> {
        let mut all = self.all();
        let (_, own) = all.find(|(member, _)| member.meta.owner == job.meta.owner)?;
        Some(own)
    }

    /// The first job.
    pub fn first(&self) -> Option<&'a BroadcastJob> {
        self.all.first().map(|(first, _)| first.job())
    }

    /// The last outcome on each node, by name, and the job it is of. A later job decides, unless it ended
    /// before anything ran there; a success stays.
    pub fn latest(&self) -> Vec<(&'a str, &'a Record)> {
        let mut nodes: BTreeMap<(&str, Uid), (&str, &Record)> = BTreeMap::new();
        for (job, ledger) in self.all() {
            for (name, uid, attempts) in ledger.nodes() {
                let Some(last) = attempts.last() else {
                    continue;
                };
                let known = nodes.get(&(name, uid)).map(|(_, record)| record.state);
                let stays =
                    known == Some(NodeState::Succeeded) || known.is_some() && has_run_nothing(last);
                if !stays {
                    nodes.insert((name, uid), (&job.meta.owner.name, last));
                }
            }
        }
        nodes.into_values().collect()
    }

    /// Whether a node has failed if this is its last outcome: what is tried again on request. Where nothing may
    /// run twice, an attempt that was interrupted has failed, too.
    pub fn has_failed(&self, record: &Record) -> bool {
        let once = || self.all().any(|(job, _)| job.policies.at_most_once);
        match record.state {
            NodeState::Failed => true,
            NodeState::Disrupted | NodeState::Unknown => {
                !may_have_succeeded(record) && !has_run_nothing(record) && once()
            }
            NodeState::Started | NodeState::Succeeded | NodeState::Skipped => false,
        }
    }

    /// The nodes that have failed and that a job of the family tries again, now or later.
    pub fn tried_again(&self) -> Vec<Tried<'a>> {
        let latest = self.latest().into_iter().map(|(_, record)| record);
        let open = latest
            .filter(|record| record.state != NodeState::Succeeded && !may_have_succeeded(record));
        let failed = open.filter(|record| {
            let mut all = self.all().flat_map(|(_, ledger)| {
                let here = ledger.attempts_on(&record.node, record.node_uid);
                here.iter().copied()
            });
            all.any(|record| self.has_failed(record))
        });
        let tried = failed.filter_map(|record| {
            let (by, paused) = self.tried_by((&record.node, Some(record.node_uid)))?;
            let node = &*record.node;
            Some(Tried { node, by, paused })
        });
        tried.collect()
    }

    /// Uids of the retries that had their turn before a job, and that whoever made it did not know.
    fn unknown_to(&self, job: &BroadcastJob) -> BTreeSet<&'a str> {
        let known = job.retry_of.as_ref().map_or(0, |first| first.known_retries);
        let own = job.meta.owner.uid.to_string();
        let listed = self
            .first()
            .into_iter()
            .flat_map(|first| &first.status.retries);
        let before = listed
            .map(|retry| &*retry.uid)
            .take_while(|uid| *uid != own);
        before.skip(known).collect()
    }

    /// Why nothing is left to do for a retry on a node that it has not begun with, as the operator judges it.
    pub fn settled(&self, job: &BroadcastJob, node: Node<'_>) -> Option<Settled<'a>> {
        job.retry_of.as_ref()?;
        let here = self.all().map(|(member, ledger)| {
            let mut here = ledger.attempts(node.0);
            here.retain(|record| is_of(record, node));
            (member, here)
        });
        let here: Vec<_> = here.filter(|(_, attempts)| !attempts.is_empty()).collect();
        let own = job.meta.owner.uid;
        if here.iter().any(|(member, _)| member.meta.owner.uid == own) {
            return None;
        }
        let by_one = |reason: &'static str, what: &dyn Fn(&BroadcastJob, &Record) -> bool| {
            let mut all = here.iter();
            let (member, _) = all.find(|(member, attempts)| {
                let mut attempts = attempts.iter();
                attempts.any(|record| what(member, record))
            })?;
            let by = &*member.meta.owner.name;
            Some(Settled { reason, by })
        };
        let unknown = self.unknown_to(job);
        let succeeded = |_: &BroadcastJob, record: &Record| record.state == NodeState::Succeeded;
        let lost = |_: &BroadcastJob, record: &Record| *record.reason == *results::JOB_DELETED;
        let tried = |member: &BroadcastJob, record: &Record| {
            let is_over = member.meta.deleting || standing(member).0.has_ended();
            let has_run = record.state != NodeState::Started && !has_run_nothing(record);
            is_over && has_run && unknown.contains(&*member.meta.owner.uid.to_string())
        };
        by_one(results::ALREADY_SUCCEEDED, &succeeded)
            .or_else(|| by_one(results::ALREADY_TRIED, &lost))
            .or_else(|| by_one(results::ALREADY_TRIED, &tried))
    }

    /// Another job of the family with an attempt on the node that has not ended.
    pub fn runs_in(&self, job: &BroadcastJob, name: &str) -> Option<&'a str> {
        let others = self
            .all()
            .filter(|(one, _)| one.meta.owner.uid != job.meta.owner.uid);
        let mut running = others.filter(|(_, ledger)| {
            let mut here = ledger.attempts(name).into_iter();
            here.any(|record| record.state == NodeState::Started)
        });
        running.next().map(|(member, _)| &*member.meta.owner.name)
    }

    /// Whether a job has not ended, and has something to do on this node. One that failed there may try again.
    fn is_for(&self, (one, ledger): &(&'a Relative, Ledger<'a>), (name, uid): Node<'_>) -> bool {
        let job = one.job();
        let only = job.placement.only.as_ref();
        let listed = only.is_none_or(|only| only.contains(name));
        let here = ledger.attempts_at((name, uid));
        let stands = standing_after(job, here, true);
        let given_up = stands == Some(NodeStanding::Failed);
        let open = !job.meta.deleting && !standing(job).0.has_ended();
        open && listed && !given_up && self.settled(job, (name, uid)).is_none()
    }

    /// A job of the family that has not ended and tries this node, now or later; and whether it is paused.
    pub fn tried_by(&self, node: Node<'_>) -> Option<(&'a str, bool)> {
        let mut all = self.all.iter();
        let found = all.find(|one| self.is_for(one, node) && one.0.stalled().is_none())?;
        Some((&found.0.job().meta.owner.name, found.0.is_paused()))
    }

    /// The jobs of the family that are made for this node, and that start nothing until a person acts; and why.
    pub fn stalled_for<'s>(&'s self, node: Node<'s>) -> impl Iterator<Item = String> + 's {
        let made = self.all.iter().filter(move |one| self.is_for(one, node));
        made.filter_map(|(one, _)| {
            let name = &one.job().meta.owner.name;
            Some(format!("{name} ({})", one.stalled()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::node::{NodeRow, Nodes};
    use crate::view::broadcast_job::retry::{Again, choose, choose_again, next_number};
    use crate::view::broadcast_job::samples::{condition, job, record, slice, uid};
    use serde_json::{Value, json};

    fn first(spec: &Value, records: Vec<Record>) -> Relative {
        let ended = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")]});
        Relative::new(job(spec, &ended), slice(records).to_vec())
    }

    fn named(mut relative: Relative, name: &str) -> Relative {
        Arc::make_mut(&mut relative.stored.job.meta.owner).name = name.to_owned();
        relative
    }

    fn retry(spec: &Value, deleting: bool, records: Vec<Record>) -> Relative {
        let mut spec = spec.clone();
        spec["retryOf"] = json!({"name": "fix", "uid": uid(500).to_string()});
        let mut stored = job(&spec, &json!({}));
        stored.job.meta.deleting = deleting;
        named(
            Relative::new(stored, slice(records).to_vec()),
            "fix-retry-1",
        )
    }

    fn ended_as(node: &str, state: NodeState, reason: &str) -> Record {
        Record {
            reason: reason.into(),
            ..record(node, 1, state)
        }
    }

    fn failed(node: &str) -> Record {
        record(node, 1, NodeState::Failed)
    }

    /// Nodes that `results --failed` shows.
    fn shown(family: &[Relative]) -> Vec<&str> {
        let members = Members::read(family);
        let all = members.latest().into_iter().map(|(_, record)| record);
        let all = all.filter(|record| members.has_failed(record) || may_have_succeeded(record));
        all.map(|record| &*record.node).collect()
    }

    #[test]
    fn a_node_that_a_deleted_retry_may_have_done_is_told_and_no_retry_is_made_for_it() {
        let open = record("n1", 1, NodeState::Started);
        let closed = ended_as("n1", NodeState::Unknown, "JobDeleted");
        for left in [open, closed] {
            for once in [json!({}), json!({"executionPolicy": "AtMostOnce"})] {
                let family = [
                    first(&once, vec![failed("n1"), failed("n3")]),
                    retry(&json!({}), true, vec![left.clone()]),
                ];
                let chosen = choose_again(&family, "fix", None, None).unwrap();
                assert_eq!(chosen.nodes, ["n3"]);
                let told = "node n1 may have succeeded in fix-retry-1, which was deleted at work: no retry \
                            runs it again; to run it anyway, create a job without spec.retryOf, with n1 in \
                            spec.nodeNames";
                assert_eq!(chosen.lost, [told]);
                let named = ["n1".to_owned(), "n3".to_owned()];
                let chosen = choose_again(&family, "fix", Some(&named), None);
                assert_eq!(chosen, Err(vec![told.to_owned()]));
                assert_eq!(shown(&family), ["n1", "n3"]);
                let alone = [first(&once, vec![failed("n1")]), family[1].clone()];
                let chosen = choose_again(&alone, "fix", None, None);
                assert_eq!(chosen, Err(vec![told.to_owned()]));
            }
        }
    }

    #[test]
    fn what_a_deleted_retry_has_left_open_is_no_matter_where_the_node_has_succeeded_or_was_made_anew()
     {
        let mut anew = failed("n1");
        anew.node_uid = uid(77);
        let left = || retry(&json!({}), true, vec![record("n1", 1, NodeState::Started)]);
        let family = [first(&json!({}), vec![failed("n1"), anew]), left()];
        assert_eq!(
            choose_again(&family, "fix", None, None).unwrap().nodes,
            ["n1"]
        );
        let done = record("n1", 1, NodeState::Succeeded);
        let family = [first(&json!({}), vec![done]), left()];
        assert!(shown(&family).is_empty());
    }

    #[test]
    fn a_first_job_that_is_being_deleted_and_a_retry_at_work_have_attempts_under_way() {
        let started = || vec![record("n1", 1, NodeState::Started)];
        let mut deleting = job(&json!({}), &json!({}));
        deleting.job.meta.deleting = true;
        let at_work = [
            Relative::new(deleting, slice(started()).to_vec()),
            retry(&json!({}), false, started()),
        ];
        for relative in at_work {
            let family = [relative];
            assert_eq!(
                Members::read(&family).latest()[0].1.state,
                NodeState::Started
            );
        }
    }

    #[test]
    fn a_retry_that_ran_nothing_on_a_node_leaves_the_outcome_there_as_it_was() {
        for (state, reason) in [
            (NodeState::Disrupted, "Withdrawn"),
            (NodeState::Skipped, "NotStarted"),
        ] {
            let nothing = ended_as("n1", state, reason);
            let later = named(first(&json!({}), vec![nothing.clone()]), "fix-retry-1");
            let family = [first(&json!({}), vec![failed("n1")]), later];
            let chosen = choose_again(&family, "fix", None, None);
            assert_eq!(chosen.map(|again| again.nodes), Ok(vec!["n1".to_owned()]));
            assert_eq!(Members::read(&family).latest()[0].0, "fix");
            // It is all that is known.
            let alone = [first(&json!({}), vec![nothing])];
            assert_eq!(Members::read(&alone).latest()[0].1.state, state);
        }
    }

    #[test]
    fn where_nothing_may_run_twice_what_is_shown_as_failed_is_what_is_tried_again() {
        let records = || {
            vec![
                ended_as("n1", NodeState::Disrupted, "PodDeleted"),
                ended_as("n2", NodeState::Unknown, "NodeLost"),
                ended_as("n3", NodeState::Disrupted, "Withdrawn"),
                failed("n4"),
            ]
        };
        let once = json!({"executionPolicy": "AtMostOnce"});
        for (spec, expected) in [(once, &["n1", "n2", "n4"][..]), (json!({}), &["n4"])] {
            let family = [first(&spec, records())];
            assert_eq!(shown(&family), expected);
            assert_eq!(
                choose_again(&family, "fix", None, None).unwrap().nodes,
                expected
            );
        }
    }

    #[test]
    fn a_paused_retry_that_is_to_try_a_node_is_named_as_paused() {
        let paused = [json!({"paused": true}), json!({})];
        for (spec, is_paused) in paused.into_iter().zip([true, false]) {
            let family = [
                first(&json!({}), vec![failed("n1")]),
                retry(&spec, false, vec![]),
            ];
            let by = "fix-retry-1".to_owned();
            let expected = Again {
                tried: vec![("n1".to_owned(), by.clone())],
                paused: BTreeSet::from_iter(is_paused.then_some(by)),
                ..Again::default()
            };
            assert_eq!(choose_again(&family, "fix", None, None), Ok(expected));
        }
    }

    /// A retry of its own uid that has ended or not, and knew so many.
    fn numbered(n: u32, spec: &Value, status: &Value, records: Vec<Record>) -> Relative {
        let mut spec = spec.clone();
        spec["retryOf"]["name"] = "fix".into();
        spec["retryOf"]["uid"] = uid(500).to_string().into();
        let mut relative = Relative::new(job(&spec, status), slice(records).to_vec());
        Arc::make_mut(&mut relative.stored.job.meta.owner).uid = uid(500 + n);
        named(relative, &format!("fix-retry-{n}"))
    }

    /// The first job, which lists so many retries.
    fn listing(n: u32, records: Vec<Record>) -> Relative {
        let listed = (1..=n)
            .map(|n| json!({"name": format!("fix-retry-{n}"), "uid": uid(500 + n).to_string()}));
        let status = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")],
            "retries": listed.collect::<Vec<_>>()});
        Relative::new(job(&json!({}), &status), slice(records).to_vec())
    }

    fn ended() -> Value {
        json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")]})
    }

    fn tried(node: &str, by: &str) -> Vec<(String, String)> {
        vec![(node.to_owned(), by.to_owned())]
    }

    #[test]
    fn a_node_that_a_retry_tries_is_named_with_it_whatever_its_attempt_has_come_to() {
        let attempts = [
            vec![],
            vec![record("n1", 1, NodeState::Started)],
            vec![ended_as("n1", NodeState::Disrupted, "PodDeleted")],
            vec![ended_as("n1", NodeState::Disrupted, "Withdrawn")],
            vec![failed("n1")],
            vec![failed("n1"), record("n1", 2, NodeState::Started)],
        ];
        for (records, paused) in attempts
            .into_iter()
            .flat_map(|a| [(a.clone(), false), (a, true)])
        {
            let spec = json!({"backoffLimitPerNode": 1, "nodeNames": ["n1"], "paused": paused});
            let family = [
                listing(1, vec![failed("n1")]),
                numbered(1, &spec, &json!({}), records.clone()),
            ];
            for which in [None, Some(&["n1".to_owned()][..])] {
                let chosen = choose_again(&family, "fix", which, None).unwrap();
                assert_eq!(chosen.tried, tried("n1", "fix-retry-1"), "{records:?}");
                assert!(chosen.nodes.is_empty());
                assert_eq!(chosen.paused.len(), usize::from(paused));
            }
            // Asked of the retry itself, it is the same.
            let asked = choose(&family, &family[1].stored.job, None, None).unwrap();
            let last = records.last().map(|record| record.state);
            // What waits out its back-off is tried earlier.
            let (nodes, tried) = match last {
                Some(NodeState::Failed) => (1, 0),
                _ => (0, 1),
            };
            assert_eq!(
                (asked.nodes.len(), asked.tried.len()),
                (nodes, tried),
                "{records:?}"
            );
        }
    }

    #[test]
    fn a_node_that_has_succeeded_in_a_retry_is_not_tried_by_another_one_that_is_open() {
        let spec = json!({"nodeNames": ["n1", "n2"]});
        let family = [
            listing(1, vec![failed("n1"), failed("n2")]),
            numbered(
                1,
                &spec,
                &ended(),
                vec![record("n1", 1, NodeState::Succeeded), failed("n2")],
            ),
            numbered(
                2,
                &spec,
                &json!({"conditions": [condition("Paused", "PausedByUser", "")]}),
                vec![],
            ),
        ];
        let named = ["n1".to_owned()];
        let told = choose_again(&family, "fix", Some(&named), None).unwrap_err();
        let expected = "node n1 has succeeded in fix-retry-1, and is never run again; to run it anyway, \
                        create another job";
        assert_eq!(told, [expected]);
        let told = choose(&family, &family[2].stored.job, Some(&named), None).unwrap_err();
        assert_eq!(told, [expected]);
        // The second one was made by somebody who did not know that the first had tried n2, too.
        let chosen = choose_again(&family, "fix", None, None).unwrap();
        assert_eq!(
            (chosen.nodes, chosen.tried),
            (vec!["n2".to_owned()], vec![])
        );
        let knew = json!({"nodeNames": ["n1", "n2"], "retryOf": {"knownRetries": 1}});
        let family = [
            family[0].clone(),
            family[1].clone(),
            numbered(2, &knew, &json!({}), vec![]),
        ];
        let chosen = choose_again(&family, "fix", None, None).unwrap();
        assert_eq!(
            (chosen.nodes, chosen.tried),
            (vec![], tried("n2", "fix-retry-2"))
        );
    }

    #[test]
    fn a_retry_is_of_the_job_that_it_names_by_name_and_uid() {
        let first = first(&json!({}), vec![]).stored.job;
        let of = |name: &str, uid: String| {
            let named = json!({"retryOf": {"name": name, "uid": uid}});
            job(&named, &json!({}))
        };
        let jobs = vec![
            of("fix", uid(500).to_string()),
            of("other", uid(500).to_string()),
            of("fix", uid(501).to_string()),
            job(&json!({}), &json!({})),
        ];
        let found = retries(&first, jobs);
        let named = found.iter().map(|stored| stored.job.retry_of.as_ref());
        let named: Vec<_> = named.map(|named| named.unwrap()).collect();
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!((&*named[0].name, named[0].uid), ("fix", uid(500)));
    }

    #[test]
    fn a_number_that_a_retry_has_had_is_not_given_again() {
        let first = json!({"status": {"retries": [
            {"name": "fix-retry-1", "uid": "a"}, {"name": "fix-retry-4", "uid": "b"}, {"name": "mine", "uid": "c"}]}});
        assert_eq!(next_number(&first, &[]), 5);
        assert_eq!(next_number(&json!({}), &[]), 1);
        let waits = numbered(7, &json!({}), &json!({}), vec![]);
        assert_eq!(next_number(&first, &[waits]), 8);
    }

    #[test]
    fn nodes_that_do_not_exist_are_told_from_those_that_are_gone_and_from_those_that_are_not_eligible()
     {
        let cordoned = NodeRow {
            uid: uid(1),
            unschedulable: true,
            ..NodeRow::default()
        };
        let nodes = Nodes::from([("n1".into(), cordoned)]);
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let waiting = BTreeMap::from([("the node is cordoned".to_owned(), owned(&["n1"]))]);
        let family = [first(
            &json!({"nodeNames": ["n2"]}),
            vec![failed("n1"), failed("n2")],
        )];
        let mut open = family.clone();
        open[0].stored.job.status.conditions.clear();
        let named = owned(&["n1", "nope", "n2"]);
        let told = [
            "there is no node nope",
            "node n2 is gone: its Node object does not exist any more",
        ];
        let mut again = choose_again(&family, "fix", Some(&named), Some(&nodes)).unwrap_err();
        again.sort();
        let mut asked = choose(&open, &open[0].stored.job, Some(&named), Some(&nodes)).unwrap_err();
        asked.sort();
        for found in [again, asked] {
            assert_eq!(found, [told[1], told[0]]);
        }
        let again = choose_again(&family, "fix", None, Some(&nodes)).unwrap();
        assert_eq!(
            (again.nodes, &again.obstacles.waiting),
            (owned(&["n1"]), &waiting)
        );
        assert_eq!(again.obstacles.gone, owned(&["n2"]));
        let asked = choose(&open, &open[0].stored.job, None, Some(&nodes)).unwrap();
        assert_eq!(
            (asked.nodes, &asked.obstacles.waiting),
            (owned(&["n1"]), &waiting)
        );
        assert_eq!(asked.obstacles.gone, owned(&["n2"]));
        let told = choose_again(&family, "fix", None, Some(&Nodes::new())).unwrap_err();
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn a_node_that_was_made_anew_and_has_succeeded_is_no_failed_node() {
        let mut anew = record("n1", 1, NodeState::Succeeded);
        anew.node_uid = uid(77);
        let family = [first(&json!({}), vec![failed("n1"), anew, failed("n2")])];
        for (n1, chosen) in [(uid(77), &["n2"][..]), (uid(1), &["n1", "n2"])] {
            let row = |uid| NodeRow {
                uid,
                ..NodeRow::default()
            };
            let nodes = Nodes::from([("n1".into(), row(n1)), ("n2".into(), row(uid(2)))]);
            let found = choose_again(&family, "fix", None, Some(&nodes)).unwrap();
            assert_eq!(found.nodes, chosen);
        }
    }
}
