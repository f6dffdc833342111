//! A month of the operator in minutes: many CronJobs a day, machines that come and go, a fail-over and a restart of
//! the API server a day, a backup that is restored. Every promise is judged, and what is remembered must stay flat.

mod cron_jobs;
mod judge;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use carillon_operator::controllers::Rules;
use carillon_oracle::{History, Step};
use carillon_sim::actors::{
    Component, Fate, JobController, Kubelets, NodeLifecycle, Scheduler, garbage_collector,
};
use carillon_sim::{Actor, Delete, Server};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use crate::connection::Line;
use crate::disturbance::Disturbance;
use crate::kinds::cron_job;
use crate::monkey::Machines;
use crate::scenario::{self, Ends, Same, Scenario};
use crate::wire::Wire;
use crate::world::cluster::Cluster;
use crate::world::{HORIZON, Run};

const BEGIN: &str = "2026-03-01T00:00:00Z";
const NODES: usize = 20;
/// No leader is killed on these days, so that one leads for long.
const UNDISTURBED: RangeInclusive<u32> = 10..=19;
/// The backup is restored on this day.
const RESTORED_ON: u32 = 22;
/// What is measured on the days of the second may not be more than on those of the first: while one leads, and after
/// all days but the first, which fills what is kept.
const SAME: [[RangeInclusive<u32>; 2]; 2] = [[11..=13, 17..=19], [2..=8, 24..=30]];
/// What acts in the cluster is a little behind what has changed.
const REACTS_AFTER: Duration = Duration::from_secs(1);
/// Events live as long as those of an API server.
const EVENTS_LIVE: SignedDuration = SignedDuration::from_hours(1);

/// What a day has brought.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// From 1 on.
    pub day: u32,
    /// Changes of the store.
    pub revisions: u64,
    /// Runs of CronJobs.
    pub runs: usize,
    /// Pods that were created.
    pub pods: usize,
    /// How often an invariant was evaluated.
    pub checks: u64,
    /// Bytes that are allocated at its end, those of the simulated cluster among them.
    pub allocated: usize,
    /// What each process remembers at its end, by metric.
    pub remembered: Vec<BTreeMap<String, i64>>,
    /// Why processes ended.
    pub exits: Vec<String>,
    /// What was not as promised.
    pub problems: Vec<String>,
}

/// Lets so many days pass, and tells of each.
///
/// # Errors
/// When the cluster cannot be set up.
pub fn run(
    days: u32,
    seed: u64,
    allocated: fn() -> usize,
    mut each: impl FnMut(&Day),
) -> anyhow::Result<Vec<Day>> {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, async {
        let mut month = Month::begin(seed)?;
        let mut all = Vec::new();
        for day in 1..=days {
            let day = month.day(day, allocated).await?;
            each(&day);
            all.push(day);
        }
        Ok(all)
    });
    drop(tasks);
    outcome
}

struct Month {
    server: Server,
    admin: Actor,
    line: std::sync::Arc<Line>,
    machines: Rc<Machines>,
    cluster: Rc<Cluster>,
    /// What acts in the cluster; it is started anew each night.
    actors: JoinHandle<()>,
    /// How many nodes there ever were.
    nodes: usize,
}

impl Month {
    fn begin(seed: u64) -> anyhow::Result<Self> {
        let server = Server::new(BEGIN.parse()?);
        let admin = server.actor("admin");
        let refused = |status: carillon_sim::Status| anyhow::anyhow!("{status:?}");
        for namespace in cron_jobs::namespaces().chain(["carillon".to_owned()]) {
            let namespace = json!({"metadata": {"name": namespace}});
            admin
                .create("namespaces", "", &namespace)
                .map_err(refused)?;
        }
        for n in 0..NODES {
            let pool = json!(format!("p{}", n % cron_jobs::POOLS));
            admin
                .create("nodes", "", &node(n, &pool))
                .map_err(refused)?;
        }
        for object in cron_jobs::of_the_month() {
            admin
                .create("cronjobs.carillon.dev", cron_jobs::MONTH, &object)
                .map_err(refused)?;
        }
        let disturbance = Disturbance::none(3);
        let line = Line::new(disturbance.clone(), seed, server.clock());
        let machines = Rc::new(Machines::default());
        let scenario = scenario();
        let run = Run {
            scenario: &scenario,
            seed,
            disturbance,
            rules: Rules::default(),
            wire: Wire::default(),
            horizon: HORIZON,
            most_revisions: u64::MAX,
        };
        let cluster = Cluster::new(&run, &server, &line, machines.clone())?;
        // Two that lead in turn, and one that only ever looks on.
        cluster.look_on_from(2);
        cluster.start();
        Ok(Self {
            actors: spawn_local(act(server.clone())),
            admin,
            line,
            machines,
            cluster,
            nodes: NODES,
            server,
        })
    }

    async fn day(&mut self, day: u32, allocated: fn() -> usize) -> anyhow::Result<Day> {
        let midnight: Timestamp = BEGIN.parse()?;
        let midnight = midnight + SignedDuration::from_hours(24 * (i64::from(day) - 1));
        let nodes = self.server_nodes();
        let first = self.server.revision();
        for (namespace, object) in cron_jobs::of_a_day() {
            let created = self
                .admin
                .create("cronjobs.carillon.dev", &namespace, &object);
            created.map_err(|status| anyhow::anyhow!("{status:?}"))?;
        }

        self.until(midnight, 2).await;
        self.replace_a_node();
        if !UNDISTURBED.contains(&day) {
            self.until(midnight, 5).await;
            self.kill_the_leader();
        }
        self.until(midnight, 9).await;
        self.restart_the_api_server(Duration::from_secs(5), 0).await;
        if day == RESTORED_ON {
            self.until(midnight, 12).await;
            self.restart_the_api_server(Duration::from_secs(30), 60)
                .await;
        }

        self.until(midnight, 23).await;
        let history = self.server.history();
        let mut judged = judge::day(&history, &nodes, first, midnight, &self.line.late());
        for (namespace, object) in cron_jobs::of_a_day() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let how = Delete::default();
            // One that is gone before has been reported.
            drop(
                self.admin
                    .delete("cronjobs.carillon.dev", &namespace, name, &how),
            );
        }
        let end = midnight + SignedDuration::from_secs(24 * 3600 - 30);
        self.sleep_until(end).await;
        judged.problems.extend(self.what_is_left());
        let (panics, trips) = self.cluster.mistakes();
        if panics > 0 || !trips.is_empty() {
            let what = format!("{panics} panics, plans that were refused: {trips:?}");
            judged.problems.push(what);
        }

        let exits = self.cluster.exits();
        let of_the_restore = |exit: &str| day == RESTORED_ON && !exit.contains("panicked");
        let own = exits
            .iter()
            .filter(|exit| !exit.ends_with("killed") && !of_the_restore(exit));
        let own = own.map(|exit| format!("a process has ended by itself: {exit}"));
        judged.problems.extend(own);

        // The night.
        let revisions = self.server.revision() - first;
        drop(history);
        self.cluster.bury();
        self.server.forget(self.server.revision());
        self.actors.abort();
        self.sleep_until(end + SignedDuration::from_secs(30)).await;
        self.actors = spawn_local(act(self.server.clone()));
        Ok(Day {
            day,
            revisions,
            runs: judged.runs,
            pods: judged.pods,
            checks: judged.checks,
            allocated: allocated(),
            remembered: self.remembered(),
            exits,
            problems: judged.problems,
        })
    }

    async fn until(&self, midnight: Timestamp, hour: i64) {
        self.sleep_until(midnight + SignedDuration::from_hours(hour))
            .await;
    }

    async fn sleep_until(&self, time: Timestamp) {
        let left = time.duration_since(self.server.now());
        sleep(left.try_into().unwrap_or_default()).await;
    }

    fn server_nodes(&self) -> Vec<std::sync::Arc<Value>> {
        self.admin.list("nodes", "", "").unwrap_or_default()
    }

    /// One machine of twenty a day, by one of its pool: each day has as many pods as the others.
    fn replace_a_node(&mut self) {
        let nodes = self.server_nodes();
        let Some(old) = fastrand::choice(&nodes) else {
            return;
        };
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let pool = &old["metadata"]["labels"]["pool"];
        drop(self.admin.delete("nodes", "", name, &Delete::default()));
        drop(self.admin.create("nodes", "", &node(self.nodes, pool)));
        self.nodes += 1;
    }

    fn kill_the_leader(&self) {
        let lease = self
            .admin
            .get("leases.coordination.k8s.io", "carillon", "carillon");
        let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone());
        let holder = holder.unwrap_or_default();
        // carillon/1.2 is the third process on the second machine.
        let machine = holder.as_str().and_then(|holder| {
            let (_, number) = holder.split_once('/')?;
            number.split('.').next()?.parse::<usize>().ok()
        });
        let processes = self.machines.processes.borrow();
        if let Some(leader) = machine.and_then(|machine| processes.get(machine)) {
            leader.kill();
        }
    }

    /// Nobody can connect for so long, and so many changes are lost.
    async fn restart_the_api_server(&self, down: Duration, lost: u64) {
        self.line.set_down(true);
        self.server.restore(0);
        sleep(down).await;
        self.server.restore(lost);
        self.line.set_down(false);
    }

    /// What there should not be any more at the end of a day.
    fn what_is_left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for resource in [
            "cronjobs.carillon.dev",
            "broadcastjobs.carillon.dev",
            "noderesultslices.carillon.dev",
            "jobs.batch",
            "pods",
        ] {
            let objects = self.admin.list(resource, "", "").unwrap_or_default();
            let of_the_day = |object: &&std::sync::Arc<Value>| {
                object["metadata"]["namespace"] != cron_jobs::MONTH
            };
            let count = objects.iter().filter(of_the_day).count();
            if count > 0 {
                left.push(format!("{count} {resource} are left of this day"));
            }
        }
        left
    }

    /// What each process measures of itself.
    fn remembered(&self) -> Vec<BTreeMap<String, i64>> {
        let mut all = Vec::new();
        for metrics in self.cluster.metrics() {
            let text = metrics.encode().unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let sizes = ["carillon_store_", "carillon_remembered_", "workqueue_depth"];
            let lines = text
                .lines()
                .filter(|line| sizes.iter().any(|prefix| line.starts_with(prefix)));
            let series = lines.filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            });
            all.push(series.collect());
        }
        all
    }
}

/// What is larger in later days than in earlier ones: bytes that are allocated, and whatever processes measure.
pub fn grown(days: &[Day]) -> Vec<String> {
    let mut grown = Vec::new();
    for [first, last] in SAME {
        let of = |range: &RangeInclusive<u32>| -> Vec<&Day> {
            days.iter().filter(|day| range.contains(&day.day)).collect()
        };
        let (before, after) = (of(&first), of(&last));
        if before.is_empty() || after.is_empty() {
            continue;
        }
        let when = format!("on days {first:?} and {last:?}");
        let (was, is) = (allocated(&before), allocated(&after));
        if is > was + was / 20 {
            grown.push(format!("{was} and {is} bytes are allocated {when}"));
        }
        let before = sizes(&before);
        for (series, is) in sizes(&after) {
            let was = before.get(series).copied().unwrap_or_default();
            if is > was + was / 20 + 10 {
                grown.push(format!("{series} was {was} and {is} {when}"));
            }
        }
    }
    grown
}

fn allocated(days: &[&Day]) -> usize {
    let allocated = days.iter().map(|day| day.allocated);
    allocated.max().unwrap_or_default()
}

/// The most that any process has measured.
fn sizes<'a>(days: &[&'a Day]) -> BTreeMap<&'a str, i64> {
    let mut sizes: BTreeMap<&str, i64> = BTreeMap::new();
    for (series, size) in days.iter().flat_map(|day| day.remembered.iter().flatten()) {
        let most = sizes.entry(series).or_default();
        *most = (*most).max(*size);
    }
    sizes
}

fn node(n: usize, pool: &Value) -> Value {
    let mut node = scenario::ready_node(&format!("node-{n}"));
    node["metadata"]["labels"]["pool"] = pool.clone();
    node
}

/// What the processes are told to serve.
fn scenario() -> Scenario {
    Scenario {
        name: "a month",
        subject: &cron_job::SUBJECT,
        begin: BEGIN,
        nodes: NODES,
        spec: json!({}),
        fates: |_, _| Fate::ends(SignedDuration::from_secs(2), 0),
        script: Vec::new(),
        down: Vec::new(),
        jumps: Vec::new(),
        flags: &["--controllers=broadcastjob,cronjob,job"],
        same: Same::Condition,
        ends: Ends::After(SignedDuration::ZERO),
    }
}

/// The cluster's own components, once in a while if something but a lease has changed.
async fn act(server: Server) {
    let fates = |_: &str, _: usize| Fate::ends(SignedDuration::from_secs(2), 0);
    let mut components: Vec<Box<dyn Component>> = vec![
        Box::new(Scheduler::new(&server)),
        Box::new(Kubelets::new(&server, Box::new(fates))),
        Box::new(NodeLifecycle::new(&server)),
        Box::new(JobController::new(&server)),
    ];
    let collector = server.actor(garbage_collector::USER);
    let mut changes = server.changes();
    let mut expire = server.now() + EVENTS_LIVE;
    let mut collected = 0;
    loop {
        let seen = changes.see();
        let now = server.now();
        let wakes = components
            .iter_mut()
            .filter_map(|component| component.act(now));
        let wake = wakes.min();
        if now >= expire {
            expire = now + EVENTS_LIVE;
            expire_events(&collector);
        }
        if server.with_history(|history| frees_dependents(history, collected)) {
            collected = seen;
            garbage_collector::collect(&collector);
        }
        loop {
            let left = wake.map(|wake| wake.duration_since(server.now()));
            let due = async {
                match left {
                    Some(left) => sleep(left.try_into().unwrap_or_default()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changes.changed() => {}
                () = due => break,
            }
            changes.see();
            if server.with_history(|history| concerns_all(history, seen)) {
                break;
            }
        }
        sleep(REACTS_AFTER).await;
    }
}

fn expire_events(actor: &Actor) {
    let events = "events.events.k8s.io";
    for event in actor.list(events, "", "").unwrap_or_default() {
        let part = |field: &str| event["metadata"][field].as_str().unwrap_or_default();
        let how = Delete::default();
        drop(actor.delete(events, part("namespace"), part("name"), &how));
    }
}

/// Whether something but leases and events has changed since a revision.
fn concerns_all(history: &History, seen: u64) -> bool {
    let mut resources = since(history, seen).map(|step| &*step.key.resource);
    resources.any(|resource| !resource.starts_with("leases.") && !resource.starts_with("events."))
}

/// Whether something is gone or about to go since a revision, or is new and may have lost its owner already.
fn frees_dependents(history: &History, seen: u64) -> bool {
    since(history, seen).any(|step| match &step.new {
        Some(new) => {
            let meta = &new["metadata"];
            let is_new = step.old.is_none() && !meta["ownerReferences"].is_null();
            is_new || !meta["deletionTimestamp"].is_null()
        }
        None => true,
    })
}

fn since(history: &History, seen: u64) -> impl Iterator<Item = &Step> {
    let steps = history.steps.iter().rev();
    steps.take_while(move |step| step.rev > seen)
}
