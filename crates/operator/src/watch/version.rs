//! How far the API server has come.

use http_body_util::BodyExt;
use serde::Deserialize;
use tokio::time::timeout;

use super::list_and_watch::OPEN_TIMEOUT;
use super::{Loop, Sink, Watched, audit::METADATA};
use crate::transport::{bounded, causes, status_of};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    resource_version: String,
}

#[derive(Deserialize)]
struct List {
    metadata: Head,
}

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// The resourceVersion of now, by a list of one object. With a label selector the API server would read them all.
    pub(super) async fn version_of_now(&mut self) -> Result<u64, String> {
        let request = self.address.request_of_all(&[("limit", "1")], METADATA)?;
        let answer = async {
            let response = self.transport.call(request).await;
            let (parts, body) = response.map_err(|error| causes(&*error))?.into_parts();
            let body = bounded(body).collect().await;
            let body = body.map_err(|error| causes(&*error))?.to_bytes();
            if !parts.status.is_success() {
                return Err(status_of(parts.status, &body).message);
            }
            let list: List = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let version = list.metadata.resource_version;
            version
                .parse()
                .map_err(|_| format!("resourceVersion {version:?} is no number"))
        };
        let answer = timeout(OPEN_TIMEOUT, answer).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {OPEN_TIMEOUT:?}")))
    }
}
