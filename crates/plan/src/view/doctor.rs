//! What is wrong with an installation and what it serves: a list of checks, each with what was found and what to
//! write. What whoever asks may not read is said to be not checked.

pub mod controllers;
pub mod crds;
pub mod finalizers;
pub mod lease;
pub mod objects;
pub mod operators;
pub mod pods;
pub mod quotas;
pub mod rights;
pub mod shadow;
pub mod subject;
pub mod taints;
pub mod webhooks;

use serde::Serialize;

/// What was read, or why it was not: `you may not list pods`.
pub type Seen<T> = Result<T, String>;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// It works, and not as somebody may expect.
    Warning,
    /// Something does not work, or is about not to.
    Problem,
}

/// What to do about a finding.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Remedy {
    /// In words.
    pub what: String,
    /// Commands or YAML, lines of ours; empty where there is nothing to write.
    pub write: String,
}

impl Remedy {
    /// See the fields.
    pub fn new(what: impl Into<String>, write: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            write: write.into(),
        }
    }
}

/// Something that was found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The check that found it.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, in words.
    pub what: String,
    /// The object that it is about: `BroadcastJob ops/fix`.
    #[serde(rename = "where")]
    pub where_: String,
    /// What to do; any one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
}

impl Finding {
    /// One that has nothing to write yet.
    pub fn new(
        check: &'static str,
        severity: Severity,
        where_: impl Into<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            check,
            severity,
            what: what.into(),
            where_: where_.into(),
            remedies: Vec::new(),
        }
    }

    /// With something to do.
    #[must_use]
    pub fn or(mut self, what: impl Into<String>, write: impl Into<String>) -> Self {
        self.remedies.push(Remedy::new(what, write));
        self
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Outcome {
    /// Nothing is wrong.
    Ok,
    /// Whoever asks may not read what it takes, or there is nothing to look at.
    NotChecked,
    /// Something is worth knowing.
    Info,
    /// The worst that was found is a warning.
    Warning,
    /// Something is wrong.
    Problem,
}

/// One check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Its name, e.g. `crds`.
    pub check: &'static str,
    /// How it ended.
    pub result: Outcome,
    /// What was found, in a few words; why, where it was not checked.
    pub found: String,
    /// All that is worth knowing, the worst first.
    pub findings: Vec<Finding>,
}

impl Check {
    /// One that was made. `found` says what was looked at; findings say the rest.
    pub fn made(check: &'static str, found: impl Into<String>, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let result = match findings.first().map(|worst| worst.severity) {
            None => Outcome::Ok,
            Some(Severity::Info) => Outcome::Info,
            Some(Severity::Warning) => Outcome::Warning,
            Some(Severity::Problem) => Outcome::Problem,
        };
        Self {
            check,
            result,
            found: found.into(),
            findings,
        }
    }

    /// One that was not made, and why.
    pub fn not_made(check: &'static str, why: impl Into<String>) -> Self {
        Self {
            check,
            result: Outcome::NotChecked,
            found: why.into(),
            findings: Vec::new(),
        }
    }

    /// One that looks at what was read, if it was.
    pub fn of<T>(check: &'static str, seen: &Seen<T>, make: impl FnOnce(&T) -> Self) -> Self {
        match seen {
            Ok(found) => make(found),
            Err(why) => Self::not_made(check, why),
        }
    }

    /// Also says what was left out: with nothing found, the check was not made whole.
    #[must_use]
    pub fn without(mut self, left_out: Option<String>) -> Self {
        if let Some(why) = left_out {
            self.found = format!("{}; not checked: {why}", self.found);
            if self.result == Outcome::Ok {
                self.result = Outcome::NotChecked;
            }
        }
        self
    }

    /// Whether something is wrong.
    pub fn is_bad(&self) -> bool {
        matches!(self.result, Outcome::Warning | Outcome::Problem)
    }
}

/// All checks.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Report {
    /// In the order in which they were made.
    pub checks: Vec<Check>,
}

impl Report {
    /// How many findings are this bad.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.checks.iter().flat_map(|check| &check.findings);
        findings.filter(|one| one.severity == severity).count()
    }

    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        !self.checks.iter().any(Check::is_bad)
    }
}

/// `1 node`, `2 nodes`.
pub(super) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Up to three of them, and that there are more.
pub(super) fn some(names: &[String]) -> String {
    let more = if names.len() > 3 { ", …" } else { "" };
    let first: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_ends_as_the_worst_of_its_findings_which_comes_first() {
        let one = |severity| Finding::new("x", severity, "here", "that");
        let of = |findings: Vec<Finding>| Check::made("x", "", findings);
        assert_eq!(of(vec![]).result, Outcome::Ok);
        let check = of(vec![
            one(Severity::Info),
            one(Severity::Problem),
            one(Severity::Warning),
        ]);
        assert_eq!(check.result, Outcome::Problem);
        assert_eq!(check.findings[0].severity, Severity::Problem);
        assert_eq!(of(vec![one(Severity::Info)]).result, Outcome::Info);
    }

    #[test]
    fn what_may_not_be_read_is_not_checked_and_never_well() {
        let seen: Seen<()> = Err("you may not list pods".to_owned());
        let check = Check::of("x", &seen, |()| panic!("made from nothing"));
        assert_eq!(check.result, Outcome::NotChecked);
        assert_eq!(check.found, "you may not list pods");
        let half = |findings| {
            let check = Check::made("x", "3 pods", findings);
            check.without(Some("you may not list nodes".to_owned()))
        };
        assert_eq!(half(vec![]).result, Outcome::NotChecked);
        let found = half(vec![Finding::new("x", Severity::Problem, "", "")]);
        assert_eq!(found.result, Outcome::Problem);
        assert_eq!(found.found, "3 pods; not checked: you may not list nodes");
    }
}
