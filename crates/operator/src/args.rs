//! Flags and `CARILLON_…` variables, checked and turned into a [`Config`].
//!
//! A wrong flag or value is named, with what is allowed, and the process exits with 2.

mod config;
mod duration;
mod values;

use std::{ffi::OsString, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::{
    ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{Error, ErrorKind},
};

pub use self::config::{Config, Controller, Lease, LogFormat, LogLevel, NativeKind, PodPlacement};
pub(crate) use self::duration::duration;
use crate::check::Check;

/// What the process was asked to do.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // there is one of it
pub enum Task {
    /// Be the operator.
    Operate(Config),
    /// `carillon check`
    Check(Check),
}

/// Runs what must happen on every node, on time, and exactly once.
#[derive(Debug, Parser)]
#[command(name = "carillon", version, args_conflicts_with_subcommands = true)]
#[allow(clippy::struct_field_names)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Kubeconfig of the cluster; in-cluster when absent.
    #[arg(long, env = "CARILLON_KUBECONFIG", value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Address of /metrics, /livez and /readyz.
    #[arg(
        long,
        env = "CARILLON_HTTP_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    http_address: SocketAddr,

    /// Address of /debug/store, /debug/queue and /debug/flights; must be loopback, empty disables them. The operator
    /// does without when the port is in use.
    #[arg(
        long,
        env = "CARILLON_DEBUG_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8081"
    )]
    debug_address: String,

    /// Controllers to run: broadcastjob, cronjob, job; all when empty. job serves the Jobs of batch/v1 whose
    /// spec.managedBy is carillon.dev/job-controller.
    #[arg(
        long,
        env = "CARILLON_CONTROLLERS",
        value_name = "LIST",
        value_delimiter = ','
    )]
    controllers: Vec<String>,

    /// Native kinds to serve in place of kube-controller-manager, whose controllers for them must be off:
    /// jobs, cronjobs; none when empty.
    #[arg(
        long,
        env = "CARILLON_SERVE_NATIVE",
        value_name = "LIST",
        value_delimiter = ','
    )]
    serve_native: Vec<String>,

    /// Watch only these namespaces; all when empty.
    #[arg(
        long,
        env = "CARILLON_NAMESPACES",
        value_name = "LIST",
        value_delimiter = ','
    )]
    namespaces: Vec<String>,

    /// Act only while holding the lease; needed with more than one replica.
    #[arg(long, env = "CARILLON_LEADER_ELECT", value_name = "BOOL", default_value_t = true,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    leader_elect: bool,

    /// Namespace of the lease; that of the ServiceAccount or of the kubeconfig when absent.
    #[arg(long, env = "CARILLON_LEASE_NAMESPACE", value_name = "NAME")]
    lease_namespace: Option<String>,

    /// Name of the lease.
    #[arg(
        long,
        env = "CARILLON_LEASE_NAME",
        value_name = "NAME",
        default_value = "carillon"
    )]
    lease_name: String,

    /// How long others wait after the last renewal before they take over.
    #[arg(long, env = "CARILLON_LEASE_DURATION", value_name = "DURATION",
          default_value = "15s", value_parser = duration)]
    lease_duration: Duration,

    /// How long the leader tries to renew before it gives up and exits.
    #[arg(long, env = "CARILLON_LEASE_RENEW_DEADLINE", value_name = "DURATION",
          default_value = "10s", value_parser = duration)]
    lease_renew_deadline: Duration,

    /// Pause between tries to acquire or renew the lease.
    #[arg(long, env = "CARILLON_LEASE_RETRY_PERIOD", value_name = "DURATION",
          default_value = "2s", value_parser = duration)]
    lease_retry_period: Duration,

    /// Keys under way at a time, per controller. Most of them wait for the API server; how much of it
    /// all of them may use is said by --max-in-flight-writes.
    #[arg(long, env = "CARILLON_WORKERS", value_name = "N", default_value = "16")]
    workers: NonZeroU32,

    /// Writes in flight at a time; a quarter of them for one object. Namespaces share them.
    #[arg(
        long,
        env = "CARILLON_MAX_IN_FLIGHT_WRITES",
        value_name = "N",
        default_value = "128"
    )]
    max_in_flight_writes: NonZeroU32,

    /// Pods created or deleted for one object in one sync.
    #[arg(
        long,
        env = "CARILLON_MAX_POD_CHANGES_PER_SYNC",
        value_name = "N",
        default_value = "500"
    )]
    max_pod_changes_per_sync: NonZeroU32,

    /// How long results of one object are gathered before its status is written.
    #[arg(long, env = "CARILLON_JOB_SYNC_BATCH_PERIOD", value_name = "DURATION",
          default_value = "1s", value_parser = duration)]
    job_sync_batch_period: Duration,

    /// How long a Job waits before it replaces a pod that failed; doubles with each further failure in a row.
    #[arg(long, env = "CARILLON_JOB_POD_FAILURE_BACKOFF", value_name = "DURATION",
          default_value = "10s", value_parser = duration)]
    job_pod_failure_backoff: Duration,

    /// The longest a Job waits before it replaces a pod that failed.
    #[arg(long, env = "CARILLON_JOB_MAX_POD_FAILURE_BACKOFF", value_name = "DURATION",
          default_value = "10m", value_parser = duration)]
    job_max_pod_failure_backoff: Duration,

    /// Native Jobs show the oddities of kube-controller-manager, too; needs --serve-native=jobs.
    #[arg(long, env = "CARILLON_JOB_STRICT_PARITY")]
    job_strict_parity: bool,

    /// How long a Job waits after a request that failed; doubles with each further failure in a row.
    #[arg(long, env = "CARILLON_JOB_API_BACKOFF", value_name = "DURATION",
          default_value = "1s", value_parser = duration)]
    job_api_backoff: Duration,

    /// The longest a Job waits after requests that failed.
    #[arg(long, env = "CARILLON_JOB_MAX_API_BACKOFF", value_name = "DURATION",
          default_value = "1m", value_parser = duration)]
    job_max_api_backoff: Duration,

    /// Pods of one Job that are counted in one sync; their uids are in its status meanwhile.
    #[arg(
        long,
        env = "CARILLON_JOB_MAX_UNCOUNTED_PODS",
        value_name = "N",
        default_value = "500"
    )]
    job_max_uncounted_pods: NonZeroU32,

    /// How often each cache is compared with a list of metadata; 0 means never.
    #[arg(long, env = "CARILLON_CACHE_AUDIT_PERIOD", value_name = "DURATION",
          default_value = "10m", value_parser = duration)]
    cache_audit_period: Duration,

    /// How pods are put on their node.
    #[arg(
        long,
        env = "CARILLON_POD_PLACEMENT",
        value_name = "HOW",
        value_enum,
        default_value = "scheduler"
    )]
    pod_placement: PodPlacement,

    /// How log lines look; json unless stdout is a terminal.
    #[arg(long, env = "CARILLON_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,

    /// The least severe level that is logged.
    #[arg(
        long,
        env = "CARILLON_LOG_LEVEL",
        value_name = "LEVEL",
        value_enum,
        default_value = "info"
    )]
    log_level: LogLevel,
}

/// What to do instead of being the operator.
#[derive(Debug, Subcommand)]
enum Command {
    /// GET a URL until it answers 2xx: what the pod of `helm test` does.
    Check(Check),
}

impl Task {
    /// Reads the process' flags and environment. Prints and exits on `--help` and `--version`
    /// (0) and on a wrong flag (2).
    pub fn from_process() -> Self {
        Self::parse(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Reads `args`, the program's name first, and the environment.
    ///
    /// # Errors
    /// clap's, which prints what is wrong and exits 2 when asked to; also for `--help` and
    /// `--version`.
    pub fn parse<I, T>(args: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let mut args = Args::from_arg_matches(&Args::command().try_get_matches_from(args)?)?;
        if let Some(Command::Check(check)) = args.command.take() {
            return Ok(Self::Check(check));
        }
        let config = values::check(args);
        config
            .map(Self::Operate)
            .map_err(|message| Args::command().error(ErrorKind::ValueValidation, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Config, Error> {
        let args = std::iter::once("carillon").chain(args.iter().copied());
        Task::parse(args).map(|task| match task {
            Task::Operate(config) => config,
            Task::Check(check) => panic!("{check:?}"),
        })
    }

    #[test]
    fn check_is_a_subcommand_that_the_help_shows() {
        let url = "--url=http://a:8080/readyz";
        let parse = |args: &[&str]| Task::parse(["carillon"].iter().chain(args));
        assert!(matches!(parse(&["check", url]), Ok(Task::Check(_))));
        let help = Args::command().render_help().to_string();
        assert!(help.contains("check "), "{help}");
        for (args, word) in [
            (&["check"][..], "--url"),
            (&["check", "--url=https://a"], "--url"),
            (&["check", url, "--timeout=1"], "--timeout"),
            (&["check", url, "--leader-elect=false"], "--leader-elect"),
            (&["--leader-elect=false", "check", url], "check"),
        ] {
            let error = parse(args).expect_err(&format!("{args:?} is accepted"));
            assert_eq!(error.exit_code(), 2, "{args:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.kubeconfig, None);
        assert_eq!(config.http_address.to_string(), "0.0.0.0:8080");
        assert_eq!(config.debug_address.unwrap().to_string(), "127.0.0.1:8081");
        assert_eq!(
            config.controllers,
            [
                Controller::BroadcastJob,
                Controller::CronJob,
                Controller::Job
            ]
        );
        assert_eq!(config.serve_native, []);
        assert!(config.namespaces.is_empty());
        assert_eq!(config.workers, 16);
        assert_eq!(config.max_in_flight_writes, 128);
        assert_eq!(config.max_pod_changes_per_sync, 500);
        assert_eq!(config.job_sync_batch_period, Duration::from_secs(1));
        assert_eq!(config.job_pod_failure_backoff, Duration::from_secs(10));
        let api = [config.job_api_backoff, config.job_max_api_backoff];
        assert_eq!(api, [1, 60].map(Duration::from_secs));
        let longest = config.job_max_pod_failure_backoff;
        assert_eq!(longest, Duration::from_mins(10));
        assert_eq!(config.job_max_uncounted_pods, 500);
        assert_eq!(config.cache_audit_period, Some(Duration::from_mins(10)));
        assert_eq!(config.pod_placement, PodPlacement::Scheduler);
        assert_eq!(config.log_level, LogLevel::Info);
        let lease = config.lease.unwrap();
        assert_eq!(
            (lease.duration, lease.renew_deadline, lease.retry_period),
            (
                Duration::from_secs(15),
                Duration::from_secs(10),
                Duration::from_secs(2)
            )
        );
    }

    #[test]
    fn values_are_taken_over() {
        let config = parse(&[
            "--leader-elect=false",
            "--namespaces=b, a,b",
            "--debug-address=",
            "--pod-placement=node-name",
            "--log-format=text",
            "--controllers=broadcastjob,job",
            "--serve-native=jobs",
            "--job-sync-batch-period=250ms",
            "--job-pod-failure-backoff=500ms",
            "--job-max-pod-failure-backoff=2s",
            "--job-max-uncounted-pods=7",
            "--cache-audit-period=0",
        ])
        .unwrap();
        assert_eq!(config.lease, None);
        assert_eq!(config.namespaces, ["a", "b"]);
        assert_eq!(config.debug_address, None);
        assert_eq!(config.cache_audit_period, None);
        assert_eq!(config.pod_placement, PodPlacement::NodeName);
        assert_eq!(config.log_format, LogFormat::Text);
        assert_eq!(config.job_sync_batch_period, Duration::from_millis(250));
        let controllers = [Controller::BroadcastJob, Controller::Job];
        assert_eq!(config.controllers, controllers);
        assert_eq!(config.serve_native, [NativeKind::Jobs]);
        let backoff = [
            config.job_pod_failure_backoff,
            config.job_max_pod_failure_backoff,
        ];
        assert_eq!(backoff, [500, 2000].map(Duration::from_millis));
        assert_eq!(config.job_max_uncounted_pods, 7);
        assert!(parse(&["--leader-elect"]).unwrap().lease.is_some());
    }

    #[test]
    fn wrong_flags_exit_2_and_are_named() {
        #[rustfmt::skip]
        let cases: &[(&[&str], &[&str])] = &[
            (&["--frobnicate"], &["--frobnicate"]),
            (&["extra"], &["extra"]),
            (&["--controllers=foo"], &["--controllers", "foo", "allowed: broadcastjob"]),
            (&["--controllers=job,daemonset"], &["--controllers", "daemonset", "not in this version"]),
            (&["--serve-native=daemonsets"], &["--serve-native", "daemonsets", "not in this version"]),
            (&["--serve-native=pods"], &["--serve-native", "pods", "allowed: jobs, cronjobs"]),
            (&["--namespaces=A"], &["--namespaces", "A"]),
            (&["--http-address=here"], &["--http-address", "here"]),
            (&["--debug-address=0.0.0.0:8081"], &["--debug-address", "0.0.0.0:8081", "loopback"]),
            (&["--debug-address=8081"], &["--debug-address", "8081", "IP:PORT"]),
            (&["--leader-elect=maybe"], &["--leader-elect", "maybe"]),
            (&["--lease-name=My Lease"], &["--lease-name", "My Lease"]),
            (&["--lease-namespace=a.b"], &["--lease-namespace", "a.b"]),
            (&["--lease-duration=10s"], &["--lease-duration", "--lease-renew-deadline"]),
            (&["--lease-duration=500ms"], &["--lease-duration", "1s"]),
            (&["--lease-duration=15"], &["--lease-duration", "15", "duration"]),
            (&["--lease-renew-deadline=2s"], &["--lease-renew-deadline", "--lease-retry-period"]),
            (&["--lease-retry-period=0"], &["--lease-retry-period"]),
            (&["--lease-retry-period=2"], &["--lease-retry-period", "'2'"]),
            (&["--workers=0"], &["--workers", "0"]),
            (&["--workers=-1"], &["--workers"]),
            (&["--max-in-flight-writes=0"], &["--max-in-flight-writes"]),
            (&["--max-pod-changes-per-sync=0"], &["--max-pod-changes-per-sync"]),
            (&["--job-sync-batch-period=soon"], &["--job-sync-batch-period", "soon"]),
            (&["--job-pod-failure-backoff=10"], &["--job-pod-failure-backoff", "'10'"]),
            (&["--job-pod-failure-backoff=0"], &["--job-pod-failure-backoff", "0"]),
            (&["--job-strict-parity"], &["--job-strict-parity", "--serve-native=jobs"]),
            (&["--job-api-backoff=0"], &["--job-api-backoff", "0"]),
            (&["--job-max-api-backoff=500ms"], &["--job-max-api-backoff", "500ms", "--job-api-backoff", "1s"]),
            (&["--job-max-pod-failure-backoff=5s"], &["--job-max-pod-failure-backoff", "5s", "--job-pod-failure-backoff", "10s"]),
            (&["--job-max-uncounted-pods=0"], &["--job-max-uncounted-pods"]),
            (&["--cache-audit-period=10"], &["--cache-audit-period", "'10'"]),
            (&["--cache-audit-period=10ms"], &["--cache-audit-period", "10ms", "1s"]),
            (&["--pod-placement=kubelet"], &["--pod-placement", "kubelet", "node-name"]),
            (&["--log-format=xml"], &["--log-format", "xml", "json"]),
            (&["--log-level=loud"], &["--log-level", "loud", "info"]),
        ];
        for (args, words) in cases {
            let error = parse(args).expect_err(&format!("{args:?} is accepted"));
            assert_eq!(error.exit_code(), 2, "{args:?}");
            let text = error.to_string();
            for word in *words {
                assert!(text.contains(word), "{args:?}: no {word:?} in:\n{text}");
            }
        }
    }

    #[test]
    fn every_flag_has_its_variable() {
        for arg in Args::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            if ["help", "version"].contains(&long) {
                continue;
            }
            let expected = format!("CARILLON_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().unwrap().to_str(), Some(expected.as_str()));
        }
    }
}
