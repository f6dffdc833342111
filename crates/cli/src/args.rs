//! Verbs and flags, named as kubectl names them.

use clap::{Parser, Subcommand};

use crate::calendar::Calendar;
use crate::complete::{Completion, Words};
use crate::dashboard::Dashboard;
use crate::decisions::Decisions;
use crate::doctor::Doctor;
use crate::explain::Explain;
use crate::flags::Global;
use crate::get::Get;
use crate::logs::Logs;
use crate::next::Next;
use crate::pause::{Pause, Resume};
use crate::plan::Plan;
use crate::results::Results;
use crate::retry::Retry;
use crate::rollout::Rollout;
use crate::simulate::Simulate;
use crate::suspend::Suspend;
use crate::top::Top;
use crate::trigger::Trigger;
use crate::uninstall::Uninstall;
use crate::wait::Wait;

/// What BroadcastJobs and DaemonSets do on which node and why not, and when CronJobs run
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-carillon",
    bin_name = "kubectl carillon",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error. Those of doctor, plan, rollout status, trigger, uninstall and wait are in their help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(Get),
    Results(Results),
    Logs(Logs),
    Explain(Explain),
    Decisions(Decisions),
    Dashboard(Dashboard),
    Top(Top),
    Plan(Plan),
    Simulate(Simulate),
    Retry(Retry),
    Pause(Pause),
    Resume(Resume),
    Rollout(Rollout),
    Wait(Wait),
    Next(Next),
    Calendar(Calendar),
    Trigger(Trigger),
    Suspend(Suspend),
    Doctor(Doctor),
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
}
