//! For how long nobody works when the leader goes: killed, told to stop, or frozen with its node.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carillon_testbed::process::Signal;
use carillon_testbed::{Cluster, Config, Operator, wait};
use serde::Serialize;
use serde_json::json;

use super::quantile::quantile;
use super::{build_operator, machine, measured};
use crate::interrupt::Interrupt;
use crate::replicas::Replicas;

const NAMESPACE: &str = "failover";
const LIMIT: Duration = Duration::from_mins(2);
const EVERY: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How often the leader goes in each way
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// How many nodes there are, and as many pods of a job that has completed: a new leader lists them first
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// How a leader goes.
#[derive(Clone, Copy, Debug, Serialize)]
enum Blow {
    /// SIGKILL, as by the kernel that is out of memory.
    Killed,
    /// SIGTERM, as by a rollout or a drain.
    Stopped,
    /// SIGSTOP: it neither works nor ends, as on a node that is frozen or cut off.
    Frozen,
}

impl Blow {
    const ALL: [Self; 3] = [Self::Killed, Self::Stopped, Self::Frozen];

    fn strike(self, leader: &Operator) -> Result<()> {
        leader.process.signal(match self {
            Self::Killed => Signal::KILL,
            Self::Stopped => Signal::TERM,
            Self::Frozen => Signal::STOP,
        })
    }
}

/// Seconds from a blow to the first pod of a job that was created right after it.
#[derive(Serialize)]
struct Gap {
    blow: Blow,
    seconds: Vec<f64>,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    gaps: Vec<Gap>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

impl Report {
    fn print(&self) {
        println!("{}\n", self.machine);
        println!("| the leader is | times | p50 | longest |");
        println!("|---|---|---|---|");
        for gap in &self.gaps {
            let seconds = || gap.seconds.iter().copied();
            println!(
                "| {:?} | {} | {:.1} s | {:.1} s |",
                gap.blow,
                gap.seconds.len(),
                quantile(seconds(), 0.5),
                quantile(seconds(), 1.0)
            );
        }
    }
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    build_operator()?;
    interrupt.check()?;
    let cluster = Cluster::start(Config::new("failover").with_nodes(args.nodes))?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    let mut replicas = Replicas::start(&cluster, 2)?;
    eprintln!("a job completes on {} nodes", args.nodes);
    create_job(&cluster, "before", None)?;
    let succeeded = [
        "get",
        "broadcastjob",
        "before",
        "-n",
        NAMESPACE,
        "-o=jsonpath={.status.succeeded}",
    ];
    let completed = || {
        let succeeded = cluster.kubectl_ok(succeeded)?;
        Ok((succeeded.trim() == args.nodes.to_string()).then_some(()))
    };
    wait::until(
        "the first job has completed",
        LIMIT * 5,
        EVERY,
        completed,
        String::new,
    )?;
    let mut gaps = Vec::new();
    let mut jobs = 0;
    for blow in Blow::ALL {
        let mut seconds = Vec::new();
        for _ in 0..args.rounds {
            interrupt.check()?;
            let one = || Ok(replicas.leader());
            let leader = wait::until("one replica leads", LIMIT, EVERY, one, String::new)?;
            let begin = Instant::now();
            blow.strike(&replicas.running[leader].1)?;
            jobs += 1;
            let name = format!("job-{jobs}");
            create_job(&cluster, &name, Some("node-0000"))?;
            wait_for_pod(&cluster, &name)?;
            let gap = begin.elapsed().as_secs_f64();
            eprintln!("{blow:?}: {gap:.2} s");
            seconds.push(gap);
            replicas.replace(leader)?;
        }
        gaps.push(Gap { blow, seconds });
    }
    Ok(Report {
        machine: machine::line(&cluster),
        gaps,
    })
}

/// On one node, or on all.
fn create_job(cluster: &Cluster, name: &str, node: Option<&str>) -> Result<()> {
    let mut job = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1.37", "command": ["true"]}],
        }}},
    });
    if let Some(node) = node {
        job["spec"]["nodeNames"] = json!([node]);
    }
    let created = cluster.kubectl_stdin(["create", "-f", "-"], &job.to_string());
    created.map(drop).context("creating a BroadcastJob")
}

fn wait_for_pod(cluster: &Cluster, name: &str) -> Result<()> {
    let label = format!("carillon.dev/broadcastjob-name={name}");
    let there = || {
        let pods = ["get", "pods", "-n", NAMESPACE, "-l", &label, "-o", "name"];
        let pods = cluster.kubectl_ok(pods)?;
        Ok((!pods.trim().is_empty()).then_some(()))
    };
    let what = format!("there is a pod of {name}");
    wait::until(&what, LIMIT, EVERY, there, String::new)
}
