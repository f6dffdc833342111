//! Read-your-writes: an object is planned only when the caches have seen what we last wrote for it.
//!
//! It replaces upstream's expectations. The key has the uid, so a re-created object starts afresh, and
//! nothing in it can get stuck: a wait has an end, after which the caches are listed anew.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use std::sync::Arc;

use carillon_api::names;
use carillon_plan::ObjectKey;
use carillon_plan::object_key::{
    ApiKind, BROADCAST_JOB, CRON_JOB, DAEMON_SET, JOB, NATIVE_CRON_JOB, NATIVE_DAEMON_SET, POD,
    REVISION,
};

/// Kinds that are cached. resourceVersions compare only within one kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Pods, whoever controls them.
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
    /// DaemonSets of carillon.dev.
    DaemonSet,
    /// DaemonSets of apps/v1.
    NativeDaemonSet,
    /// ControllerRevisions of apps/v1.
    Revision,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Pod,
        Self::BroadcastJob,
        Self::Slice,
        Self::Node,
        Self::CronJob,
        Self::NativeCronJob,
        Self::NativeJob,
        Self::DaemonSet,
        Self::NativeDaemonSet,
        Self::Revision,
    ];

    /// The kind's word in metrics: its plural, with the group where two kinds have the same.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::BroadcastJob => "broadcastjobs",
            Self::Slice => "noderesultslices",
            Self::Node => "nodes",
            Self::CronJob => "cronjobs",
            Self::NativeCronJob => "cronjobs.batch",
            Self::NativeJob => "jobs",
            Self::DaemonSet => "daemonsets",
            Self::NativeDaemonSet => "daemonsets.apps",
            Self::Revision => "controllerrevisions",
        }
    }

    /// Its objects are in a namespace each.
    pub fn is_namespaced(self) -> bool {
        self != Self::Node
    }

    /// The kind's name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::NativeCronJob => "cronjobs",
            Self::NativeDaemonSet => "daemonsets",
            other => other.word(),
        }
    }

    /// `apiVersion` and `kind` of its objects.
    pub fn api_kind(self) -> ApiKind {
        match self {
            Self::Pod => POD,
            Self::BroadcastJob => BROADCAST_JOB,
            Self::Slice => (names::API_VERSION, "NodeResultSlice"),
            Self::Node => ("v1", "Node"),
            Self::CronJob => CRON_JOB,
            Self::NativeCronJob => NATIVE_CRON_JOB,
            Self::NativeJob => JOB,
            Self::DaemonSet => DAEMON_SET,
            Self::NativeDaemonSet => NATIVE_DAEMON_SET,
            Self::Revision => REVISION,
        }
    }

    /// API group, empty for core, and version.
    pub fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod | Self::Node => ("", "v1"),
            Self::BroadcastJob | Self::Slice | Self::CronJob | Self::DaemonSet => {
                (names::GROUP, names::VERSION)
            }
            Self::NativeCronJob | Self::NativeJob => ("batch", "v1"),
            Self::NativeDaemonSet | Self::Revision => ("apps", "v1"),
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
}

/// After so long what an object waits for is listed anew.
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
    /// The list of a kind, by its number, that was asked for because what was written was not seen.
    lists: [Option<u64>; Kind::ALL.len()],
}

/// Whether an object may be planned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Passage {
    /// The caches are up to date. How long the object had to wait for that.
    Open(Duration),
    /// Not yet; ask again soon.
    Wait,
    /// Not yet, and for too long: these kinds are to be listed anew.
    Overdue(Vec<Kind>),
}

impl Written {
    /// The kinds whose caches have neither seen these versions nor come from the list that shows them.
    fn behind(&self, seen: &Versions, listed: impl Fn(Kind) -> u64) -> Vec<Kind> {
        let is_behind = |kind: &Kind| {
            let list = self.lists[*kind as usize];
            seen.of(*kind) < self.versions.of(*kind)
                && list.is_none_or(|number| listed(*kind) < number)
        };
        Kind::ALL.into_iter().filter(is_behind).collect()
    }
}

impl Gate {
    /// Remembers a write.
    pub fn wrote(&mut self, key: &Arc<ObjectKey>, kind: Kind, rv: u64) {
        let written = self.written.entry(key.clone()).or_default();
        written.versions.raise(kind, rv);
    }

    /// An object waits for this list of a kind.
    pub fn lists(&mut self, key: &Arc<ObjectKey>, kind: Kind, number: u64) {
        let written = self.written.entry(key.clone()).or_default();
        written.lists[kind as usize] = Some(number);
    }

    /// Whether an object may be planned from caches that have `seen` these versions. `listed` is the number of
    /// the last list of a kind.
    pub fn ask(
        &mut self,
        key: &ObjectKey,
        seen: &Versions,
        listed: impl Fn(Kind) -> u64,
        now: Instant,
    ) -> Passage {
        let Some(written) = self.written.get_mut(key) else {
            return Passage::Open(Duration::ZERO);
        };
        let since = *written.waiting_since.get_or_insert(now);
        let waited = now.saturating_duration_since(since);
        let mut behind = written.behind(seen, listed);
        if behind.is_empty() {
            self.written.remove(key);
            return Passage::Open(waited);
        }
        behind.retain(|kind| written.lists[*kind as usize].is_none());
        if waited < LONGEST_WAIT || behind.is_empty() {
            return Passage::Wait;
        }
        Passage::Overdue(behind)
    }

    /// Whether an object waits for a list, which takes its time.
    pub fn waits_for_list(&self, key: &ObjectKey) -> bool {
        let written = self.written.get(key);
        written.is_some_and(|written| written.lists.iter().any(Option::is_some))
    }

    /// The kinds that an object waits for.
    pub fn behind(
        &self,
        key: &ObjectKey,
        seen: &Versions,
        listed: impl Fn(Kind) -> u64,
    ) -> Vec<Kind> {
        let written = self.written.get(key);
        written.map_or_else(Vec::new, |written| written.behind(seen, listed))
    }

    /// How many objects were written and not seen since.
    pub fn len(&self) -> usize {
        self.written.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.written.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn(Kind) -> u64 = |_| 1;

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
        for behind in [seen(Kind::Pod, 6), seen(Kind::BroadcastJob, 99)] {
            assert_eq!(gate.ask(&key(1), &behind, NEVER, now), Passage::Wait);
        }
        let later = now + Duration::from_secs(2);
        let waited = Passage::Open(Duration::from_secs(2));
        assert_eq!(gate.ask(&key(1), &seen(Kind::Pod, 7), NEVER, later), waited);
        assert_eq!(
            gate.ask(&key(2), &Versions::default(), NEVER, now),
            Passage::Open(Duration::ZERO)
        );
    }

    #[test]
    fn what_is_not_seen_in_time_is_listed_and_the_gate_stays_closed_until_then() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        let nothing = Versions::default();
        gate.wrote(&key(1), Kind::Pod, 7);
        gate.wrote(&key(1), Kind::Slice, 8);
        let seen = seen(Kind::Slice, 8);
        assert_eq!(gate.ask(&key(1), &seen, NEVER, now), Passage::Wait);
        let late = now + LONGEST_WAIT;
        let overdue = Passage::Overdue(vec![Kind::Pod]);
        assert_eq!(gate.ask(&key(1), &seen, NEVER, late), overdue);
        gate.lists(&key(1), Kind::Pod, 3);
        let much_later = late + LONGEST_WAIT;
        for (listed, passage) in [
            (2, Passage::Wait),
            // Whatever version it has.
            (3, Passage::Open(2 * LONGEST_WAIT)),
        ] {
            let listed = |kind| if kind == Kind::Pod { listed } else { 1 };
            assert_eq!(gate.ask(&key(1), &seen, listed, much_later), passage);
        }
        let open = Passage::Open(Duration::ZERO);
        assert_eq!(gate.ask(&key(1), &nothing, NEVER, much_later), open);
    }

    #[test]
    fn who_waits_for_a_list_goes_on_when_the_watch_has_caught_up_before_it() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.wrote(&key(1), Kind::Pod, 7);
        gate.lists(&key(1), Kind::Pod, 2);
        let open = Passage::Open(Duration::ZERO);
        assert!(gate.waits_for_list(&key(1)));
        for (rv, passage) in [(6, Passage::Wait), (7, open)] {
            assert_eq!(gate.ask(&key(1), &seen(Kind::Pod, rv), NEVER, now), passage);
        }
        assert!(!gate.waits_for_list(&key(1)));
    }
}
