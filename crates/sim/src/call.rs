//! A request, as far as the API server understands it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_oracle::{Key, Request};
use http::{HeaderMap, Method, Uri, header};
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::status::Status;

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who sends it.
    pub user: String,
    /// `User-Agent`; tells processes of one user apart.
    pub agent: String,
    /// RBAC's word: `create`, `update`, `patch`, `delete`, `deletecollection`, `get`, `list`,
    /// `watch`; of a path that is not served `other`.
    pub verb: &'static str,
    /// The kind, when it is one that is served.
    pub kind: Option<&'static Kind>,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, also of what is to be created; empty when there is none.
    pub name: String,
    /// `status`, `binding`, …, or empty.
    pub subresource: String,
    /// Method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// The body, if it is JSON.
    pub body: Option<Value>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) content_type: String,
    /// Whether the reply is to hold metadata only.
    pub(crate) partial: Partial,
    pub(crate) malformed: bool,
}

/// As what a reply is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Partial {
    /// As it is.
    No,
    /// `PartialObjectMetadata`, of which there is no list.
    Object,
    /// `PartialObjectMetadataList`.
    List,
}

impl Partial {
    fn read(accept: &str) -> Self {
        if accept.contains("as=PartialObjectMetadataList") {
            Self::List
        } else if accept.contains("as=PartialObjectMetadata") {
            Self::Object
        } else {
            Self::No
        }
    }

    /// The reply as it was asked for.
    pub(crate) fn view(self, object: &Value) -> Result<Cow<'_, Value>, Status> {
        if self == Self::No || object["kind"] == "Status" {
            return Ok(Cow::Borrowed(object));
        }
        let meta = "meta.k8s.io/v1";
        let bare = |object: &Value| json!({"kind": "PartialObjectMetadata", "apiVersion": meta, "metadata": object["metadata"]});
        match (self, object["items"].as_array()) {
            (Self::List, Some(items)) => Ok(Cow::Owned(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": meta,
                "metadata": object["metadata"],
                // The real one makes a list without a place for items, and Go writes that as null.
                "items": (!items.is_empty()).then(|| items.iter().map(bare).collect::<Vec<_>>()),
            }))),
            (Self::Object, None) => Ok(Cow::Owned(bare(object))),
            _ => {
                let message = "you requested metadata in a form that the reply does not have";
                Err(Status::new(406, "NotAcceptable", message))
            }
        }
    }
}

impl Call {
    /// Reads a request; one that makes no sense is answered with 404 or 400 later.
    pub(crate) fn read(
        user: &str,
        agent: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        let header = |name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let mut call = Self {
            user: user.to_owned(),
            agent: agent.to_owned(),
            verb: "other",
            kind: None,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
            method: method.clone(),
            uri: uri
                .path_and_query()
                .map_or_else(|| uri.path().to_owned(), ToString::to_string),
            body: None,
            query: uri.query().map(query).unwrap_or_default(),
            content_type: header(header::CONTENT_TYPE),
            partial: Partial::read(&header(header::ACCEPT)),
            malformed: false,
        };
        call.route(uri.path());
        call.with_body(body);
        call
    }

    /// Adds the body, which a client knows only when it is about to leave.
    pub(crate) fn with_body(&mut self, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        self.body = serde_json::from_slice(body).ok();
        self.malformed = self.body.is_none();
        let name = self
            .body
            .as_ref()
            .and_then(|body| body["metadata"]["name"].as_str());
        if self.verb == "create" && self.name.is_empty() {
            name.unwrap_or_default().clone_into(&mut self.name);
        }
    }

    fn route(&mut self, path: &str) {
        let mut parts = path.split('/').skip(1);
        let (group, version) = match parts.next() {
            Some("api") => ("", parts.next().unwrap_or_default()),
            Some("apis") => {
                let group = parts.next().unwrap_or_default();
                (group, parts.next().unwrap_or_default())
            }
            _ => return,
        };
        let parts: Vec<&str> = parts.collect();
        let (namespace, plural, rest) = match parts.as_slice() {
            ["namespaces", namespace, plural, rest @ ..]
                if !["status", "finalize"].contains(plural) =>
            {
                (*namespace, *plural, rest)
            }
            [plural, rest @ ..] => ("", *plural, rest),
            [] => return,
        };
        let Some(kind) = Kind::find(group, version, plural) else {
            return;
        };
        let (name, subresource) = match rest {
            [] => ("", ""),
            [name] => (*name, ""),
            [name, subresource] => (*name, *subresource),
            _ => return,
        };
        let watches = ["true", "1"]
            .iter()
            .any(|yes| self.query.get("watch").is_some_and(|value| value == yes));
        self.verb = match (&self.method, name.is_empty()) {
            (&Method::GET, false) => "get",
            (&Method::GET, true) if watches => "watch",
            (&Method::GET, true) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, false) => "update",
            (&Method::PATCH, false) => "patch",
            (&Method::DELETE, false) => "delete",
            (&Method::DELETE, true) => "deletecollection",
            _ => "other",
        };
        self.kind = Some(kind);
        for (field, value) in [
            (&mut self.namespace, namespace),
            (&mut self.name, name),
            (&mut self.subresource, subresource),
        ] {
            value.clone_into(field);
        }
    }

    /// As in [`Key::resource`]; empty when the path is not served.
    pub fn resource(&self) -> String {
        self.kind.map(Kind::resource).unwrap_or_default()
    }

    /// Whether it changes anything when it is applied.
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch", "other"].contains(&self.verb) && !self.dry_run()
    }

    /// Whether it only asks what would happen.
    pub fn dry_run(&self) -> bool {
        match &self.body {
            // The options of a delete are its body; parameters only count when there is none.
            Some(options) if self.method == Method::DELETE => options["dryRun"] == json!(["All"]),
            _ => self.parameter("dryRun") == "All",
        }
    }

    /// The value of a query parameter; empty when it is absent.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.resource().into(),
            namespace: self.namespace.as_str().into(),
            name: name.into(),
        }
    }

    /// As a step of the history has it.
    pub fn request(&self) -> Arc<Request> {
        Arc::new(Request {
            user: self.user.clone(),
            agent: self.agent.clone(),
            verb: self.verb.to_owned(),
            uri: self.uri.clone(),
            body: self.body.clone(),
        })
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        })
        .collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &Method, uri: &str, body: &str) -> Call {
        let uri: Uri = uri.parse().unwrap();
        Call::read("u", "a", method, &uri, &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn a_path_says_what_is_asked_for() {
        for (method, uri, expected) in [
            (
                Method::GET,
                "/api/v1/pods?limit=5",
                ("list", "pods", "", "", ""),
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=true",
                ("watch", "pods", "", "", ""),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/b",
                ("get", "pods", "a", "b", ""),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                ("get", "namespaces", "", "a", ""),
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                ("update", "namespaces", "", "a", "finalize"),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods",
                ("create", "pods", "a", "new", ""),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/b/binding",
                ("create", "pods", "a", "b", "binding"),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                ("deletecollection", "pods", "a", "", ""),
            ),
            (
                Method::PATCH,
                "/apis/carillon.dev/v1alpha1/namespaces/a/broadcastjobs/b/status",
                ("patch", "broadcastjobs.carillon.dev", "a", "b", "status"),
            ),
            (
                Method::GET,
                "/apis/apps/v1/deployments",
                ("other", "", "", "", ""),
            ),
            (Method::GET, "/version", ("other", "", "", "", "")),
        ] {
            let call = call(&method, uri, r#"{"metadata":{"name":"new"}}"#);
            let resource = call.resource();
            let found = (
                call.verb,
                &*resource,
                &*call.namespace,
                &*call.name,
                &*call.subresource,
            );
            assert_eq!(found, expected, "{method} {uri}");
        }
    }

    #[test]
    fn parameters_are_unescaped() {
        let call = call(
            &Method::GET,
            "/api/v1/pods?labelSelector=a%3Db%2Cc&x=%zz+",
            "",
        );
        assert_eq!(call.parameter("labelSelector"), "a=b,c");
        assert_eq!(call.parameter("x"), "%zz ");
        assert!(!call.malformed);
    }
}
