//! What to say to a verb that does not exist.
//!
//! clap offers the name that looks alike. That may be one that changes something where whoever asks wants to read:
//! `status` looks like `suspend`.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// Verbs of other programs, and ours for the same.
const MEANT: [(&[&str], &str); 9] = [
    (&["list", "ls", "status", "show", "progress"], "get"),
    (&["describe", "why", "diagnose"], "explain"),
    (&["result", "outcomes", "history"], "results"),
    (&["log", "tail"], "logs"),
    (&["diff", "lint", "validate", "dry-run", "preview"], "plan"),
    (&["schedule", "upcoming"], "next"),
    (&["rerun", "restart"], "retry"),
    (&["unpause", "unsuspend", "continue"], "resume"),
    (&["run", "start", "run-now"], "trigger"),
];

/// How many letters may differ in a verb that was mistyped.
const MISTYPED: usize = 2;

/// What to write in the place of the verb of this error, if it is one about a verb. A verb of a verb, such as those of
/// `rollout`, is left to clap.
pub(crate) fn explained(error: &clap::Error, args: &[String], command: &Command) -> Option<String> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let has_verbs = |arg: &String| {
        command
            .find_subcommand(arg)
            .is_some_and(Command::has_subcommands)
    };
    let mut before = args.iter().take_while(|arg| *arg != verb);
    (!before.any(has_verbs)).then(|| message(verb, &verbs(command)))
}

/// The names of all verbs.
fn verbs(command: &Command) -> Vec<String> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.map(|verb| verb.get_name().to_owned()).collect()
}

fn message(verb: &str, verbs: &[String]) -> String {
    let hint = match meant(verb, verbs) {
        Some(meant) => format!("Did you mean {meant}? "),
        None => String::new(),
    };
    format!("there is no verb {verb}. {hint}kubectl carillon --help lists all")
}

fn meant<'v>(verb: &str, verbs: &'v [String]) -> Option<&'v str> {
    let verb = verb.to_ascii_lowercase();
    let known = MEANT.iter().find(|(words, _)| words.contains(&&*verb));
    if let Some((_, ours)) = known {
        return verbs.iter().map(String::as_str).find(|verb| verb == ours);
    }
    let apart = |other: &String| strsim::damerau_levenshtein(&verb, other);
    let near = verbs.iter().filter(|other| apart(other) <= MISTYPED);
    // Of a short word so little is left that anything is near.
    let near = near.filter(|other| other.len() > 2 * MISTYPED);
    near.min_by_key(|other| apart(other)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    #[test]
    fn whoever_wants_to_read_is_offered_a_verb_that_reads() {
        let verbs = verbs(&Cli::command());
        for (verb, offered) in [
            ("status", Some("get")),
            ("list", Some("get")),
            ("describe", Some("explain")),
            ("log", Some("logs")),
            ("Status", Some("get")),
            ("explian", Some("explain")),
            ("pasue", Some("pause")),
            ("rerun", Some("retry")),
            ("unpause", Some("resume")),
            ("gte", None),
            ("frobnicate", None),
        ] {
            assert_eq!(meant(verb, &verbs), offered, "{verb}");
        }
        let said = message("status", &verbs);
        assert!(
            said.starts_with("there is no verb status. Did you mean get? kubectl"),
            "{said}"
        );
    }

    #[test]
    fn verbs_of_rollout_are_left_to_clap_and_a_job_may_be_called_rollout() {
        let explained = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let error = Cli::try_parse_from(&args).unwrap_err();
            explained(&error, &args, &Cli::command())
        };
        assert_eq!(explained(&["kubectl-carillon", "rollout", "histroy"]), None);
        let said = explained(&["kubectl-carillon", "status", "rollout"]);
        assert!(said.is_some_and(|said| said.contains("Did you mean get?")));
        assert_eq!(explained(&["kubectl-carillon", "get", "--nope"]), None);
    }

    #[test]
    fn each_word_of_other_programs_leads_to_a_verb_that_exists() {
        let verbs = verbs(&Cli::command());
        for (words, ours) in MEANT {
            assert!(verbs.iter().any(|verb| verb == ours), "{ours}");
            for word in words {
                assert!(!verbs.iter().any(|verb| verb == word), "{word} exists");
            }
        }
    }
}
