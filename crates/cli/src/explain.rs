//! `explain`: why a node is served or not, and where all nodes stand.

mod daemon_set;

use anyhow::{Result, bail};
use carillon_plan::view::broadcast_job::explain;
use carillon_plan::view::broadcast_job::explain::{JobExplanation, NodeExplanation};
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::place::Place;
use carillon_plan::view::broadcast_job::progress::Progress;
use carillon_plan::view::read;
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::Value;

use crate::client::{Api, Asked};
use crate::exit::DONE;
use crate::family::family;
use crate::flags::Output;
use crate::names::node_name;
use crate::nodes::{checks, print_checks, print_each, print_groups};
use crate::render::{Format, Screen, Tone};
use crate::results::by_attempt;
use crate::target::{Found, Target, target};
use crate::{candidates, problem};

/// Explain where all nodes stand in a BroadcastJob or a DaemonSet, or why one does
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// Name of a BroadcastJob or else of a DaemonSet, also as cbj/NAME, cds/NAME or ds/NAME (one of apps/v1)
    #[arg(value_name = "JOB|SET", value_parser = target,
          add = ArgValueCandidates::new(candidates::jobs_and_sets))]
    target: Target,
    /// Every check of these nodes, what decides it, and what to write to change it. Separated by commas; can be
    /// repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = node_name,
          add = ArgValueCandidates::new(candidates::nodes))]
    node: Vec<String>,
    #[command(flatten)]
    output: Output,
}

pub(crate) async fn run(api: &Api, args: &Explain, screen: &mut Screen) -> Result<u8> {
    match args.target.find(api).await? {
        Found::Job(object) => of_job(api, args, &object, screen).await,
        Found::Set(object) => {
            daemon_set::run(api, (&args.node, &args.output), &object, screen).await
        }
    }
}

async fn of_job(api: &Api, args: &Explain, object: &Value, screen: &mut Screen) -> Result<u8> {
    let job = read::job(object);
    let name = &job.job.meta.owner.name;
    let family = family(api, object).await?.members;
    let own = family
        .iter()
        .find(|one| one.stored.job.meta.owner == job.job.meta.owner);
    let ledger = own.map_or_else(Ledger::default, |own| Ledger::read(&own.slices));
    let headers = !args.output.no_headers;
    let format = args.output.output;
    if args.node.is_empty() {
        let Some(nodes) = api.nodes_if_allowed().await? else {
            return without_nodes(name, "", format, screen);
        };
        let all = explain::job(&family, &job.job, &nodes);
        let headline = Progress::of(&job, &ledger).headline();
        if !screen.document(format, &all)? {
            print_job(&all, &headline, format, headers, screen)?;
        }
        return Ok(DONE);
    }
    let mut explained = Vec::new();
    for node in &args.node {
        let row = match api.node(node).await? {
            Asked::Found(row) => Some(row),
            Asked::Missing => None,
            Asked::NotAllowed => {
                let of_node = format!(" --node {node}");
                return without_nodes(name, &of_node, format, screen);
            }
        };
        let one = explain::node(&family, &job.job, node, row.as_ref(), Timestamp::now());
        let Some(one) = one else {
            let nodes = api.nodes().await?;
            let others: Vec<String> = nodes.keys().map(ToString::to_string).collect();
            return Err(problem::no_such_node(node, &others));
        };
        explained.push(one);
    }
    print_each(
        &explained,
        |one| &one.node_name,
        format,
        screen,
        |one, screen| print_node(one, headers, screen),
    )?;
    Ok(DONE)
}

/// What can be said to those who may not read nodes.
fn without_nodes(job: &str, flag: &str, format: Option<Format>, screen: &mut Screen) -> Result<u8> {
    let note = format!(
        "you may not read nodes ({}): what they say to the template is not known. What was done there: \
         kubectl carillon results {job}{flag}",
        problem::VIEW_NODES
    );
    if format.is_some() {
        bail!(note);
    }
    screen.line(&format!("note: {note}"))?;
    Ok(DONE)
}

fn print_job(
    all: &JobExplanation,
    headline: &str,
    format: Option<Format>,
    headers: bool,
    screen: &mut Screen,
) -> Result<()> {
    if format != Some(Format::Name) {
        screen.line(&format!("{}: {headline}", all.job))?;
        screen.blank()?;
    }
    print_groups((&all.groups, all.nodes), tone, (format, headers), screen)?;
    if format != Some(Format::Name) {
        screen.blank()?;
        screen.hint(&format!("Next: {}.", all.next))?;
    }
    Ok(())
}

fn print_node(one: &NodeExplanation, headers: bool, screen: &mut Screen) -> Result<()> {
    let reason = match one.reason.as_str() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    screen.painted(&[
        (Tone::Plain, &format!("{} in {}: ", one.node_name, one.job)),
        (tone(one.place), &format!("{:?}", one.place)),
        (Tone::Plain, &reason),
    ])?;
    screen.blank()?;
    let never_was = one.attempts.is_empty() && one.family.is_empty();
    if one.checks.is_empty() && never_was {
        screen.line("There is no such node.")?;
    } else if one.checks.is_empty() {
        screen.line("The Node object does not exist any more.")?;
    } else if matches!(one.place, Place::Succeeded | Place::Running) {
        screen.table(&checks(&one.checks), headers)?;
    } else {
        let template = "spec.template.spec of a new job";
        print_checks(&one.checks, template, headers, screen)?;
    }
    screen.blank()?;
    if one.attempts.is_empty() {
        screen.line("Nothing was started there.")?;
    } else {
        screen.table(&by_attempt(&one.attempts, false), headers)?;
    }
    for other in &one.family {
        screen.blank()?;
        screen.line(&format!("In {}:", other.job))?;
        screen.table(&by_attempt(&other.attempts, false), headers)?;
    }
    screen.blank()?;
    screen.hint(&format!("Next: {}.", one.next))
}

fn tone(place: Place) -> Tone {
    match place {
        Place::Succeeded => Tone::Good,
        Place::Failed => Tone::Bad,
        Place::Running | Place::Starting | Place::Waiting => Tone::Plain,
        Place::Retrying | Place::Interrupted | Place::NotStarted | Place::Gone | Place::Refused => {
            Tone::Care
        }
    }
}
