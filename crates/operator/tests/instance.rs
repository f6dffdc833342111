//! A process as a whole, against a scripted API server: what it does when one of its parts is gone, and what
//! it does before it leads.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carillon_operator::args::{Config, Task};
use carillon_operator::clock::Clock;
use carillon_operator::controllers::Rules;
use carillon_operator::fence::RequestBody;
use carillon_operator::instance::{Instance, Surroundings};
use carillon_operator::kinds::broadcast_job::SlimBroadcastJob;
use carillon_operator::kinds::cron_job;
use carillon_operator::kinds::cron_job::{Carillon, SlimCronJob};
use carillon_operator::lease::{self, Leadership, elect_here};
use carillon_operator::metrics::Metrics;
use carillon_operator::store::StoreSink;
use carillon_operator::transport::{Transport, Watches};
use carillon_operator::watch::Sink;
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
    /// Lists of these resources have these.
    items: Vec<(&'static str, Value)>,
    /// The watch of this resource tells something that a defect of ours would panic about.
    panics: Option<&'static str>,
    /// Lists of these resources are refused.
    refuses: &'static [&'static str],
    /// Lists below this path are refused.
    refuses_below: Option<&'static str>,
    /// No list is answered.
    deaf: Arc<AtomicBool>,
    /// Another process holds the lease, and renews it.
    led: Arc<AtomicBool>,
    /// Requests that read a lease.
    leases_read: Arc<AtomicUsize>,
    /// Requests that write a lease.
    leases_written: Arc<AtomicUsize>,
}

type Body = UnsyncBoxBody<Bytes, tower::BoxError>;

impl Api {
    fn answer(&self, request: &Request<RequestBody>) -> (u16, Body) {
        let (path, query) = (request.uri().path(), request.uri().query());
        let is = |resource: Option<&str>| resource.is_some_and(|resource| path.ends_with(resource));
        if path.contains("/leases") {
            if request.method() == Method::GET && self.led.load(Ordering::Acquire) {
                let read = self.leases_read.fetch_add(1, Ordering::AcqRel);
                let renewed = Timestamp::from_second(read as i64).unwrap().to_string();
                return text(
                    200,
                    &json!({"metadata": {"resourceVersion": "9"}, "spec": {
                    "holderIdentity": "another", "leaseDurationSeconds": 15,
                    "renewTime": renewed.replace('Z', ".000000Z")}}),
                );
            }
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
        let refused = self.refuses.iter().any(|resource| path.ends_with(resource));
        let below = self.refuses_below.is_some_and(|below| path.contains(below));
        if refused || below || self.deaf.load(Ordering::Acquire) {
            return text(
                403,
                &json!({"kind": "Status", "code": 403, "reason": "Forbidden"}),
            );
        }
        let items = self.items.iter().find(|(of, _)| path.ends_with(of));
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

fn config(further: &[&str]) -> Config {
    let args = ["carillon", "--lease-namespace=ns"];
    match Task::parse([&args, further].concat()).unwrap() {
        Task::Operate(config) => config,
        Task::Check(_) => unreachable!(),
    }
}

fn start(api: &Api, leadership: Leadership) -> Instance {
    start_with(&[], api, leadership, Metrics::new().unwrap())
}

fn start_with(args: &[&str], api: &Api, leadership: Leadership, metrics: Arc<Metrics>) -> Instance {
    let surroundings = Surroundings {
        reads: Watches::over(api.transport()),
        writes: api.transport(),
        leadership,
        identity: "test".to_owned(),
        metrics,
        rules: Rules::default(),
    };
    Instance::start(&config(args), surroundings)
}

/// Whoever runs for election against nobody.
fn candidate(api: &Api) -> Leadership {
    let settings = lease::Settings::new(config(&[]).lease.as_ref().unwrap(), "ns");
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

/// Whether a process that runs for election against nobody leads within ten minutes, and after how many seconds.
async fn leads_after(api: &Api, metrics: Arc<Metrics>) -> Option<u64> {
    leads_with(&[], api, metrics).await
}

async fn leads_with(args: &[&str], api: &Api, metrics: Arc<Metrics>) -> Option<u64> {
    let run = async {
        let leadership = candidate(api);
        let instance = start_with(args, api, leadership.clone(), metrics);
        let work = instance.work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        let begin = tokio::time::Instant::now();
        let leads = tokio::time::timeout(Duration::from_mins(10), leadership.wait_leader()).await;
        let after = begin.elapsed().as_secs();
        // The rest of its start.
        sleep(Duration::from_mins(1)).await;
        leads.is_ok().then_some(after)
    };
    LocalSet::new().run_until(run).await
}

#[tokio::test(start_paused = true)]
async fn who_can_list_nothing_takes_the_lease_from_nobody() {
    let api = Api {
        // Each controller needs something that ends so.
        refuses: &["jobs", "daemonsets"],
        ..Api::default()
    };
    assert_eq!(leads_after(&api, Metrics::new().unwrap()).await, None);
    assert_eq!(api.leases_written.load(Ordering::Acquire), 0);
    let leads = leads_after(&Api::default(), Metrics::new().unwrap()).await;
    assert!(leads.unwrap() < 10);
}

#[tokio::test(start_paused = true)]
async fn who_hears_nothing_any_more_takes_no_lease_until_it_does() {
    let api = Api::default();
    api.led.store(true, Ordering::Release);
    let run = async {
        let leadership = candidate(&api);
        let work = start(&api, leadership.clone()).work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        sleep(Duration::from_mins(1)).await;
        api.deaf.store(true, Ordering::Release);
        sleep(Duration::from_mins(15)).await;
        api.led.store(false, Ordering::Release);
        sleep(Duration::from_mins(5)).await;
        assert_eq!(api.leases_written.load(Ordering::Acquire), 0);
        api.deaf.store(false, Ordering::Release);
        let leads = tokio::time::timeout(Duration::from_mins(5), leadership.wait_leader());
        assert!(leads.await.unwrap());
    };
    LocalSet::new().run_until(run).await;
}

fn object(n: u32, spec: &Value) -> Value {
    json!({"metadata": {"name": format!("n{n}"), "namespace": "ns", "resourceVersion": "3",
        "uid": format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")}, "spec": spec})
}

fn cron_jobs(count: u32) -> Value {
    let spec = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}});
    (0..count).map(|n| object(n, &spec)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_stops_its_own_controllers_only() {
    let template = json!({"template": {"spec": {"containers": []}}});
    let api = Api {
        items: vec![
            ("/cronjobs", cron_jobs(1)),
            ("/broadcastjobs", json!([object(7, &template)])),
        ],
        refuses: &["/nodes"],
        ..Api::default()
    };
    let metrics = Metrics::new().unwrap();
    let leads = leads_after(&api, metrics.clone()).await;
    assert!(leads.unwrap() >= 30, "first it waits for one that sees all");
    let adds = |name| metrics.workqueue.adds.with_label_values(&[name]).get();
    assert_eq!(adds("broadcastjob"), 0);
    assert!(adds("cronjob") > 0);
}

#[tokio::test(start_paused = true)]
async fn jobs_are_not_looked_at_before_their_pods_are_listed() {
    let spec = json!({"template": {"spec": {}}});
    let api = Api {
        items: vec![("/jobs", (0..50).map(|n| object(n, &spec)).collect())],
        refuses: &["/pods"],
        ..Api::default()
    };
    let metrics = Metrics::new().unwrap();
    leads_with(&["--serve-native=jobs"], &api, metrics.clone()).await;
    let adds = |name| metrics.workqueue.adds.with_label_values(&[name]).get();
    assert_eq!((adds("job"), adds("broadcastjob")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_cannot_be_listed_makes_no_replica_a_worse_one() {
    let api = Api {
        items: vec![("/namespaces/ns/cronjobs", cron_jobs(1))],
        refuses_below: Some("/namespaces/gone/"),
        ..Api::default()
    };
    let metrics = Metrics::new().unwrap();
    let leads = leads_with(&["--namespaces=gone,ns"], &api, metrics.clone()).await;
    assert!(leads.unwrap() < 10, "it leads after {leads:?} s");
    let adds = metrics.workqueue.adds.with_label_values(&["cronjob"]).get();
    assert!(adds > 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_can_list_nothing_any_more_ends() {
    let api = Api::default();
    let run = async {
        let work = start(&api, always()).work(CancellationToken::new());
        let goes_deaf = async {
            sleep(Duration::from_mins(1)).await;
            api.deaf.store(true, Ordering::Release);
        };
        let work = tokio::time::timeout(Duration::from_hours(1), work);
        let (ended, ()) = tokio::join!(work, goes_deaf);
        let ended = ended.unwrap().unwrap_err().to_string();
        assert!(ended.contains("no kind could be listed"), "{ended}");
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_enters_no_keys_and_a_leader_enters_each_once() {
    let api = Api {
        items: vec![("/cronjobs", cron_jobs(50))],
        ..Api::default()
    };
    let run = async {
        // Another process leads.
        let standby = Leadership::standby(Clock::simulated(Timestamp::UNIX_EPOCH));
        let instance = start(&api, standby);
        let (queues, store) = (instance.queues.clone(), instance.store.clone());
        let watches = instance.watches.clone();
        let work = instance.work(CancellationToken::new());
        spawn_local(async move { work.await.unwrap() });
        for watch in &watches {
            watch.synced_in(None).await;
        }
        sleep(Duration::from_mins(1)).await;
        let held = |queue: &carillon_operator::queue::QueueView| queue.ready.len();
        assert_eq!(queues.view().iter().map(held).sum::<usize>(), 0);
        // Nobody leads any more: what was listed is there to be worked on, by namespace.
        let depth = || queues.of(cron_job::CONTROLLER).unwrap().depth();
        for (namespace, expected) in [("other", 0), ("ns", 50), ("ns", 50)] {
            queues.open(&store, cron_job::CONTROLLER, Some(&namespace.into()));
            assert_eq!(depth(), expected, "{namespace}");
        }
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_objects_that_are_gone() {
    let template = json!({"template": {"spec": {"containers": []}}});
    let (crons, jobs) = (
        cron_jobs(3),
        json!([object(7, &template), object(8, &template)]),
    );
    let api = Api {
        items: vec![
            ("/cronjobs", crons.clone()),
            ("/broadcastjobs", jobs.clone()),
        ],
        ..Api::default()
    };
    let run = async {
        let metrics = Metrics::new().unwrap();
        let instance = start_with(&[], &api, always(), metrics.clone());
        let (queues, store) = (instance.queues.clone(), instance.store.clone());
        spawn_local(async move { instance.work(CancellationToken::new()).await });
        let remembered = |controller: &str| {
            let scraped = String::from_utf8(metrics.encode().unwrap()).unwrap();
            let series =
                format!(r#"carillon_remembered_objects{{controller="{controller}",of="memory"}} "#);
            let found = scraped.lines().find_map(|line| line.strip_prefix(&series));
            found.unwrap_or_default().to_owned()
        };
        sleep(Duration::from_mins(1)).await;
        let before = (remembered("broadcastjob"), remembered("cronjob"));
        assert_eq!(before, ("2".to_owned(), "3".to_owned()));
        let mut sink =
            StoreSink::<SlimCronJob<Carillon>>::new(&store, &queues, Duration::ZERO, None);
        for cron in crons.as_array().unwrap() {
            sink.deleted(serde_json::from_value(cron.clone()).unwrap());
        }
        let mut sink = StoreSink::<SlimBroadcastJob>::new(&store, &queues, Duration::ZERO, None);
        for job in jobs.as_array().unwrap() {
            sink.deleted(serde_json::from_value(job.clone()).unwrap());
        }
        sleep(Duration::from_mins(1)).await;
        let after = (remembered("broadcastjob"), remembered("cronjob"));
        assert_eq!(after, ("0".to_owned(), "0".to_owned()));
    };
    LocalSet::new().run_until(run).await;
}
