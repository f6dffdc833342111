//! `retry`: run nodes again, and only these.

use std::collections::BTreeMap;

use anyhow::{Error, Result, bail};
use carillon_api::names::ANNOTATION_RETRY;
use carillon_plan::node::Nodes;
use carillon_plan::view::broadcast_job::family::Relative;
use carillon_plan::view::broadcast_job::outcomes;
use carillon_plan::view::broadcast_job::progress::{Standing, standing};
use carillon_plan::view::broadcast_job::retry;
use carillon_plan::view::broadcast_job::retry::Obstacles;
use carillon_plan::view::read;
use clap::ArgGroup;
use clap_complete::ArgValueCandidates;
use serde_json::{Value, json};

use crate::client::{Api, Asked, JOBS, code};
use crate::exit::DONE;
use crate::family::{Family, family};
use crate::flags::{DryRun, JobName};
use crate::names::node_name;
use crate::render::{Screen, count, sample};
use crate::{candidates, problem};

/// How often a job that changes meanwhile is read again. So many may ask at once for different nodes.
const TRIES: usize = 50;

/// Run failed nodes again, and only these
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A job that is open is asked by an annotation, and tries these nodes again. For one that has ended a
new job JOB-retry-N is created, the same but for spec.nodeNames and spec.retryOf. Nodes that another
retry is already made for are left to it. A node that has succeeded, in the job or in one of its
retries, is never run again: Carillon sees to that, whoever made them.

A retry of a run of a CronJob is not a run: concurrencyPolicy does not hold for it, the history limits
leave the run alone while it is open, and it is not deleted with the CronJob.")]
#[group(skip)] // The group that is derived has every argument in it.
#[command(group = ArgGroup::new("which").required(true).multiple(false).args(["failed", "unfinished", "node"]))]
pub(crate) struct Retry {
    #[command(flatten)]
    job: JobName,
    /// All nodes that have failed; see results --failed
    #[arg(long)]
    failed: bool,
    /// All nodes on which a job that has ended has left something to do: also those that it did not start
    #[arg(long)]
    unfinished: bool,
    /// These nodes, separated by commas. Can be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = node_name,
          add = ArgValueCandidates::new(candidates::nodes))]
    node: Vec<String>,
    #[command(flatten)]
    dry: DryRun,
}

pub(crate) async fn run(api: &Api, args: &Retry, screen: &mut Screen) -> Result<u8> {
    let name = &args.job.job;
    for _ in 0..TRIES {
        let object = api.job(name).await?;
        let stored = read::job(&object);
        let ended = standing(&stored.job).0.has_ended() && !stored.job.meta.deleting;
        let done = if ended {
            again(api, args, &object, screen).await?
        } else {
            ask(api, args, &object, screen).await?
        };
        if done {
            return Ok(DONE);
        }
    }
    bail!("BroadcastJob {name} or a retry of it changed {TRIES} times meanwhile: try again");
}

/// Asks a job that is open. `false`: it has changed meanwhile.
async fn ask(api: &Api, args: &Retry, object: &Value, screen: &mut Screen) -> Result<bool> {
    let name = &args.job.job;
    let stored = read::job(object);
    if args.unfinished {
        bail!("{name} has not ended: what it has not started is still its own to do");
    }
    let named = (!args.failed).then_some(&*args.node);
    let members = if stored.job.retry_of.is_some() {
        family(api, object).await?.members
    } else {
        let slices = api.slices(&stored).await?;
        vec![Relative::new(stored.clone(), slices)]
    };
    let there = nodes(api, args).await;
    let chosen = retry::choose(&members, &stored.job, named, there.as_ref());
    let chosen = chosen.map_err(|problems| Error::msg(problems.join("\n")))?;
    let patch = json!({"metadata": {
        "annotations": {ANNOTATION_RETRY: chosen.value},
        // What was chosen holds for what was read.
        "resourceVersion": object["metadata"]["resourceVersion"],
    }});
    if !chosen.nodes.is_empty() {
        match api.merge(name, args.dry.dry_run, &patch).await {
            Ok(_) => {}
            Err(error) if code(&error) == Some(409) => return Ok(false),
            Err(error) => {
                let what = format!("changing BroadcastJob {name}");
                return Err(api.explain(error, &what).await);
            }
        }
    }
    if !chosen.nodes.is_empty() {
        report(name, "tries again", &chosen.nodes, args, screen)?;
    }
    if !chosen.tried.is_empty() {
        report(name, "tries already", &chosen.tried, args, screen)?;
    }
    if stored.job.paused || standing(&stored.job).0 == Standing::Paused {
        tell_how_to_resume(name, screen);
    }
    tell_obstacles(&chosen.obstacles, screen);
    Ok(true)
}

/// Has a job that has ended tried again by a new one, as far as no other one does already. `false`: a retry
/// was made meanwhile, which may be for the same nodes.
async fn again(api: &Api, args: &Retry, object: &Value, screen: &mut Screen) -> Result<bool> {
    let family = family(api, object).await?;
    let mut there = nodes(api, args).await;
    let mut wanted = args.node.clone();
    if args.unfinished {
        let nodes = api.nodes().await?;
        wanted = retry::unfinished(&family.members, &read::job(object).job, &nodes);
        if wanted.is_empty() {
            bail!("{} has left nothing to do", args.job.job);
        }
        there = Some(nodes);
    }
    let named = (!args.failed).then_some(&*wanted);
    let chosen = retry::choose_again(&family.members, &args.job.job, named, there.as_ref())
        .map_err(|problems| Error::msg(problems.join("\n")))?;
    if !chosen.nodes.is_empty() {
        let Some(created) = create(api, object, &family, &chosen.nodes, args.dry.dry_run).await?
        else {
            return Ok(false);
        };
        report(&created, "created for", &chosen.nodes, args, screen)?;
    }
    for stalled in &chosen.stalled {
        screen.aside(&format!(
            "For some of these nodes there is a retry that starts nothing until somebody acts; delete it \
             if it is not wanted: {stalled}"
        ));
    }
    for lost in &chosen.lost {
        screen.aside(lost);
    }
    let mut by_job: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (node, by) in &chosen.tried {
        by_job.entry(by).or_default().push(node.clone());
    }
    for (by, nodes) in by_job {
        report(by, "tries already", &nodes, args, screen)?;
        if chosen.paused.contains(by) {
            tell_how_to_resume(by, screen);
        }
    }
    tell_obstacles(&chosen.obstacles, screen);
    Ok(true)
}

/// The nodes that matter, those that exist. `None`: whoever asks may not read nodes.
async fn nodes(api: &Api, args: &Retry) -> Option<Nodes> {
    if args.failed {
        return api.nodes().await.ok();
    }
    let mut nodes = Nodes::new();
    for name in &args.node {
        match api.node(name).await.ok()? {
            Asked::Found(row) => drop(nodes.insert(name.as_str().into(), row)),
            Asked::Missing => {}
            Asked::NotAllowed => return None,
        }
    }
    Some(nodes)
}

/// Creates `JOB-retry-N` and gives its name. The number is above every one that the family has had. The name
/// is a lock, too: of two who ask at once and know the same, one gets `None` and looks again.
async fn create(
    api: &Api,
    object: &Value,
    family: &Family,
    nodes: &[String],
    dry_run: bool,
) -> Result<Option<String>> {
    let job = object["metadata"]["name"].as_str().unwrap_or_default();
    let number = retry::next_number(&family.first, &family.members);
    let mut names = (number..=u32::MAX).map(|number| retry::name(job, number));
    let Some(name) = names.find(|name| !family.taken.contains(name)) else {
        bail!("there is no number left for a retry of {job}");
    };
    let new = retry::again(object, &family.first, &name, nodes);
    match api.create(JOBS, dry_run, &new).await {
        Ok(_) => Ok(Some(name)),
        Err(error) if code(&error) == Some(409) => Ok(None),
        Err(kube::Error::Api(status)) if is_unknown(&status.message) => bail!(
            "the CRDs of the cluster are older than this program, and {name} would run where it \
             must not: upgrade Carillon first ({})",
            problem::words(&status)
        ),
        Err(error) => Err(api.explain(error, &format!("creating {name}")).await),
    }
}

/// Whether the API server does not know a field on which a retry relies.
fn is_unknown(message: &str) -> bool {
    let fields = ["spec.nodeNames", "spec.retryOf"];
    message.contains("unknown field") && fields.iter().any(|field| message.contains(field))
}

/// Says which nodes are left out, and which have to change before anything is started there.
fn tell_obstacles(obstacles: &Obstacles, screen: &mut Screen) {
    let few = |nodes: &[String]| sample(nodes, outcomes::SAMPLE);
    if !obstacles.gone.is_empty() {
        let number = count(obstacles.gone.len(), "node");
        let gone = few(&obstacles.gone);
        screen.aside(&format!("Left out, as gone: {number}: {gone}"));
    }
    for (cause, nodes) in &obstacles.waiting {
        let number = count(nodes.len(), "node");
        screen.aside(&format!(
            "Nothing is started for now on {number}: {}: {cause}",
            few(nodes)
        ));
    }
}

fn tell_how_to_resume(name: &str, screen: &mut Screen) {
    screen.hint_aside(&format!("It is paused: kubectl carillon resume {name}"));
}

fn report(
    name: &str,
    what: &str,
    nodes: &[String],
    args: &Retry,
    screen: &mut Screen,
) -> Result<()> {
    let (number, shown) = (count(nodes.len(), "node"), sample(nodes, outcomes::SAMPLE));
    let dry = args.dry.mark();
    screen.line(&format!(
        "broadcastjob.carillon.dev/{name} {what} {number}: {shown}{dry}"
    ))
}
