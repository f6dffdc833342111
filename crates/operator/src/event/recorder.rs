//! Where events are told, and the task that writes them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use carillon_plan::printable::one_line;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prometheus::IntCounter;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::limits::{Admission, Limits};
use super::waiting::Waiting;
use super::{Event, Regarding, Severity};
use crate::{lease::Leadership, metrics::Metrics, request, writes::Writes};

/// The API refuses longer notes.
const LONGEST_NOTE: usize = 1024;
/// How long a stopping process still writes what waits.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Whose share of the requests in flight an event takes: there is one writer for all namespaces, and behind the other
/// requests of a busy one it would hold up the events of all.
const OF_NO_NAMESPACE: &str = "";

/// Takes events; clones share one task.
#[derive(Clone, Debug)]
pub struct EventSink {
    queue: Arc<Queue>,
    leadership: Leadership,
    dropped: IntCounter,
}

impl EventSink {
    /// Takes `event` if this process leads. Never waits, never fails: of a namespace that has too many
    /// one is dropped and counted.
    pub fn publish(&self, event: Event) {
        if !self.leadership.is_leader() {
            return;
        }
        if self.queue.waiting().push(event).is_some() {
            self.dropped.inc();
        }
        self.queue.changed.notify_one();
    }
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Events may be lost; a queue that is closed for ever would lose all.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn next(&self) -> Event {
        loop {
            let next = self.waiting().pop();
            match next {
                Some(event) => return event,
                None => self.changed.notified().await,
            }
        }
    }
}

/// The task that writes events; run it once.
#[derive(Debug)]
pub struct EventWriter {
    queue: Arc<Queue>,
    writes: Writes,
    instance: String,
    limits: Limits,
    normal: IntCounter,
    warning: IntCounter,
    dropped: IntCounter,
}

/// A sink and its task. `instance` is this process, such as the lease identity; at most 128 bytes.
pub fn channel(
    writes: Writes,
    leadership: Leadership,
    instance: &str,
    metrics: &Metrics,
) -> (EventSink, EventWriter) {
    let queue = Arc::<Queue>::default();
    let sink = EventSink {
        queue: Arc::clone(&queue),
        leadership,
        dropped: metrics.events_dropped.clone(),
    };
    let written = |severity: Severity| metrics.events.with_label_values(&[severity.as_str()]);
    let task = EventWriter {
        queue,
        writes,
        instance: cut(instance, 128).to_owned(),
        limits: Limits::default(),
        normal: written(Severity::Normal),
        warning: written(Severity::Warning),
        dropped: metrics.events_dropped.clone(),
    };
    (sink, task)
}

impl EventWriter {
    /// Writes events until `shutdown`, and then what still waits, for at most two seconds.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                event = self.queue.next() => event,
            };
            self.write(event).await;
        }
        let queue = Arc::clone(&self.queue);
        let rest = async {
            let pop = || queue.waiting().pop();
            while let Some(event) = pop() {
                self.write(event).await;
            }
        };
        // What is cut off here is lost, as any event may be.
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }

    async fn write(&mut self, event: Event) {
        match self
            .limits
            .admit(&event, tokio::time::Instant::now().into_std())
        {
            Admission::Write => {}
            Admission::Same => return,
            Admission::TooMany => {
                self.dropped.inc();
                return;
            }
        }
        let body = Body::of(&event, &self.instance, self.writes.clock().now());
        let request = request::create_event(&event.regarding.namespace, &body);
        let sent = match self.writes.turn(OF_NO_NAMESPACE).await {
            Ok(turn) => turn.send(request, None).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(_) => match event.severity {
                Severity::Normal => self.normal.inc(),
                Severity::Warning => self.warning.inc(),
            },
            Err(error) => {
                self.dropped.inc();
                tracing::debug!(%error, reason = %event.reason, "event not written");
            }
        }
    }
}

/// An event as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    event_time: MicroTime,
    #[serde(rename = "type")]
    severity: &'static str,
    reason: &'a str,
    action: &'static str,
    note: String,
    reporting_controller: &'static str,
    reporting_instance: &'a str,
    regarding: &'a Regarding,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: String,
    namespace: &'a str,
}

impl<'a> Body<'a> {
    fn of(event: &'a Event, instance: &'a str, now: Timestamp) -> Self {
        let Regarding {
            namespace, name, ..
        } = &event.regarding;
        // Names of events are never read; a random one cannot collide with that of another replica.
        let event_name = format!(
            "{}.{:016x}",
            cut(name, 230).trim_end_matches(['-', '.']),
            fastrand::u64(..)
        );
        Self {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata: Metadata {
                name: event_name,
                namespace,
            },
            event_time: MicroTime(now),
            severity: event.severity.as_str(),
            reason: cut(&event.reason, 128),
            action: cut(event.action, 128),
            note: note(&event.note),
            reporting_controller: event.controller,
            reporting_instance: instance,
            regarding: &event.regarding,
        }
    }
}

/// The note, short enough and harmless to a terminal: parts of it are written by users.
fn note(text: &str) -> String {
    let harmless = one_line(text);
    if harmless.len() <= LONGEST_NOTE {
        return harmless.into_owned();
    }
    format!("{}…", cut(&harmless, LONGEST_NOTE - '…'.len_utf8()))
}

/// At most `bytes` of `text`, cut between characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;
    use super::*;

    #[test]
    fn notes_are_short_and_harmless() {
        assert_eq!(
            note("a\x1b[31m\nb\u{202e}c\u{200f}"),
            "a\u{fffd}[31m b\u{fffd}c\u{fffd}"
        );
        let long = note(&"ä".repeat(2000));
        assert!(long.len() <= LONGEST_NOTE && long.ends_with('…'));
        assert_eq!(note("short"), "short");
    }

    #[test]
    fn events_of_long_names_have_valid_names() {
        let mut event = event("a", "x");
        event.regarding.name = format!("{}.-{}", "a".repeat(229), "b".repeat(22));
        let body = Body::of(&event, "me", Timestamp::UNIX_EPOCH);
        let body = serde_json::to_value(body).unwrap();
        let name = body["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= 253);
        assert!(!name.contains("-.") && !name.contains(".."), "{name}");
        assert_eq!(body["regarding"]["uid"], "a");
        assert!(body["eventTime"].as_str().unwrap().ends_with('Z'));
    }
}
