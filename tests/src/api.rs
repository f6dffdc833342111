//! Plain requests to a cluster's API server, cheaper than a kubectl each.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use carillon_testbed::Cluster;
use http::{Method, Request, StatusCode, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

const NO_ANSWER: Duration = Duration::from_secs(30);

/// A client that blocks.
pub struct Api {
    runtime: Runtime,
    client: Client,
    agent: String,
}

/// A refusal, or no answer at all (code 0).
#[derive(Debug)]
pub struct Refused {
    /// HTTP status code.
    pub code: u16,
    /// What was said.
    pub message: String,
}

impl Api {
    /// A client for a cluster's administrator.
    pub fn of(cluster: &Cluster) -> Self {
        Self::new(&cluster.kubeconfig(), "test")
    }

    /// A client with the rights of a kubeconfig, which calls itself `agent`.
    pub fn new(kubeconfig: &Path, agent: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(file, &options).await?;
            config.default_retry = false;
            anyhow::Ok(Client::try_from(config)?)
        });
        Self {
            runtime,
            client: client.expect("a client"),
            agent: agent.to_owned(),
        }
    }

    /// Sends a request and gives the object that comes back.
    pub fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, Refused> {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, kind)
            .header(header::USER_AGENT, &self.agent)
            .body(body)
            .expect("a request");
        let answer = self.runtime.block_on(self.client.request::<Value>(request));
        answer.map_err(|error| match error {
            kube::Error::Api(status) => Refused {
                code: status.code,
                message: status.message.clone(),
            },
            other => Refused {
                code: 0,
                message: other.to_string(),
            },
        })
    }

    /// GETs an object or a list. A read without an answer is tried again for a while: a connection
    /// may be as old as the last API server.
    pub fn get(&self, path: &str) -> Result<Value, Refused> {
        let start = Instant::now();
        loop {
            match self.send(Method::GET, path, &Value::Null) {
                Err(refused) if refused.code == 0 && start.elapsed() < NO_ANSWER => {
                    sleep(Duration::from_millis(100));
                }
                answer => return answer,
            }
        }
    }

    /// GETs an object that may be missing.
    #[track_caller]
    pub fn find(&self, path: &str) -> Option<Value> {
        match self.get(path) {
            Ok(object) => Some(object),
            Err(refused) if refused.code == StatusCode::NOT_FOUND.as_u16() => None,
            Err(refused) => panic!("GET {path}: {refused:?}"),
        }
    }

    /// GETs the items of a list.
    #[track_caller]
    pub fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path);
        let mut list = list.unwrap_or_else(|refused| panic!("GET {path}: {refused:?}"));
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("GET {path}: no list: {other}"),
        }
    }

    /// POSTs an object.
    #[track_caller]
    pub fn create(&self, path: &str, object: &Value) -> Value {
        let created = self.send(Method::POST, path, object);
        created.unwrap_or_else(|refused| panic!("POST {path}: {refused:?}"))
    }
}
