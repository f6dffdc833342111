//! Commands of our pages, run as they stand there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carillon_testbed::carillon::{Profile, Program, build, workspace};
use carillon_testbed::{Cluster, Operator, Options, tools};

/// How long an operator may take to end.
const GRACE: Duration = Duration::from_mins(1);

/// The blocks of commands, or of other text that is indented, of a page.
pub fn blocks(page: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace().join(page)).expect("a page");
    let is_indented = |line: &&str| line.starts_with("    ");
    let blocks = text.split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().take_while(is_indented).collect();
        dedented(&lines)
    });
    blocks.filter(|block| !block.is_empty()).collect()
}

fn dedented(lines: &[&str]) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().map(indent).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| &line[least..]).collect();
    lines.join("\n")
}

/// The commands of a block: a line that ends in the middle of one goes on in the next.
fn commands(block: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut begun = String::new();
    for line in block.lines() {
        begun.push_str(line);
        let quoted = begun.matches('\'').count() % 2 == 1;
        if quoted || ["\\", "|", "&&"].iter().any(|end| line.ends_with(end)) {
            begun.push('\n');
        } else {
            commands.push(std::mem::take(&mut begun));
        }
    }
    assert_eq!(begun, "", "a command that does not end");
    commands
}

/// A shell with the programs that our pages name, in a directory with what they find in this repository. Where they
/// install, upgrade or uninstall a release, a process is its pods: kwok only pretends to run them.
pub struct Shell<'a> {
    cluster: &'a Cluster,
    home: PathBuf,
    path: OsString,
    operators: RefCell<BTreeMap<String, Operator>>,
    started: Cell<usize>,
}

impl<'a> Shell<'a> {
    /// A shell for the administrator of a cluster.
    pub fn new(cluster: &'a Cluster) -> Result<Self> {
        let home = cluster.dir().join("shell");
        let programs = home.join("bin");
        fs::create_dir_all(&programs)?;
        let kubectl = PathBuf::from(cluster.kubectl_command().get_program());
        for (name, program) in [
            ("kubectl", kubectl),
            ("helm", tools::helm()?),
            ("jq", tools::jq()?),
            ("kubectl-carillon", build(Program::Cli, Profile::Dev)?),
        ] {
            symlink(fs::canonicalize(program)?, programs.join(name))?;
        }
        for name in ["charts", "crds", "examples"] {
            symlink(fs::canonicalize(workspace().join(name))?, home.join(name))?;
        }
        let others = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([programs].into_iter().chain(env::split_paths(&others)))?;
        Ok(Self {
            cluster,
            home,
            path,
            operators: RefCell::default(),
            started: Cell::default(),
        })
    }

    /// Where it is.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Runs the block of a page that is this text, or else the one that begins with it, and gives what it printed.
    pub fn run(&self, page: &str, begins: &str) -> Result<String> {
        let blocks = blocks(page);
        let mut found: Vec<&String> = blocks.iter().filter(|block| *block == begins).collect();
        if found.is_empty() {
            found.extend(blocks.iter().filter(|block| block.starts_with(begins)));
        }
        let [block] = found[..] else {
            bail!("{page} has {} blocks that begin: {begins}", found.len());
        };
        let mut printed = String::new();
        for command in commands(block) {
            printed += &self.command(&command)?;
        }
        Ok(printed)
    }

    /// Runs one command.
    fn command(&self, text: &str) -> Result<String> {
        let mut command = Command::new("sh");
        let helm = self.cluster.helm_command()?;
        let set = helm
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?)));
        command
            .args(["-euc", text])
            .envs(set)
            .env("PATH", &self.path)
            .current_dir(&self.home)
            .stdin(Stdio::null());
        let output = command.output().context("running sh")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr);
        println!("$ {text}\n{printed}{said}");
        if !output.status.success() {
            bail!("{}: {text}\n{printed}{said}", output.status);
        }
        self.follow(text)?;
        Ok(printed)
    }

    /// The pods of a release come, are replaced, or go.
    fn follow(&self, command: &str) -> Result<()> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let &[
            "helm",
            verb @ ("install" | "upgrade" | "uninstall"),
            release,
            ..,
        ] = &words[..]
        else {
            return Ok(());
        };
        let at = words.iter().position(|word| *word == "--namespace");
        let namespace = at.and_then(|at| words.get(at + 1));
        let namespace = namespace.context("a release without a namespace")?;
        if let Some(before) = self.operators.borrow_mut().remove(release) {
            before.process.terminate(GRACE)?;
        }
        if verb != "uninstall" {
            let number = self.started.replace(self.started.get() + 1);
            let name = format!("{release}-{number}");
            let options = Options::of_release(self.cluster, (release, namespace), &name)?;
            let operator = Operator::start(self.cluster, &options)?;
            let mut operators = self.operators.borrow_mut();
            operators.insert(release.to_owned(), operator);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn a_command_goes_on_after_a_backslash_a_pipe_and_within_quotes() {
        let block = "helm install a \\\n  --wait\njq '.a\n  | .b' x |\n  kubectl apply -f -\nls";
        let expected = [
            "helm install a \\\n  --wait",
            "jq '.a\n  | .b' x |\n  kubectl apply -f -",
            "ls",
        ];
        assert_eq!(commands(block), expected);
    }
}
