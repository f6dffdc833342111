//! Everything that the API shows of the namespaces, from watches that begin before all scenarios.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use carillon_testbed::Cluster;
use carillon_tests::api::Api;
use serde_json::Value;

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Of which resource.
    pub(crate) plural: &'static str,
    /// When, as the API server counts.
    pub(crate) revision: u64,
    /// The object is gone, and this was its last state.
    pub(crate) gone: bool,
    /// The object.
    pub(crate) object: Value,
}

/// What has been seen of one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Here {
    /// Every change, in the order in which the watches told.
    pub(crate) changes: Vec<Seen>,
    /// What there is, by plural, the oldest first.
    there: BTreeMap<&'static str, Vec<Value>>,
    latest: u64,
    last: Option<Instant>,
}

impl Here {
    /// The objects that there are, the oldest first.
    pub(crate) fn all(&self, plural: &str) -> &[Value] {
        self.there.get(plural).map_or(&[], Vec::as_slice)
    }

    /// The pods that there are, the oldest first.
    pub(crate) fn pods(&self) -> &[Value] {
        self.all("pods")
    }

    /// What was seen of one resource, in order.
    pub(crate) fn seen(&self, plural: &'static str) -> impl Iterator<Item = &Seen> {
        self.changes
            .iter()
            .filter(move |seen| seen.plural == plural)
    }

    /// Whether an event with this reason was seen.
    pub(crate) fn told(&self, reason: &str) -> bool {
        self.seen("events")
            .any(|seen| seen.object["reason"] == reason)
    }

    /// How long nothing has happened.
    pub(crate) fn quiet(&self) -> Duration {
        self.last.map_or(Duration::ZERO, |last| last.elapsed())
    }

    /// Whether what was written at this revision has been seen.
    pub(crate) fn has_reached(&self, revision: u64) -> bool {
        self.latest >= revision
    }

    fn take(&mut self, seen: Seen) {
        self.latest = self.latest.max(seen.revision);
        self.last = Some(Instant::now());
        let there = self.there.entry(seen.plural).or_default();
        let uid = &seen.object["metadata"]["uid"];
        let at = there
            .iter()
            .position(|known| known["metadata"]["uid"] == *uid);
        match (at, seen.gone) {
            (Some(at), true) => drop(there.remove(at)),
            (Some(at), false) => there[at] = seen.object.clone(),
            (None, true) => {}
            (None, false) => there.push(seen.object.clone()),
        }
        self.changes.push(seen);
    }
}

#[derive(Default)]
struct Shared {
    namespaces: Mutex<BTreeMap<String, Here>>,
    changed: Condvar,
    watches: Mutex<BTreeMap<&'static str, Child>>,
    is_over: AtomicBool,
}

/// Watches of some resources in all namespaces.
pub(crate) struct Watched {
    shared: Arc<Shared>,
}

impl Watched {
    /// Begins to watch resources: plurals, and the paths of their lists.
    pub(crate) fn start(
        cluster: &Cluster,
        api: &Api,
        resources: &[(&'static str, &'static str)],
    ) -> Self {
        let shared = Arc::new(Shared::default());
        for &(plural, path) in resources {
            let list = api.get(path).expect("a list");
            let from = list["metadata"]["resourceVersion"].as_str();
            let from = from.expect("a revision").to_owned();
            let (shared, kubeconfig) = (Arc::clone(&shared), cluster.kubectl_command());
            let kubectl = move || again(&kubeconfig);
            thread::spawn(move || follow(kubectl, plural, path, &from, &shared));
        }
        Self { shared }
    }

    /// Waits until a look at a namespace gives something. `None`: not within the limit.
    pub(crate) fn until<T>(
        &self,
        namespace: &str,
        limit: Duration,
        mut look: impl FnMut(&Here) -> Option<T>,
    ) -> Option<T> {
        // Quiet comes without a change.
        const EVERY: Duration = Duration::from_millis(250);
        let start = Instant::now();
        let nothing = Here::default();
        let mut namespaces = self.lock();
        loop {
            if let Some(found) = look(namespaces.get(namespace).unwrap_or(&nothing)) {
                return Some(found);
            }
            if start.elapsed() > limit {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(namespaces, EVERY);
            namespaces = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All that was seen of a namespace.
    pub(crate) fn here(&self, namespace: &str) -> Here {
        self.lock().get(namespace).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Here>> {
        let namespaces = self.shared.namespaces.lock();
        namespaces.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let watches = self.shared.watches.lock();
        for watch in watches.unwrap_or_else(PoisonError::into_inner).values_mut() {
            // It may have ended by itself, with the API server.
            let _ = watch.kill();
            let _ = watch.wait();
        }
    }
}

/// The same command once more.
fn again(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.envs(
        command
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    copy
}

/// Follows a watch; the API server ends one that it takes for too slow, then it goes on from there.
fn follow(
    kubectl: impl Fn() -> Command,
    plural: &'static str,
    path: &str,
    from: &str,
    shared: &Shared,
) {
    let mut last = from.to_owned();
    while !shared.is_over.load(Ordering::Relaxed) {
        let watch = format!("{path}?watch=true&timeoutSeconds=86400&resourceVersion={last}");
        let mut command = kubectl();
        command.args(["get", "--raw", &watch]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kubectl");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        shared
            .watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(plural, child);
        for line in lines.map_while(Result::ok) {
            let mut change: Value = serde_json::from_str(&line).expect("JSON");
            let object = change["object"].take();
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            text("resourceVersion").clone_into(&mut last);
            let namespace = text("namespace").to_owned();
            let seen = Seen {
                plural,
                revision: last.parse().unwrap_or_else(|_| panic!("no change: {line}")),
                gone: change["type"] == "DELETED",
                object,
            };
            let namespaces = shared.namespaces.lock();
            let mut namespaces = namespaces.unwrap_or_else(PoisonError::into_inner);
            namespaces.entry(namespace).or_default().take(seen);
            drop(namespaces);
            shared.changed.notify_all();
        }
        println!("the watch of {plural} ended at {last}");
    }
}
