//! Flags and `CARILLON_…` variables, checked and turned into a [`Config`].
//!
//! A wrong flag or value is named, with what is allowed, and the process exits with 2.

mod config;
pub(crate) mod duration;
mod flags;
mod values;

use std::ffi::OsString;

use clap::{
    CommandFactory, FromArgMatches,
    error::{Error, ErrorKind},
};

pub use self::config::{Config, Controller, Lease, LogFormat, LogLevel, NativeKind, PodPlacement};
use self::flags::{Args, Command};
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
    use std::time::Duration;

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
                Controller::DaemonSet,
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
            (&["--controllers=job,deployment"], &["--controllers", "deployment", "no such value", "daemonset"]),
            (&["--serve-native=deployments"], &["--serve-native", "deployments", "no such value", "daemonsets"]),
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
