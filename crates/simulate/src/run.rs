//! The run: cluster, operator, and somebody who looks at the object now and then.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::Rules;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::lease::Leadership;
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::{Transport, Watches};
use carillon_plan::node::Nodes;
use carillon_plan::record::Slice;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::read;
use carillon_sim::actors::{self, Component, Kubelets, Scheduler};
use carillon_sim::{Actor, Server, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::api_server::Connection;
use crate::assumptions::Assumptions;
use crate::attempts;
use crate::live_pods::LivePods;
use crate::named::{Named, longest_wait};
use crate::report::{End, Report, Sample};
use crate::share::Share;
use crate::subject::{Look, Subject};
use crate::unknown_fields;

/// As whom the operator acts.
const USER: &str = "system:serviceaccount:carillon-system:carillon";
/// When it begins, by the cluster's clock.
const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// The operator has read the cluster by then.
const SYNCED: Duration = Duration::from_secs(5);
/// An object that has not come further for so long has come to a stand. What the object itself waits for, and what
/// its containers need, comes on top.
const STANDS: Duration = Duration::from_mins(30);
/// A container of a DaemonSet that has failed is started again by then.
const RESTARTS: Duration = Duration::from_mins(1);
/// How much of the history is kept: a watch that begins again reads it.
const KEPT_REVISIONS: u64 = 5_000;
/// Estimates that are noted: one each time so much more is done.
const ESTIMATES: i64 = 10;

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

async fn play(object: &Value, nodes: &[Value], assumptions: &Assumptions) -> Result<Report> {
    let name = object["metadata"]["name"].as_str().unwrap_or("a manifest");
    let named = Named::of(object).with_context(|| name.to_owned())?;
    unknown_fields::refuse(named.subject, &named.object).with_context(|| name.to_owned())?;
    if named.subject == Subject::Job && assumptions.fail != Share::NONE {
        bail!("{name}: --fail is about nodes, and a Job has no pod for each: use --flaky");
    }
    let server = Server::new(BEGIN);
    let admin = server.actor("admin");
    let refused = |what: &str, status: &Status| anyhow!("{what}: {}", status.message);
    if admin.get("namespaces", "", &named.namespace).is_err() {
        let namespace = json!({"metadata": {"name": named.namespace}});
        admin
            .create("namespaces", "", &namespace)
            .map_err(|status| refused("metadata.namespace", &status))?;
    }
    let mut fleet = Nodes::new();
    for node in nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let created = admin
            .create("nodes", "", node)
            .map_err(|status| refused(&format!("node {name}"), &status))?;
        fleet.extend(read::node(&created));
    }
    let (fates, ends) = (assumptions.clone(), named.subject.pods_end());
    let longest = Rc::new(Cell::new(SignedDuration::ZERO));
    let told = longest.clone();
    let fates = move |place: &str, nth: usize| {
        let (fate, takes) = fates.fate(place, nth, ends);
        told.set(told.get().max(takes));
        fate
    };
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
    connection.count_anew();
    let looking = look_on(&server, &admin, &named, &longest);
    let seen = tokio::select! {
        seen = looking => seen?,
        ended = ended => return Err(ended?.err().context("the operator ended")?),
    };
    let ledger = Ledger::read(&seen.slices);
    let retries = named.object["spec"]["backoffLimitPerNode"].as_u64();
    let retries = u32::try_from(retries.unwrap_or(0)).unwrap_or(u32::MAX);
    let begin = created["metadata"]["creationTimestamp"].as_str();
    let begin = begin.and_then(|at| at.parse().ok()).unwrap_or(BEGIN);
    Ok(Report {
        kind: named.object["kind"].as_str().unwrap_or_default().to_owned(),
        nodes: nodes.len(),
        end: seen.end,
        real_seconds: 0.0,
        timeline: seen.timeline,
        most_pods: seen.pods.most,
        created_pods: seen.pods.created.len(),
        requests: connection.requests(),
        at_limit: attempts::at_limit(&ledger, begin, retries, &seen.pods.created),
        served: attempts::nodes(&ledger, begin),
        left_out: named.subject.left_out(&seen.stored, &seen.slices, &fleet),
        fleet,
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
        Task::Check(_) => bail!("these flags ask for the operator"),
    }
}

/// What was seen until the end.
struct Seen {
    end: End,
    timeline: Vec<Sample>,
    pods: LivePods,
    /// The object as it was in the end.
    stored: Arc<Value>,
    slices: Vec<Slice>,
}

async fn look_on(
    server: &Server,
    admin: &Actor,
    named: &Named,
    longest: &Cell<SignedDuration>,
) -> Result<Seen> {
    let (begin, begin_at) = (Instant::now(), server.now());
    let mut pods = LivePods::default();
    let mut timeline: Vec<Sample> = Vec::new();
    let mut progress = ([0; 3], None, begin);
    let mut ended_since = None;
    let mut history = VecDeque::new();
    let mut estimated = 0;
    let waits = Duration::from_secs(longest_wait(&named.object));
    loop {
        pods.look(server, begin_at);
        let stored = named.stored(admin)?;
        let mut look = named
            .subject
            .look(&stored, &Ledger::default(), server.now());
        let total =
            look.sample.done + look.sample.failed + look.sample.active + look.sample.waiting;
        let part = ESTIMATES * (look.sample.done + look.sample.failed) / total.max(1);
        if part > estimated {
            estimated = part;
            let slices = named.slices(admin);
            look = named
                .subject
                .look(&stored, &Ledger::read(&slices), server.now());
        }
        let passed = begin.elapsed();
        note(&mut timeline, &look, passed.as_secs() as i64);
        // Attempts without end are no progress, and neither are pods that come and go.
        let attempts = named.retries_end().then_some(pods.created.len());
        let done = [look.sample.done, look.sample.failed, look.sample.refused];
        let best = [0, 1, 2].map(|at| done[at].max(progress.0[at]));
        if (best, attempts) != (progress.0, progress.1) {
            progress = (best, attempts, Instant::now());
        }
        let takes: Duration = longest.get().try_into().unwrap_or_default();
        let stands = progress.2.elapsed() > STANDS + waits + 2 * takes;
        // Pods of a DaemonSet may fail when all were there for a moment.
        let ended: Option<Instant> = look.ended.then(|| ended_since.unwrap_or_else(Instant::now));
        ended_since = ended;
        let settled =
            |since: Instant| named.subject.pods_end() || since.elapsed() > takes + RESTARTS;
        if ended.is_some_and(settled) || stands {
            let slices = named.slices(admin);
            let look = named
                .subject
                .look(&stored, &Ledger::read(&slices), server.now());
            let failing = named.failing(admin);
            let headline = match failing {
                0 => look.headline,
                pods => format!("{}, and {pods} pods fail again and again", look.headline),
            };
            let end = End {
                good: look.good && failing == 0,
                ended: look.ended,
                headline,
                after_seconds: timeline.last().map_or(0, |last| last.seconds),
            };
            return Ok(Seen {
                end,
                timeline,
                pods,
                stored,
                slices,
            });
        }
        let revision = server.revision();
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
            eta: sample.eta.and(last.eta),
            ..last.clone()
        };
        same == sample
    });
    if !known {
        timeline.push(sample);
    }
}
