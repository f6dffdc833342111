//! How far the API server has come.

use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::answer::{OPEN_TIMEOUT, open};
use super::audit::METADATA;
use super::list_and_watch::Loop;
use super::pages::PageMeta;
use super::sink::Sink;
use super::watched::Watched;
use crate::transport::{bounded, causes};

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// The resourceVersion of now, by a list of one object. With a label selector the API server would read them all.
    pub(super) async fn version_of_now(&mut self) -> Result<u64, String> {
        let request = self.address.request_of_all(&[("limit", "1")], METADATA)?;
        let answer = async {
            let body = bounded(open(&self.transport, request).await?)
                .collect()
                .await;
            let body = body.map_err(|error| causes(&*error))?.to_bytes();
            let list: List<'_> =
                serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let (version, _) = PageMeta::read(list.metadata.get().as_bytes())?;
            Ok(version)
        };
        let answer = timeout(OPEN_TIMEOUT, answer).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {OPEN_TIMEOUT:?}")))
    }
}
