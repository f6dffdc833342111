//! `cargo xtask transcripts`: the page about the command line shows what its commands really print.
//!
//! Each line `$ …` of a block ```` ```console ```` is run by bash on a cluster of eight nodes, and what
//! it prints replaces the lines up to the next one. A comment `<!-- first: … -->` is run before the
//! block after it, until it succeeds. What changes from run to run is replaced, see [`mask`].

mod mask;
mod scene;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use carillon_testbed::carillon::{Profile, Program, build, workspace};
use carillon_testbed::wait;

use self::scene::Scene;
use crate::interrupt::Interrupt;

const PAGE: &str = "docs/kubectl-carillon.md";
const BLOCK: &str = "```console";
const END: &str = "```";
const FIRST: (&str, &str) = ("<!-- first: ", " -->");

const PATIENCE: Duration = Duration::from_mins(2);
const EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if the page is not what would be written
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = workspace().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    build(Program::Cli, Profile::Dev)?;
    let interrupt = Interrupt::catch()?;
    let scene = Scene::set()?;
    let shell = |line: &str| {
        interrupt.check()?;
        bash(&scene, line)
    };
    let written = rewrite(&page, &shell)?;
    if written == page {
        println!("{PAGE} is up to date");
    } else if args.check {
        bail!("stale, run `cargo xtask transcripts`: {PAGE}");
    } else {
        fs::write(&path, written).with_context(|| format!("write {PAGE}"))?;
        println!("updated {PAGE}");
    }
    Ok(())
}

/// What a command line prints on both outputs, and whether it succeeded.
struct Printed {
    text: String,
    good: bool,
}

fn bash(scene: &Scene, line: &str) -> Result<Printed> {
    let mut bash = Command::new("bash");
    scene.prepare(&mut bash);
    let output = bash
        .current_dir(workspace())
        .args(["-c", &format!("{{ {line}\n}} 2>&1")])
        .stdin(Stdio::null())
        .output()
        .context("running bash")?;
    Ok(Printed {
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        good: output.status.success(),
    })
}

/// The page with the output of its commands.
fn rewrite(page: &str, shell: &dyn Fn(&str) -> Result<Printed>) -> Result<String> {
    let mut written = String::new();
    let mut in_block = false;
    for line in page.lines() {
        let first = line
            .strip_prefix(FIRST.0)
            .and_then(|rest| rest.strip_suffix(FIRST.1));
        if let Some(command) = first {
            until_good(command, shell)?;
        }
        if in_block && line != END {
            let Some(command) = line.strip_prefix("$ ") else {
                continue;
            };
            println!("{line}");
            let printed = shell(command)?.text;
            written.push_str(line);
            written.push('\n');
            written.push_str(&mask::mask(&printed));
            continue;
        }
        in_block = line.starts_with(BLOCK);
        written.push_str(line);
        written.push('\n');
    }
    ensure!(!in_block, "{PAGE}: a block does not end");
    Ok(written)
}

fn until_good(command: &str, shell: &dyn Fn(&str) -> Result<Printed>) -> Result<()> {
    let probe = || Ok(shell(command)?.good.then_some(()));
    let hint = || shell(command).map_or_else(|error| error.to_string(), |printed| printed.text);
    wait::until(command, PATIENCE, EVERY, probe, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_output_in_console_blocks_is_replaced() {
        let page = "\
# Page
```yaml
$ not a command
```
```console
$ echo one
old
$ echo two
```
text
";
        let shell = |line: &str| {
            Ok(Printed {
                text: format!("{}\n", line.replace("echo ", "")),
                good: true,
            })
        };
        let expected = page.replace("old\n$ echo two\n", "one\n$ echo two\ntwo\n");
        assert_eq!(rewrite(page, &shell).unwrap(), expected);
        assert!(rewrite("```console\n$ x\n", &shell).is_err());
    }
}
