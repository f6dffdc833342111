//! Why a job stands where it stands on a node, and on all of them.

use std::collections::BTreeMap;

use carillon_api::condition::results;
use jiff::Timestamp;
use serde::Serialize;

use super::ledger::Ledger;
use super::node_checks::{CheckResult, check_all};
use super::outcomes::Attempt;
use super::place::{Found, Place, find};
use super::progress::{Standing, standing};
use super::read::StoredJob;
use crate::broadcast_job::Job;
use crate::eligibility::{Refusal, refusal};
use crate::node::{NodeRow, Nodes};
use crate::record::Record;

/// One node of a job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub job: String,
    /// Name of the node.
    pub node: String,
    /// Where it stands.
    pub place: Place,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// Every check; empty when the node object is gone.
    pub checks: Vec<CheckResult>,
    /// Every attempt on a node of this name.
    pub attempts: Vec<Attempt>,
    /// What happens next, in words.
    pub next: String,
}

/// Explains one node. `None`: there is no such node, and no attempt on one.
pub fn node(
    stored: &StoredJob,
    ledger: &Ledger<'_>,
    name: &str,
    row: Option<&NodeRow>,
    now: Timestamp,
) -> Option<NodeExplanation> {
    let job = &stored.job;
    let attempts = ledger.attempts(name);
    let here = match row {
        Some(row) => ledger.attempts_on(name, row.uid),
        None => ledger.attempts_on_last(name),
    };
    if row.is_none() && here.is_empty() && !is_listed(job, name) {
        return None;
    }
    let found = find(job, name, row, here);
    Some(NodeExplanation {
        namespace: job.owner.namespace.clone(),
        job: job.owner.name.clone(),
        node: name.to_owned(),
        place: found.place,
        next: next(stored, &found, name, row),
        reason: found.reason,
        checks: row.map_or_else(Vec::new, |row| check_all(&job.placement, name, row)),
        attempts: attempts
            .into_iter()
            .map(|record| Attempt::of(record, now))
            .collect(),
    })
}

/// Whether the job asks for a node of this name.
fn is_listed(job: &Job, name: &str) -> bool {
    let listed = job.placement.only.as_ref();
    listed.is_some_and(|listed| listed.contains(name))
}

fn next(stored: &StoredJob, found: &Found, name: &str, row: Option<&NodeRow>) -> String {
    let place = found.place;
    let job = &stored.job;
    let (stands, _) = standing(job);
    let retry = || format!("kubectl carillon retry {} --node {name}", job.owner.name);
    let eligible = row.is_some_and(|row| refusal(&job.placement, name, row).is_none());
    match place {
        Place::Succeeded => "nothing: the node is done".to_owned(),
        Place::Failed if stands == Standing::Stopping => "the job is failing".to_owned(),
        Place::Failed => format!("it is tried again on request: {}", retry()),
        Place::Running => "its outcome is stored when its pod has ended".to_owned(),
        Place::Starting | Place::Waiting => match stands {
            Standing::Paused => "it is started when the job is resumed".to_owned(),
            Standing::Stalled => "it is started when the job no longer stalls".to_owned(),
            _ => "it is started when its turn comes: in the order of names, as many at a time as parallelism allows".to_owned(),
        },
        Place::NotStarted if stands.has_ended() && eligible => {
            format!("nothing: the job has ended. To run it here: {}", retry())
        }
        Place::Refused | Place::NotStarted if stands.has_ended() => {
            format!("nothing: the job has ended. To run it here once all checks pass: {}", retry())
        }
        Place::NotStarted => "nothing: the job is failing".to_owned(),
        Place::Refused if found.reason == results::NODE_NOT_FOUND => "it is served when a node of this name joins and the job is still open".to_owned(),
        Place::Refused if found.reason == Refusal::NotListed.reason() => "nothing: the job is for other nodes".to_owned(),
        Place::Refused => "it is left out until all checks pass, and served then if the job is still open".to_owned(),
        Place::Interrupted if stands.has_ended() => "nothing: the job has ended".to_owned(),
        Place::Retrying | Place::Interrupted if eligible => match found.due {
            Some(due) => format!("it is tried again from {due:.0} on"),
            None => "it is tried again when its turn comes".to_owned(),
        },
        Place::Retrying | Place::Interrupted => "it is tried again when all checks pass; if it will not come back, delete the Node object".to_owned(),
        Place::Gone => "nothing: a node that joins under this name is another one".to_owned(),
    }
}

/// All nodes of a job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobExplanation {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub job: String,
    /// Nodes of the cluster, those that have gone and have a result, and those that the job names
    /// and that do not exist.
    pub nodes: usize,
    /// The nodes by place and reason. The counts sum to `nodes`.
    pub groups: Vec<Group>,
}

/// Nodes at the same place for the same reason.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// Where they stand.
    pub place: Place,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// How many nodes.
    pub count: usize,
    /// What decides for the first of them, in words; may be empty.
    pub example: String,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

/// Explains all nodes.
pub fn job(stored: &StoredJob, ledger: &Ledger<'_>, nodes: &Nodes) -> JobExplanation {
    let job = &stored.job;
    let nothing: &[&Record] = &[];
    let there = nodes.iter().map(|(name, row)| {
        let attempts = ledger.attempts_on(name, row.uid);
        (&**name, Some(row), attempts)
    });
    let is_there = |name: &str, uid| nodes.get(name).is_some_and(|row| row.uid == uid);
    let gone = ledger
        .nodes()
        .filter(|(name, uid, _)| !is_there(name, *uid))
        .map(|(name, _, attempts)| (name, None, attempts));
    let listed = job.placement.only.iter().flatten().map(|name| &**name);
    let unknown = listed
        .filter(|name| !nodes.contains_key(*name) && ledger.attempts(name).is_empty())
        .map(|name| (name, None, nothing));
    let mut groups: BTreeMap<(Place, String), Group> = BTreeMap::new();
    let mut total = 0;
    for (name, row, attempts) in there.chain(gone).chain(unknown) {
        total += 1;
        let Found { place, reason, .. } = find(job, name, row, attempts);
        let key = (place, reason.clone());
        let group = groups.entry(key).or_insert_with(|| Group {
            place,
            reason,
            count: 0,
            example: row
                .and_then(|row| refusal(&job.placement, name, row))
                .filter(|_| matches!(place, Place::Refused | Place::Retrying | Place::Interrupted))
                .map(|refusal| refusal.to_string())
                .unwrap_or_default(),
            nodes: Vec::new(),
        });
        group.count += 1;
        group.nodes.push(name.to_owned());
    }
    JobExplanation {
        namespace: job.owner.namespace.clone(),
        job: job.owner.name.clone(),
        nodes: total,
        groups: groups.into_values().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples::{at, condition, job as sample_job, record, slice, uid};
    use carillon_api::NodeState;
    use serde_json::json;

    /// xorshift64*: small, seeded, the same everywhere.
    fn below(state: &mut u64, n: usize) -> usize {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    const STATES: [NodeState; 6] = [
        NodeState::Started,
        NodeState::Succeeded,
        NodeState::Failed,
        NodeState::Disrupted,
        NodeState::Unknown,
        NodeState::Skipped,
    ];

    #[test]
    fn the_counts_sum_to_all_nodes_whatever_has_happened() {
        for seed in 1..=500u64 {
            let mut dice = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut nodes = Nodes::new();
            let mut records: Vec<Record> = Vec::new();
            let mut expected = 0;
            for n in 0..below(&mut dice, 20) {
                let name = format!("n{n}");
                let there = below(&mut dice, 5) > 0;
                let replaced = below(&mut dice, 6) == 0;
                let attempts = below(&mut dice, 4);
                for attempt in 1..=attempts {
                    let state = STATES[below(&mut dice, STATES.len())];
                    records.push(record(&name, attempt as u32, state));
                }
                if there {
                    let uid = uid(n as u32 + u32::from(replaced) * 100);
                    let row = NodeRow {
                        uid,
                        unschedulable: below(&mut dice, 3) == 0,
                        deleting: below(&mut dice, 6) == 0,
                        ..NodeRow::default()
                    };
                    nodes.insert(name.as_str().into(), row);
                }
                // An identity counts once: of the cluster, or of the ledger alone.
                let only_in_ledger = attempts > 0 && (!there || replaced);
                expected += usize::from(there) + usize::from(only_in_ledger);
            }
            let conditions = match below(&mut dice, 3) {
                0 => json!([]),
                1 => json!([condition("Complete", "AllNodesDone", "")]),
                _ => json!([condition("FailureTarget", "NodeFailed", "")]),
            };
            let mut spec = json!({"backoffLimitPerNode": below(&mut dice, 3)});
            if below(&mut dice, 3) == 0 {
                spec["nodeNames"] = json!(["n1", "n3", "nowhere"]);
                let known = |name: &str| {
                    nodes.contains_key(name) || records.iter().any(|record| *record.node == *name)
                };
                expected += ["n1", "n3", "nowhere"]
                    .iter()
                    .filter(|name| !known(name))
                    .count();
            }
            if below(&mut dice, 4) == 0 {
                spec["execution"] = json!("AtMostOnce");
            }
            let stored = sample_job(&spec, &json!({"conditions": conditions}));
            let slices = slice(records);
            let found = job(&stored, &Ledger::read(&slices), &nodes);
            let sum: usize = found.groups.iter().map(|group| group.count).sum();
            assert_eq!(
                (found.nodes, sum),
                (expected, expected),
                "seed {seed}: {found:?}"
            );
            for group in &found.groups {
                assert_eq!(group.count, group.nodes.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_node_is_explained_by_its_own_record_and_not_by_that_of_the_machine_before_it() {
        let slices = slice(vec![record("n1", 1, NodeState::Succeeded)]);
        let ledger = Ledger::read(&slices);
        let stored = sample_job(&json!({}), &json!({}));
        let explain = |row: Option<&NodeRow>| node(&stored, &ledger, "n1", row, at(60));
        let same = NodeRow {
            uid: uid(1),
            ..NodeRow::default()
        };
        assert_eq!(explain(Some(&same)).unwrap().place, Place::Succeeded);
        let replaced = NodeRow {
            uid: uid(77),
            ..NodeRow::default()
        };
        let found = explain(Some(&replaced)).unwrap();
        assert_eq!((found.place, found.attempts.len()), (Place::Waiting, 1));
        assert_eq!(explain(None).unwrap().place, Place::Succeeded);
        assert!(node(&stored, &ledger, "n2", None, at(60)).is_none());
    }

    #[test]
    fn what_happens_next_follows_from_place_and_job() {
        let failed = slice(vec![record("n1", 1, NodeState::Failed)]);
        let ledger = Ledger::read(&failed);
        let row = |number| NodeRow {
            uid: uid(number),
            ..NodeRow::default()
        };
        let paused = json!({"conditions": [condition("Paused", "PausedByFailure", "")]});
        let stored = sample_job(&json!({}), &paused);
        let next = |name: &str, number| {
            let row = row(number);
            node(&stored, &ledger, name, Some(&row), at(60))
                .unwrap()
                .next
        };
        assert!(next("n1", 1).ends_with("kubectl carillon retry fix --node n1"));
        assert!(next("n2", 2).contains("when the job is resumed"));
    }
}
