//! What a job would do, before it is applied.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use carillon_api::condition::results;
use serde::Serialize;

use super::family::{Members, Relative};
use super::retry::no_retry_of;
use crate::broadcast_job::{BroadcastJob, no_first};
use crate::eligibility::{Check, Refusal, refusal};
use crate::node::Nodes;
use crate::view::node_checks::{Finding, check_all};
use crate::view::read::StoredJob;

/// Where the pods of a manifest would go.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// Namespace of the job.
    pub namespace: String,
    /// Name of the job.
    pub job: String,
    /// Nodes that are asked for, those served and those refused: all of the cluster, or those of
    /// `spec.nodeNames`.
    pub nodes: usize,
    /// Nodes that would be served, by name.
    pub served: Vec<String>,
    /// Nodes that would be left out, the more frequent causes first.
    pub refused: Vec<RefusedNodes>,
    /// Most pods at a time.
    pub at_a_time: usize,
    /// Rounds of so many pods, if all took the same time.
    pub rounds: usize,
    /// What is wrong with the manifest.
    pub problems: Vec<String>,
}

impl Preview {
    /// Whether every node that the job asks for would be served, and there is one.
    pub fn all_placed(&self) -> bool {
        let left_out = self.refused.iter().any(|entry| entry.asked_for);
        self.problems.is_empty() && !self.served.is_empty() && !left_out
    }

    /// What follows from who is served and who is not.
    fn count(&mut self, job: &BroadcastJob) {
        let (served, refused) = (self.served.len(), &mut self.refused);
        refused.sort_by_key(|entry| Reverse(entry.count));
        self.nodes = served + refused.iter().map(|entry| entry.count).sum::<usize>();
        self.at_a_time = job.parallelism.of(served).min(served);
        self.rounds = served.div_ceil(self.at_a_time.max(1));
    }
}

/// Nodes that would be left out for the same cause.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedNodes {
    /// False: the job itself chooses other nodes, by labels or affinity.
    pub asked_for: bool,
    /// The cause, in the words that hold for the first of them, and what would change it there.
    #[serde(flatten)]
    pub finding: Finding,
    /// How many nodes.
    pub count: usize,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

/// The preview of a manifest on the nodes of now. As for the operator, only the first check that a
/// node does not pass is its cause.
pub fn preview(stored: &StoredJob, nodes: &Nodes) -> Preview {
    let job = &stored.job;
    let mut served = Vec::new();
    let mut refused: BTreeMap<(&'static str, String), RefusedNodes> = BTreeMap::new();
    let mut refuse = |cause: String, finding: Finding, asked_for: bool, name: &str| {
        let entry = refused
            .entry((finding.reason, cause))
            .or_insert_with(|| RefusedNodes {
                asked_for,
                finding,
                count: 0,
                nodes: Vec::new(),
            });
        entry.count += 1;
        entry.nodes.push(name.to_owned());
    };
    let listed = |name: &str| {
        let only = job.placement.only.as_ref();
        only.is_none_or(|only| only.contains(name))
    };
    for (name, row) in nodes.iter().filter(|(name, _)| listed(name)) {
        let Some(refusal) = refusal(&job.placement, name, row) else {
            served.push(name.to_string());
            continue;
        };
        let chosen = !matches!(
            refusal,
            Refusal::NodeSelector { .. } | Refusal::NodeAffinity
        );
        let checks = check_all(&Check::ALL, &job.placement, name, row).into_iter();
        if let Some(finding) = checks.flat_map(|check| check.findings).next() {
            refuse(cause(&refusal), finding, chosen, name);
        }
    }
    let unknown = job.placement.only.iter().flatten();
    for name in unknown.filter(|name| !nodes.contains_key(&***name)) {
        let finding = Finding {
            reason: results::NODE_NOT_FOUND,
            text: "spec.nodeNames has it, and no node is called so".to_owned(),
            remedies: Vec::new(),
        };
        refuse(String::new(), finding, true, name);
    }
    let mut preview = Preview {
        namespace: job.meta.owner.namespace.clone(),
        job: job.meta.owner.name.clone(),
        nodes: 0,
        at_a_time: 0,
        rounds: 0,
        served,
        refused: refused.into_values().collect(),
        problems: job.problems.clone(),
    };
    preview.count(job);
    preview
}

/// Judges the manifest of a retry against its family as stored, as the operator would. `named` is the job of
/// the name that it retries.
pub fn in_family(
    preview: &mut Preview,
    job: &BroadcastJob,
    named: Option<&BroadcastJob>,
    family: &[Relative],
    nodes: &Nodes,
) {
    let Some(retry_of) = &job.retry_of else {
        return;
    };
    let other = named.map(|named| named.meta.owner.uid);
    let first = named.filter(|named| named.meta.owner.uid == retry_of.uid);
    if let Some((reason, what)) = no_first(retry_of, first, other, false) {
        preview.problems.push(format!("{reason}: {what}"));
        return;
    }
    let members = Members::read(family);
    if let Some(problem) = family.first().and_then(|first| no_retry_of(&first.stored)) {
        preview.problems.push(problem);
        return;
    }
    let mut settled: BTreeMap<(&'static str, &str), Vec<String>> = BTreeMap::new();
    preview.served.retain(|name| {
        let row = nodes.get(&**name);
        let found = row.and_then(|row| members.settled(job, (name, Some(row.uid))));
        if let Some(found) = found {
            let of_cause = settled.entry((found.reason, found.by)).or_default();
            of_cause.push(name.clone());
        }
        found.is_none()
    });
    for ((reason, by), nodes) in settled {
        let text = if reason == results::ALREADY_SUCCEEDED {
            format!("it has succeeded in {by}")
        } else {
            format!("{by} has tried it, and spec.retryOf.knownRetries does not count that one")
        };
        preview.refused.push(RefusedNodes {
            // Without nodeNames, it is for those that have not succeeded.
            asked_for: job.placement.only.is_some(),
            finding: Finding {
                reason,
                text,
                remedies: Vec::new(),
            },
            count: nodes.len(),
            nodes,
        });
    }
    preview.count(job);
}

/// What tells causes of one reason apart: nothing that may differ from node to node, such as the
/// value of a label, or there would be a cause for each node.
fn cause(refusal: &Refusal<'_>) -> String {
    match refusal {
        Refusal::Taint(taint) => format!("{}:{}", taint.key, taint.effect.as_str()),
        Refusal::NodeSelector { key, .. } => (*key).to_owned(),
        Refusal::Resource { resource, .. } => (*resource).to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Effect, NodeRow, Taint};
    use crate::view::broadcast_job::samples::job;
    use serde_json::json;

    fn cluster() -> Nodes {
        let mut nodes = Nodes::new();
        for n in 0..10u8 {
            let mut row = NodeRow {
                unschedulable: n == 9,
                ..NodeRow::default()
            };
            if n >= 7 {
                row.taints = [Taint {
                    key: "pool".into(),
                    value: "gpu".into(),
                    effect: Effect::NoSchedule,
                }]
                .into();
            }
            nodes.insert(format!("n{n}").as_str().into(), row);
        }
        nodes
    }

    #[test]
    fn served_and_refused_nodes_sum_to_all_nodes() {
        let found = preview(&job(&json!({"parallelism": 2}), &json!({})), &cluster());
        assert_eq!(
            (found.served.len(), found.at_a_time, found.rounds),
            (7, 2, 4)
        );
        let causes: Vec<_> = found
            .refused
            .iter()
            .map(|entry| (entry.finding.reason, entry.count))
            .collect();
        assert_eq!(
            causes,
            [("NodeTaintNotTolerated", 2), ("NodeUnschedulable", 1)]
        );
        let refused: usize = found.refused.iter().map(|entry| entry.count).sum();
        assert_eq!(found.served.len() + refused, found.nodes);
    }

    #[test]
    fn a_job_for_some_nodes_asks_for_no_others_and_names_those_that_do_not_exist() {
        let some = job(&json!({"nodeNames": ["n0", "n1", "n42"]}), &json!({}));
        let found = preview(&some, &cluster());
        assert_eq!((found.nodes, found.served.len()), (3, 2));
        assert_eq!(found.refused[0].finding.reason, "NodeNotFound");
        assert_eq!(found.refused[0].nodes, ["n42"]);
    }

    #[test]
    fn a_node_that_the_job_does_not_choose_is_no_trouble_unless_none_is_left() {
        let mut nodes = cluster();
        for (name, pool) in [("n0", "cpu"), ("n1", "cpu"), ("n2", "arm"), ("n8", "gpu")] {
            let row = nodes.get_mut(name).unwrap();
            row.labels = [("pool".into(), pool.into())].into();
        }
        let placed = |pool: &str| {
            let spec = json!({"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c"}],
                "nodeSelector": {"pool": pool},
            }}});
            let found = preview(&job(&spec, &json!({})), &nodes);
            // Whatever other pools there are, one cause.
            let others: Vec<bool> = found.refused.iter().map(|entry| entry.asked_for).collect();
            (found.served.len(), others, found.all_placed())
        };
        assert_eq!(placed("cpu"), (2, vec![false], true));
        assert_eq!(placed("gpu"), (0, vec![false, true], false), "tainted");
        assert_eq!(placed("typo"), (0, vec![false], false));
    }

    #[test]
    fn without_a_limit_all_run_in_one_round_and_without_nodes_in_none() {
        let unlimited = job(&json!({}), &json!({}));
        let found = preview(&unlimited, &cluster());
        assert_eq!((found.at_a_time, found.rounds), (7, 1));
        let nowhere = preview(&unlimited, &Nodes::new());
        assert_eq!((nowhere.at_a_time, nowhere.rounds), (0, 0));
    }

    #[test]
    fn a_percentage_is_of_the_nodes_that_are_served() {
        let found = preview(&job(&json!({"parallelism": "50%"}), &json!({})), &cluster());
        assert_eq!((found.at_a_time, found.rounds), (4, 2));
    }
}
