//! Figures as a table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::skew::Skew;
use crate::bench::report::{Ratio, ratio_line};
use crate::bench::server::Kind;

/// One run of one of the two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Who served.
    pub(super) kind: &'static str,
    pub(super) round: usize,
    /// Of all Jobs.
    pub(super) skew: Skew,
    /// Of the process that served, from the creation of the CronJobs until a little after the end.
    pub(super) cpu_seconds: f64,
    /// Of the control plane meanwhile.
    pub(super) cluster_cpu_seconds: f64,
    /// Of all processes that are not part of this, kubectl included: much of it spoils the figures.
    pub(super) stranger_cpu_seconds: f64,
    /// Highest resident set of the process that served, since its start.
    pub(super) peak_rss_bytes: u64,
    /// Stored writes of the one that served, by verb and resource; events are not audited.
    pub(super) writes: BTreeMap<String, usize>,
    pub(super) writes_per_job: f64,
}

/// All of a benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: String,
    crons: usize,
    samples: Vec<Sample>,
    ratios: Vec<Ratio>,
}

impl Report {
    pub(super) fn new(machine: String, crons: usize, samples: Vec<Sample>) -> Self {
        let ratio = |what, reach, of: fn(&Sample) -> f64| {
            let each = |kind: Kind| {
                let of_kind = samples.iter().filter(move |s| s.kind == kind.name());
                of_kind.map(move |sample| (sample.round, of(sample)))
            };
            Ratio::by_round(what, reach, each(Kind::Ours), each(Kind::Theirs))
        };
        let ratios = vec![
            ratio("skew p50", 1.0, |sample| sample.skew.p50),
            ratio("skew p99", 1.0, |sample| sample.skew.p99),
            ratio("CPU time", 0.25, |sample| sample.cpu_seconds),
            ratio("peak RSS", 0.3, |sample| sample.peak_rss_bytes as f64),
        ];
        Self {
            machine,
            crons,
            samples,
            ratios,
        }
    }

    pub(super) fn print(&self) {
        println!("{}", self.machine);
        println!();
        println!(
            "| round | served by | skew p50 s | p99 | max | CPU s | control plane CPU s | strangers' CPU s | peak RSS MB | writes per Job |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for s in &self.samples {
            println!(
                "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.3} |",
                s.round,
                s.kind,
                s.skew.p50,
                s.skew.p99,
                s.skew.max,
                s.cpu_seconds,
                s.cluster_cpu_seconds,
                s.stranger_cpu_seconds,
                s.peak_rss_bytes as f64 / 1e6,
                s.writes_per_job,
            );
        }
        println!();
        println!("| ours by theirs | each round | median | reach |");
        println!("|---|---|---|---|");
        for ratio in &self.ratios {
            println!("{}", ratio_line(ratio));
        }
        println!();
        println!(
            "| served by | API writes, {} CronJobs | number |",
            self.crons
        );
        println!("|---|---|---|");
        for sample in self.samples.iter().filter(|sample| sample.round == 1) {
            for (what, count) in &sample.writes {
                println!("| {} | {what} | {count} |", sample.kind);
            }
        }
    }
}
