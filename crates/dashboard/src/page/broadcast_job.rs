//! The page of a BroadcastJob.

use carillon_api::NodeState;
use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::node::Nodes;
use carillon_plan::record::Slice;
use carillon_plan::view::broadcast_job::explain;
use carillon_plan::view::broadcast_job::family::{Members, Relative};
use carillon_plan::view::broadcast_job::kin;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::outcomes::{SAMPLE, fold};
use carillon_plan::view::broadcast_job::pace::Pace;
use carillon_plan::view::broadcast_job::pause;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing, standing};
use carillon_plan::view::broadcast_job::squares::squares;
use carillon_plan::view::read;
use carillon_plan::view::squares::Labels;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::around::{head, verb};
use super::{Explained, Fleet, ObjectAddress, Page, Sources, missing};
use crate::cluster::{BROADCAST_JOBS, Cluster, Object};

const SLICES: &str = "noderesultslices.carillon.dev";
/// Labels that are told of nodes that failed alike.
const LABELS_TOLD: usize = 3;
/// Ways to fail that are listed.
const OUTCOMES_SHOWN: usize = 50;

pub(super) fn page(cluster: &Cluster, at: &ObjectAddress) -> Page {
    let mut sources = Sources::default();
    let Some(known) = known(cluster, at, &mut sources) else {
        return missing(at, &sources);
    };
    if sources.loading() {
        return missing(at, &sources);
    }
    let stored = read::job(&known.object);
    let job = &stored.job;
    let mut own = known.family.iter();
    let own = own.find(|one| one.stored.job.meta.owner == job.meta.owner);
    let ledger = own.map_or_else(Ledger::default, |own| Ledger::read(&own.slices));
    let progress = Progress::of(&stored, &ledger).estimated(&stored, &ledger, Timestamp::now());
    let labels = Labels::of(&known.nodes);
    // Without nodes or results a square would say what nobody knows.
    let fleet = known.whole.then(|| {
        let squares = squares(&known.family, job, &known.nodes);
        Fleet::grouped(squares, &known.nodes, &at.group)
    });
    let mut page = head(cluster, at, &known.object, &mut sources);
    page["page"] = "broadcastjob".into();
    page["headline"] = progress.headline().into();
    page["progress"] = json!(progress);
    if let Some(fleet) = &fleet {
        let all = explain::job(&known.family, job, &known.nodes);
        let here = format!("{} ", cluster.command(&at.namespace));
        page["next"] = all.next.replace("kubectl carillon ", &here).into();
        fleet.tell(all.groups, &labels, &mut page);
    }
    page["failures"] = failures(&known.family, &labels);
    page["family"] = known.family.iter().map(relative).collect();
    page["paused"] = job.paused.into();
    page["verbs"] = verbs(job, progress.failed);
    page["facts"] = facts(&known.object);
    page["sources"] = sources.told();
    let told = known.unreadable.iter().map(|why| {
        format!("{why}: where the nodes stand is not shown. A newer kubectl-carillon may read it.")
    });
    page["unreadable"] = told.collect();
    // What was counted before is all nodes, whatever is drawn.
    let fleet = fleet.map(|fleet| fleet.only(&known.nodes, &at.label));
    Page { head: page, fleet }
}

/// One node of it.
pub(super) fn node(cluster: &Cluster, at: &ObjectAddress, node: &str, now: Timestamp) -> Explained {
    let mut sources = Sources::default();
    let known = known(cluster, at, &mut sources);
    if sources.loading() {
        return Explained::Loading;
    }
    let Some(known) = known else {
        return Explained::Missing;
    };
    if let Some(why) = sources.not_allowed(&["nodes", SLICES]) {
        return Explained::NotAllowed(why);
    }
    if !known.unreadable.is_empty() {
        return Explained::Unreadable(known.unreadable.join("; "));
    }
    let job = read::job(&known.object).job;
    let row = known.nodes.get(node);
    match explain::node(&known.family, &job, node, row, now) {
        Some(explained) => Explained::Known(json!(explained)),
        None => Explained::Missing,
    }
}

/// A job with all that its page is made from.
struct KnownJob {
    object: Object,
    family: Vec<Relative>,
    nodes: Nodes,
    /// Nodes and results could be read.
    whole: bool,
    /// Slices that could not be read whole, and why.
    unreadable: Vec<String>,
}

fn known(cluster: &Cluster, at: &ObjectAddress, sources: &mut Sources) -> Option<KnownJob> {
    let jobs = cluster.all(BROADCAST_JOBS);
    let nodes = cluster.nodes();
    sources.add(BROADCAST_JOBS.name(), jobs.reading());
    sources.add("nodes", nodes.reading());
    let object = jobs.get(&at.namespace, &at.name)?;
    let all = jobs.map(|(namespace, _), job| (**namespace == at.namespace).then(|| job.clone()));
    let all: Vec<Object> = all.into_iter().flatten().collect();
    let others: Vec<&Value> = all.iter().map(|job| &**job).collect();
    let (_, members) = kin::family(&object, &others);
    let mut whole = nodes.reading().is_known();
    let mut unreadable = Vec::new();
    let family = members.into_iter().map(|stored| {
        let table = cluster.slices(&at.namespace, stored.job.meta.owner.uid);
        sources.add(SLICES, table.reading());
        whole &= table.reading().is_known();
        let (mut slices, errors) = read_whole(table.map(|_, slice| slice.clone()));
        unreadable.extend(errors);
        slices.sort_by_key(|slice| slice.index);
        Relative::new(stored, slices)
    });
    let family = family.collect();
    Some(KnownJob {
        object,
        family,
        nodes: nodes.by_name(),
        whole: whole && unreadable.is_empty(),
        unreadable,
    })
}

/// The slices, and why some cannot be read.
fn read_whole(slices: Vec<Result<Slice, String>>) -> (Vec<Slice>, Vec<String>) {
    let (mut read, mut unreadable) = (Vec::new(), Vec::new());
    for slice in slices {
        match slice {
            Ok(slice) => read.push(slice),
            Err(why) => unreadable.push(why),
        }
    }
    (read, unreadable)
}

/// How fast it is. Whoever may not read pods does not learn which nodes are slow.
pub(super) fn pace(cluster: &Cluster, at: &ObjectAddress) -> Option<Pace> {
    let object = cluster.all(BROADCAST_JOBS).get(&at.namespace, &at.name)?;
    let job = read::job(&object).job;
    if standing(&job).0 != Standing::Running {
        return None;
    }
    let uid = job.meta.owner.uid;
    let slices = cluster.slices(&at.namespace, uid);
    let (slices, _) = read_whole(slices.map(|_, slice| slice.clone()));
    let ledger = Ledger::read(&slices);
    let pods = cluster.attempts(&at.namespace, uid);
    // Anybody can put the label on a pod: those count that a record names.
    let open = ledger
        .latest()
        .filter(|one| one.state == NodeState::Started);
    let running = open.filter_map(|record| {
        let since = pods.get(&at.namespace, &record.pod)?.runs_since?;
        Some((record.node.to_string(), since))
    });
    Pace::of(&ledger, running, SAMPLE)
}

/// What `results --failed` shows, with the labels that tell these nodes from the others.
fn failures(family: &[Relative], labels: &Labels<'_>) -> Value {
    let members = Members::read(family);
    let latest = members.latest().into_iter().map(|(_, record)| record);
    let outcomes = fold(latest.filter(|record| members.has_failed(record)));
    let told = outcomes.into_iter().take(OUTCOMES_SHOWN).map(|outcome| {
        let nodes = outcome.nodes.iter().map(String::as_str);
        let mut shared = labels.shared_by(nodes);
        shared.truncate(LABELS_TOLD);
        json!({
            "count": outcome.count, "reason": outcome.reason, "exitCode": outcome.exit_code,
            "message": outcome.message, "sentence": outcome.sentence(),
            "nodes": outcome.nodes.iter().take(SAMPLE).collect::<Vec<_>>(), "labels": shared,
        })
    });
    told.collect()
}

fn relative(one: &Relative) -> Value {
    let job = &one.stored.job;
    json!({"name": job.meta.owner.name, "standing": standing(job).0, "deleting": job.meta.deleting})
}

fn verbs(job: &BroadcastJob, failed: i32) -> Value {
    let would = |patch: Result<Option<Value>, String>| patch.map(|patch| patch.is_some());
    let retry = if job.meta.deleting {
        Err(format!("{} is being deleted", job.meta.owner.name))
    } else {
        Ok(failed > 0)
    };
    json!([
        verb("pause", "Pause", would(pause::pause(job))),
        verb(
            "resume",
            "Resume",
            would(pause::resume(job, Timestamp::now()))
        ),
        verb("retry", "Retry failed", retry),
    ])
}

fn facts(object: &Value) -> Value {
    let spec = &object["spec"];
    let or = |value: &Value, absent: &str| match value {
        Value::Null => absent.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    json!([
        ["Parallelism", or(&spec["parallelism"], "all nodes at once")],
        ["On failure", or(&spec["failurePolicy"]["type"], "FailFast")],
        [
            "Most failed nodes",
            or(&spec["failurePolicy"]["maxFailedNodes"], "no limit")
        ],
        [
            "Attempts again on a node",
            or(&spec["backoffLimitPerNode"], "0")
        ],
        ["Ends", or(&spec["completionPolicy"]["type"], "Always")],
    ])
}
