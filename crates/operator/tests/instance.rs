//! A process as a whole, against a scripted API server: what it does when one of its parts is gone, and what
//! it does before it leads.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::Rules;
use carillon_operator::fence::RequestBody;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::lease::{self, Leadership, Phase, elect_here};
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::{Transport, Watches};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// What the API server does. Lists have nothing or `items`, and watches say nothing but `says`.
#[derive(Clone, Debug, Default)]
struct Api {
    /// Lists of this resource have these.
    items: Option<(&'static str, Value)>,
    /// The watch of this resource tells something that a defect of ours would panic about.
    panics: Option<&'static str>,
    /// Lists of this resource are refused.
    refuses: Option<&'static str>,
    /// Requests that write a lease.
    leases_written: Arc<AtomicUsize>,
}

type Body = UnsyncBoxBody<Bytes, tower::BoxError>;

impl Api {
    fn answer(&self, request: &Request<RequestBody>) -> (u16, Body) {
        let (path, query) = (request.uri().path(), request.uri().query());
        let is = |resource: Option<&str>| resource.is_some_and(|resource| path.ends_with(resource));
        if path.contains("/leases") {
            if request.method() == Method::GET {
                return text(404, &json!({"kind": "Status", "code": 404}));
            }
            self.leases_written.fetch_add(1, Ordering::AcqRel);
            let lease = json!({"metadata": {"name": "carillon", "resourceVersion": "1"},
                "spec": {"holderIdentity": "test", "leaseDurationSeconds": 15}});
            return text(201, &lease);
        }
        if query.is_some_and(|query| query.contains("watch=true")) {
            let panics = is(self.panics);
            let chunk = async move {
                if panics {
                    sleep(Duration::from_secs(5)).await;
                    panic!("a defect");
                }
                std::future::pending().await
            };
            let open = StreamBody::new(futures::stream::once(chunk));
            return (200, open.boxed_unsync());
        }
        if is(self.refuses) {
            return text(
                403,
                &json!({"kind": "Status", "code": 403, "reason": "Forbidden"}),
            );
        }
        let items = self.items.as_ref().filter(|(of, _)| path.ends_with(of));
        let items = items.map_or(json!([]), |(_, items)| items.clone());
        text(
            200,
            &json!({"metadata": {"resourceVersion": "7"}, "items": items}),
        )
    }

    fn transport(&self) -> Transport {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let (code, body) = api.answer(&request);
            async move {
                let mut reply = Response::new(body);
                *reply.status_mut() = code.try_into()?;
                Ok::<_, tower::BoxError>(reply)
            }
        });
        Transport::new(service, Metrics::new().unwrap())
    }
}

fn text(code: u16, body: &Value) -> (u16, Body) {
    let body = Full::new(Bytes::from(body.to_string()));
    (code, body.map_err(|never| match never {}).boxed_unsync())
}

fn config() -> Config {
    match Task::parse(["carillon", "--lease-namespace=ns"]).unwrap() {
        Task::Operate(config) => config,
        Task::Check(_) => unreachable!(),
    }
}

fn start(api: &Api, leadership: Leadership) -> Instance {
    let surroundings = Surroundings {
        reads: Watches::over(api.transport()),
        writes: api.transport(),
        leadership,
        identity: "test".to_owned(),
        metrics: Metrics::new().unwrap(),
        rules: Rules::default(),
    };
    Instance::start(&config(), surroundings)
}

/// Whoever runs for election against nobody.
fn candidate(api: &Api) -> Leadership {
    let settings = lease::Settings::new(config().lease.as_ref().unwrap(), "ns");
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
    let stop = CancellationToken::new();
    let (leadership, run) = elect_here(api.transport(), settings, "test".into(), clock, stop);
    spawn_local(run);
    leadership
}

fn always() -> Leadership {
    Leadership::always(Clock::simulated(Timestamp::UNIX_EPOCH))
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_ends_the_process() {
    let api = Api {
        panics: Some("/broadcastjobs"),
        ..Api::default()
    };
    let run = async {
        let work = start(&api, always()).work(CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_mins(1), work).await;
        let ended = ended.unwrap().unwrap_err().to_string();
        let expected = "the watch of broadcastjobs has ended: it panicked: a defect";
        assert_eq!(ended, expected);
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_gone_ends_the_process() {
    let run = async {
        let mut instance = start(&Api::default(), always());
        instance
            .parts
            .start("a part", sleep(Duration::from_secs(5)));
        let work = instance.work(CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_mins(1), work).await;
        assert_eq!(ended.unwrap().unwrap_err().to_string(), "a part has ended");
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_stopped_ends_well() {
    let run = async {
        let stop = CancellationToken::new();
        let work = start(&Api::default(), always()).work(stop.clone());
        let stops = async {
            sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(work, stops);
        assert!(ended.is_ok(), "{ended:?}");
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn who_cannot_list_takes_the_lease_from_nobody() {
    let api = Api {
        refuses: Some("/nodes"),
        ..Api::default()
    };
    let run = async {
        let leadership = candidate(&api);
        let work = start(&api, leadership.clone()).work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        sleep(Duration::from_mins(10)).await;
        assert_eq!(leadership.phase(), Phase::Standby);
        assert_eq!(api.leases_written.load(Ordering::Acquire), 0);
    };
    LocalSet::new().run_until(run).await;
    // Where lists are answered the same process leads.
    let api = Api::default();
    let run = async {
        let leadership = candidate(&api);
        let work = start(&api, leadership.clone()).work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        let leads = tokio::time::timeout(Duration::from_mins(1), leadership.wait_leader());
        assert!(leads.await.unwrap());
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_enters_no_keys_and_a_leader_enters_each_once() {
    let cron = |n: u32| {
        json!({"metadata": {"name": format!("c{n}"), "namespace": "ns", "resourceVersion": "3",
            "uid": format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}}})
    };
    let all: Vec<_> = (0..50).map(cron).collect();
    let api = Api {
        items: Some(("/cronjobs", json!(all))),
        ..Api::default()
    };
    let run = async {
        // Another process leads.
        let standby = Leadership::standby(Clock::simulated(Timestamp::UNIX_EPOCH));
        let instance = start(&api, standby);
        let queues = instance.queues.clone();
        let watches = instance.watches.clone();
        let work = instance.work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        for watch in &watches {
            watch.synced().await;
        }
        sleep(Duration::from_mins(1)).await;
        let held = |queue: &carillon_operator::queue::QueueView| queue.ready.len();
        assert_eq!(queues.view().iter().map(held).sum::<usize>(), 0);
        // Nobody leads any more: it does, and what it lists is there to be worked on.
        let instance = start(&api, always());
        for watch in &instance.watches {
            watch.synced().await;
        }
        let cron_jobs = instance.queues.cron_jobs.clone().unwrap();
        assert_eq!(cron_jobs.depth(), 0);
        instance.queues.open(&instance.store);
        assert_eq!(cron_jobs.depth(), 50);
    };
    LocalSet::new().run_until(run).await;
}
