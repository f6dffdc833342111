//! A full list, page by page, of which the items are given out as they arrive.

use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::{
    address::Address,
    answer::{OPEN_TIMEOUT, next_chunk, open},
    items::Items,
};
use crate::transport::{ResponseBody, Transport};

/// Objects asked for in a page before it is known how large they are, and at most.
const FIRST: usize = 100;
const MOST: usize = 500;
/// Bytes of a page that are aimed at: the API server holds all of it at once, and all of it has to be
/// here within [`OPEN_TIMEOUT`].
const AIM: usize = 8 << 20;

/// How many objects are asked for at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PageSize(usize);

impl Default for PageSize {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl PageSize {
    /// After a page of so many bytes.
    fn after(self, bytes: usize) -> Self {
        let size = if bytes > AIM {
            self.0.saturating_mul(AIM) / bytes
        } else if bytes <= AIM / 2 {
            self.0 * 2
        } else {
            self.0
        };
        Self(size.clamp(1, MOST))
    }

    /// After a page that did not come to its end.
    fn after_failure(self) -> Self {
        Self((self.0 / 2).max(1))
    }
}

/// A list under way.
pub(super) struct Pages {
    transport: Transport,
    address: Address,
    accept: &'static str,
    size: PageSize,
    more: String,
    page: Option<Page>,
}

struct Page {
    body: ResponseBody,
    items: Items,
    bytes: usize,
    until: Instant,
}

impl Pages {
    pub(super) fn new(
        transport: &Transport,
        address: &Address,
        accept: &'static str,
        size: PageSize,
    ) -> Self {
        Self {
            transport: transport.clone(),
            address: address.clone(),
            accept,
            size,
            more: String::new(),
            page: None,
        }
    }

    /// What is to be asked for in the next page, of this list or of another.
    pub(super) fn size(&self) -> PageSize {
        match &self.page {
            Some(_) => self.size.after_failure(),
            None => self.size,
        }
    }

    /// Waits for a part of the list and gives its items; the resourceVersion of the list after the last.
    pub(super) async fn advance(
        &mut self,
        each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Option<u64>, String> {
        let page = match &mut self.page {
            Some(page) => page,
            empty => {
                let until = Instant::now() + OPEN_TIMEOUT;
                let (size, more) = (self.size.0.to_string(), &*self.more);
                let mut query = vec![("limit", &*size)];
                if !more.is_empty() {
                    query.push(("continue", more));
                }
                let request = self.address.request(&query, self.accept)?;
                let open = open(&self.transport, request);
                let body = timeout_at(until, open).await.unwrap_or_else(|_| late())?;
                empty.insert(Page {
                    body,
                    items: Items::default(),
                    bytes: 0,
                    until,
                })
            }
        };
        let chunk = timeout_at(page.until, next_chunk(&mut page.body)).await;
        if let Some(chunk) = chunk.unwrap_or_else(|_| late())? {
            page.bytes += chunk.len();
            page.items.push(&chunk, each)?;
            return Ok(None);
        }
        let Some(page) = self.page.take() else {
            return Ok(None);
        };
        self.size = self.size.after(page.bytes);
        let metadata = page.items.finish()?;
        let (rv, more) = PageMeta::read(&metadata)?;
        let is_last = more.is_empty();
        self.more = more;
        Ok(is_last.then_some(rv))
    }
}

fn late<T>() -> Result<T, String> {
    Err(format!("no page within {OPEN_TIMEOUT:?}"))
}

/// What a page of a list says of itself.
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
    pub(super) fn read(metadata: &[u8]) -> Result<(u64, String), String> {
        let Self {
            resource_version,
            r#continue,
        } = serde_json::from_slice(metadata).map_err(|e| format!("metadata of a list: {e}"))?;
        match resource_version.parse() {
            Ok(rv) => Ok((rv, r#continue)),
            Err(_) => Err(format!(
                "list without resourceVersion: '{resource_version}'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_shrink_when_objects_are_large_and_grow_back() {
        let megabyte = 1 << 20;
        let mut size = PageSize::default();
        for (bytes_each, expected) in [
            (megabyte, 8),
            (megabyte, 8),
            (megabyte / 4, 16),
            (100, 32),
            (1000 * megabyte, 1),
            (1000 * megabyte, 1),
        ] {
            size = size.after(size.0 * bytes_each);
            assert_eq!(size.0, expected);
        }
        for _ in 0..20 {
            size = size.after(0);
        }
        assert_eq!(size.0, MOST);
        assert_eq!(PageSize(1).after_failure(), PageSize(1));
    }
}
