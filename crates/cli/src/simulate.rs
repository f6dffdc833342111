//! `simulate`: what a manifest would do on many nodes, without a cluster.

mod play;
#[cfg(test)]
mod recording;

use anyhow::{Context, Result, bail};
use carillon_simulate::{
    Assumptions, AtLimit, Distribution, Report, Sample, Share, generate, like, run as simulate,
};
use jiff::SignedDuration;
use serde_json::Value;

use crate::apply::any_run_of;
use crate::client::{Api, block_on};
use crate::exit::{DONE, NOT_ALL};
use crate::flags::{Global, Output};
use crate::manifest;
use crate::render::{Cell, Format, Screen, Table, Tone, count, duration, eta};
use crate::top::draw::Paint;

/// Show what a manifest would do on many nodes, in seconds and without a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # 10,000 nodes, of which 2% fail
  kubectl carillon simulate -f job.yaml --nodes 10000 --fail 2% --duration lognormal:30s,0.5

  # As squares that change
  kubectl carillon simulate -f job.yaml --grid

  # On nodes like those of the cluster, which is only read
  kubectl carillon simulate -f job.yaml --from-cluster

The operator's own code runs against a simulated cluster, whose clock jumps from one event to the next. Assumed
are: how long containers run and start, which fail, how long the API server takes, and that every pod that may run on
a node finds room there. Quotas, admission webhooks, other pods and nodes that fail are not simulated.

Exit codes: 0 it would end well; 2 it would fail, stop or never end, a node would fail, or none be served; 1 error.")]
pub(crate) struct Simulate {
    /// File or directory with BroadcastJobs, DaemonSets, Jobs and CronJobs (one run of each), YAML or JSON; - is
    /// standard input
    #[arg(short, long, value_name = "FILE")]
    filename: String,
    /// How many nodes there are, in three zones
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// A label that all nodes have. Can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    node_label: Vec<(String, String)>,
    /// Nodes like those of the cluster: names, labels, taints, readiness and room are read from there
    #[arg(long, conflicts_with_all = ["nodes", "node_label"])]
    from_cluster: bool,
    /// How long a container runs: 30s, uniform:10s,1m or lognormal:30s,0.5 (median, sigma). One of a DaemonSet runs
    /// for ever, and so long where it fails
    #[arg(long, value_name = "TIME", default_value = "lognormal:30s,0.5")]
    duration: Distribution,
    /// How long it takes from a pod's binding until its container runs
    #[arg(long, value_name = "TIME", default_value = "2s")]
    start: Distribution,
    /// Nodes on which every attempt fails
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    fail: Share,
    /// Attempts that fail on the other nodes
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    flaky: Share,
    /// The exit code of containers that fail
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(i32).range(1..=255))]
    exit_code: i32,
    /// How long the API server takes to answer, at most 10s
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = latency)]
    api_latency: SignedDuration,
    /// Chooses which nodes fail and what takes how long: the same number gives the same run
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Play a BroadcastJob in the squares of `top`, on a terminal; the tables follow
    #[arg(long, conflicts_with = "output")]
    grid: bool,
    /// How many seconds of the run --grid plays in one; without it a run takes 20 seconds
    #[arg(long, value_name = "N", requires = "grid", value_parser = clap::value_parser!(u32).range(1..))]
    speed: Option<u32>,
    #[command(flatten)]
    output: Output,
}

fn latency(text: &str) -> Result<SignedDuration, String> {
    let time = text.parse().ok();
    let bounds = SignedDuration::ZERO..=SignedDuration::from_secs(10);
    time.filter(|time| bounds.contains(time))
        .ok_or_else(|| format!("{text:?}: write 10ms, at most 10s"))
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no label: write KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn run(global: &Global, args: &Simulate, screen: &mut Screen) -> Result<u8> {
    if args.output.output == Some(Format::Name) {
        bail!("-o name: a simulation has no names to print; -o json has the nodes");
    }
    let paint = if args.grid {
        let (color, unicode) = screen
            .paint()
            .context("--grid: standard output is no terminal")?;
        Some(Paint { color, unicode })
    } else {
        None
    };
    let kinds = ["BroadcastJob", "DaemonSet", "Job", "CronJob"];
    let wanted = |object: &Value| kinds.iter().any(|kind| object["kind"] == *kind);
    let what = kinds.join(", ");
    let objects = block_on(manifest::read(&args.filename, &what, wanted, screen))?;
    let nodes = if args.from_cluster {
        let nodes = async { Api::connect(&global.target()).await?.node_objects().await };
        block_on(nodes)?.iter().map(like).collect()
    } else {
        generate(args.nodes as usize, &args.node_label)
    };
    if nodes.is_empty() {
        bail!("the cluster has no nodes");
    }
    let assumptions = Assumptions {
        duration: args.duration,
        start: args.start,
        fail: args.fail,
        flaky: args.flaky,
        exit_code: args.exit_code,
        api_latency: args.api_latency,
        seed: args.seed,
    };
    let mut reports = Vec::new();
    for object in objects {
        let mut object = any_run_of(&object).unwrap_or(object);
        if let (Some(namespace), true) =
            (&global.namespace, object["metadata"]["namespace"].is_null())
        {
            object["metadata"]["namespace"] = Value::from(&**namespace);
        }
        reports.push(simulate(&object, &nodes, &assumptions)?);
    }
    if let Some(paint) = paint {
        for report in &reports {
            if report.served.is_empty() {
                screen.aside(&format!(
                    "{}: --grid plays BroadcastJobs that serve a node",
                    report.name
                ));
            } else {
                block_on(play::play(report, args.speed, paint))?;
            }
        }
    }
    if !screen.documents(args.output.output, &reports, false)? {
        for (at, report) in reports.iter().enumerate() {
            if at > 0 {
                screen.blank()?;
            }
            print(report, args, screen)?;
        }
    }
    let good = reports.iter().all(|report| report.end.good);
    Ok(if good { DONE } else { NOT_ALL })
}

fn print(report: &Report, args: &Simulate, screen: &mut Screen) -> Result<()> {
    let mut assumed = format!(
        "{} on {}: containers run {}",
        report.name,
        count(report.nodes, "node"),
        args.duration
    );
    for (what, share) in [("fail", args.fail), ("flaky", args.flaky)] {
        if share != Share::NONE {
            assumed = format!("{assumed}, {what} {share}");
        }
    }
    screen.line(&assumed)?;
    screen.blank()?;
    screen.table(&timeline(&report.timeline), !args.output.no_headers)?;
    screen.blank()?;
    let end = &report.end;
    let tone = match (end.good, end.ended) {
        (true, _) => Tone::Good,
        (false, true) => Tone::Bad,
        (false, false) => Tone::Care,
    };
    let after = duration(end.after_seconds);
    let when = if end.ended {
        format!("After {after}: ")
    } else {
        format!("Nothing changes after {after}: ")
    };
    screen.painted(&[(Tone::Plain, &when), (tone, &end.headline)])?;
    screen.line(&format!(
        "pods      {} created, at most {} at a time",
        report.created_pods, report.most_pods
    ))?;
    let requests = &report.requests;
    let verbs = requests.by_verb.iter();
    let verbs: Vec<String> = verbs
        .map(|(verb, count)| format!("{verb} {count}"))
        .collect();
    screen.line(&format!(
        "requests  {} writes, at most {} in a second ({})",
        requests.writes,
        requests.most_writes_per_second,
        verbs.join(", ")
    ))?;
    screen.line(&format!("simulated in {:.1}s", report.real_seconds))?;
    if report.at_limit.is_empty() {
        return Ok(());
    }
    screen.blank()?;
    screen.table(&limits(&report.at_limit), !args.output.no_headers)
}

/// With which limit of failed nodes it would have stopped, and when.
fn limits(at_limit: &[AtLimit]) -> Table {
    let mut table = Table::new(&["MAX-FAILED-NODES", "EXCEEDED-AFTER", "PODS-CREATED"]);
    for limit in at_limit {
        table.row([
            limit.max_failed_nodes.to_string().into(),
            duration(limit.seconds).into(),
            limit.created_pods.to_string().into(),
        ]);
    }
    table
}

/// The first sample, the last, and one for each tenth between them.
fn timeline(samples: &[Sample]) -> Table {
    let mut table = Table::new(&[
        "TIME", "DONE", "ACTIVE", "FAILED", "WAITING", "REFUSED", "ETA",
    ]);
    let last = samples.len().saturating_sub(1);
    let mut shown = 0;
    for (at, sample) in samples.iter().enumerate() {
        let ended = sample.done + sample.failed;
        let tenth = 10 * ended / (ended + sample.active + sample.waiting).max(1);
        if at != 0 && at != last && tenth <= shown {
            continue;
        }
        shown = tenth;
        let failed = if sample.failed > 0 {
            Tone::Bad
        } else {
            Tone::Plain
        };
        table.row([
            Cell::from(duration(sample.seconds)),
            sample.done.to_string().into(),
            sample.active.to_string().into(),
            Cell::new(sample.failed.to_string(), failed),
            sample.waiting.to_string().into(),
            sample.refused.to_string().into(),
            eta(sample.eta, true).into(),
        ]);
    }
    table
}
