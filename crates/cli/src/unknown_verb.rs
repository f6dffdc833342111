//! What to say to a verb that does not exist.
//!
//! clap offers the name that looks alike. That may be one that changes something where whoever asks wants to read:
//! `status` looks like `suspend`.

use clap::error::{ContextKind, ContextValue};

/// Verbs of other programs, and ours for the same.
const MEANT: [(&[&str], &str); 9] = [
    (&["list", "ls", "status", "show", "progress", "top"], "get"),
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

/// What to write in the place of the verb of this error, if it is one about a verb.
pub(crate) fn explained(error: &clap::Error, verbs: &[String]) -> Option<String> {
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    Some(message(verb, verbs))
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
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn whoever_wants_to_read_is_offered_a_verb_that_reads() {
        let verbs = crate::verbs(&Cli::command());
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
    fn each_word_of_other_programs_leads_to_a_verb_that_exists() {
        let verbs = crate::verbs(&Cli::command());
        for (words, ours) in MEANT {
            assert!(verbs.iter().any(|verb| verb == ours), "{ours}");
            for word in words {
                assert!(!verbs.iter().any(|verb| verb == word), "{word} exists");
            }
        }
    }
}
