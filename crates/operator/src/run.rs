//! The process, on one screen: every task, in the order it is started.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use carillon_api::names;
use carillon_plan::Uid;
use carillon_plan::pod_body;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Config, PodPlacement};
use crate::controllers::broadcast_job::{self, BroadcastJobs};
use crate::event;
use crate::gate::{Gate, Kind};
use crate::http::{self, Check};
use crate::lease::{self, Elector, Leadership};
use crate::metrics::Metrics;
use crate::queue::{Backoff, WorkQueue};
use crate::slim::{SlimJob, SlimNode, SlimPod, SlimSlice};
use crate::store::{Row, Store, StoreSink};
use crate::transport::{self, Transport};
use crate::watch::{self, Source};
use crate::writes::Writes;

/// A failing sync waits this long, doubled up to a minute.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_mins(1),
};
/// How long a stopping process lets running syncs finish.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Runs until `stop`, then finishes what is under way and gives the lease back.
pub async fn run(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let metrics = Metrics::new().context("metrics")?;
    let kube = transport::config(config.kubeconfig.as_deref()).await?;
    let identity = lease::identity();
    let shutdown = CancellationToken::new();
    let mut tasks = JoinSet::new();

    let elector = elect(&config, &kube, &identity, &metrics)?;
    let leadership = elector
        .as_ref()
        .map_or_else(Leadership::always, Elector::leadership);

    // Caches: one watch per kind, in every replica.
    let store = Store::new();
    let queue: WorkQueue<Uid> = WorkQueue::new(broadcast_job::NAME, BACKOFF, &metrics);
    let watching = Watching {
        transport: Transport::connect(&kube, metrics.clone())?,
        store: store.clone(),
        queue: queue.clone(),
        config: &config,
        metrics: &metrics,
        shutdown: &shutdown,
    };
    let handles = vec![
        watching.start::<SlimNode>("", "v1", "", &mut tasks),
        watching.start::<SlimJob>(names::GROUP, names::VERSION, "", &mut tasks),
        watching.start::<SlimSlice>(
            names::GROUP,
            names::VERSION,
            names::LABEL_BROADCAST_JOB_UID,
            &mut tasks,
        ),
        watching.start::<SlimPod>("", "v1", names::LABEL_BROADCAST_JOB_UID, &mut tasks),
    ];

    // Writes and events.
    let writes = Writes::new(
        Transport::connect(&kube, metrics.clone())?,
        leadership.clone(),
        config.max_in_flight_writes,
        config.api_rate,
    );
    let (events, recorder) =
        event::channel(writes.clone(), leadership.clone(), &identity, &metrics);
    tasks.spawn(recorder.run(shutdown.clone()));

    serve(
        &config, &metrics, &store, &queue, &handles, &shutdown, &mut tasks,
    )
    .await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), identity, http = %config.http_address, "started");

    // Work: once the caches are full and this process leads.
    let mut workers = JoinSet::new();
    let controller = Arc::new(BroadcastJobs {
        store,
        queue: queue.clone(),
        writes: writes.clone(),
        events,
        metrics: metrics.clone(),
        watches: handles.clone(),
        placement: match config.pod_placement {
            PodPlacement::Scheduler => pod_body::PodPlacement::Scheduler,
            PodPlacement::NodeName => pod_body::PodPlacement::NodeName,
        },
        max_pod_changes: config.max_pod_changes_per_sync,
        parallel: config.max_in_flight_writes,
        gate: Mutex::new(Gate::default()),
        memory: Mutex::default(),
    });
    let begin = async {
        for handle in &handles {
            handle.synced().await;
        }
        tracing::info!("caches synced");
        if leadership.wait_leader().await {
            tracing::info!("leading");
            for _ in 0..config.workers {
                workers.spawn(controller.clone().work());
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = begin => {}
    }

    // Finish or abandon cleanly, then let another replica lead.
    tracing::info!("stopping");
    queue.shutdown();
    finish("a sync", async {
        while workers.join_next().await.is_some() {}
    })
    .await;
    workers.shutdown().await;
    shutdown.cancel();
    finish("a request", async {
        while tasks.join_next().await.is_some() {}
        writes.drain().await;
    })
    .await;
    if let Some(elector) = elector {
        elector.release().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Leadership, on its own thread with its own connections. `None`: nobody has to be asked.
fn elect(
    config: &Config,
    kube: &kube::Config,
    identity: &str,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<Option<Elector>> {
    let Some(lease) = &config.lease else {
        // Alerts ask who leads.
        metrics.leader.with_label_values(&[""]).set(1);
        return Ok(None);
    };
    let settings = lease::Settings::new(lease, &kube.default_namespace);
    let transport = Transport::connect(kube, metrics.clone())?;
    let lost = |reason: &str| {
        tracing::error!(reason, "leadership lost; exiting");
        std::process::exit(1);
    };
    Ok(Some(Elector::start(
        transport,
        settings,
        identity.to_owned(),
        metrics,
        lost,
    )?))
}

/// Health, metrics, debugging.
async fn serve(
    config: &Config,
    metrics: &Arc<Metrics>,
    store: &Store,
    queue: &WorkQueue<Uid>,
    handles: &[watch::Handle],
    shutdown: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let measured = store.clone();
    metrics.before_scrape(move |metrics| broadcast_job::measure(&measured, metrics));
    let ready = handles.iter().cloned().map(Check::synced).collect();
    let listener = http::bind("--http-address", config.http_address).await?;
    let router = http::public(metrics.clone(), vec![], ready);
    tasks.spawn(log_end(
        "http",
        http::serve(listener, router, shutdown.clone()),
    ));
    if let Some(address) = config.debug_address {
        let listener = http::bind("--debug-address", address).await?;
        let (store, queue) = (store.clone(), queue.clone());
        let router = http::debug(
            Box::new(move || broadcast_job::debug(&store)),
            Box::new(move || serde_json::json!(queue.view())),
        );
        tasks.spawn(log_end(
            "debug",
            http::serve(listener, router, shutdown.clone()),
        ));
    }
    Ok(())
}

/// Waits for what is under way, but not for ever.
async fn finish(what: &str, work: impl Future<Output = ()>) {
    if tokio::time::timeout(FINISH_WITHIN, work).await.is_err() {
        tracing::warn!(what, "not finished in time and abandoned");
    }
}

struct Watching<'a> {
    transport: Transport,
    store: Store,
    queue: WorkQueue<Uid>,
    config: &'a Config,
    metrics: &'a Metrics,
    shutdown: &'a CancellationToken,
}

impl Watching<'_> {
    fn start<K: Row>(
        &self,
        group: &'static str,
        version: &'static str,
        label: &str,
        tasks: &mut JoinSet<()>,
    ) -> watch::Handle {
        let kind = K::KIND.word();
        let source = Source {
            kind,
            group,
            version,
            plural: kind,
            labels: label.to_owned(),
        };
        // Nodes have no namespace.
        let namespaces: &[String] = if K::KIND == Kind::Node {
            &[]
        } else {
            &self.config.namespaces
        };
        let batch = self.config.job_sync_batch_period;
        let (handle, loops) = watch::prepare::<K, _>(
            &self.transport,
            &source,
            namespaces,
            |namespace| StoreSink::new(&self.store, &self.queue, batch, namespace),
            self.metrics,
        );
        for watch in loops {
            tasks.spawn(watch.run(self.shutdown.clone()));
        }
        handle
    }
}

async fn log_end(what: &'static str, server: impl Future<Output = std::io::Result<()>>) {
    if let Err(error) = server.await {
        tracing::error!(what, %error, "server ended");
    }
}
