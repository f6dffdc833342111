//! Jobs of which a few pods fail, in turns, each on a cluster of its own: served by
//! kube-controller-manager's controller, alone in a process of its own, and by Carillon.

mod case;
mod outcome;
mod play;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use carillon_testbed::{Cluster, Config};

use self::case::{Case, Mode, NAMESPACE};
use super::meter::Meter;
use super::server::{Kind, Native, Server};
use super::side_by_side::{Reach, Report, Sample, events_told};
use super::{api_writes, build_operator, machine, measured};
use crate::interrupt::Interrupt;

/// Who serves Jobs is ours to say.
const OTHER_CONTROLLERS: &str = "--controllers=*,-job-controller";
const JOBS: Native = Native {
    controller: "job-controller",
    account: "job-controller",
    plural: "jobs",
};
const REACH: Reach = Reach {
    cpu: 0.25,
    rss: 0.25,
};
/// Before a run: the cluster and who serves are up. After it: the last events.
const SETTLE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many pods have to succeed; may be given more than once
    #[arg(long, default_values_t = [1000, 5000])]
    completions: Vec<usize>,
    /// How many pods run at a time
    #[arg(long, default_value_t = 500)]
    parallelism: usize,
    /// Indexed or not; may be given more than once
    #[arg(long, value_enum, default_values_t = [Mode::NonIndexed, Mode::Indexed])]
    mode: Vec<Mode>,
    /// How many nodes there are
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// How often each of the two is measured [default: 25,000 by the completions, from 3 to 9: a Job of
    /// 1,000 9 times, of 5,000 5 times]
    #[arg(long)]
    rounds: Option<usize>,
    /// Also measure kube-controller-manager once with the limits it has by default: 20 requests a
    /// second
    #[arg(long)]
    default_limits: bool,
    /// Further argument of the operator; may be given more than once
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    operator_arg: Vec<String>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    build_operator()?;
    interrupt.check()?;
    let mut config = Config::new("bench").with_nodes(args.nodes);
    config.controller_manager_args = vec![OTHER_CONTROLLERS.to_owned()];
    let cases: Vec<Case> = args
        .completions
        .iter()
        .flat_map(|&completions| {
            args.mode.iter().map(move |&mode| Case {
                completions,
                parallelism: args.parallelism,
                mode,
            })
        })
        .collect();
    let mut runs = Vec::new();
    let rounds = |case: &Case| args.rounds.unwrap_or_else(|| case.rounds());
    for round in 1..=cases.iter().map(rounds).max().unwrap_or(0) {
        for case in cases.iter().filter(|case| round <= rounds(case)) {
            runs.extend(Kind::in_turn(round).map(|kind| (kind, round, *case)));
        }
    }
    if args.default_limits {
        runs.extend(cases.first().map(|case| (Kind::TheirsByDefault, 1, *case)));
    }
    let mut samples = Vec::new();
    let mut machine = String::new();
    for (kind, round, case) in runs {
        interrupt.check()?;
        // A cluster takes up to a tenth longer for a Job when there were others before.
        let cluster = Cluster::start(&config)?;
        let servers = Server::prepare(&cluster, JOBS, &args.operator_arg)?;
        if samples.is_empty() {
            machine = machine::line(&cluster);
            servers.announce();
        }
        eprint!("round {round}, {case}, {}: ", kind.name());
        let run = Run {
            cluster: &cluster,
            servers: &servers,
            kind,
            round,
            case,
        };
        let sample = run.measure()?;
        eprintln!(
            "{:.2} s wall, {:.2} s CPU, {:.0} MB, {:.3} writes a pod; others on this machine {:.0} s CPU",
            sample.wall_seconds,
            sample.cpu_seconds,
            sample.peak_rss_bytes as f64 / 1e6,
            sample.writes_per_pod,
            sample.stranger_cpu_seconds
        );
        samples.push(sample);
    }
    let cases = cases.iter().map(|case| (case.to_string(), REACH));
    Ok(Report::new(machine, cases, samples))
}

/// One run of one of the two.
struct Run<'a> {
    cluster: &'a Cluster,
    servers: &'a Server,
    kind: Kind,
    round: usize,
    case: Case,
}

impl Run<'_> {
    fn measure(&self) -> Result<Sample> {
        let Self { cluster, case, .. } = self;
        cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
        let server = self.servers.start(cluster, self.kind)?;
        sleep(SETTLE);
        let mark = api_writes::mark(cluster)?;
        let meter = Meter::begin(cluster, &server)?;

        let job = case.manifest().to_string();
        cluster.kubectl_stdin(["create", "-f", "-"], &job)?;
        play::until_complete(cluster, mark, case)?;
        sleep(AFTER);

        let spent = meter.end()?;
        let events = api_writes::since(cluster, mark)?;
        outcome::ensure_as_scripted(cluster, case)?;
        let server_user = self.servers.user(self.kind);
        let writes = api_writes::by_verb(&events, |user| user == server_user);
        let without_leases = writes.iter().filter(|(what, _)| !what.ends_with(" leases"));
        let without_leases: usize = without_leases.map(|(_, count)| count).sum();
        let timeline = api_writes::timeline(&events, "jobs", NAMESPACE)?;
        let pods_created = api_writes::pods_created(&events, NAMESPACE).len();
        let sample = Sample {
            case: case.to_string(),
            kind: self.kind.name(),
            round: self.round,
            wall_seconds: timeline.complete,
            last_pod_created: timeline.last_pod_created,
            last_pod_done: timeline.last_pod_ended,
            cpu_seconds: spent.cpu_seconds,
            cluster_cpu_seconds: spent.cluster_cpu_seconds,
            stranger_cpu_seconds: spent.stranger_cpu_seconds,
            peak_rss_bytes: spent.peak_rss_bytes,
            writes_per_pod: without_leases as f64 / pods_created as f64,
            writes,
            events: events_told(cluster, NAMESPACE, "Job")?,
            pods_created,
        };
        server.stop()?;
        Ok(sample)
    }
}
