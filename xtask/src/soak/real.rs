//! An hour on a real control plane: CronJobs that run each minute, replicas that are killed in turn, an API server that
//! starts anew; and the memory of each replica.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::{self, Profile, Program};
use carillon_testbed::{Cluster, Config};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::interrupt::Interrupt;
use crate::plot;
use crate::replicas::Replicas;

const NAMESPACE: &str = "soak";
const NODES: usize = 20;
const CRON_JOBS: usize = 60;
const EVERY: Duration = Duration::from_secs(10);
/// A leader is killed so often; the API server is started anew in between.
const KILL_EVERY: Duration = Duration::from_mins(10);
/// At the begin and at the end so much is left out: the first runs are to come, or the last ones to be seen.
const MARGIN: SignedDuration = SignedDuration::from_mins(2);
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
const MEMORY: &str = "process_resident_memory_bytes";

/// Lets so many minutes pass, and draws the memory of each replica.
pub(super) fn run(minutes: u64, picture: Option<&Path>) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    carillon::build(Program::Operator, Profile::Release)?;
    interrupt.check()?;
    let cluster = Cluster::start(Config::new("soak").with_nodes(NODES))?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    let mut replicas = Replicas::start(&cluster, 2)?;
    let all: Vec<Value> = (0..CRON_JOBS).map(cron_job).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    cluster.kubectl_stdin(["create", "-f", "-"], &list.to_string())?;

    let (begin, from) = (Instant::now(), Timestamp::now() + MARGIN);
    let mut memory: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
    let mut ticks = Ticks::default();
    let (mut next_kill, mut next_restart) = (KILL_EVERY, KILL_EVERY / 2);
    while begin.elapsed() < Duration::from_mins(minutes) {
        interrupt.check()?;
        sleep(EVERY);
        let at = begin.elapsed();
        // As a kubelet does. A leader ends when the API server is away for longer than its lease.
        let mut all = replicas.running.iter();
        if let Some(at) = all.position(|(_, replica)| !replica.process.is_alive()) {
            let (number, replica) = &replicas.running[at];
            println!(
                "replica {number} has ended by itself: {}",
                replica.process.log_tail(1)
            );
            replicas.replace(at)?;
        }
        for (number, replica) in &replicas.running {
            // One that has just been started is not heard of yet.
            if let Ok(bytes) = replica.metric(MEMORY) {
                let line = memory.entry(*number).or_default();
                line.push((at.as_secs_f64() / 60.0, bytes / 1e6));
            }
        }
        ticks.look(&cluster)?;
        if at >= next_kill {
            next_kill += KILL_EVERY;
            let leader = replicas.leader().context("no replica leads")?;
            replicas.replace(leader)?;
        }
        if at >= next_restart {
            next_restart += KILL_EVERY;
            cluster.kill_apiserver()?;
            cluster.start_apiserver()?;
        }
    }
    let (runs, broken) = ticks.judge(from, Timestamp::now() - MARGIN);
    println!("{runs} runs in {minutes} minutes");
    for (number, line) in &memory {
        let at_end = line.last().map_or(0.0, |(_, megabytes)| *megabytes);
        println!("replica {number}: {at_end:.1} MB at its end");
    }
    if let Some(picture) = picture {
        let lines: Vec<plot::Line> = memory
            .into_iter()
            .map(|(number, line)| (format!("replica {number}"), line))
            .collect();
        let title = "Memory of each replica on a real control plane";
        plot::lines(picture, title, ("minute", "MB resident"), &lines)?;
    }
    ensure!(broken.is_empty(), "broken promises: {broken:?}");
    Ok(())
}

/// Of six, one starts BroadcastJobs on five nodes, one Jobs that Carillon runs, and the rest Jobs of the cluster.
fn cron_job(n: usize) -> Value {
    let pods = json!({
        "containers": [{"name": "main", "image": "busybox:1.37", "command": ["true"]}],
        "restartPolicy": "Never",
    });
    let mut spec = json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": 1});
    match n % 6 {
        0 => {
            let nodes: Vec<String> = (0..5)
                .map(|k| format!("node-{:04}", (n + k) % NODES))
                .collect();
            let template = json!({"nodeNames": nodes, "template": {"spec": pods}});
            spec["broadcastJobTemplate"] = json!({"spec": template});
        }
        1 => {
            let managed_by = "carillon.dev/job-controller";
            let template = json!({"managedBy": managed_by, "template": {"spec": pods}});
            spec["jobTemplate"] = json!({"spec": template});
        }
        _ => spec["jobTemplate"] = json!({"spec": {"template": {"spec": pods}}}),
    }
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name(n), "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// The runs that were seen: by CronJob and time, their uids and whether one has completed.
#[derive(Default)]
struct Ticks(BTreeMap<(String, Timestamp), Seen>);

#[derive(Default)]
struct Seen {
    uids: BTreeSet<String>,
    completed: bool,
}

impl Ticks {
    fn look(&mut self, cluster: &Cluster) -> Result<()> {
        let got = ["get", "jobs,broadcastjobs", "-n", NAMESPACE, "-o", "json"];
        let runs: Value = serde_json::from_str(&cluster.kubectl_ok(got)?)?;
        for run in runs["items"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let owner = text(&run["metadata"]["ownerReferences"][0]["name"]);
            let tick = text(&run["metadata"]["annotations"][SCHEDULED]);
            let tick = tick.parse().with_context(|| format!("{owner}: {tick:?}"))?;
            let conditions = run["status"]["conditions"].as_array();
            let is_complete = |condition: &Value| {
                condition["type"] == "Complete" && condition["status"] == "True"
            };
            let seen = self.0.entry((owner, tick)).or_default();
            seen.uids.insert(text(&run["metadata"]["uid"]));
            seen.completed |= conditions.into_iter().flatten().any(is_complete);
        }
        Ok(())
    }

    /// How many there were, and what was missed, run twice or not completed of what was due in this time.
    fn judge(&self, from: Timestamp, to: Timestamp) -> (usize, Vec<String>) {
        let twice = self.0.iter().filter(|(_, seen)| seen.uids.len() > 1);
        let mut broken: Vec<String> = twice
            .map(|((owner, tick), _)| format!("{owner} ran twice for {tick}"))
            .collect();
        for owner in (0..CRON_JOBS).map(name) {
            let minutes = (0..).map(|n| SignedDuration::from_mins(from.as_second() / 60 + n));
            let due = minutes
                .map(|since| Timestamp::UNIX_EPOCH + since)
                .skip_while(|tick| *tick < from)
                .take_while(|tick| *tick < to);
            for tick in due {
                match self.0.get(&(owner.clone(), tick)) {
                    None => broken.push(format!("{owner} did not run for {tick}")),
                    Some(seen) if !seen.completed => {
                        broken.push(format!("the run of {owner} for {tick} did not complete"));
                    }
                    Some(_) => {}
                }
            }
        }
        (self.0.len(), broken)
    }
}

fn name(n: usize) -> String {
    format!("cron-{n}")
}
