//! Native CronJobs that are all due in the same minute, in turns on one cluster: served by
//! kube-controller-manager's controller, alone in a process of its own, and by Carillon.

mod skew;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use carillon_testbed::{Cluster, Config};
use serde_json::{Value, json};

use self::table::{Report, Sample};
use super::meter::Meter;
use super::server::{Kind, Native, Server};
use super::{api_writes, build_operator, machine, measured};
use crate::interrupt::Interrupt;

/// Who serves CronJobs is ours to say; and a Job that is only to be there needs nobody.
const OTHER_CONTROLLERS: &str = "--controllers=*,-cronjob-controller,-job-controller";
const CRON_JOBS: Native = Native {
    controller: "cronjob-controller",
    account: "cronjob-controller",
    plural: "cronjobs",
};
/// Runs of each CronJob, a minute apart.
const TICKS: u64 = 2;
/// From the first creation to the first tick at least.
const AHEAD: u64 = 45;
/// How long all Jobs of a tick may take.
const LIMIT: Duration = Duration::from_mins(10);
const EVERY: Duration = Duration::from_secs(2);
/// Seconds after the last tick in which nobody asks how far they are.
const QUIET: u64 = 12;
/// Before a run: what the last one left to do is done. After it: the last events and finalizers.
const SETTLE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many CronJobs
    #[arg(long, default_value_t = 1000)]
    crons: usize,
    /// How often each of the two is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
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
    let mut config = Config::new("bench");
    config.controller_manager_args = vec![OTHER_CONTROLLERS.to_owned()];
    let cluster = Cluster::start(&config)?;
    let servers = Server::prepare(&cluster, CRON_JOBS, &args.operator_arg)?;
    servers.announce();
    let mut runs = Vec::new();
    for round in 1..=args.rounds {
        runs.extend(Kind::in_turn(round).map(|kind| (kind, round, TICKS)));
    }
    if args.default_limits {
        // Of its two minutes it would need more than both.
        runs.push((Kind::TheirsByDefault, 1, 1));
    }
    let mut samples = Vec::new();
    for (kind, round, ticks) in runs {
        interrupt.check()?;
        eprint!("round {round}, {}: ", kind.name());
        let run = Run {
            cluster: &cluster,
            servers: &servers,
            kind,
            round,
            ticks,
            crons: args.crons,
        };
        let sample = run.measure()?;
        eprintln!(
            "skew {:.2} s (p50) {:.2} s (p99), {:.2} s CPU, {:.0} MB; others on this machine {:.0} s CPU",
            sample.skew.p50,
            sample.skew.p99,
            sample.cpu_seconds,
            sample.peak_rss_bytes as f64 / 1e6,
            sample.stranger_cpu_seconds
        );
        samples.push(sample);
    }
    Ok(Report::new(machine::line(&cluster), args.crons, samples))
}

/// One run of one of the two.
struct Run<'a> {
    cluster: &'a Cluster,
    servers: &'a Server,
    kind: Kind,
    round: usize,
    ticks: u64,
    crons: usize,
}

impl Run<'_> {
    fn measure(&self) -> Result<Sample> {
        let cluster = self.cluster;
        let namespace = format!("bench-{}-{}", self.kind.name(), self.round);
        cluster.kubectl_ok(["create", "namespace", &namespace])?;
        let server = self.servers.start(cluster, self.kind)?;
        sleep(SETTLE);
        let mark = api_writes::mark(cluster)?;
        let meter = Meter::begin(cluster, &server)?;

        let first = minute_after(AHEAD)?;
        self.create(&namespace, first)?;
        ensure!(unix_seconds()? < first * 60, "creating took too long");
        self.wait_recorded(&namespace, (first + self.ticks - 1) * 60)?;
        sleep(AFTER);

        let spent = meter.end()?;
        let events = api_writes::since(cluster, mark)?;
        let server_user = self.servers.user(self.kind);
        let writes = api_writes::by_verb(&events, |user| user == server_user);
        let late = skew::of_creations(&events, &namespace)?;
        ensure!(
            late.len() == self.crons * self.ticks as usize,
            "{} Jobs were created by {} CronJobs in {} ticks",
            late.len(),
            self.crons,
            self.ticks
        );
        let sample = Sample {
            kind: self.kind.name(),
            round: self.round,
            skew: skew::Skew::of(&late),
            cpu_seconds: spent.cpu_seconds,
            stranger_cpu_seconds: spent.stranger_cpu_seconds,
            cluster_cpu_seconds: spent.cluster_cpu_seconds,
            peak_rss_bytes: spent.peak_rss_bytes,
            writes_per_job: writes.values().sum::<usize>() as f64
                / (self.crons as u64 * self.ticks) as f64,
            writes,
        };
        cluster.kubectl_ok(["delete", "namespace", &namespace, "--timeout=10m"])?;
        server.stop()?;
        Ok(sample)
    }

    /// Creates all CronJobs, due in the minute `first` since 1970 and those that follow.
    fn create(&self, namespace: &str, first: u64) -> Result<()> {
        let minutes: Vec<String> = (0..self.ticks)
            .map(|tick| ((first + tick) % 60).to_string())
            .collect();
        let schedule = format!("{} * * * *", minutes.join(","));
        let crons: Vec<Value> = (0..self.crons)
            .map(|n| cron(namespace, n, &schedule))
            .collect();
        self.cluster.create_all(&crons)
    }

    /// Waits until every status names the Jobs of all ticks, the last one in the second `last` since
    /// 1970.
    fn wait_recorded(&self, namespace: &str, last: u64) -> Result<()> {
        let path = format!("/apis/batch/v1/namespaces/{namespace}/cronjobs");
        // The answer is what the API server has to do besides: not asked for while it matters.
        while unix_seconds()? < last + QUIET {
            sleep(EVERY);
        }
        let limit = SystemTime::now() + LIMIT;
        loop {
            let crons = self.cluster.kubectl_ok(["get", "--raw", &path])?;
            let crons: Value = serde_json::from_str(&crons)?;
            let crons = crons["items"].as_array().context("a list of CronJobs")?;
            let recorded = |cron: &&Value| {
                let active = cron["status"]["active"].as_array();
                active.is_some_and(|active| {
                    active.len() as u64 == self.ticks
                        && active.iter().all(|entry| entry["uid"].is_string())
                })
            };
            let done = crons.iter().filter(recorded).count();
            if done == self.crons {
                return Ok(());
            }
            if SystemTime::now() > limit {
                bail!("{done} of {} CronJobs have run by now", self.crons);
            }
            sleep(EVERY);
        }
    }
}

/// Its Jobs are suspended: only the controller of CronJobs has something to do.
fn cron(namespace: &str, n: usize, schedule: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": format!("cron-{n:04}"), "namespace": namespace},
        "spec": {
            "schedule": schedule,
            "timeZone": "UTC",
            "jobTemplate": {"spec": {
                "suspend": true,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37", "command": ["true"]}],
                }},
            }},
        },
    })
}

fn unix_seconds() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// The first minute since 1970 that begins at least so many seconds from now.
fn minute_after(seconds: u64) -> Result<u64> {
    Ok((unix_seconds()? + seconds).div_ceil(60))
}
