//! What it costs when nothing happens.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use carillon_testbed::Cluster;
use serde::Serialize;

use crate::bench::bytes_per_cached;
use crate::bench::server::{Kind, Running};

/// What the last plans left to do is done.
const SETTLE: Duration = Duration::from_secs(30);

/// A while in which nodes report, and nothing else happens.
#[derive(Debug, Serialize)]
pub(super) struct Idle {
    kind: &'static str,
    seconds: u64,
    /// Of one core, in percent.
    cpu_percent: f64,
    rss_bytes: u64,
    /// All writes in that time, of anybody: with nothing else to do, those of nodes and their leases.
    heartbeats_per_second: f64,
    /// Requests of ours besides watches and the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u64>,
    /// From kind to bytes per object in our cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    bytes_per_cached: BTreeMap<String, f64>,
}

pub(super) fn measure(
    cluster: &Cluster,
    server: &Running,
    kind: Kind,
    during: Duration,
) -> Result<Idle> {
    sleep(SETTLE);
    let before = (server.usage()?, requests(server)?);
    let (revision, begin) = (cluster.revision()?, Instant::now());
    sleep(during);
    let after = (server.usage()?, requests(server)?);
    let heartbeats = (cluster.revision()? - revision) as f64 / begin.elapsed().as_secs_f64();
    let spent = after.0.cpu_seconds - before.0.cpu_seconds;
    let metrics = server.metrics()?;
    let idle = Idle {
        kind: kind.name(),
        seconds: during.as_secs(),
        cpu_percent: 100.0 * spent / during.as_secs_f64(),
        rss_bytes: after.0.peak_rss_bytes,
        heartbeats_per_second: heartbeats,
        requests: after.1.zip(before.1).map(|(after, before)| after - before),
        bytes_per_cached: metrics
            .map(|page| bytes_per_cached(&page))
            .unwrap_or_default(),
    };
    eprintln!(
        "{:.2} % of a core, {:.0} MB at most, {:.0} heartbeats a second, requests: {:?}",
        idle.cpu_percent,
        idle.rss_bytes as f64 / 1e6,
        idle.heartbeats_per_second,
        idle.requests
    );
    Ok(idle)
}

/// Requests of ours so far, besides watches and the lease.
fn requests(server: &Running) -> Result<Option<u64>> {
    let count = |page: String| {
        let series = page.lines().filter(|line| {
            let ours = line.starts_with("carillon_api_requests_total{");
            ours && !line.contains("verb=\"watch\"") && !line.contains("resource=\"leases\"")
        });
        let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>() as u64
    };
    Ok(server.metrics()?.map(count))
}

pub(super) fn print(all: &[Idle]) {
    if all.is_empty() {
        return;
    }
    println!();
    println!(
        "| idle | seconds | heartbeats a second | % of a core | peak RSS MB | requests besides watches and the lease |"
    );
    println!("|---|---|---|---|---|---|");
    for idle in all {
        let requests = idle
            .requests
            .map_or_else(|| "-".to_owned(), |count| count.to_string());
        println!(
            "| {} | {} | {:.0} | {:.2} | {:.0} | {requests} |",
            idle.kind,
            idle.seconds,
            idle.heartbeats_per_second,
            idle.cpu_percent,
            idle.rss_bytes as f64 / 1e6,
        );
    }
    for idle in all {
        for (kind, bytes) in &idle.bytes_per_cached {
            println!("in our cache, {kind}: {bytes:.0} bytes each");
        }
    }
}
