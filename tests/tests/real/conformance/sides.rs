//! A real API server and a simulated one, asked the same.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use carillon_sim::{Client, Server};
use http::Request;
use http_body_util::{BodyExt, Full};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::compare::{Side, Twins};
use super::requests::Probe;

/// What was answered.
#[derive(Clone)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Reply {
    fn new(code: u16, body: &[u8]) -> Self {
        let body = serde_json::from_slice(body)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(body).into_owned()));
        Self { code, body }
    }
}

impl Reply {
    fn gist(&self) -> String {
        let body = match &self.body {
            Value::String(text) => text
                .lines()
                .map(|line| &line[..20.min(line.len())])
                .collect(),
            body => format!("{} {} {}", body["kind"], body["reason"], body["type"]),
        };
        format!("{} {body}", self.code)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = self.body.clone();
        if let Some(meta) = body["metadata"].as_object_mut() {
            meta.remove("managedFields");
        }
        write!(f, "{} {body}", self.code)
    }
}

/// What both answered.
pub(super) struct Replies {
    pub(super) real: Reply,
    pub(super) simulated: Reply,
}

/// Both.
pub(super) struct Sides {
    pub(super) real: Real,
    pub(super) simulated: Simulated,
}

impl Sides {
    pub(super) async fn ask(&self, probe: &Probe, twins: &Twins) -> Replies {
        let real = self.real.send(probe.request(twins, Side::Real)).await;
        let simulated = probe.request(twins, Side::Simulated);
        Replies {
            real,
            simulated: self.simulated.send(simulated).await,
        }
    }

    /// Code, and of what was answered kind, reason or types of events.
    pub(super) async fn get(&self, path: &str) -> (String, String) {
        let get = || Request::get(path).body(Vec::new()).unwrap();
        let real = self.real.send(get()).await;
        let simulated = self.simulated.send(get()).await;
        (real.gist(), simulated.gist())
    }

    /// The revisions from which a watch tells all that is to come.
    pub(super) async fn revisions(&self, namespace: &str) -> (String, String) {
        let get = || {
            let path = format!("/api/v1/namespaces/{namespace}/pods?limit=1");
            Request::get(path).body(Vec::new()).unwrap()
        };
        let version = |reply: Reply| match &reply.body["metadata"]["resourceVersion"] {
            Value::String(version) => version.clone(),
            other => panic!("no resourceVersion: {other}"),
        };
        (
            version(self.real.send(get()).await),
            version(self.simulated.send(get()).await),
        )
    }

    /// The events of a kind since `begin`, through a selector.
    pub(super) async fn watch(
        &self,
        collection: &str,
        begin: &(String, String),
        selector: &str,
    ) -> (Vec<Value>, Vec<Value>) {
        let get = |version: &str| {
            let query = format!("watch=true&timeoutSeconds=1&resourceVersion={version}");
            let path = format!("{collection}?{query}&labelSelector={selector}");
            Request::get(path).body(Vec::new()).unwrap()
        };
        let real = self.real.send(get(&begin.0));
        let simulated = self.simulated.send(get(&begin.1));
        let (real, simulated) = tokio::join!(real, simulated);
        (lines(&real), lines(&simulated))
    }
}

fn lines(reply: &Reply) -> Vec<Value> {
    match &reply.body {
        // A single line is a body of its own.
        body if body["type"].is_string() => vec![body.clone()],
        Value::String(text) => text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        other => panic!("not a watch: {other}"),
    }
}

/// The real one.
pub(super) struct Real(kube::Client);

impl Real {
    pub(super) async fn connect(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        // A refusal is what is looked for, not something to try again.
        config.default_retry = false;
        Self(kube::Client::try_from(config).unwrap())
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Reply {
        let response = self.0.send(request.map(Into::into)).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await.unwrap();
        Reply::new(code, &body)
    }
}

/// The simulated one.
pub(super) struct Simulated {
    server: Server,
    client: Client,
}

impl Simulated {
    pub(super) fn new() -> Self {
        let server = Server::new(jiff::Timestamp::now());
        let client = server.client("admin", "conformance");
        Self { server, client }
    }

    pub(super) fn create_namespace(&self, name: &str) {
        let namespace = json!({"metadata": {"name": name}});
        let actor = self.server.actor("admin");
        actor.create("namespaces", "", &namespace).unwrap();
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Reply {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let response = self.client.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Reply::new(code, &body)
    }
}
