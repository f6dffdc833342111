//! Events on their way to the API server.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use carillon_operator::{
    clock::Clock,
    event::{
        Event, Regarding, Severity,
        recorder::{self, EventSink, EventWriter},
    },
    fence::RequestBody,
    lease::Leadership,
    metrics::Metrics,
    transport::Transport,
    writes::Writes,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn event(note: &str) -> Event {
    Event {
        regarding: Regarding {
            api_version: "carillon.dev/v1alpha1",
            kind: "BroadcastJob",
            namespace: "ns".into(),
            name: "job".into(),
            uid: "7".into(),
        },
        controller: "carillon.dev/broadcastjob-controller",
        severity: Severity::Warning,
        action: "CreatePods",
        reason: "PodsRefused".into(),
        note: note.into(),
        about: None,
    }
}

/// Path and body of the events that were written.
type Written = mpsc::UnboundedReceiver<(String, serde_json::Value)>;

/// The next one; a test that waits for it in vain fails.
async fn next(written: &mut Written) -> (String, serde_json::Value) {
    let next = tokio::time::timeout(Duration::from_secs(30), written.recv());
    next.await.expect("nothing was written").unwrap()
}

fn sink(leadership: Leadership) -> (EventSink, EventWriter, Written, Arc<Metrics>) {
    let (sender, written) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let sender = sender.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = serde_json::from_slice(&body).unwrap();
            let _ = sender.send((parts.uri.to_string(), body));
            Ok::<_, tower::BoxError>(Response::new(Full::new(Bytes::new())))
        }
    });
    let metrics = Metrics::new().unwrap();
    let transport = Transport::new(service, Arc::clone(&metrics));
    let writes = Writes::new(transport, leadership.clone(), 1);
    let (sink, task) = recorder::channel(writes, leadership, "host_1", &metrics);
    (sink, task, written, metrics)
}

#[tokio::test]
async fn an_event_says_who_what_and_why() {
    let (sink, task, mut written, metrics) = sink(Leadership::always(Clock::system()));
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(task.run(shutdown.clone()));
    sink.publish(event("quota"));
    sink.publish(event("quota"));
    let (path, body) = next(&mut written).await;
    assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    for (field, value) in [
        ("/apiVersion", "events.k8s.io/v1"),
        ("/kind", "Event"),
        ("/type", "Warning"),
        ("/reason", "PodsRefused"),
        ("/action", "CreatePods"),
        ("/note", "quota"),
        (
            "/reportingController",
            "carillon.dev/broadcastjob-controller",
        ),
        ("/reportingInstance", "host_1"),
        ("/regarding/kind", "BroadcastJob"),
        ("/regarding/uid", "7"),
        ("/metadata/namespace", "ns"),
    ] {
        assert_eq!(body.pointer(field).unwrap(), value, "{field}");
    }
    // What waits when the process stops is still written; a repetition is not.
    sink.publish(event("last words"));
    shutdown.cancel();
    task.await.unwrap();
    assert_eq!(next(&mut written).await.1["note"], "last words");
    assert!(written.try_recv().is_err());
    assert_eq!(metrics.events.with_label_values(&["Warning"]).get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_follower_says_nothing() {
    let (follower, leader) = (
        Leadership::standby(Clock::system()),
        Leadership::always(Clock::system()),
    );
    for (leadership, says) in [(follower, None), (leader, Some("quota"))] {
        let (sink, task, mut written, metrics) = sink(leadership);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(task.run(shutdown.clone()));
        sink.publish(event("quota"));
        // Once nothing is left to do but to wait, it has been written or never is.
        tokio::time::sleep(Duration::from_hours(1)).await;
        // What still waits then is written before the end.
        shutdown.cancel();
        task.await.unwrap();
        let said = written.try_recv().ok();
        let said = said.as_ref().and_then(|(_, body)| body["note"].as_str());
        assert_eq!(said, says);
        assert_eq!(metrics.events_dropped.get(), 0, "this is no loss");
    }
}

#[tokio::test]
async fn a_namespace_with_thousands_of_failing_objects_holds_up_no_other() {
    let (sink, task, mut written, metrics) = sink(Leadership::always(Clock::system()));
    let of = |namespace: &str, uid: usize| {
        let mut event = event("quota");
        event.regarding.namespace = namespace.into();
        event.regarding.name = format!("{namespace}-job-{uid}");
        event.regarding.uid = uid.to_string();
        event
    };
    for uid in 0..5000 {
        sink.publish(of("noisy", uid));
    }
    sink.publish(of("quiet", 5000));
    let dropped = metrics.events_dropped.get();
    assert!(dropped > 0, "that many are not kept");
    tokio::spawn(task.run(CancellationToken::new()));
    let mut next_writes = Vec::new();
    for _ in 0..3 {
        let (_, body) = next(&mut written).await;
        next_writes.push(body["regarding"]["namespace"].as_str().unwrap().to_owned());
    }
    assert_eq!(next_writes, ["noisy", "quiet", "noisy"]);
    // And while others are being written, too: what was written so far does not count.
    while written.try_recv().is_ok() {}
    for uid in 5001..10_000 {
        sink.publish(of("noisy", uid));
    }
    sink.publish(of("quiet", 10_000));
    let mut before = 0;
    while next(&mut written).await.1["regarding"]["uid"] != "10000" {
        before += 1;
    }
    assert!(before <= 2, "{before} writes before it");
    assert!(metrics.events_dropped.get() > dropped);
    let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
    assert!(!text.contains("noisy") && text.contains("carillon_events_dropped_total "));
}

#[tokio::test]
async fn a_full_queue_drops_and_counts() {
    let (sink, task, _written, metrics) = sink(Leadership::always(Clock::system()));
    for n in 0..1100 {
        sink.publish(event(&n.to_string()));
    }
    assert_eq!(metrics.events_dropped.get(), 1100 - 1024);
    drop(task);
}
