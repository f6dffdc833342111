//! Events for people, in `events.k8s.io/v1`.
//!
//! Events are written by one background task and may be lost: they never delay a sync. An object
//! gets the same event once in five minutes, and at most 25 at once, then one every 30 seconds
//! (client-go allows one every 300; our notes are already aggregated, "Created 500 pods", and the
//! last of them is the one a user waits for). What is over the limit is counted and dropped.

use std::{
    borrow::Cow,
    collections::HashMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prometheus::IntCounter;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{lease::Leadership, metrics::Metrics, request, writes::Writes};

/// Events waiting to be written.
const WAITING: usize = 1024;
/// The API refuses longer notes.
const LONGEST_NOTE: usize = 1024;
const SAME_EVENT_EVERY: Duration = Duration::from_mins(5);
const BURST: f64 = 25.0;
const ONE_EVERY: Duration = Duration::from_secs(30);
/// Objects remembered at most.
const OBJECTS: usize = 4096;
/// How long a stopping process still writes what waits.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Normal,
    /// Something is wrong, or needs the user.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Regarding {
    /// Such as `carillon.dev/v1alpha1`.
    pub api_version: &'static str,
    /// Such as `BroadcastJob`.
    pub kind: &'static str,
    /// Namespace; the event is written there.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub regarding: Regarding,
    /// Who says it, such as `carillon.dev/broadcastjob-controller`.
    pub controller: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// What was done, UpperCamelCase, at most 128 bytes.
    pub action: &'static str,
    /// Why, UpperCamelCase, at most 128 bytes.
    pub reason: Cow<'static, str>,
    /// For people; cut after 1 KiB, control characters are removed.
    pub note: String,
}

/// Takes events; clones share one task.
#[derive(Clone, Debug)]
pub struct EventSink {
    queue: mpsc::Sender<Event>,
    leadership: Leadership,
    dropped: IntCounter,
}

impl EventSink {
    /// Takes `event` if this process leads. Never waits, never fails: a full queue drops it and
    /// counts that.
    pub fn publish(&self, event: Event) {
        if self.leadership.is_leader() && self.queue.try_send(event).is_err() {
            self.dropped.inc();
        }
    }
}

/// The task that writes events; run it once.
#[derive(Debug)]
pub struct EventWriter {
    queue: mpsc::Receiver<Event>,
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
    let (sender, receiver) = mpsc::channel(WAITING);
    let sink = EventSink {
        queue: sender,
        leadership,
        dropped: metrics.events_dropped.clone(),
    };
    let written = |severity: Severity| metrics.events.with_label_values(&[severity.as_str()]);
    let task = EventWriter {
        queue: receiver,
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
                event = self.queue.recv() => event,
            };
            match event {
                Some(event) => self.write(event).await,
                None => return,
            }
        }
        let rest = async {
            while let Ok(event) = self.queue.try_recv() {
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
        match self.writes.send(request, None).await {
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
    let harmless: String = text
        .chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c => c,
        })
        .filter(|c| {
            // Also what changes the direction of text, which could hide a part of it.
            !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        })
        .collect();
    if harmless.len() <= LONGEST_NOTE {
        return harmless;
    }
    format!("{}…", cut(&harmless, LONGEST_NOTE - '…'.len_utf8()))
}

/// At most `bytes` of `text`, cut between characters.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Write,
    /// Said less than five minutes ago.
    Same,
    TooMany,
}

/// What was said about which object, pure.
#[derive(Debug, Default)]
struct Limits {
    objects: HashMap<String, Said>,
}

#[derive(Debug)]
struct Said {
    tokens: f64,
    at: Instant,
    recent: Vec<(u64, Instant)>,
}

impl Limits {
    fn admit(&mut self, event: &Event, now: Instant) -> Admission {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

        let said = BuildHasherDefault::<DefaultHasher>::default().hash_one((
            &event.reason,
            &event.note,
            event.action,
        ));
        self.make_room(now);
        let object = self
            .objects
            .entry(event.regarding.uid.clone())
            .or_insert_with(|| Said {
                tokens: BURST,
                at: now,
                recent: Vec::new(),
            });
        object
            .recent
            .retain(|(_, at)| now.saturating_duration_since(*at) < SAME_EVENT_EVERY);
        if object.recent.iter().any(|(hash, _)| *hash == said) {
            return Admission::Same;
        }
        let earned =
            now.saturating_duration_since(object.at).as_secs_f64() / ONE_EVERY.as_secs_f64();
        object.tokens = (object.tokens + earned).min(BURST);
        object.at = now;
        if object.tokens < 1.0 {
            return Admission::TooMany;
        }
        object.tokens -= 1.0;
        object.recent.push((said, now));
        Admission::Write
    }

    /// Forgets objects that are quiet; all of them rather than growing without bound.
    fn make_room(&mut self, now: Instant) {
        if self.objects.len() < OBJECTS {
            return;
        }
        self.objects
            .retain(|_, said| now.saturating_duration_since(said.at) < SAME_EVENT_EVERY);
        if self.objects.len() >= OBJECTS {
            self.objects.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(uid: &str, note: &str) -> Event {
        Event {
            regarding: Regarding {
                api_version: "carillon.dev/v1alpha1",
                kind: "BroadcastJob",
                namespace: "ns".into(),
                name: "job".into(),
                uid: uid.into(),
            },
            controller: "carillon.dev/broadcastjob-controller",
            severity: Severity::Normal,
            action: "CreatePods",
            reason: "PodsCreated".into(),
            note: note.into(),
        }
    }

    #[test]
    fn the_same_event_is_said_once_in_five_minutes() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        assert_eq!(limits.admit(&event("a", "x"), t), Admission::Write);
        assert_eq!(limits.admit(&event("a", "x"), t), Admission::Same);
        assert_eq!(limits.admit(&event("a", "y"), t), Admission::Write);
        assert_eq!(limits.admit(&event("b", "x"), t), Admission::Write);
        let later = t + SAME_EVENT_EVERY;
        assert_eq!(limits.admit(&event("a", "x"), later), Admission::Write);
    }

    #[test]
    fn one_object_cannot_flood() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        let written = (0..100)
            .filter(|n| limits.admit(&event("a", &n.to_string()), t) == Admission::Write)
            .count();
        assert_eq!(written, 25);
        assert_eq!(limits.admit(&event("b", "x"), t), Admission::Write);
        let later = t + ONE_EVERY;
        assert_eq!(limits.admit(&event("a", "late"), later), Admission::Write);
        assert_eq!(
            limits.admit(&event("a", "later"), later),
            Admission::TooMany
        );
    }

    #[test]
    fn memory_is_bounded() {
        let (mut limits, t) = (Limits::default(), Instant::now());
        for n in 0..3 * OBJECTS {
            limits.admit(&event(&n.to_string(), "x"), t);
        }
        assert!(limits.objects.len() <= OBJECTS);
    }

    #[test]
    fn notes_are_short_and_harmless() {
        assert_eq!(note("a\x1b[31m\nb\u{202e}c"), "a[31m bc");
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
