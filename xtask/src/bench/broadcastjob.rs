//! A BroadcastJob on each of many nodes, and a native Job of as many pods, in turns on one cluster.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::process::Usage;
use carillon_testbed::{Cluster, Component, Config, Operator, Options};
use serde_json::{Value, json};

use super::report::{OURS, Report, Sample, THEIRS};
use super::{api_writes, build_operator, machine, template};
use super::{bytes_per_cached, reported};
use crate::interrupt::{self, Interrupt};

const NAMESPACE: &str = "bench";
const NAME: &str = "bench";
/// With kube-controller-manager's default of 20 requests a second its limit would be measured.
const CLIENT_LIMITS: [&str; 3] = [
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
    "--concurrent-job-syncs=5",
];
/// Before a run: what the last one left to do is done. After it: the last finalizers go.
const SETTLE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(2);

pub(super) fn run(args: &super::Run) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    let Some(report) = reported(measure, Report::print, args.json.as_deref())? else {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    };
    if !report.one_pod_per_node() {
        eprintln!("error: not exactly one pod for each node, see above");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure_all(args: &super::Run, interrupt: &Interrupt) -> Result<Report> {
    build_operator()?;
    interrupt.check()?;
    eprintln!("starting a cluster with {} nodes", args.nodes);
    let mut config = Config::new(NAME).with_nodes(args.nodes);
    config
        .controller_manager_args
        .extend(CLIENT_LIMITS.map(str::to_owned));
    let cluster = Cluster::start(&config)?;
    eprintln!(
        "kube-controller-manager runs with {}",
        CLIENT_LIMITS.join(" ")
    );
    interrupt.check()?;
    let operator = start_operator(&cluster)?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;

    let mut samples = Vec::new();
    for round in 1..=args.rounds {
        for kind in [THEIRS, OURS] {
            interrupt.check()?;
            eprint!("round {round}, {kind}: ");
            let sample = measure(&cluster, &operator, kind, round, args.nodes)?;
            eprintln!(
                "{:.2}s wall, {:.2}s CPU, {} pods on {} nodes; others on this machine {:.0}s CPU",
                sample.wall_seconds,
                sample.cpu_seconds,
                sample.pods_created,
                sample.nodes_bound,
                sample.stranger_cpu_seconds
            );
            samples.push(sample);
            interrupt.check()?;
            remove(&cluster, kind)?;
        }
    }
    Ok(Report::new(machine::line(&cluster), args.nodes, samples))
}

/// The operator as users run it: release profile, the chart's rights and arguments.
fn start_operator(cluster: &Cluster) -> Result<Operator> {
    let kubeconfig = carillon::install_chart(cluster, &[])?;
    let mut options = Options::new("carillon").kubeconfig(kubeconfig);
    options.profile = Profile::Release;
    options.args = carillon::arguments(cluster)?;
    eprintln!("the operator runs with {}", options.args.join(" "));
    Operator::start(cluster, &options)
}

/// Processes whose cost is read before and after a run.
struct Costs {
    controller_manager: Usage,
    operator: Usage,
    apiserver: Usage,
    /// CPU seconds of the whole control plane, kwok included.
    cluster: f64,
    /// CPU seconds of everything on the machine.
    machine: f64,
}

impl Costs {
    fn now(cluster: &Cluster, operator: &Operator) -> Result<Self> {
        Ok(Self {
            cluster: machine::control_plane_seconds(cluster)?,
            machine: machine::busy_seconds()?,
            controller_manager: cluster.usage(Component::ControllerManager)?,
            operator: operator.usage()?,
            apiserver: cluster.usage(Component::ApiServer)?,
        })
    }
}

fn measure(
    cluster: &Cluster,
    operator: &Operator,
    kind: &'static str,
    round: usize,
    nodes: usize,
) -> Result<Sample> {
    sleep(SETTLE);
    let mark = api_writes::mark(cluster)?;
    let before = Costs::now(cluster, operator)?;
    cluster.kubectl_stdin(["create", "-f", "-"], &manifest(kind, nodes).to_string())?;
    let object = format!("{kind}/{NAME}");
    let complete = [
        "wait",
        &object,
        "-n",
        NAMESPACE,
        "--for=condition=Complete",
        "--timeout=10m",
    ];
    cluster.kubectl_ok(complete)?;
    sleep(AFTER);
    let after = Costs::now(cluster, operator)?;
    let events = api_writes::since(cluster, mark)?;

    let spent = |of: fn(&Costs) -> Usage| of(&after).cpu_seconds - of(&before).cpu_seconds;
    let (theirs, ours) = (spent(|c| c.controller_manager), spent(|c| c.operator));
    let is_ours = kind == OURS;
    let (server, resource) = if is_ours {
        (after.operator, "broadcastjobs")
    } else {
        (after.controller_manager, "jobs")
    };
    let timeline = api_writes::timeline(&events, resource, NAMESPACE)?;
    let writes = api_writes::by_verb(&events, |user| is_server(user, is_ours));
    Ok(Sample {
        kind,
        round,
        wall_seconds: timeline.complete,
        timeline,
        cpu_seconds: if is_ours { ours } else { theirs },
        bystander_cpu_seconds: if is_ours { theirs } else { ours },
        apiserver_cpu_seconds: spent(|c| c.apiserver),
        stranger_cpu_seconds: (after.machine - before.machine)
            - (after.cluster - before.cluster)
            - ours,
        peak_rss_bytes: server.peak_rss_bytes,
        writes_per_pod: writes.values().sum::<usize>() as f64 / nodes as f64,
        writes,
        pods_created: api_writes::pods_created(&events, NAMESPACE).len(),
        nodes_bound: api_writes::nodes_bound(&events, NAMESPACE).len(),
        bytes_per_cached: if is_ours {
            bytes_per_cached(&operator.metrics()?)
        } else {
            BTreeMap::new()
        },
    })
}

/// Whether a user of the API is the process that serves the kind: the operator's ServiceAccount,
/// or one of those that the controllers of kube-controller-manager use.
fn is_server(user: &str, ours: bool) -> bool {
    if ours {
        user == format!(
            "system:serviceaccount:{}:{}",
            carillon::NAMESPACE,
            carillon::RELEASE
        )
    } else {
        user == "system:kube-controller-manager"
            || user.starts_with("system:serviceaccount:kube-system:")
    }
}

/// The same pods for both, each running for a second.
fn manifest(kind: &str, nodes: usize) -> Value {
    let template = template();
    let metadata = json!({"name": NAME, "namespace": NAMESPACE});
    if kind == OURS {
        json!({"apiVersion": "carillon.dev/v1alpha1", "kind": kind, "metadata": metadata,
               "spec": {"template": template}})
    } else {
        json!({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata,
               "spec": {"completions": nodes, "parallelism": nodes, "template": template}})
    }
}

/// Deletes the job, and waits until it and its pods are gone.
fn remove(cluster: &Cluster, kind: &str) -> Result<()> {
    let object = format!("{kind}/{NAME}");
    let limit = "--timeout=10m";
    cluster.kubectl_ok([
        "delete",
        &object,
        "-n",
        NAMESPACE,
        "--cascade=foreground",
        limit,
    ])?;
    cluster.kubectl_ok([
        "wait",
        "pods",
        "--all",
        "-n",
        NAMESPACE,
        "--for=delete",
        limit,
    ])?;
    Ok(())
}
