//! Connections to the API server.
//!
//! [`Transport`] is kube's TLS and authentication around hyper, without kube's buffer task, retries
//! and tracing spans, which cost more than our own work on a busy day. When its sockets are read
//! is said by the [`BatchWindow`].

mod batch_window;
mod connection;
pub(crate) mod error;
mod observation;
mod pace;

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header, response::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited, combinators::UnsyncBoxBody};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::client::ConfigExt;
use tokio::{
    net::TcpStream,
    runtime::{Builder, LocalOptions, LocalRuntime},
};
use tower::{BoxError, Layer, Service, ServiceExt, util::BoxCloneSyncService};

pub use self::batch_window::{BatchWindow, WINDOW, gathering};
use self::connection::Batched;
pub use self::error::CallError;
pub(crate) use self::error::{causes, status_of};
use self::observation::Observations;
pub use self::pace::Pace;
use crate::{fence::RequestBody, metrics::Metrics};

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

/// What a process that sends much runs in: one thread, for requests cost two thirds there of what
/// they cost on several. The window is that of the connections which are made in it.
///
/// # Errors
/// When the system has no sockets or no threads left.
pub fn runtime() -> std::io::Result<(LocalRuntime, BatchWindow)> {
    let window = BatchWindow::of_runtime();
    let parked = window.clone();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || {
            parked.park(Instant::now());
        })
        .build_local(LocalOptions::default())?;
    Ok((runtime, window))
}

/// Bytes of a reply that is read whole, at most. etcd holds objects of 1.5 MiB by default.
pub const LARGEST_REPLY: usize = 16 << 20;

/// A response body, as it arrives.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Connections for watches, of which changes come for minutes.
#[derive(Clone, Debug)]
pub struct Watches {
    prompt: Transport,
    gathered: Transport,
    window: BatchWindow,
}

impl Watches {
    /// Connections for `config`, read when `window` says; see [`Transport::connect`].
    ///
    /// # Errors
    /// When certificates or credentials of `config` cannot be used.
    pub fn connect(
        config: &kube::Config,
        metrics: &Arc<Metrics>,
        window: &BatchWindow,
    ) -> anyhow::Result<Self> {
        let at = |pace| Transport::connect_as(config, Arc::clone(metrics), window, Some(pace));
        Ok(Self {
            prompt: at(Pace::Prompt)?,
            gathered: at(Pace::Gathered)?,
            window: window.clone(),
        })
    }

    /// All over one transport, read as that is.
    pub fn over(transport: Transport) -> Self {
        Self {
            prompt: transport.clone(),
            gathered: transport,
            window: BatchWindow::default(),
        }
    }

    /// Those of a pace.
    pub(crate) fn at(&self, pace: Pace) -> &Transport {
        match pace {
            Pace::Prompt => &self.prompt,
            Pace::Gathered => &self.gathered,
        }
    }

    /// When they are read.
    pub(crate) fn window(&self) -> &BatchWindow {
        &self.window
    }
}

/// Connections to the API server; clones share them. Connections belong to the tokio runtime that
/// opened them, so a runtime needs a transport of its own.
#[derive(Clone)]
pub struct Transport(BoxCloneSyncService<Request<RequestBody>, Response<ResponseBody>, BoxError>);

impl Transport {
    /// A transport for `config`, for requests that are answered; connects when first used. Many replies are read
    /// together, as `window` says.
    ///
    /// # Errors
    /// When certificates or credentials of `config` cannot be used.
    pub fn connect(
        config: &kube::Config,
        metrics: Arc<Metrics>,
        window: &BatchWindow,
    ) -> anyhow::Result<Self> {
        Self::connect_as(config, metrics, window, None)
    }

    fn connect_as(
        config: &kube::Config,
        metrics: Arc<Metrics>,
        window: &BatchWindow,
        pace: Option<Pace>,
    ) -> anyhow::Result<Self> {
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
        let window = window.clone();
        let tcp = tcp.map_response(move |tcp: TokioIo<TcpStream>| {
            TokioIo::new(Batched::new(tcp.into_inner(), &window, pace))
        });
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
        let observations = Observations::new(metrics);
        Self(BoxCloneSyncService::new(tower::service_fn(
            move |mut request: Request<RequestBody>| {
                let service = service.clone();
                let observations = Arc::clone(&observations);
                async move {
                    request
                        .headers_mut()
                        .entry(header::USER_AGENT)
                        .or_insert(USER_AGENT);
                    let mut observation = observations.begin(&request);
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

    /// Sends a request and reads the whole reply. No timeout.
    ///
    /// # Errors
    /// When no whole reply came, or one of more than [`LARGEST_REPLY`]. One with an error status is a
    /// reply.
    pub async fn exchange(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Parts, Bytes), BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let (parts, body) = self.call(request).await?.into_parts();
        match bounded(body).collect().await {
            Ok(body) => Ok((parts, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                let path = uri.path();
                let text =
                    format!("{method} {path}: the reply has more than {LARGEST_REPLY} bytes");
                Err(text.into())
            }
            Err(error) => Err(error),
        }
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
            let (parts, body) = self
                .exchange(request.map(RequestBody::from))
                .await
                .map_err(|e| CallError::Failed(causes(&*e)))?;
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
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// A body of which no more than [`LARGEST_REPLY`] is read.
pub(crate) fn bounded(body: ResponseBody) -> ResponseBody {
    Limited::new(body, LARGEST_REPLY).boxed_unsync()
}
