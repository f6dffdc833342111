//! Why a job stands where it stands on a node, and on all of them.

use carillon_api::condition::{reasons, results};
use jiff::Timestamp;
use serde::Serialize;

use super::family::{Members, Relative, Settled};
use super::ledger::Ledger;
use super::next_step;
use super::outcomes::Attempt;
use super::place::{Found, Place, find};
use super::progress::{Standing, standing};
use super::retry::choose_again;
use crate::broadcast_job::BroadcastJob;
use crate::eligibility::{Check, Refusal, refusal};
use crate::node::{NodeRow, Nodes};
use crate::record::Record;
use crate::view::groups::{Group, Groups};
use crate::view::node_checks::{CheckResult, check_all};

/// One node of a job.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub job: String,
    /// Name of the node.
    pub node_name: String,
    /// Where it stands.
    pub place: Place,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// Every check; empty when the node object is gone.
    pub checks: Vec<CheckResult>,
    /// Every attempt on a node of this name.
    pub attempts: Vec<Attempt>,
    /// What the others of its family have done on a node of this name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub family: Vec<InFamily>,
    /// What happens next, in words.
    pub next: String,
}

/// What another job of the family has done on a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFamily {
    /// Name of the job.
    pub job: String,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
}

/// Explains one node in a job of a family. `None`: there is no such node, and no attempt on one.
pub fn node(
    family: &[Relative],
    job: &BroadcastJob,
    name: &str,
    row: Option<&NodeRow>,
    now: Timestamp,
) -> Option<NodeExplanation> {
    let members = Members::read(family);
    let ledger = members.ledger_of(job)?;
    let node = (name, row.map(|row| row.uid));
    let here = ledger.attempts_at(node);
    let of = |ledger: &Ledger<'_>| -> Vec<Attempt> {
        let attempts = ledger.attempts(name).into_iter();
        attempts.map(|record| Attempt::of(record, now)).collect()
    };
    let others = members
        .all()
        .filter(|(member, _)| member.meta.owner != job.meta.owner);
    let others = others.map(|(member, ledger)| InFamily {
        job: member.meta.owner.name.clone(),
        attempts: of(ledger),
    });
    let others: Vec<InFamily> = others.filter(|one| !one.attempts.is_empty()).collect();
    let unknown = here.is_empty() && others.is_empty();
    if row.is_none() && unknown && !is_listed(job, name) {
        return None;
    }
    let settled = members.settled(job, node);
    let mut found = find(job, name, row, here, settled.map(|settled| settled.reason));
    let runs_in = members.runs_in(job, name);
    let runs_in = runs_in.filter(|_| found.place == Place::Waiting);
    if runs_in.is_some() {
        reasons::RUNS_ELSEWHERE.clone_into(&mut found.reason);
    }
    let settled = settled.filter(|settled| settled.reason == found.reason);
    let next = match (settled, runs_in) {
        (Some(settled), _) => done_by_others(settled, family, job, (name, row)),
        _ if standing(job).0.has_ended() && found.place != Place::Succeeded => {
            after_the_end(family, job, (name, row))
        }
        (None, Some(by)) => format!("it is started when what runs there of {by} has ended"),
        (None, None) => next(job, &found, name, row),
    };
    Some(NodeExplanation {
        namespace: job.meta.owner.namespace.clone(),
        job: job.meta.owner.name.clone(),
        node_name: name.to_owned(),
        place: found.place,
        next,
        reason: found.reason,
        checks: row.map_or_else(Vec::new, |row| {
            check_all(&Check::ALL, &job.placement, name, row)
        }),
        attempts: of(ledger),
        family: others,
    })
}

/// What is left to do in a retry on a node with which the others of its family have dealt.
fn done_by_others(
    settled: Settled<'_>,
    family: &[Relative],
    job: &BroadcastJob,
    node: (&str, Option<&NodeRow>),
) -> String {
    let by = settled.by;
    if settled.reason == results::ALREADY_SUCCEEDED {
        return format!("nothing: it has succeeded in {by}, and is never run again");
    }
    let name = &job.meta.owner.name;
    let what = format!("{by} has tried it, and whoever made {name} did not know");
    if standing(job).0.has_ended() {
        format!("{what}. {}", after_the_end(family, job, node))
    } else {
        format!("nothing in this job: {what}")
    }
}

/// What can be done about a node in a job that has ended: what `retry` would say.
fn after_the_end(
    family: &[Relative],
    job: &BroadcastJob,
    (name, row): (&str, Option<&NodeRow>),
) -> String {
    let nodes = Nodes::from_iter(row.map(|row| (name.into(), row.clone())));
    let named = [name.to_owned()];
    let again = match choose_again(family, &job.meta.owner.name, Some(&named), Some(&nodes)) {
        Ok(again) => again,
        Err(problems) => return format!("nothing: {}", problems.join("; ")),
    };
    if let [(_, by), ..] = &*again.tried {
        let resume = if again.paused.contains(by) {
            format!(" once it is resumed: kubectl carillon resume {by}")
        } else {
            String::new()
        };
        return format!("{by} tries it again{resume}");
    }
    let checks = if again.obstacles.waiting.is_empty() {
        ""
    } else {
        " once all checks pass"
    };
    format!(
        "nothing: the job has ended. To run it here{checks}: kubectl carillon retry {} --node {name}",
        job.meta.owner.name
    )
}

/// Whether the job asks for a node of this name.
fn is_listed(job: &BroadcastJob, name: &str) -> bool {
    let listed = job.placement.only.as_ref();
    listed.is_some_and(|listed| listed.contains(name))
}

/// What happens next in a job that has not ended.
fn next(job: &BroadcastJob, found: &Found, name: &str, row: Option<&NodeRow>) -> String {
    let place = found.place;
    let (stands, why) = standing(job);
    let retry = || {
        format!(
            "kubectl carillon retry {} --node {name}",
            job.meta.owner.name
        )
    };
    let eligible = row.is_some_and(|row| refusal(&job.placement, name, row).is_none());
    match place {
        Place::Succeeded => "nothing: the node is done".to_owned(),
        Place::Failed if stands == Standing::Stopping => "the job is failing".to_owned(),
        Place::Failed if row.is_none() => "nothing: the node is gone".to_owned(),
        Place::Failed => format!("it is tried again on request: {}", retry()),
        Place::Running => "its outcome is stored when its pod has ended".to_owned(),
        Place::Starting | Place::Waiting => match stands {
            Standing::Waiting if let Some(why) = why.filter(|why| why.reason == reasons::WAITING_FOR_JOB) => {
                format!("it is started when this retry has its turn: {}", why.message.trim_end_matches('.'))
            }
            Standing::Paused => "it is started when the job is resumed".to_owned(),
            Standing::Stalled => "it is started when the job no longer stalls".to_owned(),
            _ => "it is started when its turn comes: in the order of names, as many at a time as parallelism allows".to_owned(),
        },
        Place::NotStarted => "nothing: the job is failing".to_owned(),
        Place::Refused if found.reason == results::NODE_NOT_FOUND => "it is served when a node of this name joins and the job is still open".to_owned(),
        Place::Refused if found.reason == Refusal::NotListed.reason() => "nothing: the job is for other nodes".to_owned(),
        Place::Refused => "it is left out until all checks pass, and served then if the job is still open".to_owned(),
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
    pub groups: Vec<Group<Place>>,
    /// What happens next, in words.
    pub next: String,
}

/// Explains all nodes, for a job of a family.
pub fn job(family: &[Relative], job: &BroadcastJob, nodes: &Nodes) -> JobExplanation {
    let mut groups = Groups::default();
    let mut total = 0;
    each_node(family, job, nodes, |node| {
        total += 1;
        let Found { place, reason, .. } = node.found;
        groups.add((place, reason), node.name, || match (place, node.row) {
            (Place::Refused | Place::Retrying | Place::Interrupted, Some(row)) => {
                refused(job, node.name, row)
            }
            _ => String::new(),
        });
    });
    let groups = groups.told();
    JobExplanation {
        namespace: job.meta.owner.namespace.clone(),
        job: job.meta.owner.name.clone(),
        nodes: total,
        next: next_step::next(family, job, nodes, &groups),
        groups,
    }
}

/// What decides that a job leaves a node out, in words; empty if nothing does.
pub(super) fn refused(job: &BroadcastJob, name: &str, row: &NodeRow) -> String {
    let refusal = refusal(&job.placement, name, row);
    refusal.map_or_else(String::new, |refusal| refusal.to_string())
}

/// A node of a job.
pub(super) struct OneNode<'a, 'r> {
    pub name: &'a str,
    pub row: Option<&'a NodeRow>,
    /// Those on this very node, oldest first.
    pub attempts: &'r [&'a Record],
    pub found: Found,
}

/// Visits the nodes of the cluster, those that have gone and have a result, and those that the job names and
/// that do not exist.
pub(super) fn each_node<'a>(
    family: &'a [Relative],
    job: &'a BroadcastJob,
    nodes: &'a Nodes,
    mut visit: impl FnMut(OneNode<'a, '_>),
) {
    let members = Members::read(family);
    let no_records = Ledger::default();
    let ledger = members.ledger_of(job).unwrap_or(&no_records);
    let nothing: &[&Record] = &[];
    let there = nodes.iter().map(|(name, row)| {
        let attempts = ledger.attempts_on(name, row.uid);
        (&**name, Some(row), attempts)
    });
    let is_gone = |name: &str, uid| nodes.get(name).is_none_or(|row| row.uid != uid);
    let gone = ledger.nodes().filter(|(name, uid, _)| is_gone(name, *uid));
    let gone = gone.map(|(name, _, attempts)| (name, None, attempts));
    let listed = job.placement.only.iter().flatten().map(|name| &**name);
    let unknown = listed
        .filter(|name| !nodes.contains_key(*name) && ledger.attempts(name).is_empty())
        .map(|name| (name, None, nothing));
    for (name, row, attempts) in there.chain(gone).chain(unknown) {
        let settled = row.and_then(|row| members.settled(job, (name, Some(row.uid))));
        let settled = settled.map(|settled| settled.reason);
        let found = find(job, name, row, attempts, settled);
        visit(OneNode {
            name,
            row,
            attempts,
            found,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::samples::{
        at, condition, job as sample_job, record, slice, uid,
    };
    use carillon_api::NodeState;
    use serde_json::{Value, json};
    use std::sync::Arc;

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
                1 => json!([condition("Complete", "AllNodesSucceeded", "")]),
                _ => json!([condition("FailureTarget", "MaxFailedNodesExceeded", "")]),
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
                spec["executionPolicy"] = json!("AtMostOnce");
            }
            let stored = sample_job(&spec, &json!({"conditions": conditions}));
            let slices = slice(records);
            let family = [Relative::new(stored.clone(), slices.to_vec())];
            let found = job(&family, &stored.job, &nodes);
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
        let stored = sample_job(&json!({}), &json!({}));
        let family = [Relative::new(stored.clone(), slices.to_vec())];
        let explain = |row: Option<&NodeRow>| node(&family, &stored.job, "n1", row, at(60));
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
        assert!(node(&family, &stored.job, "n2", None, at(60)).is_none());
    }

    #[test]
    fn what_happens_next_follows_from_place_and_job() {
        let failed = slice(vec![record("n1", 1, NodeState::Failed)]);
        let row = |number| NodeRow {
            uid: uid(number),
            ..NodeRow::default()
        };
        let paused = json!({"conditions": [condition("Paused", "PausedByFailure", "")]});
        let stored = sample_job(&json!({}), &paused);
        let family = [Relative::new(stored.clone(), failed.to_vec())];
        let next = |name: &str, number| {
            let row = row(number);
            node(&family, &stored.job, name, Some(&row), at(60))
                .unwrap()
                .next
        };
        assert!(next("n1", 1).ends_with("kubectl carillon retry fix --node n1"));
        assert!(next("n2", 2).contains("when the job is resumed"));
    }

    #[test]
    #[allow(clippy::too_many_lines)] // a table
    fn of_each_place_it_is_said_what_is_done_there_next() {
        let running = condition("Reconciling", "Running", "");
        let failing = condition("FailureTarget", "MaxFailedNodesExceeded", "");
        let complete = condition("Complete", "AllNodesSucceeded", "");
        let stalled = condition("Stalled", "InvalidTemplate", "");
        let quota = condition("Reconciling", "QuotaExceeded", "pods=10");
        let turn = condition("Reconciling", reasons::WAITING_FOR_JOB, "fix runs.");
        let unlisted = json!({"nodeNames": ["n7"]});
        let twice = json!({"backoffLimitPerNode": 1});
        let plain = json!({});
        let row = |unschedulable: bool| {
            Some(NodeRow {
                uid: uid(1),
                unschedulable,
                ..NodeRow::default()
            })
        };
        let (fits, cordoned) = (row(false), row(true));
        let (none, failed) = (NodeState::Skipped, NodeState::Failed);
        for (spec, now, state, row, said) in [
            (
                &plain,
                &complete,
                NodeState::Succeeded,
                &fits,
                "nothing: the node is done",
            ),
            (
                &plain,
                &running,
                NodeState::Succeeded,
                &fits,
                "nothing: the node is done",
            ),
            (
                &plain,
                &complete,
                failed,
                &fits,
                "nothing: the job has ended. To run it here",
            ),
            (
                &plain,
                &running,
                failed,
                &fits,
                "it is tried again on request",
            ),
            (&plain, &failing, failed, &fits, "the job is failing"),
            (&plain, &running, failed, &None, "nothing: the node is gone"),
            (
                &plain,
                &running,
                NodeState::Started,
                &fits,
                "its outcome is stored when",
            ),
            (&plain, &failing, none, &fits, "nothing: the job is failing"),
            (
                &unlisted,
                &running,
                none,
                &fits,
                "nothing: the job is for other nodes",
            ),
            (
                &plain,
                &running,
                none,
                &cordoned,
                "it is left out until all checks pass",
            ),
            (
                &plain,
                &stalled,
                none,
                &fits,
                "it is started when the job no longer stalls",
            ),
            (
                &plain,
                &quota,
                none,
                &fits,
                "it is started when its turn comes",
            ),
            (
                &plain,
                &turn,
                none,
                &fits,
                "it is started when this retry has its turn: fix runs",
            ),
            (
                &plain,
                &running,
                none,
                &fits,
                "it is started when its turn comes",
            ),
            (&twice, &running, failed, &fits, "it is tried again from"),
            (
                &twice,
                &running,
                failed,
                &cordoned,
                "it is tried again when all checks pass",
            ),
        ] {
            let records = Some(state).filter(|state| *state != none);
            let records = records.map(|state| record("n1", 1, state));
            let stored = sample_job(spec, &json!({"conditions": [now]}));
            let slices = slice(records.into_iter().collect());
            let family = [Relative::new(stored.clone(), slices.to_vec())];
            let found = node(&family, &stored.job, "n1", row.as_ref(), at(60)).unwrap();
            let what = format!("{spec} {} {state:?}: {found:?}", now["type"]);
            assert!(found.next.starts_with(said), "{what}");
        }
        let stored = sample_job(&unlisted, &json!({"conditions": [running]}));
        let family = [Relative::new(stored.clone(), Vec::new())];
        let found = node(&family, &stored.job, "n7", None, at(60)).unwrap();
        assert!(
            found
                .next
                .starts_with("it is served when a node of this name joins")
        );
    }

    /// The first job, which has ended and lists so many retries.
    fn first(listed: u32, records: Vec<Record>) -> Relative {
        let listed = (1..=listed)
            .map(|n| json!({"name": format!("fix-retry-{n}"), "uid": uid(500 + n).to_string()}));
        let status = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")],
            "retries": listed.collect::<Vec<_>>()});
        Relative::new(sample_job(&json!({}), &status), slice(records).to_vec())
    }

    fn retry(n: u32, more: &Value, status: &Value, records: Vec<Record>) -> Relative {
        let mut spec = more.clone();
        spec["retryOf"] = json!({"name": "fix", "uid": uid(500).to_string()});
        let mut stored = sample_job(&spec, status);
        let owner = Arc::make_mut(&mut stored.job.meta.owner);
        owner.uid = uid(500 + n);
        owner.name = format!("fix-retry-{n}");
        Relative::new(stored, slice(records).to_vec())
    }

    #[test]
    fn what_the_family_has_done_on_a_node_decides_what_is_said_of_it() {
        let ended = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")]});
        let failed = |node: &str| record(node, 1, NodeState::Failed);
        let done = |node: &str| record(node, 1, NodeState::Succeeded);
        let family = [
            first(1, vec![failed("n1"), failed("n2"), failed("n3")]),
            retry(1, &json!({}), &ended, vec![done("n1"), failed("n2")]),
            retry(2, &json!({"paused": true}), &json!({}), vec![]),
        ];
        let said = |at_job: usize, n: u32| {
            let row = NodeRow {
                uid: uid(n),
                ..NodeRow::default()
            };
            let job = &family[at_job].stored.job;
            let found = node(&family, job, &format!("n{n}"), Some(&row), at(60)).unwrap();
            format!("{:?} {}: {}", found.place, found.reason, found.next)
        };
        let never = "node n1 has succeeded in fix-retry-1, and is never run again; to run it anyway, create \
                     another job";
        assert_eq!(
            said(0, 1),
            format!("Failed NonZeroExitCode: nothing: {never}")
        );
        assert_eq!(
            said(2, 1),
            "Refused AlreadySucceeded: nothing: it has succeeded in fix-retry-1, and is never run again"
        );
        assert_eq!(
            said(2, 2),
            "Refused AlreadyTried: nothing in this job: fix-retry-1 has tried it, and whoever made \
             fix-retry-2 did not know"
        );
        let tries =
            "fix-retry-2 tries it again once it is resumed: kubectl carillon resume fix-retry-2";
        assert_eq!(said(0, 3), format!("Failed NonZeroExitCode: {tries}"));
        let retry_it =
            "nothing: the job has ended. To run it here: kubectl carillon retry fix --node n2";
        assert_eq!(said(0, 2), format!("Failed NonZeroExitCode: {retry_it}"));
        // Of all nodes it is told, and not of those alone that the status has for example.
        let rows = (1..=3).map(|n| {
            let row = NodeRow {
                uid: uid(n),
                ..NodeRow::default()
            };
            (format!("n{n}").as_str().into(), row)
        });
        let all = job(&family, &family[2].stored.job, &rows.collect());
        let groups: Vec<_> = all
            .groups
            .iter()
            .map(|g| (&*g.reason, &*g.nodes[0]))
            .collect();
        assert_eq!(
            groups,
            [
                ("", "n3"),
                ("AlreadySucceeded", "n1"),
                ("AlreadyTried", "n2")
            ]
        );
        let of_first = node(&family, &family[0].stored.job, "n1", None, at(60)).unwrap();
        assert_eq!(of_first.family[0].job, "fix-retry-1");
        assert_eq!(of_first.family[0].attempts.len(), 1);
    }

    #[test]
    fn what_runs_in_another_job_of_the_family_is_waited_for() {
        let running = [
            first(2, vec![record("n1", 1, NodeState::Failed)]),
            retry(
                1,
                &json!({}),
                &json!({}),
                vec![record("n1", 1, NodeState::Started)],
            ),
            retry(2, &json!({}), &json!({}), vec![]),
        ];
        let row = NodeRow {
            uid: uid(1),
            ..NodeRow::default()
        };
        let found = node(&running, &running[2].stored.job, "n1", Some(&row), at(60)).unwrap();
        assert_eq!(
            (&*found.reason, &*found.next),
            (
                "RunsElsewhere",
                "it is started when what runs there of fix-retry-1 has ended"
            )
        );
    }
}
