//! A small job in one namespace, with and without another namespace full of trouble: Jobs whose pods are
//! refused, BroadcastJobs with stray copies of their pods, and objects that come and go.

mod trouble;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::{AuditEvent, Cluster, Config, Operator, Options, wait};
use serde::Serialize;
use serde_json::{Value, json};

use self::trouble::Trouble;
use super::api_writes::{self, has_condition, seconds};
use super::quantile::quantile;
use super::{build_operator, machine, measured};
use crate::interrupt::Interrupt;

const LIMIT: Duration = Duration::from_mins(5);
const EVERY: Duration = Duration::from_millis(200);
/// What we want the p99 of the noisy case by that of the quiet one to be at most.
const GOAL: f64 = 2.0;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Jobs whose pods are refused
    #[arg(long, default_value_t = 2000)]
    broken_jobs: usize,
    /// BroadcastJobs with a stray copy of their pod
    #[arg(long, default_value_t = 200)]
    strays: usize,
    /// Objects that a loop creates and deletes at a time
    #[arg(long, default_value_t = 20)]
    loop_objects: usize,
    /// How often the loop does so at most
    #[arg(long, default_value_t = 200)]
    loops: usize,
    /// Small jobs that are measured, one after the other, in each case of a round
    #[arg(long, default_value_t = 30)]
    jobs: usize,
    /// How often each case is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many nodes there are
    #[arg(long, default_value_t = 20)]
    nodes: usize,
    /// Another operator than the one of this tree, such as that of an earlier version
    #[arg(long, value_name = "PATH")]
    operator: Option<PathBuf>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one small job took, in seconds from its creation, by the API server's clock.
#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    first_pod: f64,
    complete: f64,
}

/// One case of one round.
#[derive(Debug, Serialize)]
struct Sample {
    case: &'static str,
    round: usize,
    /// Reasons of the events of all small jobs.
    events: BTreeSet<String>,
    latencies: Vec<Latency>,
    /// How often the loop went round.
    loops: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: String,
    samples: Vec<Sample>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    if args.operator.is_none() {
        build_operator()?;
    }
    let mut report = Report {
        machine: String::new(),
        samples: Vec::new(),
    };
    for round in 1..=args.rounds {
        let mut cases = ["quiet", "noisy"];
        if round.is_multiple_of(2) {
            cases.reverse();
        }
        for case in cases {
            interrupt.check()?;
            // A cluster of its own: what one case leaves behind is no part of the other.
            let cluster = Cluster::start(Config::new("neighbour").with_nodes(args.nodes))?;
            if report.machine.is_empty() {
                report.machine = machine::line(&cluster);
            }
            let sample = measure(args, &cluster, case, round, interrupt)
                .with_context(|| format!("round {round}, {case}"))?;
            let complete = |share| quantile(sample.latencies.iter().map(|one| one.complete), share);
            eprintln!(
                "round {round}, {case}: complete after {:.2} s (p50), {:.2} s (p99)",
                complete(0.5),
                complete(0.99)
            );
            report.samples.push(sample);
        }
    }
    let told: BTreeSet<_> = report.samples.iter().map(|sample| &sample.events).collect();
    ensure!(
        told.len() == 1,
        "the events of the small jobs differ: {told:?}"
    );
    Ok(report)
}

fn measure(
    args: &Args,
    cluster: &Cluster,
    case: &'static str,
    round: usize,
    interrupt: &Interrupt,
) -> Result<Sample> {
    let kubeconfig = carillon::install_chart(cluster, &[])?;
    let mut options = Options::new("carillon").kubeconfig(kubeconfig);
    options.profile = Profile::Release;
    options.program.clone_from(&args.operator);
    options.args = carillon::arguments(cluster)?;
    let _operator = Operator::start(cluster, &options)?;
    let trouble = if case == "noisy" {
        Some(Trouble::make(args, cluster)?)
    } else {
        None
    };
    let mark = api_writes::mark(cluster)?;
    for number in 0..args.jobs {
        interrupt.check()?;
        small_job(cluster, number)?;
    }
    let loops = trouble.map_or(Ok(0), Trouble::end)?;
    let events = api_writes::since(cluster, mark)?;
    let latencies = (0..args.jobs).map(|number| latency(&events, &namespace(number)));
    let latencies = latencies.collect::<Result<_>>()?;
    let events = (0..args.jobs).map(|number| reasons(cluster, &namespace(number)));
    let events = events.collect::<Result<Vec<_>>>()?;
    for (number, told) in events.iter().enumerate() {
        ensure!(
            *told == events[0],
            "job {number} was told as {told:?}, another as {:?}",
            events[0]
        );
    }
    Ok(Sample {
        case,
        round,
        events: events.into_iter().flatten().collect(),
        latencies,
        loops,
    })
}

fn namespace(number: usize) -> String {
    format!("quiet-{number}")
}

/// A BroadcastJob for three nodes whose pods take a second.
fn small_job(cluster: &Cluster, number: usize) -> Result<()> {
    let namespace = namespace(number);
    cluster.kubectl_ok(["create", "namespace", &namespace])?;
    let nodes = ["node-0000", "node-0001", "node-0002"];
    let job = json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": "small", "namespace": namespace},
        "spec": {"nodeNames": nodes, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1.37"}]}}},
    });
    cluster.kubectl_stdin(["create", "-f", "-"], &job.to_string())?;
    let get = ["get", "cbj", "small", "-n", &namespace, "-o", "json"];
    let complete = || {
        let job: Value = serde_json::from_str(&cluster.kubectl_ok(get)?)?;
        let whole = job["status"]["succeeded"] == 3 && has_condition(&job["status"], "Complete");
        Ok(whole.then_some(()))
    };
    let hint = || cluster.kubectl_ok(get).unwrap_or_default();
    wait::until("a small job is Complete", LIMIT, EVERY, complete, hint)?;
    // The last event is written after the status.
    let told = || {
        Ok(reasons(cluster, &namespace)?
            .contains("JobComplete")
            .then_some(()))
    };
    wait::until("its end is told", LIMIT, EVERY, told, hint)
}

/// Reasons of the events about the job.
fn reasons(cluster: &Cluster, namespace: &str) -> Result<BTreeSet<String>> {
    let selector = "--field-selector=involvedObject.kind=BroadcastJob";
    let path = "jsonpath={.items[*].reason}";
    let text = cluster.kubectl_ok(["get", "events", "-n", namespace, selector, "-o", path])?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn latency(events: &[AuditEvent], namespace: &str) -> Result<Latency> {
    let here = || {
        events
            .iter()
            .filter(|event| event.namespace == namespace && event.is_stored_write())
    };
    let created = here()
        .find(|event| event.resource == "broadcastjobs" && event.verb == "create")
        .context("no creation of the job in the log")?;
    let pod = here()
        .find(|event| {
            event.resource == "pods" && event.verb == "create" && event.subresource.is_empty()
        })
        .context("no creation of a pod in the log")?;
    let complete = here()
        .filter(|event| event.resource == "broadcastjobs" && event.subresource == "status")
        .find(|event| {
            event
                .request_object
                .as_ref()
                .is_some_and(|body| has_condition(body, "Complete"))
        })
        .context("no write in the log made it Complete")?;
    let begin = seconds(&created.stage_time)?;
    Ok(Latency {
        first_pod: seconds(&pod.stage_time)? - begin,
        complete: seconds(&complete.stage_time)? - begin,
    })
}

impl Report {
    fn of(&self, case: &str) -> Vec<Latency> {
        let samples = self.samples.iter().filter(|sample| sample.case == case);
        samples
            .flat_map(|sample| sample.latencies.clone())
            .collect()
    }

    fn print(&self) {
        println!("{}\n", self.machine);
        println!(
            "| a small job | jobs | first pod p50 s | p99 s | Complete p50 s | p99 s |\n|---|---|---|---|---|---|"
        );
        let mut p99 = Vec::new();
        for case in ["quiet", "noisy"] {
            let all = self.of(case);
            let [first, complete]: [fn(&Latency) -> f64; 2] =
                [|one| one.first_pod, |one| one.complete];
            let at = |share, of: fn(&Latency) -> f64| quantile(all.iter().map(of), share);
            println!(
                "| {case} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
                all.len(),
                at(0.5, first),
                at(0.99, first),
                at(0.5, complete),
                at(0.99, complete)
            );
            p99.push([at(0.99, first), at(0.99, complete)]);
        }
        let ratio = |at: usize| p99[1][at] / p99[0][at];
        println!(
            "\nnoisy by quiet, p99: first pod {:.2}, Complete {:.2} (goal: at most {GOAL})",
            ratio(0),
            ratio(1)
        );
        let loops: usize = self.samples.iter().map(|sample| sample.loops).sum();
        println!("the loop went round {loops} times; all small jobs have the same events");
    }
}
