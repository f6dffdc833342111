//! Verbs and flags, named as kubectl names them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;

use crate::calendar::Calendar;
use crate::complete::{self, Completion, Words};
use crate::explain::Explain;
use crate::get::Get;
use crate::next::Next;
use crate::pause::{Pause, Resume};
use crate::plan::Plan;
use crate::results::Results;
use crate::retry::Retry;
use crate::suspend::Suspend;
use crate::trigger::Trigger;
use crate::uninstall::Uninstall;
use crate::wait::Wait;

/// What BroadcastJobs do on which node and why not, and when CronJobs run
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-carillon",
    bin_name = "kubectl carillon",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error. Those of plan, trigger, uninstall and wait are in their help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Namespace; that of the kubeconfig's context when absent
    #[arg(short, long, global = true, add = ArgValueCandidates::new(complete::namespaces))]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file; $KUBECONFIG or ~/.kube/config when absent
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Colours: auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// How to print an answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// How to print; a table when absent
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// No line of headers above a table
    #[arg(long)]
    pub(crate) no_headers: bool,
}

/// Formats.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// The answer as JSON
    Json,
    /// The answer as YAML
    Yaml,
    /// A table with more in it
    Wide,
    /// Names only, one a line
    Name,
}

/// A BroadcastJob by name.
#[derive(Clone, Debug, Args)]
pub(crate) struct JobName {
    /// Name of the BroadcastJob, also as bcj/NAME
    #[arg(value_parser = job_name, add = ArgValueCandidates::new(complete::jobs))]
    pub(crate) job: String,
}

/// `fix`, `bcj/fix`, `broadcastjob.carillon.dev/fix`: the name.
pub(crate) fn job_name(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("bcj", text));
    let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
    match kind.to_ascii_lowercase().as_str() {
        _ if name.is_empty() || name.contains('/') => Err("write NAME or bcj/NAME".to_owned()),
        "bcj" | "broadcastjob" | "broadcastjobs" => Ok(name.to_owned()),
        _ => Err(format!("{kind} is no BroadcastJob: write NAME or bcj/NAME")),
    }
}

/// Verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(Get),
    Results(Results),
    Explain(Explain),
    Plan(Plan),
    Retry(Retry),
    Pause(Pause),
    Resume(Resume),
    Wait(Wait),
    Next(Next),
    Calendar(Calendar),
    Trigger(Trigger),
    Suspend(Suspend),
    Uninstall(Uninstall),
    Completion(Completion),
    /// Print the version
    Version,
    /// What kubectl asks through the program `kubectl_complete-carillon`
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    KubectlComplete(Words),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_job_is_named_as_kubectl_names_it() {
        for text in ["fix", "bcj/fix", "broadcastjobs.carillon.dev/fix"] {
            assert_eq!(job_name(text).as_deref(), Ok("fix"));
        }
        for wrong in ["pod/fix", "", "bcj/", "a/b/c"] {
            assert!(job_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
