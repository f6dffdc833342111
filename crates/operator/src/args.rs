//! Flags and `CARILLON_…` variables, checked and turned into a [`Config`].
//!
//! A wrong flag or value is named, with what is allowed, and the process exits with 2.

use std::{
    ffi::OsString, io::IsTerminal, net::SocketAddr, num::NonZeroU32, path::PathBuf, time::Duration,
};

use clap::{
    ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    error::{Error, ErrorKind},
};

use crate::check::Check;

/// The controllers of this version; what `--controllers` accepts.
const CONTROLLERS: [&str; 1] = ["broadcastjob"];
/// Controllers of the design that later versions bring.
const FUTURE_CONTROLLERS: [&str; 3] = ["cronjob", "job", "daemonset"];
/// Native kinds of the design that later versions serve.
const FUTURE_NATIVE: [&str; 3] = ["jobs", "cronjobs", "daemonsets"];

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
    /// Namespaces to watch; empty means all.
    pub namespaces: Vec<String>,
    /// Leader election; `None` when disabled.
    pub lease: Option<Lease>,
    /// Keys planned at a time, per controller.
    pub workers: usize,
    /// Client-side limit on writes and single reads; `None` means no limit.
    pub api_rate: Option<ApiRate>,
    /// Writes in flight at a time, at least 1.
    pub max_in_flight_writes: usize,
    /// Pods created or deleted for one object in one sync, at least 1.
    pub max_pod_changes_per_sync: usize,
    /// How long results of one object are gathered before its status is written.
    pub job_sync_batch_period: Duration,
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

/// A client-side rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ApiRate {
    /// Requests a second.
    pub qps: f64,
    /// Requests that may be sent at once after a pause.
    pub burst: u32,
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

    /// Address of /debug/store and /debug/queue; must be loopback, empty disables them.
    #[arg(
        long,
        env = "CARILLON_DEBUG_ADDRESS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8081"
    )]
    debug_address: String,

    /// Controllers to run: broadcastjob; all when empty.
    #[arg(
        long,
        env = "CARILLON_CONTROLLERS",
        value_name = "LIST",
        value_delimiter = ','
    )]
    controllers: Vec<String>,

    /// Native kinds to serve in place of kube-controller-manager: none in this version.
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

    /// Keys planned at a time, per controller.
    #[arg(long, env = "CARILLON_WORKERS", value_name = "N", default_value = "4")]
    workers: NonZeroU32,

    /// Writes and single reads a second; 0 means no limit.
    #[arg(
        long,
        env = "CARILLON_KUBE_API_QPS",
        value_name = "N",
        default_value_t = 0.0
    )]
    kube_api_qps: f64,

    /// Writes and single reads that may be sent at once after a pause; 0 means twice --kube-api-qps.
    #[arg(
        long,
        env = "CARILLON_KUBE_API_BURST",
        value_name = "N",
        default_value_t = 0
    )]
    kube_api_burst: u32,

    /// Writes in flight at a time.
    #[arg(
        long,
        env = "CARILLON_MAX_IN_FLIGHT_WRITES",
        value_name = "N",
        default_value = "32"
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
        let config = check(args);
        config
            .map(Self::Operate)
            .map_err(|message| Args::command().error(ErrorKind::ValueValidation, message))
    }
}

fn check(args: Args) -> Result<Config, String> {
    if !args.kube_api_qps.is_finite() || args.kube_api_qps < 0.0 {
        return Err(format!(
            "--kube-api-qps must be 0 (no limit) or a positive number, not {}",
            args.kube_api_qps
        ));
    }
    if args.kube_api_qps == 0.0 && args.kube_api_burst > 0 {
        return Err("--kube-api-burst needs --kube-api-qps: without it there is no limit".into());
    }
    serve_native(&args.serve_native)?;
    Ok(Config {
        debug_address: debug_address(&args.debug_address)?,
        controllers: controllers(&args.controllers)?,
        namespaces: namespaces(&args.namespaces)?,
        lease: lease(&args)?,
        api_rate: (args.kube_api_qps > 0.0).then(|| ApiRate {
            qps: args.kube_api_qps,
            burst: match args.kube_api_burst {
                0 => (args.kube_api_qps * 2.0).ceil().max(1.0) as u32,
                burst => burst,
            },
        }),
        kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        http_address: args.http_address,
        workers: args.workers.get() as usize,
        max_in_flight_writes: args.max_in_flight_writes.get() as usize,
        max_pod_changes_per_sync: args.max_pod_changes_per_sync.get() as usize,
        job_sync_batch_period: args.job_sync_batch_period,
        pod_placement: args.pod_placement,
        log_format: args
            .log_format
            .unwrap_or_else(|| default_log_format(std::io::stdout().is_terminal())),
        log_level: args.log_level,
    })
}

fn default_log_format(terminal: bool) -> LogFormat {
    if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    }
}

/// The values of a list flag, without blanks: `a, b,` is what people write in YAML.
fn values(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(|v| v.trim()).filter(|v| !v.is_empty())
}

fn controllers(list: &[String]) -> Result<Vec<Controller>, String> {
    for value in values(list) {
        if FUTURE_CONTROLLERS.contains(&value) {
            return Err(format!(
                "--controllers {value}: not in this version, only {}",
                CONTROLLERS.join(", ")
            ));
        }
        if !CONTROLLERS.contains(&value) {
            return Err(format!(
                "--controllers {value}: no such controller, allowed: {}",
                CONTROLLERS.join(", ")
            ));
        }
    }
    Ok(vec![Controller::BroadcastJob])
}

fn serve_native(list: &[String]) -> Result<(), String> {
    match values(list).next() {
        None => Ok(()),
        Some(value) if FUTURE_NATIVE.contains(&value) => Err(format!(
            "--serve-native {value}: not in this version, which serves no native kind; \
             leave the flag out"
        )),
        Some(value) => Err(format!(
            "--serve-native {value}: no such kind, allowed in later versions: {}",
            FUTURE_NATIVE.join(", ")
        )),
    }
}

fn namespaces(list: &[String]) -> Result<Vec<String>, String> {
    let mut namespaces = Vec::new();
    for value in values(list) {
        dns_label("--namespaces", value)?;
        namespaces.push(value.to_owned());
    }
    // Two watches of one namespace would be two owners of the same rows.
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(namespaces)
}

fn debug_address(value: &str) -> Result<Option<SocketAddr>, String> {
    if value.trim().is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = value.trim().parse().map_err(|_| {
        format!("--debug-address {value}: not an address, write IP:PORT such as 127.0.0.1:8081")
    })?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "--debug-address {value}: must be a loopback address such as 127.0.0.1:8081, \
             the debug pages show the specs of jobs to whoever can reach them"
        ));
    }
    Ok(Some(address))
}

fn lease(args: &Args) -> Result<Option<Lease>, String> {
    if !args.leader_elect {
        return Ok(None);
    }
    dns_subdomain("--lease-name", &args.lease_name)?;
    let namespace = args
        .lease_namespace
        .as_deref()
        .map(str::trim)
        .filter(|v| !v.is_empty());
    if let Some(namespace) = namespace {
        dns_label("--lease-namespace", namespace)?;
    }
    let (duration, renew, retry) = (
        args.lease_duration,
        args.lease_renew_deadline,
        args.lease_retry_period,
    );
    if duration < Duration::from_secs(1) {
        return Err("--lease-duration must be at least 1s, the API keeps whole seconds".into());
    }
    if duration <= renew {
        return Err(format!(
            "--lease-duration {duration:?} must be greater than --lease-renew-deadline {renew:?}: \
             the leader has to stop before others take over"
        ));
    }
    // Tries are spread by up to a fifth of the period, see lease.rs.
    if renew <= retry.mul_f64(1.2) {
        return Err(format!(
            "--lease-renew-deadline {renew:?} must be greater than 1.2 × --lease-retry-period \
             {retry:?}: the leader needs more than one try to renew"
        ));
    }
    if retry.is_zero() {
        return Err("--lease-retry-period must not be 0".into());
    }
    Ok(Some(Lease {
        namespace: namespace.map(str::to_owned),
        name: args.lease_name.clone(),
        duration,
        renew_deadline: renew,
        retry_period: retry,
    }))
}

fn dns_label(flag: &str, value: &str) -> Result<(), String> {
    let ok = value.len() <= 63 && is_label(value);
    ok.then_some(()).ok_or_else(|| {
        format!(
            "{flag} {value}: not a name Kubernetes allows: at most 63 of a-z, 0-9 and '-', \
             with a letter or digit at both ends"
        )
    })
}

fn dns_subdomain(flag: &str, value: &str) -> Result<(), String> {
    let ok = value.len() <= 253 && value.split('.').all(is_label);
    ok.then_some(()).ok_or_else(|| {
        format!(
            "{flag} {value}: not a name Kubernetes allows: at most 253 of a-z, 0-9, '-' and '.', \
             with a letter or digit at both ends of each part"
        )
    })
}

fn is_label(value: &str) -> bool {
    !value.is_empty()
        && value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !value.starts_with('-')
        && !value.ends_with('-')
}

/// A duration as Go and kubectl write it: `500ms`, `15s`, `1m30s`, `1.5h`; `0` needs no unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration, write for example 500ms, 15s, 1m30s or 2h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        total = Duration::try_from_secs_f64(number * seconds)
            .ok()
            .and_then(|part| total.checked_add(part))
            .ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
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
        assert_eq!(config.controllers, [Controller::BroadcastJob]);
        assert!(config.namespaces.is_empty());
        assert_eq!(config.api_rate, None);
        assert_eq!(config.max_in_flight_writes, 32);
        assert_eq!(config.max_pod_changes_per_sync, 500);
        assert_eq!(config.job_sync_batch_period, Duration::from_secs(1));
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
            "--kube-api-qps=20",
            "--pod-placement=node-name",
            "--log-format=text",
            "--controllers=broadcastjob",
            "--job-sync-batch-period=250ms",
        ])
        .unwrap();
        assert_eq!(config.lease, None);
        assert_eq!(config.namespaces, ["a", "b"]);
        assert_eq!(config.debug_address, None);
        assert_eq!(
            config.api_rate,
            Some(ApiRate {
                qps: 20.0,
                burst: 40
            })
        );
        assert_eq!(config.pod_placement, PodPlacement::NodeName);
        assert_eq!(config.log_format, LogFormat::Text);
        assert_eq!(config.job_sync_batch_period, Duration::from_millis(250));
        assert!(parse(&["--leader-elect"]).unwrap().lease.is_some());
    }

    #[test]
    fn wrong_flags_exit_2_and_are_named() {
        #[rustfmt::skip]
        let cases: &[(&[&str], &[&str])] = &[
            (&["--frobnicate"], &["--frobnicate"]),
            (&["extra"], &["extra"]),
            (&["--controllers=foo"], &["--controllers", "foo", "allowed: broadcastjob"]),
            (&["--controllers=broadcastjob,cronjob"], &["--controllers", "cronjob", "not in this version"]),
            (&["--serve-native=jobs"], &["--serve-native", "jobs", "not in this version"]),
            (&["--serve-native=pods"], &["--serve-native", "pods", "jobs, cronjobs, daemonsets"]),
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
            (&["--kube-api-qps=-1"], &["--kube-api-qps", "-1"]),
            (&["--kube-api-qps=NaN"], &["--kube-api-qps", "NaN"]),
            (&["--kube-api-burst=5"], &["--kube-api-burst", "--kube-api-qps"]),
            (&["--max-in-flight-writes=0"], &["--max-in-flight-writes"]),
            (&["--max-pod-changes-per-sync=0"], &["--max-pod-changes-per-sync"]),
            (&["--job-sync-batch-period=soon"], &["--job-sync-batch-period", "soon"]),
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

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("500ms", 500),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1m30",
            "-1s",
            "1d",
            "1..5s",
            "1 s",
            "99999999999999999999h",
        ] {
            assert!(duration(text).is_err(), "{text} is accepted");
        }
    }

    #[test]
    fn logs_are_json_unless_a_person_reads_them() {
        assert_eq!(default_log_format(false), LogFormat::Json);
        assert_eq!(default_log_format(true), LogFormat::Text);
    }
}
