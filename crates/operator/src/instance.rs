//! One instance of the operator: caches, queue, writes and workers. It reaches the API server only
//! through the transports it is given, and has no thread of its own: all of it runs as local tasks,
//! so that a simulation can stop it between any two steps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_api::names;
use carillon_plan::ObjectKey;
use carillon_plan::job::Limits;
use carillon_plan::pod_body;
use jiff::SignedDuration;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Config, Controller, NativeKind, PodPlacement};
use crate::controllers::Rules;
use crate::controllers::broadcast_job::{self, BroadcastJobs};
use crate::controllers::core::{self, Core};
use crate::controllers::cron_job::{self, CronJobs};
use crate::controllers::job::{self, Jobs};
use crate::controllers::orphan_pod::{self, OrphanPods};
use crate::controllers::refusals::Refusals;
use crate::controllers::relists::Relists;
use crate::event;
use crate::flight_recorder::FlightRecorder;
use crate::gate::Kind;
use crate::lease::Leadership;
use crate::metrics::Metrics;
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
/// How long a stopping process lets running syncs finish.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

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
    /// Every task that is not a worker.
    pub tasks: JoinSet<()>,
    /// Ends the tasks.
    pub shutdown: CancellationToken,
    broadcast_jobs: Option<Arc<BroadcastJobs>>,
    cron_jobs: Option<Arc<CronJobs>>,
    jobs: Option<Arc<Jobs>>,
    orphan_pods: Option<Arc<OrphanPods>>,
    leadership: Leadership,
    writes: Writes,
    workers: usize,
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
        let mut tasks = JoinSet::new();

        // Caches: one watch per kind, in every replica.
        let store = Store::new();
        let serves = |kind| config.serve_native.contains(&kind);
        if !serves(NativeKind::Jobs) {
            store.leave_native_jobs();
        }
        let queues = queues(config, &metrics);
        let watching = Watching {
            transports: reads,
            store: store.clone(),
            queues: queues.clone(),
            config,
            metrics: &metrics,
            shutdown: &shutdown,
        };
        let mut watches = watching.all(&mut tasks);
        let pods_of_jobs = queues.jobs.is_some().then(|| {
            let wanted = (!serves(NativeKind::Jobs)).then(|| store.has_managed_job());
            watching.start_when::<SlimJobPod>("", wanted.as_ref(), &mut tasks)
        });
        let all_watches: Vec<_> = watches.iter().chain(&pods_of_jobs).cloned().collect();
        // Readiness does not wait for what may never be wanted; a Job does.
        if serves(NativeKind::Jobs) {
            watches.clone_from(&all_watches);
        }

        // Writes and events.
        let writes = Writes::new(
            writes,
            leadership.clone(),
            config.max_in_flight_writes,
            config.api_rate,
        );
        let (events, recorder) =
            event::channel(writes.clone(), leadership.clone(), &identity, &metrics);
        tasks.spawn_local(recorder.run(shutdown.clone()));

        let flights = Arc::new(FlightRecorder::default());
        let core = |name, queue: &WorkQueue<Arc<ObjectKey>>| Core {
            name,
            store: store.clone(),
            queue: queue.clone(),
            writes: writes.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            watches: all_watches.clone(),
            parallel: config.max_in_flight_writes,
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
            tasks,
            shutdown,
            broadcast_jobs: broadcast_jobs.map(Arc::new),
            cron_jobs: cron_jobs.map(Arc::new),
            jobs: jobs.map(Arc::new),
            orphan_pods: orphan_pods.map(Arc::new),
            leadership,
            writes,
            workers: config.workers,
        }
    }

    /// Works, once this instance leads and the caches were filled since, until `stop`; then lets running
    /// syncs and requests finish. Leadership may be given back afterwards.
    pub async fn work(mut self, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        let begin = async {
            if self.leadership.wait_leader().await {
                tracing::info!("leading");
                // A watch may hang, or only be slow: what was written by whoever led before is in the
                // caches for certain only after lists that begin now.
                for watch in &self.all_watches {
                    watch.need_new_list();
                }
                for watch in &self.watches {
                    watch.synced().await;
                }
                tracing::info!("caches synced");
                for _ in 0..self.workers {
                    if let Some(controller) = &self.broadcast_jobs {
                        workers.spawn_local(core::work(controller.clone()));
                    }
                    if let Some(controller) = &self.cron_jobs {
                        workers.spawn_local(core::work(controller.clone()));
                    }
                    if let Some(controller) = &self.jobs {
                        workers.spawn_local(core::work(controller.clone()));
                    }
                    if let Some(controller) = &self.orphan_pods {
                        workers.spawn_local(core::work(controller.clone()));
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = begin => {}
        }

        // Finish or abandon cleanly, then let another replica lead.
        tracing::info!("stopping");
        self.queues.shutdown();
        finish("a sync", async {
            while workers.join_next().await.is_some() {}
        })
        .await;
        workers.shutdown().await;
        self.shutdown.cancel();
        finish("a request", async {
            while self.tasks.join_next().await.is_some() {}
            self.writes.drain().await;
        })
        .await;
    }
}

/// One for each controller that is to run.
fn queues(config: &Config, metrics: &Metrics) -> Queues {
    let runs = |controller| config.controllers.contains(&controller);
    let serves = |kind| config.serve_native.contains(&kind);
    let cron_jobs = runs(Controller::CronJob) || serves(NativeKind::CronJobs);
    let jobs = runs(Controller::Job) || serves(NativeKind::Jobs);
    let queue = |name| WorkQueue::new(name, BACKOFF, config.workers, metrics);
    let of_jobs = Backoff {
        base: config.job_api_backoff,
        max: config.job_max_api_backoff,
    };
    let job_queue = |name| WorkQueue::new(name, of_jobs, config.workers, metrics);
    Queues {
        broadcast_jobs: runs(Controller::BroadcastJob).then(|| queue(broadcast_job::NAME)),
        cron_jobs: cron_jobs.then(|| queue(cron_job::NAME)),
        jobs: jobs.then(|| job_queue(job::NAME)),
        orphan_pods: jobs.then(|| job_queue(orphan_pod::NAME)),
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
async fn finish(what: &str, work: impl Future<Output = ()>) {
    if tokio::time::timeout(FINISH_WITHIN, work).await.is_err() {
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
    fn all(&self, tasks: &mut JoinSet<()>) -> Vec<watch::Handle> {
        let mut watches = Vec::new();
        // Nobody else needs a CRD: what a native CronJob starts is a Job.
        let runs_ours = self.config.controllers.contains(&Controller::CronJob);
        if self.queues.broadcast_jobs.is_some() || runs_ours {
            watches.push(self.start::<SlimBroadcastJob>("", tasks));
        }
        if self.queues.broadcast_jobs.is_some() {
            let of_jobs = names::LABEL_BROADCAST_JOB_UID;
            watches.extend([
                self.start::<SlimNode>("", tasks),
                self.start::<SlimSlice>(of_jobs, tasks),
                self.start::<SlimPod>(of_jobs, tasks),
            ]);
        }
        // One watch of Jobs, whoever needs it.
        if self.queues.jobs.is_some() {
            watches.push(self.start::<SlimJob>("", tasks));
        } else if self.queues.cron_jobs.is_some() {
            watches.push(self.start::<SlimNativeJob>("", tasks));
        }
        if runs_ours {
            watches.push(self.start::<SlimCronJob<Carillon>>("", tasks));
        }
        if self.config.serve_native.contains(&NativeKind::CronJobs) {
            watches.push(self.start::<SlimCronJob<Native>>("", tasks));
        }
        watches
    }

    fn start<K: Row>(&self, label: &str, tasks: &mut JoinSet<()>) -> watch::Handle {
        self.start_when::<K>(label, None, tasks)
    }

    /// Starts at once, or as soon as it is `wanted`.
    fn start_when<K: Row>(
        &self,
        label: &str,
        wanted: Option<&Receiver<bool>>,
        tasks: &mut JoinSet<()>,
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
            match wanted {
                Some(wanted) => tasks.spawn_local(watch.run_when(wanted.clone(), shutdown)),
                None => tasks.spawn_local(watch.run(shutdown)),
            };
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
