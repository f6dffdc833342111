//! A controller, and the API server it talks to, which answers as a test says.

// Not every kind's tests need all of it.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carillon_operator::clock::Clock;
use carillon_operator::controllers::core::{self, Core};
use carillon_operator::controllers::refusals::Refusals;
use carillon_operator::controllers::relists::Relists;
use carillon_operator::controllers::{Controller, RulesOf, ServedKind};
use carillon_operator::event::recorder::{self, EventWriter};
use carillon_operator::fence::RequestBody;
use carillon_operator::lease::Leadership;
use carillon_operator::metrics::Metrics;
use carillon_operator::queue::{Backoff, WorkQueue};
use carillon_operator::store::{Queues, Row, Store, StoreSink};
use carillon_operator::transport::{BatchWindow, Transport};
use carillon_operator::watch::Sink;
use carillon_operator::writes::Writes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The resourceVersion of everything that is written.
pub(crate) const WRITTEN: u64 = 50;

/// Ends the paths of dry runs.
pub(crate) const DRY: &str = "?dryRun=All";

/// Method, path and body of what was sent, in order.
pub(crate) type Requests = Arc<Mutex<Vec<(Method, String, Value)>>>;

/// What the API server is sent besides method and path.
pub(crate) struct Sent<'a> {
    pub(crate) body: &'a Value,
    pub(crate) dry_run: bool,
}

/// As an API server that does whatever it is asked for.
pub(crate) fn done() -> (u16, Value) {
    (
        200,
        json!({"metadata": {"resourceVersion": WRITTEN.to_string()}}),
    )
}

/// What an API server says instead.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message})
}

/// Where a controller works.
pub(crate) struct Setting {
    pub(crate) clock: Clock,
    /// How long a key that fails waits.
    pub(crate) backoff: Backoff,
    pub(crate) workers: usize,
    /// Requests that the API server answers at a time.
    pub(crate) in_flight: usize,
    /// Those of one sync.
    pub(crate) parallel: usize,
}

/// An API server.
pub(crate) struct Server {
    pub(crate) transport: Transport,
    pub(crate) requests: Requests,
    pub(crate) metrics: Arc<Metrics>,
}

impl Server {
    /// One that answers so, each request after so long.
    pub(crate) fn answering(
        answer: impl Fn(&Method, &str, &Sent<'_>) -> (u16, Value) + Send + Sync + 'static,
        latency: Duration,
    ) -> Self {
        let requests = Requests::default();
        let (sent, answer) = (requests.clone(), Arc::new(answer));
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let (sent, answer) = (sent.clone(), answer.clone());
            async move {
                // Others come in while it is on its way.
                tokio::task::yield_now().await;
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                if latency > Duration::ZERO {
                    tokio::time::sleep(latency).await;
                }
                let path = head.uri.path().to_owned();
                let query = head.uri.query().unwrap_or_default();
                let what = Sent {
                    body: &body,
                    dry_run: query.contains("dryRun=All"),
                };
                let (code, reply) = answer(&head.method, &path, &what);
                let path = if what.dry_run { path + DRY } else { path };
                sent.lock().unwrap().push((head.method, path, body));
                let reply = Full::new(Bytes::from(reply.to_string()));
                Ok::<_, tower::BoxError>(Response::builder().status(code).body(reply)?)
            }
        });
        let metrics = Metrics::new().unwrap();
        Self {
            transport: Transport::new(service, metrics.clone()),
            requests,
            metrics,
        }
    }
}

/// A controller at work.
pub(crate) struct Scene<K: ServedKind> {
    pub(crate) controller: Arc<Controller<K>>,
    pub(crate) queues: Queues,
    pub(crate) recorder: Option<EventWriter>,
    pub(crate) requests: Requests,
}

impl<K: ServedKind> Scene<K> {
    pub(crate) fn at(server: Server, setting: Setting, kind: K, rules: RulesOf<K>) -> Self {
        let Server {
            transport,
            requests,
            metrics,
        } = server;
        let leadership = Leadership::always(setting.clock);
        let writes = Writes::new(transport, leadership.clone(), setting.in_flight);
        let (events, recorder) = recorder::channel(writes.clone(), leadership, "test", &metrics);
        let (backoff, workers) = (setting.backoff, setting.workers);
        let queue = WorkQueue::new(K::NAME, backoff, workers, writes.clock(), &metrics);
        let queues = Queues::open_to_all(K::NAME, queue.clone());
        let core = Core {
            name: K::NAME,
            store: Store::new(),
            queue,
            window: BatchWindow::default(),
            writes,
            events,
            metrics,
            watches: Vec::new(),
            parallel: setting.parallel,
            paces: Mutex::default(),
            gate: Mutex::default(),
            refusals: Refusals::default(),
            relists: Relists::default(),
            flights: Arc::default(),
        };
        Self {
            controller: Arc::new(Controller::new(kind, rules, core)),
            queues,
            recorder: Some(recorder),
            requests,
        }
    }

    /// What another controller works with beside this one.
    pub(crate) fn core_for(&self, name: &'static str) -> Core {
        let core = &self.controller.core;
        Core {
            name,
            store: core.store.clone(),
            queue: core.queue.clone(),
            window: BatchWindow::default(),
            writes: core.writes.clone(),
            events: core.events.clone(),
            metrics: core.metrics.clone(),
            watches: Vec::new(),
            parallel: core.parallel,
            paces: Mutex::default(),
            gate: Mutex::default(),
            refusals: Refusals::default(),
            relists: Relists::default(),
            flights: Arc::default(),
        }
    }

    /// The watch delivers an object.
    pub(crate) fn see<R: Row + DeserializeOwned>(&self, object: &Value) {
        self.see_within::<R>(object, Duration::ZERO);
    }

    /// The same; where it is our own write that comes back, its key is handed out after so long.
    pub(crate) fn see_within<R: Row + DeserializeOwned>(&self, object: &Value, soon: Duration) {
        let mut sink = self.sink::<R>(soon);
        sink.applied(serde_json::from_value(object.clone()).unwrap());
    }

    /// The watch tells that an object is gone.
    pub(crate) fn lose<R: Row + DeserializeOwned>(&self, object: &Value) {
        let mut sink = self.sink::<R>(Duration::ZERO);
        sink.deleted(serde_json::from_value(object.clone()).unwrap());
    }

    fn sink<R: Row>(&self, soon: Duration) -> StoreSink<R> {
        StoreSink::new(&self.controller.core.store, &self.queues, soon, None)
    }

    /// Lets the controller work until `done`.
    pub(crate) async fn work_until(&mut self, done: impl Fn(&Self) -> bool) {
        let recorder = self.recorder.take();
        let writes_events = async {
            match recorder {
                Some(recorder) => recorder.run(CancellationToken::new()).await,
                None => std::future::pending().await,
            }
        };
        let finished = async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(30);
        tokio::select! {
            () = core::work(self.controller.clone()) => panic!("the controller stopped"),
            () = writes_events => panic!("the writer of events stopped"),
            found = tokio::time::timeout(limit, finished) => {
                found.unwrap_or_else(|_| panic!("not within {limit:?}: {:?}", self.requests));
            }
        }
    }

    /// Lets the controller work for so long, with whatever it finds to do.
    pub(crate) async fn work_for(&self, time: Duration) {
        let work = core::work(self.controller.clone());
        let stopped = tokio::time::timeout(time, work).await;
        assert!(stopped.is_err(), "the controller stopped");
    }

    /// Bodies of the requests with this method to paths that end so.
    pub(crate) fn sent(&self, method: &Method, end: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let of = requests
            .iter()
            .filter(|(m, path, _)| m == method && path.ends_with(end));
        of.map(|(_, _, body)| body.clone()).collect()
    }

    /// How often a key came back after a failure.
    pub(crate) fn retries(&self) -> u64 {
        let retries = &self.controller.core.metrics.workqueue.retries;
        retries.with_label_values(&[K::NAME]).get()
    }

    /// What people were told, when so many events were written: reason and note.
    pub(crate) async fn told(&mut self, count: usize, reporter: &str) -> Vec<String> {
        self.work_until(|scene| scene.sent(&Method::POST, "/events").len() >= count)
            .await;
        let events = self.sent(&Method::POST, "/events");
        let of = |event: &Value| {
            assert_eq!(event["reportingController"], reporter);
            let of = |field: &str| event[field].as_str().unwrap().to_owned();
            format!("{} {}", of("reason"), of("note"))
        };
        let mut told: Vec<_> = events.iter().map(of).collect();
        told.sort();
        told
    }
}
