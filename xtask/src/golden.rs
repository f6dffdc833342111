//! `cargo xtask golden`: asks the parser of Kubernetes itself what schedules mean.
//!
//! A Go program in `testbed/cron-golden` puts some thousand schedules to robfig/cron; the tests of
//! `carillon-plan` demand the same answers of ours.

use std::fs;
use std::io::ErrorKind;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use carillon_testbed::carillon::workspace;
use carillon_testbed::tools;

const PROGRAM: &str = "testbed/cron-golden";
const ANSWERS: &str = "crates/plan/src/schedule/golden.jsonl";

/// Flags of `cargo xtask golden`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the answers are not what would be written
    #[arg(long)]
    check: bool,
}

/// Writes the answers, or with `--check` compares them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let path = workspace().join(ANSWERS);
    let written = fs::read_to_string(&path).unwrap_or_default();
    let wanted = ask()?;
    match first_difference(&written, &wanted) {
        None => println!("{ANSWERS} is up to date"),
        Some(line) if args.check => bail!(
            "stale from line {line} on, run `cargo xtask golden`: {ANSWERS} \
             (a Go with newer rules of time zones writes other lines, too)"
        ),
        Some(line) => {
            fs::write(&path, wanted).with_context(|| format!("write {ANSWERS}"))?;
            println!("updated {ANSWERS} from line {line} on");
        }
    }
    Ok(())
}

/// What robfig/cron says. Takes half a minute: some answers never come, and are waited for.
fn ask() -> Result<String> {
    let output = tools::go()
        .args(["run", "-mod=readonly", "."])
        .current_dir(workspace().join(PROGRAM))
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{PROGRAM} is a Go program, and no `go` was found in PATH; install Go")
        }
        other => other.with_context(|| format!("running {PROGRAM}"))?,
    };
    ensure!(output.status.success(), "{PROGRAM}: {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{PROGRAM} printed no text"))
}

/// The number of the first line that is not the same.
fn first_difference(written: &str, wanted: &str) -> Option<usize> {
    if written == wanted {
        return None;
    }
    let pairs = written.lines().zip(wanted.lines());
    Some(1 + pairs.take_while(|(one, other)| one == other).count())
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
    }
}
