//! Where leases are kept.

use std::time::Duration;

use carillon_api::path::{NoSegment, Path, Resource};
use k8s_openapi::api::coordination::v1::Lease;

use super::settings::Settings;
use crate::transport::{CallError, Transport};

const LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
};

/// Where leases are kept.
pub trait Leases {
    /// The lease, or `None` when there is none.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, CallError>>;
    /// Creates the lease; 409 when it exists.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, CallError>>;
    /// Replaces the lease; 409 when its resourceVersion is not the current one.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, CallError>>;
}

/// Leases of a real API server.
pub(super) struct ApiLeases {
    transport: Transport,
    all: Result<Path, NoSegment>,
    name: String,
    timeout: Duration,
}

impl ApiLeases {
    pub(super) fn new(transport: Transport, settings: &Settings) -> Self {
        Self {
            transport,
            all: LEASES.within(&settings.namespace),
            name: settings.name.clone(),
            timeout: settings.call_timeout(),
        }
    }

    fn path(&self) -> Result<Path, NoSegment> {
        self.all.clone()?.object(&self.name)
    }

    async fn call(
        &self,
        method: http::Method,
        path: Result<Path, NoSegment>,
        lease: Option<&Lease>,
    ) -> Result<Lease, CallError> {
        let path = path.map_err(|e| CallError::Failed(format!("lease: {e}")))?;
        let body = lease
            .map(serde_json::to_vec)
            .transpose()
            .map_err(|e| CallError::Failed(e.to_string()))?
            .unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path.as_str())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|e| CallError::Failed(e.to_string()))?;
        let reply = self.transport.unary(request, self.timeout).await?;
        serde_json::from_slice(&reply).map_err(|e| CallError::Failed(format!("lease: {e}")))
    }
}

impl Leases for ApiLeases {
    async fn get(&self) -> Result<Option<Lease>, CallError> {
        match self.call(http::Method::GET, self.path(), None).await {
            Ok(lease) => Ok(Some(lease)),
            // What is not the API server may answer 404 to anything.
            Err(CallError::Api(status)) if status.reason == "NotFound" => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, CallError> {
        let all = self.all.clone();
        self.call(http::Method::POST, all, Some(lease)).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, CallError> {
        let path = self.path();
        self.call(http::Method::PUT, path, Some(lease)).await
    }
}
