//! What operators remember of their decisions: their debug pages, which listen inside of their pods only.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use bytes::Bytes;
use carillon_api::names::{ANNOTATION_LEASE, GROUP};
use carillon_plan::view::decision::{self, Decision};
use carillon_plan::view::doctor::operators::{SELECTOR, debug_port};
use clap::Args;
use clap_complete::ArgValueCandidates;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::doctor::{CRDS, Within};
use super::{Api, PODS};
use crate::{candidates, problem};

/// Bytes of a debug page that are read: the operator keeps 32 MiB of all objects together.
const LARGEST_PAGE: usize = 32 << 20;
/// So long one operator has to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Which operators are asked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Operators {
    /// Namespace of the operator's pods; the one that the CRDs name when absent
    #[arg(long, value_name = "NAME", conflicts_with = "debug_address",
          add = ArgValueCandidates::new(candidates::namespaces))]
    operator_namespace: Option<String>,
    /// Address of the debug pages of an operator that runs without a pod
    #[arg(long, value_name = "IP:PORT")]
    debug_address: Option<SocketAddr>,
}

/// A pod of an operator.
struct Place {
    namespace: String,
    name: String,
    port: u16,
}

impl Api {
    /// The last decisions about an object. Each pod of an operator is asked: who led before may know more.
    pub(crate) async fn decisions(&self, uid: &str, of: &Operators) -> Result<Vec<Decision>> {
        let mut pages = Vec::new();
        let mut silent = Vec::new();
        if let Some(address) = of.debug_address {
            let page = within(TcpStream::connect(address), uid).await;
            pages.push(page.with_context(|| format!("--debug-address {address}"))?);
        } else {
            for place in self.operators(of.operator_namespace.as_deref()).await? {
                let Place {
                    namespace, name, ..
                } = &place;
                let page = self.page_of(&place, uid).await;
                match page.with_context(|| format!("pod {namespace}/{name}")) {
                    Ok(page) => pages.push(page),
                    Err(error) => silent.push(error),
                }
            }
        }
        match (pages.is_empty(), silent.into_iter().next()) {
            (true, Some(error)) => Err(error),
            _ => Ok(decision::read(&pages, uid)),
        }
    }

    /// Anybody may give a pod of his own our labels. In a namespace of the operator's, only an administrator may.
    async fn operators(&self, namespace: Option<&str>) -> Result<Vec<Place>> {
        let noted = match namespace {
            None => self.noted_namespace().await?,
            Some(namespace) => Some(namespace.to_owned()),
        };
        let within = Within::namespace(noted.as_deref());
        let place = |pod: Value| {
            let meta = &pod["metadata"];
            Some(Place {
                namespace: meta["namespace"].as_str()?.to_owned(),
                name: meta["name"].as_str()?.to_owned(),
                port: debug_port(&pod)?,
            })
        };
        let found = self.seen(PODS, within, SELECTOR, place).await?;
        let found = found.map_err(|why| anyhow!("{why}: the operator's are found among them"))?;
        let places: Vec<Place> = found.into_iter().flatten().collect();
        ensure!(
            !places.is_empty(),
            "{} has no pod of an operator with debug pages. Name its namespace with --operator-namespace; one that \
             runs without a pod is asked with --debug-address 127.0.0.1:8081",
            noted.map_or_else(
                || "the cluster".to_owned(),
                |name| format!("namespace {name}")
            )
        );
        Ok(places)
    }

    /// Where the operator is installed, if the CRDs say so and may be read.
    async fn noted_namespace(&self) -> Result<Option<String>> {
        let crds = self.seen(CRDS, Within::Cluster, "", |crd| crd).await?;
        let ours = crds
            .iter()
            .flatten()
            .filter(|crd| crd["spec"]["group"] == GROUP);
        let mut noted = ours.filter_map(|crd| {
            let noted = crd["metadata"]["annotations"][ANNOTATION_LEASE].as_str()?;
            noted.split_once('/')
        });
        Ok(noted.next().map(|(namespace, _)| namespace.to_owned()))
    }

    async fn page_of(&self, place: &Place, uid: &str) -> Result<Value> {
        let pods = kube::Api::<Pod>::namespaced(self.watching(), &place.namespace);
        let ports = [place.port];
        let answer = timeout(ANSWERS_WITHIN, pods.portforward(&place.name, &ports));
        let mut forwarder = answer.await.context("no answer")?.map_err(refused)?;
        let stream = forwarder.take_stream(place.port);
        let stream = async { stream.context("the port is not forwarded") };
        let page = within(stream, uid).await;
        forwarder.abort();
        page
    }
}

/// Which right is missing, where that is why.
fn refused(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("you may not forward its ports: that needs the verb create of pods/portforward")
        }
        kube::Error::Api(status) => anyhow!(problem::words(&status)),
        error => error.into(),
    }
}

async fn within<S, E>(stream: impl Future<Output = Result<S, E>>, uid: &str) -> Result<Value>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    E: Into<Error>,
{
    let page = async { page(stream.await.map_err(Into::into)?, uid).await };
    timeout(ANSWERS_WITHIN, page).await.context("no answer")?
}

/// `/debug/flights` about one object.
async fn page<S>(stream: S, uid: &str) -> Result<Value>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let asked = Request::get(format!("/debug/flights?uid={uid}"))
        .header(http::header::HOST, "localhost")
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(asked).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        bail!("it answers {status}: is that the debug port of an operator?");
    }
    let body = Limited::new(answer.into_body(), LARGEST_PAGE);
    let body = body.collect().await.map_err(|error| anyhow!(error))?;
    connection.abort();
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| anyhow!("what it answers cannot be read: {error}"))
}
