//! One instance of the operator: caches, queue, writes and workers. It reaches the API server only
//! through the transports it is given, and has no thread of its own: all of it runs as local tasks,
//! so that a simulation can stop it between any two steps.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_api::names;
use carillon_plan::ObjectKey;
use carillon_plan::job::Limits;
use carillon_plan::pod_body;
use jiff::SignedDuration;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::args::{self, Config, NativeKind, PodPlacement};
use crate::clock::Clock;
use crate::controllers::Rules;
use crate::controllers::broadcast_job::{self, BroadcastJobs};
use crate::controllers::core::{self, Controller, Core};
use crate::controllers::cron_job::{self, CronJobs};
use crate::controllers::job::{self, Jobs};
use crate::controllers::orphan_pod::{self, OrphanPods};
use crate::controllers::refusals::Refusals;
use crate::controllers::relists::Relists;
use crate::event;
use crate::flight_recorder::FlightRecorder;
use crate::gate::Kind;
use crate::lease::{Leadership, Phase};
use crate::metrics::Metrics;
use crate::parts::{Ended, Parts};
use crate::queue::{Backoff, WorkQueue};
use crate::slim::{
    Carillon, Native, SlimBroadcastJob, SlimCronJob, SlimJob, SlimJobPod, SlimNativeJob, SlimNode,
    SlimPod, SlimSlice,
};
use crate::store::{Queues, Row, Store, StoreSink};
use crate::transport::{Transport, Watches, gathering};
use crate::watch::{self, Source};
use crate::writes::Writes;

/// A failing sync waits this long, doubled up to a minute.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_mins(1),
};
/// So many objects at least are served at a time: however slow a webhook of one is, it holds no more than its part
/// of the requests in flight.
const OBJECTS_AT_ONCE: usize = 4;
/// How long what a stopping process has sent may take at least, however long its syncs have taken.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// How often a standby looks whether it sees anything.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long a stopping process lets finish what is under way. A pod has thirty seconds to end in; the lease
/// is given back in the last ten.
const FINISH_WITHIN: Duration = Duration::from_secs(18);

/// What an instance is given.
#[derive(Debug)]
pub struct Surroundings {
    /// For lists and watches.
    pub reads: Watches,
    /// For writes.
    pub writes: Transport,
    /// Whether this instance leads; its clock is the instance's clock.
    pub leadership: Leadership,
    /// Name of the instance in events.
    pub identity: String,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// What decides, and what may forbid it.
    pub rules: Rules,
}

/// A running instance.
#[derive(Debug)]
pub struct Instance {
    /// The caches.
    pub store: Store,
    /// The keys.
    pub queues: Queues,
    /// The watches that there always are.
    pub watches: Vec<watch::Handle>,
    /// The same, and those that may never be wanted.
    all_watches: Vec<watch::Handle>,
    /// The last decisions.
    pub flights: Arc<FlightRecorder>,
    /// All that has to run as long as it does, but the workers.
    pub parts: Parts,
    /// Ends the parts.
    pub shutdown: CancellationToken,
    controllers: Controllers,
    leadership: Leadership,
    writes: Writes,
}

/// Those that run, and how many workers each has.
#[derive(Debug)]
struct Controllers {
    broadcast_jobs: Option<Arc<BroadcastJobs>>,
    cron_jobs: Option<Arc<CronJobs>>,
    jobs: Option<Arc<Jobs>>,
    orphan_pods: Option<Arc<OrphanPods>>,
    workers: usize,
}

impl Controllers {
    fn start(&self, workers: &mut Parts) {
        for _ in 0..self.workers {
            start(self.broadcast_jobs.as_ref(), workers);
            start(self.cron_jobs.as_ref(), workers);
            start(self.jobs.as_ref(), workers);
            start(self.orphan_pods.as_ref(), workers);
        }
    }
}

fn start<C: Controller>(controller: Option<&Arc<C>>, workers: &mut Parts) {
    if let Some(controller) = controller {
        let name = format!("a worker of {}", controller.core().name);
        workers.start(name, core::work(controller.clone()));
    }
}

impl Instance {
    /// Starts watching; to be called where [`tokio::task::spawn_local`] may be.
    pub fn start(config: &Config, surroundings: Surroundings) -> Self {
        let Surroundings {
            reads,
            writes,
            leadership,
            identity,
            metrics,
            rules,
        } = surroundings;
        let shutdown = CancellationToken::new();
        let mut parts = Parts::default();

        // Caches: one watch per kind, in every replica.
        let store = Store::new();
        let serves = |kind| config.serve_native.contains(&kind);
        if !serves(NativeKind::Jobs) {
            store.leave_native_jobs();
        }
        let queues = queues(config, leadership.clock(), &metrics);
        let watching = Watching {
            transports: reads,
            store: store.clone(),
            queues: queues.clone(),
            config,
            metrics: &metrics,
            shutdown: &shutdown,
        };
        let mut watches = watching.all(&mut parts);
        let pods_of_jobs = queues.jobs.is_some().then(|| {
            let wanted = (!serves(NativeKind::Jobs)).then(|| store.has_managed_job());
            watching.start_when::<SlimJobPod>("", wanted.as_ref(), &mut parts)
        });
        let all_watches: Vec<_> = watches.iter().chain(&pods_of_jobs).cloned().collect();
        // Readiness does not wait for what may never be wanted; a Job does.
        if serves(NativeKind::Jobs) {
            watches.clone_from(&all_watches);
        }

        // Writes and events.
        let writes = Writes::new(writes, leadership.clone(), config.max_in_flight_writes);
        let (events, recorder) =
            event::channel(writes.clone(), leadership.clone(), &identity, &metrics);
        parts.start("the recorder of events", recorder.run(shutdown.clone()));

        let flights = Arc::new(FlightRecorder::default());
        let core = |name, queue: &WorkQueue<Arc<ObjectKey>>| Core {
            name,
            store: store.clone(),
            queue: queue.clone(),
            writes: writes.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            watches: all_watches.clone(),
            parallel: config.max_in_flight_writes.div_ceil(OBJECTS_AT_ONCE),
            paces: Mutex::default(),
            gate: Mutex::default(),
            refusals: Refusals::default(),
            relists: Relists::default(),
            flights: flights.clone(),
        };
        let broadcast_jobs = queues.broadcast_jobs.as_ref().map(|queue| BroadcastJobs {
            core: core(broadcast_job::NAME, queue),
            rules: rules.broadcast_job,
            placement: placement(config.pod_placement),
            max_pod_changes: config.max_pod_changes_per_sync,
            memory: Mutex::default(),
        });
        let cron_jobs = queues.cron_jobs.as_ref().map(|queue| CronJobs {
            core: core(cron_job::NAME, queue),
            rules: rules.cron_job,
            memory: Mutex::default(),
        });
        let jobs = queues
            .jobs
            .as_ref()
            .zip(pods_of_jobs)
            .map(|(queue, pods)| Jobs {
                core: core(job::NAME, queue),
                pods,
                rules: rules.job,
                limits: limits(config),
                memory: Mutex::default(),
            });
        let orphan_pods = queues.orphan_pods.as_ref().map(|queue| OrphanPods {
            core: core(orphan_pod::NAME, queue),
        });
        Self {
            store,
            queues,
            watches,
            all_watches,
            flights,
            parts,
            shutdown,
            controllers: Controllers {
                broadcast_jobs: broadcast_jobs.map(Arc::new),
                cron_jobs: cron_jobs.map(Arc::new),
                jobs: jobs.map(Arc::new),
                orphan_pods: orphan_pods.map(Arc::new),
                workers: config.workers,
            },
            leadership,
            writes,
        }
    }

    /// Works, once this instance leads and the caches were filled since, until `stop`; then lets running
    /// syncs and requests finish. Leadership may be given back afterwards.
    ///
    /// # Errors
    /// When a part has ended before `stop`. The process is to end, too.
    pub async fn work(mut self, stop: CancellationToken) -> Result<(), Ended> {
        let mut workers = Parts::default();
        let leading = async {
            if lead(
                &self.leadership,
                &self.watches,
                &self.all_watches,
                &self.queues,
                &self.store,
            )
            .await
            {
                self.controllers.start(&mut workers);
            }
            workers.one_ended().await
        };
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            ended = self.parts.one_ended() => Err(ended),
            ended = leading => Err(ended),
        };

        // Finish or abandon cleanly, then let another replica lead.
        tracing::info!("stopping");
        let end = Instant::now() + FINISH_WITHIN;
        self.queues.shutdown();
        finish("a sync", end, workers.all_ended()).await;
        workers.abandon().await;
        self.shutdown.cancel();
        let end = end.max(Instant::now() + LAST_WRITES);
        finish("a request", end, async {
            self.parts.all_ended().await;
            self.writes.drain().await;
        })
        .await;
        self.parts.abandon().await;
        outcome
    }
}

/// Waits until this instance leads and knows all that was done before. False when it never will.
async fn lead(
    leadership: &Leadership,
    watches: &[watch::Handle],
    all_watches: &[watch::Handle],
    queues: &Queues,
    store: &Store,
) -> bool {
    // One that cannot list, or hears nothing any more, takes the lease from nobody.
    while leadership.phase() == Phase::Standby {
        for watch in watches {
            watch.synced().await;
        }
        leadership.stand(true);
        tokio::select! {
            biased;
            _ = leadership.wait_leader() => {}
            () = until(|| is_blind(watches)) => {
                leadership.stand(false);
                tracing::warn!("a kind is silent; not standing for election");
                until(|| !is_blind(watches)).await;
            }
        }
    }
    if leadership.phase() == Phase::Over {
        return false;
    }
    tracing::info!("leading");
    // A watch may hang, or only be slow: what was written by whoever led before is in the caches for
    // certain only after lists that begin now.
    for watch in all_watches {
        watch.need_new_list();
    }
    for watch in watches {
        watch.synced().await;
    }
    tracing::info!("caches synced");
    queues.open(store);
    true
}

fn is_blind(watches: &[watch::Handle]) -> bool {
    let mut watches = watches.iter();
    watches.any(|watch| watch.silence() > watch::SILENT_FOR_GOOD)
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(LOOK_AGAIN).await;
    }
}

/// One for each controller that is to run.
fn queues(config: &Config, clock: &Clock, metrics: &Metrics) -> Queues {
    let runs = |controller| config.controllers.contains(&controller);
    let serves = |kind| config.serve_native.contains(&kind);
    let cron_jobs = runs(args::Controller::CronJob) || serves(NativeKind::CronJobs);
    let jobs = runs(args::Controller::Job) || serves(NativeKind::Jobs);
    let queue = |name| WorkQueue::new(name, BACKOFF, config.workers, clock, metrics);
    let of_jobs = Backoff {
        base: config.job_api_backoff,
        max: config.job_max_api_backoff,
    };
    let job_queue = |name| WorkQueue::new(name, of_jobs, config.workers, clock, metrics);
    Queues {
        broadcast_jobs: runs(args::Controller::BroadcastJob).then(|| queue(broadcast_job::NAME)),
        cron_jobs: cron_jobs.then(|| queue(cron_job::NAME)),
        jobs: jobs.then(|| job_queue(job::NAME)),
        orphan_pods: jobs.then(|| job_queue(orphan_pod::NAME)),
        stands_by: Arc::new(AtomicBool::new(true)),
    }
}

/// What the flags say about Jobs.
fn limits(config: &Config) -> Limits {
    let duration = |given| SignedDuration::try_from(given).unwrap_or(SignedDuration::MAX);
    Limits {
        backoff: duration(config.job_pod_failure_backoff),
        max_backoff: duration(config.job_max_pod_failure_backoff),
        max_uncounted: config.job_max_uncounted_pods,
        max_pod_changes: config.max_pod_changes_per_sync,
        strict_parity: config.job_strict_parity,
    }
}

/// Waits for what is under way, but not for ever.
async fn finish(what: &str, end: Instant, work: impl Future<Output = ()>) {
    if timeout_at(end, work).await.is_err() {
        tracing::warn!(what, "not finished in time and abandoned");
    }
}

struct Watching<'a> {
    transports: Watches,
    store: Store,
    queues: Queues,
    config: &'a Config,
    metrics: &'a Metrics,
    shutdown: &'a CancellationToken,
}

impl Watching<'_> {
    /// Those that the controllers need.
    fn all(&self, parts: &mut Parts) -> Vec<watch::Handle> {
        let mut watches = Vec::new();
        // Nobody else needs a CRD: what a native CronJob starts is a Job.
        let runs_ours = self.config.controllers.contains(&args::Controller::CronJob);
        if self.queues.broadcast_jobs.is_some() || runs_ours {
            watches.push(self.start::<SlimBroadcastJob>("", parts));
        }
        if self.queues.broadcast_jobs.is_some() {
            let of_jobs = names::LABEL_BROADCAST_JOB_UID;
            watches.extend([
                self.start::<SlimNode>("", parts),
                self.start::<SlimSlice>(of_jobs, parts),
                self.start::<SlimPod>(of_jobs, parts),
            ]);
        }
        // One watch of Jobs, whoever needs it.
        if self.queues.jobs.is_some() {
            watches.push(self.start::<SlimJob>("", parts));
        } else if self.queues.cron_jobs.is_some() {
            watches.push(self.start::<SlimNativeJob>("", parts));
        }
        if runs_ours {
            watches.push(self.start::<SlimCronJob<Carillon>>("", parts));
        }
        if self.config.serve_native.contains(&NativeKind::CronJobs) {
            watches.push(self.start::<SlimCronJob<Native>>("", parts));
        }
        watches
    }

    fn start<K: Row>(&self, label: &str, parts: &mut Parts) -> watch::Handle {
        self.start_when::<K>(label, None, parts)
    }

    /// Starts at once, or as soon as it is `wanted`.
    fn start_when<K: Row>(
        &self,
        label: &str,
        wanted: Option<&Receiver<bool>>,
        parts: &mut Parts,
    ) -> watch::Handle {
        let kind = K::KIND.word();
        let (group, version) = K::KIND.group_version();
        let source = Source {
            kind,
            group,
            version,
            plural: K::KIND.plural(),
            labels: label.to_owned(),
            audit_period: self.config.cache_audit_period,
        };
        // Nodes have no namespace.
        let namespaces: &[String] = if K::KIND == Kind::Node {
            &[]
        } else {
            &self.config.namespaces
        };
        let batch = gathering(self.config.job_sync_batch_period);
        let (handle, loops) = watch::prepare::<K, _>(
            self.transports.at(K::PACE),
            &source,
            namespaces,
            |namespace| StoreSink::new(&self.store, &self.queues, batch, namespace),
            self.metrics,
        );
        for watch in loops {
            let shutdown = self.shutdown.clone();
            let name = format!("the watch of {kind}");
            match wanted {
                Some(wanted) => parts.start(name, watch.run_when(wanted.clone(), shutdown)),
                None => parts.start(name, watch.run(shutdown)),
            }
        }
        handle
    }
}

fn placement(flag: PodPlacement) -> pod_body::PodPlacement {
    match flag {
        PodPlacement::Scheduler => pod_body::PodPlacement::Scheduler,
        PodPlacement::NodeName => pod_body::PodPlacement::NodeName,
    }
}
