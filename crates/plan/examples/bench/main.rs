//! What a sync costs: planning, the interlock, the digest. `cargo xtask bench plan` runs it.

mod cluster;
mod cost;
mod whole_run;

use cluster::Cluster;
use cost::{Cost, measure};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// How often each sync is measured.
const REPEATS: usize = 25;
/// What a sync of one event may cost with 10,000 nodes.
const REACH_MS: f64 = 5.0;
/// How much more ten times as many nodes may cost.
const REACH_FACTOR: f64 = 12.0;

fn main() {
    println!(
        "CPU time in ms, median of {REPEATS} (least in brackets); heap in KiB above the snapshot's\n"
    );
    println!("| nodes | sync | plan | verify | digest | together | heap, plan | heap, all |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut event = None;
    for nodes in [10_000, 100_000] {
        let mut cluster = Cluster::new(nodes);
        row(nodes, "the first", &measure(&cluster, REPEATS));
        cluster.start_all();
        row(nodes, "nothing to do", &measure(&cluster, REPEATS));
        cluster.end_oldest(1);
        let cost = measure(&cluster, REPEATS);
        row(nodes, "one pod has ended", &cost);
        event.get_or_insert(cost);
    }
    if let Some(cost) = event {
        let (median, _) = cost.together();
        println!(
            "\nOne event with 10,000 nodes: {median:.2} ms; reach: at most {REACH_MS} ms, {}",
            met(median <= REACH_MS)
        );
    }

    println!("\n| nodes | pods that end in a batch | syncs | CPU s of all syncs | µs per node |");
    println!("|---|---|---|---|---|");
    for (what, batch) in [("200", 200), ("a tenth of the nodes", 0)] {
        let mut costs = Vec::new();
        for nodes in [2_000, 20_000] {
            let batch = if batch == 0 { nodes / 10 } else { batch };
            let run = whole_run::run(nodes, batch);
            let micros = run.seconds * 1e6 / nodes as f64;
            println!(
                "| {nodes} | {what} | {} | {:.3} | {micros:.1} |",
                run.syncs, run.seconds
            );
            costs.push(run.seconds);
        }
        let factor = costs[1] / costs[0];
        println!(
            "| | {what} | | {factor:.1} times | reach: at most {REACH_FACTOR}, {} |",
            met(factor <= REACH_FACTOR)
        );
    }
}

fn row(nodes: usize, what: &str, cost: &Cost) {
    let ms = |(median, least): (f64, f64)| format!("{median:.2} ({least:.2})");
    println!(
        "| {nodes} | {what} | {} | {} | {} | {} | {} | {} |",
        ms(cost.plan()),
        ms(cost.verify()),
        ms(cost.digest()),
        ms(cost.together()),
        cost.heap_plan / 1024,
        cost.heap_all / 1024,
    );
}

fn met(yes: bool) -> &'static str {
    if yes { "met" } else { "missed" }
}
