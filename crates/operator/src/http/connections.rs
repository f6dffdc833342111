//! Connections to what the process serves: so many, each for so long, each for one request.

use std::{collections::VecDeque, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// More than a request of ours ever needs.
const BUFFER: usize = 32 * 1024;
/// After which an error of the listener, such as no file descriptors, is tried again.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);
/// How long answers that are under way may still take once the process stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What a stranger may take of us.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of one listener. A new one takes the place of the oldest, so that nobody who keeps
    /// his open keeps a probe out.
    pub connections: usize,
    /// Within which the head of a request has to be there.
    pub header: Duration,
    /// Within which all has to be over: the request, its body, the answer until its last byte is taken.
    pub exchange: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            header: Duration::from_secs(5),
            exchange: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop`, then lets running answers finish for a second.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut running = JoinSet::new();
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        while running.try_join_next().is_some() {}
        oldest_first.retain(|connection| !connection.is_finished());
        while oldest_first.len() >= limits.connections.max(1)
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
            running.join_next().await;
        }
        let connection = exchange(stream, router.clone(), limits);
        oldest_first.push_back(running.spawn(connection));
    }
    drop(listener);
    let rest = async { while running.join_next().await.is_some() {} };
    let _ = timeout(LAST_ANSWERS, rest).await;
}

/// One request and its answer. What is wrong with it concerns the other side only.
async fn exchange<S>(stream: S, router: Router, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .keep_alive(false)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Ok(Err(error)) = timeout(limits.exchange, connection).await {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};
    use bytes::Bytes;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
        time::{Instant, sleep},
    };

    use super::*;

    const LIMITS: Limits = Limits {
        connections: 1,
        header: Duration::from_secs(5),
        exchange: Duration::from_secs(30),
    };

    fn router() -> Router {
        Router::new()
            .route("/", get("ok"))
            .route("/large", get("x".repeat(1 << 20)))
            .route(
                "/body",
                post(|body: Bytes| async move { body.len().to_string() }),
            )
    }

    /// How long a connection is served whose other side does this.
    async fn lasts<F: Future<Output = ()>>(other_side: impl FnOnce(DuplexStream) -> F) -> Duration {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let begin = Instant::now();
        tokio::select! {
            () = exchange(far, router(), LIMITS) => {}
            () = async { other_side(near).await; std::future::pending().await } => {}
        }
        begin.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_header_that_never_ends_is_closed() {
        for first in ["", "GET / HTTP/1.1\r\nA: "] {
            let lasted = lasts(|mut stream| async move {
                let _ = stream.write_all(first.as_bytes()).await;
                while !first.is_empty() && stream.write_all(b"a").await.is_ok() {
                    sleep(Duration::from_millis(900)).await;
                }
                std::future::pending::<()>().await;
            });
            assert_eq!(lasted.await, LIMITS.header, "{first:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_and_an_answer_that_nobody_takes_are_closed() {
        for request in [
            "POST /body HTTP/1.1\r\ncontent-length: 9\r\n\r\n1234",
            "GET /large HTTP/1.1\r\n\r\n",
        ] {
            let lasted = lasts(|mut stream| async move {
                stream.write_all(request.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            });
            assert_eq!(lasted.await, LIMITS.exchange, "{request:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_for_one_request() {
        let lasted = lasts(|mut stream| async move {
            let twice = "GET / HTTP/1.1\r\n\r\n".repeat(2);
            stream.write_all(twice.as_bytes()).await.unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).await.unwrap();
            assert_eq!(answers.matches("200 OK").count(), 1, "{answers}");
        });
        assert_eq!(lasted.await, Duration::ZERO);
    }
}
