//! Counts and times every request.

use std::{sync::Arc, time::Instant};

use http::{Method, Request, StatusCode, Uri};

use crate::metrics::Metrics;

/// Counts a request when it ends, also when nobody waits for it any more.
pub(super) struct Observation {
    metrics: Arc<Metrics>,
    method: Method,
    uri: Uri,
    begin: Instant,
    pub(super) status: Option<StatusCode>,
}

impl Observation {
    pub(super) fn begin<B>(metrics: Arc<Metrics>, request: &Request<B>) -> Self {
        Self {
            metrics,
            method: request.method().clone(),
            uri: request.uri().clone(),
            begin: Instant::now(),
            status: None,
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let (verb, resource, subresource) = classify(&self.method, &self.uri);
        // client-go's word for no response.
        let code = self.status.as_ref().map_or("<error>", StatusCode::as_str);
        let joined;
        let resource = match subresource {
            None => resource,
            Some(subresource) => {
                joined = format!("{resource}/{subresource}");
                &joined
            }
        };
        let metrics = &self.metrics;
        metrics
            .rest_client_requests
            .with_label_values(&[code, self.method.as_str()])
            .inc();
        metrics
            .rest_client_request_duration
            .with_label_values(&[verb])
            .observe(self.begin.elapsed().as_secs_f64());
        metrics
            .api_requests
            .with_label_values(&[verb, resource, code])
            .inc();
    }
}

/// Verb (RBAC's word), resource and subresource of a request.
fn classify<'a>(method: &Method, uri: &'a Uri) -> (&'static str, &'a str, Option<&'a str>) {
    let mut segments = uri.path().split('/').filter(|segment| !segment.is_empty());
    let api = match segments.next() {
        Some("api") => segments.next().is_some(),
        Some("apis") => segments.next().is_some() && segments.next().is_some(),
        _ => false,
    };
    let mut resource = segments.next().filter(|_| api);
    let mut name = segments.next();
    let mut subresource = segments.next();
    if resource == Some("namespaces") && subresource.is_some() {
        (resource, name, subresource) = (subresource, segments.next(), segments.next());
    }
    let verb = match (method, name) {
        (&Method::GET, Some(_)) => "get",
        (&Method::GET, None) if watches(uri) => "watch",
        (&Method::GET, None) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        _ => "other",
    };
    (verb, resource.unwrap_or("other"), subresource)
}

fn watches(uri: &Uri) -> bool {
    uri.query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_what_they_are_for() {
        for (method, path, expected) in [
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                ("list", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=true&a=b",
                ("watch", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/b",
                ("get", "pods", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                ("get", "namespaces", None),
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                ("list", "namespaces", None),
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods?",
                ("create", "pods", None),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods/b?",
                ("delete", "pods", None),
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods?",
                ("deletecollection", "pods", None),
            ),
            (
                Method::PATCH,
                "/apis/carillon.dev/v1alpha1/namespaces/a/broadcastjobs/b/status?",
                ("patch", "broadcastjobs", Some("status")),
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                ("update", "leases", None),
            ),
            (Method::GET, "/version", ("list", "other", None)),
        ] {
            let uri: Uri = path.parse().unwrap();
            assert_eq!(classify(&method, &uri), expected, "{method} {path}");
        }
    }
}
