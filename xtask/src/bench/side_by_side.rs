//! Runs of a native kind, of kube-controller-manager and of ours, as tables.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use carillon_testbed::Cluster;
use serde::Serialize;
use serde_json::Value;

use super::report::{Ratio, ratio_line};
use super::server::Kind;

/// One run of one of the two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// What was done.
    pub(super) case: String,
    /// Who served.
    pub(super) kind: &'static str,
    pub(super) round: usize,
    /// From the first request to the end.
    pub(super) wall_seconds: f64,
    /// When the last pod was created, and when it had ended or was ready: the kubelets' last write.
    pub(super) last_pod_created: f64,
    pub(super) last_pod_done: f64,
    /// Of the process that served, until a little after the end.
    pub(super) cpu_seconds: f64,
    /// Of the control plane meanwhile.
    pub(super) cluster_cpu_seconds: f64,
    /// Of all processes that are not part of this, kubectl included: much of it spoils the figures.
    pub(super) stranger_cpu_seconds: f64,
    /// Highest resident set of the process that served, since its start.
    pub(super) peak_rss_bytes: u64,
    /// Stored writes of the one that served, by verb and resource; events are not audited.
    pub(super) writes: BTreeMap<String, usize>,
    /// Without leases: kube-controller-manager runs without leader election here.
    pub(super) writes_per_pod: f64,
    /// What was told about the object.
    pub(super) events: usize,
    pub(super) pods_created: usize,
}

/// All of a benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: String,
    samples: Vec<Sample>,
    ratios: Vec<(String, Vec<Ratio>)>,
}

/// What we want to need at most, as a part of what kube-controller-manager needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) cpu: f64,
    pub(super) rss: f64,
}

impl Report {
    /// Each case with what it is to reach.
    pub(super) fn new(
        machine: String,
        cases: impl IntoIterator<Item = (String, Reach)>,
        samples: Vec<Sample>,
    ) -> Self {
        let ratios = |case: &str, reach: Reach| {
            let of_case = || samples.iter().filter(move |sample| sample.case == case);
            let ratio = |what, reach, of: fn(&Sample) -> f64| {
                let each = |kind: Kind| {
                    let of_kind = of_case().filter(move |s| s.kind == kind.name());
                    of_kind.map(move |sample| (sample.round, of(sample)))
                };
                Ratio::by_round(what, reach, each(Kind::Ours), each(Kind::Theirs))
            };
            vec![
                ratio("wall time", 1.0, |sample| sample.wall_seconds),
                ratio("CPU time", reach.cpu, |sample| sample.cpu_seconds),
                ratio("peak RSS", reach.rss, |sample| sample.peak_rss_bytes as f64),
                ratio("API writes", 1.0, |sample| sample.writes_per_pod),
            ]
        };
        let ratios = cases
            .into_iter()
            .map(|(case, reach)| {
                let ratios = ratios(&case, reach);
                (case, ratios)
            })
            .collect();
        Self {
            machine,
            samples,
            ratios,
        }
    }

    pub(super) fn print(&self) {
        println!("{}", self.machine);
        println!();
        println!(
            "| what | round | served by | wall s | last pod created | ended or ready | CPU s | control plane CPU s | strangers' CPU s | peak RSS MB | writes per pod | events | pods |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        for s in &self.samples {
            println!(
                "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.3} | {} | {} |",
                s.case,
                s.round,
                s.kind,
                s.wall_seconds,
                s.last_pod_created,
                s.last_pod_done,
                s.cpu_seconds,
                s.cluster_cpu_seconds,
                s.stranger_cpu_seconds,
                s.peak_rss_bytes as f64 / 1e6,
                s.writes_per_pod,
                s.events,
                s.pods_created,
            );
        }
        println!();
        println!("| what | ours by theirs | each round | median | reach |");
        println!("|---|---|---|---|---|");
        for (case, ratios) in &self.ratios {
            for ratio in ratios {
                println!("| {case} {}", ratio_line(ratio));
            }
        }
        println!();
        println!("| what | served by | API writes (round 1) | number |");
        println!("|---|---|---|---|");
        for sample in self.samples.iter().filter(|sample| sample.round == 1) {
            for (what, count) in &sample.writes {
                println!("| {} | {} | {what} | {count} |", sample.case, sample.kind);
            }
        }
    }
}

/// How often something was told about objects of a kind: an event that is repeated has a count.
pub(super) fn events_told(cluster: &Cluster, namespace: &str, kind: &str) -> Result<usize> {
    let events = cluster.kubectl_ok(["get", "events", "--namespace", namespace, "-o", "json"])?;
    let events: Value = serde_json::from_str(&events)?;
    let events = events["items"].as_array().context("a list of events")?;
    let about = |event: &&Value| event["involvedObject"]["kind"] == kind;
    let count = |event: &Value| event["count"].as_u64().unwrap_or(1).max(1) as usize;
    Ok(events.iter().filter(about).map(count).sum())
}
