//! The proof: runs it, and prints what was looked at.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use carillon_plan::broadcast_job;
use carillon_proof::campaign::{self, Found, Job};
use carillon_proof::case::{Case, Counts};
use carillon_proof::families::Mode;
use carillon_proof::kinds::KINDS;
use carillon_proof::scenario::Scenario;
use carillon_proof::small_world::Limits;
use carillon_proof::swarm;
use carillon_proof::tenant::Tenant;
use carillon_proof::world::Outcome;
use carillon_proof::{crash_anywhere, families, kinds, regressions, small_world};
use clap::Parser;

/// The scenarios in which a process that is started again sees every earlier revision first.
const SEEN_EARLIER: [&str; 8] = [
    "every node succeeds",
    "a finished pod is deleted and its node stays done",
    "the job is deleted while it runs",
    "each tick starts a job",
    "with Forbid each run waits for the one before",
    "with Replace each run stops the one before",
    "jobs end at once and live no longer",
    "native: no job that has succeeded is kept",
];
/// In the others it sees one in so many.
const FEWER: usize = 7;
/// Each scenario is run so often with faults that never end.
const PRESSED: u64 = 5;
/// And so often beside a tenant.
const BESIDE: u64 = 3;
/// Seeds that nobody has chosen are smaller than this: they can be told by telephone.
const FRESH: u64 = 1_000_000_000;
/// After so many random schedules it is said how many there were.
const AT_A_TIME: usize = 1000;
/// Failures after which a part of the proof is given up.
const MOST_FAILURES: usize = 5;

/// Runs the real operator in a simulated cluster, under every fault, and judges each revision.
#[derive(Debug, Parser)]
#[command(name = "carillon-proof", version)]
struct Args {
    /// Every N-th point only.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Random schedules to try of each kind.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    seeds: u64,
    /// Random schedules of one kind, if not as many as of the others: `--seeds-of CronJob=150`.
    #[arg(long, value_name = "KIND=N", value_parser = seeds_of)]
    seeds_of: Vec<(&'static str, u64)>,
    /// The first seed; without it, one that nobody has chosen.
    #[arg(long, value_name = "SEED")]
    first_seed: Option<u64>,
    /// A tenant in every random schedule, and not in each third.
    #[arg(long)]
    tenants: bool,
    /// Scenarios whose name or resource contains this only.
    #[arg(long, value_name = "WORDS", default_value = "")]
    only: String,
    /// No scenarios: random schedules and small worlds only.
    #[arg(long, conflicts_with = "only")]
    random_only: bool,
    /// Runs the case of a file that a failure has printed, and nothing else.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// With --replay: prints every state of the objects whose name in the store contains this.
    #[arg(long, value_name = "WORDS", requires = "replay")]
    show: Option<String>,
    /// Leaves the exhaustive exploration of small worlds out.
    #[arg(long)]
    no_small_worlds: bool,
}

/// A kind, and how many seeds of it.
fn seeds_of(text: &str) -> anyhow::Result<(&'static str, u64)> {
    let (kind, seeds) = text.split_once('=').context("KIND=N is expected")?;
    let known = KINDS.iter().find(|proved| proved.kind == kind);
    let known = known.with_context(|| {
        let kinds: Vec<&str> = KINDS.iter().map(|proved| proved.kind).collect();
        format!("there is no kind {kind:?}; there are {}", kinds.join(", "))
    })?;
    Ok((known.kind, seeds.parse()?))
}

fn main() -> ExitCode {
    let args = Args::parse();
    let proved = match &args.replay {
        Some(file) => replay(file, args.show.as_deref()),
        None => prove(&args),
    };
    match proved {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("carillon-proof: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn replay(file: &PathBuf, show: Option<&str>) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let case: Case = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let scenario = find(&case)?;
    let outcome = case.run(&scenario)?;
    for step in &outcome.history.steps {
        let by = step.by.as_deref();
        let by = by.map_or_else(String::new, |by| {
            format!("{} {} {}", by.agent, by.verb, by.uri)
        });
        println!("{:6} {} {} {by}", step.rev, step.at, step.key);
        if let Some(object) = &step.new
            && show.is_some_and(|words| step.key.to_string().contains(words))
        {
            println!("       {object}");
        }
    }
    println!("{:?}\n{:?}", outcome.end, outcome.exits);
    match case.judge(&scenario, &outcome, None) {
        Ok(_) => println!("nothing is broken"),
        Err(failure) => {
            println!("{failure}");
            return Ok(false);
        }
    }
    Ok(true)
}

fn find(case: &Case) -> anyhow::Result<Scenario> {
    if let Some(kind) = swarm::of(case) {
        return Ok(kind.scenario_of(case.seed));
    }
    let mut all = kinds::scenarios().into_iter();
    all.find(|scenario| scenario.name == case.scenario)
        .with_context(|| format!("there is no scenario {:?}", case.scenario))
}

/// The parts, and their sum.
#[derive(Default)]
struct Tally {
    total: Counts,
    failures: usize,
}

impl Tally {
    fn add(&mut self, what: &str, found: &Found, begin: Instant) {
        println!(
            "{what}: {} runs, {} revisions, {} checks, {} failures, {:.0} s",
            found.counts.runs,
            found.counts.revisions,
            found.counts.checks(),
            found.failures.len(),
            begin.elapsed().as_secs_f64(),
        );
        for failure in &found.failures {
            println!("{failure}\n");
        }
        self.total.add(&found.counts);
        self.failures += found.failures.len();
    }
}

fn prove(args: &Args) -> anyhow::Result<bool> {
    let begin = Instant::now();
    let mut tally = Tally::default();
    let first_seed = args.first_seed.unwrap_or_else(|| fastrand::u64(1..FRESH));
    println!("first seed {first_seed}; the same again: --first-seed {first_seed}");
    known(&mut tally)?;
    let scenarios: Vec<Scenario> = kinds::scenarios()
        .into_iter()
        .filter(|scenario| {
            let words = [scenario.name, scenario.subject.resource];
            !args.random_only && words.iter().any(|words| words.contains(&args.only))
        })
        .collect();
    let clean = undisturbed(&scenarios, &mut tally)?;
    crashes(args, &scenarios, &clean, &mut tally)?;
    pressure(args, first_seed, &scenarios, &mut tally)?;
    beside_tenants(args, first_seed, &scenarios, &clean, &mut tally)?;
    seeds(args, first_seed, &mut tally)?;
    random_families(args, first_seed, &mut tally);
    let small = args.no_small_worlds || small_worlds();
    println!("\nIn all, {:.0} s:", begin.elapsed().as_secs_f64());
    println!("  scenarios      {}", scenarios.len());
    println!("  runs           {}", tally.total.runs);
    println!("  revisions      {}", tally.total.revisions);
    println!("  checks         {}", tally.total.checks());
    for (invariant, evaluations) in &tally.total.evaluations {
        println!("    {invariant:4}         {evaluations}");
    }
    println!("  failures       {}", tally.failures);
    Ok(tally.failures == 0 && small)
}

/// How each scenario ends when nothing goes wrong.
fn undisturbed(
    scenarios: &[Scenario],
    tally: &mut Tally,
) -> anyhow::Result<BTreeMap<&'static str, Outcome>> {
    let begin = Instant::now();
    let mut found = Found::default();
    let mut clean = BTreeMap::new();
    for scenario in scenarios {
        let case = crash_anywhere::clean(scenario);
        let outcome = case.run(scenario)?;
        match case.judge(scenario, &outcome, None) {
            Ok(counts) => found.counts.add(&counts),
            Err(failure) => found.failures.push(*failure),
        }
        clean.insert(scenario.name, outcome);
    }
    tally.add("undisturbed", &found, begin);
    Ok(clean)
}

/// Runs cases of each scenario, every N-th; they end as the undisturbed run does.
fn of_each(
    scenarios: &[Scenario],
    clean: &BTreeMap<&'static str, Outcome>,
    tally: &mut Tally,
    what: &str,
    cases: impl Fn(&Scenario, &Outcome) -> anyhow::Result<(usize, Vec<Case>)>,
) -> anyhow::Result<()> {
    for scenario in scenarios {
        let begin = Instant::now();
        let Some(undisturbed) = clean.get(scenario.name) else {
            continue;
        };
        let (every, cases) = cases(scenario, undisturbed)?;
        let jobs = campaign::every_nth(every, &cases, scenario, &undisturbed.end);
        let found = campaign::run(&jobs, MOST_FAILURES)?;
        tally.add(&format!("{what}: {}", scenario.name), &found, begin);
    }
    Ok(())
}

fn crashes(
    args: &Args,
    scenarios: &[Scenario],
    clean: &BTreeMap<&'static str, Outcome>,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let what = "a crash or a stopped leader at each write";
    of_each(scenarios, clean, tally, what, |scenario, undisturbed| {
        let cases = crash_anywhere::cases(scenario, undisturbed.writes);
        Ok((args.every, cases))
    })?;
    let what = "a crash at each write, and a restart that sees each earlier revision first";
    of_each(scenarios, clean, tally, what, |scenario, _| {
        let alone = crash_anywhere::clean_without_lease(scenario).run(scenario)?;
        let all = SEEN_EARLIER.contains(&scenario.name);
        let every = args.every * if all { 1 } else { FEWER };
        Ok((every, crash_anywhere::stale_cases(scenario, &alone)))
    })?;
    let what = "a crash at each write, and a standby that was not told takes over";
    of_each(scenarios, clean, tally, what, |scenario, _| {
        let two = crash_anywhere::clean_with_standby(scenario).run(scenario)?;
        Ok((args.every, crash_anywhere::blind_cases(scenario, &two)))
    })
}

fn pressure(
    args: &Args,
    first_seed: u64,
    scenarios: &[Scenario],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let seeds = first_seed..first_seed + PRESSED;
    let cases: Vec<(Case, &Scenario)> = scenarios
        .iter()
        .flat_map(|scenario| {
            seeds
                .clone()
                .map(move |seed| (crash_anywhere::under_pressure(scenario, seed), scenario))
        })
        .collect();
    let jobs: Vec<Job<'_>> = cases
        .iter()
        .map(|(case, scenario)| Job::alone(case, scenario))
        .step_by(args.every)
        .collect();
    let found = campaign::run(&jobs, MOST_FAILURES)?;
    tally.add("a tenth of all requests is refused for ever", &found, begin);
    Ok(())
}

/// Seeds that have once found something.
fn known(tally: &mut Tally) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut found = Found::default();
    for kind in KINDS {
        let cases = regressions::of(kind);
        found.add(kind.run(cases, MOST_FAILURES)?);
    }
    tally.add("seeds that have once found something", &found, begin);
    Ok(())
}

/// Each scenario ends as it would have without a tenant in another namespace.
fn beside_tenants(
    args: &Args,
    first_seed: u64,
    scenarios: &[Scenario],
    clean: &BTreeMap<&'static str, Outcome>,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut found = Found::default();
    for scenario in scenarios.iter().step_by(args.every) {
        let Some(undisturbed) = clean.get(scenario.name) else {
            continue;
        };
        let seeds = first_seed..first_seed + BESIDE;
        let cases: Vec<Case> = seeds
            .map(|seed| crash_anywhere::beside_a_tenant(scenario, seed))
            .collect();
        let jobs = campaign::every_nth(1, &cases, scenario, &undisturbed.end);
        found.add(campaign::run(&jobs, MOST_FAILURES)?);
    }
    tally.add("beside a tenant of another namespace", &found, begin);
    Ok(())
}

fn seeds(args: &Args, first_seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
    for proved in KINDS {
        let kind = proved.kind;
        let own = args.seeds_of.iter().find(|(of, _)| *of == kind);
        let seeds = own.map_or(args.seeds, |(_, seeds)| *seeds);
        let begin = Instant::now();
        let end = first_seed + seeds;
        let mut found = Found::default();
        for first in (first_seed..end).step_by(AT_A_TIME) {
            let cases = (first..end).take(AT_A_TIME).map(|seed| {
                let mut case = proved.case_with_tenant(seed);
                if args.tenants {
                    case.disturbance.tenant.get_or_insert(Tenant::Elsewhere);
                }
                case
            });
            let chunk = proved.run(cases, MOST_FAILURES)?;
            // Known at once: the rest may take hours.
            for failure in &chunk.failures {
                eprintln!("{failure}");
            }
            found.add(chunk);
            eprintln!(
                "  {kind}s: {} runs, {} failures",
                found.counts.runs,
                found.failures.len()
            );
            if found.failures.len() >= MOST_FAILURES {
                break;
            }
        }
        let what = format!("random schedules of {kind}s, {seeds} seeds from {first_seed} on");
        tally.add(&what, &found, begin);
    }
    Ok(())
}

/// Histories of families of BroadcastJobs, in a model without connections and caches.
fn random_families(args: &Args, first_seed: u64, tally: &mut Tally) {
    let begin = Instant::now();
    let end = first_seed + args.seeds;
    let mut found = families::Found::default();
    for first in (first_seed..end).step_by(AT_A_TIME) {
        let histories = (end - first).min(AT_A_TIME as u64);
        let most = MOST_FAILURES;
        let chunk = families::run(first, histories, Mode::of, broadcast_job::plan, most);
        for failure in &chunk.failures {
            eprintln!("{failure}");
        }
        found.add(chunk);
        eprintln!("  families: {found}");
        if found.failures.len() >= MOST_FAILURES {
            break;
        }
    }
    println!(
        "random families of BroadcastJobs, {} seeds from {first_seed} on: {found}, {:.0} s",
        args.seeds,
        begin.elapsed().as_secs_f64()
    );
    for failure in &found.failures {
        println!("{failure}\n");
    }
    tally.failures += found.failures.len();
}

/// Whether no small world breaks a law, and all of them were searched to their ends.
fn small_worlds() -> bool {
    let limits = Limits {
        states: 100_000_000,
    };
    let mut all = true;
    for world in &small_world::worlds::ALL {
        let outcome = small_world::explore(world, limits);
        println!("every state of a small world: {}: {outcome}", world.name);
        for step in outcome.violation.iter().flat_map(|finding| &finding.path) {
            println!("  {step:?}");
        }
        all &= outcome.exhausted;
    }
    all
}
