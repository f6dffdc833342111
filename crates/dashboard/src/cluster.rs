//! What is known of the cluster: tables of objects, each kept by one watch that all readers share.

mod registry;
mod table;

use std::sync::Arc;

use carillon_api::names::{GROUP, LABEL_BROADCAST_JOB_UID, VERSION};
use carillon_api::path;
use carillon_plan::Uid;
use carillon_plan::node::{NodeRow, Nodes};
use carillon_plan::record::Slice;
use carillon_plan::view::daemon_set::read::SelectedPod;
use carillon_plan::view::read;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use self::registry::Registry;
pub use self::table::{Reading, Table};

/// A resource of the API, with its kind.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Resource {
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Its plural.
    pub plural: &'static str,
}

const fn resource(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Resource {
    Resource {
        group,
        version,
        kind,
        plural,
    }
}

/// BroadcastJobs.
pub const BROADCAST_JOBS: Resource = resource(GROUP, VERSION, "BroadcastJob", "broadcastjobs");
/// CronJobs of carillon.dev.
pub const CRON_JOBS: Resource = resource(GROUP, VERSION, "CronJob", "cronjobs");
/// CronJobs of batch/v1.
pub const NATIVE_CRON_JOBS: Resource = resource("batch", "v1", "CronJob", "cronjobs");
/// DaemonSets of carillon.dev.
pub const DAEMON_SETS: Resource = resource(GROUP, VERSION, "DaemonSet", "daemonsets");
/// DaemonSets of apps/v1.
pub const NATIVE_DAEMON_SETS: Resource = resource("apps", "v1", "DaemonSet", "daemonsets");
/// Jobs of batch/v1.
pub const JOBS: Resource = resource("batch", "v1", "Job", "jobs");
const PODS: Resource = resource("", "v1", "Pod", "pods");
/// ControllerRevisions.
pub const REVISIONS: Resource = resource("apps", "v1", "ControllerRevision", "controllerrevisions");
/// Events.
pub const EVENTS: Resource = resource("", "v1", "Event", "events");
const NODES: Resource = resource("", "v1", "Node", "nodes");
const SLICES: Resource = resource(GROUP, VERSION, "NodeResultSlice", "noderesultslices");

/// Written by whoever serves the Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// What the first page lists.
pub const LISTED: [Resource; 6] = [
    BROADCAST_JOBS,
    CRON_JOBS,
    NATIVE_CRON_JOBS,
    DAEMON_SETS,
    NATIVE_DAEMON_SETS,
    JOBS,
];

impl Resource {
    /// `carillon.dev/v1alpha1`.
    pub fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As paths have it.
    pub fn in_paths(self) -> path::Resource {
        path::Resource {
            group: self.group,
            version: self.version,
            plural: self.plural,
        }
    }

    /// As pages and links name it: `daemonsets.apps`.
    pub fn name(self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The listed resource of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        LISTED.into_iter().find(|one| one.name() == name)
    }
}

/// Which objects a table has.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Selection {
    /// Of which resource.
    pub resource: Resource,
    /// In which namespace; in all of them when `None`.
    pub namespace: Option<String>,
    /// Label selector; empty selects all.
    pub labels: String,
    /// Field selector; empty selects all.
    pub fields: String,
}

/// An object, as it is stored, but for `metadata.managedFields`.
pub type Object = Arc<Value>;

/// A pod of a BroadcastJob.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// Since when it runs. `None` before that, and when it has ended.
    pub runs_since: Option<Timestamp>,
}

fn attempt(pod: &Value) -> Attempt {
    let containers = pod["status"]["containerStatuses"].as_array();
    let started = containers.into_iter().flatten();
    let started = started.filter_map(|one| one["state"]["running"]["startedAt"].as_str());
    Attempt {
        runs_since: started.filter_map(|at| at.parse().ok()).min(),
    }
}

/// The index of a pod that has not ended.
fn open_index(pod: &Value) -> Option<u32> {
    let has_ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    let index = pod["metadata"]["annotations"][COMPLETION_INDEX].as_str();
    index.filter(|_| !has_ended)?.parse().ok()
}

/// What has the label of a BroadcastJob.
fn of_job(resource: Resource, namespace: &str, uid: Uid) -> Selection {
    Selection {
        resource,
        namespace: Some(namespace.to_owned()),
        labels: format!("{LABEL_BROADCAST_JOB_UID}={uid}"),
        fields: String::new(),
    }
}

/// What is known of the cluster.
pub struct Cluster {
    client: Client,
    /// The namespace that is looked at; all of them when `None`.
    namespace: Option<String>,
    /// What a command needs to mean this cluster: `--context prod`; may be empty.
    flags: String,
    objects: Registry<Object>,
    slices: Registry<Result<Slice, String>>,
    attempts: Registry<Attempt>,
    set_pods: Registry<SelectedPod>,
    open_indexes: Registry<Option<u32>>,
    nodes: Registry<NodeRow>,
    changed: watch::Sender<u64>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Looks at a namespace, or at all of them. Nothing is read before somebody asks. A command that is offered has
    /// these flags.
    pub fn new(client: Client, namespace: Option<String>, flags: String) -> Arc<Self> {
        Arc::new(Self {
            client,
            namespace,
            flags,
            objects: Registry::new(|object| Some(Arc::new(object))),
            slices: Registry::new(|object| Some(read::slice(&object))),
            attempts: Registry::new(|pod| Some(attempt(&pod))),
            set_pods: Registry::new(|pod| SelectedPod::read(&pod)),
            open_indexes: Registry::new(|pod| Some(open_index(&pod))),
            nodes: Registry::new(|object| read::node(&object).map(|(_, row)| row)),
            changed: watch::Sender::new(0),
        })
    }

    /// The namespace that is looked at; all of them when `None`.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// How a command begins that is about an object of a namespace here.
    pub fn command(&self, namespace: &str) -> String {
        let flags = match &*self.flags {
            "" => String::new(),
            flags => format!(" {flags}"),
        };
        format!("kubectl carillon{flags} -n {namespace}")
    }

    /// Tells of each change of a table.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// All objects of a resource, as far as they are looked at.
    pub fn all(&self, resource: Resource) -> Arc<Table<Object>> {
        self.selected(Selection {
            resource,
            namespace: self.namespace.clone(),
            labels: String::new(),
            fields: String::new(),
        })
    }

    /// Some objects.
    pub fn selected(&self, selection: Selection) -> Arc<Table<Object>> {
        self.objects.open(&self.client, selection, &self.changed)
    }

    /// The nodes.
    pub fn nodes(&self) -> Arc<Table<NodeRow>> {
        let selection = Selection {
            resource: NODES,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
        };
        self.nodes.open(&self.client, selection, &self.changed)
    }

    /// The result slices of a BroadcastJob. The error names one that cannot be read whole.
    pub fn slices(&self, namespace: &str, uid: Uid) -> Arc<Table<Result<Slice, String>>> {
        let selection = of_job(SLICES, namespace, uid);
        self.slices.open(&self.client, selection, &self.changed)
    }

    /// The pods that say they are a BroadcastJob's, by the name of the pod.
    pub fn attempts(&self, namespace: &str, uid: Uid) -> Arc<Table<Attempt>> {
        let selection = of_job(PODS, namespace, uid);
        self.attempts.open(&self.client, selection, &self.changed)
    }

    /// The pods that the selector of a DaemonSet selects.
    pub fn set_pods(&self, namespace: &str, labels: String) -> Arc<Table<SelectedPod>> {
        let selection = Selection {
            resource: PODS,
            namespace: Some(namespace.to_owned()),
            labels,
            fields: String::new(),
        };
        self.set_pods.open(&self.client, selection, &self.changed)
    }

    /// The index of each pod of a Job that has not ended, if it says so.
    pub fn open_indexes(&self, namespace: &str, uid: &str) -> Arc<Table<Option<u32>>> {
        let selection = Selection {
            resource: PODS,
            namespace: Some(namespace.to_owned()),
            labels: format!("batch.kubernetes.io/controller-uid={uid}"),
            fields: String::new(),
        };
        self.open_indexes
            .open(&self.client, selection, &self.changed)
    }

    /// Ends the watches that nobody has looked at for a while. To be called now and then.
    pub fn sweep(&self) {
        self.objects.sweep();
        self.slices.sweep();
        self.attempts.sweep();
        self.set_pods.sweep();
        self.open_indexes.sweep();
        self.nodes.sweep();
    }
}

impl Table<NodeRow> {
    /// The nodes by name.
    pub fn by_name(&self) -> Nodes {
        let named = |(_, name): &(Arc<str>, Arc<str>), row: &NodeRow| (name.clone(), row.clone());
        self.map(named).into_iter().collect()
    }
}
