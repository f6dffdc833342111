//! The run: cluster, operator, and somebody who looks at the object now and then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::Rules;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::lease::Leadership;
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::{Transport, Watches};
use carillon_plan::record::Slice;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::read;
use carillon_sim::actors::{self, Component, Kubelets, Scheduler};
use carillon_sim::{Actor, Server, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::api_server::Connection;
use crate::assumptions::Assumptions;
use crate::attempts;
use crate::live_pods::LivePods;
use crate::report::{End, Report, Sample};
use crate::subject::{Look, Subject};
use crate::unknown_fields;

/// As whom the operator acts.
const USER: &str = "system:serviceaccount:carillon-system:carillon";
/// When it begins, by the cluster's clock.
const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// The operator has read the cluster by then.
const SYNCED: Duration = Duration::from_secs(5);
/// An object about which nothing changes for so long, and which has no pods, has come to a stand.
const STANDS: Duration = Duration::from_mins(30);
/// Nothing is looked at for longer.
const HORIZON: Duration = Duration::from_hours(24 * 365);
/// How much of the history is kept: a watch that begins again reads it.
const KEPT_REVISIONS: u64 = 20_000;
/// Estimates that are noted: one each time so much more is done.
const ESTIMATES: i64 = 10;
/// Objects without a namespace are put there.
const NAMESPACE: &str = "default";

/// Simulates `object` on `nodes`.
///
/// # Errors
/// When the cluster refuses the object, its kind cannot be simulated, or the operator ends.
pub fn run(object: &Value, nodes: &[Value], assumptions: &Assumptions) -> Result<Report> {
    fastrand::seed(assumptions.seed);
    let began = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let tasks = LocalSet::new();
    let report = tasks.block_on(&runtime, play(object, nodes, assumptions));
    // The tasks refer to each other through the server's watches.
    drop(tasks);
    let mut report = report?;
    report.real_seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// The object under its name, in a namespace.
struct Named {
    subject: Subject,
    namespace: String,
    name: String,
    object: Value,
}

impl Named {
    fn of(object: &Value) -> Result<Self> {
        let subject = Subject::of(object)?;
        let mut object = object.clone();
        let meta = &mut object["metadata"];
        if meta["namespace"].is_null() {
            meta["namespace"] = json!(NAMESPACE);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = text(&meta["name"]).context("metadata.name is missing")?;
        Ok(Self {
            subject,
            namespace: text(&meta["namespace"]).context("metadata.namespace is not a string")?,
            name,
            object,
        })
    }

    fn stored(&self, admin: &Actor) -> Result<Arc<Value>> {
        let (resource, namespace) = (self.subject.resource(), &self.namespace);
        let stored = admin.get(resource, namespace, &self.name);
        stored.map_err(|status| anyhow!("{} is gone: {}", self.name, status.message))
    }

    fn slices(&self, admin: &Actor) -> Vec<Slice> {
        let slices = admin.list("noderesultslices.carillon.dev", &self.namespace, "");
        let slices: Vec<Value> = slices
            .unwrap_or_default()
            .iter()
            .map(|slice| (**slice).clone())
            .collect();
        read::slices(&slices).unwrap_or_default()
    }
}

async fn play(object: &Value, nodes: &[Value], assumptions: &Assumptions) -> Result<Report> {
    let named = Named::of(object)?;
    unknown_fields::refuse(named.subject, &named.object)?;
    let server = Server::new(BEGIN);
    let admin = server.actor("admin");
    let refused = |what: &str, status: &Status| anyhow!("{what}: {}", status.message);
    if admin.get("namespaces", "", &named.namespace).is_err() {
        let namespace = json!({"metadata": {"name": named.namespace}});
        admin
            .create("namespaces", "", &namespace)
            .map_err(|status| refused("metadata.namespace", &status))?;
    }
    for node in nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        admin
            .create("nodes", "", node)
            .map_err(|status| refused(&format!("node {name}"), &status))?;
    }
    let (fates, ends) = (assumptions.clone(), named.subject.pods_end());
    let fates = move |place: &str, nth: usize| fates.fate(place, nth, ends);
    let components: Vec<Box<dyn Component>> = vec![
        Box::new(Scheduler::new(&server)),
        Box::new(Kubelets::new(&server, Box::new(fates))),
    ];
    spawn_local(actors::run(server.clone(), components));
    let latency = assumptions.api_latency.try_into().unwrap_or_default();
    let connection = Arc::new(Connection::new(latency, server.clock()));
    let ended = spawn_local(operate(server.clone(), connection.clone(), named.subject)?);
    sleep(SYNCED).await;

    let created = admin
        .create(named.subject.resource(), &named.namespace, &named.object)
        .map_err(|status| refused(&named.name, &status))?;
    let before = connection.requests();
    let looking = look_on(&server, &admin, &named);
    let seen = tokio::select! {
        seen = looking => seen?,
        ended = ended => return Err(ended?.err().context("the operator ended")?),
    };
    let slices = named.slices(&admin);
    let ledger = Ledger::read(&slices);
    let begin = created["metadata"]["creationTimestamp"].as_str();
    let begin = begin.and_then(|at| at.parse().ok()).unwrap_or(BEGIN);
    Ok(Report {
        kind: named.object["kind"].as_str().unwrap_or_default().to_owned(),
        nodes: nodes.len(),
        end: seen.end,
        real_seconds: 0.0,
        timeline: seen.timeline,
        most_pods: seen.pods.most,
        created_pods: seen.pods.created,
        requests: connection.requests().since(&before),
        at_limit: attempts::at_limit(&ledger, begin),
        served: attempts::nodes(&ledger, begin),
        namespace: named.namespace,
        name: named.name,
    })
}

/// The operator, as a task.
fn operate(
    server: Server,
    connection: Arc<Connection>,
    subject: Subject,
) -> Result<impl Future<Output = Result<()>>> {
    let config = config(subject)?;
    let metrics = Metrics::new()?;
    Ok(async move {
        let transport = || {
            let client = server.client_with(USER, "carillon", connection.clone());
            Transport::new(client, metrics.clone())
        };
        let instance = Instance::start(
            &config,
            Surroundings {
                reads: Watches::over(transport()),
                writes: transport(),
                leadership: Leadership::always(Clock::simulated(server.now())),
                identity: "carillon".to_owned(),
                metrics: metrics.clone(),
                rules: Rules::default(),
            },
        );
        let ended = instance.work(CancellationToken::new()).await;
        ended.map_err(|ended| anyhow!("{ended}"))
    })
}

fn config(subject: Subject) -> Result<Config> {
    let fixed = [
        "carillon",
        "--lease-namespace=carillon-system",
        "--http-address=127.0.0.1:0",
    ];
    match Task::parse(fixed.iter().chain(subject.flags()))? {
        Task::Operate(config) => Ok(config),
        Task::Check(_) => anyhow::bail!("these flags ask for the operator"),
    }
}

/// What was seen until the end.
struct Seen {
    end: End,
    timeline: Vec<Sample>,
    pods: LivePods,
}

async fn look_on(server: &Server, admin: &Actor, named: &Named) -> Result<Seen> {
    let begin = Instant::now();
    let mut pods = LivePods::default();
    let mut timeline: Vec<Sample> = Vec::new();
    let mut changed = (server.revision(), Instant::now());
    let mut history = VecDeque::new();
    let mut estimated = 0;
    loop {
        pods.look(server);
        let stored = named.stored(admin)?;
        let mut look = named.subject.look(&stored, &Ledger::default());
        let total =
            look.sample.done + look.sample.failed + look.sample.active + look.sample.waiting;
        let part = ESTIMATES * (look.sample.done + look.sample.failed) / total.max(1);
        if part > estimated {
            estimated = part;
            let slices = named.slices(admin);
            look = named.subject.look(&stored, &Ledger::read(&slices));
        }
        let passed = begin.elapsed();
        let after_seconds = passed.as_secs() as i64;
        note(&mut timeline, &look, after_seconds);
        let revision = server.revision();
        if revision != changed.0 {
            changed = (revision, Instant::now());
        }
        let may_change = named.subject.pods_end() && pods.now > 0;
        let stands = changed.1.elapsed() > STANDS && !may_change;
        if look.ended || stands || passed > HORIZON {
            let end = End {
                good: look.good,
                ended: look.ended,
                headline: look.headline,
                after_seconds: timeline.last().map_or(after_seconds, |last| last.seconds),
            };
            return Ok(Seen {
                end,
                timeline,
                pods,
            });
        }
        history.push_back(revision);
        while let Some(old) = history.front()
            && old + KEPT_REVISIONS < pods.seen()
        {
            server.forget(*old);
            history.pop_front();
        }
        // A day has as many samples as a minute needs.
        sleep((passed / 1000).max(Duration::from_secs(1))).await;
    }
}

/// Adds what is seen, if it is new.
fn note(timeline: &mut Vec<Sample>, look: &Look, seconds: i64) {
    let sample = Sample {
        seconds,
        ..look.sample.clone()
    };
    let known = timeline.last().is_some_and(|last| {
        let same = Sample {
            seconds,
            eta_seconds: sample.eta_seconds.and(last.eta_seconds),
            ..last.clone()
        };
        same == sample
    });
    if !known {
        timeline.push(sample);
    }
}
