//! Checks what clap cannot, and names the flag that is wrong.

use std::{io::IsTerminal, net::SocketAddr, time::Duration};

use super::config::{Config, Controller, Lease, LogFormat, NativeKind};
use super::flags::Args;

/// The configuration that `args` ask for.
pub(super) fn check(args: Args) -> Result<Config, String> {
    backoff(
        ["--job-pod-failure-backoff", "--job-max-pod-failure-backoff"],
        [
            args.job_pod_failure_backoff,
            args.job_max_pod_failure_backoff,
        ],
        "a pod that always fails would be replaced without end",
    )?;
    backoff(
        ["--job-api-backoff", "--job-max-api-backoff"],
        [args.job_api_backoff, args.job_max_api_backoff],
        "a request that is always refused would be sent without end",
    )?;
    let serve_native = serve_native(&args.serve_native)?;
    if args.job_strict_parity && !serve_native.contains(&NativeKind::Jobs) {
        return Err(
            "--job-strict-parity needs --serve-native=jobs: it does not concern Jobs whose \
             spec.managedBy is carillon.dev/job-controller"
                .into(),
        );
    }
    Ok(Config {
        debug_address: debug_address(&args.debug_address)?,
        controllers: controllers(&args.controllers)?,
        serve_native,
        namespaces: namespaces(&args.namespaces)?,
        lease: lease(&args)?,
        kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        http_address: args.http_address,
        workers: args.workers.get() as usize,
        max_in_flight_writes: args.max_in_flight_writes.get() as usize,
        max_pod_changes_per_sync: args.max_pod_changes_per_sync.get() as usize,
        job_sync_batch_period: args.job_sync_batch_period,
        job_pod_failure_backoff: args.job_pod_failure_backoff,
        job_max_pod_failure_backoff: args.job_max_pod_failure_backoff,
        job_strict_parity: args.job_strict_parity,
        job_api_backoff: args.job_api_backoff,
        job_max_api_backoff: args.job_max_api_backoff,
        job_max_uncounted_pods: args.job_max_uncounted_pods.get() as usize,
        cache_audit_period: cache_audit_period(args.cache_audit_period)?,
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
    let chosen = choose("--controllers", list, &Controller::ALL)?;
    Ok(if chosen.is_empty() {
        Controller::ALL.map(|(_, controller)| controller).to_vec()
    } else {
        chosen
    })
}

fn serve_native(list: &[String]) -> Result<Vec<NativeKind>, String> {
    choose("--serve-native", list, &NativeKind::ALL)
}

/// The words of a list flag, each once.
fn choose<T: Copy + PartialEq>(
    flag: &str,
    list: &[String],
    known: &[(&str, T)],
) -> Result<Vec<T>, String> {
    let mut chosen = Vec::new();
    for value in values(list) {
        let Some((_, choice)) = known.iter().find(|(word, _)| *word == value) else {
            let known: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
            let known = known.join(", ");
            return Err(format!("{flag} {value}: no such value, allowed: {known}"));
        };
        if !chosen.contains(choice) {
            chosen.push(*choice);
        }
    }
    Ok(chosen)
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

/// Checks the first and the longest wait, by their flags.
fn backoff(flags: [&str; 2], waits: [Duration; 2], without: &str) -> Result<(), String> {
    let ([first_flag, longest_flag], [first, longest]) = (flags, waits);
    if first.is_zero() {
        return Err(format!("{first_flag} must not be 0: {without}"));
    }
    if longest < first {
        return Err(format!(
            "{longest_flag} {longest:?} must not be less than {first_flag} {first:?}: it bounds the \
             doubling of it"
        ));
    }
    Ok(())
}

fn cache_audit_period(period: Duration) -> Result<Option<Duration>, String> {
    if !period.is_zero() && period < Duration::from_secs(1) {
        return Err(format!(
            "--cache-audit-period {period:?}: must be 0 (never) or at least 1s, each audit lists \
             every kind once"
        ));
    }
    Ok(Some(period).filter(|period| !period.is_zero()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_json_unless_a_person_reads_them() {
        assert_eq!(default_log_format(false), LogFormat::Json);
        assert_eq!(default_log_format(true), LogFormat::Text);
    }
}
