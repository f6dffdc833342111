//! The processes of the operator in a run, and the machines they run on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::Rules;
use carillon_operator::flight_recorder::FlightRecorder;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::kinds::SERVED;
use carillon_operator::lease::{self, Leadership, elect_here};
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::{Transport, Watches};
use carillon_oracle::History;
use carillon_sim::Server;
use jiff::SignedDuration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::run::Run;
use super::service_account::USER;
use super::wait::until;
use crate::connection::{Connection, Line};
use crate::disturbance::{Disturbance, Then};
use crate::monkey::Machines;
use crate::process::{Process, State};
use crate::scenario::{Jump, Scenario};
use crate::span::Span;
use crate::tap::Tap;
use crate::wire::Wire;

/// How long a container that ended is down.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// How long a stopped process stays so at most.
const STOPPED_FOR: Duration = Duration::from_mins(10);

/// What the processes of a run share.
pub(crate) struct Cluster {
    server: Server,
    line: Arc<Line>,
    config: Config,
    rules: Rules,
    wire: Wire,
    disturbance: Disturbance,
    /// When no process runs, in order.
    outages: Vec<Span>,
    jumps: Vec<Jump>,
    metrics: RefCell<Vec<Arc<Metrics>>>,
    exits: RefCell<Vec<String>>,
    flights: RefCell<Vec<Arc<FlightRecorder>>>,
    machines: Rc<Machines>,
    /// By how many seconds the clocks of all machines are ahead.
    ahead: Cell<i64>,
    /// No process is to run now.
    down: Cell<bool>,
    /// Processes from this one on never lead.
    onlookers: Cell<usize>,
    /// The scenario has come to its end: a process that was given up stays so.
    over: Cell<bool>,
}

impl Cluster {
    pub(crate) fn new(
        run: &Run<'_>,
        server: &Server,
        line: &Arc<Line>,
        machines: Rc<Machines>,
    ) -> anyhow::Result<Rc<Self>> {
        let disturbance = run.disturbance.clone();
        let mut outages = [&run.scenario.down[..], &disturbance.down].concat();
        outages.sort_by_key(|span| span.from);
        Ok(Rc::new(Self {
            server: server.clone(),
            line: line.clone(),
            config: config(run.scenario, &disturbance)?,
            rules: run.rules.clone(),
            wire: run.wire,
            disturbance,
            outages,
            jumps: run.scenario.jumps.clone(),
            metrics: RefCell::default(),
            exits: RefCell::default(),
            flights: RefCell::default(),
            machines,
            ahead: Cell::new(0),
            down: Cell::new(false),
            onlookers: Cell::new(usize::MAX),
            over: Cell::new(false),
        }))
    }

    /// Starts all processes, and what happens to them at certain times.
    pub(crate) fn start(self: &Rc<Self>) {
        spawn_local(outages(self.clone()));
        spawn_local(jumps(self.clone()));
        for index in 0..self.disturbance.processes.max(1) {
            spawn_local(supervise(self.clone(), index));
        }
        spawn_local(go_on(self.clone()));
    }

    /// The scenario has come to its end.
    pub(crate) fn give_up(&self) {
        self.over.set(true);
    }

    /// Processes from this one on never lead.
    pub(crate) fn look_on_from(&self, index: usize) {
        self.onlookers.set(index);
    }

    /// Drops what dead processes have left.
    pub(crate) fn bury(&self) {
        self.metrics
            .borrow_mut()
            .retain(|metrics| Arc::strong_count(metrics) > 1);
        self.flights
            .borrow_mut()
            .retain(|flights| Arc::strong_count(flights) > 1);
    }

    /// What the processes that live measure.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metrics>> {
        self.metrics.borrow().clone()
    }

    /// Why processes ended, in order.
    pub(crate) fn exits(&self) -> Vec<String> {
        self.exits.take()
    }

    /// What they decided.
    pub(crate) fn flights(&self) -> Vec<Arc<FlightRecorder>> {
        self.flights.borrow().clone()
    }

    /// Panics, and plans that the interlock refused, of all processes.
    pub(crate) fn mistakes(&self) -> (u64, BTreeMap<&'static str, u64>) {
        let metrics = self.metrics.borrow();
        let (mut panics, mut trips) = (0, BTreeMap::new());
        for metrics in metrics.iter() {
            for served in &SERVED {
                panics += metrics.panics.with_label_values(&[served.name]).get();
                for rule in served.rules {
                    let tripped = &metrics.interlock_trips;
                    let tripped = tripped.with_label_values(&[served.name, rule]).get();
                    *trips.entry(*rule).or_default() += tripped;
                }
            }
        }
        trips.retain(|_, trips| *trips > 0);
        (panics, trips)
    }
}

fn config(scenario: &Scenario, disturbance: &Disturbance) -> anyhow::Result<Config> {
    let mut flags = vec![
        "carillon",
        "--lease-namespace=carillon",
        "--http-address=127.0.0.1:0",
    ];
    let chosen = scenario
        .flags
        .iter()
        .any(|flag| flag.starts_with("--controllers="));
    let of_subject = scenario.subject.flags.iter();
    flags.extend(of_subject.filter(|flag| !(chosen && flag.starts_with("--controllers="))));
    flags.extend(scenario.flags);
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
        // It may be started again before that revision is there.
        let now = cluster
            .server
            .with_history(|history| history.steps.last().map(|step| step.rev));
        let old = cluster.disturbance.restart_at_revision;
        let stale = old.filter(|old| incarnation > 0 && Some(*old) <= now);
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
    for span in &cluster.outages {
        sleep_until(begin + Duration::from_secs(span.from)).await;
        cluster.down.set(true);
        for process in cluster.machines.processes.borrow().iter() {
            process.kill();
        }
        sleep_until(begin + Duration::from_secs(span.to)).await;
        cluster.down.set(false);
    }
}

/// Lets the clocks of all machines go wrong when they are to.
async fn jumps(cluster: Rc<Cluster>) {
    let begin = Instant::now();
    for jump in &cluster.jumps {
        sleep_until(begin + Duration::from_secs(jump.at)).await;
        cluster.ahead.set(jump.ahead);
        for clock in cluster.machines.clocks.borrow().iter() {
            clock.set_skew(SignedDuration::from_secs(jump.ahead));
        }
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
    clock.set_skew(SignedDuration::from_secs(cluster.ahead.get()));
    let Ok(metrics) = Metrics::new() else {
        return process.exit("no metrics");
    };
    cluster.metrics.borrow_mut().push(metrics.clone());
    cluster.machines.put(index, &process, &clock);
    let steps = |history: &History| history.steps.last().map_or(0, |step| step.rev);
    let began_at = cluster.server.with_history(steps);
    let line = cluster.line.clone();
    let connection = Connection::new(line, process.clone(), began_at, stale, cluster.wire);
    let transport = || {
        let client = cluster
            .server
            .client_with(USER, &identity, connection.clone());
        let tap = Tap::new(client, connection.clone(), cluster.wire);
        Transport::new(tap, metrics.clone())
    };
    let leadership = match &cluster.config.lease {
        _ if index >= cluster.onlookers.get() => Leadership::standby(clock),
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
            reads: Watches::over(transport()),
            writes: transport(),
            leadership,
            identity,
            metrics,
            rules: cluster.rules.clone(),
        },
    );
    cluster.flights.borrow_mut().push(instance.flights.clone());
    if let Err(ended) = instance.work(CancellationToken::new()).await {
        process.exit(&ended.to_string());
    }
}
