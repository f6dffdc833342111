//! One instance of the operator: caches, queue, writes and workers. It reaches the API server only
//! through the transports it is given, and has no thread of its own: all of it runs as local tasks,
//! so that a simulation can stop it between any two steps.

mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{future, mem};

use carillon_plan::ObjectKey;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use self::view::View;
use crate::args::Config;
use crate::clock::Clock;
use crate::controllers::core::Core;
use crate::controllers::refusals::Refusals;
use crate::controllers::relists::Relists;
use crate::controllers::{Rules, Running, Selects, Served, Watching};
use crate::event::recorder;
use crate::flight_recorder::FlightRecorder;
use crate::gate::Kind;
use crate::kinds::SERVED;
use crate::lease::{Candidacy, Leadership, Phase};
use crate::metrics::Metrics;
use crate::parts::{Ended, Parts};
use crate::queue::WorkQueue;
use crate::store::{Queue, Queues, Store};
use crate::transport::{Transport, Watches};
use crate::watch::SILENT_FOR_GOOD;
use crate::writes::Writes;
use crate::{kinds, store, watch};

/// So many objects at least are served at a time: however slow a webhook of one is, it holds no more than its part
/// of the requests in flight.
const OBJECTS_AT_ONCE: usize = 4;
/// How long what a stopping process has sent may take at least, however long its syncs have taken.
const LAST_WRITES: Duration = Duration::from_secs(2);
/// How often a standby looks what it sees.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a stopping process lets finish what is under way. A pod has thirty seconds to end in; the lease
/// is given back in ten of the last twelve.
const FINISH_WITHIN: Duration = Duration::from_secs(16);

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
    /// The watch of each kind.
    pub watches: Vec<watch::Handle>,
    /// What each controller plans from.
    views: Vec<View>,
    /// The last decisions.
    pub flights: Arc<FlightRecorder>,
    /// All that has to run as long as it does, but the workers.
    pub parts: Parts,
    /// Ends the parts.
    pub shutdown: CancellationToken,
    controllers: Arc<Controllers>,
    leadership: Leadership,
    writes: Writes,
}

/// Those that run, and how many workers each has.
#[derive(Debug)]
struct Controllers {
    all: Vec<Arc<dyn Running>>,
    workers: usize,
    store: Store,
    clock: Clock,
}

impl Controllers {
    /// From now on each scrape tells what they serve, and how many objects they remember.
    fn measured(self, metrics: &Metrics) -> Arc<Self> {
        let controllers = Arc::new(self);
        let measured = Arc::downgrade(&controllers);
        metrics.before_scrape(move |metrics| {
            if let Some(controllers) = measured.upgrade() {
                controllers.measure(metrics);
            }
        });
        controllers
    }

    fn measure(&self, metrics: &Metrics) {
        let sizes = kinds::sizes(&self.store.read());
        store::observe::measure(&sizes, metrics);
        for served in &SERVED {
            (served.measure)(&self.store, metrics, self.clock.now());
        }
        for controller in &self.all {
            controller.measure(metrics);
        }
    }

    fn start(&self, workers: &mut Parts) {
        for _ in 0..self.workers {
            for controller in &self.all {
                controller.clone().start(workers);
            }
        }
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
        let (shutdown, window) = (CancellationToken::new(), reads.window().clone());
        let mut parts = Parts::of(&leadership);

        // Caches: one watch per kind, in every replica.
        let store = Store::new();
        for served in &SERVED {
            metrics.create_series_of(served.name, served.rules);
            (served.prepare)(config, &store);
        }
        let plans_from = view::plans_from(config);
        let queues = queues(config, &plans_from, leadership.clock(), &metrics);
        let watching = Watching {
            transports: reads,
            store: store.clone(),
            queues: queues.clone(),
            config,
            metrics: &metrics,
            shutdown: &shutdown,
        };
        let watches: Vec<_> = view::watched(&plans_from)
            .map(|kind| watch(kind, &plans_from, &watching, &mut parts))
            .collect();
        let views = view::views(config, &plans_from, &watches);

        // Writes and events.
        let writes = Writes::new(writes, leadership.clone(), config.max_in_flight_writes);
        let (events, recorder) =
            recorder::channel(writes.clone(), leadership.clone(), &identity, &metrics);
        parts.start("the recorder of events", recorder.run(shutdown.clone()));

        let flights = Arc::new(FlightRecorder::default());
        let core = |name, queue: &WorkQueue<Arc<ObjectKey>>| Core {
            name,
            store: store.clone(),
            queue: queue.clone(),
            window: window.clone(),
            writes: writes.clone(),
            events: events.clone(),
            metrics: metrics.clone(),
            watches: view::watches_of(&plans_from, name, &watches),
            parallel: config.max_in_flight_writes.div_ceil(OBJECTS_AT_ONCE),
            paces: Mutex::default(),
            gate: Mutex::default(),
            refusals: Refusals::default(),
            relists: Relists::default(),
            flights: flights.clone(),
        };
        let all = SERVED.iter().filter_map(|served| {
            let core = core(served.name, queues.of(served.name)?);
            (served.build)(config, &rules, &watches, core)
        });
        let controllers = Controllers {
            all: all.collect(),
            workers: config.workers,
            store: store.clone(),
            clock: leadership.clock().clone(),
        }
        .measured(&metrics);
        Self {
            store,
            queues,
            watches,
            views,
            flights,
            parts,
            shutdown,
            controllers,
            leadership,
            writes,
        }
    }

    /// Waits until this instance leads; for ever if it never will. One that sees nothing does not stand for election,
    /// and one that sees a part only if nobody sees all.
    async fn lead(&self) {
        while self.leadership.phase() == Phase::Standby {
            let candidacy = self.candidacy();
            self.leadership.stand(candidacy);
            tokio::select! {
                biased;
                _ = self.leadership.wait_leader() => {}
                () = self.listed(), if !self.is_listed() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
        if self.leadership.phase() == Phase::Over {
            return future::pending().await;
        }
        tracing::info!("leading");
        // A watch may hang, or only be slow: what was written by whoever led before is in the caches for
        // certain only after lists that begin now.
        for watch in &self.watches {
            watch.need_new_list();
        }
    }

    /// What could be done now. A namespace may have been deleted, with the rights in it: one in which a controller
    /// sees all is enough.
    fn candidacy(&self) -> Candidacy {
        let mut clear: BTreeMap<&str, bool> = BTreeMap::new();
        for view in &self.views {
            *clear.entry(view.controller).or_default() |= view.is_clear();
        }
        match clear.values().filter(|clear| **clear).count() {
            0 => Candidacy::No,
            some if some == clear.len() => Candidacy::Yes,
            _ => Candidacy::IfNobodyElse,
        }
    }

    /// Waits until this instance has seen nothing at all for long, so that another one may do better.
    async fn blind(&self) -> Ended {
        let mut seen = Instant::now();
        while seen.elapsed() < SILENT_FOR_GOOD {
            if self.candidacy() != Candidacy::No {
                seen = Instant::now();
            }
            sleep(LOOK_AGAIN).await;
        }
        Ended::because(
            "the leadership",
            "no kind could be listed or watched for long",
        )
    }

    fn is_listed(&self) -> bool {
        self.watches.iter().all(watch::Handle::is_synced)
    }

    /// Waits until each kind is listed.
    async fn listed(&self) {
        for watch in &self.watches {
            watch.synced_in(None).await;
        }
    }

    /// Lets the keys of a controller in, by namespace, as soon as all that it plans from is listed. What cannot be
    /// listed holds up its own controllers in its own namespace.
    async fn open_queues<T>(&self) -> T {
        let all = self.views.iter().map(|view| async {
            view.synced().await;
            let View {
                controller,
                namespace,
                ..
            } = view;
            tracing::info!(controller, ns = namespace.as_deref(), "caches synced");
            self.queues
                .open(&self.store, controller, namespace.as_ref());
        });
        futures::future::join_all(all).await;
        future::pending().await
    }

    /// Works, once this instance leads and the caches were filled since, until `stop`; then lets running
    /// syncs and requests finish. Leadership may be given back afterwards.
    ///
    /// # Errors
    /// When a part, or the leadership, has ended before `stop`. The process is to end, too.
    pub async fn work(mut self, stop: CancellationToken) -> Result<(), Ended> {
        let mut workers = Parts::of(&self.leadership);
        let mut parts = mem::replace(&mut self.parts, Parts::of(&self.leadership));
        let leading = async {
            self.lead().await;
            self.controllers.start(&mut workers);
            tokio::select! {
                biased;
                ended = workers.one_ended() => ended,
                ended = self.blind() => ended,
                never = self.open_queues() => never,
            }
        };
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            ended = parts.one_ended() => Err(ended),
            () = self.leadership.over() => Err(Ended::because("the leadership", "see above")),
            ended = leading => Err(ended),
        };
        if outcome.is_err() {
            // One that is not well sends nothing more.
            self.leadership.end();
        }

        // Finish or abandon cleanly, then let another replica lead.
        tracing::info!("stopping");
        self.leadership.stand(Candidacy::No);
        let end = Instant::now() + FINISH_WITHIN;
        self.queues.shutdown();
        finish("a sync", end, workers.all_ended()).await;
        workers.abandon().await;
        self.shutdown.cancel();
        let end = end.max(Instant::now() + LAST_WRITES);
        finish("a request", end, async {
            parts.all_ended().await;
            self.writes.drain().await;
        })
        .await;
        parts.abandon().await;
        outcome
    }
}

/// One for each controller that is to run.
fn queues(
    config: &Config,
    plans_from: &view::PlansFrom,
    clock: &Clock,
    metrics: &Metrics,
) -> Queues {
    let queues = plans_from.iter().map(|(served, _)| {
        let backoff = (served.backoff)(config);
        Queue {
            controller: served.name,
            each_key: served.each_key,
            keys: WorkQueue::new(served.name, backoff, config.workers, clock, metrics),
        }
    });
    Queues::closed(queues.collect())
}

/// Waits for what is under way, but not for ever.
async fn finish(what: &str, end: Instant, work: impl Future<Output = ()>) {
    if timeout_at(end, work).await.is_err() {
        tracing::warn!(what, "not finished in time and abandoned");
    }
}

/// Starts the watch of a kind for those that plan from it.
fn watch(
    kind: Kind,
    plans_from: &view::PlansFrom,
    watching: &Watching<'_>,
    parts: &mut Parts,
) -> watch::Handle {
    let (config, store) = (watching.config, &watching.store);
    let readers = plans_from.iter().filter(|(_, kinds)| kinds.contains(&kind));
    let readers: Vec<&Served> = readers.map(|(served, _)| *served).collect();
    let reads = readers.iter().flat_map(|served| served.reads);
    // Whoever serves them reads them for all.
    let read = reads
        .filter(|read| read.kind == kind)
        .min_by_key(|read| read.is_part);
    let read = read.unwrap_or_else(|| panic!("nobody reads {}", kind.word()));
    let selects: Vec<Selects> = readers
        .iter()
        .map(|served| (served.selects)(config, store))
        .collect();
    let all = selects
        .iter()
        .any(|selects| matches!(selects, Selects::All));
    let label = if all { "" } else { read.label };
    let watch = (read.start)(watching, label, parts);
    for selects in selects {
        if let Selects::AllOnce(needed) = selects
            && !label.is_empty()
        {
            let widen = widen(watch.clone(), needed, watching.shutdown.clone());
            parts.start(format!("the wider watch of {}", kind.word()), widen);
        }
    }
    watch
}

/// Watches all objects of a kind as soon as that is needed.
async fn widen(kind: watch::Handle, mut is_needed: Receiver<bool>, shutdown: CancellationToken) {
    let needed = is_needed.wait_for(|is_needed| *is_needed);
    if shutdown.run_until_cancelled(needed).await.is_some() {
        kind.select_all();
        shutdown.cancelled().await;
    }
}
