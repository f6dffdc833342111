//! Reads a history from etcd: the stream of its HTTP gateway's `POST /v3/watch`.
//!
//! The watch has `{"create_request": {"key": "L3JlZ2lzdHJ5Lw==", "range_end": "L3JlZ2lzdHJ5MA==",
//! "start_revision": "1", "prev_kv": true}}`: everything under `/registry/`, from the beginning. (From there on it may
//! do without `prev_kv`.) The API server must run with `--storage-media-type=application/json` and
//! `--etcd-compaction-interval=0`.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::history::{History, Key, Step};
use crate::object::{list, text};

/// The body of the watch that [`Reader`] reads.
pub const WATCH: &str = r#"{"create_request": {"key": "L3JlZ2lzdHJ5Lw==", "range_end": "L3JlZ2lzdHJ5MA==", "start_revision": "1", "prev_kv": true}}"#;

/// Collects the lines of a watch.
#[derive(Debug, Default)]
pub struct Reader {
    steps: Vec<Step>,
    state: HashMap<Key, Arc<Value>>,
    /// What lies at each path: of what is removed a stream may tell nothing else.
    keys: HashMap<String, Key>,
    /// The newest time seen, in objects.
    now: Option<Timestamp>,
    /// The highest revision etcd spoke of.
    revision: u64,
    unreadable: u64,
}

/// A line that is not what etcd sends, or that says the watch has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadLine(pub String);

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "etcd watch: {}", self.0)
    }
}

impl std::error::Error for BadLine {}

#[derive(Deserialize)]
struct Line {
    result: Option<Answer>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    header: Header,
    #[serde(default)]
    canceled: bool,
    #[serde(default)]
    cancel_reason: String,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Default, Deserialize)]
struct Header {
    #[serde(default)]
    revision: String,
}

#[derive(Deserialize)]
struct Event {
    /// `DELETE`; a put has none.
    #[serde(default, rename = "type")]
    type_: String,
    kv: Entry,
    prev_kv: Option<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    mod_revision: String,
    #[serde(default)]
    value: String,
}

impl Reader {
    /// One line of the stream; the last may be torn, and is to be left out then.
    pub fn line(&mut self, line: &str) -> Result<(), BadLine> {
        let cut = || line.chars().take(200).collect::<String>();
        let read: Line =
            serde_json::from_str(line).map_err(|e| BadLine(format!("{e}: {}", cut())))?;
        let Some(answer) = read.result else {
            return Err(BadLine(format!("no result: {}", read.error)));
        };
        if answer.canceled {
            return Err(BadLine(format!(
                "the watch was cancelled: {}",
                answer.cancel_reason
            )));
        }
        self.revision = self
            .revision
            .max(answer.header.revision.parse().unwrap_or_default());
        for event in answer.events {
            self.event(event)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), BadLine> {
        let bad = |what: &str| BadLine(format!("{what}: {}", event.kv.key));
        let path = decode(&event.kv.key).and_then(|bytes| String::from_utf8(bytes).ok());
        let path = path.ok_or_else(|| bad("a key that is not text"))?;
        let rev = event.kv.mod_revision.parse();
        let rev = rev.map_err(|_| bad("no revision"))?;
        let read = |entry: &Entry| -> Option<Value> {
            let object: Value = serde_json::from_slice(&decode(&entry.value)?).ok()?;
            object.is_object().then_some(object)
        };
        let deleted = event.type_ == "DELETE";
        let before = event.prev_kv.as_ref().and_then(read);
        let mut new = if deleted { None } else { read(&event.kv) };
        let told = new.as_ref().or(before.as_ref());
        let known = || self.keys.get(&path).filter(|_| deleted).cloned();
        let Some(key) = told.and_then(|object| key(&path, object)).or_else(known) else {
            // Not an object: the API server's own counters and leases of addresses.
            self.unreadable += 1;
            return Ok(());
        };
        if let Some(object) = &mut new {
            object["metadata"]["resourceVersion"] = Value::from(event.kv.mod_revision);
            self.now = self.now.max(newest_time(object));
        }
        if deleted {
            self.keys.remove(&path);
        } else {
            self.keys.insert(path, key.clone());
        }
        let new = new.map(Arc::new);
        let known = match &new {
            Some(object) => self.state.insert(key.clone(), object.clone()),
            None => self.state.remove(&key),
        };
        // What etcd says of the state before matters only where the stream began later.
        let old = known.or_else(|| {
            let mut object = before?;
            object["metadata"]["resourceVersion"] = Value::from(event.prev_kv?.mod_revision);
            Some(Arc::new(object))
        });
        self.steps.push(Step {
            rev,
            at: self.now.unwrap_or(Timestamp::UNIX_EPOCH),
            key,
            old,
            new,
            by: None,
        });
        Ok(())
    }

    /// The highest revision etcd spoke of: where it is the one to read up to, all has been read.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Entries that are no objects.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The history so far. A time is that of the newest change an object tells of; the audit log
    /// knows better ([`crate::audit::attribute`]).
    pub fn history(self) -> History {
        History { steps: self.steps }
    }
}

/// `/registry/pods/ops/fix-1` and its object give `pods`, `ops`, `fix-1`. The group comes from the
/// object: paths of built-in kinds do not have it.
fn key(path: &str, object: &Value) -> Option<Key> {
    let mut parts: Vec<&str> = path.strip_prefix("/registry/")?.split('/').collect();
    let metadata = &object["metadata"];
    let (name, namespace) = (text(metadata, &["name"]), text(metadata, &["namespace"]));
    if name.is_empty() || parts.pop()? != name {
        return None;
    }
    if !namespace.is_empty() && parts.pop()? != namespace {
        return None;
    }
    let plural = match *parts.last()? {
        // Kinds whose path is older than their name.
        "minions" => "nodes",
        "specs" if parts.contains(&"services") => "services",
        "endpoints" if parts.contains(&"services") => "endpoints",
        "controllers" => "replicationcontrollers",
        plural => plural,
    };
    let group = text(object, &["apiVersion"])
        .split_once('/')
        .map(|(group, _)| group);
    let resource = match group {
        Some(group) => format!("{plural}.{group}"),
        None => plural.to_owned(),
    };
    Some(Key {
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
    })
}

/// The newest of the times at which an object was created, deleted or changed.
fn newest_time(object: &Value) -> Option<Timestamp> {
    let metadata = &object["metadata"];
    let changes = list(metadata, &["managedFields"]).iter();
    let times = changes.map(|change| text(change, &["time"]));
    let times = times.chain([text(metadata, &["creationTimestamp"])]);
    times.filter_map(|time| time.parse().ok()).max()
}

/// Base64, as in RFC 4648 with padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for (at, digit) in group.iter().enumerate() {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits |= u32::from(value) << (18 - 6 * at);
        }
        bytes.extend(bits.to_be_bytes()[1..].iter().take(group.len() * 3 / 4));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn encode(text: &str) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut encoded = String::new();
        for group in text.as_bytes().chunks(3) {
            let bits = group
                .iter()
                .enumerate()
                .fold(0, |bits, (at, b)| bits | u32::from(*b) << (16 - 8 * at));
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
                encoded.push(if at <= group.len() {
                    char::from(digit)
                } else {
                    '='
                });
            }
        }
        encoded
    }

    fn put(path: &str, rev: u64, object: &Value) -> Value {
        json!({"kv": {"key": encode(path), "create_revision": "1", "mod_revision": rev.to_string(),
            "version": "1", "value": encode(&object.to_string())}})
    }

    fn line(events: &[Value]) -> String {
        json!({"result": {"header": {"revision": "9"}, "events": events}}).to_string()
    }

    fn pod(phase: &str) -> Value {
        json!({"kind": "Pod", "apiVersion": "v1", "status": {"phase": phase},
            "metadata": {"name": "p", "namespace": "ops", "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"time": "2026-01-01T00:00:05Z"}]}})
    }

    #[test]
    fn base64_of_every_length_is_decoded() {
        for text in ["", "a", "ab", "abc", "abcd", "{\"ü\":1}"] {
            assert_eq!(decode(&encode(text)).unwrap(), text.as_bytes());
        }
        assert_eq!(encode("/registry/"), "L3JlZ2lzdHJ5Lw==");
        assert_eq!(encode("/registry0"), "L3JlZ2lzdHJ5MA==");
        assert_eq!(decode("a b"), None);
    }

    #[test]
    fn a_pod_is_created_changed_and_removed() {
        let mut reader = Reader::default();
        reader
            .line(r#"{"result":{"header":{"revision":"1"},"created":true}}"#)
            .unwrap();
        let path = "/registry/pods/ops/p";
        let first = put(path, 5, &pod("Pending"));
        reader
            .line(&line(&[first, put(path, 7, &pod("Running"))]))
            .unwrap();
        let gone = json!({"type": "DELETE", "kv": {"key": encode(path), "mod_revision": "8"},
            "prev_kv": put(path, 7, &pod("Running"))["kv"]});
        reader.line(&line(&[gone])).unwrap();
        assert_eq!(reader.revision(), 9);
        let steps = reader.history().steps;
        assert_eq!(
            steps.iter().map(|step| step.rev).collect::<Vec<_>>(),
            [5, 7, 8]
        );
        assert_eq!(steps[0].key.to_string(), "pods ops/p");
        assert!(steps[0].old.is_none());
        assert_eq!(
            steps[0].new.as_ref().unwrap()["metadata"]["resourceVersion"],
            "5"
        );
        assert_eq!(steps[1].old, steps[0].new);
        assert_eq!((&steps[2].old, &steps[2].new), (&steps[1].new, &None));
        assert_eq!(steps[2].at.to_string(), "2026-01-01T00:00:05Z");
    }

    #[test]
    fn a_removal_is_seen_in_a_stream_that_does_not_tell_what_was_there_before() {
        let mut reader = Reader::default();
        let path = "/registry/pods/ops/p";
        let gone = json!({"type": "DELETE", "kv": {"key": encode(path), "mod_revision": "8"}});
        let twice = gone.clone();
        let first = put(path, 5, &pod("Pending"));
        reader.line(&line(&[first, gone, twice])).unwrap();
        assert_eq!(
            reader.unreadable(),
            1,
            "nobody knows what was removed there"
        );
        let steps = reader.history().steps;
        assert_eq!(steps.len(), 2);
        assert_eq!((&steps[1].old, &steps[1].new), (&steps[0].new, &None));
        assert_eq!(steps[1].key.to_string(), "pods ops/p");
    }

    #[test]
    fn paths_and_groups_become_resources() {
        let named = |api: &str, namespace: &str| json!({"apiVersion": api, "metadata": {"name": "x", "namespace": namespace}});
        for (path, object, expected) in [
            ("/registry/minions/x", named("v1", ""), "nodes x"),
            (
                "/registry/leases/ops/x",
                named("coordination.k8s.io/v1", "ops"),
                "leases.coordination.k8s.io ops/x",
            ),
            (
                "/registry/carillon.dev/broadcastjobs/ops/x",
                named("carillon.dev/v1alpha1", "ops"),
                "broadcastjobs.carillon.dev ops/x",
            ),
            (
                "/registry/services/specs/ops/x",
                named("v1", "ops"),
                "services ops/x",
            ),
            (
                "/registry/events/ops/x",
                named("events.k8s.io/v1", "ops"),
                "events.events.k8s.io ops/x",
            ),
        ] {
            assert_eq!(key(path, &object).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_object_is_counted_and_what_is_no_line_is_an_error() {
        let mut reader = Reader::default();
        let counter = json!({"kv": {"key": encode("compact_rev_key"), "mod_revision": "2", "value": encode("7")}});
        reader.line(&line(&[counter])).unwrap();
        assert_eq!((reader.unreadable(), reader.steps.len()), (1, 0));
        assert!(reader.line("{\"result\":").is_err());
        let cancelled = r#"{"result":{"canceled":true,"cancel_reason":"compacted"}}"#;
        assert!(reader.line(cancelled).unwrap_err().0.contains("compacted"));
        assert!(reader.line(r#"{"error":{"message":"x"}}"#).is_err());
    }

    #[test]
    fn a_history_that_begins_later_has_its_first_states_from_etcd() {
        let mut reader = Reader::default();
        let path = "/registry/pods/ops/p";
        let mut event = put(path, 7, &pod("Running"));
        event["prev_kv"] = put(path, 5, &pod("Pending"))["kv"].clone();
        reader.line(&line(&[event])).unwrap();
        let old = reader.history().steps[0].old.clone().unwrap();
        assert_eq!(old["status"]["phase"], "Pending");
        assert_eq!(old["metadata"]["resourceVersion"], "5");
    }
}
