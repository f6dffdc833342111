//! List and watch of one kind, into a [`Sink`].
//!
//! kube's own watcher keeps to itself what the gate needs: the resourceVersion of lists and
//! bookmarks. It also stops at the first object it cannot decode, and retries for ever where only
//! a new list helps. The loop here:
//!
//! - lists in pages by quorum read (no `resourceVersion`, never `0`): a list is never older than
//!   what was seen before, whichever API server answers;
//! - watches from the list's resourceVersion with bookmarks; a watch that ends goes on where it was;
//! - lists again after 410 (as event or as HTTP status), when the server's resourceVersions went
//!   back (a restored backup), after two minutes of nothing but errors, and when asked to;
//! - skips an object that cannot be decoded, names it in the log, and tells the sink.
//!
//! Each object is parsed once, from the bytes received, straight into the slim type.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    marker::PhantomData,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::core::Status;
use prometheus::{IntCounter, IntGauge};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    api_client::{RequestBody, ResponseBody, Transport, causes, status_of},
    metrics::Metrics,
};

/// Objects asked for in one page of a list.
const PAGE: u32 = 500;
/// Shortest and longest watch asked for, in seconds. Each watch draws its own, so that the kinds do
/// not all reconnect at once.
const WATCH_SECONDS: std::ops::RangeInclusive<u32> = 300..=600;
/// How long to wait for a page, or for a watch to open.
const OPEN_TIMEOUT: Duration = Duration::from_mins(1);
/// A healthy watch says something (a bookmark) about once a minute.
const IDLE_TIMEOUT: Duration = Duration::from_mins(3);
/// After this long of nothing but errors the list is read anew.
const ERRORS_BEFORE_RELIST: Duration = Duration::from_mins(2);
/// A watch that lived this long was a healthy one.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(800)..=Duration::from_secs(30);
/// etcd holds objects of 1.5 MiB by default; a line far beyond that is not one of them.
const LONGEST_LINE: usize = 32 << 20;

/// An object that can be watched. Every [`kube::Resource`] is one; others say where their
/// resourceVersion is.
pub trait Watched: DeserializeOwned + Send + 'static {
    /// `metadata.resourceVersion`; `None` when it is missing or not a number.
    fn resource_version(&self) -> Option<u64>;
}

impl<K: kube::Resource + DeserializeOwned + Send + 'static> Watched for K {
    fn resource_version(&self) -> Option<u64> {
        self.meta().resource_version.as_deref()?.parse().ok()
    }
}

/// Where the objects of one loop go. Called synchronously, by one task, in the server's order.
///
/// A list is `relist_begin`, `relist_item`…, `relist_done`; objects held before that were not among
/// the items are gone. `relist_begin` may come again before `relist_done`, when a list had to be
/// started over.
pub trait Sink<K>: Send + 'static {
    /// A full list follows.
    fn relist_begin(&mut self);
    /// An object of the list.
    fn relist_item(&mut self, object: K);
    /// The list is complete and shows the state at `rv`.
    fn relist_done(&mut self, rv: u64);
    /// An object was created or changed. Its own resourceVersion has been reached.
    fn applied(&mut self, object: K);
    /// An object was deleted, or left the selector; this is its last state, whose resourceVersion
    /// is that of the deletion.
    fn deleted(&mut self, object: K);
    /// Every change up to `rv` has been delivered.
    fn progress(&mut self, rv: u64);
    /// An object cannot be decoded. In a list (`deleted` false) it exists all the same, and a row
    /// held for it must not be taken for gone.
    fn undecodable(&mut self, _id: &ObjectId, _deleted: bool) {}
}

/// What could be read of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectId {
    /// `metadata.namespace`, or empty.
    pub namespace: String,
    /// `metadata.name`, or empty.
    pub name: String,
    /// `metadata.uid`, or empty.
    pub uid: String,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name in logs and metrics.
    pub kind: &'static str,
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// The resource's name in URLs.
    pub plural: &'static str,
    /// Label selector; all objects when empty.
    pub labels: String,
}

impl Source {
    fn path(&self, namespace: Option<&str>) -> String {
        let Self {
            group,
            version,
            plural,
            ..
        } = self;
        let api = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        match namespace {
            None => format!("{api}/{plural}"),
            Some(namespace) => format!("{api}/namespaces/{namespace}/{plural}"),
        }
    }
}

/// Knows and steers the loops of one kind; clones are the same.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: &'static str,
    unsynced: watch::Sender<usize>,
    relist: watch::Sender<u64>,
}

impl Handle {
    /// The kind's name in logs and metrics.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Whether every loop of the kind has delivered a full list.
    pub fn is_synced(&self) -> bool {
        *self.unsynced.borrow() == 0
    }

    /// Waits until [`Handle::is_synced`].
    pub async fn synced(&self) {
        // The sender lives as long as `self`.
        let _ = self.unsynced.subscribe().wait_for(|n| *n == 0).await;
    }

    /// Asks every loop of the kind for a full list, soon.
    pub fn relist(&self) {
        self.relist.send_modify(|n| *n = n.wrapping_add(1));
    }
}

/// One loop for the whole cluster, or one per namespace when `namespaces` is not empty, each with
/// a sink of its own. Run each of them in a task of its own.
pub fn prepare<K: Watched, S: Sink<K>>(
    transport: &Transport,
    source: &Source,
    namespaces: &[String],
    mut sink: impl FnMut(Option<&str>) -> S,
    metrics: &Metrics,
) -> (Handle, Vec<Loop<K, S>>) {
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.iter().map(|n| Some(n.as_str())).collect()
    };
    let handle = Handle {
        kind: source.kind,
        unsynced: watch::Sender::new(scopes.len()),
        relist: watch::Sender::new(0),
    };
    let counters = Counters::new(source.kind, metrics);
    let loops = scopes
        .into_iter()
        .map(|namespace| Loop {
            transport: transport.clone(),
            path: source.path(namespace),
            labels: source.labels.clone(),
            sink: sink(namespace),
            counters: counters.clone(),
            relist: handle.relist.subscribe(),
            handle: handle.clone(),
            object: PhantomData,
        })
        .collect();
    (handle, loops)
}

#[derive(Clone)]
struct Counters {
    kind: &'static str,
    synced: IntGauge,
    listed: IntCounter,
    added: IntCounter,
    modified: IntCounter,
    deleted: IntCounter,
    bookmarks: IntCounter,
    errors: IntCounter,
    restarts: IntCounter,
    relists: IntCounter,
    undecodable: IntCounter,
}

impl Counters {
    fn new(kind: &'static str, metrics: &Metrics) -> Self {
        let events = |event| metrics.watch_events.with_label_values(&[kind, event]);
        Self {
            kind,
            synced: metrics.watch_synced.with_label_values(&[kind]),
            listed: events("LISTED"),
            added: events("ADDED"),
            modified: events("MODIFIED"),
            deleted: events("DELETED"),
            bookmarks: events("BOOKMARK"),
            errors: metrics.watch_errors.with_label_values(&[kind]),
            restarts: metrics.watch_restarts.with_label_values(&[kind]),
            relists: metrics.watch_relists.with_label_values(&[kind]),
            undecodable: metrics.watch_undecodable.with_label_values(&[kind]),
        }
    }

    fn skipped(&self, id: &ObjectId, error: &serde_json::Error) {
        self.undecodable.inc();
        tracing::warn!(
            kind = self.kind,
            namespace = id.namespace,
            name = id.name,
            %error,
            "object skipped, it cannot be decoded"
        );
    }
}

/// The list and watch of one kind in one scope.
pub struct Loop<K, S> {
    transport: Transport,
    path: String,
    labels: String,
    sink: S,
    counters: Counters,
    handle: Handle,
    relist: watch::Receiver<u64>,
    object: PhantomData<fn() -> K>,
}

impl<K, S> fmt::Debug for Loop<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loop").field(&self.path).finish()
    }
}

/// Why a watch ended.
#[derive(Debug)]
enum End {
    /// The server closed it, as it does when its time is over.
    Closed,
    /// Only a new list helps, and why.
    Relist(&'static str),
    /// Anything else.
    Failed(String),
}

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// Lists and watches until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // Cancelling between two awaits is safe: the sink is only called between them.
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.list_and_watch() => {}
        }
    }

    async fn list_and_watch(&mut self) {
        let mut first = true;
        let mut lists = Backoff::default();
        loop {
            self.relist.mark_unchanged();
            if !first {
                self.counters.relists.inc();
            }
            let rv = match self.list().await {
                Ok(rv) => rv,
                Err(error) => {
                    self.counters.errors.inc();
                    tracing::warn!(kind = self.counters.kind, path = self.path, %error, "list failed");
                    sleep(lists.next()).await;
                    continue;
                }
            };
            if first {
                first = false;
                let mut synced = false;
                self.handle.unsynced.send_modify(|n| {
                    *n -= 1;
                    synced = *n == 0;
                });
                if synced {
                    self.counters.synced.set(1);
                }
            }
            let began = Instant::now();
            let why = self.watch(rv).await;
            tracing::info!(
                kind = self.counters.kind,
                path = self.path,
                why,
                "listing again"
            );
            // Lists are dear: a server that sends us back at once is not asked at once again.
            if began.elapsed() > HEALTHY_AFTER {
                lists = Backoff::default();
            } else {
                sleep(lists.next()).await;
            }
        }
    }

    /// Reads all pages; the resourceVersion of the list.
    async fn list(&mut self) -> Result<u64, String> {
        self.sink.relist_begin();
        let mut next = String::new();
        let mut buffer = Vec::new();
        loop {
            let mut query = vec![("limit", Cow::from(PAGE.to_string()))];
            if !next.is_empty() {
                query.push(("continue", Cow::from(next.as_str())));
            }
            let request = self.request(query)?;
            timeout(OPEN_TIMEOUT, self.page(request, &mut buffer))
                .await
                .unwrap_or_else(|_| Err(format!("no page within {OPEN_TIMEOUT:?}")))?;
            let (rv, more) = self.deliver(&buffer)?;
            if more.is_empty() {
                self.sink.relist_done(rv);
                return Ok(rv);
            }
            next = more;
        }
    }

    /// Reads one page into `buffer`.
    async fn page(
        &self,
        request: Request<RequestBody>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), String> {
        let response = self
            .transport
            .call(request)
            .await
            .map_err(|e| causes(&*e))?;
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
            let status = status_of(code, buffer);
            Err(format!("{} ({code})", status.message))
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
        let rv = metadata.resource_version.parse().map_err(|_| {
            format!(
                "list without resourceVersion: '{}'",
                metadata.resource_version
            )
        })?;
        Ok((rv, metadata.r#continue))
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

    /// Watches from `rv`, reconnecting, until only a new list helps; returns why.
    async fn watch(&mut self, mut rv: u64) -> &'static str {
        let mut backoff = Backoff::default();
        let mut healthy = Instant::now();
        let mut first = true;
        loop {
            if !std::mem::take(&mut first) {
                self.counters.restarts.inc();
            }
            let (began, from) = (Instant::now(), rv);
            let mut relist = self.relist.clone();
            let end = tokio::select! {
                end = self.watch_once(&mut rv) => end,
                _ = relist.changed() => End::Relist("asked to"),
            };
            if rv > from || began.elapsed() > HEALTHY_AFTER {
                healthy = Instant::now();
                backoff = Backoff::default();
            }
            match end {
                // The usual end after minutes. One that closes again and again at once is a
                // failure in disguise.
                End::Closed if began.elapsed() > HEALTHY_AFTER => continue,
                End::Closed => {}
                End::Relist(why) => return why,
                End::Failed(error) => {
                    self.counters.errors.inc();
                    tracing::warn!(kind = self.counters.kind, path = self.path, %error, "watch failed");
                }
            }
            if healthy.elapsed() > ERRORS_BEFORE_RELIST {
                return "nothing but errors";
            }
            let mut relist = self.relist.clone();
            tokio::select! {
                () = sleep(backoff.next()) => {}
                _ = relist.changed() => return "asked to",
            }
        }
    }

    /// One watch request; `rv` moves on with what is delivered.
    async fn watch_once(&mut self, rv: &mut u64) -> End {
        let seconds = fastrand::u32(WATCH_SECONDS);
        let request = match self.request(vec![
            ("watch", "true".into()),
            ("allowWatchBookmarks", "true".into()),
            ("resourceVersion", rv.to_string().into()),
            ("timeoutSeconds", seconds.to_string().into()),
        ]) {
            Ok(request) => request,
            Err(error) => return End::Failed(error),
        };
        let response = match timeout(OPEN_TIMEOUT, self.transport.call(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return End::Failed(causes(&*error)),
            Err(_) => return End::Failed(format!("not opened within {OPEN_TIMEOUT:?}")),
        };
        let (parts, mut body) = response.into_parts();
        if !parts.status.is_success() {
            let text = match timeout(OPEN_TIMEOUT, body.collect()).await {
                Ok(Ok(body)) => body.to_bytes(),
                _ => Bytes::new(),
            };
            return refusal(&status_of(parts.status, &text));
        }
        let mut lines = Lines::default();
        loop {
            let chunk = match timeout(IDLE_TIMEOUT, next_chunk(&mut body)).await {
                Ok(Ok(Some(chunk))) => chunk,
                // What is left is half a line: it comes again.
                Ok(Ok(None)) => return End::Closed,
                Ok(Err(error)) => return End::Failed(error),
                Err(_) => return End::Failed(format!("silent for {IDLE_TIMEOUT:?}")),
            };
            if let Err(end) = lines.push(&chunk, |line| self.event(line, rv)) {
                return end;
            }
        }
    }

    /// Delivers one line of a watch.
    fn event(&mut self, line: &[u8], rv: &mut u64) -> Result<(), End> {
        match serde_json::from_slice::<Event<K>>(line) {
            Ok(event) => self.deliver_event(event, rv),
            Err(error) => self.skip(line, rv, &error),
        }
    }

    fn deliver_event(&mut self, event: Event<K>, rv: &mut u64) -> Result<(), End> {
        let object_rv = match &event {
            Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => {
                object.resource_version()
            }
            Event::Bookmark(rv) => Some(*rv),
            Event::Error(status) => return Err(refusal(status)),
            // A type of event newer than this program.
            Event::Other => return Ok(()),
        };
        // Within one watch they only grow. Less means another history: a restored backup.
        match object_rv {
            Some(object_rv) if object_rv >= *rv => *rv = object_rv,
            _ => return Err(End::Relist("the server's resourceVersions went back")),
        }
        match event {
            Event::Added(object) => {
                self.counters.added.inc();
                self.sink.applied(object);
            }
            Event::Modified(object) => {
                self.counters.modified.inc();
                self.sink.applied(object);
            }
            Event::Deleted(object) => {
                self.counters.deleted.inc();
                self.sink.deleted(object);
            }
            Event::Bookmark(_) => {
                self.counters.bookmarks.inc();
                self.sink.progress(*rv);
            }
            Event::Error(_) | Event::Other => {}
        }
        Ok(())
    }

    /// A line that is no event of ours: skip the object if there is one.
    fn skip(&mut self, line: &[u8], rv: &mut u64, error: &serde_json::Error) -> Result<(), End> {
        // A server that fails in the middle of a watch sends a bare Status.
        if let Ok(status) = serde_json::from_slice::<Status>(line)
            && status.is_failure()
        {
            return Err(refusal(&status));
        }
        let Ok(raw) = serde_json::from_slice::<RawEvent<'_>>(line) else {
            return Err(End::Failed(format!("not a watch event: {error}")));
        };
        // Not the object but the order of the fields was strange.
        if let Ok(object) = serde_json::from_str(raw.object.get()) {
            match &*raw.kind {
                "ADDED" => return self.deliver_event(Event::Added(object), rv),
                "MODIFIED" => return self.deliver_event(Event::Modified(object), rv),
                "DELETED" => return self.deliver_event(Event::Deleted(object), rv),
                _ => {}
            }
        }
        let (id, object_rv) = identify(raw.object);
        self.counters.skipped(&id, error);
        self.sink.undecodable(&id, raw.kind == "DELETED");
        if let Some(object_rv) = object_rv.filter(|object_rv| object_rv > rv) {
            *rv = object_rv;
            self.sink.progress(object_rv);
        }
        Ok(())
    }

    fn request<'a>(
        &'a self,
        mut query: Vec<(&'static str, Cow<'a, str>)>,
    ) -> Result<Request<RequestBody>, String> {
        if !self.labels.is_empty() {
            query.push(("labelSelector", Cow::from(self.labels.as_str())));
        }
        let query: Vec<_> = query
            .into_iter()
            .map(|(name, value)| format!("{name}={}", escape(&value)))
            .collect();
        Request::get(format!("{}?{}", self.path, query.join("&")))
            .header(header::ACCEPT, "application/json")
            // One event must not wait in a compressor for the next.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(RequestBody::from(Bytes::new()))
            .map_err(|e| e.to_string())
    }
}

/// What an error status, as event or as response, means for a watch.
fn refusal(status: &Status) -> End {
    if status.code == StatusCode::GONE.as_u16() || status.reason == "Expired" {
        return End::Relist("its resourceVersion is too old");
    }
    // What the server says to a resourceVersion it has not reached: after a restored backup it
    // may take forever to get there.
    if status.message.contains("Too large resource version") {
        return End::Relist("its resourceVersion is in the server's future");
    }
    End::Failed(format!("{} ({})", status.message, status.code))
}

async fn next_chunk(body: &mut ResponseBody) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(causes(&*error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Cuts a stream into lines; a line that came in one piece is not copied.
#[derive(Default)]
struct Lines {
    half: Vec<u8>,
}

impl Lines {
    fn push(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), End>,
    ) -> Result<(), End> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(end);
            chunk = &rest[1..];
            if self.half.is_empty() {
                if !line.trim_ascii().is_empty() {
                    each(line)?;
                }
            } else {
                self.half.extend_from_slice(line);
                // Given back empty, so that one huge object does not stay for ever.
                let whole = std::mem::take(&mut self.half);
                each(&whole)?;
            }
        }
        if self.half.len() + chunk.len() > LONGEST_LINE {
            return Err(End::Failed(format!(
                "a line of more than {LONGEST_LINE} bytes"
            )));
        }
        self.half.extend_from_slice(chunk);
        Ok(())
    }
}

/// Waits of 0.8 s, doubled up to 30 s, each with up to half of it at random.
#[derive(Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    fn next(&mut self) -> Duration {
        let wait = (*BACKOFF.start() * (1 << self.tries.min(10))).min(*BACKOFF.end());
        self.tries += 1;
        wait.mul_f64(1.0 - 0.5 * fastrand::f64())
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn escape(value: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    if value.bytes().all(plain) {
        return value.into();
    }
    let mut out = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if plain(byte) {
            out.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out.into()
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de>"))]
struct Page<K> {
    metadata: PageMeta,
    // Go writes an empty list as null.
    #[serde(default, deserialize_with = "null_is_empty")]
    items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

fn null_is_empty<'de, D, K>(deserializer: D) -> Result<Vec<K>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One line of a watch.
enum Event<K> {
    Added(K),
    Modified(K),
    Deleted(K),
    Bookmark(u64),
    Error(Box<Status>),
    Other,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Type,
    Object,
    #[serde(other)]
    Other,
}

/// By hand, because serde's derive would gather the object in memory before parsing it. The API
/// server writes `type` first; a line where it does not takes the slow way.
impl<'de, K: Deserialize<'de>> Deserialize<'de> for Event<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Line<K>(PhantomData<K>);

        impl<'de, K: Deserialize<'de>> Visitor<'de> for Line<K> {
            type Value = Event<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a watch event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event<K>, A::Error> {
                let missing = serde::de::Error::missing_field;
                let mut kind = None;
                let mut event = None;
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::Type => kind = Some(map.next_value()?),
                        Field::Object => {
                            event = Some(match kind.ok_or_else(|| missing("type"))? {
                                EventType::Added => Event::Added(map.next_value()?),
                                EventType::Modified => Event::Modified(map.next_value()?),
                                EventType::Deleted => Event::Deleted(map.next_value()?),
                                EventType::Bookmark => {
                                    Event::Bookmark(map.next_value::<Bookmark>()?.rv()?)
                                }
                                EventType::Error => Event::Error(map.next_value()?),
                                EventType::Other => {
                                    map.next_value::<IgnoredAny>()?;
                                    Event::Other
                                }
                            });
                        }
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                event.ok_or_else(|| missing("object"))
            }
        }

        deserializer.deserialize_map(Line(PhantomData))
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

impl Bookmark {
    fn rv<E: serde::de::Error>(&self) -> Result<u64, E> {
        self.metadata.resource_version.parse().map_err(E::custom)
    }
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Who an object is, as far as it can be read, and its resourceVersion.
fn identify(object: &RawValue) -> (ObjectId, Option<u64>) {
    // Slow and forgiving: nothing about this object is to be relied on.
    let object: serde_json::Value = serde_json::from_str(object.get()).unwrap_or_default();
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let id = ObjectId {
        namespace: field("namespace").to_owned(),
        name: field("name").to_owned(),
        uid: field("uid").to_owned(),
    };
    (id, field("resourceVersion").parse().ok())
}
