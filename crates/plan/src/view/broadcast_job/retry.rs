//! Which nodes are tried again on request. Never one whose last attempt succeeded.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::broadcast_job::MAX_RETRIES;
use carillon_api::condition::results;
use carillon_api::names::{ANNOTATION_RETRY_OF, API_VERSION};
use serde_json::{Value, json};

use super::family::{Members, Relative, Settled, may_have_succeeded};
use super::ledger::{Ledger, Node, is_of};
use super::place::decisive;
use super::progress::{Standing, standing};
use crate::broadcast_job::{BroadcastJob, NodeStanding, standing_after};
use crate::eligibility::refusal;
use crate::node::{NodeRow, Nodes};
use crate::placement::Placement;
use crate::record::Record;
use crate::uid::Uid;
use crate::view::read::{StoredJob, list};

/// What a job that has not ended is asked: its annotation `carillon.dev/retry` gets this value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Request {
    /// Names of pods, comma separated: also what was asked for before and has not been done yet.
    pub value: String,
    /// The nodes that are added to it.
    pub nodes: Vec<String>,
    /// Those that have failed and that it tries again already.
    pub tried: Vec<String>,
    /// What is in the way of these nodes.
    pub obstacles: Obstacles,
}

/// What is to be tried again of a job that has ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Again {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Those that are being tried again already, and by which job.
    pub tried: Vec<(String, String)>,
    /// Retries that are made for some of the nodes and start nothing until a person acts; and why.
    pub stalled: BTreeSet<String>,
    /// Those of `tried` that are paused: names of jobs.
    pub paused: BTreeSet<String>,
    /// Of nodes that no retry runs again since their outcome was lost: what to do.
    pub lost: Vec<String>,
    /// What is in the way of these nodes.
    pub obstacles: Obstacles,
}

/// What is in the way of nodes that are to be tried again, as far as the nodes of the cluster are known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Obstacles {
    /// Nodes that have failed and do not exist any more: they are left out.
    pub gone: Vec<String>,
    /// Nodes that are not eligible for the moment, by the cause in words.
    pub waiting: BTreeMap<String, Vec<String>>,
}

impl Again {
    fn add(&mut self, members: &Members<'_>, node: Node<'_>) {
        let name = node.0.to_owned();
        self.stalled.extend(members.stalled_for(node));
        match members.tried_by(node) {
            Some((by, paused)) => {
                self.paused.extend(paused.then(|| by.to_owned()));
                self.tried.push((name, by.to_owned()));
            }
            None => self.nodes.push(name),
        }
    }

    /// What is wrong with nodes counts where these were asked for by name, or where nothing is left.
    fn unless(
        mut self,
        mut problems: Vec<String>,
        named: bool,
        job: &str,
    ) -> Result<Self, Vec<String>> {
        let nothing = self.nodes.is_empty() && self.tried.is_empty();
        problems.retain(|_| named);
        if named || nothing {
            problems.append(&mut self.lost);
        }
        if nothing && problems.is_empty() {
            problems = nothing_failed(job, &self.obstacles.gone);
        }
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(problems)
        }
    }
}

impl Obstacles {
    fn look_at(&mut self, job: &BroadcastJob, name: &str, row: Option<&NodeRow>) {
        // Which nodes are listed is what is being decided.
        let placement = Placement {
            only: None,
            ..job.placement.clone()
        };
        if let Some(refusal) = row.and_then(|row| refusal(&placement, name, row)) {
            let of_cause = self.waiting.entry(refusal.to_string()).or_default();
            of_cause.push(name.to_owned());
        }
    }
}

/// Chooses what a family is to try again: the nodes named, or all that have failed. The error says for each
/// node why it is not tried again. `nodes` are those of the cluster, or of those named the ones that exist;
/// `None`: they are not known.
pub fn choose_again(
    family: &[Relative],
    job: &str,
    named: Option<&[String]>,
    nodes: Option<&Nodes>,
) -> Result<Again, Vec<String>> {
    if let Some(problem) = family.first().and_then(|first| no_retry_of(&first.stored)) {
        return Err(vec![problem]);
    }
    let members = Members::read(family);
    let outcomes = members.latest();
    let model = members
        .all()
        .find(|(member, _)| member.meta.owner.name == job);
    let wanted: BTreeSet<&str> = match named {
        None => {
            let all = outcomes.iter().map(|(_, record)| *record);
            let all = all.filter(|record| members.has_failed(record) || may_have_succeeded(record));
            let tried = members.tried_again().into_iter().map(|tried| tried.node);
            all.map(|record| &*record.node).chain(tried).collect()
        }
        Some(named) => named.iter().map(String::as_str).collect(),
    };
    let mut again = Again::default();
    let mut problems = Vec::new();
    for name in wanted {
        let node = known(nodes, name);
        let by = |is_it: &dyn Fn(&Record) -> bool| {
            let mut here = outcomes.iter().filter(|(_, record)| is_of(record, node));
            here.find(|(_, record)| is_it(record)).map(|(job, _)| *job)
        };
        // One that was made anew under the same name may be run.
        let may_be_run = || by(&|record| members.has_failed(record)).is_some();
        if is_gone(nodes, name) {
            let mut all = members.all();
            let known = all.any(|(_, ledger)| !ledger.attempts(name).is_empty());
            problems.push(no_node(name, known));
            again.obstacles.gone.push(name.to_owned());
        } else if let Some(whose) = by(&|record| record.state == NodeState::Succeeded) {
            problems.push(has_succeeded(name, whose));
        } else if let Some(whose) = by(&may_have_succeeded).filter(|_| !may_be_run()) {
            again.lost.push(lost(name, whose));
        } else {
            again.add(&members, node);
            if let Some((model, _)) = model {
                again.obstacles.look_at(model, name, row(nodes, name));
            }
        }
    }
    again.unless(problems, named.is_some(), job)
}

fn row<'n>(nodes: Option<&'n Nodes>, node: &str) -> Option<&'n NodeRow> {
    nodes?.get(node)
}

fn known<'n>(nodes: Option<&Nodes>, name: &'n str) -> Node<'n> {
    (name, row(nodes, name).map(|row| row.uid))
}

fn is_gone(nodes: Option<&Nodes>, node: &str) -> bool {
    nodes.is_some_and(|nodes| !nodes.contains_key(node))
}

/// The nodes on which a job that has ended has left something to do: they are eligible and were not started, or
/// were begun with and have not succeeded in its family. Of those that no retry runs again there is none.
pub fn unfinished(family: &[Relative], job: &BroadcastJob, nodes: &Nodes) -> Vec<String> {
    let members = Members::read(family);
    let begun: BTreeMap<(&str, Uid), &Record> = (members.latest().into_iter())
        .map(|(_, record)| ((&*record.node, record.node_uid), record))
        .collect();
    let left = nodes.iter().filter(|(name, row)| {
        let refused = || refusal(&job.placement, name, row).is_some();
        match begun.get(&(&***name, row.uid)) {
            None => !refused(),
            Some(record) if may_have_succeeded(record) => false,
            Some(record) => record.state != NodeState::Succeeded,
        }
    });
    left.map(|(name, _)| name.to_string()).collect()
}

/// Why a node that does not exist is not tried again. `known`: there was one of this name.
fn no_node(node: &str, known: bool) -> String {
    if known {
        format!("node {node} is gone: its Node object does not exist any more")
    } else {
        format!("there is no node {node}")
    }
}

/// Why there can be no retry of what should be the first job of a family, if so.
pub(super) fn no_retry_of(first: &StoredJob) -> Option<String> {
    let (job, retries) = (&first.job, first.job.status.retries.len());
    let name = &job.meta.owner.name;
    if let Some(gone) = &job.retry_of {
        return Some(format!(
            "BroadcastJob {name}: spec.retryOf names {} with uid {}, which is gone, and with it what has \
             succeeded there. Create a job without spec.retryOf, with the nodes to run in spec.nodeNames",
            gone.name, gone.uid
        ));
    }
    (retries >= MAX_RETRIES).then(|| {
        format!(
            "BroadcastJob {name}: status.retries has {retries} entries, and {MAX_RETRIES} are the most. \
             Create a job without spec.retryOf, with the nodes to run in spec.nodeNames (kubectl \
             carillon results {name} --failed shows which)"
        )
    })
}

/// Chooses what a job that has not ended is to try again: the nodes named, or all that have failed. The
/// error says for each node why it is not tried again. `family` has the job, and all others if it is a retry;
/// `nodes` are as for [`choose_again`].
pub fn choose(
    family: &[Relative],
    job: &BroadcastJob,
    named: Option<&[String]>,
    nodes: Option<&Nodes>,
) -> Result<Request, Vec<String>> {
    let name = &job.meta.owner.name;
    if job.meta.deleting {
        return Err(vec![format!("{name} is being deleted")]);
    }
    if standing(job).0 == Standing::Stopping {
        let wait =
            format!("{name} is failing: wait until it has ended (kubectl carillon wait {name})");
        return Err(vec![wait]);
    }
    let members = Members::read(family);
    let nothing = Ledger::default();
    let ledger = members.ledger_of(job).unwrap_or(&nothing);
    let tried = members.tried_again().into_iter();
    let tried = tried.filter(|one| one.by == name);
    let open = Open {
        job,
        ledger,
        nodes,
        tries: tried.map(|one| one.node).collect(),
    };
    let mut request = Request::default();
    let mut problems = Vec::new();
    for node in open.wanted(named) {
        match open.after(node) {
            _ if named.is_some() && is_gone(nodes, node) => {
                problems.push(no_node(node, !ledger.attempts(node).is_empty()));
            }
            After::Gone => request.obstacles.gone.push(node.to_owned()),
            After::Failed(_) => request.nodes.push(node.to_owned()),
            After::TriedAgain => request.tried.push(node.to_owned()),
            After::Other if named.is_some() => problems.push(open.problem(&members, node)),
            After::Other => {}
        }
    }
    if problems.is_empty() && request.nodes.is_empty() && request.tried.is_empty() {
        problems = nothing_failed(name, &request.obstacles.gone);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    for node in request.nodes.iter().chain(&request.tried) {
        request.obstacles.look_at(job, node, row(nodes, node));
    }
    request.value = open.value(&request.nodes);
    Ok(request)
}

/// What a request means for a node.
enum After<'a> {
    /// It has failed, also if it waits for a retry anyway, which a request makes earlier. The pod of the last
    /// attempt in which something ran.
    Failed(&'a str),
    /// It has failed, and does not exist any more.
    Gone,
    /// It has failed before, and is under way again or about to be.
    TriedAgain,
    /// None of these.
    Other,
}

/// A job that has not ended.
struct Open<'a> {
    job: &'a BroadcastJob,
    ledger: &'a Ledger<'a>,
    nodes: Option<&'a Nodes>,
    /// The nodes that have failed in its family, and that it is this one that tries.
    tries: BTreeSet<&'a str>,
}

impl<'a> Open<'a> {
    /// The nodes that are asked for; all that it knows, if none are named.
    fn wanted(&self, named: Option<&'a [String]>) -> Vec<&'a str> {
        let all = || self.ledger.names().chain(self.tries.iter().copied());
        match named {
            Some(named) => named.iter().map(String::as_str).collect(),
            None => all().collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    fn after(&self, node: &str) -> After<'a> {
        let attempts = self.ledger.attempts_at(known(self.nodes, node));
        let mut all = attempts.iter();
        let is_gone = is_gone(self.nodes, node);
        match (standing_after(self.job, attempts, true), decisive(attempts)) {
            (Some(NodeStanding::Failed | NodeStanding::Retry(_)), _) if is_gone => After::Gone,
            (Some(NodeStanding::Failed | NodeStanding::Retry(_)), Some(ran)) => {
                After::Failed(&ran.pod)
            }
            (Some(NodeStanding::Started | NodeStanding::Again(_)), _)
                if all.any(|record| record.state == NodeState::Failed) =>
            {
                After::TriedAgain
            }
            _ if self.tries.contains(node) && !is_gone => After::TriedAgain,
            _ => After::Other,
        }
    }

    /// The pods that stand for these nodes. What was asked for before stays, as long as its attempt is the last one.
    fn value(&self, nodes: &[String]) -> String {
        let failed = |node: &str| match self.after(node) {
            After::Failed(pod) => Some(pod),
            After::Gone | After::TriedAgain | After::Other => None,
        };
        let asked = &self.job.policies.retry;
        let before = self.ledger.names().filter_map(failed);
        let before = before.filter(|pod| asked.contains(*pod));
        let now = nodes.iter().filter_map(|node| failed(node));
        let pods: BTreeSet<&str> = before.chain(now).collect();
        Vec::from_iter(pods).join(",")
    }

    /// Why a node that was named and has not failed cannot be tried again.
    fn problem(&self, members: &Members<'_>, name: &str) -> String {
        let (node, own) = (known(self.nodes, name), &self.job.meta.owner.name);
        if let Some(Settled { reason, by }) = members.settled(self.job, node) {
            return match reason {
                results::ALREADY_SUCCEEDED => has_succeeded(name, by),
                _ => format!(
                    "node {name} was tried by {by}, which whoever made {own} did not know; wait until {own} \
                     has ended, and ask again"
                ),
            };
        }
        let last = self.ledger.attempts_at(node).last();
        match last.map(|record| record.state) {
            Some(NodeState::Succeeded) => has_succeeded(name, own),
            Some(NodeState::Started) => format!("node {name} is under way"),
            Some(NodeState::Disrupted | NodeState::Unknown | NodeState::Failed) => {
                format!("node {name} was interrupted, and is tried again by itself")
            }
            Some(NodeState::Skipped) | None => format!("node {name} was not started yet"),
        }
    }
}

fn has_succeeded(node: &str, job: &str) -> String {
    format!(
        "node {node} has succeeded in {job}, and is never run again; to run it anyway, create another job"
    )
}

/// Why no retry runs a node whose outcome was lost with another retry.
fn lost(node: &str, retry: &str) -> String {
    format!(
        "node {node} may have succeeded in {retry}, which was deleted at work: no retry runs it again; to \
         run it anyway, create a job without spec.retryOf, with {node} in spec.nodeNames"
    )
}

/// What is said of a job where there is nothing to try again; these nodes have failed and are gone.
fn nothing_failed(job: &str, gone: &[String]) -> Vec<String> {
    if gone.is_empty() {
        return vec![format!("{job} has no failed node")];
    }
    gone.iter().map(|node| no_node(node, true)).collect()
}

/// The number of the next retry: above that of every job of the family, also of those that are gone.
pub fn next_number(first: &Value, family: &[Relative]) -> u32 {
    let listed = list(&first["status"]["retries"]).filter_map(|retry| retry["name"].as_str());
    let there = family.iter().map(|one| &*one.stored.job.meta.owner.name);
    let numbers = listed.chain(there).filter_map(|name| {
        let (_, number) = name.rsplit_once("-retry-")?;
        number.parse::<u32>().ok()
    });
    numbers.max().unwrap_or_default().saturating_add(1)
}

/// Name of the `number`-th job that tries nodes of `job` again: `fix-retry-1`, also when `job` is
/// such a job itself.
pub fn name(job: &str, number: u32) -> String {
    /// Pods carry a job's name as a label.
    const LONGEST: usize = 63;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let first = match job.rsplit_once("-retry-") {
        Some((first, number)) if is_number(number) => first,
        _ => job,
    };
    let suffix = format!("-retry-{number}");
    let kept: String = first.chars().take(LONGEST - suffix.len()).collect();
    format!("{}{suffix}", kept.trim_end_matches('-'))
}

/// The job of that name that tries `nodes` of `object` again: its spec as stored, unpaused, for these
/// nodes only, as a retry of `first`, which is `object` unless that is a retry itself.
pub fn again(object: &Value, first: &Value, name: &str, nodes: &[String]) -> Value {
    let meta = &object["metadata"];
    let known = first["status"]["retries"].as_array().map_or(0, Vec::len);
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("nodeNames".to_owned(), json!(nodes));
        spec.remove("paused");
        // A retry ends.
        if object["spec"]["completionPolicy"]["type"] == "Never" {
            spec.remove("completionPolicy");
        }
        let retry_of = json!({
            "name": first["metadata"]["name"],
            "uid": first["metadata"]["uid"],
            "knownRetries": known,
        });
        spec.insert("retryOf".to_owned(), retry_of);
    }
    let mut metadata = json!({
        "name": name,
        "namespace": meta["namespace"],
        "annotations": {ANNOTATION_RETRY_OF: meta["name"]},
    });
    if meta["labels"].is_object() {
        metadata["labels"] = meta["labels"].clone();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "BroadcastJob",
        "metadata": metadata,
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Slice;
    use crate::view::broadcast_job::samples::{condition, job, record, slice};
    use crate::view::read::StoredJob;

    fn stored(conditions: &Value) -> StoredJob {
        job(&json!({}), &json!({"conditions": conditions}))
    }

    fn ledger() -> [Slice; 1] {
        slice(vec![
            record("n1", 1, NodeState::Failed),
            record("n2", 1, NodeState::Succeeded),
            record("n3", 1, NodeState::Failed),
            record("n3", 2, NodeState::Failed),
            record("n4", 1, NodeState::Failed),
            record("n4", 2, NodeState::Succeeded),
            record("n5", 1, NodeState::Started),
            record("n6", 1, NodeState::Disrupted),
        ])
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn open(
        stored: &StoredJob,
        slices: &[Slice],
        named: Option<&[String]>,
    ) -> Result<Request, Vec<String>> {
        let family = [Relative::new(stored.clone(), slices.to_vec())];
        choose(&family, &stored.job, named, None)
    }

    #[test]
    fn an_open_job_is_asked_for_the_failed_nodes_by_their_last_attempt() {
        let slices = ledger();
        let chosen = open(&stored(&json!([])), &slices, None);
        let expected = Request {
            value: "fix-n1-1,fix-n3-2".to_owned(),
            nodes: names(&["n1", "n3"]),
            ..Request::default()
        };
        assert_eq!(chosen, Ok(expected));
    }

    #[test]
    fn what_was_asked_for_before_stays_until_it_is_done() {
        let slices = ledger();
        let mut stored = stored(&json!([]));
        for pod in ["fix-n3-1", "fix-n3-2", "fix-n4-1", "fix-n9-1"] {
            stored.job.policies.retry.insert(pod.into());
        }
        let named = names(&["n1"]);
        let chosen = open(&stored, &slices, Some(&named)).unwrap();
        assert_eq!(chosen.value, "fix-n1-1,fix-n3-2");
    }

    #[test]
    fn with_at_most_once_an_interrupted_node_has_failed_and_may_be_tried_again_on_request() {
        let slices = ledger();
        let spec = json!({"executionPolicy": "AtMostOnce"});
        let once = job(&spec, &json!({}));
        let named = names(&["n6"]);
        let chosen = open(&once, &slices, Some(&named));
        let expected = Request {
            value: "fix-n6-1".to_owned(),
            nodes: named,
            ..Request::default()
        };
        assert_eq!(chosen, Ok(expected));
    }

    #[test]
    fn a_node_that_succeeded_is_never_run_again_whether_the_job_has_ended_or_not() {
        let slices = ledger();
        let named = names(&["n1", "n2", "n4", "n5", "n6"]);
        let open = open(&stored(&json!([])), &slices, Some(&named));
        let [all] = slices;
        let ended = choose_again(
            &relatives(vec![all.records.to_vec()]),
            "fix",
            Some(&named),
            None,
        );
        for (problems, refused) in [(open.unwrap_err(), 4), (ended.unwrap_err(), 2)] {
            assert_eq!(problems.len(), refused, "{problems:?}");
            assert!(
                problems[0].contains("n2 has succeeded in fix"),
                "{problems:?}"
            );
            assert!(
                problems[1].contains("n4 has succeeded in fix"),
                "{problems:?}"
            );
        }
    }

    fn relatives(slices: Vec<Vec<Record>>) -> Vec<Relative> {
        let ended = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")]});
        let relative = |(at, records): (usize, Vec<Record>)| Relative {
            stored: if at == 0 {
                job(&json!({}), &ended)
            } else {
                job(&json!({"nodeNames": ["n1"]}), &json!({}))
            },
            slices: slice(records).to_vec(),
        };
        slices.into_iter().enumerate().map(relative).collect()
    }

    #[test]
    fn a_family_tries_again_what_has_failed_and_nobody_tries_already() {
        let [first] = ledger();
        let family = relatives(vec![first.records.to_vec()]);
        let chosen = choose_again(&family, "fix", None, None).unwrap();
        assert_eq!((chosen.nodes, chosen.tried), (names(&["n1", "n3"]), vec![]));
        let never_started = names(&["n7"]);
        let chosen = choose_again(&family, "fix", Some(&never_started), None).unwrap();
        assert_eq!(chosen.nodes, never_started);
        // A retry of n1 is there and has not ended.
        let family = relatives(vec![first.records.to_vec(), vec![]]);
        let chosen = choose_again(&family, "fix", Some(&names(&["n1"])), None).unwrap();
        let tried = vec![("n1".to_owned(), "fix".to_owned())];
        assert_eq!((chosen.nodes, chosen.tried), (vec![], tried));
        // It has succeeded there.
        let done = vec![record("n1", 1, NodeState::Succeeded)];
        let mut family = relatives(vec![first.records.to_vec(), done]);
        family[1].stored = family[0].stored.clone();
        let chosen = choose_again(&family, "fix", None, None).unwrap();
        assert_eq!(chosen.nodes, names(&["n3"]));
        let problems = choose_again(&family, "fix", Some(&names(&["n1"])), None).unwrap_err();
        assert!(
            problems[0].contains("n1 has succeeded in fix"),
            "{problems:?}"
        );
    }

    #[test]
    fn nothing_is_made_that_would_stall_where_the_first_job_is_gone_or_has_had_all_its_retries() {
        let mut family = relatives(vec![vec![record("n1", 1, NodeState::Failed)]]);
        let retry_of =
            json!({"retryOf": {"name": "fix", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-00000000000f"}});
        let ended = json!({"conditions": [condition("Complete", "AllNodesSucceeded", "")]});
        family[0].stored = job(&retry_of, &ended);
        let problems = choose_again(&family, "fix-retry-1", None, None).unwrap_err();
        assert!(
            problems[0].contains("spec.retryOf names fix with uid 4e0c5d6a"),
            "{problems:?}"
        );
        let retry = json!({"name": "fix-retry-1", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-00000000000e"});
        for (retries, refused) in [(99, false), (100, true)] {
            let mut status = ended.clone();
            status["retries"] = json!(vec![retry.clone(); retries]);
            family[0].stored = job(&json!({}), &status);
            let chosen = choose_again(&family, "fix", None, None);
            assert_eq!(chosen.is_err(), refused);
            let problems = chosen.err().unwrap_or_default();
            let told = |problem: &String| problem.contains("status.retries has 100 entries");
            assert!(problems.iter().all(told), "{problems:?}");
        }
    }

    #[test]
    fn a_retry_that_waits_for_its_next_attempt_tries_a_node_and_one_that_is_stalled_does_not() {
        let first = vec![record("n1", 1, NodeState::Failed)];
        let again = vec![record("n1", 1, NodeState::Failed)];
        let mut family = relatives(vec![first, again]);
        let limit = |limit: u32| json!({"nodeNames": ["n1"], "backoffLimitPerNode": limit});
        let tried = |family: &[Relative]| {
            let chosen = choose_again(family, "fix", None, None).unwrap();
            (chosen.tried.len(), chosen.nodes.len())
        };
        family[1].stored = job(&limit(1), &json!({}));
        assert_eq!(tried(&family), (1, 0), "it is in back-off");
        family[1].stored = job(&limit(0), &json!({}));
        assert_eq!(tried(&family), (0, 1), "it has failed for good");
        let stalled = condition("Stalled", "TooManyRetries", "found 100");
        family[1].stored = job(&limit(1), &json!({"conditions": [stalled]}));
        assert_eq!(tried(&family), (0, 1));
        let chosen = choose_again(&family, "fix", None, None).unwrap();
        let stalled = BTreeSet::from(["fix (TooManyRetries: found 100)".to_owned()]);
        assert_eq!(chosen.stalled, stalled);
    }

    #[test]
    fn nothing_is_tried_again_while_a_job_is_failing_or_when_nothing_has_failed() {
        let slices = ledger();
        let failing = stored(&json!([condition(
            "FailureTarget",
            "MaxFailedNodesExceeded",
            ""
        )]));
        assert!(open(&failing, &slices, None).is_err());
        let none = slice(vec![record("n1", 1, NodeState::Succeeded)]);
        let [none] = none;
        assert!(choose_again(&relatives(vec![none.records.to_vec()]), "fix", None, None).is_err());
    }

    #[test]
    fn the_new_job_is_the_old_one_for_these_nodes_and_is_not_paused() {
        let old = json!({
            "metadata": {"name": "fix", "namespace": "ops", "labels": {"team": "a"},
                         "uid": "u", "annotations": {"carillon.dev/resume": "1"}},
            "spec": {"paused": true, "parallelism": "10%", "nodeNames": ["n1", "n2"],
                     "laterField": 1},
            "status": {"failed": 1, "retries": [{"name": "fix-retry-7", "uid": "v"}]},
        });
        let expected = json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "BroadcastJob",
            "metadata": {"name": "fix-retry-1", "namespace": "ops", "labels": {"team": "a"},
                         "annotations": {"carillon.dev/retry-of": "fix"}},
            "spec": {"parallelism": "10%", "nodeNames": ["n2"], "laterField": 1,
                     "retryOf": {"name": "fix", "uid": "u", "knownRetries": 1}},
        });
        assert_eq!(again(&old, &old, "fix-retry-1", &names(&["n2"])), expected);
    }

    #[test]
    fn retries_of_retries_are_counted_on_and_names_stay_labels() {
        assert_eq!(name("fix", 1), "fix-retry-1");
        assert_eq!(name("fix-retry-1", 2), "fix-retry-2");
        assert_eq!(name("fix-retry-later", 1), "fix-retry-later-retry-1");
        assert_eq!(name(&"x".repeat(63), 12).len(), 63);
    }
}
