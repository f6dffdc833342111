//! That something has changed, and not what.

use std::convert::Infallible;
use std::time::Duration;

use carillon_api::path::{NoSegment, Path, Resource};
use futures::StreamExt;
use http::Request;
use http::header::ACCEPT;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{Answer, Api, not_found};

/// Names and versions are enough.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1, application/json";
/// So long a watch lasts until it is begun again. A connection may be dead without telling.
const LASTS: Duration = Duration::from_secs(45);
const GRACE: Duration = Duration::from_secs(5);
/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

impl Api {
    /// Tells whenever objects of a kind may have changed, as long as it is polled. Where they may not be watched, that
    /// is each second.
    pub(crate) async fn each_change(
        &self,
        of: Resource,
        all: bool,
        selector: &str,
        tell: impl Fn(),
    ) -> Infallible {
        loop {
            let path = self.collection(of, all);
            let path = path.map(|path| path.with("labelSelector", selector));
            let begun = Instant::now();
            let watched = timeout(LASTS + GRACE, self.follow(path, &tell)).await;
            // A server may end each watch as soon as it has begun.
            if !matches!(watched, Ok(Ok(()))) || begun.elapsed() < AGAIN {
                sleep(AGAIN).await;
            }
            tell();
        }
    }

    /// Until the watch ends.
    async fn follow(&self, path: Result<Path, NoSegment>, tell: &impl Fn()) -> Answer<()> {
        let newest = self.get(path.clone().map(|path| path.with("limit", "1")));
        let newest = newest.await?;
        // What is read from now on has all that came before.
        tell();
        let version = newest["metadata"]["resourceVersion"].as_str();
        let lasts = LASTS.as_secs().to_string();
        let path = path.map(|path| {
            path.with("watch", "true")
                .with("resourceVersion", version.unwrap_or_default())
                .with("timeoutSeconds", &lasts)
        });
        let request = Request::get(path.map_err(|error| not_found(&error))?.as_str())
            .header(ACCEPT, METADATA)
            .body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let events = self.watching().request_events::<Value>(request).await?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                _ => tell(),
            }
        }
        Ok(())
    }
}
