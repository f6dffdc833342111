//! Everything the process was told, checked.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::ValueEnum;

/// Everything the process was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Kubeconfig to use; `None` means in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Address of metrics and health.
    pub http_address: SocketAddr,
    /// Loopback address of the debug pages; `None` disables them.
    pub debug_address: Option<SocketAddr>,
    /// Controllers to run.
    pub controllers: Vec<Controller>,
    /// Native kinds to serve in place of kube-controller-manager.
    pub serve_native: Vec<NativeKind>,
    /// Namespaces to watch; empty means all.
    pub namespaces: Vec<String>,
    /// Leader election; `None` when disabled.
    pub lease: Option<Lease>,
    /// Keys under way at a time, per controller.
    pub workers: usize,
    /// Writes in flight at a time, at least 1.
    pub max_in_flight_writes: usize,
    /// Pods created or deleted for one object in one sync, at least 1.
    pub max_pod_changes_per_sync: usize,
    /// How long results of one object are gathered before its status is written.
    pub job_sync_batch_period: Duration,
    /// How long a Job waits after the first failure of a pod, more than 0.
    pub job_pod_failure_backoff: Duration,
    /// How long it waits at most, not less than that.
    pub job_max_pod_failure_backoff: Duration,
    /// Whether native Jobs show the oddities of kube-controller-manager, too.
    pub job_strict_parity: bool,
    /// How long a Job waits after the first request that failed, more than 0.
    pub job_api_backoff: Duration,
    /// How long it waits at most, not less than that.
    pub job_max_api_backoff: Duration,
    /// Pods of one Job counted in one sync, at least 1.
    pub job_max_uncounted_pods: usize,
    /// How often each cache is compared with a list of metadata; `None` means never.
    pub cache_audit_period: Option<Duration>,
    /// How pods are put on their node.
    pub pod_placement: PodPlacement,
    /// How log lines look.
    pub log_format: LogFormat,
    /// The least severe level that is logged.
    pub log_level: LogLevel,
}

/// A controller that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// BroadcastJob of carillon.dev.
    BroadcastJob,
    /// CronJob of carillon.dev.
    CronJob,
    /// DaemonSet of carillon.dev.
    DaemonSet,
    /// Job of batch/v1, where its spec names us.
    Job,
}

impl Controller {
    /// All of them, with their words in `--controllers`.
    pub(super) const ALL: [(&str, Self); 4] = [
        ("broadcastjob", Self::BroadcastJob),
        ("cronjob", Self::CronJob),
        ("daemonset", Self::DaemonSet),
        ("job", Self::Job),
    ];
}

/// A native kind that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeKind {
    /// Jobs of batch/v1.
    Jobs,
    /// CronJobs of batch/v1.
    CronJobs,
    /// DaemonSets of apps/v1.
    DaemonSets,
}

impl NativeKind {
    /// All of them, with their words in `--serve-native`.
    pub(super) const ALL: [(&str, Self); 3] = [
        ("jobs", Self::Jobs),
        ("cronjobs", Self::CronJobs),
        ("daemonsets", Self::DaemonSets),
    ];
}

/// Leader election; `duration > renew_deadline > retry_period`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Namespace of the lease; `None` means that of the client.
    pub namespace: Option<String>,
    /// Name of the lease.
    pub name: String,
    /// How long others wait after the last renewal before they take over.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between tries.
    pub retry_period: Duration,
}

/// How pods are put on their node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PodPlacement {
    /// By node affinity: the scheduler keeps taints, resources and quota true.
    #[default]
    Scheduler,
    /// By `spec.nodeName`: without a scheduler, and without its checks.
    NodeName,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What needs attention.
    Error,
    /// What may need attention.
    Warn,
    /// One line per sync that acted.
    Info,
    /// One line per decision.
    Debug,
    /// One line per event and request.
    Trace,
}
