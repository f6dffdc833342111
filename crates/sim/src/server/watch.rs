//! A watch: what is asked for, and which changes concern it.

use std::sync::Arc;
use std::time::Duration;

use carillon_oracle::Step;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::Call;
use crate::client::faults::Event;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Store, at_revision, within};

/// How long a watch lasts for which no time was asked.
const DEFAULT_LIFE: Duration = Duration::from_mins(45);

/// What is to be watched, and from where.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(super) call: Arc<Call>,
    kind: &'static Kind,
    selector: Selector,
    pub(super) position: u64,
    /// Lines that come before the first change.
    pub(super) first: Vec<String>,
    /// Whether the first lines are the last.
    pub(super) refused: bool,
    pub(super) bookmarks: bool,
    pub(super) life: Duration,
    /// How often the server was restored by then.
    pub(super) restored: u64,
}

impl Watch {
    /// A watch of a store that was restored so often.
    pub(super) fn open(
        store: &Store,
        restored: u64,
        call: &Arc<Call>,
        kind: &'static Kind,
    ) -> Result<Self, Status> {
        let number = |name: &str| match call.parameter(name) {
            "" => Ok(None),
            text => text.parse::<u64>().map(Some).map_err(|_| {
                Status::bad_request(format!("invalid {name}: {text:?} is not a number"))
            }),
        };
        let from = number("resourceVersion")?.unwrap_or(0);
        let life = number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let mut watch = Self {
            call: call.clone(),
            kind,
            selector: Selector::parse(call.parameter("labelSelector"))?,
            position: from,
            first: Vec::new(),
            refused: false,
            bookmarks: ["true", "1"].contains(&call.parameter("allowWatchBookmarks")),
            life: life.map_or(DEFAULT_LIFE, Duration::from_secs),
            restored,
        };
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
        Ok(watch)
    }

    pub(super) fn line(&self, kind: &str, object: &Value) -> String {
        // Each event is of one object, so a list is never asked for.
        let object = self.call.partial.view(object);
        line(kind, &object.unwrap_or_default())
    }

    /// The next change that concerns this watch, if there is one yet.
    pub(super) fn next_event(&mut self, store: &Store) -> Option<(Event, Timestamp)> {
        let resource = self.call.resource();
        for step in store.since(self.position) {
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
        self.position = self.position.max(store.revision());
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

    pub(super) fn bookmark(&self) -> String {
        let object = json!({
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": self.position.to_string()},
        });
        self.line("BOOKMARK", &object)
    }
}

/// The last line of a watch that asks for what is no longer there.
pub(super) fn gone(message: &str) -> String {
    line("ERROR", &Status::expired(message).body())
}

/// The type first, as the API server does; readers rely on it.
fn line(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}
