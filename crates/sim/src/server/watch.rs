//! Watches: a line per change, as it happens.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carillon_oracle::Step;
use http_body::Frame;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;

use super::{Answer, Server, State};
use crate::call::Call;
use crate::client::faults::{Event, EventFate, Faults, Leg};
use crate::kind::Kind;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{at_revision, within};

const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch lasts for which no time was asked.
const DEFAULT_LIFE: Duration = Duration::from_mins(45);

/// What is to be watched, and from where.
#[derive(Clone)]
pub(crate) struct Watch {
    server: Server,
    call: Arc<Call>,
    kind: &'static Kind,
    selector: Selector,
    position: u64,
    /// Lines that come before the first change.
    first: Vec<Value>,
    /// Whether the first lines are the last.
    refused: bool,
    bookmarks: bool,
    life: Duration,
    /// How often the server was restored by then.
    restored: u64,
}

impl Watch {
    pub(super) fn open(
        server: Server,
        state: &State,
        call: &Arc<Call>,
        kind: &'static Kind,
    ) -> Result<Answer, Status> {
        let number = |name: &str| match call.parameter(name) {
            "" => Ok(None),
            text => text.parse::<u64>().map(Some).map_err(|_| {
                Status::bad_request(format!("invalid {name}: {text:?} is not a number"))
            }),
        };
        let from = number("resourceVersion")?.unwrap_or(0);
        let life = number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let mut watch = Self {
            server,
            call: call.clone(),
            kind,
            selector: Selector::parse(call.parameter("labelSelector"))?,
            position: from,
            first: Vec::new(),
            refused: false,
            bookmarks: ["true", "1"].contains(&call.parameter("allowWatchBookmarks")),
            life: life.map_or(DEFAULT_LIFE, Duration::from_secs),
            restored: state.restored,
        };
        let store = &state.store;
        if from == 0 {
            watch.position = store.revision();
            for (_, object) in store.each(&call.resource(), &call.namespace, None) {
                if watch.selector.matches(object) {
                    watch.first.push(watch.line("ADDED", object));
                }
            }
        } else if from < store.compacted() {
            let message = format!("too old resource version: {from} ({})", store.compacted());
            watch.first.push(gone(&message));
            watch.refused = true;
        }
        Ok(Answer::Watch(Box::new(watch)))
    }

    fn line(&self, kind: &str, object: &Value) -> Value {
        // Each event is of one object, so a list is never asked for.
        let object = self.call.partial.view(object);
        let object = object.map(Cow::into_owned).unwrap_or_default();
        json!({"type": kind, "object": object})
    }

    /// The next change that concerns this watch, if there is one yet.
    fn next_event(&mut self) -> Option<(Event, Timestamp)> {
        let state = self.server.state();
        let resource = self.call.resource();
        for step in state.store.since(self.position) {
            self.position = step.rev;
            if !within(&step.key, &resource, &self.call.namespace) {
                continue;
            }
            if let Some((kind, object)) = self.event(step) {
                let event = Event {
                    kind,
                    key: step.key.clone(),
                    revision: step.rev,
                    object,
                };
                return Some((event, step.at));
            }
        }
        // A revision from the future is waited for.
        self.position = self.position.max(state.store.revision());
        None
    }

    /// What a change looks like through the selector.
    fn event(&self, step: &Step) -> Option<(&'static str, Arc<Value>)> {
        let seen = |object: &Option<Arc<Value>>| {
            object
                .clone()
                .filter(|object| self.selector.matches(object))
        };
        match (seen(&step.old), seen(&step.new)) {
            (None, Some(new)) => Some(("ADDED", new)),
            (Some(_), Some(new)) => Some(("MODIFIED", new)),
            // What has left the selector is shown as it last was.
            (Some(old), None) => Some(("DELETED", at_revision(&old, step.rev).into())),
            (None, None) => None,
        }
    }

    /// Whether the server was started anew since.
    fn is_cut_off(&self) -> bool {
        self.server.state().restored != self.restored
    }

    /// A server that has not come as far as this watch has nothing to say.
    fn is_ahead(&self) -> bool {
        self.position > self.server.revision()
    }

    fn bookmark(&self) -> Value {
        let object = json!({
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": self.position.to_string()},
        });
        self.line("BOOKMARK", &object)
    }

    /// The stream of a client whose connection has `faults`.
    pub(crate) fn stream(self, faults: Arc<dyn Faults>) -> Stream {
        Stream {
            changes: self.server.changes(),
            ends: Instant::now() + self.life,
            bookmark: Instant::now() + BOOKMARK_EVERY,
            lines: self.first.iter().map(|line| Ok(chunk(line))).collect(),
            over: self.refused,
            watch: self,
            faults,
        }
    }
}

/// A watch that is open.
pub(crate) struct Stream {
    watch: Watch,
    faults: Arc<dyn Faults>,
    changes: crate::changes::Changes,
    lines: VecDeque<Result<Frame<Bytes>, BoxError>>,
    ends: Instant,
    bookmark: Instant,
    over: bool,
}

impl Stream {
    /// The next piece; `None` when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.over || Instant::now() >= self.ends {
                return None;
            }
            self.changes.see();
            if self.watch.is_cut_off() {
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                self.over = true;
                return Some(Err(error.into()));
            }
            if let Some((event, at)) = self.watch.next_event() {
                self.deliver(&event, at).await;
                continue;
            }
            if self.watch.bookmarks && Instant::now() >= self.bookmark {
                self.bookmark = Instant::now() + BOOKMARK_EVERY;
                if self.watch.is_ahead() {
                    continue;
                }
                let line = self.watch.bookmark();
                self.lines.push_back(Ok(chunk(&line)));
                continue;
            }
            tokio::select! {
                biased;
                () = self.changes.changed() => {}
                () = sleep_until(self.ends) => {}
                () = sleep_until(self.bookmark), if self.watch.bookmarks => {}
            }
        }
    }

    async fn deliver(&mut self, event: &Event, at: Timestamp) {
        let call = &self.watch.call;
        let travelled = self.watch.server.now().duration_since(at);
        let travelled = Duration::try_from(travelled).unwrap_or_default();
        let latency = self.faults.latency(call, Leg::Event);
        sleep(latency.saturating_sub(travelled)).await;
        let line = chunk(&self.watch.line(event.kind, &event.object));
        match self.faults.on_event(call, event) {
            EventFate::Deliver => self.lines.push_back(Ok(line)),
            EventFate::Drop => {}
            EventFate::Twice => {
                let again = chunk(&self.watch.line(event.kind, &event.object));
                self.lines.extend([Ok(line), Ok(again)]);
            }
            EventFate::Delay(time) => {
                sleep(time).await;
                self.lines.push_back(Ok(line));
            }
            EventFate::Hold(gate) => {
                gate.pass().await;
                self.lines.push_back(Ok(line));
            }
            EventFate::Close => self.over = true,
            EventFate::Reset => {
                let half = line.into_data().unwrap_or_default();
                let half = half.slice(..half.len() / 2);
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                self.lines
                    .extend([Ok(Frame::data(half)), Err(error.into())]);
                self.over = true;
            }
            EventFate::Gone => {
                let gone = gone("The resourceVersion for the provided watch is too old.");
                self.lines.push_back(Ok(chunk(&gone)));
                self.over = true;
            }
        }
    }
}

fn gone(message: &str) -> Value {
    json!({"type": "ERROR", "object": Status::expired(message).body()})
}

fn chunk(line: &Value) -> Frame<Bytes> {
    let mut text = write_line(line);
    text.push('\n');
    Frame::data(text.into())
}

/// The type first, as the API server does; readers rely on it.
fn write_line(line: &Value) -> String {
    format!(
        "{{\"type\":{},\"object\":{}}}",
        line["type"], line["object"]
    )
}
