//! One run: a cluster, processes of the operator, a script, and what goes wrong.

pub(crate) mod cluster;
mod end;
mod run;
mod service_account;
mod wait;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carillon_oracle::History;
use carillon_oracle::determinism::Decision;
use carillon_oracle::isolation::requests::Asked;
use carillon_sim::actors::{
    self, Component, Fate, JobController, Kubelets, NodeLifecycle, Scheduler, garbage_collector,
};
use carillon_sim::{Actor, Server, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use self::cluster::Cluster;
pub use self::end::{End, started};
pub use self::run::Run;
pub use self::service_account::{USER, ours};
use self::wait::{last_change, settle, until};
use crate::connection::{Late, Line};
use crate::disturbance::Restore;
use crate::editor::Editor;
use crate::monkey::{Machines, Monkey};
use crate::replay;
use crate::scenario::{self, Ends, NAMESPACE, Scenario, User, View};
use crate::storm;
use crate::tenant::{self, Adversary, Tenant};

/// A run in which nothing changes for so long hangs. Scripts pause for half an hour at most, and the
/// operator may be down for an hour.
const HANGS: SignedDuration = SignedDuration::from_mins(75);
/// A run that takes longer goes round in circles.
pub const HORIZON: Duration = Duration::from_hours(4);

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
    /// Requests of ours that the API server has refused as invalid (422), and why.
    pub invalid: Vec<String>,
    /// What the operator has asked for, where there is a tenant.
    pub asked: Vec<Asked>,
    /// Plans that the interlock refused, by rule.
    pub trips: BTreeMap<&'static str, u64>,
    /// When the last fault by chance was over.
    pub calm_at: Timestamp,
    /// From when on nothing was provoked any more.
    pub over_at: Timestamp,
    /// Why processes ended, in order.
    pub exits: Vec<String>,
    /// Requests that were on their way when their process was stopped, and since when.
    pub late: Vec<Late>,
    /// What the flight recorders hold, each decision made again from the history.
    pub decisions: Vec<Decision>,
    /// Requests that were to meet a fault and did not come.
    pub unmet: usize,
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

async fn play(run: &Run<'_>) -> anyhow::Result<Outcome> {
    let start: Timestamp = run.scenario.begin.parse()?;
    let server = Server::new(start);
    let admin = server.actor("admin");
    set_up(&admin, run.scenario, run.disturbance.tenant)
        .map_err(|status| anyhow::anyhow!("the cluster cannot be set up: {status:?}"))?;

    let script = User::new(server.actor("user"), run.scenario.script.clone());
    let script_done = script.done();
    let machines = Rc::new(Machines::default());
    let weather = run.disturbance.weather.clone().unwrap_or_default();
    let (fates, seed, rejected) = (run.scenario.fates, run.seed, weather.rejected);
    let fates = move |place: &str, nth: usize| Fate {
        refused: storm::is_rejected(seed, (place, nth), rejected).then_some("OutOfcpu"),
        ..fates(place, nth)
    };
    let calm_at = start + SignedDuration::from_mins(i64::from(weather.minutes));
    let mut components: Vec<Box<dyn Component>> = vec![
        Box::new(Scheduler::new(&server)),
        Box::new(Kubelets::new(&server, Box::new(fates))),
        Box::new(NodeLifecycle::new(&server)),
        Box::new(script),
    ];
    // It is off where its work is done by us.
    let native = run.scenario.subject.served_natively();
    if !native.contains(&"jobs.batch") {
        components.push(Box::new(JobController::new(&server)));
    }
    if weather.monkey {
        let (about, machines) = ((run.scenario.subject, run.scenario.nodes), machines.clone());
        let actor = server.actor("monkey");
        components.push(Box::new(Monkey::new(
            actor, machines, about, run.seed, calm_at,
        )));
    }
    if weather.edits {
        let actor = server.actor("editor");
        let (subject, right) = (run.scenario.subject, !weather.monkey);
        let editor = Editor::new(actor, subject, run.seed, calm_at, right);
        components.push(Box::new(editor));
    }
    if let Some(tenant) = run.disturbance.tenant {
        let actor = server.actor(tenant::USER);
        components.push(Box::new(Adversary::new(actor, tenant, run.seed, calm_at)));
    }
    spawn_local(actors::run(server.clone(), components));
    spawn_local(garbage_collector::run(
        server.clone(),
        Duration::from_millis(20),
    ));

    let line = Line::new(run.disturbance.clone(), run.seed, server.clock());
    let cluster = Cluster::new(run, &server, &line, machines)?;
    cluster.start();
    if let Some(backup) = run.disturbance.restore {
        spawn_local(restore(server.clone(), line.clone(), backup));
    }
    if weather.minutes > 0 {
        let line = line.clone();
        spawn_local(async move {
            sleep(Duration::from_mins(u64::from(weather.minutes))).await;
            line.calm();
        });
    }

    let is_over = || script_done.get() && is_over(&admin, run.scenario, start);
    let hangs = || server.now().duration_since(last_change(&server).1) > HANGS;
    let circles = || last_change(&server).0 > run.most_revisions;
    let stands_still = until(&server, || is_over() || hangs() || circles());
    let _ = timeout(run.horizon, stands_still).await;
    let ended = is_over();
    cluster.give_up();
    let unmet = line.unmet();
    if !run.disturbance.never_heals() {
        line.calm();
    }
    line.continue_stopped();
    let over_at = if ended {
        settle(&server, run.most_revisions).await
    } else {
        server.now()
    };

    let (panics, trips) = cluster.mistakes();
    let history = server.history();
    let outcome = Outcome {
        writes: line.writes(),
        events: line.events(),
        end: End::of(&admin, &history, run.disturbance.tenant),
        ended,
        panics,
        invalid: invalid(&server, run.disturbance.tenant),
        asked: line.asked(),
        trips,
        calm_at,
        over_at,
        exits: cluster.exits(),
        late: line.late(),
        decisions: replay::all(&history, &cluster.flights()),
        history,
        unmet,
    };
    Ok(outcome)
}

/// Restores the backup when it is time.
async fn restore(server: Server, line: Arc<Line>, backup: Restore) {
    until(&server, || server.revision() >= backup.at).await;
    line.set_down(true);
    server.restore(0);
    sleep(Duration::from_secs(backup.down)).await;
    server.restore(server.revision().saturating_sub(backup.at - backup.lost));
    line.set_down(false);
}

/// Namespaces, nodes, what is served.
fn set_up(admin: &Actor, scenario: &Scenario, tenant: Option<Tenant>) -> Result<(), Status> {
    let namespace = |name: &str| {
        let object = json!({"metadata": {"name": name}});
        admin.create("namespaces", "", &object).map(drop)
    };
    namespace(NAMESPACE)?;
    namespace("carillon")?;
    for n in 0..scenario.nodes {
        let node = scenario::ready_node(&format!("node-{n}"));
        admin.create("nodes", "", &node)?;
    }
    let subject = scenario.subject;
    let object = (subject.manifest)(&scenario.spec);
    admin.create(subject.resource, NAMESPACE, &object)?;
    // It comes last: names follow from uids, and those of the scenario are what they are without it.
    let elsewhere = tenant.filter(|tenant| *tenant == Tenant::Elsewhere);
    elsewhere.map_or(Ok(()), |tenant| namespace(tenant.namespace()))
}

fn is_over(admin: &Actor, scenario: &Scenario, begin: Timestamp) -> bool {
    let view = View::new(admin);
    match scenario.ends {
        Ends::Finished => view.is("Complete") || view.is("Failed"),
        Ends::Served(nodes) => view.count("succeeded") >= nodes,
        Ends::Gone => view.job().is_none() && left(&view).is_none(),
        Ends::After(time) => admin.server().now().duration_since(begin) >= time,
    }
}

/// What a job that is gone has left that it controls or that has our finalizer.
fn left(view: &View<'_>) -> Option<Arc<Value>> {
    let of_job = |object: &Arc<Value>| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owned = owners.is_some_and(|owners| !owners.is_empty());
        owned || object["metadata"]["finalizers"].is_array()
    };
    let all = view.pods().into_iter().chain(view.slices());
    all.into_iter().find(of_job)
}

/// What of ours was refused as invalid. A patch of an object that was replaced under its name is, too:
/// that it says which one it means is right. And a user's webhook may judge a user's template as it likes.
/// What a tenant orders may be refused once it is carried out.
fn invalid(server: &Server, tenant: Option<Tenant>) -> Vec<String> {
    let tenants = tenant.map(|tenant| format!("/namespaces/{}/", tenant.namespace()));
    let of_tenant = |uri: &str| tenants.as_ref().is_some_and(|place| uri.contains(place));
    let refused = server.refused_as_invalid().into_iter();
    let meant = ["metadata.uid", "admission webhook"];
    let ours = refused
        .filter(|(request, why)| ours(request) && !meant.iter().any(|meant| why.contains(meant)));
    let ours = ours.filter(|(request, _)| !of_tenant(&request.uri));
    ours.map(|(request, why)| format!("{} {}: {why}", request.verb, request.uri))
        .collect()
}
