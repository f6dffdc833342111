//! `cargo xtask cluster`: named clusters that stay up between commands.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use carillon_nodes::{Kept, Network, Nodes, machine};
use carillon_testbed::persistent::{self, Status};
use carillon_testbed::{Audit, Config};
use clap::{Subcommand, ValueEnum};

use crate::exit_code;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which cluster; several can be up side by side
    #[arg(long, global = true, default_value = "dev")]
    name: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster and wait until its nodes are Ready (builds the programs the first time)
    Up(Up),
    /// End a cluster and remove its data
    Down,
    /// Show all clusters and what runs of them
    Status,
    /// Run kubectl against a cluster: cargo xtask cluster kubectl get nodes
    #[command(disable_help_flag = true)]
    Kubectl {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Print what a shell needs: eval "$(cargo xtask cluster env)"
    Env,
}

#[derive(clap::Args)]
struct Up {
    /// How many simulated nodes
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// How many real nodes instead: kubelet, containerd, containers (Linux, root, a few packages)
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u8).range(1..=9))]
    #[arg(conflicts_with_all = ["nodes", "no_controller_manager", "node_lease_seconds"])]
    real_nodes: Option<u8>,
    /// An image that each real node has from the beginning, as a docker-archive; can be repeated
    #[arg(long, value_name = "FILE", requires = "real_nodes")]
    image: Vec<PathBuf>,
    /// What goes to the audit log
    #[arg(long, value_enum, default_value_t = AuditLevel::Requests)]
    audit: AuditLevel,
    /// Do not start kube-scheduler
    #[arg(long)]
    no_scheduler: bool,
    /// Do not start kube-controller-manager
    #[arg(long)]
    no_controller_manager: bool,
    /// Duration of the nodes' leases; each is renewed after a quarter of it. With 1,000 nodes, 120
    /// spares 70 writes a second
    #[arg(long, value_name = "SECONDS", default_value_t = 40)]
    node_lease_seconds: u32,
    /// A further argument of kube-apiserver; can be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    apiserver_arg: Vec<String>,
    /// A further argument of kube-controller-manager, such as --controllers=*,-job-controller
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    controller_manager_arg: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum AuditLevel {
    /// No audit log
    Off,
    /// Bodies of writes of pods, jobs, leases and our kinds
    Requests,
    /// Their answers, too
    Responses,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let name = &args.name;
    match &args.command {
        Command::Up(options) => up(name, options)?,
        Command::Down => {
            down(name)?;
            println!("cluster {name} is down");
        }
        Command::Status => return status(),
        Command::Kubectl { args } => return kubectl(name, args),
        Command::Env => {
            let status = persistent::status(name)?;
            println!(
                "export KUBECONFIG={}",
                quoted(&status.kubeconfig.display().to_string())
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn up(name: &str, options: &Up) -> Result<()> {
    // Nodes know of no working directory.
    let images = options.image.iter().map(|file| {
        let path = file.canonicalize();
        path.with_context(|| format!("--image {}", file.display()))
    });
    let images = images.collect::<Result<Vec<PathBuf>>>()?;
    end_orphans(name)?;
    let network = match options.real_nodes {
        Some(_) => {
            machine::check()?;
            Some(Network::create()?)
        }
        None => None,
    };
    let mut config = match &network {
        Some(network) => carillon_nodes::config(name, network),
        None => Config::new(name).with_nodes(options.nodes),
    };
    config.scheduler = !options.no_scheduler;
    config.controller_manager = !options.no_controller_manager;
    config.node_lease_seconds = options.node_lease_seconds;
    config
        .apiserver_args
        .extend_from_slice(&options.apiserver_arg);
    config
        .controller_manager_args
        .clone_from(&options.controller_manager_arg);
    config.audit = match options.audit {
        AuditLevel::Off => Audit::Off,
        AuditLevel::Requests => Audit::Requests,
        AuditLevel::Responses => Audit::Responses,
    };
    let (nodes, kind) = match options.real_nodes {
        Some(nodes) => (usize::from(nodes), "real nodes"),
        None => (options.nodes, "nodes"),
    };
    eprintln!("starting cluster {name} with {nodes} {kind}");
    let start = Instant::now();
    let pending = persistent::start(&config)?;
    let status = match (network, options.real_nodes) {
        (Some(network), Some(count)) => {
            let nodes = Nodes::start(pending.cluster(), network, count, &images)?;
            let dir = pending.cluster().dir().to_owned();
            nodes.keep(&dir, |further| pending.keep(further))?
        }
        _ => pending.keep(Vec::new())?,
    };
    println!(
        "cluster {name} is up after {:.1}s: {}",
        start.elapsed().as_secs_f64(),
        status.server
    );
    println!("  cargo xtask cluster kubectl --name {name} get nodes");
    println!("  eval \"$(cargo xtask cluster env --name {name})\"   # for your own kubectl");
    println!("  cargo xtask cluster down --name {name}");
    Ok(())
}

/// Ends the nodes of a cluster of this name whose control plane has died: nobody knows of them once it starts again.
fn end_orphans(name: &str) -> Result<()> {
    let Ok(status) = persistent::status(name) else {
        return Ok(());
    };
    if status.components.iter().any(|(_, _, alive)| *alive) {
        return Ok(());
    }
    end_nodes(name)
}

fn end_nodes(name: &str) -> Result<()> {
    let nodes = Kept::of(&persistent::attach(name)?)?;
    nodes.map_or(Ok(()), |nodes| nodes.end())
}

fn down(name: &str) -> Result<()> {
    // First what only the cluster's directory knows of.
    end_nodes(name)?;
    persistent::down(name)
}

/// Fails when a cluster has lost a component, so that a script sees it.
fn status() -> Result<ExitCode> {
    let names = persistent::names()?;
    if names.is_empty() {
        println!("no clusters; `cargo xtask cluster up` starts one");
    }
    let all = names
        .iter()
        .map(|name| persistent::status(name))
        .collect::<Result<Vec<Status>>>()?;
    for status in &all {
        let state = if status.is_up() { "up" } else { "broken" };
        println!("{}: {state}, {}", status.name, status.server);
        println!("  kubeconfig {}", status.kubeconfig.display());
        let components = status.components.iter();
        let components = components.map(|(component, pid, alive)| (component.name(), pid, alive));
        let further = status.further.iter();
        let further = further.map(|(process, pid, alive)| (process.as_str(), pid, alive));
        for (process, pid, alive) in components.chain(further) {
            let state = if *alive { "runs" } else { "has ended" };
            println!("  {process:<24} pid {pid:<8} {state}");
        }
    }
    let broken = all.iter().any(|status| !status.is_up());
    Ok(if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn kubectl(name: &str, args: &[OsString]) -> Result<ExitCode> {
    let mut command = persistent::attach(name)?.kubectl_command();
    let status = command.args(args).status().context("running kubectl")?;
    Ok(exit_code(status))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
