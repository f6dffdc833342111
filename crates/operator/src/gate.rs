//! Read-your-writes: an object is planned only when the caches have seen what we last wrote for it.
//!
//! It replaces upstream's expectations. The key has the uid, so a re-created object starts afresh, and
//! nothing in it can get stuck: a wait has an end, after which the caches are listed anew.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use std::sync::Arc;

use carillon_api::names;
use carillon_plan::ObjectKey;
use carillon_plan::object_key::{ApiKind, BROADCAST_JOB, CRON_JOB, JOB, NATIVE_CRON_JOB, POD};

/// Kinds that are cached. resourceVersions compare only within one kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Pods of BroadcastJobs.
    Pod,
    /// BroadcastJobs.
    BroadcastJob,
    /// NodeResultSlices.
    Slice,
    /// Nodes; never written by us.
    Node,
    /// CronJobs of carillon.dev.
    CronJob,
    /// CronJobs of batch/v1.
    NativeCronJob,
    /// Jobs of batch/v1.
    NativeJob,
    /// Pods of Jobs of batch/v1.
    JobPod,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pod,
        Self::BroadcastJob,
        Self::Slice,
        Self::Node,
        Self::CronJob,
        Self::NativeCronJob,
        Self::NativeJob,
        Self::JobPod,
    ];

    /// The kind's word in metrics: its plural, with the group (of pods: of their owners) where two kinds
    /// have the same.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::BroadcastJob => "broadcastjobs",
            Self::Slice => "noderesultslices",
            Self::Node => "nodes",
            Self::CronJob => "cronjobs",
            Self::NativeCronJob => "cronjobs.batch",
            Self::NativeJob => "jobs",
            Self::JobPod => "pods.batch",
        }
    }

    /// The kind's name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::NativeCronJob => "cronjobs",
            Self::JobPod => "pods",
            other => other.word(),
        }
    }

    /// `apiVersion` and `kind` of its objects.
    pub fn api_kind(self) -> ApiKind {
        match self {
            Self::Pod | Self::JobPod => POD,
            Self::BroadcastJob => BROADCAST_JOB,
            Self::Slice => (names::API_VERSION, "NodeResultSlice"),
            Self::Node => ("v1", "Node"),
            Self::CronJob => CRON_JOB,
            Self::NativeCronJob => NATIVE_CRON_JOB,
            Self::NativeJob => JOB,
        }
    }

    /// API group, empty for core, and version.
    pub fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod | Self::Node | Self::JobPod => ("", "v1"),
            Self::BroadcastJob | Self::Slice | Self::CronJob => (names::GROUP, names::VERSION),
            Self::NativeCronJob | Self::NativeJob => ("batch", "v1"),
        }
    }
}

/// A resourceVersion for each kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Versions([u64; Kind::ALL.len()]);

impl Versions {
    /// Raises the version of `kind` to `rv`.
    pub fn raise(&mut self, kind: Kind, rv: u64) {
        let known = &mut self.0[kind as usize];
        *known = (*known).max(rv);
    }

    /// The version of `kind`.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Sets the version of `kind`, also downwards: after a restored backup the numbers go back.
    pub fn reset(&mut self, kind: Kind, rv: u64) {
        self.0[kind as usize] = rv;
    }

    fn has_seen(&self, written: &Self) -> bool {
        self.0
            .iter()
            .zip(written.0)
            .all(|(seen, written)| *seen >= written)
    }
}

/// The longest an object waits before the caches are listed anew.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// What was written, per object.
#[derive(Debug, Default)]
pub struct Gate {
    written: HashMap<Arc<ObjectKey>, Written>,
}

#[derive(Debug, Default)]
struct Written {
    versions: Versions,
    waiting_since: Option<Instant>,
}

/// Whether an object may be planned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passage {
    /// The caches are up to date. How long the object had to wait for that.
    Open(Duration),
    /// Not yet; ask again soon.
    Wait,
    /// Waited for too long: list the caches anew, then go on.
    Overdue,
}

impl Gate {
    /// Remembers a write.
    pub fn wrote(&mut self, key: &Arc<ObjectKey>, kind: Kind, rv: u64) {
        let written = self.written.entry(key.clone()).or_default();
        written.versions.raise(kind, rv);
    }

    /// The kinds of which an object waits for a newer version than these.
    pub fn behind(&self, key: &ObjectKey, seen: &Versions) -> Vec<Kind> {
        let written = self.written.get(key).map(|written| written.versions);
        let written = written.unwrap_or_default();
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter(|kind| seen.of(*kind) < written.of(*kind))
            .collect()
    }

    /// Whether an object may be planned from caches that have `seen` these versions.
    pub fn ask(&mut self, key: &ObjectKey, seen: &Versions, now: Instant) -> Passage {
        let Some(written) = self.written.get_mut(key) else {
            return Passage::Open(Duration::ZERO);
        };
        let since = *written.waiting_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        if seen.has_seen(&written.versions) {
            written.waiting_since = None;
            return Passage::Open(waited);
        }
        if waited < LONGEST_WAIT {
            return Passage::Wait;
        }
        self.written.remove(key);
        Passage::Overdue
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.written.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Arc<ObjectKey> {
        let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f{n:02x}");
        ObjectKey::of(BROADCAST_JOB, "ops", "j", uid.parse().unwrap())
    }

    fn seen(kind: Kind, rv: u64) -> Versions {
        let mut seen = Versions::default();
        seen.raise(kind, rv);
        seen
    }

    #[test]
    fn an_object_waits_until_its_own_writes_are_seen_and_no_longer() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.wrote(&key(1), Kind::Pod, 7);
        assert_eq!(gate.ask(&key(1), &seen(Kind::Pod, 6), now), Passage::Wait);
        assert_eq!(
            gate.ask(&key(1), &seen(Kind::BroadcastJob, 99), now),
            Passage::Wait
        );
        let later = now + Duration::from_secs(2);
        let waited = Passage::Open(Duration::from_secs(2));
        assert_eq!(gate.ask(&key(1), &seen(Kind::Pod, 7), later), waited);
        assert_eq!(
            gate.ask(&key(2), &Versions::default(), now),
            Passage::Open(Duration::ZERO)
        );
    }

    #[test]
    fn a_write_that_is_never_seen_does_not_close_the_gate_for_ever() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.wrote(&key(1), Kind::Pod, 7);
        assert_eq!(gate.ask(&key(1), &Versions::default(), now), Passage::Wait);
        let late = now + LONGEST_WAIT;
        assert_eq!(
            gate.ask(&key(1), &Versions::default(), late),
            Passage::Overdue
        );
        assert_eq!(
            gate.ask(&key(1), &Versions::default(), late),
            Passage::Open(Duration::ZERO)
        );
    }
}
