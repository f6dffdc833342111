//! What the figures were measured on.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use carillon_testbed::{Cluster, Component};
use serde_json::Value;

/// Linux reports CPU time to user space in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// One line: processor, memory, kernel, versions, that of Kubernetes included.
pub(super) fn line(cluster: &Cluster) -> String {
    format!("{}, Kubernetes {}", line_alone(), kubernetes(cluster))
}

/// The same without a cluster.
pub(super) fn line_alone() -> String {
    let cores = available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // What follows the first two numbers says more about the machine's owner than about its speed.
    let kernel = kernel
        .trim()
        .split('.')
        .take(2)
        .collect::<Vec<_>>()
        .join(".");
    let rustc = said("rustc", &["--version"]);
    let rustc = rustc.split(' ').take(2).collect::<Vec<_>>().join(" ");
    format!(
        "{cores} cores ({}), {:.0} GiB, Linux {}; {rustc}, commit {}",
        field("/proc/cpuinfo", "model name"),
        memory_gib(),
        kernel,
        said("git", &["describe", "--always", "--dirty"]),
    )
}

/// CPU seconds that the control plane has used, kwok included.
pub(super) fn control_plane_seconds(cluster: &Cluster) -> Result<f64> {
    let all = [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ];
    let spent = all.map(|component| Ok(cluster.usage(component)?.cpu_seconds));
    spent.into_iter().sum()
}

/// CPU seconds that everything on this machine has used since it was started.
pub(super) fn busy_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let total = stat.lines().next().context("/proc/stat is empty")?;
    let ticks = total
        .split_whitespace()
        .skip(1)
        .map_while(|ticks| ticks.parse::<u64>().ok());
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
    let busy = ticks
        .take(8)
        .enumerate()
        .filter(|(field, _)| ![3, 4].contains(field));
    Ok(busy.map(|(_, ticks)| ticks).sum::<u64>() as f64 / TICKS_PER_SECOND)
}

fn field(path: &str, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(
        || "unknown".to_owned(),
        |(_, value)| value.trim().to_owned(),
    )
}

fn memory_gib() -> f64 {
    let total = field("/proc/meminfo", "MemTotal");
    let kib: f64 = total
        .split(' ')
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0.0);
    kib / 1024.0 / 1024.0
}

fn kubernetes(cluster: &Cluster) -> String {
    let version = cluster
        .kubectl_ok(["version", "-o", "json"])
        .unwrap_or_default();
    let version: Value = serde_json::from_str(&version).unwrap_or_default();
    version["serverVersion"]["gitVersion"]
        .as_str()
        .unwrap_or("unknown")
        .to_owned()
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
