//! One run: a cluster, processes of the operator, a script, and what goes wrong.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers;
use carillon_operator::controllers::broadcast_job::{NAME, Rules};
use carillon_operator::flight_recorder::FlightRecorder;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::lease::{self, Leadership, elect_here};
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::Transport;
use carillon_oracle::History;
use carillon_oracle::determinism::Decision;
use carillon_plan::interlock;
use carillon_sim::actors::{
    self, Component, Kubelets, NodeLifecycle, Scheduler, garbage_collector,
};
use carillon_sim::{Actor, Server, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Line};
use crate::disturbance::{Disturbance, Then};
use crate::monkey::{Machines, Monkey};
use crate::process::{Process, State};
use crate::replay;
use crate::scenario::{self, Ends, NAMESPACE, Scenario, User, View};
use crate::tap::Tap;
use crate::wire::Wire;

/// The user that the operator's requests come from.
pub const USER: &str = "system:serviceaccount:carillon:carillon";
/// When every run begins.
const START: &str = "2026-01-01T00:00:00Z";
/// How long a container that ended is down.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// How long a stopped process stays so at most.
const STOPPED_FOR: Duration = Duration::from_mins(10);
/// A run without a change for so long is over.
const QUIET: Duration = Duration::from_secs(90);
/// A run in which nothing changes for so long hangs. Scripts pause for half an hour at most.
const HANGS: SignedDuration = SignedDuration::from_mins(45);
/// A run that takes longer goes round in circles.
pub const HORIZON: Duration = Duration::from_hours(4);

/// What is run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Of everything that is left to chance.
    pub seed: u64,
    /// What goes wrong.
    pub disturbance: Disturbance,
    /// What decides, and what may forbid it.
    pub rules: Rules,
    /// How the operator speaks to the API server.
    pub wire: Wire,
    /// A run that takes longer hangs.
    pub horizon: Duration,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every revision.
    pub history: History,
    /// Writes for the job, as far as they were sent.
    pub writes: usize,
    /// Watch events, as far as they were to be delivered.
    pub events: usize,
    /// The end.
    pub end: End,
    /// Whether the scenario came to its end.
    pub ended: bool,
    /// Panics of the operator.
    pub panics: u64,
    /// Plans that the interlock refused, by rule.
    pub trips: BTreeMap<&'static str, u64>,
    /// When the last fault by chance was over.
    pub calm_at: Timestamp,
    /// From when on nothing was provoked any more.
    pub over_at: Timestamp,
    /// Why processes ended, in order.
    pub exits: Vec<String>,
    /// Agents of processes that were stopped with a request on its way, and since when.
    pub stopped: Vec<(String, Timestamp)>,
    /// What the flight recorders hold, each decision made again from the history.
    pub decisions: Vec<Decision>,
    /// Requests that were to meet a fault and did not come.
    pub unmet: usize,
}

/// The end of a run, as far as it must not depend on what went wrong.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// Type and reason of the condition Complete or Failed.
    pub condition: Option<(String, String)>,
    /// Desired, succeeded, failed.
    pub counts: [i64; 3],
    /// State of the last attempt on each node.
    pub nodes: BTreeMap<String, String>,
    /// Pods that still carry our finalizer.
    pub held: usize,
}

/// Runs it, on this thread.
pub fn run(run: &Run<'_>) -> anyhow::Result<Outcome> {
    fastrand::seed(run.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let tasks = LocalSet::new();
    let outcome = tasks.block_on(&runtime, play(run));
    // The tasks refer to each other through the server's watches.
    drop(tasks);
    outcome
}

/// What the processes of a run share.
struct Cluster {
    server: Server,
    line: Arc<Line>,
    config: Config,
    rules: Rules,
    wire: Wire,
    disturbance: Disturbance,
    metrics: RefCell<Vec<Arc<Metrics>>>,
    exits: RefCell<Vec<String>>,
    flights: RefCell<Vec<Arc<FlightRecorder>>>,
    machines: Rc<Machines>,
    /// No process is to run now.
    down: Cell<bool>,
    /// The scenario has come to its end: a process that was given up stays so.
    over: Cell<bool>,
}

async fn play(run: &Run<'_>) -> anyhow::Result<Outcome> {
    let start: Timestamp = START.parse()?;
    let server = Server::new(start);
    let admin = server.actor("admin");
    set_up(&admin, run.scenario)
        .map_err(|status| anyhow::anyhow!("the cluster cannot be set up: {status:?}"))?;

    let fates = run.scenario.fates;
    let script = User::new(server.actor("user"), run.scenario.script.clone());
    let script_done = script.done();
    let machines = Rc::new(Machines::default());
    let weather = run.disturbance.weather.clone().unwrap_or_default();
    let calm_at = start + SignedDuration::from_mins(i64::from(weather.minutes));
    let mut components: Vec<Box<dyn Component>> = vec![
        Box::new(Scheduler::new(&server)),
        Box::new(Kubelets::new(&server, Box::new(fates))),
        Box::new(NodeLifecycle::new(&server)),
        Box::new(script),
    ];
    if weather.monkey {
        let (nodes, machines) = (run.scenario.nodes, machines.clone());
        let actor = server.actor("monkey");
        components.push(Box::new(Monkey::new(
            actor, machines, nodes, run.seed, calm_at,
        )));
    }
    spawn_local(actors::run(server.clone(), components));
    spawn_local(garbage_collector::run(
        server.clone(),
        Duration::from_millis(20),
    ));

    let line = Line::new(run.disturbance.clone(), run.seed, server.clock());
    let cluster = Rc::new(Cluster {
        server: server.clone(),
        line: line.clone(),
        config: config(&run.disturbance)?,
        rules: run.rules,
        wire: run.wire,
        disturbance: run.disturbance.clone(),
        metrics: RefCell::default(),
        exits: RefCell::default(),
        flights: RefCell::default(),
        machines,
        down: Cell::new(false),
        over: Cell::new(false),
    });
    spawn_local(outages(cluster.clone()));
    for index in 0..run.disturbance.processes.max(1) {
        spawn_local(supervise(cluster.clone(), index));
    }
    spawn_local(go_on(cluster.clone()));
    if weather.minutes > 0 {
        let line = line.clone();
        spawn_local(async move {
            sleep(Duration::from_mins(u64::from(weather.minutes))).await;
            line.calm();
        });
    }

    let is_over = || script_done.get() && is_over(&admin, run.scenario.ends);
    let hangs = || server.now().duration_since(last_change(&server).1) > HANGS;
    let stands_still = until(&server, || is_over() || hangs());
    let _ = timeout(run.horizon, stands_still).await;
    let ended = is_over();
    cluster.over.set(true);
    let unmet = line.unmet();
    line.calm();
    line.continue_stopped();
    let over_at = if ended {
        settle(&server).await
    } else {
        server.now()
    };

    let (panics, trips) = cluster.mistakes();
    let outcome = Outcome {
        history: server.history(),
        writes: line.writes(),
        events: line.events(),
        end: end(&admin),
        ended,
        panics,
        trips,
        calm_at,
        over_at,
        exits: cluster.exits.take(),
        stopped: line.stopped(),
        decisions: server.with_history(|history| replay::all(history, &cluster.flights.borrow())),
        unmet,
    };
    Ok(outcome)
}

/// Namespaces, nodes, the job.
fn set_up(admin: &Actor, scenario: &Scenario) -> Result<(), Status> {
    for namespace in [NAMESPACE, "carillon"] {
        let object = json!({"metadata": {"name": namespace}});
        admin.create("namespaces", "", &object)?;
    }
    for n in 0..scenario.nodes {
        let node = scenario::ready_node(&format!("node-{n}"));
        admin.create("nodes", "", &node)?;
    }
    let job = scenario::job(&scenario.spec);
    admin.create("broadcastjobs.carillon.dev", NAMESPACE, &job)?;
    Ok(())
}

impl Cluster {
    /// Panics, and plans that the interlock refused, of all processes.
    fn mistakes(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let metrics = self.metrics.borrow();
        let panics = |metrics: &Arc<Metrics>| metrics.panics.with_label_values(&[NAME]).get();
        let trips = |rule| -> u64 {
            let of = |metrics: &Arc<Metrics>| {
                metrics
                    .interlock_trips
                    .with_label_values(&[NAME, rule])
                    .get()
            };
            metrics.iter().map(of).sum()
        };
        let trips = interlock::rules::ALL
            .into_iter()
            .map(|rule| (rule, trips(rule)));
        (
            metrics.iter().map(panics).sum(),
            trips.filter(|(_, trips)| *trips > 0).collect(),
        )
    }
}

fn config(disturbance: &Disturbance) -> anyhow::Result<Config> {
    let mut flags = vec![
        "carillon",
        "--lease-namespace=carillon",
        "--controllers=broadcastjob",
        "--http-address=127.0.0.1:0",
    ];
    if disturbance.without_audit {
        flags.push("--cache-audit-period=0");
    }
    match Task::parse(flags)? {
        Task::Operate(config) => Ok(config),
        Task::Check(_) => anyhow::bail!("these flags ask for the operator"),
    }
}

/// Keeps a process running, as a kubelet does.
async fn supervise(cluster: Rc<Cluster>, index: usize) {
    for incarnation in 0_usize.. {
        until(&cluster.server, || !cluster.down.get()).await;
        let old = cluster.disturbance.restart_at_revision;
        let stale = old.filter(|_| incarnation > 0);
        let (_, running) = Process::start(|process| {
            operate(cluster.clone(), process, (index, incarnation), stale)
        });
        let end = running.await;
        let why = match &end {
            State::Exited(why) => why.as_str(),
            State::Killed | State::Running | State::Stopped => "killed",
        };
        cluster
            .exits
            .borrow_mut()
            .push(format!("{index}.{incarnation} {why}"));
        let given_up = cluster.disturbance.then == Then::TakeOver && !cluster.down.get();
        if end == State::Killed && given_up {
            return;
        }
        sleep(RESTART_AFTER).await;
    }
}

/// Kills all processes when the operator is to be down, and lets them start again after it.
async fn outages(cluster: Rc<Cluster>) {
    let begin = Instant::now();
    for span in &cluster.disturbance.down {
        sleep_until(begin + Duration::from_secs(span.from)).await;
        cluster.down.set(true);
        for process in cluster.machines.processes.borrow().iter() {
            process.kill();
        }
        sleep_until(begin + Duration::from_secs(span.to)).await;
        cluster.down.set(false);
    }
}

/// Continues what was stopped, once another process has done what was left, or after a while.
async fn go_on(cluster: Rc<Cluster>) {
    loop {
        until(&cluster.server, || cluster.line.has_stopped()).await;
        let over = until(&cluster.server, || cluster.over.get());
        let _ = timeout(STOPPED_FOR, over).await;
        cluster.line.continue_stopped();
    }
}

/// The program of a process.
async fn operate(
    cluster: Rc<Cluster>,
    process: Process,
    (index, incarnation): (usize, usize),
    stale: Option<u64>,
) {
    let identity = format!("carillon/{index}.{incarnation}");
    let clock = Clock::simulated(cluster.server.now());
    let Ok(metrics) = Metrics::new() else {
        return process.exit("no metrics");
    };
    cluster.metrics.borrow_mut().push(metrics.clone());
    cluster.machines.put(index, &process, &clock);
    let connection = Connection::new(cluster.line.clone(), process.clone(), stale, cluster.wire);
    let transport = || {
        let client = cluster
            .server
            .client_with(USER, &identity, connection.clone());
        let tap = Tap::new(client, connection.clone(), cluster.wire);
        Transport::new(tap, metrics.clone())
    };
    let leadership = match &cluster.config.lease {
        Some(lease) if !cluster.disturbance.without_lease => {
            let settings = lease::Settings::new(lease, "carillon");
            let (leadership, election) = elect_here(
                transport(),
                settings,
                identity.clone(),
                clock,
                CancellationToken::new(),
            );
            let process = process.clone();
            spawn_local(async move {
                if let Some(reason) = election.await {
                    process.exit(&reason);
                }
            });
            leadership
        }
        _ => Leadership::always(clock),
    };
    let instance = Instance::start(
        &cluster.config,
        Surroundings {
            reads: transport(),
            writes: transport(),
            leadership,
            identity,
            metrics,
            rules: controllers::Rules {
                broadcast_job: cluster.rules,
                ..controllers::Rules::default()
            },
        },
    );
    cluster.flights.borrow_mut().push(instance.flights.clone());
    instance.work(CancellationToken::new()).await;
}

/// Waits until a condition holds, looking after every change.
async fn until(server: &Server, holds: impl Fn() -> bool) {
    let mut changes = server.changes();
    while !holds() {
        // A change of state that is no revision is noticed a little later.
        let _ = timeout(Duration::from_secs(5), changes.changed()).await;
    }
}

/// Waits until nothing but leases has changed for a while; since when.
async fn settle(server: &Server) -> Timestamp {
    for _ in 0..100 {
        let (rev, _) = last_change(server);
        sleep(QUIET).await;
        if last_change(server).0 == rev {
            break;
        }
    }
    last_change(server).1
}

/// Revision and time of the last change, leases apart.
fn last_change(server: &Server) -> (u64, Timestamp) {
    server.with_history(|history| {
        let lease = |resource: &str| resource.starts_with("leases.");
        let mut steps = history.steps.iter().rev();
        steps
            .find(|step| !lease(&step.key.resource))
            .map_or_else(|| (0, server.now()), |step| (step.rev, step.at))
    })
}

fn is_over(admin: &Actor, ends: Ends) -> bool {
    let view = View::new(admin);
    match ends {
        Ends::Finished => view.is("Complete") || view.is("Failed"),
        Ends::Served(nodes) => view.count("succeeded") >= nodes,
        Ends::Gone => view.job().is_none() && view.pods().is_empty() && view.slices().is_empty(),
    }
}

fn end(admin: &Actor) -> End {
    let view = View::new(admin);
    let mut end = End {
        counts: ["desired", "succeeded", "failed"].map(|field| view.count(field)),
        held: view
            .pods()
            .iter()
            .filter(|pod| pod["metadata"]["finalizers"].is_array())
            .count(),
        ..End::default()
    };
    let job = view.job();
    let conditions = job
        .as_ref()
        .and_then(|job| job["status"]["conditions"].as_array());
    for condition in conditions.into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        if text("status") == "True" && ["Complete", "Failed"].contains(&text("type").as_str()) {
            end.condition = Some((text("type"), text("reason")));
        }
    }
    for slice in view.slices() {
        for result in slice["results"].as_array().into_iter().flatten() {
            let text = |field: &str| result[field].as_str().unwrap_or_default().to_owned();
            end.nodes.insert(text("node"), text("state"));
        }
    }
    end
}

/// Whether a value is one that the operator wrote.
pub fn ours(request: &carillon_oracle::Request) -> bool {
    request.user == USER
}
