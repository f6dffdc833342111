//! `cargo xtask demo`: Carillon as its chart installs it, on fifty simulated nodes, running the
//! examples to their end.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::{self, Profile, Program};
use carillon_testbed::persistent::{self, Pending};
use carillon_testbed::{Cluster, Config, Operator, Options, tools};
use serde_json::{Value, json};

use crate::interrupt::{self, Interrupt};

mod cron_jobs;
mod daemon_set;
mod follow;
mod jobs;
mod outcome;
mod progress;
mod scenario;

use scenario::{CORDONED, Outcome, POOL, POOL_LABEL, Scene};

const NAME: &str = "demo";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Leave cluster and operators running at the end
    #[arg(long)]
    keep: bool,
}

/// Ends with 1 when a job did not end as it had to, and with 130 on Ctrl-C.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let fewest = scenario::FEWEST_NODES;
    ensure!(
        args.nodes >= fewest,
        "--nodes: the scripted failures need at least {fewest}"
    );
    let interrupt = Interrupt::catch()?;
    let outcome = play(args, &interrupt);
    if interrupt.came() {
        eprintln!("interrupted; everything that was started has ended");
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    outcome.map(|good| {
        if good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    })
}

/// All of it; whatever was started ends with the values in here, unless it is kept.
fn play(args: &Args, interrupt: &Interrupt) -> Result<bool> {
    let start = Instant::now();
    build(interrupt)?;
    step(&format!("starting a cluster with {} nodes", args.nodes));
    let stage = Stage::start(args)?;
    interrupt.check()?;
    let cluster = stage.cluster();
    prepare_nodes(cluster)?;
    let operators = install(cluster, args.keep)?;
    interrupt.check()?;

    cron_jobs::apply(cluster)?;
    daemon_set::apply(cluster)?;
    let scenes = scenario::scenes(args.nodes);
    let expected = apply(cluster, &scenes)?;
    let resumable = scenes
        .iter()
        .zip(&expected)
        .filter(|(scene, _)| scene.resume);
    let resumable: Vec<&str> = resumable.map(|(_, (name, _))| name.as_str()).collect();
    let expected: BTreeMap<String, Outcome> = expected.iter().cloned().collect();
    println!();
    let found = follow::follow(cluster, &expected, &resumable, interrupt)?;

    println!();
    let wrong = outcome::compare(&expected, &found);
    println!();
    outcome::print_failures(cluster, NAME)?;
    println!();
    // One node has joined.
    let updated = daemon_set::update(cluster, args.nodes + 1, interrupt)?;
    let crons = cron_jobs::outcome(cluster)?;
    interrupt.check()?;
    print_metrics(&operators)?;
    let seconds = start.elapsed().as_secs();
    let good = wrong.is_empty() && updated && crons;
    if good {
        println!(
            "\nall {} jobs ended as they had to, the DaemonSet is updated and both CronJobs have run, \
             {seconds}s after the start",
            expected.len()
        );
    } else {
        println!("\nnot as expected: {}", wrong.join(", "));
    }
    stage.end(operators)?;
    Ok(good)
}

fn step(text: &str) {
    println!("==> {text}");
}

fn build(interrupt: &Interrupt) -> Result<()> {
    step("building the operator, the control plane and helm (the first time: about 8 minutes)");
    // Side by side: neither compiler keeps two cores busy to its end.
    thread::scope(|scope| {
        let tools = scope.spawn(|| tools::control_plane().and_then(|_| tools::helm()));
        carillon::build(Program::Operator, Profile::Dev)?;
        let tools = tools.join().ok().context("building the tools panicked")?;
        tools.map(drop)
    })?;
    interrupt.check()
}

/// The cluster: ends with us, or is kept.
enum Stage {
    Ours(Cluster),
    Kept(Pending),
}

impl Stage {
    fn start(args: &Args) -> Result<Self> {
        let config = Config::new(NAME).with_nodes(args.nodes);
        if args.keep {
            persistent::start(&config).map(Self::Kept)
        } else {
            Cluster::start(&config).map(Self::Ours)
        }
    }

    fn cluster(&self) -> &Cluster {
        match self {
            Self::Ours(cluster) => cluster,
            Self::Kept(pending) => pending.cluster(),
        }
    }

    fn end(self, operators: Vec<Operator>) -> Result<()> {
        match self {
            Self::Ours(cluster) => {
                step("cleaning up");
                for operator in &operators {
                    operator.process.stop(Duration::from_secs(10))?;
                }
                drop((operators, cluster));
            }
            Self::Kept(pending) => {
                pending.keep(
                    operators
                        .into_iter()
                        .map(|operator| operator.process)
                        .collect(),
                )?;
                println!("\ncluster and operators stay up:");
                println!("  cargo xtask cluster kubectl --name {NAME} get cbj -A");
                println!(
                    "  eval \"$(cargo xtask cluster env --name {NAME})\"   # for your own kubectl"
                );
                println!("  cargo xtask cluster down --name {NAME}   # ends all of it");
            }
        }
        Ok(())
    }
}

/// Two nodes nobody may use, and four for one purpose only.
fn prepare_nodes(cluster: &Cluster) -> Result<()> {
    let (key, value) = POOL_LABEL;
    step(&format!(
        "cordoning {}, giving {} to the pool {value}",
        CORDONED.join(", "),
        POOL.join(", ")
    ));
    let on = |words: &[&str], nodes: &[&str], last: &[&str]| {
        let args: Vec<&str> = [words, nodes, last].concat();
        cluster.kubectl_ok(args).map(drop)
    };
    on(&["cordon"], &CORDONED, &[])?;
    on(&["label", "nodes"], &POOL, &[&format!("{key}={value}")])?;
    on(
        &["taint", "nodes"],
        &POOL,
        &[&format!("{key}={value}:NoSchedule")],
    )
}

/// The chart, and two operators with its ServiceAccount and its arguments.
fn install(cluster: &Cluster, detached: bool) -> Result<Vec<Operator>> {
    step("helm install carillon charts/carillon");
    let kubeconfig = carillon::install_chart(cluster, &[])?;
    let args = carillon::arguments(cluster)?;
    step(&format!(
        "two operators as the chart runs them: {}",
        args.join(" ")
    ));
    let launch = |number: usize| {
        let mut options = Options::new(&format!("carillon-{number}")).kubeconfig(&kubeconfig);
        options.args.clone_from(&args);
        options.detached = detached;
        Operator::launch(cluster, &options)
    };
    let operators = vec![launch(1)?, launch(2)?];
    for operator in &operators {
        operator.wait_ready()?;
        let (name, port) = (operator.process.name(), operator.http_port);
        println!("    {name}: http://127.0.0.1:{port}/metrics");
    }
    Ok(operators)
}

/// Applies the examples and gives each job's name with what is expected of it.
fn apply(cluster: &Cluster, scenes: &[Scene]) -> Result<Vec<(String, Outcome)>> {
    step(&format!(
        "applying {} of examples/, with failures scripted for some nodes",
        scenes.len()
    ));
    let manifests = scenes
        .iter()
        .map(Scene::manifest)
        .collect::<Result<Vec<Value>>>()?;
    let name = |job: &Value| job["metadata"]["name"].as_str().map(str::to_owned);
    let names: Option<Vec<String>> = manifests.iter().map(name).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    cluster.kubectl_ok(["create", "namespace", NAME])?;
    cluster.kubectl_stdin(["apply", "-n", NAME, "-f", "-"], &list.to_string())?;
    let names = names.context("an example has no name")?;
    Ok(names
        .into_iter()
        .zip(scenes.iter().map(|scene| scene.expected.clone()))
        .collect())
}

fn print_metrics(operators: &[Operator]) -> Result<()> {
    for operator in operators {
        let leads = operator.metric("leader_election_master_status{name=\"carillon\"}")? > 0.0;
        let role = if leads { "leads" } else { "follows" };
        let series = "carillon_broadcastjob_syncs_total{result=\"success\"}";
        let (name, port) = (operator.process.name(), operator.http_port);
        println!("{name} {role}: http://127.0.0.1:{port}/metrics");
        println!("  {series} {}", operator.metric(series)?);
    }
    Ok(())
}
