//! Where a loop asks, and for what.

use std::fmt;

use bytes::Bytes;
use carillon_api::path::{NoSegment, Path};
use http::{Request, header};

use super::source::Source;
use crate::fence::RequestBody;

/// The objects of one kind in one scope.
#[derive(Clone, Debug)]
pub(super) struct Address {
    path: Result<Path, NoSegment>,
    labels: String,
    /// Whether objects are asked for whatever their labels.
    all: bool,
}

impl Address {
    pub(super) fn new(source: &Source, namespace: Option<&str>) -> Self {
        let path = match namespace {
            None => Ok(source.resource().everywhere()),
            Some(namespace) => source.resource().within(namespace),
        };
        Self {
            path,
            labels: source.labels.clone(),
            all: source.labels.is_empty(),
        }
    }

    /// From now on `all` objects are asked for, or those that the labels select.
    pub(super) fn select(&mut self, all: bool) {
        self.all = all || self.labels.is_empty();
    }

    /// Whether objects are asked for whatever their labels.
    pub(super) fn selects_all(&self) -> bool {
        self.all
    }

    /// Whether there are no labels by which they could be selected.
    pub(super) fn always_selects_all(&self) -> bool {
        self.labels.is_empty()
    }

    /// A request about the objects that the labels select.
    pub(super) fn request(
        &self,
        query: &[(&'static str, &str)],
        accept: &'static str,
    ) -> Result<Request<RequestBody>, String> {
        if self.all {
            return self.request_of_all(query, accept);
        }
        let labels = ("labelSelector", &*self.labels);
        self.request_of_all(&[query, &[labels]].concat(), accept)
    }

    /// A request about all objects, whatever their labels.
    pub(super) fn request_of_all(
        &self,
        query: &[(&'static str, &str)],
        accept: &'static str,
    ) -> Result<Request<RequestBody>, String> {
        let mut path = self.path.clone().map_err(|error| error.to_string())?;
        for (parameter, value) in query {
            path = path.with(parameter, value);
        }
        Request::get(path.as_str())
            .header(header::ACCEPT, accept)
            // One event must not wait in a compressor for the next.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(RequestBody::from(Bytes::new()))
            .map_err(|e| e.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Ok(path) => f.write_str(path.as_str()),
            Err(error) => error.fmt(f),
        }
    }
}
