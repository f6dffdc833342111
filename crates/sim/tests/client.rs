//! The API server as a client sees it over HTTP.

#![allow(clippy::unwrap_used)] // a test may panic

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use carillon_sim::faults::{Connect, Event, EventFate, Fate, Faults, Leg, Reply};
use carillon_sim::{Call, Client, Delete, Gate, Server, Status};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::{BoxError, ServiceExt};

fn server() -> Server {
    Server::new("2026-01-01T00:00:00Z".parse().unwrap())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

async fn send(client: &Client, method: Method, uri: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(uri);
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = client.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_every_change_as_it_happens() {
    let server = server();
    let client = server.client("u", "a");
    let uri = format!(
        "/api/v1/pods?watch=true&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=90",
        server.revision()
    );
    let request = Request::get(uri).body(Full::new(Bytes::new())).unwrap();
    let mut body = client.clone().oneshot(request).await.unwrap().into_body();
    let pods = "/api/v1/namespaces/default/pods";
    let (code, created) = send(&client, Method::POST, pods, &pod("p")).await;
    assert_eq!(code, 201);
    let actor = server.actor("user");
    actor
        .delete("pods", "default", "p", &Delete::default())
        .unwrap();
    let mut lines = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        lines.push(serde_json::from_slice::<Value>(&data).unwrap());
    }
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);
    assert_eq!(lines[0]["object"], created);
    let revision = server.revision().to_string();
    assert_eq!(lines[2]["object"]["metadata"]["resourceVersion"], revision);
    assert_eq!(lines[3]["object"]["metadata"]["resourceVersion"], revision);
    assert_eq!(server.now().to_string(), "2026-01-01T00:01:30Z");
}

/// Lets one request or event meet a fate, once.
#[derive(Default)]
struct Script {
    connect: Mutex<Option<Connect>>,
    request: Mutex<Option<Fate>>,
    event: Mutex<Option<EventFate>>,
    latency: Duration,
}

impl Faults for Script {
    fn latency(&self, _: &Call, _: Leg) -> Duration {
        self.latency
    }

    fn on_connect(&self, _: &Call) -> Connect {
        self.connect.lock().unwrap().take().unwrap_or(Connect::Open)
    }

    fn on_request(&self, call: &Call) -> Fate {
        // Looking is always possible.
        let fate = (call.verb != "get").then(|| self.request.lock().unwrap().take());
        fate.flatten().unwrap_or_else(Fate::pass)
    }

    fn on_event(&self, _: &Call, _: &Event) -> EventFate {
        let fate = self.event.lock().unwrap().take();
        fate.unwrap_or(EventFate::Deliver)
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates a pod that meets `fate`: what the client sees, and whether the pod is there.
async fn create(fate: Fate) -> (Result<u16, String>, bool) {
    let server = server();
    let script = Script {
        request: Mutex::new(Some(fate)),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let request = Request::post(PODS)
        .body(Full::new(Bytes::from(pod("p").to_string())))
        .unwrap();
    let reply = timeout(Duration::from_secs(30), client.oneshot(request)).await;
    let seen = match reply {
        Err(_) => Err("silence".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(response)) => Ok(response.status().as_u16()),
    };
    let there = server.actor("user").get("pods", "default", "p").is_ok();
    (seen, there)
}

#[tokio::test(start_paused = true)]
async fn a_request_meets_the_fate_it_is_given() {
    let reset = || Err("connection reset".to_owned());
    assert_eq!(create(Fate::pass()).await, (Ok(201), true));
    assert_eq!(
        create(Fate::refuse(Status::unavailable())).await,
        (Ok(503), false)
    );
    assert_eq!(create(Fate::reset()).await, (reset(), false));
    assert_eq!(create(Fate::lose_reply()).await, (reset(), true));
    assert_eq!(
        create(Fate::silence()).await,
        (Err("silence".to_owned()), true)
    );
    // The reply is that of the second time.
    assert_eq!(create(Fate::twice()).await, (Ok(409), true));
    let proxy = Reply::Raw(502, Bytes::from_static(b"<html>"));
    let fate = Fate {
        reply: proxy,
        ..Fate::pass()
    };
    assert_eq!(create(fate).await, (Ok(502), true));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_to_come_again_later_is_in_header_and_body() {
    let server = server();
    let fate = Fate::refuse(Status::too_many_requests(7));
    let script = Script {
        request: Mutex::new(Some(fate)),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let request = Request::post(PODS).body(Full::new(Bytes::new())).unwrap();
    let response = client.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "7");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["details"]["retryAfterSeconds"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_held_request_is_applied_when_the_gate_opens_even_if_nobody_waits() {
    let server = server();
    let gate = Gate::new();
    let script = Script {
        request: Mutex::new(Some(Fate::hold(gate.clone()))),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let request = Request::post(PODS)
        .body(Full::new(Bytes::from(pod("p").to_string())))
        .unwrap();
    let waiting = tokio::spawn(client.oneshot(request));
    gate.reached().await;
    waiting.abort();
    assert!(waiting.await.is_err());
    let user = server.actor("user");
    assert_eq!(user.get("pods", "default", "p").unwrap_err().code, 404);
    let mut changes = server.changes();
    gate.open();
    changes.changed().await;
    user.get("pods", "default", "p").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_forbids_its_sending_is_the_error_of_the_call() {
    #[derive(Debug, PartialEq)]
    struct Forbidden;
    impl std::fmt::Display for Forbidden {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("forbidden")
        }
    }
    impl std::error::Error for Forbidden {}
    let server = server();
    let before = server.revision();
    let frames = futures::stream::once(async { Err::<Frame<Bytes>, _>(Forbidden) });
    let request = Request::post(PODS)
        .body(StreamBody::new(Box::pin(frames)))
        .unwrap();
    let error = server.client("u", "a").oneshot(request).await.unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Forbidden));
    assert_eq!(server.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_leaves_the_body_unread() {
    let server = server();
    let script = Script {
        connect: Mutex::new(Some(Connect::Refused)),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let frames = futures::stream::poll_fn(|_| -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("it is read")
    });
    let body = StreamBody::new(frames);
    let request = Request::post(PODS).body(body).unwrap();
    let error = client.oneshot(request).await.unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
}

#[tokio::test(start_paused = true)]
async fn latency_passes_in_virtual_time_before_and_after() {
    let server = server();
    let script = Script {
        latency: Duration::from_secs(2),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let (code, created) = send(&client, Method::POST, PODS, &pod("p")).await;
    assert_eq!(code, 201);
    assert_eq!(
        created["metadata"]["creationTimestamp"],
        "2026-01-01T00:00:02Z"
    );
    assert_eq!(server.now().to_string(), "2026-01-01T00:00:04Z");
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_answered_from_the_past() {
    let server = server();
    let past = server.revision();
    server
        .actor("user")
        .create("pods", "default", &pod("p"))
        .unwrap();
    let script = Script {
        request: Mutex::new(Some(Fate::as_of(past))),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let (_, old) = send(&client, Method::GET, PODS, &Value::Null).await;
    let (_, new) = send(&client, Method::GET, PODS, &Value::Null).await;
    let seen = |list: &Value| {
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        (list["items"].as_array().unwrap().len(), version)
    };
    assert_eq!(seen(&old), (0, past.to_string()));
    assert_eq!(seen(&new), (1, (past + 1).to_string()));
}

/// Watches pods of label `x` for a minute, while two come, of which the first meets `fate`.
async fn watch(fate: EventFate) -> (Vec<String>, Duration) {
    let server = server();
    let script = Script {
        event: Mutex::new(Some(fate)),
        ..Script::default()
    };
    let client = server.client_with("u", "a", Arc::new(script));
    let uri = format!(
        "{PODS}?watch=true&resourceVersion={}&timeoutSeconds=60&labelSelector=app",
        server.revision()
    );
    let begin = Instant::now();
    let request = Request::get(uri).body(Full::new(Bytes::new())).unwrap();
    let mut body = client.oneshot(request).await.unwrap().into_body();
    let user = server.actor("user");
    for name in ["a", "b"] {
        user.create("pods", "default", &pod(name)).unwrap();
    }
    let mut text = String::new();
    let mut arrived = Duration::ZERO;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap(),
            Err(error) => text.extend(["\n", &error.to_string(), "\n"]),
        }
        arrived = begin.elapsed();
    }
    let seen = text
        .lines()
        .map(|line| match serde_json::from_str::<Value>(line) {
            Ok(event) if event["type"] == "ERROR" => {
                event["object"]["reason"].as_str().unwrap().to_owned()
            }
            Ok(event) => event["object"]["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned(),
            Err(_) => line.chars().take(8).collect(),
        });
    (seen.collect(), arrived)
}

#[tokio::test(start_paused = true)]
async fn an_event_meets_the_fate_it_is_given() {
    let zero = Duration::ZERO;
    let of = |names: &[&str], time| {
        (
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>(),
            time,
        )
    };
    assert_eq!(watch(EventFate::Deliver).await, of(&["a", "b"], zero));
    assert_eq!(watch(EventFate::Drop).await, of(&["b"], zero));
    assert_eq!(watch(EventFate::Twice).await, of(&["a", "a", "b"], zero));
    assert_eq!(watch(EventFate::Close).await, of(&[], zero));
    assert_eq!(watch(EventFate::Gone).await, of(&["Expired"], zero));
    assert_eq!(
        watch(EventFate::Reset).await,
        of(&["{\"type\":", "connecti"], zero)
    );
    let late = Duration::from_secs(5);
    assert_eq!(watch(EventFate::Delay(late)).await, of(&["a", "b"], late));
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_leaves_its_selector_as_deleted_and_ends_with_410_after_a_compaction() {
    let server = server();
    let user = server.actor("user");
    let client = server.client("u", "a");
    let begin = server.revision();
    user.create("pods", "default", &pod("p")).unwrap();
    let patch = json!({"metadata": {"labels": {"app": "b"}}});
    user.patch_merge("pods", "default", "p", &patch).unwrap();
    let get = async || {
        let uri = format!(
            "{PODS}?watch=1&resourceVersion={begin}&timeoutSeconds=1&labelSelector=app%3Da"
        );
        let request = Request::get(uri).body(Full::new(Bytes::new())).unwrap();
        let body = client.clone().oneshot(request).await.unwrap().into_body();
        let text = body.collect().await.unwrap().to_bytes();
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| serde_json::from_slice::<Value>(line).unwrap())
            .collect::<Vec<_>>()
    };
    let events = get().await;
    assert_eq!(
        (events.len(), &events[0]["type"], &events[1]["type"]),
        (2, &json!("ADDED"), &json!("DELETED"))
    );
    let left = &events[1]["object"]["metadata"];
    assert_eq!(
        (&left["labels"]["app"], &left["resourceVersion"]),
        (&json!("a"), &json!((begin + 2).to_string()))
    );
    server.compact(begin + 1);
    let events = get().await;
    assert_eq!(
        (events.len(), &events[0]["object"]["code"]),
        (1, &json!(410))
    );
}
