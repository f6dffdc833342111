//! `cargo xtask test`: everything a change must pass, in stages, the quick ones first.

mod machine_stalls;
mod why;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use carillon_nodes::machine;
use carillon_testbed::browser;
use carillon_testbed::carillon::{self, Profile, Program};
use carillon_testbed::tools;
use clap::ValueEnum;

use self::why::Why;
use crate::{crds, metadata};

/// Packages whose integration tests need a real API server.
const REAL: [&str; 2] = ["carillon-testbed", "carillon-tests"];
/// The package whose integration tests need real nodes.
const NODES: &str = "carillon-nodes";

const NO_BROWSER: &str =
    "SKIPPED: the pages in a browser. On Debian: apt-get install chromium chromium-driver";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these stages; can be repeated
    #[arg(long, value_enum, value_name = "STAGE", conflicts_with = "skip")]
    only: Vec<Stage>,
    /// All but these stages; can be repeated
    #[arg(long, value_enum, value_name = "STAGE")]
    skip: Vec<Stage>,
    /// Only the tests on real nodes, which need root and a few packages
    #[arg(long, conflicts_with_all = ["only", "skip"])]
    real_nodes: bool,
    /// Where they cannot be run, say so, and pass
    #[arg(long, requires = "real_nodes")]
    if_possible: bool,
}

/// In the order they run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Stage {
    /// Formatting
    Fmt,
    /// Lints of all targets, warnings denied
    Clippy,
    /// crds/ and docs/api/ are what the types describe
    Crds,
    /// Tests that need no cluster: plan, schema, operator, layout of the repository
    Unit,
    /// etcd, Kubernetes, kwok, helm and Prometheus, built from source once per user
    Tools,
    /// The programs under test
    Programs,
    /// Tests against a real API server, chart and Prometheus included
    Real,
    /// The pages of the dashboard in a real browser; skipped where there is none
    Browser,
    /// Tests on real nodes; not among those that run by default
    RealNodes,
}

impl Stage {
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Runs the stage and gives how many tests passed.
    fn run(self) -> Result<usize> {
        match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"]),
            Self::Clippy => cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
            Self::Crds => crds::check().map(|()| 0),
            Self::Unit => cargo_test(&["--lib", "--bins"], &[], |package| {
                !REAL.contains(&package) && package != NODES
            }),
            Self::Tools => build_tools().map(|()| 0),
            Self::Programs => build_programs().map(|()| 0),
            Self::Real => cargo_test(&[], &[], |package| REAL.contains(&package)),
            Self::Browser => {
                if !browser::is_there() {
                    eprintln!("{NO_BROWSER}");
                    return Ok(0);
                }
                // Two browsers at a time, each beside a cluster.
                let args = ["--ignored", "dashboard::browser", "--test-threads=2"];
                cargo_test(&[], &args, |package| package == "carillon-tests")
            }
            Self::RealNodes => {
                machine::check()?;
                // They wait for kubelets most of the time.
                cargo_test(&[], &["--test-threads=4"], |package| package == NODES)
            }
        }
    }
}

struct Done {
    stage: Stage,
    took: Duration,
    tests: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |stage: &Stage| match stage {
        Stage::RealNodes => args.real_nodes || args.only.contains(stage),
        _ if args.real_nodes => false,
        _ => (args.only.is_empty() || args.only.contains(stage)) && !args.skip.contains(stage),
    };
    if args.if_possible
        && let Err(why) = machine::check()
    {
        println!("SKIPPED: the tests on real nodes. {why:#}");
        return Ok(());
    }
    machine_stalls::watch();
    let start = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    for stage in Stage::value_variants().iter().copied().filter(wanted) {
        let name = stage.name();
        eprintln!("\n=== {name}");
        let begun = Instant::now();
        let outcome = stage.run();
        let took = begun.elapsed();
        let tests =
            outcome.with_context(|| format!("stage {name} failed after {}", clock(took)))?;
        eprintln!("=== {name}: ok, {}", clock(took));
        done.push(Done { stage, took, tests });
    }
    report(&done, start.elapsed());
    Ok(())
}

fn report(done: &[Done], total: Duration) {
    println!();
    for Done { stage, took, tests } in done {
        let tests = if *tests > 0 {
            format!("{tests} tests")
        } else {
            String::new()
        };
        let line = format!("{:<10}{:>8}  {tests}", stage.name(), clock(*took));
        println!("{}", line.trim_end());
    }
    println!("{:<10}{:>8}", "total", clock(total));
    if let Some(real) = done.iter().find(|done| done.stage == Stage::Real) {
        println!("{} tests passed against a real API server", real.tests);
    }
    if done.iter().any(|done| done.stage == Stage::Browser) && !browser::is_there() {
        println!("{NO_BROWSER}");
    }
    if !done.iter().any(|done| done.stage == Stage::RealNodes) {
        println!("not run: the tests on real nodes, `cargo xtask test --real-nodes`");
    }
    let passed: usize = done.iter().map(|done| done.tests).sum();
    println!("{passed} passed, 0 failed");
}

fn build_tools() -> Result<()> {
    eprintln!("once per user and version: takes up to 10 minutes on 2 cores, else nothing");
    tools::control_plane()?;
    tools::helm()?;
    tools::jq()?;
    tools::prometheus()?;
    Ok(())
}

fn build_programs() -> Result<()> {
    for program in [Program::Operator, Program::Cli] {
        eprintln!("building {program:?}");
        carillon::build(program, Profile::Dev)?;
    }
    Ok(())
}

/// Tests of the whole workspace, so that every stage uses the same build of each dependency; of the
/// integration tests those of the packages wanted.
fn cargo_test(further: &[&str], of_tests: &[&str], wanted: impl Fn(&str) -> bool) -> Result<usize> {
    let packages = metadata::packages()?;
    let packages = packages.iter().filter(|package| wanted(&package.name));
    let tests = packages.flat_map(|package| package.targets_of_kind("test"));
    let mut args = vec!["test", "--workspace"];
    args.extend(further);
    args.extend(tests.flat_map(|test| ["--test", test]));
    args.push("--");
    args.extend(of_tests);
    cargo(&args)
}

/// Runs cargo and gives the number of tests that passed, as it says itself.
fn cargo(args: &[&str]) -> Result<usize> {
    eprintln!("cargo {}", args.join(" "));
    let mut cargo = carillon_testbed::cargo::command()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("running cargo")?;
    let stdout = cargo.stdout.take().context("cargo has no output")?;
    let (mut passed, mut why) = (0, Why::default());
    for line in BufReader::new(stdout).lines() {
        let line = line.context("reading what cargo says")?;
        passed += passed_in(&line);
        why.read(&line);
        println!("{line}");
    }
    let status = cargo.wait().context("waiting for cargo")?;
    for reason in why.reasons() {
        println!("{reason}");
    }
    ensure!(
        status.success(),
        "cargo {}: {status}",
        args.first().unwrap_or(&"")
    );
    if args.contains(&"test") && passed == 0 {
        bail!("cargo test ran no test");
    }
    Ok(passed)
}

/// Of `test result: ok. 12 passed; 0 failed; …` the number; of other lines 0.
fn passed_in(line: &str) -> usize {
    let number = || {
        let rest = line.strip_prefix("test result: ")?;
        let before = rest.split(" passed;").next()?;
        before.rsplit(' ').next()?.parse().ok()
    };
    number().unwrap_or(0)
}

fn clock(took: Duration) -> String {
    match took.as_secs() {
        0..10 => format!("{:.1}s", took.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds}s"),
        seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted_from_cargos_own_words() {
        let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(passed_in(line), 12);
        assert_eq!(
            passed_in("test result: FAILED. 3 passed; 1 failed; 0 ignored"),
            3
        );
        assert_eq!(passed_in("test a_test ... ok"), 0);
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(clock(Duration::from_millis(1240)), "1.2s");
        assert_eq!(clock(Duration::from_secs(59)), "59s");
        assert_eq!(clock(Duration::from_secs(605)), "10m05s");
    }
}
