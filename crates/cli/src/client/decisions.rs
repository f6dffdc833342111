//! What operators remember of their decisions: their debug pages, which listen inside of their pods only.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use bytes::Bytes;
use carillon_api::names::{ANNOTATION_LEASE, GROUP};
use carillon_plan::view::decision::Answers;
use carillon_plan::view::doctor::lease;
use carillon_plan::view::doctor::operators::{SELECTOR, debug_port};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap_complete::ArgValueCandidates;
use futures::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Portforwarder;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::doctor::Within;
use super::{Api, Asked, PODS};
use crate::{candidates, problem};

/// MiB of a debug page that are read: it is about one object, and 16 decisions.
const LARGEST_PAGE: usize = 8;
/// So long one operator has to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Pods that are asked at most: an operator has a few replicas.
const PODS_ASKED: usize = 16;
/// And so many at once.
const AT_ONCE: usize = 8;

/// Which operators are asked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Operators {
    /// Namespace of the operator's pods; the one that the CRDs name when absent
    #[arg(long, value_name = "NAME", conflicts_with = "debug_address",
          value_parser = NonEmptyStringValueParser::new(),
          add = ArgValueCandidates::new(candidates::namespaces))]
    operator_namespace: Option<String>,
    /// Address of the debug pages of an operator that runs without a pod
    #[arg(long, value_name = "IP:PORT")]
    debug_address: Option<SocketAddr>,
}

/// A pod of an operator.
#[derive(Debug)]
struct Place {
    namespace: String,
    name: String,
    port: u16,
}

impl Api {
    /// The last decisions about an object. Each pod of an operator is asked: who led before may know more. It is an
    /// error if nothing was found, and somebody did not answer.
    pub(crate) async fn decisions(&self, uid: &str, of: &Operators) -> Result<Answers> {
        let mut answers = Answers::default();
        if let Some(address) = of.debug_address {
            let page = in_time(async { page(TcpStream::connect(address).await?, uid).await }).await;
            let page = page.with_context(|| format!("--debug-address {address}"))?;
            answers.add(address.to_string(), &page, uid);
            return Ok(answers);
        }
        let places = self.operators(of.operator_namespace.as_deref()).await?;
        let asked = stream::iter(places).map(|place| async move {
            let page = in_time(self.page_of(&place, uid)).await;
            (format!("{}/{}", place.namespace, place.name), page)
        });
        let mut asked = asked.buffer_unordered(AT_ONCE);
        while let Some((name, page)) = asked.next().await {
            match page {
                Ok(page) => answers.add(name, &page, uid),
                Err(error) => answers.silent.push(format!("pod {name}: {error:#}")),
            }
        }
        answers.asked.sort_unstable();
        answers.silent.sort_unstable();
        if answers.decisions.is_empty() && !answers.silent.is_empty() {
            bail!(answers.silent.join("\n"));
        }
        Ok(answers)
    }

    /// Anybody may give a pod of their own our labels. Only pods of one namespace are asked.
    async fn operators(&self, namespace: Option<&str>) -> Result<Vec<Place>> {
        let namespace = match namespace {
            Some(namespace) => namespace.to_owned(),
            None => self.noted_namespace().await?,
        };
        let place = |pod: Value| {
            let meta = &pod["metadata"];
            // One that was evicted stays for a while.
            let runs = pod["status"]["phase"] == "Running";
            let port = debug_port(&pod).filter(|_| runs)?;
            Some(Place {
                namespace: meta["namespace"].as_str()?.to_owned(),
                name: meta["name"].as_str()?.to_owned(),
                port,
            })
        };
        let within = Within::Namespace(&namespace);
        let found = self.seen(PODS, within, SELECTOR, place).await?;
        let found = found.map_err(|why| anyhow!("{why}: the pods of the operator are asked"))?;
        let mut places: Vec<Place> = found.into_iter().flatten().collect();
        ensure!(
            !places.is_empty(),
            "namespace {namespace} has no running pod of an operator with debug pages. {ELSEWHERE}"
        );
        places.truncate(PODS_ASKED);
        Ok(places)
    }

    /// Where the operator is installed, as the chart has noted it at the CRDs.
    async fn noted_namespace(&self) -> Result<String> {
        let name = format!("broadcastjobs.{GROUP}");
        let crd = match self.crd_of_jobs().await? {
            Asked::Found(crd) => crd,
            Asked::Missing => {
                bail!("there is no CRD {name}, which says where the operator is. {ELSEWHERE}")
            }
            Asked::NotAllowed => bail!(
                "you may not get the CRD {name}, which says where the operator is. {ELSEWHERE}"
            ),
        };
        let Some((namespace, _)) = lease::noted(&crd) else {
            bail!(
                "the CRD {name} does not say where the operator is: it has no annotation {ANNOTATION_LEASE}. \
                 {ELSEWHERE}"
            );
        };
        Ok(namespace.to_owned())
    }

    async fn page_of(&self, place: &Place, uid: &str) -> Result<Value> {
        let pods = kube::Api::<Pod>::namespaced(self.watching(), &place.namespace);
        let forwarder = pods.portforward(&place.name, &[place.port]).await;
        let mut forwarder = Open(forwarder.map_err(refused)?);
        let why = forwarder.0.take_error(place.port);
        let stream = forwarder.0.take_stream(place.port);
        let page = page(stream.context("the port is not forwarded")?, uid).await;
        let Err(error) = page else { return page };
        // What the kubelet says of it comes on a channel of its own.
        match why {
            Some(why) => match timeout(Duration::from_secs(1), why).await {
                Ok(Some(why)) => Err(anyhow!(
                    "{}: is its flag --debug-address empty, or the port in use?",
                    why.trim()
                )),
                _ => Err(error),
            },
            None => Err(error),
        }
    }
}

const ELSEWHERE: &str = "Name its namespace with --operator-namespace; an operator that runs without a pod is asked \
                         with --debug-address 127.0.0.1:8081";

/// Is closed when nobody waits for it any more.
struct Open(Portforwarder);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = timeout(ANSWERS_WITHIN, answer).await;
    answer.unwrap_or_else(|_| Err(anyhow!("no answer")))
}

/// Which right is missing, where that is why.
fn refused(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 403 => anyhow!(
            "you may not forward its ports, which needs the verbs get and create of pods/portforward: {}",
            problem::words(&status)
        ),
        kube::Error::Api(status) => anyhow!(problem::words(&status)),
        error => error.into(),
    }
}

/// `/debug/flights` about one object.
async fn page<S>(stream: S, uid: &str) -> Result<Value>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with this set, whatever happens.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let asked = Request::get(format!("/debug/flights?uid={uid}"))
        .header(http::header::HOST, "localhost")
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(asked).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        bail!("it answers {status}: is that the debug port of an operator?");
    }
    let body = Limited::new(answer.into_body(), LARGEST_PAGE << 20);
    let body = body.collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            anyhow!(
                "it answers more than {LARGEST_PAGE} MiB: is that the debug port of an operator?"
            )
        } else {
            anyhow!(error)
        }
    })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| anyhow!("what it answers cannot be read: {error}"))
}
