//! Figures as a table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::case::Case;
use crate::bench::api_writes::Timeline;
use crate::bench::report::{Ratio, ratio_line};
use crate::bench::server::Kind;

/// One run of one of the two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Completions and mode.
    pub(super) case: String,
    /// Who served.
    pub(super) kind: &'static str,
    pub(super) round: usize,
    /// From the creation to the condition Complete, by the API server's clock.
    pub(super) wall_seconds: f64,
    pub(super) timeline: Timeline,
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
    /// What was told about the Job.
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

impl Report {
    pub(super) fn new(machine: String, cases: &[Case], samples: Vec<Sample>) -> Self {
        let ratios = |case: &str| {
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
                ratio("CPU time", 0.25, |sample| sample.cpu_seconds),
                ratio("peak RSS", 0.25, |sample| sample.peak_rss_bytes as f64),
                ratio("API writes", 1.0, |sample| sample.writes_per_pod),
            ]
        };
        let cases = cases.iter().map(Case::to_string);
        let ratios = cases
            .map(|case| {
                let ratios = ratios(&case);
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
            "| Job | round | served by | wall s | last pod created | ended | CPU s | control plane CPU s | strangers' CPU s | peak RSS MB | writes per pod | events | pods |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        for s in &self.samples {
            println!(
                "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.3} | {} | {} |",
                s.case,
                s.round,
                s.kind,
                s.wall_seconds,
                s.timeline.last_pod_created,
                s.timeline.last_pod_ended,
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
        println!("| Job | ours by theirs | each round | median | reach |");
        println!("|---|---|---|---|---|");
        for (case, ratios) in &self.ratios {
            for ratio in ratios {
                println!("| {case} {}", ratio_line(ratio));
            }
        }
        println!();
        println!("| Job | served by | API writes (round 1) | number |");
        println!("|---|---|---|---|");
        for sample in self.samples.iter().filter(|sample| sample.round == 1) {
            for (what, count) in &sample.writes {
                println!("| {} | {} | {what} | {count} |", sample.case, sample.kind);
            }
        }
    }
}
