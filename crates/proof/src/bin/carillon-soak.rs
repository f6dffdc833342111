//! Lets a month pass in the simulated cluster; see `cargo xtask soak`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use carillon_proof::soak::{self, Day};
use clap::Parser;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[derive(Parser)]
struct Args {
    /// How many days pass
    #[arg(long, default_value_t = 30)]
    days: u32,
    /// Of everything that is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where each day's figures are written as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let begin = Instant::now();
    let allocated = || ALLOCATOR.current_usage();
    let days = soak::run(args.days, args.seed, allocated, |day| {
        println!(
            "day {:2}: {} runs, {} pods, {} revisions, {} checks, {:.1} MB allocated, {} s",
            day.day,
            day.runs,
            day.pods,
            day.revisions,
            day.checks,
            day.allocated as f64 / 1e6,
            begin.elapsed().as_secs()
        );
        for exit in &day.exits {
            println!("        {exit}");
        }
        for problem in &day.problems {
            println!("        {problem}");
        }
    })?;
    if let Some(file) = &args.json {
        let text = serde_json::to_string(&days)?;
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    let grown = soak::grown(&days);
    for what in &grown {
        println!("it grows: {what}");
    }
    let broken = days
        .iter()
        .map(|day: &Day| day.problems.len())
        .sum::<usize>();
    println!(
        "{} days in {} s: {broken} broken promises, {} sizes that grow",
        days.len(),
        begin.elapsed().as_secs(),
        grown.len()
    );
    Ok(if broken == 0 && grown.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
