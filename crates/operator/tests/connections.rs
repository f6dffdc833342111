//! The transport over real sockets: which connection a request takes, and what becomes of both.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_operator::fence::RequestBody;
use carillon_operator::metrics::Metrics;
use carillon_operator::transport::{BatchWindow, CallError, Transport};
use http::Request;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

const TIMEOUT: Duration = Duration::from_secs(10);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const FIRST_OF_MANY: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n";

const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// A server that does what the path says.
#[derive(Clone)]
struct Server {
    accepted: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    /// Two requests have to be there before either is answered.
    both: Arc<Barrier>,
}

impl Server {
    async fn start() -> (Self, SocketAddr) {
        let server = Self {
            accepted: Arc::default(),
            heads: Arc::default(),
            both: Arc::new(Barrier::new(2)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = server.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                accepting.accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(accepting.clone().serve(socket));
            }
        });
        (server, address)
    }

    async fn serve(self, mut socket: TcpStream) {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match socket.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            self.heads.lock().unwrap().push(head);
            match path.as_str() {
                "/both" => {
                    self.both.wait().await;
                    socket.write_all(OK).await.unwrap();
                }
                "/last" => {
                    socket.write_all(OK).await.unwrap();
                    return;
                }
                "/events" => socket.write_all(FIRST_OF_MANY).await.unwrap(),
                "/silence" => return,
                "/endless" => {
                    let megabyte = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
                    let mut sent = socket.write_all(ENDLESS).await;
                    while sent.is_ok() {
                        sent = socket.write_all(&megabyte).await;
                    }
                    return;
                }
                _ => socket.write_all(OK).await.unwrap(),
            }
        }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    fn asked_for(&self, path: &str) -> usize {
        let heads = self.heads.lock().unwrap();
        let begin = format!("GET {path} ");
        heads.iter().filter(|head| head.starts_with(&begin)).count()
    }
}

fn transport(url: &str) -> Transport {
    let config = kube::Config::new(url.parse().unwrap());
    Transport::connect(&config, Metrics::new().unwrap(), &BatchWindow::default()).unwrap()
}

async fn started() -> (Server, Transport) {
    let (server, address) = Server::start().await;
    (server, transport(&format!("http://{address}")))
}

async fn get(transport: &Transport, path: &str) -> Result<String, CallError> {
    let request = Request::get(path).body(Vec::new()).unwrap();
    let reply = transport.unary(request, TIMEOUT).await?;
    Ok(String::from_utf8(reply.to_vec()).unwrap())
}

#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    let (server, transport) = started().await;
    for _ in 0..3 {
        assert_eq!(get(&transport, "/").await.unwrap(), "ok");
    }
    assert_eq!((server.accepted(), server.asked_for("/")), (1, 3));
}

#[tokio::test]
async fn requests_side_by_side_have_a_connection_each() {
    let (server, transport) = started().await;
    for _ in 0..3 {
        let (one, other) = tokio::join!(get(&transport, "/both"), get(&transport, "/both"));
        assert_eq!((one.unwrap(), other.unwrap()), ("ok".into(), "ok".into()));
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_nobody_used_it_is_replaced() {
    let (server, transport) = started().await;
    for round in 1..=3 {
        assert_eq!(get(&transport, "/last").await.unwrap(), "ok");
        assert_eq!(server.accepted(), round);
        // Its end is there when the server's task is over; the next looks at sockets see it.
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn a_request_that_left_and_was_not_answered_is_not_sent_again() {
    let (server, transport) = started().await;
    get(&transport, "/").await.unwrap();
    let error = get(&transport, "/silence").await.unwrap_err();
    assert!(matches!(error, CallError::Failed(_)), "{error}");
    assert_eq!((server.accepted(), server.asked_for("/silence")), (1, 1));
    assert_eq!(get(&transport, "/").await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_reply_that_nobody_reads_to_its_end_takes_its_connection_along() {
    let (server, transport) = started().await;
    let request = Request::get("/events").body(RequestBody::from(Vec::new()));
    let response = transport.call(request.unwrap()).await.unwrap();
    let mut body = response.into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "event");
    drop(body);
    assert_eq!(get(&transport, "/").await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_reply_without_end_is_an_error_that_names_the_request_and_the_limit() {
    let (server, transport) = started().await;
    let error = get(&transport, "/endless").await.unwrap_err().to_string();
    assert_eq!(
        error,
        "GET /endless: the reply has more than 16777216 bytes"
    );
    assert_eq!(get(&transport, "/").await.unwrap(), "ok");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn an_error_says_that_there_is_no_connection_and_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let transport = transport(&format!("http://{address}"));
    let error = get(&transport, "/").await.unwrap_err().to_string();
    assert!(error.starts_with("client error (Connect): "), "{error}");
    assert!(error.ends_with("(os error 111)"), "{error}");
}

#[tokio::test]
async fn a_server_below_a_path_is_asked_there_and_told_its_name() {
    let (server, address) = Server::start().await;
    let transport = transport(&format!("http://{address}/clusters/one"));
    get(&transport, "/api/v1/pods?limit=1").await.unwrap();
    let head = server.heads.lock().unwrap().concat();
    assert!(
        head.starts_with("GET /clusters/one/api/v1/pods?limit=1 HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{head}");
}
