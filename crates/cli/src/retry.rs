//! `retry`: run nodes again, and only these.

use std::collections::BTreeMap;

use anyhow::{Error, Result, bail};
use carillon_api::names::ANNOTATION_RETRY;
use carillon_plan::view::ledger::Ledger;
use carillon_plan::view::progress::{Standing, standing};
use carillon_plan::view::retry::{self, Request};
use carillon_plan::view::{outcomes, read};
use clap::ArgGroup;
use clap_complete::ArgValueCandidates;
use serde_json::{Value, json};

use crate::args::JobName;
use crate::client::{Api, JOBS, code};
use crate::family::{Family, family};
use crate::render::{Screen, count, sample};
use crate::results::node_name;
use crate::{DONE, complete, problem};

/// How often a job that changes meanwhile is read again.
const TRIES: usize = 5;
/// Retries of one job that are looked for.
const MOST: u32 = 1000;

/// Run failed nodes again, and only these
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A job that is open is asked by an annotation, and tries these nodes again. For one that has ended a
new job JOB-retry-N is created, the same but for spec.nodeNames and spec.retryOf. Nodes that another
retry is already made for are left to it. A node that has succeeded, in the job or in one of its
retries, is never run again: Carillon sees to that, whoever made them.")]
#[group(skip)] // The group that is derived has every argument in it.
#[command(group = ArgGroup::new("which").required(true).multiple(false).args(["failed", "node"]))]
pub(crate) struct Retry {
    #[command(flatten)]
    job: JobName,
    /// All nodes that have failed; see results --failed
    #[arg(long)]
    failed: bool,
    /// These nodes, separated by commas. Can be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = node_name,
          add = ArgValueCandidates::new(complete::nodes))]
    node: Vec<String>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(api: &Api, args: &Retry, screen: &mut Screen) -> Result<u8> {
    let name = &args.job.job;
    let named = (!args.failed).then_some(&*args.node);
    for _ in 0..TRIES {
        let object = api.job(name).await?;
        let stored = read::job(&object);
        if standing(&stored.job).0.has_ended() && !stored.job.deleting {
            return again(api, args, &object, screen).await;
        }
        let slices = api.slices(&stored).await?;
        let chosen = retry::choose(&stored.job, &Ledger::read(&slices), named);
        let Request { value, nodes } =
            chosen.map_err(|problems| Error::msg(problems.join("\n")))?;
        let patch = json!({"metadata": {
            "annotations": {ANNOTATION_RETRY: value},
            // What was chosen holds for what was read.
            "resourceVersion": object["metadata"]["resourceVersion"],
        }});
        let sent = if args.dry_run {
            Ok(Value::Null)
        } else {
            api.merge(name, &patch).await
        };
        match sent {
            Ok(_) => {
                report(name, "tries again", &nodes, args, screen)?;
                if standing(&stored.job).0 == Standing::Paused {
                    tell_how_to_resume(name, screen);
                }
                return Ok(DONE);
            }
            Err(error) if code(&error) == Some(409) => {}
            Err(error) => {
                let what = format!("changing BroadcastJob {name}");
                return Err(api.explain(error, &what).await);
            }
        }
    }
    bail!("BroadcastJob {name} changed {TRIES} times meanwhile: try again");
}

/// Has a job that has ended tried again by a new one, as far as no other one does already.
async fn again(api: &Api, args: &Retry, object: &Value, screen: &mut Screen) -> Result<u8> {
    let named = (!args.failed).then_some(&*args.node);
    let Family { first, members } = family(api, object).await?;
    let chosen = retry::choose_again(&members, &args.job.job, named)
        .map_err(|problems| Error::msg(problems.join("\n")))?;
    if !chosen.nodes.is_empty() {
        let created = create(api, (object, &first), &chosen.nodes, args.dry_run).await?;
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
    Ok(DONE)
}

/// Creates the first `JOB-retry-N` that does not exist, and gives its name.
async fn create(
    api: &Api,
    (object, first): (&Value, &Value),
    nodes: &[String],
    dry_run: bool,
) -> Result<String> {
    let job = object["metadata"]["name"].as_str().unwrap_or_default();
    for number in 1..=MOST {
        let name = retry::name(job, number);
        let new = retry::again(object, first, &name, nodes);
        match api.create(JOBS, dry_run, &new).await {
            Ok(_) => return Ok(name),
            Err(error) if code(&error) == Some(409) => {}
            Err(kube::Error::Api(status)) if is_unknown(&status.message) => bail!(
                "the CRDs of the cluster are older than this program, and {name} would run where it \
                 must not: upgrade Carillon first ({})",
                problem::words(&status)
            ),
            Err(error) => return Err(api.explain(error, &format!("creating {name}")).await),
        }
    }
    bail!("{job} was tried again {MOST} times: delete some of these jobs");
}

/// Whether the API server does not know a field on which a retry relies.
fn is_unknown(message: &str) -> bool {
    let fields = ["spec.nodeNames", "spec.retryOf"];
    message.contains("unknown field") && fields.iter().any(|field| message.contains(field))
}

fn tell_how_to_resume(name: &str, screen: &mut Screen) {
    screen.aside(&format!("It is paused: kubectl carillon resume {name}"));
}

fn report(
    name: &str,
    what: &str,
    nodes: &[String],
    args: &Retry,
    screen: &mut Screen,
) -> Result<()> {
    let (number, shown) = (count(nodes.len(), "node"), sample(nodes, outcomes::SAMPLE));
    let dry = if args.dry_run { " (dry run)" } else { "" };
    screen.line(&format!(
        "broadcastjob.carillon.dev/{name} {what} {number}: {shown}{dry}"
    ))
}
