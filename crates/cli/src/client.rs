//! The API server, as the verbs need it: a few paths, JSON in and out.

mod changes;
pub(crate) mod cron_jobs;
mod daemon_sets;
pub(crate) mod decisions;
pub(crate) mod doctor;
pub(crate) mod logs;
mod two_apis;
mod uninstall;

use std::path::PathBuf;

use anyhow::{Chain, Context, Error, Result, anyhow};
use bytes::Bytes;
use carillon_api::names::{GROUP, LABEL_BROADCAST_JOB_UID, VERSION};
use carillon_api::path::{NoSegment, Path, Resource};
use carillon_plan::Uid;
use carillon_plan::node::{NodeRow, Nodes};
use carillon_plan::record::Slice;
use carillon_plan::view::read::{self, StoredJob};
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde_json::Value;
use tower::BoxError;
use tower::util::MapResponseLayer;

use crate::{problem, proxy};

/// BroadcastJobs.
pub(crate) const JOBS: Resource = ours("broadcastjobs");
/// Pods.
pub(crate) const PODS: Resource = core("pods");
const NODES: Resource = core("nodes");

/// Bytes of a reply that is read, at most: 500 objects of half a MiB.
const LARGEST_REPLY: usize = 256 << 20;

/// Objects a page of a list may have.
const PAGE: &str = "500";

/// Who writes, in managedFields and audit logs. A field the API server does not know is refused
/// rather than dropped: without `nodeNames` a retry would run everywhere.
fn by_us(path: Path) -> Path {
    path.with("fieldManager", "kubectl-carillon")
        .with("fieldValidation", "Strict")
}

/// Only asked, or done.
fn dry(path: Path, run: bool) -> Path {
    if run {
        path.with("dryRun", "All")
    } else {
        path
    }
}

const fn ours(plural: &'static str) -> Resource {
    Resource {
        group: GROUP,
        version: VERSION,
        plural,
    }
}

const fn core(plural: &'static str) -> Resource {
    Resource {
        group: "",
        version: "v1",
        plural,
    }
}

/// Which cluster is meant, and which namespace: that of the kubeconfig's context when absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) namespace: Option<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) cluster: Option<String>,
    pub(crate) user: Option<String>,
    /// Whom to ask as.
    pub(crate) as_user: Option<String>,
    pub(crate) as_groups: Vec<String>,
}

/// A connection, and the namespace it is about.
pub(crate) struct Api {
    client: Client,
    /// For logs, which may have no end.
    streams: Box<Client>,
    server: String,
    pub(crate) namespace: String,
    only_of: Option<Version>,
}

/// An object as somebody has seen it: what is written holds for this one only.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) stored: String,
}

impl Version {
    /// Why an object is not the one that was seen, if so.
    pub(crate) fn differs(&self, object: &Value) -> Option<String> {
        let meta = &object["metadata"];
        let name = meta["name"].as_str().unwrap_or_default();
        if meta["uid"] != *self.uid {
            return Some(format!(
                "{name} was deleted, and another of this name is there: look at it first"
            ));
        }
        let changed = meta["generation"].as_i64().unwrap_or(0) != self.generation;
        changed.then(|| {
            format!("{name} was changed by somebody since this page showed it: look at it, and try again")
        })
    }
}

/// What became of a question for an object.
pub(crate) enum Asked<T> {
    Found(T),
    Missing,
    /// Whoever asks may not read it.
    NotAllowed,
}

/// A refusal of the API server, or no answer at all.
pub(crate) type Answer<T> = Result<T, kube::Error>;

impl Api {
    /// Reads the kubeconfig; nothing is sent yet.
    pub(crate) async fn connect(target: &Target) -> Result<Self> {
        let options = KubeConfigOptions {
            context: target.context.clone(),
            cluster: target.cluster.clone(),
            user: target.user.clone(),
        };
        let chosen = [&target.context, &target.cluster, &target.user];
        let file = match &target.kubeconfig {
            Some(path) => Some(
                Kubeconfig::read_from(path)
                    .with_context(|| format!("--kubeconfig {}", path.display()))?,
            ),
            None if chosen.iter().any(|flag| flag.is_some()) => Some(Kubeconfig::read()?),
            None => None,
        };
        let of_file = match &file {
            Some(file) => Some(own_proxy(file, target)),
            None => Kubeconfig::read().ok().map(|file| own_proxy(&file, target)),
        };
        let mut config = match file {
            Some(file) => {
                has_chosen(target, &file)?;
                Config::from_custom_kubeconfig(file, &options).await?
            }
            None => Config::infer()
                .await
                .context("no cluster: set KUBECONFIG or --kubeconfig")?,
        };
        impersonate(&mut config, target)?;
        // Our library asks NO_PROXY about the proxy, and not about the server.
        config.proxy_url = match of_file {
            Some(Some(own)) => Some(own.parse().context("proxy-url is no URL")?),
            Some(None) => proxy::of(&config.cluster_url)?,
            None => config.proxy_url,
        };
        if let Some(proxy) = &config.proxy_url {
            proxy::usable(proxy)?;
        }
        let namespace = target
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let streams = Box::new(ClientBuilder::try_from(config.clone())?.build());
        let client = ClientBuilder::try_from(config)?
            .with_layer(&MapResponseLayer::new(bounded))
            .build();
        Ok(Self {
            client,
            streams,
            server: server.trim_end_matches('/').to_owned(),
            namespace,
            only_of: None,
        })
    }

    /// The same connection for a namespace, and for this version of an object: another one is neither read nor
    /// changed.
    pub(crate) fn only_of(&self, namespace: &str, version: Option<Version>) -> Self {
        Self {
            client: self.client.clone(),
            streams: self.streams.clone(),
            server: self.server.clone(),
            namespace: namespace.to_owned(),
            only_of: version,
        }
    }

    /// An object that was read, if it is the one that was seen.
    fn as_seen(&self, object: Value) -> Result<Value> {
        match self
            .only_of
            .as_ref()
            .and_then(|version| version.differs(&object))
        {
            Some(why) => Err(anyhow!(why)),
            None => Ok(object),
        }
    }

    /// A client without an end, for watches.
    pub(crate) fn watching(&self) -> Client {
        (*self.streams).clone()
    }

    /// A merge patch that holds for the version that was seen.
    fn held(&self, patch: &Value) -> Value {
        let mut patch = patch.clone();
        if let Some(seen) = &self.only_of {
            patch["metadata"]["uid"] = seen.uid.as_str().into();
            // A verb that reads by itself holds for what it has read, which is as it was seen.
            if patch["metadata"]["resourceVersion"].is_null() {
                patch["metadata"]["resourceVersion"] = seen.stored.as_str().into();
            }
        }
        patch
    }

    /// Sends a request. `Err` of [`kube::Error::Api`] is an answer, in the API server's words.
    async fn send(
        &self,
        method: &str,
        path: Result<Path, NoSegment>,
        content: &str,
        body: Option<&Value>,
    ) -> Answer<Value> {
        let body = body.map(|body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(path.map_err(|error| not_found(&error))?.as_str())
            .header(http::header::CONTENT_TYPE, content)
            .body(body.unwrap_or_default());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    async fn get(&self, path: Result<Path, NoSegment>) -> Answer<Value> {
        self.send("GET", path, JSON, None).await
    }

    /// Lists by pages, and gives each object to `read`, so that a large cluster is never in memory
    /// as JSON. `selector` is a label selector, or empty.
    async fn list<T>(
        &self,
        path: Result<Path, NoSegment>,
        selector: &str,
        mut read: impl FnMut(Value) -> T,
    ) -> Answer<Vec<T>> {
        let mut found = Vec::new();
        let mut token = String::new();
        loop {
            let page = path.clone().map(|path| {
                path.with("limit", PAGE)
                    .with("labelSelector", selector)
                    .with("continue", &token)
            });
            let mut page = self.get(page).await?;
            if let Some(items) = page["items"].as_array_mut() {
                found.extend(items.drain(..).map(&mut read));
            }
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => next.clone_into(&mut token),
                _ => return Ok(found),
            }
        }
    }

    /// Creates an object at a collection, or only asks whether it could be.
    pub(crate) async fn create(
        &self,
        all: Resource,
        dry_run: bool,
        object: &Value,
    ) -> Answer<Value> {
        let path = all.within(&self.namespace);
        let path = path.map(|path| dry(by_us(path), dry_run));
        self.send("POST", path, JSON, Some(object)).await
    }

    /// An object of the namespace, as stored.
    pub(crate) async fn object(&self, of: Resource, name: &str) -> Answer<Value> {
        self.get(self.path(of, name)).await
    }

    /// Asks what a server-side apply by a manager would make of an object that is there.
    pub(crate) async fn dry_apply(
        &self,
        of: Resource,
        name: &str,
        manager: &str,
        object: &Value,
    ) -> Answer<Value> {
        let path = self.path(of, name).map(|path| {
            let path = path.with("fieldManager", manager).with("force", "true");
            dry(path.with("fieldValidation", "Strict"), true)
        });
        let apply = "application/apply-patch+yaml";
        self.send("PATCH", path, apply, Some(object)).await
    }

    /// Asks what a merge of a patch would make of an object that is there.
    pub(crate) async fn dry_merge(&self, of: Resource, name: &str, patch: &Value) -> Answer<Value> {
        let object = self.path(of, name).map(|path| dry(by_us(path), true));
        self.send("PATCH", object, MERGE, Some(patch)).await
    }

    /// Merges a patch into a job, or only asks whether it could be.
    pub(crate) async fn merge(&self, name: &str, dry_run: bool, patch: &Value) -> Answer<Value> {
        let job = self.path(JOBS, name);
        let job = job.map(|path| dry(by_us(path), dry_run));
        self.send("PATCH", job, MERGE, Some(&self.held(patch)))
            .await
    }

    /// Path of an object of the namespace.
    fn path(&self, of: Resource, name: &str) -> Result<Path, NoSegment> {
        of.within(&self.namespace)?.object(name)
    }

    /// One job, as stored. When there is none, the error says what there is.
    pub(crate) async fn job(&self, name: &str) -> Result<Value> {
        match self.get(self.path(JOBS, name)).await {
            Ok(job) => self.as_seen(job),
            Err(error) if code(&error) == Some(404) => Err(self.missing(name).await),
            Err(error) => Err(self
                .explain(error, &format!("reading BroadcastJob {name}"))
                .await),
        }
    }

    /// All objects of the namespace, or of all namespaces.
    fn collection(&self, of: Resource, all: bool) -> Result<Path, NoSegment> {
        if all {
            Ok(of.everywhere())
        } else {
            of.within(&self.namespace)
        }
    }

    /// The jobs of the namespace, or of all namespaces.
    pub(crate) async fn jobs(&self, all: bool) -> Result<Vec<Value>> {
        self.jobs_selected(all, "").await
    }

    /// Those of them that a label selector selects.
    pub(crate) async fn jobs_selected(&self, all: bool, selector: &str) -> Result<Vec<Value>> {
        let listed = self
            .list(self.collection(JOBS, all), selector, |job| job)
            .await;
        match listed {
            Ok(jobs) => Ok(jobs),
            Err(error) => Err(self.explain(error, "listing BroadcastJobs").await),
        }
    }

    /// The result slices of a job.
    pub(crate) async fn slices(&self, job: &StoredJob) -> Result<Vec<Slice>> {
        let owner = &job.job.meta.owner;
        let path = ours("noderesultslices").within(&owner.namespace);
        if owner.uid == Uid::MIN {
            return Ok(Vec::new());
        }
        let selector = format!("{LABEL_BROADCAST_JOB_UID}={}", owner.uid);
        match self.list(path, &selector, |slice| slice).await {
            Ok(slices) => read::slices(&slices).map_err(Error::msg),
            Err(error) => {
                let what = format!("listing the results of {}", owner.name);
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// All nodes of the cluster.
    pub(crate) async fn nodes(&self) -> Result<Nodes> {
        match self.list_nodes(|node| read::node(&node)).await {
            Ok(nodes) => Ok(nodes.into_iter().flatten().collect()),
            Err(error) => Err(self.explain(error, "listing nodes").await),
        }
    }

    /// The same; nothing if whoever asks may not list them.
    pub(crate) async fn nodes_if_allowed(&self) -> Result<Option<Nodes>> {
        match self.list_nodes(|node| read::node(&node)).await {
            Ok(nodes) => Ok(Some(nodes.into_iter().flatten().collect())),
            Err(error) if code(&error) == Some(403) => Ok(None),
            Err(error) => Err(self.explain(error, "listing nodes").await),
        }
    }

    /// All nodes as they are stored.
    pub(crate) async fn node_objects(&self) -> Result<Vec<Value>> {
        match self.list_nodes(|node| node).await {
            Ok(nodes) => Ok(nodes),
            Err(error) => Err(self.explain(error, "listing nodes").await),
        }
    }

    async fn list_nodes<T>(&self, read: impl Fn(Value) -> T) -> Answer<Vec<T>> {
        self.list(Ok(NODES.everywhere()), "", read).await
    }

    /// One node.
    pub(crate) async fn node(&self, name: &str) -> Result<Asked<NodeRow>> {
        let node = self.get(NODES.everywhere().object(name)).await;
        let asked = self.asked(node, &format!("reading node {name}")).await?;
        Ok(match asked {
            Asked::Found(node) => {
                read::node(&node).map_or(Asked::Missing, |(_, row)| Asked::Found(row))
            }
            Asked::Missing => Asked::Missing,
            Asked::NotAllowed => Asked::NotAllowed,
        })
    }

    /// What an answer is to who can do without: that there is nothing, or that it is not for them, is no error.
    async fn asked<T>(&self, answer: Answer<T>, what: &str) -> Result<Asked<T>> {
        match answer {
            Ok(found) => Ok(Asked::Found(found)),
            Err(error) if code(&error) == Some(404) => Ok(Asked::Missing),
            Err(error) if code(&error) == Some(403) => Ok(Asked::NotAllowed),
            Err(error) => Err(self.explain(error, what).await),
        }
    }

    /// Names of the namespaces.
    pub(crate) async fn namespaces(&self) -> Answer<Vec<String>> {
        let path = core("namespaces").everywhere();
        self.list(Ok(path), "", |namespace| name_of(&namespace))
            .await
    }

    pub(crate) async fn missing(&self, name: &str) -> Error {
        let others = match self.jobs(false).await {
            Ok(jobs) => jobs.iter().map(name_of).collect::<Vec<_>>(),
            Err(error) => return error,
        };
        // Those who may not look everywhere are not told; the rest of the hint is for them.
        let elsewhere = self.jobs(true).await.unwrap_or_default();
        let elsewhere: Vec<String> = elsewhere
            .iter()
            .filter(|job| name_of(job) == name)
            .filter_map(|job| Some(job["metadata"]["namespace"].as_str()?.to_owned()))
            .collect();
        problem::no_job(name, &self.namespace, &others, &elsewhere)
    }

    /// An error in words: what was tried, what was answered, what to do.
    pub(crate) async fn explain(&self, error: kube::Error, what: &str) -> Error {
        match &error {
            kube::Error::Api(status) if status.code == 404 && !self.serves_us().await => {
                problem::not_installed(&self.server)
            }
            kube::Error::Api(status) if status.code == 409 && self.only_of.is_some() => {
                Error::new(error)
            }
            kube::Error::Api(status) => anyhow!("{what}: {}", problem::words(status)),
            kube::Error::Service(cause) => {
                // What lies above says only what was being done.
                let why = Chain::new(&**cause).last().map(ToString::to_string);
                let why = why.unwrap_or_default();
                anyhow!("{what}: {} cannot be reached: {why}", self.server)
            }
            _ => Error::new(error).context(format!("{what} at {}", self.server)),
        }
    }

    async fn serves_us(&self) -> bool {
        let discovered = self.get(Ok(JOBS.discovery())).await;
        !matches!(discovered, Err(error) if code(&error) == Some(404))
    }
}

/// Runs what asks the API server to its end.
pub(crate) fn block_on<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(asked)
}

/// The proxy that the kubeconfig names for the cluster that is chosen.
fn own_proxy(file: &Kubeconfig, target: &Target) -> Option<String> {
    let context = target.context.as_ref().or(file.current_context.as_ref());
    let context = file.contexts.iter().find(|one| Some(&one.name) == context);
    let of_context = context.and_then(|one| Some(&one.context.as_ref()?.cluster));
    let cluster = target.cluster.as_ref().or(of_context)?;
    let cluster = file.clusters.iter().find(|one| one.name == *cluster)?;
    let proxy = cluster.cluster.as_ref()?.proxy_url.clone();
    proxy.filter(|proxy| !proxy.is_empty())
}

/// Asks as somebody else. What the kubeconfig says of that holds unless a flag says otherwise.
fn impersonate(config: &mut Config, target: &Target) -> Result<()> {
    if target.as_user.is_none() && !target.as_groups.is_empty() {
        return Err(anyhow!("--as-group: name a user, too, with --as"));
    }
    if let Some(user) = &target.as_user {
        let groups = &target.as_groups;
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
    }
    Ok(())
}

/// Whether what is chosen by flags is in the kubeconfig: a user who is not would be anonymous.
fn has_chosen(target: &Target, file: &Kubeconfig) -> Result<()> {
    let contexts = file.contexts.iter().map(|context| &context.name);
    let clusters = file.clusters.iter().map(|cluster| &cluster.name);
    let users = file.auth_infos.iter().map(|user| &user.name);
    is_among(("context", target.context.as_ref()), contexts)?;
    is_among(("cluster", target.cluster.as_ref()), clusters)?;
    is_among(("user", target.user.as_ref()), users)
}

fn is_among<'f>(
    (what, wanted): (&str, Option<&String>),
    all: impl Iterator<Item = &'f String>,
) -> Result<()> {
    let all: Vec<String> = all.cloned().collect();
    match wanted {
        Some(wanted) if !all.contains(wanted) => {
            Err(problem::not_in_kubeconfig(what, wanted, &all))
        }
        _ => Ok(()),
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The reply, of which no more than [`LARGEST_REPLY`] is read.
fn bounded<B>(reply: Response<B>) -> Response<impl http_body::Body<Data = Bytes, Error = BoxError>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let words = |error: BoxError| {
        if error.is::<LengthLimitError>() {
            format!("the reply has more than {LARGEST_REPLY} bytes").into()
        } else {
            error
        }
    };
    reply.map(|body| Limited::new(body, LARGEST_REPLY).map_err(words))
}

/// What the API server would say of an object that cannot be.
fn not_found(error: &NoSegment) -> kube::Error {
    let mut status = Status::failure(&error.to_string(), "NotFound");
    status.code = 404;
    kube::Error::Api(Box::new(status))
}

/// HTTP code of an answer.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// `metadata.name`.
pub(crate) fn name_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}
