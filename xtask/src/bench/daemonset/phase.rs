//! One thing that is measured.

use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use carillon_testbed::{AuditEvent, Cluster};
use serde_json::Value;

use super::case::{Case, NAMESPACE};
use crate::bench::api_writes;
use crate::bench::meter::Meter;
use crate::bench::server::{Kind, Running};
use crate::bench::side_by_side::{Sample, events_told};

/// The answer is what the API server has to do besides.
const EVERY: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_mins(30);
/// The last events.
const AFTER: Duration = Duration::from_secs(5);

/// What is done, by whom.
pub(super) struct Phase<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) server: &'a Running,
    /// Who writes.
    pub(super) user: String,
    pub(super) kind: Kind,
    pub(super) round: usize,
    pub(super) case: Case,
}

impl Phase<'_> {
    /// Does it, and waits until it is done. The wall time ends with the last write of a kubelet.
    pub(super) fn measure(&self, act: impl FnOnce() -> Result<()>) -> Result<Sample> {
        let cluster = self.cluster;
        let mark = api_writes::mark(cluster)?;
        let meter = Meter::begin(cluster, self.server)?;
        let told = events_told(cluster, NAMESPACE, "DaemonSet")?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        act()?;
        sleep(AFTER);
        let spent = meter.end()?;
        let events = api_writes::since(cluster, mark)?;
        let writes = api_writes::by_verb(&events, |user| user == self.user);
        let without_leases = writes.iter().filter(|(what, _)| !what.ends_with(" leases"));
        let without_leases: usize = without_leases.map(|(_, count)| count).sum();
        let pods_created = api_writes::pods_created(&events, NAMESPACE).len();
        let last = |verb, subresource| last(&events, verb, subresource).map(|at| at - begin);
        let last_pod_done = last("patch", "status")?;
        let sample = Sample {
            case: self.case.to_string(),
            kind: self.kind.name(),
            round: self.round,
            wall_seconds: last_pod_done,
            last_pod_created: last("create", "")?,
            last_pod_done,
            cpu_seconds: spent.cpu_seconds,
            cluster_cpu_seconds: spent.cluster_cpu_seconds,
            stranger_cpu_seconds: spent.stranger_cpu_seconds,
            peak_rss_bytes: spent.peak_rss_bytes,
            writes_per_pod: without_leases as f64 / pods_created as f64,
            writes,
            events: events_told(cluster, NAMESPACE, "DaemonSet")? - told,
            pods_created,
        };
        eprintln!(
            "{:.2} s wall, {:.2} s CPU, {:.0} MB, {:.3} writes a pod; others on this machine {:.0} s CPU",
            sample.wall_seconds,
            sample.cpu_seconds,
            sample.peak_rss_bytes as f64 / 1e6,
            sample.writes_per_pod,
            sample.stranger_cpu_seconds
        );
        Ok(sample)
    }
}

/// When a pod was last written so.
fn last(events: &[AuditEvent], verb: &str, subresource: &str) -> Result<f64> {
    let mut pods = events.iter().filter(|event| {
        let here = event.resource == "pods" && event.namespace == NAMESPACE;
        here && event.verb == verb && event.subresource == subresource
    });
    let last = pods.next_back();
    let last = last.with_context(|| format!("no {verb} of pods/{subresource}"))?;
    api_writes::seconds(&last.stage_time)
}

/// Waits until each DaemonSet has an available pod of its template on so many nodes, as long as `check` allows.
pub(super) fn until_served(
    cluster: &Cluster,
    (sets, nodes): (usize, usize),
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets");
    let limit = SystemTime::now() + LIMIT;
    loop {
        check()?;
        let all = cluster.kubectl_ok(["get", "--raw", &path])?;
        let all: Value = serde_json::from_str(&all)?;
        let items = all["items"].as_array().context("a list of DaemonSets")?;
        let served = items.iter().filter(|set| is_served(set, nodes)).count();
        if served == sets {
            return Ok(());
        }
        if SystemTime::now() > limit {
            bail!("{served} of {sets} DaemonSets are served by now");
        }
        sleep(EVERY);
    }
}

fn is_served(set: &Value, nodes: usize) -> bool {
    let status = &set["status"];
    let counts = [
        "desiredNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    counts.iter().all(|count| status[count] == nodes)
        && status["observedGeneration"] == set["metadata"]["generation"]
}
