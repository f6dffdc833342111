//! `decisions`: what the operator decided about an object last, and what became of it.

use anyhow::{Context, Result};
use carillon_plan::cron_job::ChildKind;
use carillon_plan::view::decision::{Answers, Decision};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::candidates;
use crate::client::decisions::Operators;
use crate::client::{Api, name_of};
use crate::exit::DONE;
use crate::flags::Output;
use crate::names::{ApiName, cron_name};
use crate::render::{Cell, Format, Screen, Table, Tone, age, count, duration};
use crate::target::{Found, Target, target};

/// Ask the operator what it decided about an object last, and what became of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The operator remembers the last 16 decisions about each of the last 1,024 objects, until it ends. It is asked through its
pods, for which you need the verbs list of pods, and get and create of pods/portforward, in its namespace.

Examples:
  kubectl carillon decisions fix-kernel
  kubectl carillon decisions ccj/nightly

  # Of an operator that runs without a pod
  kubectl carillon decisions cds/agent --debug-address 127.0.0.1:8081")]
pub(crate) struct Decisions {
    /// Name of a BroadcastJob or else of a DaemonSet, or cbj/NAME, cds/NAME, ds/NAME, ccj/NAME, cj/NAME, job/NAME
    #[arg(value_name = "NAME", value_parser = subject,
          add = ArgValueCandidates::new(candidates::what_is_decided_about))]
    subject: Subject,
    #[command(flatten)]
    operators: Operators,
    #[command(flatten)]
    output: Output,
}

/// What is asked about.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Subject {
    Target(Target),
    Cron(ApiName),
    NativeJob(String),
}

fn subject(text: &str) -> Result<Subject, String> {
    const HELP: &str = "write NAME, cbj/NAME, cds/NAME, ds/NAME, ccj/NAME, cj/NAME or job/NAME";
    let Some((kind, name)) = text.split_once('/') else {
        return target(text).map(Subject::Target);
    };
    let kind = kind.to_ascii_lowercase();
    let (kind, group) = kind.split_once('.').unwrap_or((&kind, ""));
    let is_job = matches!(kind, "job" | "jobs") && matches!(group, "" | "batch" | "v1.batch");
    if is_job && !name.is_empty() && !name.contains('/') {
        return Ok(Subject::NativeJob(name.to_owned()));
    }
    let cron = cron_name(text).map(Subject::Cron);
    cron.or_else(|_| target(text).map(Subject::Target))
        .map_err(|_| HELP.to_owned())
}

/// What is printed as JSON or YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    namespace: &'a str,
    kind: &'a Value,
    name: &'a str,
    #[serde(flatten)]
    answers: &'a Answers,
}

pub(crate) async fn run(api: &Api, args: &Decisions, screen: &mut Screen) -> Result<u8> {
    let object = match &args.subject {
        Subject::Target(target) => match target.find(api).await? {
            Found::Job(object) | Found::Set(object) => object,
        },
        Subject::Cron(name) => api.cron(name).await?,
        Subject::NativeJob(name) => {
            let job = api.child(ChildKind::Job, name).await?;
            job.with_context(|| format!("there is no Job {name} in namespace {}", api.namespace))?
        }
    };
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let answers = api.decisions(uid, &args.operators).await?;
    let name = name_of(&object);
    let answer = Answer {
        namespace: &api.namespace,
        kind: &object["kind"],
        name: &name,
        answers: &answers,
    };
    let format = args.output.output;
    for silent in &answers.silent {
        screen.aside(&format!("note: not asked: {silent}"));
    }
    if answers.unreadable > 0 {
        screen.aside(&format!(
            "note: {} cannot be read by this version",
            count(answers.unreadable, "decision")
        ));
    }
    if screen.document(format, &answer)? {
        return Ok(DONE);
    }
    if answers.decisions.is_empty() {
        screen.aside(&format!(
            "No decision about it is remembered by {}. It forgets when it ends, and when it decides about many others. \
             Does another operator serve it? Name that one with --operator-namespace.",
            answers.asked.join(", ")
        ));
        return Ok(DONE);
    }
    let table = table(&answers.decisions, format, Timestamp::now());
    screen.table(&table, !args.output.no_headers)?;
    Ok(DONE)
}

fn table(decisions: &[Decision], format: Option<Format>, now: Timestamp) -> Table {
    let wide = format == Some(Format::Wide);
    let mut headers = vec!["AGE", "AGAIN", "OUTCOME", "DECIDED"];
    if wide {
        headers.push("TOLD BY");
    }
    let mut table = Table::new(&headers).cut_unless(wide, &["OUTCOME", "DECIDED"]);
    for one in decisions {
        let again = one.wake.map(|wake| wake.duration_since(one.time).as_secs());
        let tone = if one.bad { Tone::Bad } else { Tone::Plain };
        let repeated = match one.repeated {
            0 => String::new(),
            times => format!(" (×{})", times.saturating_add(1)),
        };
        let told_by = wide.then(|| Cell::new(&one.told_by, Tone::Plain));
        let cells = [
            Cell::new(age(Some(one.time), now), Tone::Plain),
            Cell::new(again.map_or_else(|| "-".to_owned(), duration), Tone::Plain),
            Cell::new(format!("{}{repeated}", one.outcome), tone),
            Cell::new(one.steps.join("; "), Tone::Plain),
        ];
        table.row(cells.into_iter().chain(told_by));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_asked_about_by_its_short_name() {
        for text in ["fix", "cbj/fix", "cds/fix", "ds/fix"] {
            assert!(matches!(subject(text), Ok(Subject::Target(_))), "{text}");
        }
        for text in ["ccj/fix", "cj/fix", "cronjobs.batch/fix"] {
            assert!(matches!(subject(text), Ok(Subject::Cron(_))), "{text}");
        }
        let job = Subject::NativeJob("fix".to_owned());
        assert_eq!(subject("job/fix"), Ok(job.clone()));
        for text in ["jobs.batch/fix", "Job/fix", "job.v1.batch/fix"] {
            assert_eq!(subject(text), Ok(job.clone()));
        }
        for wrong in ["", "pod/fix", "job.apps/fix", "job/", "job/a/b", "ccj/"] {
            assert!(subject(wrong).is_err(), "{wrong:?}");
        }
    }
}
