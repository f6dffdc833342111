//! What the operator reads while it serves a BroadcastJob, where it serves Jobs, too, and where not.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::{Cluster, Config, Operator, Options};
use serde::Serialize;
use serde_json::{Value, json};

use super::{build_operator, machine, measured, template};
use crate::interrupt::Interrupt;

const NAMESPACE: &str = "reads";
/// What was begun before is done, and what a run leaves to do, too.
const SETTLE: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many nodes, and so pods
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// How often each of the two is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Another build of the operator to measure
    #[arg(long, value_name = "FILE")]
    operator: Option<PathBuf>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One BroadcastJob.
#[derive(Serialize)]
struct Sample {
    round: usize,
    /// Whether there is a Job that the operator serves.
    serves_jobs: bool,
    /// What the API server has sent to the operator, encrypted as it was.
    received_bytes: u64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    nodes: usize,
    samples: Vec<Sample>,
}

impl Report {
    fn print(&self) {
        println!("{}\n", self.machine);
        println!("| round | a Job is served | MB received | KB per pod | CPU s | peak RSS MB |");
        println!("|---|---|---|---|---|---|");
        for sample in &self.samples {
            let received = sample.received_bytes as f64;
            println!(
                "| {} | {} | {:.1} | {:.1} | {:.2} | {:.0} |",
                sample.round,
                if sample.serves_jobs { "yes" } else { "no" },
                received / 1e6,
                received / 1e3 / self.nodes as f64,
                sample.cpu_seconds,
                sample.peak_rss_bytes as f64 / 1e6
            );
        }
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    if args.operator.is_none() {
        build_operator()?;
    }
    interrupt.check()?;
    eprintln!("starting a cluster with {} nodes", args.nodes);
    let cluster = Cluster::start(Config::new("reads").with_nodes(args.nodes))?;
    interrupt.check()?;
    let kubeconfig = carillon::install_chart(&cluster, &[])?;
    let relay = Relay::start(&cluster)?;
    let kubeconfig = relay.kubeconfig(&cluster, &kubeconfig)?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    let mut samples = Vec::new();
    for round in 1..=args.rounds {
        for serves_jobs in [false, true] {
            interrupt.check()?;
            let mut options = Options::new("carillon").kubeconfig(&kubeconfig);
            options.profile = Profile::Release;
            options.program.clone_from(&args.operator);
            options.args = carillon::arguments(&cluster)?;
            let job = suspended_job().to_string();
            if serves_jobs {
                cluster.kubectl_stdin(["create", "-f", "-"], &job)?;
            }
            let operator = Operator::start(&cluster, &options)?;
            let sample = measure(&cluster, &operator, &relay, (round, serves_jobs))?;
            eprintln!(
                "round {round}, a Job is served: {serves_jobs}: {:.1} MB",
                sample.received_bytes as f64 / 1e6
            );
            samples.push(sample);
            if serves_jobs {
                cluster.kubectl_stdin(["delete", "-f", "-"], &job)?;
            }
            operator.process.stop(GRACE)?;
        }
    }
    Ok(Report {
        machine: machine::line(&cluster),
        nodes: args.nodes,
        samples,
    })
}

fn measure(
    cluster: &Cluster,
    operator: &Operator,
    relay: &Relay,
    (round, serves_jobs): (usize, bool),
) -> Result<Sample> {
    sleep(SETTLE);
    let (received, before) = (relay.received(), operator.usage()?);
    let job = broadcast_job().to_string();
    cluster.kubectl_stdin(["create", "-f", "-"], &job)?;
    let object = ["broadcastjob/reads", "-n", NAMESPACE, "--timeout=10m"];
    cluster.kubectl_ok([&["wait", "--for=condition=Complete"][..], &object].concat())?;
    sleep(SETTLE);
    let after = operator.usage()?;
    let sample = Sample {
        round,
        serves_jobs,
        received_bytes: relay.received() - received,
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        peak_rss_bytes: after.peak_rss_bytes,
    };
    cluster.kubectl_ok([&["delete", "--cascade=foreground"][..], &object].concat())?;
    Ok(sample)
}

fn broadcast_job() -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": "reads", "namespace": NAMESPACE},
        "spec": {"template": template()},
    })
}

/// A Job that the operator serves, and that has no pods.
fn suspended_job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "served", "namespace": NAMESPACE},
        "spec": {
            "managedBy": "carillon.dev/job-controller", "suspend": true, "template": template(),
        },
    })
}

/// Passes connections on to the API server, and counts what comes back.
struct Relay {
    port: u16,
    received: Arc<AtomicU64>,
}

impl Relay {
    fn start(cluster: &Cluster) -> Result<Self> {
        let server = cluster.server();
        let address = server
            .strip_prefix("https://")
            .context("not https")?
            .to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        // It ends with this process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(&address) {
                    drop(pass_on(client, server, counter.clone()));
                }
            }
        });
        Ok(Self { port, received })
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The same kubeconfig, through the relay.
    fn kubeconfig(&self, cluster: &Cluster, kubeconfig: &Path) -> Result<PathBuf> {
        let through = format!("https://127.0.0.1:{}", self.port);
        let text = fs::read_to_string(kubeconfig)?.replace(&cluster.server(), &through);
        let path = cluster.dir().join("relay.kubeconfig");
        fs::write(&path, text)?;
        Ok(path)
    }
}

fn pass_on(client: TcpStream, server: TcpStream, received: Arc<AtomicU64>) -> io::Result<()> {
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(from_client, to_server, &AtomicU64::new(0)));
    thread::spawn(move || copy(server, client, &received));
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer)
        && read > 0
        && to.write_all(&buffer[..read]).is_ok()
    {
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
    for end in [&from, &to] {
        drop(end.shutdown(Shutdown::Both));
    }
}
