//! An admission webhook that admits everything, after a while.

use std::fs;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::base64;
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::fault_proxy::message::Request;

/// A running webhook. It ends with this value; its configuration stays in the cluster.
pub struct SlowWebhook {
    clients: Clients,
    /// The certificate that the API server is to trust, as PEM.
    certificate: Vec<u8>,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Arc<ServerConfig>,
    delay_ms: AtomicU64,
}

impl SlowWebhook {
    /// Starts it on a port of its own, with the certificate of the cluster's API server.
    pub fn start(cluster: &Cluster) -> Result<Self> {
        let file = |name: &str| cluster.dir().join("certs").join(name);
        let certificate = fs::read(file("apiserver.crt"))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
        let key = PrivateKeyDer::from_pem_file(file("apiserver.key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain?, key)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("a port for the webhook")?;
        let shared = Arc::new(Shared {
            tls: Arc::new(tls),
            delay_ms: AtomicU64::new(0),
        });
        let clients = Clients::serve(listener, Arc::clone(&shared), Shared::serve)?;
        Ok(Self {
            clients,
            certificate,
            shared,
        })
    }

    /// How long each answer takes from now on.
    pub fn set_delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay_ms.store(delay, Ordering::Release);
    }

    /// A ValidatingWebhookConfiguration for pods that are created in a namespace.
    pub fn configuration(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow.testbed.carillon.dev"},
            "webhooks": [{
                "name": "slow.testbed.carillon.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/", self.clients.port),
                    "caBundle": base64::encode(&self.certificate),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["pods"], "operations": ["CREATE"],
                }],
            }],
        })
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) -> Result<()> {
        let tls = ServerConnection::new(Arc::clone(&self.tls))?;
        let mut stream = BufReader::new(StreamOwned::new(tls, client));
        while let Some(request) = Request::read(&mut stream)? {
            let review: Value = serde_json::from_slice(request.body())?;
            thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Acquire)));
            let answer = json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": true},
            });
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            let stream = stream.get_mut();
            stream.write_all(head.as_bytes())?;
            stream.write_all(answer.as_bytes())?;
            stream.flush()?;
        }
        Ok(())
    }
}
