//! What a sync costs: planning, the interlock, the digest. `cargo xtask bench plan` runs it.

// It measures, and plans nothing itself.
#![allow(clippy::disallowed_methods)]

mod cluster;
mod cost;
mod native;
mod whole_run;

use cluster::Cluster;
use cost::{Cost, measure};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// How often each sync is measured.
const REPEATS: usize = 25;
/// Each is ten times the one before.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// Runs of a CronJob: each has a reference in its status.
const RUNS: [usize; 3] = [100, 1_000, 10_000];
/// What a sync of one event may cost with 10,000 nodes.
const REACH_MS: f64 = 5.0;
/// How much more a whole run may cost on ten times as many nodes.
const REACH_FACTOR: f64 = 15.0;

fn main() {
    println!(
        "CPU time in ms, median of {REPEATS} (least in brackets); heap in KiB above the snapshot's\n"
    );
    head("nodes");
    let mut event = 0.0;
    for nodes in SIZES {
        let mut cluster = Cluster::new(nodes, "Always");
        row(
            nodes,
            "the first, nothing is kept",
            &measure(&mut cluster, false, REPEATS),
        );
        row(nodes, "the first", &measure(&mut cluster, true, REPEATS));
        cluster.start_all();
        row(
            nodes,
            "nothing to do",
            &measure(&mut cluster, true, REPEATS),
        );
        cluster.end_oldest(1);
        let cost = measure(&mut cluster, true, REPEATS);
        row(nodes, "one pod has ended", &cost);
        if nodes == 10_000 {
            (event, _) = cost.together();
        }
    }
    println!(
        "\nOne event with 10,000 nodes: {event:.2} ms; reach: at most {REACH_MS} ms, {}\n",
        met(event <= REACH_MS)
    );

    head("records");
    for records in SIZES {
        let mut cluster = Cluster::new(records, "Never");
        while cluster.has_work() {
            cluster.start_all();
            cluster.end_oldest(records);
        }
        cluster.start_all();
        cluster.join();
        let cost = measure(&mut cluster, true, REPEATS);
        row(records, "type Never: all done, one node joins", &cost);
    }
    println!();
    head("of a Job or CronJob");
    for completions in SIZES {
        let cost = native::completions(completions, REPEATS);
        row(completions, "completions, each other one is done", &cost);
    }
    for pods in SIZES {
        row(
            pods,
            "active pods, room for one more",
            &native::active(pods, REPEATS),
        );
    }
    for runs in RUNS {
        row(
            runs,
            "active runs, the next is due",
            &native::runs(runs, REPEATS),
        );
    }
    whole_runs();
}

fn whole_runs() {
    println!(
        "\n| nodes | pods that end in a batch | syncs | CPU s of all syncs | µs per node | times |"
    );
    println!("|---|---|---|---|---|---|");
    for (what, batch) in [("200", 200), ("a tenth of the nodes", 0)] {
        let mut before = None;
        for nodes in SIZES {
            let batch = if batch == 0 { nodes / 10 } else { batch };
            let run = whole_run::run(nodes, batch);
            let micros = run.seconds * 1e6 / nodes as f64;
            let times = before.map_or(String::new(), |before| {
                let factor = run.seconds / before;
                format!(
                    "{factor:.1}, reach: at most {REACH_FACTOR}, {}",
                    met(factor <= REACH_FACTOR)
                )
            });
            println!(
                "| {nodes} | {what} | {} | {:.3} | {micros:.1} | {times} |",
                run.syncs, run.seconds
            );
            before = Some(run.seconds);
        }
    }
}

fn head(what: &str) {
    println!("| {what} | sync | plan | verify | digest | together | heap, plan | heap, all |");
    println!("|---|---|---|---|---|---|---|---|");
}

fn row(size: usize, what: &str, cost: &Cost) {
    let ms = |(median, least): (f64, f64)| format!("{median:.2} ({least:.2})");
    println!(
        "| {size} | {what} | {} | {} | {} | {} | {} | {} |",
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
