//! The flags, each with its `CARILLON_…` variable.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::{ArgAction, Parser, Subcommand};

use super::{
    config::{LogFormat, LogLevel, PodPlacement},
    duration::duration,
};
use crate::check::Check;

/// Runs what must happen on every node, on time, and exactly once.
#[derive(Debug, Parser)]
#[command(name = "carillon", version, args_conflicts_with_subcommands = true)]
#[allow(clippy::struct_field_names)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// Kubeconfig of the cluster; in-cluster when absent.
    #[arg(long, env = "CARILLON_KUBECONFIG", value_name = "PATH")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Address of /metrics, /livez and /readyz.
    #[arg(
        long,
        env = "CARILLON_HTTP_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    pub(super) http_address: SocketAddr,

    /// Address of /debug/store, /debug/queue and /debug/flights; must be loopback, empty disables them. The operator
    /// does without when the port is in use.
    #[arg(
        long,
        env = "CARILLON_DEBUG_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8081"
    )]
    pub(super) debug_address: String,

    /// Controllers to run: broadcastjob, cronjob, daemonset, job; all when empty. job serves the Jobs of batch/v1 whose
    /// spec.managedBy is carillon.dev/job-controller.
    #[arg(
        long,
        env = "CARILLON_CONTROLLERS",
        value_name = "LIST",
        value_delimiter = ','
    )]
    pub(super) controllers: Vec<String>,

    /// Native kinds to serve in place of kube-controller-manager, whose controllers for them must be off:
    /// jobs, cronjobs, daemonsets; none when empty.
    #[arg(
        long,
        env = "CARILLON_SERVE_NATIVE",
        value_name = "LIST",
        value_delimiter = ','
    )]
    pub(super) serve_native: Vec<String>,

    /// Watch only these namespaces; all when empty.
    #[arg(
        long,
        env = "CARILLON_NAMESPACES",
        value_name = "LIST",
        value_delimiter = ','
    )]
    pub(super) namespaces: Vec<String>,

    /// Act only while holding the lease; needed with more than one replica.
    #[arg(long, env = "CARILLON_LEADER_ELECT", value_name = "BOOL", default_value_t = true,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) leader_elect: bool,

    /// Namespace of the lease; that of the ServiceAccount or of the kubeconfig when absent.
    #[arg(long, env = "CARILLON_LEASE_NAMESPACE", value_name = "NAME")]
    pub(super) lease_namespace: Option<String>,

    /// Name of the lease.
    #[arg(
        long,
        env = "CARILLON_LEASE_NAME",
        value_name = "NAME",
        default_value = "carillon"
    )]
    pub(super) lease_name: String,

    /// How long others wait after the last renewal before they take over.
    #[arg(long, env = "CARILLON_LEASE_DURATION", value_name = "DURATION",
          default_value = "15s", value_parser = duration)]
    pub(super) lease_duration: Duration,

    /// How long the leader tries to renew before it gives up and exits.
    #[arg(long, env = "CARILLON_LEASE_RENEW_DEADLINE", value_name = "DURATION",
          default_value = "10s", value_parser = duration)]
    pub(super) lease_renew_deadline: Duration,

    /// Pause between tries to acquire or renew the lease.
    #[arg(long, env = "CARILLON_LEASE_RETRY_PERIOD", value_name = "DURATION",
          default_value = "2s", value_parser = duration)]
    pub(super) lease_retry_period: Duration,

    /// Keys under way at a time, per controller. Most of them wait for the API server; how much of it
    /// all of them may use is said by --max-in-flight-writes.
    #[arg(long, env = "CARILLON_WORKERS", value_name = "N", default_value = "16")]
    pub(super) workers: NonZeroU32,

    /// Writes in flight at a time; a quarter of them for one object. Namespaces share them.
    #[arg(
        long,
        env = "CARILLON_MAX_IN_FLIGHT_WRITES",
        value_name = "N",
        default_value = "128"
    )]
    pub(super) max_in_flight_writes: NonZeroU32,

    /// Pods created or deleted for one object in one sync.
    #[arg(
        long,
        env = "CARILLON_MAX_POD_CHANGES_PER_SYNC",
        value_name = "N",
        default_value = "500"
    )]
    pub(super) max_pod_changes_per_sync: NonZeroU32,

    /// How long results of one object are gathered before its status is written.
    #[arg(long, env = "CARILLON_JOB_SYNC_BATCH_PERIOD", value_name = "DURATION",
          default_value = "1s", value_parser = duration)]
    pub(super) job_sync_batch_period: Duration,

    /// How long a Job waits before it replaces a pod that failed; doubles with each further failure in a row.
    #[arg(long, env = "CARILLON_JOB_POD_FAILURE_BACKOFF", value_name = "DURATION",
          default_value = "10s", value_parser = duration)]
    pub(super) job_pod_failure_backoff: Duration,

    /// The longest a Job waits before it replaces a pod that failed.
    #[arg(long, env = "CARILLON_JOB_MAX_POD_FAILURE_BACKOFF", value_name = "DURATION",
          default_value = "10m", value_parser = duration)]
    pub(super) job_max_pod_failure_backoff: Duration,

    /// Native Jobs show the oddities of kube-controller-manager, too; needs --serve-native=jobs.
    #[arg(long, env = "CARILLON_JOB_STRICT_PARITY")]
    pub(super) job_strict_parity: bool,

    /// How long a Job waits after a request that failed; doubles with each further failure in a row.
    #[arg(long, env = "CARILLON_JOB_API_BACKOFF", value_name = "DURATION",
          default_value = "1s", value_parser = duration)]
    pub(super) job_api_backoff: Duration,

    /// The longest a Job waits after requests that failed.
    #[arg(long, env = "CARILLON_JOB_MAX_API_BACKOFF", value_name = "DURATION",
          default_value = "1m", value_parser = duration)]
    pub(super) job_max_api_backoff: Duration,

    /// Pods of one Job that are counted in one sync; their uids are in its status meanwhile.
    #[arg(
        long,
        env = "CARILLON_JOB_MAX_UNCOUNTED_PODS",
        value_name = "N",
        default_value = "500"
    )]
    pub(super) job_max_uncounted_pods: NonZeroU32,

    /// How often each cache is compared with a list of metadata; 0 means never.
    #[arg(long, env = "CARILLON_CACHE_AUDIT_PERIOD", value_name = "DURATION",
          default_value = "10m", value_parser = duration)]
    pub(super) cache_audit_period: Duration,

    /// How pods are put on their node.
    #[arg(
        long,
        env = "CARILLON_POD_PLACEMENT",
        value_name = "HOW",
        value_enum,
        default_value = "scheduler"
    )]
    pub(super) pod_placement: PodPlacement,

    /// How log lines look; json unless stdout is a terminal.
    #[arg(long, env = "CARILLON_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    pub(super) log_format: Option<LogFormat>,

    /// The least severe level that is logged.
    #[arg(
        long,
        env = "CARILLON_LOG_LEVEL",
        value_name = "LEVEL",
        value_enum,
        default_value = "info"
    )]
    pub(super) log_level: LogLevel,
}

/// What to do instead of being the operator.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// GET a URL until it answers 2xx: what the pod of `helm test` does.
    Check(Check),
}
