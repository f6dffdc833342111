//! A BroadcastJob while an admission webhook takes its time for each pod.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::{Cluster, Config, Operator, Options, SlowWebhook, wait};
use serde::Serialize;
use serde_json::json;

use super::{build_operator, machine, measured, template};
use crate::interrupt::Interrupt;

const NAMESPACE: &str = "webhook";
const DELAYS: [u64; 3] = [0, 2, 5];
const LIMIT: Duration = Duration::from_hours(2);
const EVERY: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many nodes, and so pods
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Another build of the operator to measure
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Further argument of the operator; may be given more than once
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    operator_arg: Vec<String>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One job.
#[derive(Serialize)]
struct Sample {
    /// What the webhook took for each pod.
    delay_seconds: u64,
    /// From the creation of the job to its end.
    wall_seconds: f64,
    succeeded: usize,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    samples: Vec<Sample>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

impl Report {
    fn print(&self) {
        println!("{}\n", self.machine);
        println!("| webhook | wall | pods per second |");
        println!("|---|---|---|");
        for sample in &self.samples {
            println!(
                "| {} s | {:.1} s | {:.1} |",
                sample.delay_seconds,
                sample.wall_seconds,
                sample.succeeded as f64 / sample.wall_seconds
            );
        }
    }
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    if args.operator.is_none() {
        build_operator()?;
    }
    interrupt.check()?;
    eprintln!("starting a cluster with {} nodes", args.nodes);
    let cluster = Cluster::start(Config::new("webhook").with_nodes(args.nodes))?;
    interrupt.check()?;
    let kubeconfig = carillon::install_chart(&cluster, &[])?;
    let mut options = Options::new("carillon").kubeconfig(kubeconfig);
    options.profile = Profile::Release;
    options.program.clone_from(&args.operator);
    options.args = [carillon::arguments(&cluster)?, args.operator_arg.clone()].concat();
    let _operator = Operator::start(&cluster, &options)?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    let webhook = SlowWebhook::start(&cluster)?;
    let configuration = webhook.configuration(NAMESPACE).to_string();
    cluster.kubectl_stdin(["create", "-f", "-"], &configuration)?;
    let mut samples = Vec::new();
    for delay in DELAYS {
        interrupt.check()?;
        webhook.set_delay(Duration::from_secs(delay));
        let sample = measure(&cluster, delay, args.nodes)?;
        eprintln!("{delay} s: {:.1} s wall", sample.wall_seconds);
        samples.push(sample);
    }
    Ok(Report {
        machine: machine::line(&cluster),
        samples,
    })
}

fn measure(cluster: &Cluster, delay: u64, nodes: usize) -> Result<Sample> {
    let name = format!("after-{delay}");
    let job = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": template()},
    });
    let begin = Instant::now();
    cluster.kubectl_stdin(["create", "-f", "-"], &job.to_string())?;
    let path = "-o=jsonpath={.status.succeeded}";
    let done = || {
        let got = cluster.kubectl_ok(["get", "broadcastjob", &name, "-n", NAMESPACE, path])?;
        let succeeded: usize = got.trim().parse().unwrap_or_default();
        Ok((succeeded == nodes).then_some(succeeded))
    };
    let what = format!("{name} has succeeded on {nodes} nodes");
    let succeeded = wait::until(&what, LIMIT, EVERY, done, String::new)?;
    let wall_seconds = begin.elapsed().as_secs_f64();
    cluster.kubectl_ok(["delete", "broadcastjob", &name, "-n", NAMESPACE])?;
    let gone = || {
        let pods = cluster.kubectl_ok(["get", "pods", "-n", NAMESPACE, "-o", "name"])?;
        Ok(pods.trim().is_empty().then_some(()))
    };
    let what = format!("the pods of {name} are gone");
    wait::until(&what, LIMIT, EVERY, gone, String::new)?;
    Ok(Sample {
        delay_seconds: delay,
        wall_seconds,
        succeeded,
    })
}
