//! What the write path does with every kind of answer, and that it sends nothing it must not.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use carillon_operator::{
    clock::Clock,
    fence::{NotSent, RequestBody},
    gate::Kind,
    lease::Leadership,
    metrics::Metrics,
    request::{self, Call, CreateMode},
    transport::Transport,
    writes::{SendError, Writes, decode},
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

#[derive(Clone)]
struct Server {
    sent: Arc<AtomicUsize>,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
enum Answer {
    Reply(u16, &'static str),
    RetryAfter(&'static str),
    /// The body is read, then the connection breaks.
    Reset,
    /// The connection breaks before the body is asked for.
    NoConnection,
    /// The body is read, and no reply ever comes.
    Hang,
}

const NO_WEBHOOK: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":500,
"reason":"InternalError","message":"Internal error occurred: failed calling webhook \"a.example\": no route to host"}"#;

fn writes(leadership: Leadership, answers: &[Answer]) -> (Writes, Server) {
    let server = Server {
        sent: Arc::default(),
        metrics: Metrics::new().unwrap(),
    };
    let answers = Arc::new(Mutex::new(answers.iter().cloned().collect::<VecDeque<_>>()));
    let sent = Arc::clone(&server.sent);
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        sent.fetch_add(1, Ordering::SeqCst);
        let answer = answers.lock().unwrap().pop_front().unwrap();
        async move {
            if matches!(answer, Answer::NoConnection) {
                return Err("connection refused".into());
            }
            request.into_body().collect().await?;
            let builder = Response::builder();
            let reply = |code: u16, text: &'static str| (code, Full::new(Bytes::from(text)));
            let (builder, (code, body)) = match answer {
                Answer::Reply(code, text) => (builder, reply(code, text)),
                Answer::RetryAfter(wait) => {
                    (builder.header("Retry-After", wait), reply(429, "slow down"))
                }
                Answer::Hang => return std::future::pending().await,
                Answer::Reset | Answer::NoConnection => return Err("reset".into()),
            };
            Ok::<_, tower::BoxError>(builder.status(code).body(body).unwrap())
        }
    });
    let transport = Transport::new(service, Arc::clone(&server.metrics));
    (Writes::new(transport, leadership, 2), server)
}

fn create() -> Call {
    request::create(Kind::Pod, "a", &serde_json::json!({}), CreateMode::Plain)
}

async fn outcome(answers: &[Answer]) -> (String, usize) {
    let (writes, server) = writes(Leadership::always(Clock::system()), answers);
    let text = match writes.send(create(), None).await {
        Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
        Err(error) => error.to_string(),
    };
    (text, server.sent.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_its_outcome() {
    use Answer::{Hang, NoConnection, Reply, Reset, RetryAfter};
    let exists =
        r#"{"status":"Failure","reason":"AlreadyExists","message":"it exists","code":409}"#;
    for (name, answers, text, sent) in [
        ("created", vec![Reply(201, "made")], "made", 1),
        (
            "refused",
            vec![Reply(409, exists)],
            "refused: it exists (409 AlreadyExists)",
            1,
        ),
        (
            "plain text",
            vec![Reply(404, "no")],
            "refused: no (404 NotFound)",
            1,
        ),
        (
            "server error",
            vec![Reply(500, "oops")],
            "outcome unknown: oops (500)",
            1,
        ),
        (
            "timeout of the server",
            vec![Reply(504, "")],
            "outcome unknown:  (504)",
            1,
        ),
        ("reset", vec![Reset], "outcome unknown: reset", 1),
        (
            "hang",
            vec![Hang],
            "outcome unknown: no reply within 30s",
            1,
        ),
        (
            "throttled",
            vec![Reply(429, ""), RetryAfter("2"), Reply(201, "made")],
            "made",
            3,
        ),
        (
            "no connection",
            vec![NoConnection, Reply(201, "made")],
            "made",
            2,
        ),
        (
            "never any connection",
            vec![NoConnection; 4],
            "not sent: the API server cannot be reached: connection refused",
            4,
        ),
        (
            "throttled for long",
            vec![RetryAfter("3600")],
            "refused: slow down (429 TooManyRequests)",
            1,
        ),
        (
            "throttled with garbage",
            vec![RetryAfter("soon"), Reply(201, "made")],
            "made",
            2,
        ),
    ] {
        assert_eq!(outcome(&answers).await, (text.to_owned(), sent), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let begin = tokio::time::Instant::now();
    outcome(&[Answer::RetryAfter("3"), Answer::Reply(201, "")]).await;
    assert!(begin.elapsed() >= Duration::from_secs(3));
}

#[tokio::test]
async fn nothing_is_sent_without_leadership_or_after_the_plan() {
    let (standby, server) = writes(
        Leadership::standby(Clock::system()),
        &[Answer::Reply(200, "read")],
    );
    let error = standby.send(create(), None).await.unwrap_err();
    assert!(matches!(error, SendError::NotSent(NotSent::NotLeader)));
    assert_eq!(server.sent.load(Ordering::SeqCst), 0);
    let read = request::get(Kind::Pod, "a", "b");
    assert_eq!(standby.read(read).await.unwrap(), "read");

    let (leader, server) = writes(Leadership::always(Clock::system()), &[]);
    let error = leader
        .send(create(), Some(Clock::system().boot()))
        .await
        .unwrap_err();
    assert!(matches!(error, SendError::NotSent(NotSent::Expired)));
    assert_eq!(server.sent.load(Ordering::SeqCst), 0);
}

/// Over a real socket: what expires while a connection is awaited must not leave one byte.
#[tokio::test]
async fn a_request_that_waited_too_long_for_its_connection_never_leaves() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client: hyper_util::client::legacy::Client<_, RequestBody> =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
            .build_http();
    let service = tower::service_fn(move |mut request: Request<RequestBody>| {
        let client = client.clone();
        async move {
            let path = request.uri().path().to_owned();
            *request.uri_mut() = format!("http://{address}{path}").parse().unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            client.request(request).await
        }
    });
    let transport = Transport::new(service, Metrics::new().unwrap());
    let writes = Writes::new(transport, Leadership::always(Clock::system()), 1);
    let server = tokio::spawn(async move {
        let mut received = Vec::new();
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let n = socket.read(&mut buffer).await.unwrap();
            received.push(String::from_utf8_lossy(&buffer[..n]).into_owned());
            if n > 0 {
                let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                socket.write_all(reply).await.unwrap();
            }
        }
        received
    });
    let deadline = Clock::system().boot().after(Duration::from_millis(50));
    let error = writes.send(create(), Some(deadline)).await.unwrap_err();
    assert!(
        matches!(error, SendError::NotSent(NotSent::Expired)),
        "{error}"
    );
    assert_eq!(writes.send(create(), None).await.unwrap(), "ok");
    let received = tokio::time::timeout(Duration::from_secs(30), server).await;
    let received = received.unwrap().unwrap();
    assert_eq!(received[0], "");
    assert!(
        received[1].contains("user-agent: carillon/"),
        "{}",
        received[1]
    );
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_what_is_in_flight_and_ends_the_rest() {
    let (writes, server) = writes(
        Leadership::always(Clock::system()),
        &[Answer::Hang, Answer::Hang],
    );
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let writes = writes.clone();
            tokio::spawn(async move { writes.send(create(), None).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = tokio::time::Instant::now();
    writes.drain().await;
    assert_eq!(begin.elapsed().as_secs(), 29, "the request timeout");
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.unwrap().unwrap_err().to_string());
    }
    assert!(ends[0].starts_with("outcome unknown") && ends[1].starts_with("outcome unknown"));
    assert_eq!(ends[2], "not sent: shutting down");
    assert_eq!(server.sent.load(Ordering::SeqCst), 2);
    let error = writes.send(create(), None).await.unwrap_err();
    assert_eq!(error.to_string(), "not sent: shutting down");
}

#[tokio::test(start_paused = true)]
async fn leadership_is_given_back_only_when_nothing_that_was_sent_may_still_be_applied() {
    use Answer::{Hang, NoConnection, Reply, Reset};
    for (name, answer, free) in [
        ("done", Reply(201, ""), true),
        ("refused", Reply(409, ""), true),
        ("never sent", NoConnection, true),
        ("a server error", Reply(504, ""), false),
        (
            "a webhook that does not answer",
            Reply(500, NO_WEBHOOK),
            true,
        ),
        ("a broken connection", Reset, false),
        ("no reply", Hang, false),
    ] {
        let leadership = Leadership::always(Clock::system());
        let answers = [answer.clone(), answer.clone(), answer.clone(), answer];
        let (writes, _) = writes(leadership.clone(), &answers);
        let _ = writes.send(create(), None).await;
        assert_eq!(leadership.may_be_given_back(), free, "{name}");
    }
    let leadership = Leadership::always(Clock::system());
    let (writes, server) = writes(leadership.clone(), &[Hang]);
    let task = tokio::spawn(async move { writes.send(create(), None).await });
    // It is sent as soon as nothing else is to be done.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.sent.load(Ordering::SeqCst), 1);
    assert!(leadership.may_be_given_back(), "it waits for its reply");
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(!leadership.may_be_given_back(), "nobody waits any longer");
}

#[tokio::test]
async fn requests_are_counted() {
    let (writes, server) = writes(
        Leadership::always(Clock::system()),
        &[Answer::Reply(201, "{}"), Answer::Reset],
    );
    writes.send(create(), None).await.unwrap();
    writes.send(create(), None).await.unwrap_err();
    let text = String::from_utf8(server.metrics.encode().unwrap()).unwrap();
    for series in [
        r#"carillon_api_requests_total{code="201",resource="pods",verb="create"} 1"#,
        r#"carillon_api_requests_total{code="<error>",resource="pods",verb="create"} 1"#,
        r#"rest_client_requests_total{code="201",method="POST"} 1"#,
        r#"rest_client_request_duration_seconds_count{verb="create"} 2"#,
    ] {
        assert!(text.contains(series), "{series} is missing in:\n{text}");
    }
}

#[test]
fn a_reply_that_makes_no_sense_says_nothing_about_the_write() {
    let error = decode::<u32>(b"<html>").unwrap_err();
    assert!(matches!(error, SendError::Unknown(_)));
}
