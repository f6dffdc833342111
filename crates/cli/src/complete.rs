//! Completion scripts, and how kubectl asks a plugin for candidates.

use std::ffi::OsString;

use anyhow::{Context, Result};
use clap::{Command, ValueEnum};
use clap_complete::engine;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::exit::DONE;
use crate::render::Screen;

/// The program, as shells find it.
const BIN: &str = "kubectl-carillon";
/// The variable by which a shell's script asks.
const VARIABLE: &str = "COMPLETE";

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
pub(crate) fn for_kubectl(command: &mut Command, words: &Words, screen: &mut Screen) -> Result<u8> {
    let mut line = vec![OsString::from(BIN)];
    line.extend(words.words.iter().cloned());
    if line.len() == 1 {
        line.push(OsString::new());
    }
    let at = line.len() - 1;
    let candidates = engine::complete(command, line, at, None);
    for candidate in candidates.context("completing")? {
        let help = candidate.get_help().map(|help| format!("\t{help}"));
        let value = candidate.get_value().to_string_lossy();
        screen.text(&format!("{value}{}\n", help.unwrap_or_default()))?;
    }
    screen.line(NO_FILES)?;
    Ok(DONE)
}
