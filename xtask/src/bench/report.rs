//! Figures as a table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::api_writes::Timeline;

/// One run of one of the two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// `Job` or `BroadcastJob`.
    pub(super) kind: &'static str,
    pub(super) round: usize,
    /// From the creation to the condition Complete, by the API server's clock.
    pub(super) wall_seconds: f64,
    /// Of the process that served it, until a little after the end.
    pub(super) cpu_seconds: f64,
    /// Of the other one meanwhile.
    pub(super) bystander_cpu_seconds: f64,
    pub(super) apiserver_cpu_seconds: f64,
    /// Of all processes that are not part of this: much of it spoils the figures.
    pub(super) stranger_cpu_seconds: f64,
    pub(super) timeline: Timeline,
    /// Highest resident set of the process that served it, since its start.
    pub(super) peak_rss_bytes: u64,
    /// Stored writes of the one that served it, by verb and resource; events are not audited.
    pub(super) writes: BTreeMap<String, usize>,
    pub(super) writes_per_pod: f64,
    /// Distinct, from the audit log.
    pub(super) pods_created: usize,
    /// Distinct, from the scheduler's bindings in the audit log.
    pub(super) nodes_bound: usize,
    /// From kind to bytes per object in our cache, at the end of the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) bytes_per_cached: BTreeMap<String, f64>,
}

/// All of a benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: String,
    pub(super) nodes: usize,
    pub(super) samples: Vec<Sample>,
    pub(super) ratios: Vec<Ratio>,
}

/// Ours by theirs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) what: &'static str,
    /// One per round.
    pub(super) rounds: Vec<f64>,
    pub(super) median: f64,
    /// What we want it to be at most.
    pub(super) reach: f64,
}

impl Ratio {
    /// Of what was measured in each round, given with its number.
    pub(super) fn by_round(
        what: &'static str,
        reach: f64,
        ours: impl Iterator<Item = (usize, f64)>,
        theirs: impl Iterator<Item = (usize, f64)>,
    ) -> Self {
        let ours: BTreeMap<usize, f64> = ours.collect();
        let theirs: BTreeMap<usize, f64> = theirs.collect();
        let both = ours
            .iter()
            .filter_map(|(round, ours)| Some(ours / theirs.get(round)?));
        let rounds: Vec<f64> = both.collect();
        Self {
            what,
            median: median(&rounds),
            rounds,
            reach,
        }
    }
}

/// A ratio as a line of a table.
pub(super) fn ratio_line(ratio: &Ratio) -> String {
    let Ratio {
        what,
        rounds,
        median,
        reach,
    } = ratio;
    let rounds: Vec<String> = rounds.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let verdict = if median <= reach { "" } else { ", missed" };
    format!(
        "| {what} | {} | {median:.2} | ≤ {reach}{verdict} |",
        rounds.join(" ")
    )
}

impl Report {
    pub(super) fn new(machine: String, nodes: usize, samples: Vec<Sample>) -> Self {
        let ratio = |what, reach, of: fn(&Sample) -> f64| {
            let each = |kind: &'static str| {
                let of_kind = samples.iter().filter(move |s| s.kind == kind);
                of_kind.map(move |sample| (sample.round, of(sample)))
            };
            Ratio::by_round(what, reach, each(OURS), each(THEIRS))
        };
        let ratios = vec![
            ratio("wall time", 1.0, |sample| sample.wall_seconds),
            ratio("CPU time", 0.25, |sample| sample.cpu_seconds),
            ratio("peak RSS", 0.2, |sample| sample.peak_rss_bytes as f64),
        ];
        Self {
            machine,
            nodes,
            samples,
            ratios,
        }
    }

    /// Whether each run of ours made one pod for each node and no other.
    pub(super) fn one_pod_per_node(&self) -> bool {
        let mut ours = self.samples.iter().filter(|sample| sample.kind == OURS);
        ours.all(|sample| sample.pods_created == self.nodes && sample.nodes_bound == self.nodes)
    }

    pub(super) fn print(&self) {
        println!("{}", self.machine);
        println!();
        println!(
            "| round | kind | wall s | CPU s | CPU s of the other | API server CPU s | strangers' CPU s | peak RSS MB | writes per pod | pods | nodes |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|");
        for s in &self.samples {
            println!(
                "| {} | {} | {:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.0} | {:.3} | {} | {} |",
                s.round,
                s.kind,
                s.wall_seconds,
                s.cpu_seconds,
                s.bystander_cpu_seconds,
                s.apiserver_cpu_seconds,
                s.stranger_cpu_seconds,
                s.peak_rss_bytes as f64 / 1e6,
                s.writes_per_pod,
                s.pods_created,
                s.nodes_bound,
            );
        }
        println!();
        println!("| ours by theirs | each round | median | reach |");
        println!("|---|---|---|---|");
        for ratio in &self.ratios {
            println!("{}", ratio_line(ratio));
        }
        self.print_timelines();
        self.print_writes();
        self.print_bytes();
    }

    fn print_timelines(&self) {
        println!();
        println!("| round | kind | last pod created s | bound | ended | Complete |");
        println!("|---|---|---|---|---|---|");
        for Sample {
            round,
            kind,
            timeline: t,
            ..
        } in &self.samples
        {
            println!(
                "| {round} | {kind} | {:.2} | {:.2} | {:.2} | {:.2} |",
                t.last_pod_created, t.last_pod_bound, t.last_pod_ended, t.complete
            );
        }
    }

    fn print_writes(&self) {
        println!();
        println!(
            "| kind | API writes (round {}) | number | per pod |",
            self.last_round()
        );
        println!("|---|---|---|---|");
        for sample in self.last() {
            for (what, count) in &sample.writes {
                let per_pod = *count as f64 / self.nodes as f64;
                println!("| {} | {what} | {count} | {per_pod:.3} |", sample.kind);
            }
        }
    }

    fn print_bytes(&self) {
        println!();
        println!("| in our cache | bytes each |");
        println!("|---|---|");
        for (kind, bytes) in self.last().flat_map(|sample| &sample.bytes_per_cached) {
            println!("| {kind} | {bytes:.0} |");
        }
    }

    fn last(&self) -> impl Iterator<Item = &Sample> {
        let last = self.last_round();
        self.samples
            .iter()
            .filter(move |sample| sample.round == last)
    }

    fn last_round(&self) -> usize {
        self.samples
            .iter()
            .map(|sample| sample.round)
            .max()
            .unwrap_or(0)
    }
}

/// The kind that Carillon serves.
pub(super) const OURS: &str = "BroadcastJob";
/// The kind that kube-controller-manager serves.
pub(super) const THEIRS: &str = "Job";

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
