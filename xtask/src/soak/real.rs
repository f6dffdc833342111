//! An hour on a real control plane: CronJobs that run each minute, replicas that are killed in turn, an API server that
//! starts anew; and the memory of each replica.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use carillon_testbed::carillon::{self, Profile, Program};
use carillon_testbed::{Cluster, Config};
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

    let begin = Instant::now();
    let mut memory: BTreeMap<usize, Vec<(f64, f64)>> = BTreeMap::new();
    let mut ticks = Ticks::default();
    let (mut next_kill, mut next_restart) = (KILL_EVERY, KILL_EVERY / 2);
    while begin.elapsed() < Duration::from_mins(minutes) {
        interrupt.check()?;
        sleep(EVERY);
        let at = begin.elapsed();
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
            if let Some(leader) = replicas.leader() {
                replicas.replace(leader)?;
            }
        }
        if at >= next_restart {
            next_restart += KILL_EVERY;
            cluster.kill_apiserver()?;
            cluster.start_apiserver()?;
        }
    }
    let (runs, broken) = ticks.judge();
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
        "metadata": {"name": format!("cron-{n}"), "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// The runs that were seen: by CronJob and time, their uids.
#[derive(Default)]
struct Ticks(BTreeMap<(String, String), Vec<String>>);

impl Ticks {
    fn look(&mut self, cluster: &Cluster) -> Result<()> {
        let got = ["get", "jobs,broadcastjobs", "-n", NAMESPACE, "-o", "json"];
        let runs: Value = serde_json::from_str(&cluster.kubectl_ok(got)?)?;
        for run in runs["items"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let owner = text(&run["metadata"]["ownerReferences"][0]["name"]);
            let tick = text(&run["metadata"]["annotations"][SCHEDULED]);
            let uid = text(&run["metadata"]["uid"]);
            let uids = self.0.entry((owner, tick)).or_default();
            if !uids.contains(&uid) {
                uids.push(uid);
            }
        }
        Ok(())
    }

    /// How many there were, and what was missed or run twice.
    fn judge(&self) -> (usize, Vec<String>) {
        let twice = self.0.iter().filter(|(_, uids)| uids.len() > 1);
        let twice = twice.map(|((owner, tick), _)| format!("{owner} ran twice for {tick}"));
        let mut by_owner: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (owner, tick) in self.0.keys() {
            by_owner.entry(owner).or_default().push(tick);
        }
        let missed = by_owner.into_iter().filter_map(|(owner, ticks)| {
            let time = |tick: Option<&&str>| tick?.parse::<jiff::Timestamp>().ok();
            let (first, last) = (time(ticks.first())?, time(ticks.last())?);
            let minutes = last.duration_since(first).as_mins() + 1;
            let missed = minutes - ticks.len() as i64;
            (missed > 0).then(|| format!("{owner} missed {missed} times"))
        });
        (self.0.len(), twice.chain(missed).collect())
    }
}
