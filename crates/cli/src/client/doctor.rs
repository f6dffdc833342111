//! What `doctor` reads: lists, in one namespace or in all, of which some may not be for whoever asks.

use std::collections::BTreeSet;

use anyhow::Result;
use carillon_api::path::{NoSegment, Path, Resource};
use carillon_plan::view::doctor::Seen;
use carillon_plan::view::doctor::webhooks::answers;
use serde_json::Value;

use super::{Answer, Api, JOBS, JSON, PODS, code, dry};
use crate::problem;
use crate::two_apis::{CRONS, SETS};

const fn of(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
    Resource {
        group,
        version,
        plural,
    }
}

pub(crate) const CRDS: Resource = of("apiextensions.k8s.io", "v1", "customresourcedefinitions");
pub(crate) const DEPLOYMENTS: Resource = of("apps", "v1", "deployments");
pub(crate) const LEASES: Resource = of("coordination.k8s.io", "v1", "leases");
pub(crate) const NAMESPACES: Resource = of("", "v1", "namespaces");
pub(crate) const QUOTAS: Resource = of("", "v1", "resourcequotas");
pub(crate) const VALIDATING: Resource = of(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
);
pub(crate) const MUTATING: Resource = of(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
);
const SLICES: Resource = of("discovery.k8s.io", "v1", "endpointslices");
const REVIEWS: Resource = of("authorization.k8s.io", "v1", "subjectaccessreviews");
const OWN_REVIEWS: Resource = of("authorization.k8s.io", "v1", "selfsubjectaccessreviews");
/// There is one for each node, and none of ours.
const NO_NODES: &str = "metadata.namespace!=kube-node-lease";

/// Where to look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Within<'a> {
    /// In a namespace.
    Namespace(&'a str),
    /// In all of them.
    All,
    /// What has no namespace.
    Cluster,
}

impl<'a> Within<'a> {
    /// In the namespace that was written, or in all.
    pub(crate) fn namespace(written: Option<&'a str>) -> Self {
        written.map_or(Self::All, Self::Namespace)
    }

    fn path(self, of: Resource) -> Result<Path, NoSegment> {
        match self {
            Self::Namespace(namespace) => of.within(namespace),
            Self::All | Self::Cluster => Ok(of.everywhere()),
        }
    }
}

/// `you may not list pods in all namespaces`.
fn may_not(verb: &str, of: Resource, within: Within<'_>) -> String {
    let group = if of.group.is_empty() {
        String::new()
    } else {
        format!(".{}", of.group)
    };
    let place = match within {
        Within::Namespace(namespace) => format!(" in namespace {namespace}"),
        Within::All => " in all namespaces".to_owned(),
        Within::Cluster => String::new(),
    };
    format!("you may not {verb} {}{group}{place}", of.plural)
}

impl Api {
    /// All objects, each read by `read`; the selector may be empty. What the API server does not serve has none.
    pub(crate) async fn seen<T>(
        &self,
        of: Resource,
        within: Within<'_>,
        selector: &str,
        read: impl FnMut(Value) -> T,
    ) -> Result<Seen<Vec<T>>> {
        let path = within.path(of).map(|path| {
            if of == LEASES {
                path.with("fieldSelector", NO_NODES)
            } else {
                path
            }
        });
        match self.list(path, selector, read).await {
            Ok(found) => Ok(Ok(found)),
            Err(error) if code(&error) == Some(404) => Ok(Ok(Vec::new())),
            Err(error) if code(&error) == Some(403) => Ok(Err(may_not("list", of, within))),
            Err(error) => {
                let what = format!("listing {}", of.plural);
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// Plurals of what the API server serves of carillon.dev/v1alpha1.
    pub(crate) async fn plurals(&self) -> Result<Vec<String>> {
        match self.get(Ok(JOBS.discovery())).await {
            Ok(found) => {
                let resources = found["resources"].as_array().into_iter().flatten();
                let names = resources.filter_map(|one| one["name"].as_str());
                Ok(names.map(str::to_owned).collect())
            }
            Err(error) if code(&error) == Some(404) => Ok(Vec::new()),
            Err(error) => Err(self.explain(error, "asking what is served").await),
        }
    }

    /// The EndpointSlices of a service.
    pub(crate) async fn endpoints(&self, service: &(String, String)) -> Result<Seen<Vec<Value>>> {
        let (namespace, name) = service;
        let selector = format!("kubernetes.io/service-name={name}");
        let within = Within::Namespace(namespace);
        self.seen(SLICES, within, &selector, |slice| slice).await
    }

    /// Whether a SubjectAccessReview says yes. `Err`: whoever asks may not ask.
    pub(crate) async fn may(&self, review: &Value) -> Result<Seen<bool>> {
        let of = if review["kind"] == "SelfSubjectAccessReview" {
            OWN_REVIEWS
        } else {
            REVIEWS
        };
        let answer = self
            .send("POST", Ok(of.everywhere()), JSON, Some(review))
            .await;
        match answer {
            Ok(review) => Ok(Ok(review["status"]["allowed"] == true)),
            Err(error) if code(&error) == Some(403) => {
                Ok(Err(may_not("create", of, Within::Cluster)))
            }
            Err(error) => Err(self.explain(error, "asking about rights").await),
        }
    }

    /// Whether the API server would create a pod: nothing, or its words. `Err`: whoever asks may not create pods.
    pub(crate) async fn would_create(
        &self,
        namespace: &str,
        pod: &Value,
    ) -> Result<Seen<Option<String>>> {
        // Not strict: the operator passes on what is written, also fields that this API server does not know.
        let path = PODS.within(namespace);
        let path = path.map(|path| dry(path.with("fieldManager", "kubectl-carillon"), true));
        let answer: Answer<Value> = self.send("POST", path, JSON, Some(pod)).await;
        match answer {
            Ok(_) => Ok(Ok(None)),
            Err(kube::Error::Api(status))
                if status.code == 403 && status.message.contains("cannot create resource") =>
            {
                Ok(Err(may_not("create", PODS, Within::Namespace(namespace))))
            }
            // One of that name is there: it was accepted once.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Ok(None)),
            Err(kube::Error::Api(status)) => Ok(Ok(Some(problem::words(&status)))),
            Err(error) => Err(self.explain(error, "asking about a pod").await),
        }
    }

    /// An object of Kubernetes that was listed, as it is now; `None`: it is gone, or may not be read.
    pub(crate) async fn again(&self, object: &Value) -> Result<Option<Value>> {
        let kind = if object["kind"] == SETS.kind {
            SETS
        } else {
            CRONS
        };
        let meta = &object["metadata"];
        let word = |field: &str| meta[field].as_str().unwrap_or_default();
        let path = kind.native.within(word("namespace"));
        match self
            .get(path.and_then(|path| path.object(word("name"))))
            .await
        {
            Ok(now) => Ok(Some(now)),
            Err(error) if matches!(code(&error), Some(403 | 404)) => Ok(None),
            Err(error) => {
                let what = format!("reading {} {}", kind.kind, word("name"));
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// Services of which no EndpointSlice has an address that is ready.
    pub(crate) async fn silent(
        &self,
        services: BTreeSet<(String, String)>,
    ) -> Result<Seen<BTreeSet<(String, String)>>> {
        let mut silent = BTreeSet::new();
        for service in services {
            match self.endpoints(&service).await? {
                Err(why) => return Ok(Err(why)),
                Ok(slices) if answers(&slices) => {}
                Ok(_) => drop(silent.insert(service)),
            }
        }
        Ok(Ok(silent))
    }
}
