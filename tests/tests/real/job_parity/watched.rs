//! Everything that the API shows of the namespaces, from watches that begin before all Jobs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use carillon_testbed::Cluster;
use carillon_tests::api::Api;
use carillon_tests::lab::is;
use serde_json::Value;

/// What keeps a pod until it has been counted.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Where a pod says which index it is for.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

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
    /// The Job as it is, if it is.
    pub(crate) job: Option<Value>,
    /// The pods that there are, the oldest first.
    pub(crate) pods: Vec<Value>,
    latest: u64,
    last: Option<Instant>,
}

impl Here {
    /// A number of the Job's status; 0 where there is none.
    pub(crate) fn count(&self, field: &str) -> i64 {
        let job = self.job.as_ref();
        job.and_then(|job| job["status"][field].as_i64())
            .unwrap_or(0)
    }

    /// Whether the Job has this condition.
    pub(crate) fn is(&self, condition: &str) -> bool {
        self.job.as_ref().is_some_and(|job| is(job, condition))
    }

    /// Whether the Job was looked at: the first sync writes how many are ready.
    pub(crate) fn is_served(&self) -> bool {
        let job = self.job.as_ref();
        job.is_some_and(|job| job["status"]["ready"].is_number())
    }

    /// Whether an event with this reason was seen.
    pub(crate) fn told(&self, reason: &str) -> bool {
        self.changes
            .iter()
            .any(|seen| seen.plural == "events" && seen.object["reason"] == reason)
    }

    /// Whether the Job is gone after it was there.
    pub(crate) fn is_gone(&self) -> bool {
        self.job.is_none() && self.changes.iter().any(|seen| seen.plural == "jobs")
    }

    /// Whether the Job is finished or gone, and no pod waits to be counted.
    pub(crate) fn has_ended(&self) -> bool {
        (self.is("Complete") || self.is("Failed") || self.is_gone())
            && !self.pods.iter().any(is_held)
    }

    /// Whether the last condition of the Job was told as an event. They come in order, but later than
    /// what they tell of.
    pub(crate) fn has_told(&self) -> bool {
        let job = self.changes.iter().rfind(|seen| seen.plural == "jobs");
        let conditions = job.map(|seen| &seen.object["status"]["conditions"]);
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        conditions.all(|condition| {
            let is_true = condition["status"] == "True";
            match condition["type"].as_str() {
                Some("Complete") => self.told("Completed"),
                Some("Failed") => self.told(condition["reason"].as_str().unwrap_or_default()),
                Some("Suspended") => self.told(if is_true { "Suspended" } else { "Resumed" }),
                _ => true,
            }
        })
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
        match seen.plural {
            "jobs" => self.job = (!seen.gone).then(|| seen.object.clone()),
            "pods" => {
                let uid = &seen.object["metadata"]["uid"];
                let at = self
                    .pods
                    .iter()
                    .position(|pod| pod["metadata"]["uid"] == *uid);
                match (at, seen.gone) {
                    (Some(at), true) => drop(self.pods.remove(at)),
                    (Some(at), false) => self.pods[at] = seen.object.clone(),
                    (None, true) => {}
                    (None, false) => self.pods.push(seen.object.clone()),
                }
            }
            _ => {}
        }
        self.changes.push(seen);
    }
}

/// Whether a pod has the finalizer of its Job.
pub(crate) fn is_held(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == TRACKING))
}

/// The completion index of a pod.
pub(crate) fn index_of(pod: &Value) -> Option<u32> {
    pod["metadata"]["annotations"][INDEX].as_str()?.parse().ok()
}

#[derive(Default)]
struct Shared {
    namespaces: Mutex<BTreeMap<String, Here>>,
    changed: Condvar,
    watches: Mutex<BTreeMap<&'static str, Child>>,
    is_over: AtomicBool,
}

/// Watches of jobs, pods and events of all namespaces.
pub(crate) struct Watched {
    shared: Arc<Shared>,
}

impl Watched {
    /// Begins to watch.
    pub(crate) fn start(cluster: &Cluster, api: &Api) -> Self {
        let shared = Arc::new(Shared::default());
        let resources = [
            ("jobs", "/apis/batch/v1/jobs"),
            ("pods", "/api/v1/pods"),
            ("events", "/api/v1/events"),
        ];
        for (plural, path) in resources {
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
