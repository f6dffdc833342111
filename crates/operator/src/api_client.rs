//! How requests reach the API server.
//!
//! [`Transport`] is the connection: kube's TLS and authentication around hyper, without kube's
//! buffer task, retries and tracing spans, which cost more than our own work on a busy day.
//! [`Writes`] is the only way to change anything: it limits, times out, asks [`Leadership`] before
//! the bytes leave, and tells "was not applied" from "may have been applied".

use std::{
    error::Error as StdError,
    fmt,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{client::ConfigExt, core::Status};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tower::{BoxError, Layer, Service, ServiceExt, util::BoxCloneSyncService};

use crate::{
    args::ApiRate,
    lease::{BootTime, Leadership},
    metrics::Metrics,
};

/// How long a single read or write may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a request that certainly was not applied is sent again.
const RETRIES: u32 = 3;
/// A server that asks for a longer pause is answered by the work queue, not by waiting here.
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// `Accept` of a create whose reply matters by its metadata only; the server then answers with
/// that, which saves it and us the whole pod.
pub const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("carillon/", env!("CARGO_PKG_VERSION")));

/// The configuration of `--kubeconfig`, or the in-cluster one.
///
/// # Errors
/// When the file is missing or wrong, or we are not in a cluster.
pub async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    match kubeconfig {
        Some(path) => {
            let file = kube::config::Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
                .await
                .with_context(|| format!("--kubeconfig {}", path.display()))
        }
        None => kube::Config::incluster()
            .context("not in a cluster: no ServiceAccount found; outside of one use --kubeconfig"),
    }
}

/// A response body, as it arrives.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Connections to the API server; clones share them. Connections belong to the tokio runtime that
/// opened them, so a runtime needs a transport of its own.
#[derive(Clone)]
pub struct Transport(BoxCloneSyncService<Request<RequestBody>, Response<ResponseBody>, BoxError>);

impl Transport {
    /// A transport for `config`; connects when first used.
    ///
    /// # Errors
    /// When certificates or credentials of `config` cannot be used.
    pub fn connect(config: &kube::Config, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        if let Some(proxy) = &config.proxy_url {
            anyhow::bail!("proxy-url {proxy} of the kubeconfig: proxies are not supported");
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(Duration::from_secs(10)));
        // A request is one small write: waiting for more would only delay it.
        tcp.set_nodelay(true);
        // Finds a peer that is gone under an idle watch.
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_keepalive_interval(Some(Duration::from_secs(10)));
        tcp.set_keepalive_retries(Some(3));
        let https = config
            .rustls_https_connector_with_connector(tcp)
            .context("TLS of the API server")?;
        let client: Client<_, RequestBody> = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(85))
            .build(https);
        let client = config
            .extra_headers_layer()
            .context("headers of the kubeconfig")?
            .layer(client.map_err(BoxError::from));
        let base = config.base_uri_layer();
        let auth = config.auth_layer().context("credentials")?;
        Ok(match auth {
            Some(auth) => Self::new(base.layer(auth.layer(client)), metrics),
            None => Self::new(base.layer(client), metrics),
        })
    }

    /// A transport over any HTTP service; tests script one.
    pub fn new<S, B>(service: S, metrics: Arc<Metrics>) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(BoxCloneSyncService::new(tower::service_fn(
            move |mut request: Request<RequestBody>| {
                let service = service.clone();
                let metrics = Arc::clone(&metrics);
                async move {
                    request
                        .headers_mut()
                        .entry(header::USER_AGENT)
                        .or_insert(USER_AGENT);
                    let mut observation = Observation::begin(metrics, &request);
                    let result = service.oneshot(request).await.map_err(Into::into);
                    observation.status = result.as_ref().ok().map(Response::status);
                    drop(observation);
                    result.map(|response| {
                        response.map(|body| body.map_err(Into::into).boxed_unsync())
                    })
                }
            },
        )))
    }

    /// Sends a request and returns when the headers of the response arrived. No timeout.
    ///
    /// # Errors
    /// When no response came. A response with an error status is a response.
    pub async fn call(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        self.0.clone().oneshot(request).await
    }

    /// Sends one request, at most once, and reads the whole reply within `timeout`.
    ///
    /// # Errors
    /// [`CallError`]; `Failed` says nothing about whether the request was applied.
    pub async fn unary(
        &self,
        request: Request<Vec<u8>>,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let exchange = async {
            let response = self
                .call(request.map(RequestBody::from))
                .await
                .map_err(|e| CallError::Failed(causes(&*e)))?;
            let (parts, body) = response.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|e| CallError::Failed(causes(&*e)))?
                .to_bytes();
            if parts.status.is_success() {
                Ok(body)
            } else {
                Err(CallError::Api(Box::new(status_of(parts.status, &body))))
            }
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(CallError::Failed(format!("no reply within {timeout:?}"))))
    }

    /// A kube client over the same connections, for calls that are rare. It has no timeout, and
    /// its writes ask no one: leave those to [`Writes`].
    pub fn kube(&self, default_namespace: &str) -> kube::Client {
        let inner = self.0.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let inner = inner.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.map_err(BoxError::from)?;
                inner
                    .oneshot(Request::from_parts(parts, RequestBody::from(body)))
                    .await
            }
        });
        kube::Client::new(service, default_namespace)
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refused it.
    #[error("{} ({})", .0.message, .0.code)]
    Api(Box<Status>),
    /// No complete reply came.
    #[error("{0}")]
    Failed(String),
}

/// A request body that can forbid its own sending and knows whether it was sent.
///
/// hyper asks for the body when a connection is ready, in the same step in which the request is
/// written out: the last moment before the bytes leave, after waiting for connections and
/// handshakes.
#[derive(Debug)]
pub struct RequestBody {
    bytes: Option<Bytes>,
    fence: Option<Arc<Fence>>,
}

/// Whether a request may leave, and whether it did.
#[derive(Debug)]
struct Fence {
    leadership: Leadership,
    not_after: Option<BootTime>,
    sent: AtomicBool,
}

impl Fence {
    fn check(&self) -> Result<(), NotSent> {
        let now = BootTime::now();
        if !self.leadership.is_leader_at(now) {
            return Err(NotSent::NotLeader);
        }
        if self.not_after.is_some_and(|deadline| now >= deadline) {
            return Err(NotSent::Expired);
        }
        Ok(())
    }
}

impl From<Bytes> for RequestBody {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            fence: None,
        }
    }
}

impl From<Vec<u8>> for RequestBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = NotSent;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotSent>>> {
        if let Some(fence) = self.fence.take() {
            if let Err(refused) = fence.check() {
                self.bytes = None;
                return Poll::Ready(Some(Err(refused)));
            }
            fence.sent.store(true, Ordering::Release);
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Why a request was certainly not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The lease is not ours, or its renewal is overdue.
    #[error("not the leader")]
    NotLeader,
    /// The plan the request belongs to is too old.
    #[error("the plan has expired")]
    Expired,
    /// [`Writes::drain`] was called.
    #[error("shutting down")]
    ShuttingDown,
    /// No connection could be made.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
}

/// What became of a request that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// Certainly not applied; plan again later.
    #[error("not sent: {0}")]
    NotSent(#[from] NotSent),
    /// The API server refused it (4xx); not applied. `code` is always set; `reason` too when the
    /// code has one.
    #[error("refused: {} ({} {})", .0.message, .0.code, .0.reason)]
    Refused(Box<Status>),
    /// No complete reply, or a server error (5xx): it may have been applied, or still will be.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl SendError {
    /// The API server's refusal.
    pub fn refused(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }
}

/// The way of every write, and of single reads; clones share its limits.
#[derive(Clone, Debug)]
pub struct Writes(Arc<WritesShared>);

#[derive(Debug)]
struct WritesShared {
    transport: Transport,
    leadership: Leadership,
    in_flight: Semaphore,
    max_in_flight: u32,
    rate: Option<Mutex<Bucket>>,
    closed: AtomicBool,
}

impl Writes {
    /// At most `max_in_flight` (≥ 1) requests at a time, at most `rate` of them a second.
    pub fn new(
        transport: Transport,
        leadership: Leadership,
        max_in_flight: usize,
        rate: Option<ApiRate>,
    ) -> Self {
        let max_in_flight = max_in_flight.clamp(1, 10_000);
        Self(Arc::new(WritesShared {
            transport,
            leadership,
            in_flight: Semaphore::new(max_in_flight),
            max_in_flight: max_in_flight as u32,
            rate: rate.map(|rate| Mutex::new(Bucket::full(rate, tokio::time::Instant::now()))),
            closed: AtomicBool::new(false),
        }))
    }

    /// Sends a write, if this process leads when the bytes are about to leave and `not_after`, the
    /// end of the plan it belongs to, has not passed.
    ///
    /// It is sent again, at most three times, only when it certainly was not applied: 429, or no
    /// connection. Returns the body of the reply.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn send(
        &self,
        request: Request<Vec<u8>>,
        not_after: Option<BootTime>,
    ) -> Result<Bytes, SendError> {
        let fence = || {
            Some(Arc::new(Fence {
                leadership: self.0.leadership.clone(),
                not_after,
                sent: AtomicBool::new(false),
            }))
        };
        self.0.attempts(request, fence).await
    }

    /// Reads one object; leadership is not needed.
    ///
    /// # Errors
    /// [`SendError`]
    pub async fn read(&self, request: Request<Vec<u8>>) -> Result<Bytes, SendError> {
        self.0.attempts(request, || None).await
    }

    /// Sends nothing from now on and waits until what is in flight has ended, each within
    /// [`REQUEST_TIMEOUT`].
    pub async fn drain(&self) {
        self.0.closed.store(true, Ordering::Release);
        // Only a closed semaphore fails, and then nothing is in flight either.
        let _ = self.0.in_flight.acquire_many(self.0.max_in_flight).await;
        self.0.in_flight.close();
    }
}

/// Decodes the reply to a write. A reply that makes no sense says nothing about the write.
///
/// # Errors
/// [`SendError::Unknown`]
pub fn decode<T: DeserializeOwned>(reply: &[u8]) -> Result<T, SendError> {
    serde_json::from_slice(reply).map_err(|e| SendError::Unknown(format!("undecodable reply: {e}")))
}

/// How one attempt ended.
enum Attempt {
    Done(Bytes),
    /// Certainly not applied; worth another try after the pause, if the server named one.
    Again(SendError, Option<Duration>),
    Failed(SendError),
}

impl WritesShared {
    async fn attempts(
        &self,
        request: Request<Vec<u8>>,
        fence: impl Fn() -> Option<Arc<Fence>>,
    ) -> Result<Bytes, SendError> {
        let (parts, body) = request.into_parts();
        let body = Bytes::from(body);
        // Held over the pauses too: while the server says 429 we send less.
        let _permit = self
            .in_flight
            .acquire()
            .await
            .map_err(|_| NotSent::ShuttingDown)?;
        let mut attempt = 0;
        loop {
            if let Some(rate) = &self.rate {
                let pause = rate
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(tokio::time::Instant::now());
                tokio::time::sleep(pause).await;
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(NotSent::ShuttingDown.into());
            }
            let mut request = Request::from_parts(parts.clone(), RequestBody::from(body.clone()));
            let fence = fence();
            if let Some(fence) = &fence {
                fence.check()?;
            }
            request.body_mut().fence.clone_from(&fence);
            let (error, pause) = match self.once(request, fence.as_deref()).await {
                Attempt::Done(reply) => return Ok(reply),
                Attempt::Failed(error) => return Err(error),
                Attempt::Again(error, pause) => (error, pause),
            };
            attempt += 1;
            let backoff = Duration::from_millis(100 << attempt).mul_f64(0.5 + fastrand::f64());
            let pause = pause.unwrap_or_default().max(backoff);
            if attempt > RETRIES || pause > LONGEST_RETRY_PAUSE {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, request: Request<RequestBody>, fence: Option<&Fence>) -> Attempt {
        let exchange = async {
            let response = self.transport.call(request).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, BoxError>((parts, body.collect().await?.to_bytes()))
        };
        // Without a fence (reads) nothing can have been applied.
        let sent = || fence.is_none_or(|fence| fence.sent.load(Ordering::Acquire));
        let (parts, reply) = match tokio::time::timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if let Some(refused) = find::<NotSent>(&*error) {
                    return Attempt::Failed(refused.clone().into());
                }
                let connected = find::<hyper_util::client::legacy::Error>(&*error)
                    .is_none_or(|error| !error.is_connect());
                let error = causes(&*error);
                return if connected && sent() {
                    Attempt::Failed(SendError::Unknown(error))
                } else {
                    Attempt::Again(NotSent::Unreachable(error).into(), None)
                };
            }
            Err(_) => {
                let error = format!("no reply within {REQUEST_TIMEOUT:?}");
                return Attempt::Failed(if sent() {
                    SendError::Unknown(error)
                } else {
                    NotSent::Unreachable(error).into()
                });
            }
        };
        if parts.status.is_success() {
            return Attempt::Done(reply);
        }
        let status = status_of(parts.status, &reply);
        if parts.status == StatusCode::TOO_MANY_REQUESTS {
            let pause = retry_after(&parts.headers, &status);
            return Attempt::Again(SendError::Refused(Box::new(status)), pause);
        }
        Attempt::Failed(if parts.status.is_client_error() {
            SendError::Refused(Box::new(status))
        } else {
            SendError::Unknown(format!("{} ({})", status.message, status.code))
        })
    }
}

/// A token bucket: `burst` at once, `qps` a second.
#[derive(Debug)]
struct Bucket {
    rate: ApiRate,
    /// Below zero while callers wait for tokens they were promised.
    tokens: f64,
    at: tokio::time::Instant,
}

impl Bucket {
    fn full(rate: ApiRate, now: tokio::time::Instant) -> Self {
        Self {
            rate,
            tokens: f64::from(rate.burst),
            at: now,
        }
    }

    /// Takes a token and returns how long to wait for it. In order: who asks later waits longer.
    fn take(&mut self, now: tokio::time::Instant) -> Duration {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.qps;
        self.tokens = (self.tokens + earned).min(f64::from(self.rate.burst)) - 1.0;
        self.at = now;
        Duration::try_from_secs_f64(-self.tokens / self.rate.qps).unwrap_or_default()
    }
}

/// What the API server said, also when it (or a proxy before it) did not say it as a Status.
pub(crate) fn status_of(code: StatusCode, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice::<Status>(body)
        .ok()
        .filter(Status::is_failure)
        .unwrap_or_else(|| {
            let text: String = String::from_utf8_lossy(body).chars().take(256).collect();
            Status::failure(text.trim(), "")
        });
    status.code = code.as_u16();
    if status.reason.is_empty() {
        let reason = match status.code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            _ => "",
        };
        reason.clone_into(&mut status.reason);
    }
    status
}

fn retry_after(headers: &http::HeaderMap, status: &Status) -> Option<Duration> {
    let header = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse().ok());
    let details = status
        .details
        .as_ref()
        .map(|details| u64::from(details.retry_after_seconds))
        .filter(|seconds| *seconds > 0);
    header.or(details).map(Duration::from_secs)
}

/// The first cause of type `E`.
fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// An error with its causes: hyper's own text is only "client error (Connect)".
pub(crate) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let part = cause.to_string();
        if !text.ends_with(&part) {
            text = format!("{text}: {part}");
        }
        next = cause.source();
    }
    text
}

/// Counts a request when it ends, also when nobody waits for it any more.
struct Observation {
    metrics: Arc<Metrics>,
    method: Method,
    uri: Uri,
    begin: Instant,
    status: Option<StatusCode>,
}

impl Observation {
    fn begin<B>(metrics: Arc<Metrics>, request: &Request<B>) -> Self {
        Self {
            metrics,
            method: request.method().clone(),
            uri: request.uri().clone(),
            begin: Instant::now(),
            status: None,
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let (verb, resource, subresource) = classify(&self.method, &self.uri);
        // client-go's word for no response.
        let code = self.status.as_ref().map_or("<error>", StatusCode::as_str);
        let joined;
        let resource = match subresource {
            None => resource,
            Some(subresource) => {
                joined = format!("{resource}/{subresource}");
                &joined
            }
        };
        let metrics = &self.metrics;
        metrics
            .rest_client_requests
            .with_label_values(&[code, self.method.as_str()])
            .inc();
        metrics
            .rest_client_request_duration
            .with_label_values(&[verb])
            .observe(self.begin.elapsed().as_secs_f64());
        metrics
            .api_requests
            .with_label_values(&[verb, resource, code])
            .inc();
    }
}

/// Verb (RBAC's word), resource and subresource of a request.
fn classify<'a>(method: &Method, uri: &'a Uri) -> (&'static str, &'a str, Option<&'a str>) {
    let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
    let api = match segments.next() {
        Some("api") => segments.next().is_some(),
        Some("apis") => segments.next().is_some() && segments.next().is_some(),
        _ => false,
    };
    let mut resource = segments.next().filter(|_| api);
    let mut name = segments.next();
    let mut subresource = segments.next();
    if resource == Some("namespaces") && subresource.is_some() {
        (resource, name, subresource) = (subresource, segments.next(), segments.next());
    }
    let verb = match (method, name) {
        (&Method::GET, Some(_)) => "get",
        (&Method::GET, None) if watches(uri) => "watch",
        (&Method::GET, None) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        _ => "other",
    };
    (verb, resource.unwrap_or("other"), subresource)
}

fn watches(uri: &Uri) -> bool {
    uri.query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_are_for() {
        for (method, path, expected) in [
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                ("list", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=true&a=b",
                ("watch", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/b",
                ("get", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                ("get", "namespaces", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                ("list", "namespaces", None),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods?",
                ("create", "pods", None),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods/b?",
                ("delete", "pods", None),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods?",
                ("deletecollection", "pods", None),
            ),
            (
                Method::PATCH,
                "/apis/carillon.dev/v1alpha1/namespaces/a/broadcastjobs/b/status?",
                ("patch", "broadcastjobs", Some("status")),
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                ("update", "leases", None),
            ),
            (Method::GET, "/version", ("list", "other", None)),
        ] {
            let uri: Uri = path.parse().unwrap();
            assert_eq!(classify(&method, &uri), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_refusal_has_a_reason_even_when_a_proxy_wrote_it() {
        let plain = status_of(StatusCode::NOT_FOUND, b"404 page not found\n");
        assert_eq!(
            (plain.code, &*plain.reason, &*plain.message),
            (404, "NotFound", "404 page not found")
        );
        let status = status_of(
            StatusCode::CONFLICT,
            br#"{"kind":"Status","status":"Failure","reason":"AlreadyExists","message":"m","code":409}"#,
        );
        assert_eq!((status.code, &*status.reason), (409, "AlreadyExists"));
        assert_eq!(status_of(StatusCode::BAD_GATEWAY, b"").code, 502);
    }

    #[test]
    fn the_bucket_lets_a_burst_through_and_then_the_rate() {
        let now = tokio::time::Instant::now();
        let rate = ApiRate {
            qps: 10.0,
            burst: 2,
        };
        let mut bucket = Bucket::full(rate, now);
        let waits: Vec<_> = (0..4).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = now + Duration::from_mins(1);
        let waits: Vec<_> = (0..3).map(|_| bucket.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100], "a pause earns no more than the burst");
    }
}
