//! Completion of verbs, flags and the names of jobs and nodes, in shells and through kubectl.

use std::ffi::OsString;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_plan::printable::is_harmful;
use carillon_plan::view::ledger::Ledger;
use carillon_plan::view::read;
use clap::{CommandFactory, ValueEnum};
use clap_complete::CompletionCandidate;
use clap_complete::engine;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::DONE;
use crate::args::{Cli, Global};
use crate::client::{Api, name_of};
use crate::render::Screen;

/// The program, as shells find it.
const BIN: &str = "kubectl-carillon";
/// The variable by which a shell's script asks.
const VARIABLE: &str = "COMPLETE";
/// Nobody waits longer for a name.
const PATIENCE: Duration = Duration::from_secs(3);

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In ~/.bashrc:                  source <(kubectl-carillon completion bash)
In ~/.zshrc:                   source <(kubectl-carillon completion zsh)
In ~/.config/fish/config.fish: kubectl-carillon completion fish | source

For `kubectl carillon`, put what this prints into a file of the name kubectl_complete-carillon,
executable and in the PATH:    kubectl-carillon completion kubectl")]
pub(crate) struct Completion {
    shell: Shell,
}

/// Who completes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    /// The script kubectl_complete-carillon, which kubectl asks
    Kubectl,
}

/// Words of a command line, the last one to be completed.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Source: kubectl's documentation of plugins, "Create a plugin completion".
const FOR_KUBECTL: &str = "#!/bin/sh
exec kubectl-carillon __complete \"$@\"
";

/// Cobra's directive: what was printed are all candidates, do not offer files.
const NO_FILES: &str = ":4";

pub(crate) fn print_script(args: &Completion, screen: &mut Screen) -> Result<u8> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Kubectl => {
            screen.text(FOR_KUBECTL)?;
            return Ok(DONE);
        }
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, BIN, BIN, BIN, &mut script)?;
    screen.text(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

/// Answers kubectl in cobra's format: a candidate a line, a tab before its description, a directive
/// at the end.
pub(crate) fn for_kubectl(words: &Words, screen: &mut Screen) -> Result<u8> {
    let mut line = vec![OsString::from(BIN)];
    line.extend(words.words.iter().cloned());
    if line.len() == 1 {
        line.push(OsString::new());
    }
    let at = line.len() - 1;
    let candidates = engine::complete(&mut Cli::command(), line, at, None);
    for candidate in candidates.context("completing")? {
        let help = candidate.get_help().map(|help| format!("\t{help}"));
        let value = candidate.get_value().to_string_lossy();
        screen.text(&format!("{value}{}\n", help.unwrap_or_default()))?;
    }
    screen.line(NO_FILES)?;
    Ok(DONE)
}

/// Names of the jobs of the namespace.
pub(crate) fn jobs() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.jobs(false).await?.iter().map(name_of).collect()))
}

/// Names of the CronJobs of the namespace.
pub(crate) fn crons() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.cron_names().await))
}

/// Names of the jobs of the namespace, and then of its CronJobs.
pub(crate) fn jobs_and_crons() -> Vec<CompletionCandidate> {
    names(async |api| {
        let jobs = api.jobs(false).await.unwrap_or_default();
        let mut found: Vec<String> = jobs.iter().map(name_of).collect();
        found.extend(api.cron_names().await);
        found.dedup();
        Ok(found)
    })
}

/// Names of the namespaces.
pub(crate) fn namespaces() -> Vec<CompletionCandidate> {
    names(async |api| Ok(api.namespaces().await?))
}

/// Names of the nodes with a result of the job named before.
pub(crate) fn nodes() -> Vec<CompletionCandidate> {
    names(async |api| {
        let line: Vec<String> = std::env::args().collect();
        let jobs = api.jobs(false).await?;
        let named = jobs.iter().find(|job| line.contains(&name_of(job)));
        let Some(job) = named else {
            return Ok(Vec::new());
        };
        let slices = api.slices(&read::job(job)).await?;
        Ok(Ledger::read(&slices).names().map(str::to_owned).collect())
    })
}

/// Asks the cluster that the line so far is about. No answer, or a late one, is no candidate: a
/// shell has no place for an error.
fn names<F>(ask: impl FnOnce(Api) -> F) -> Vec<CompletionCandidate>
where
    F: Future<Output = Result<Vec<String>>>,
{
    let asked = async {
        let api = Api::connect(&global()).await?;
        tokio::time::timeout(PATIENCE, ask(api)).await?
    };
    let mut names = crate::wait_for(asked).unwrap_or_default();
    names.retain(|name| is_offered(name));
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Whoever takes it has it in the command line: what could mislead there is not offered. No object of
/// Kubernetes is called so, but a server or a file may say otherwise.
pub(crate) fn is_offered(name: &str) -> bool {
    !name.contains(is_harmful)
}

/// The global flags of the line so far, which need not be a valid one yet.
fn global() -> Global {
    let mut global = Global::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let mut value = || value.clone().or_else(|| words.next());
        match flag.as_str() {
            "-n" | "--namespace" => global.namespace = value(),
            "--kubeconfig" => global.kubeconfig = value().map(Into::into),
            "--context" => global.context = value(),
            "--cluster" => global.cluster = value(),
            "--user" => global.user = value(),
            _ => {}
        }
    }
    global
}
