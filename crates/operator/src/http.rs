//! What the process serves: `/metrics`, `/livez` and `/readyz` for everyone, `/debug/…` on
//! loopback only. On a thread of its own, within limits.

mod check;
mod computed;
mod connections;
mod heartbeat;
mod server;

use std::{
    fmt::Write,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use anyhow::Context;
use axum::{
    Router,
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{sync::Mutex, task::spawn_blocking};

use self::computed::Computed;
pub use self::{
    check::Check,
    connections::Limits,
    heartbeat::{Heartbeat, LONGEST_SILENCE},
    server::{Server, start},
};
use crate::metrics::Metrics;

/// A debug page: its JSON, made when asked for, from the query.
pub type Page = Box<dyn Fn(&str) -> serde_json::Value + Send + Sync>;

/// `/metrics`, `/livez`, `/readyz`; the latter two with `?verbose`.
pub fn public(metrics: Arc<Metrics>, live: Vec<Check>, ready: Vec<Check>) -> Router {
    let scraped = Arc::new((metrics, Computed::default()));
    Router::new()
        .route("/metrics", get(serve_metrics).with_state(scraped))
        .route(
            "/livez",
            get(serve_checks).with_state(checks("livez", live)),
        )
        .route(
            "/readyz",
            get(serve_checks).with_state(checks("readyz", ready)),
        )
}

/// `/debug/store`, `/debug/queue` and `/debug/flights`.
pub fn debug(store: Page, queue: Page, flights: Page) -> Router {
    let one_at_a_time = Arc::<Mutex<()>>::default();
    let page =
        |page: Page| get(serve_page).with_state((Arc::clone(&one_at_a_time), Arc::new(page)));
    Router::new()
        .route("/debug/store", page(store))
        .route("/debug/queue", page(queue))
        .route("/debug/flights", page(flights))
}

/// Binds `address`.
///
/// # Errors
/// When it is in use or not ours; the message names `flag`.
pub fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).with_context(|| format!("{flag} {address}"))
}

struct Checks {
    endpoint: &'static str,
    checks: Vec<Check>,
}

fn checks(endpoint: &'static str, checks: Vec<Check>) -> Arc<Checks> {
    Arc::new(Checks { endpoint, checks })
}

/// The API server's own format: `[+]name ok` for each check when verbose, or when one fails.
async fn serve_checks(State(state): State<Arc<Checks>>, RawQuery(query): RawQuery) -> Response {
    let verbose = query
        .unwrap_or_default()
        .split('&')
        .any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let mut lines = "[+]ping ok\n".to_owned();
    let mut failed = false;
    for check in &state.checks {
        // Writing to a String cannot fail.
        let _ = match (check.ask)() {
            Ok(()) => writeln!(lines, "[+]{} ok", check.name),
            Err(why) => {
                failed = true;
                writeln!(lines, "[-]{} failed: {why}", check.name)
            }
        };
    }
    let endpoint = state.endpoint;
    match (failed, verbose) {
        (true, _) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{lines}{endpoint} check failed\n"),
        )
            .into_response(),
        (false, true) => format!("{lines}{endpoint} check passed\n").into_response(),
        (false, false) => "ok".into_response(),
    }
}

async fn serve_metrics(State(scraped): State<Arc<(Arc<Metrics>, Computed)>>) -> Response {
    let metrics = Arc::clone(&scraped.0);
    let encode = move || metrics.encode().map_err(|error| error.to_string());
    match scraped.1.kept_or(encode).await {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}

async fn serve_page(
    State((turn, page)): State<(Arc<Mutex<()>>, Arc<Page>)>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let turn = turn.lock_owned().await;
    let made = spawn_blocking(move || {
        let json = page(&query).to_string();
        drop(turn);
        json
    });
    match made.await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::body::Body;
    use http_body_util::BodyExt;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::*;

    async fn fetch(router: &Router, path: &str) -> (StatusCode, String) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_when_every_check_passes() {
        static SYNCED: AtomicBool = AtomicBool::new(false);
        let ready = Check::new("cache-Pod", || {
            SYNCED
                .load(Ordering::Relaxed)
                .then_some(())
                .ok_or_else(|| "not listed yet".to_owned())
        });
        let router = public(Metrics::new().unwrap(), Vec::new(), vec![ready]);
        assert_eq!(
            fetch(&router, "/readyz").await,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "[+]ping ok\n[-]cache-Pod failed: not listed yet\nreadyz check failed\n".into()
            )
        );
        assert_eq!(
            fetch(&router, "/livez").await,
            (StatusCode::OK, "ok".into())
        );
        SYNCED.store(true, Ordering::Relaxed);
        assert_eq!(
            fetch(&router, "/readyz").await,
            (StatusCode::OK, "ok".into())
        );
        assert_eq!(
            fetch(&router, "/readyz?verbose").await.1,
            "[+]ping ok\n[+]cache-Pod ok\nreadyz check passed\n"
        );
    }

    #[tokio::test]
    async fn metrics_and_debug_pages_are_apart() {
        let public = public(Metrics::new().unwrap(), Vec::new(), Vec::new());
        let (status, text) = fetch(&public, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains("carillon_build_info"));
        assert_eq!(
            fetch(&public, "/debug/store").await.0,
            StatusCode::NOT_FOUND
        );
        let debug = debug(
            Box::new(|_| serde_json::json!({"rows": 1})),
            Box::new(|_| serde_json::json!([])),
            Box::new(|query| serde_json::json!(query)),
        );
        assert_eq!(fetch(&debug, "/debug/store").await.1, r#"{"rows":1}"#);
        assert_eq!(fetch(&debug, "/debug/queue").await.1, "[]");
        assert_eq!(
            fetch(&debug, "/debug/flights?name=a").await.1,
            r#""name=a""#
        );
    }

    #[tokio::test]
    async fn serves_until_told_to_stop() {
        let listener = bind("--http-address", "127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = listener.local_addr().unwrap();
        let error = bind("--http-address", taken).unwrap_err();
        assert!(error.to_string().contains("--http-address 127.0.0.1:"));
        let shutdown = CancellationToken::new();
        let sites = vec![(listener, Router::new())];
        let server = start(sites, Limits::default(), shutdown.clone()).unwrap();
        shutdown.cancel();
        server.ended().await;
    }
}
