//! Counts and times every request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::{Method, Request, StatusCode, Uri};
use prometheus::{Histogram, IntCounter};

use crate::metrics::Metrics;

/// What requests are counted in. A handful of kinds is sent again and again, and to look their labels
/// up each time would be a part of what a request costs.
pub(super) struct Observations {
    metrics: Arc<Metrics>,
    known: Mutex<Vec<Known>>,
}

/// Where requests of one kind are counted.
struct Known {
    method: Method,
    verb: &'static str,
    resource: String,
    subresource: Option<String>,
    status: Option<StatusCode>,
    by_method: IntCounter,
    by_resource: IntCounter,
    duration: Histogram,
}

/// Counts a request when it ends, also when nobody waits for it any more.
pub(super) struct Observation {
    observations: Arc<Observations>,
    method: Method,
    uri: Uri,
    begin: Instant,
    pub(super) status: Option<StatusCode>,
}

impl Observations {
    pub(super) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            metrics,
            known: Mutex::default(),
        })
    }

    pub(super) fn begin<B>(self: &Arc<Self>, request: &Request<B>) -> Observation {
        Observation {
            observations: Arc::clone(self),
            method: request.method().clone(),
            uri: request.uri().clone(),
            begin: Instant::now(),
            status: None,
        }
    }

    fn count(&self, method: &Method, uri: &Uri, status: Option<StatusCode>, seconds: f64) {
        let (verb, resource, subresource) = classify(method, uri);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |one: &Known| {
            (one.verb, one.status) == (verb, status)
                && one.method == *method
                && (&*one.resource, one.subresource.as_deref()) == (resource, subresource)
        };
        let at = known.iter().position(is_it).unwrap_or_else(|| {
            known.push(self.look_up(method, (verb, resource, subresource), status));
            known.len() - 1
        });
        let of = &known[at];
        of.by_method.inc();
        of.by_resource.inc();
        of.duration.observe(seconds);
    }

    fn look_up(
        &self,
        method: &Method,
        (verb, resource, subresource): (&'static str, &str, Option<&str>),
        status: Option<StatusCode>,
    ) -> Known {
        // client-go's word for no response.
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        let whole = match subresource {
            None => resource.to_owned(),
            Some(subresource) => format!("{resource}/{subresource}"),
        };
        let Metrics {
            api_requests,
            rest_client_requests,
            rest_client_request_duration,
            ..
        } = &*self.metrics;
        Known {
            method: method.clone(),
            verb,
            resource: resource.to_owned(),
            subresource: subresource.map(str::to_owned),
            status,
            by_method: rest_client_requests.with_label_values(&[code, method.as_str()]),
            by_resource: api_requests.with_label_values(&[verb, &whole, code]),
            duration: rest_client_request_duration.with_label_values(&[verb]),
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let seconds = self.begin.elapsed().as_secs_f64();
        self.observations
            .count(&self.method, &self.uri, self.status, seconds);
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
    fn requests_of_a_kind_are_counted_together_and_by_how_they_ended() {
        let metrics = Metrics::new().unwrap();
        let observations = Observations::new(metrics.clone());
        let pods = "/api/v1/namespaces/a/pods";
        for (method, path, status) in [
            (Method::POST, pods, Some(StatusCode::CREATED)),
            (Method::POST, pods, Some(StatusCode::CREATED)),
            (Method::POST, pods, None),
            (Method::PATCH, "/api/v1/namespaces/a/pods/b", None),
            (Method::PATCH, "/api/v1/namespaces/a/pods/b/status", None),
        ] {
            let request = Request::builder().method(method).uri(path);
            let mut observation = observations.begin(&request.body(()).unwrap());
            observation.status = status;
        }
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        for line in [
            "carillon_api_requests_total{code=\"201\",resource=\"pods\",verb=\"create\"} 2",
            "carillon_api_requests_total{code=\"<error>\",resource=\"pods\",verb=\"create\"} 1",
            "carillon_api_requests_total{code=\"<error>\",resource=\"pods\",verb=\"patch\"} 1",
            "carillon_api_requests_total{code=\"<error>\",resource=\"pods/status\",verb=\"patch\"} 1",
            "rest_client_requests_total{code=\"201\",method=\"POST\"} 2",
            "rest_client_requests_total{code=\"<error>\",method=\"PATCH\"} 2",
            "rest_client_request_duration_seconds_count{verb=\"create\"} 3",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }

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
