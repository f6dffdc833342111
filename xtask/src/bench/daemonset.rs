//! Native DaemonSets, in turns, each run on a cluster of its own: served by kube-controller-manager's controller,
//! alone in a process of its own, and by Carillon.

mod case;
mod idle;
mod phase;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use carillon_testbed::{Cluster, Config};

use self::case::{Case, NAMESPACE, Size};
use self::idle::Idle;
use self::phase::Phase;
use super::server::{Kind, Native, Running, Server};
use super::side_by_side::{Report, Sample};
use super::{build_operator, machine, measured};
use crate::interrupt::Interrupt;

/// Who serves DaemonSets is ours to say.
const OTHER_CONTROLLERS: &str = "--controllers=*,-daemonset-controller";
const DAEMON_SETS: Native = Native {
    controller: "daemonset-controller",
    account: "daemon-set-controller",
    plural: "daemonsets",
};
/// Before a run: the cluster and who serves are up.
const SETTLE: Duration = Duration::from_secs(5);
/// Seconds of a lease that is not renewed while a bench runs.
const NO_HEARTBEATS: u32 = 24 * 3600;
/// Seconds of the lease of a kubelet.
const REAL_LEASE: u32 = 40;
const NEVER_UNREACHABLE: &str = "--node-monitor-grace-period=24h";
/// Nodes that join come in so many groups, all within a minute.
const GROUPS: u32 = 20;
const JOIN_WITHIN: Duration = Duration::from_mins(1);
/// Nodes that are there before others join.
const BEFORE: usize = 10;

#[derive(clap::Args)]
pub(super) struct Args {
    /// What is measured; may be given more than once
    #[arg(long, value_enum, default_values_t = [What::Rollout, What::Join, What::Idle])]
    what: Vec<What>,
    /// How many nodes a DaemonSet is created on, and updated
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// How many DaemonSets nodes join, or nothing happens to
    #[arg(long, default_value_t = 20)]
    sets: usize,
    /// How many nodes join within a minute
    #[arg(long, default_value_t = 500)]
    joining: usize,
    /// How many nodes report while nothing happens
    #[arg(long, default_value_t = 5000)]
    idle_nodes: usize,
    /// Of how many nodes each DaemonSet has one while nothing happens: 1 is all
    #[arg(long, default_value_t = 10)]
    idle_share: usize,
    /// For how many seconds nothing happens
    #[arg(long, default_value_t = 120)]
    idle_seconds: u64,
    /// How often each of the two is measured; of what idles once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Further argument of the operator; may be given more than once
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    operator_arg: Vec<String>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum What {
    /// One DaemonSet is created, and then gets another template
    Rollout,
    /// Nodes join many DaemonSets
    Join,
    /// Nodes report, and nothing else happens
    Idle,
}

/// The figures of all runs.
#[derive(serde::Serialize)]
struct All {
    side_by_side: Report,
    idle: Vec<Idle>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    let print = |all: &All| {
        all.side_by_side.print();
        idle::print(&all.idle);
    };
    measured(measure, print, args.json.as_deref())
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<All> {
    build_operator()?;
    let mut machine = String::new();
    let (mut samples, mut idle) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        for what in &args.what {
            if *what == What::Idle && round > 1 {
                continue;
            }
            for kind in Kind::in_turn(round) {
                interrupt.check()?;
                let mut run = Run::start(args, (*what, kind, round))?;
                if machine.is_empty() {
                    machine = machine::line(&run.cluster);
                    run.servers.announce();
                }
                match what {
                    What::Rollout => samples.extend(run.rollout(interrupt)?),
                    What::Join => samples.push(run.join(interrupt)?),
                    What::Idle => idle.push(run.idle(interrupt)?),
                }
                run.server.stop()?;
            }
        }
    }
    let mut cases: Vec<Case> = Vec::new();
    for what in &args.what {
        cases.extend(args.size().cases(*what));
    }
    let cases = cases.iter().map(|case| (case.to_string(), case.reach()));
    Ok(All {
        side_by_side: Report::new(machine, cases, samples),
        idle,
    })
}

impl Args {
    fn size(&self) -> Size {
        Size {
            nodes: self.nodes,
            sets: self.sets,
            joining: self.joining,
        }
    }
}

/// One run of one of the two.
struct Run<'a> {
    args: &'a Args,
    cluster: Cluster,
    servers: Server,
    server: Running,
    kind: Kind,
    round: usize,
}

impl<'a> Run<'a> {
    fn start(args: &'a Args, (what, kind, round): (What, Kind, usize)) -> Result<Self> {
        let nodes = match what {
            What::Rollout => args.nodes,
            What::Join => BEFORE,
            What::Idle => 0,
        };
        let mut config = Config::new("bench").with_nodes(nodes);
        config.controller_manager_args = vec![OTHER_CONTROLLERS.to_owned()];
        if what == What::Idle {
            // Until all is there, thousands of heartbeats would only keep it from coming.
            config.node_lease_seconds = NO_HEARTBEATS;
            config
                .controller_manager_args
                .push(NEVER_UNREACHABLE.to_owned());
        }
        let cluster = Cluster::start(&config)?;
        if what == What::Idle {
            case::add_shares(&cluster, args.idle_nodes, args.idle_share)?;
        }
        let servers = Server::prepare(&cluster, DAEMON_SETS, &args.operator_arg)?;
        cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
        let server = servers.start(&cluster, kind)?;
        sleep(SETTLE);
        Ok(Self {
            args,
            cluster,
            servers,
            server,
            kind,
            round,
        })
    }

    fn phase(&self, case: Case) -> Phase<'_> {
        eprint!("round {}, {case}, {}: ", self.round, self.kind.name());
        Phase {
            cluster: &self.cluster,
            server: &self.server,
            user: self.servers.user(self.kind),
            kind: self.kind,
            round: self.round,
            case,
        }
    }

    fn until_served(&self, interrupt: &Interrupt, sets: usize, nodes: usize) -> Result<()> {
        phase::until_served(&self.cluster, (sets, nodes), || interrupt.check())
    }

    /// One DaemonSet is created on all nodes, and then gets another template.
    fn rollout(&self, interrupt: &Interrupt) -> Result<[Sample; 2]> {
        let nodes = self.args.nodes;
        let created = self.phase(Case::Create { nodes }).measure(|| {
            self.cluster.create_all(&[case::daemon_set(0, 1)])?;
            self.until_served(interrupt, 1, nodes)
        })?;
        let updated = self.phase(Case::Update { nodes }).measure(|| {
            let patch = case::another_template().to_string();
            let target = [
                "patch",
                "daemonset",
                &case::name(0),
                "--namespace",
                NAMESPACE,
            ]
            .map(str::to_owned);
            let how = ["--type=merge".to_owned(), format!("--patch={patch}")];
            self.cluster.kubectl_ok(target.into_iter().chain(how))?;
            self.until_served(interrupt, 1, nodes)
        })?;
        Ok([created, updated])
    }

    /// Many nodes join many DaemonSets.
    fn join(&self, interrupt: &Interrupt) -> Result<Sample> {
        let (sets, joining) = (self.args.sets, self.args.joining);
        let manifests: Vec<_> = (0..sets).map(|n| case::daemon_set(n, 1)).collect();
        self.cluster.create_all(&manifests)?;
        self.until_served(interrupt, sets, BEFORE)?;
        sleep(SETTLE);
        self.phase(Case::Join { sets, joining }).measure(|| {
            let begin = Instant::now();
            let mut left = joining;
            for group in 0..GROUPS {
                let due = JOIN_WITHIN * group / GROUPS;
                sleep(due.saturating_sub(begin.elapsed()));
                let size = left.div_ceil((GROUPS - group) as usize);
                self.cluster.register_nodes(size, &[], &[])?;
                left -= size;
            }
            self.until_served(interrupt, sets, BEFORE + joining)
        })
    }

    /// Nodes report, and nothing else happens.
    fn idle(&mut self, interrupt: &Interrupt) -> Result<Idle> {
        let Args {
            sets,
            idle_nodes,
            idle_share,
            ..
        } = *self.args;
        let manifests: Vec<_> = (0..sets).map(|n| case::daemon_set(n, idle_share)).collect();
        self.cluster.create_all(&manifests)?;
        self.until_served(interrupt, sets, idle_nodes.div_ceil(idle_share))?;
        self.cluster.set_node_lease_seconds(REAL_LEASE)?;
        eprint!(
            "{sets} sets on {idle_nodes} nodes idle, {}: ",
            self.kind.name()
        );
        idle::measure(
            &self.cluster,
            &self.server,
            self.kind,
            Duration::from_secs(self.args.idle_seconds),
        )
    }
}
