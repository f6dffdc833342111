//! The loop over one kind in one scope.

use std::{fmt, marker::PhantomData, time::Duration};

use bytes::Bytes;
use http::header;
use http_body_util::BodyExt;
use kube::core::Status;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    address::Address,
    answer::{OPEN_TIMEOUT, next_chunk},
    audit::Audit,
    counters::Counters,
    frames::{End, Event, Frames, Lines, RawEvent, identify, refusal},
    handle::Handle,
    pages::PageSize,
    sink::Sink,
    watched::Watched,
};
use crate::{
    protobuf::{MEDIA_TYPE, Message},
    transport::{Transport, bounded, causes, status_of},
};

/// Shortest and longest watch asked for, in seconds. Each watch draws its own, so that the kinds do
/// not all reconnect at once.
const WATCH_SECONDS: std::ops::RangeInclusive<u32> = 300..=600;
/// A healthy watch says something, if only a bookmark, about once a minute, unless nothing at all has changed and etcd
/// tells the API server of its progress more seldom.
const IDLE_TIMEOUT: Duration = Duration::from_mins(3);
/// After this long of nothing but errors the list is read anew.
const ERRORS_BEFORE_RELIST: Duration = Duration::from_mins(2);
/// A watch that lived this long was a healthy one.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
pub(super) const JSON: &str = "application/json";
/// Half the bytes for both sides, and the API server shares it with its other watchers.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";
/// When the list of all objects has failed where a part is enough for some: how long those have their part.
const ALL_AGAIN: Duration = Duration::from_mins(1);
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(800)..=Duration::from_secs(30);

/// The list and watch of one kind in one scope.
pub struct Loop<K, S> {
    pub(super) transport: Transport,
    pub(super) address: Address,
    pub(super) page_size: PageSize,
    pub(super) sink: S,
    pub(super) audit: Audit,
    pub(super) counters: Counters,
    pub(super) handle: Handle,
    pub(super) asked: watch::Receiver<u64>,
    /// Which of the kind's loops it is.
    pub(super) number: usize,
    pub(super) object: PhantomData<fn() -> K>,
}

/// The API server does not know any more what it has told: it was restored from a backup. Whatever this process
/// remembers may never have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server has another history: it was at resourceVersion {seen} and is at {found}")]
pub struct AnotherHistory {
    seen: u64,
    found: u64,
}

impl AnotherHistory {
    /// What was seen must be below or at what is found.
    pub(super) fn none_between(seen: u64, found: u64) -> Result<(), Self> {
        if found < seen {
            return Err(Self { seen, found });
        }
        Ok(())
    }
}

impl<K, S> fmt::Debug for Loop<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loop").field(&self.address).finish()
    }
}

impl<K: Watched, S: Sink<K>> Loop<K, S> {
    /// Lists and watches until `shutdown`.
    ///
    /// # Errors
    /// When the API server was restored from a backup.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), AnotherHistory> {
        self.handle.heard(self.number);
        // Cancelling between two awaits is safe: the sink is only called between them.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            error = self.list_and_watch() => Err(error),
        }
    }

    async fn list_and_watch(&mut self) -> AnotherHistory {
        let mut first = true;
        let mut rv = 0;
        let mut lists = Backoff::default();
        // After a list of all objects has failed: when the next one is tried.
        let mut all_again = Instant::now();
        loop {
            let asked = *self.asked.borrow_and_update();
            // Not within a list: all its pages are of the same objects.
            let all = self.handle.wants_all() && Instant::now() >= all_again;
            self.address.select(all);
            self.audit.select(all);
            self.tell_whether_synced();
            self.audit.give_up("the kind is listed anew");
            if !first {
                self.counters.relists.inc();
                // Before the first object of another history is taken in.
                if let Err(error) = self.how_far(rv).await {
                    return error;
                }
            }
            let listed = match self.list().await {
                Ok(listed) => listed,
                Err(error) => {
                    self.note_failure("list failed", &error);
                    if all && !self.address.always_selects_all() {
                        // Those who need a part only must not wait for the whole.
                        all_again = Instant::now() + ALL_AGAIN;
                    } else {
                        sleep(lists.next()).await;
                    }
                    continue;
                }
            };
            if let Err(error) = AnotherHistory::none_between(rv, listed) {
                return error;
            }
            rv = listed;
            self.sink.relist_done(rv);
            self.audit.later();
            first = false;
            let all = self.address.selects_all();
            self.handle.listed(self.number, asked, all);
            self.tell_whether_synced();
            let began = Instant::now();
            let watched = async {
                if all || !self.handle.wants_all() {
                    return self.watch(&mut rv).await;
                }
                let watched = timeout_at(all_again, self.watch(&mut rv)).await;
                watched.unwrap_or(Ok("all objects are wanted"))
            };
            let why = match watched.await {
                Ok(why) => why,
                Err(error) => return error,
            };
            tracing::info!(
                kind = self.counters.kind,
                path = %self.address,
                why,
                "listing again"
            );
            // Lists are dear: a server that sends us back at once is not asked at once again.
            if began.elapsed() > HEALTHY_AFTER {
                lists = Backoff::default();
            } else if !self.handle.is_awaited(self.number) && all == self.handle.wants_all() {
                sleep(lists.next()).await;
            }
        }
    }

    fn note_failure(&self, what: &str, error: &str) {
        self.counters.errors.inc();
        tracing::warn!(kind = self.counters.kind, path = %self.address, %error, "{what}");
    }

    /// A new leader decides nothing before lists that it begins, however full the cache is.
    fn tell_whether_synced(&self) {
        self.counters.synced.set(i64::from(self.handle.is_synced()));
    }

    /// How far the server has come, if it says so. It must still have what it has told up to `rv`.
    async fn how_far(&mut self, rv: u64) -> Result<Option<u64>, AnotherHistory> {
        match self.version_of_now().await {
            Ok(now) => {
                AnotherHistory::none_between(rv, now)?;
                if now == rv {
                    self.handle.heard(self.number);
                }
                Ok(Some(now))
            }
            Err(error) => {
                self.note_failure("its version is not known", &error);
                Ok(None)
            }
        }
    }

    /// Watches from `rv`, reconnecting, until only a new list helps; returns why.
    async fn watch(&mut self, rv: &mut u64) -> Result<&'static str, AnotherHistory> {
        let mut backoff = Backoff::default();
        let mut healthy = Instant::now();
        // How far the server had come when a silent watch was asked about, and when that was.
        let mut goal: Option<(u64, Instant)> = None;
        loop {
            let (from, mut opened) = (*rv, None);
            let mut relist = self.asked.clone();
            let end = tokio::select! {
                biased;
                // Before the watch: it may have been asked for while the list was under way.
                _ = relist.changed() => End::Relist("asked to"),
                end = self.watch_once(rv, &mut opened) => end,
            };
            let has_lasted = opened.is_some_and(|at: Instant| at.elapsed() > HEALTHY_AFTER);
            if *rv > from || has_lasted {
                healthy = Instant::now();
                backoff = Backoff::default();
            }
            // One that closes again and again at once is a failure in disguise.
            let mut may_reconnect_at_once = has_lasted;
            // Something on the way may cut what is quiet off each time before it says anything.
            let mut is_silent = self.handle.silence_of(self.number) >= IDLE_TIMEOUT;
            match end {
                End::Relist(why) => return Ok(why),
                End::Closed => {}
                End::Silent => is_silent = true,
                End::Failed(error) => {
                    self.note_failure("watch failed", &error);
                    may_reconnect_at_once = false;
                }
            }
            let asked_lately = goal.is_some_and(|(_, at)| at.elapsed() < IDLE_TIMEOUT);
            if is_silent && !asked_lately {
                if goal.is_some_and(|(goal, _)| *rv < goal) {
                    return Ok("the watch says nothing although the server goes on");
                }
                goal = self.how_far(*rv).await?.map(|now| (now, Instant::now()));
            }
            if healthy.elapsed() > ERRORS_BEFORE_RELIST {
                return Ok("nothing but errors");
            }
            if !may_reconnect_at_once && timeout(backoff.next(), relist.changed()).await.is_ok() {
                return Ok("asked to");
            }
            self.counters.restarts.inc();
        }
    }

    /// One watch request; `rv` moves on with what is delivered. Tells when it was `opened`.
    async fn watch_once(&mut self, rv: &mut u64, opened: &mut Option<Instant>) -> End {
        let seconds = fastrand::u32(WATCH_SECONDS);
        let query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &rv.to_string()),
            ("timeoutSeconds", &seconds.to_string()),
        ];
        let accept = if K::PROTOBUF.is_some() {
            PROTOBUF_OR_JSON
        } else {
            JSON
        };
        let request = match self.address.request(&query, accept) {
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
            let text = match timeout(OPEN_TIMEOUT, bounded(body).collect()).await {
                Ok(Ok(body)) => body.to_bytes(),
                _ => Bytes::new(),
            };
            return refusal(&status_of(parts.status, &text));
        }
        *opened = Some(Instant::now());
        let schema = K::PROTOBUF.filter(|_| is_protobuf(&parts.headers));
        let (mut lines, mut frames) = (Lines::default(), Frames::default());
        let mut silent = Instant::now() + IDLE_TIMEOUT;
        loop {
            tokio::select! {
                biased;
                chunk = timeout_at(silent, next_chunk(&mut body)) => {
                    let chunk = match chunk {
                        Ok(Ok(Some(chunk))) => chunk,
                        // What is left is half a line: it comes again.
                        Ok(Ok(None)) => return End::Closed,
                        Ok(Err(error)) => return End::Failed(error),
                        Err(_) => return End::Silent,
                    };
                    silent = Instant::now() + IDLE_TIMEOUT;
                    let pushed = match schema {
                        Some(schema) => frames.push(&chunk, |frame| self.frame(frame, schema, rv)),
                        None => lines.push(&chunk, |line| self.event(line, rv)),
                    };
                    if let Err(end) = pushed {
                        return end;
                    }
                    self.handle.heard(self.number);
                }
                turn = self.audit.turn() => self.audit.go_on(turn, self.page_size, &self.sink),
            }
            if let Err(end) = self.audit.end(*rv, &self.sink) {
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

    /// Delivers one frame of a watch. What cannot be decoded is left to the list, which is JSON.
    fn frame(&mut self, frame: &[u8], schema: &'static Message, rv: &mut u64) -> Result<(), End> {
        match Event::read(frame, schema) {
            Ok(event) => self.deliver_event(event, rv),
            Err(error) => {
                tracing::warn!(kind = self.counters.kind, %error, "an event cannot be decoded");
                Err(End::Relist("an event cannot be decoded"))
            }
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
        if let Event::Added(object) | Event::Modified(object) | Event::Deleted(object) = &event {
            self.audit.touch(object.uid());
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
        self.audit.touch(id.uid.parse().ok());
        if let Some(object_rv) = object_rv.filter(|object_rv| object_rv > rv) {
            *rv = object_rv;
            self.sink.progress(object_rv);
        }
        Ok(())
    }
}

fn is_protobuf(headers: &http::HeaderMap) -> bool {
    let content = headers.get(header::CONTENT_TYPE);
    content.is_some_and(|content| content.as_bytes().starts_with(MEDIA_TYPE.as_bytes()))
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
