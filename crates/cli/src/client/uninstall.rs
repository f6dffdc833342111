//! What stays when Carillon goes, in one namespace or in all.

use anyhow::Result;
use carillon_api::path::{NoSegment, Path, Resource};
use carillon_plan::view::doctor::Seen;
use carillon_plan::view::uninstall::{Held, Kind, Leftovers, Object, Unserved};
use http::Request;
use http::header::ACCEPT;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cron_jobs::NATIVE_JOBS;
use super::{Answer, Api, Asked, JOBS, JSON, PODS, by_us, code, dry, not_found};

const LEASES: Resource = Resource {
    group: "coordination.k8s.io",
    version: "v1",
    plural: "leases",
};
const CRDS: Resource = Resource {
    group: "apiextensions.k8s.io",
    version: "v1",
    plural: "customresourcedefinitions",
};
/// There is one for each node, and none of ours.
const NO_NODES: &str = "metadata.namespace!=kube-node-lease";

const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// How often a list is begun anew, whose version the API server has forgotten meanwhile.
const LISTS: usize = 5;

/// A page. What is not read of an object is never in memory but as text.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Option<Vec<Object>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

fn resource(kind: Kind) -> Resource {
    match kind {
        Kind::BroadcastJob => JOBS,
        Kind::Job => NATIVE_JOBS,
        Kind::Pod => PODS,
    }
}

/// Of Jobs the metadata does not say whose they are. Whole, one has a megabyte and a half at most.
fn page(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Job => (JSON, "100"),
        Kind::BroadcastJob | Kind::Pod => (METADATA_LIST, super::PAGE),
    }
}

impl Api {
    /// All that stays, in one namespace or everywhere.
    pub(crate) async fn leftovers(&self, namespace: Option<&str>) -> Result<Leftovers> {
        match self.read_leftovers(namespace).await {
            Ok(found) => Ok(found),
            Err((kind, error)) => {
                let what = format!("listing {}s", kind.name());
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// The same; `Err`: what of it whoever asks may not list.
    pub(crate) async fn leftovers_if_allowed(
        &self,
        namespace: Option<&str>,
    ) -> Result<Seen<Leftovers>> {
        match self.read_leftovers(namespace).await {
            Ok(found) => Ok(Ok(found)),
            Err((kind, error)) if code(&error) == Some(403) => {
                Ok(Err(format!("you may not list all {}s", kind.name())))
            }
            Err((kind, error)) => {
                let what = format!("listing {}s", kind.name());
                Err(self.explain(error, &what).await)
            }
        }
    }

    async fn read_leftovers(
        &self,
        namespace: Option<&str>,
    ) -> Result<Leftovers, (Kind, kube::Error)> {
        let mut found = Leftovers::default();
        for kind in Kind::ALL {
            let path = match namespace {
                None => Ok(resource(kind).everywhere()),
                Some(namespace) => resource(kind).within(namespace),
            };
            match self.each(kind, &path).await {
                Ok(objects) => {
                    for object in &objects {
                        found.read(kind, object);
                    }
                }
                // Our CRDs are gone, and all of that kind with them.
                Err(error) if kind == Kind::BroadcastJob && code(&error) == Some(404) => {}
                Err(error) => return Err((kind, error)),
            }
        }
        Ok(found)
    }

    /// All objects at a path that could be of interest.
    async fn each(&self, kind: Kind, path: &Result<Path, NoSegment>) -> Answer<Vec<Object>> {
        let (accept, limit) = page(kind);
        let mut lists = 1;
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let path = path.clone().map(|path| {
                let path = path.with("limit", limit);
                path.with("continue", &token)
            });
            let page: Page = match self.ask(path, accept).await {
                Ok(page) => page,
                Err(error) if code(&error) == Some(410) && lists < LISTS => {
                    lists += 1;
                    found.clear();
                    token.clear();
                    continue;
                }
                Err(error) => return Err(error),
            };
            found.extend(page.items.into_iter().flatten().filter(Object::matters));
            match page.metadata.next {
                Some(next) if !next.is_empty() => token = next,
                _ => return Ok(found),
            }
        }
    }

    /// An object as it is now.
    pub(crate) async fn read(&self, held: &Held) -> Answer<Object> {
        self.ask(of(held.kind, &held.namespace, &held.name), METADATA)
            .await
    }

    /// Takes a finalizer off, or only asks whether it could be.
    pub(crate) async fn release(&self, held: &Held, dry_run: bool) -> Answer<()> {
        let object = of(held.kind, &held.namespace, &held.name);
        let object = object.map(|path| dry(by_us(path), dry_run));
        let json_patch = "application/json-patch+json";
        self.send("PATCH", object, json_patch, Some(&held.patch()))
            .await
            .map(drop)
    }

    /// Deletes a Job that nobody goes on with, as it was read, or only asks whether it could be.
    pub(crate) async fn delete_unserved(&self, job: &Unserved, dry_run: bool) -> Answer<()> {
        let path = of(Kind::Job, &job.namespace, &job.name);
        let mut options = job.delete_options();
        if dry_run {
            // With options in the body, those in the path count for nothing.
            options["dryRun"] = json!(["All"]);
        }
        self.send("DELETE", path, JSON, Some(&options))
            .await
            .map(drop)
    }

    /// The metadata of the CRD of BroadcastJobs.
    pub(crate) async fn crd_of_jobs(&self) -> Result<Asked<Value>> {
        let name = format!("{}.{}", JOBS.plural, JOBS.group);
        let crd = self.ask(CRDS.everywhere().object(&name), METADATA).await;
        self.asked(crd, "looking for the operator's lease").await
    }

    /// Leases of a namespace, or all but those of nodes.
    pub(crate) async fn leases(&self, namespace: Option<&str>) -> Result<Vec<Value>> {
        let path = match namespace {
            None => Ok(LEASES.everywhere().with("fieldSelector", NO_NODES)),
            Some(namespace) => LEASES.within(namespace),
        };
        match self.list(path, "", |lease| lease).await {
            Ok(leases) => Ok(leases),
            Err(error) => Err(self
                .explain(error, "looking for the operator's lease (see --lease)")
                .await),
        }
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        path: Result<Path, NoSegment>,
        accept: &str,
    ) -> Answer<T> {
        let request = Request::builder()
            .uri(path.map_err(|error| not_found(&error))?.as_str())
            .header(ACCEPT, accept)
            .body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

fn of(kind: Kind, namespace: &str, name: &str) -> Result<Path, NoSegment> {
    resource(kind).within(namespace)?.object(name)
}
