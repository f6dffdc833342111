//! A job and its retries, as people ask for them: one outcome for each node, and who tries it again.

use std::collections::BTreeMap;

use carillon_api::NodeState;
use carillon_api::condition::results;

use super::ledger::Ledger;
use super::progress::{Standing, standing};
use super::read::StoredJob;
use crate::broadcast_job::{Job, NodeStanding, standing_after};
use crate::record::{Record, Slice};
use crate::uid::Uid;

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
        if job.deleting && job.retry_of.is_some() && !standing(job).0.has_ended() {
            let records = slices.iter_mut().flat_map(|slice| &mut slice.records);
            for record in records.filter(|record| record.state == NodeState::Started) {
                record.state = NodeState::Unknown;
                record.reason = results::JOB_DELETED.into();
            }
        }
        Self { stored, slices }
    }

    fn job(&self) -> &Job {
        &self.stored.job
    }

    /// Whether it has not ended, and has not given up this node. One that failed there may try again.
    fn is_for(&self, node: &str) -> bool {
        let job = self.job();
        let only = job.placement.only.as_ref();
        let listed = only.is_none_or(|only| only.contains(node));
        let ledger = Ledger::read(&self.slices);
        let stands = standing_after(job, ledger.attempts_on_last(node), true);
        let given_up = stands == Some(NodeStanding::Failed);
        listed && !given_up && !job.deleting && !standing(job).0.has_ended()
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
pub fn retries(first: &Job, jobs: Vec<StoredJob>) -> Vec<StoredJob> {
    let of_first = |stored: &StoredJob| {
        let retry_of = stored.job.retry_of.as_ref();
        retry_of.is_some_and(|named| named.uid == first.owner.uid && named.name == first.owner.name)
    };
    let mut retries: Vec<StoredJob> = jobs.into_iter().filter(of_first).collect();
    let place = |stored: &StoredJob| {
        let uid = stored.job.owner.uid.to_string();
        let mut listed = first.status.retries.iter();
        let place = listed.position(|retry| retry.uid == uid);
        (place.unwrap_or(usize::MAX), stored.job.owner.name.clone())
    };
    retries.sort_by_cached_key(place);
    retries
}

/// The last outcome on each node, by name, and the job it is of. A later job decides, unless it ended
/// before anything ran there; a success stays.
pub fn latest(family: &[Relative]) -> Vec<(&str, &Record)> {
    let mut nodes: BTreeMap<(&str, Uid), (&str, &Record)> = BTreeMap::new();
    for relative in family {
        let whose = &*relative.job().owner.name;
        for (name, uid, attempts) in Ledger::read(&relative.slices).nodes() {
            let Some(last) = attempts.last() else {
                continue;
            };
            let known = nodes.get(&(name, uid)).map(|(_, record)| record.state);
            let stays =
                known == Some(NodeState::Succeeded) || known.is_some() && has_run_nothing(last);
            if !stays {
                nodes.insert((name, uid), (whose, last));
            }
        }
    }
    nodes.into_values().collect()
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

/// Whether a node has failed if this is its last outcome: what is tried again on request. Where nothing may
/// run twice, an attempt that was interrupted has failed, too.
pub fn has_failed(family: &[Relative], record: &Record) -> bool {
    let once = || family.iter().any(|f| f.job().policies.at_most_once);
    match record.state {
        NodeState::Failed => true,
        NodeState::Disrupted | NodeState::Unknown => {
            !may_have_succeeded(record) && !has_run_nothing(record) && once()
        }
        NodeState::Started | NodeState::Succeeded | NodeState::Skipped => false,
    }
}

/// A job of the family that has not ended and tries this node, now or later; and whether it is paused.
pub fn tried_by<'a>(family: &'a [Relative], node: &str) -> Option<(&'a str, bool)> {
    let mut all = family.iter();
    let found = all.find(|relative| relative.is_for(node) && relative.stalled().is_none())?;
    Some((&found.job().owner.name, found.is_paused()))
}

/// The jobs of the family that are made for this node, and that start nothing until a person acts; and why.
pub fn stalled_for<'a>(family: &'a [Relative], node: &'a str) -> impl Iterator<Item = String> + 'a {
    let made = family.iter().filter(|relative| relative.is_for(node));
    made.filter_map(|relative| {
        let name = &relative.job().owner.name;
        Some(format!("{name} ({})", relative.stalled()?))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::view::retry::{Again, choose_again};
    use crate::view::samples::{condition, job, record, slice, uid};
    use serde_json::{Value, json};

    fn first(spec: &Value, records: Vec<Record>) -> Relative {
        let ended = json!({"conditions": [condition("Complete", "AllNodesDone", "")]});
        Relative::new(job(spec, &ended), slice(records).to_vec())
    }

    fn named(mut relative: Relative, name: &str) -> Relative {
        Arc::make_mut(&mut relative.stored.job.owner).name = name.to_owned();
        relative
    }

    fn retry(spec: &Value, deleting: bool, records: Vec<Record>) -> Relative {
        let mut spec = spec.clone();
        spec["retryOf"] = json!({"name": "fix", "uid": uid(500).to_string()});
        let mut stored = job(&spec, &json!({}));
        stored.job.deleting = deleting;
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
        let all = latest(family).into_iter().map(|(_, record)| record);
        let all = all.filter(|record| has_failed(family, record) || may_have_succeeded(record));
        all.map(|record| &*record.node).collect()
    }

    #[test]
    fn a_node_that_a_deleted_retry_may_have_done_is_told_and_no_retry_is_made_for_it() {
        let open = record("n1", 1, NodeState::Started);
        let closed = ended_as("n1", NodeState::Unknown, "JobDeleted");
        for left in [open, closed] {
            for once in [json!({}), json!({"execution": "AtMostOnce"})] {
                let family = [
                    first(&once, vec![failed("n1"), failed("n3")]),
                    retry(&json!({}), true, vec![left.clone()]),
                ];
                let chosen = choose_again(&family, "fix", None).unwrap();
                assert_eq!(chosen.nodes, ["n3"]);
                let told = "node n1 may have succeeded in fix-retry-1, which was deleted at work: no retry \
                            runs it again; to run it anyway, create a job without spec.retryOf, with n1 in \
                            spec.nodeNames";
                assert_eq!(chosen.lost, [told]);
                let named = ["n1".to_owned(), "n3".to_owned()];
                let chosen = choose_again(&family, "fix", Some(&named));
                assert_eq!(chosen, Err(vec![told.to_owned()]));
                assert_eq!(shown(&family), ["n1", "n3"]);
                let alone = [first(&once, vec![failed("n1")]), family[1].clone()];
                let chosen = choose_again(&alone, "fix", None);
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
        assert_eq!(choose_again(&family, "fix", None).unwrap().nodes, ["n1"]);
        let done = record("n1", 1, NodeState::Succeeded);
        let family = [first(&json!({}), vec![done]), left()];
        assert!(shown(&family).is_empty());
    }

    #[test]
    fn a_first_job_that_is_being_deleted_and_a_retry_at_work_have_attempts_under_way() {
        let started = || vec![record("n1", 1, NodeState::Started)];
        let mut deleting = job(&json!({}), &json!({}));
        deleting.job.deleting = true;
        let at_work = [
            Relative::new(deleting, slice(started()).to_vec()),
            retry(&json!({}), false, started()),
        ];
        for relative in at_work {
            let family = [relative];
            assert_eq!(latest(&family)[0].1.state, NodeState::Started);
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
            let chosen = choose_again(&family, "fix", None);
            assert_eq!(chosen.map(|again| again.nodes), Ok(vec!["n1".to_owned()]));
            assert_eq!(latest(&family)[0].0, "fix");
            // It is all that is known.
            let alone = [first(&json!({}), vec![nothing])];
            assert_eq!(latest(&alone)[0].1.state, state);
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
        let once = json!({"execution": "AtMostOnce"});
        for (spec, expected) in [(once, &["n1", "n2", "n4"][..]), (json!({}), &["n4"])] {
            let family = [first(&spec, records())];
            assert_eq!(shown(&family), expected);
            assert_eq!(choose_again(&family, "fix", None).unwrap().nodes, expected);
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
            assert_eq!(choose_again(&family, "fix", None), Ok(expected));
        }
    }
}
