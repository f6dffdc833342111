//! A full list, page by page.

use std::borrow::Cow;

use http::Request;
use http_body_util::BodyExt;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    Loop, Sink, Watched,
    frames::identify,
    list_and_watch::{JSON, OPEN_TIMEOUT},
};
use crate::{
    fence::RequestBody,
    transport::{Transport, UnderWay, causes, status_of},
};

/// Objects asked for in one page of a list.
pub(super) const PAGE: u32 = 500;

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// Reads all pages; the resourceVersion of the list.
    pub(super) async fn list(&mut self) -> Result<u64, String> {
        self.sink.relist_begin();
        let mut next = String::new();
        let mut buffer = Vec::new();
        loop {
            let mut query = vec![("limit", Cow::from(PAGE.to_string()))];
            if !next.is_empty() {
                query.push(("continue", Cow::from(next.as_str())));
            }
            let request = self.request(query, JSON)?;
            buffer = fetch(self.transport.clone(), request, buffer).await?;
            let (rv, more) = self.deliver(&buffer)?;
            if more.is_empty() {
                self.sink.relist_done(rv);
                return Ok(rv);
            }
            next = more;
        }
    }

    /// Gives the objects of a page to the sink; the list's resourceVersion and how it goes on.
    fn deliver(&mut self, page: &[u8]) -> Result<(u64, String), String> {
        let metadata = match serde_json::from_slice::<Page<K>>(page) {
            Ok(page) => {
                self.counters.listed.inc_by(page.items.len() as u64);
                for item in page.items {
                    self.sink.relist_item(item);
                }
                page.metadata
            }
            Err(_) => self.deliver_one_by_one(page)?,
        };
        metadata.read()
    }

    /// The slow way for a page of which something cannot be decoded: all that can be is.
    fn deliver_one_by_one(&mut self, page: &[u8]) -> Result<PageMeta, String> {
        let page: Page<&RawValue> = serde_json::from_slice(page).map_err(|e| e.to_string())?;
        for item in page.items {
            self.counters.listed.inc();
            match serde_json::from_str(item.get()) {
                Ok(object) => self.sink.relist_item(object),
                Err(error) => {
                    let id = identify(item).0;
                    self.counters.skipped(&id, &error);
                    self.sink.undecodable(&id, false);
                }
            }
        }
        Ok(page.metadata)
    }
}

/// Reads one page, into a buffer that may have been used before.
pub(super) async fn fetch(
    transport: Transport,
    request: Request<RequestBody>,
    mut buffer: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let read = async {
        let _under_way = UnderWay::begin();
        let response = transport.call(request).await.map_err(|e| causes(&*e))?;
        let code = response.status();
        let mut body = response.into_body();
        buffer.clear();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|e| causes(&*e))?.into_data() {
                buffer.extend_from_slice(&data);
            }
        }
        if code.is_success() {
            Ok(())
        } else {
            // 410: the list took longer than the server remembers; it is started over.
            let status = status_of(code, &buffer);
            Err(format!("{} ({code})", status.message))
        }
    };
    timeout(OPEN_TIMEOUT, read)
        .await
        .unwrap_or_else(|_| Err(format!("no page within {OPEN_TIMEOUT:?}")))?;
    Ok(buffer)
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de>"))]
pub(super) struct Page<K> {
    pub(super) metadata: PageMeta,
    // Go writes an empty list as null.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(super) items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

impl PageMeta {
    /// The list's resourceVersion, and how it goes on: empty after the last page.
    pub(super) fn read(self) -> Result<(u64, String), String> {
        let Self {
            resource_version,
            r#continue,
        } = self;
        match resource_version.parse() {
            Ok(rv) => Ok((rv, r#continue)),
            Err(_) => Err(format!(
                "list without resourceVersion: '{resource_version}'"
            )),
        }
    }
}

fn null_is_empty<'de, D, K>(deserializer: D) -> Result<Vec<K>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
