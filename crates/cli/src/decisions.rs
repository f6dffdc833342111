//! `decisions`: what the operator decided about an object last, and what became of it.

use anyhow::{Context, Result};
use carillon_plan::cron_job::ChildKind;
use carillon_plan::view::decision::Decision;
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
use crate::render::{Cell, Format, Screen, Table, Tone, age, duration};
use crate::target::{Found, Target, target};

/// Ask the operator what it decided about an object last, and what became of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Operators remember the last 16 decisions about each of the last 1,024 objects, until they end. They are asked through
their pods, for which you need the verbs list of pods and create of pods/portforward in the operator's namespace.

Examples:
  kubectl carillon decisions fix-kernel
  kubectl carillon decisions ccj/nightly

  # Of an operator that runs without a pod
  kubectl carillon decisions cds/agent --debug-address 127.0.0.1:8081")]
pub(crate) struct Decisions {
    /// Name of a BroadcastJob or else of a DaemonSet, or cbj/NAME, cds/NAME, ds/NAME, ccj/NAME, cj/NAME, job/NAME
    #[arg(value_name = "NAME", value_parser = subject,
          add = ArgValueCandidates::new(candidates::jobs_crons_and_sets))]
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
    if let Some(("job" | "jobs" | "job.batch" | "jobs.batch", name)) = text.split_once('/')
        && !name.is_empty()
        && !name.contains('/')
    {
        return Ok(Subject::NativeJob(name.to_owned()));
    }
    if text.contains('/')
        && let Ok(cron) = cron_name(text)
    {
        return Ok(Subject::Cron(cron));
    }
    target(text).map(Subject::Target).map_err(|_| {
        "write NAME, cbj/NAME, cds/NAME, ds/NAME, ccj/NAME, cj/NAME or job/NAME".to_owned()
    })
}

/// What is printed as JSON or YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    namespace: &'a str,
    kind: &'a Value,
    name: &'a str,
    decisions: &'a [Decision],
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
    let decisions = api.decisions(uid, &args.operators).await?;
    let name = name_of(&object);
    let answer = Answer {
        namespace: &api.namespace,
        kind: &object["kind"],
        name: &name,
        decisions: &decisions,
    };
    let format = args.output.output;
    if screen.document(format, &answer)? {
        return Ok(DONE);
    }
    if decisions.is_empty() {
        screen.aside(
            "No operator remembers a decision about it: it was started since, does not serve it, or decided about \
             many others.",
        );
        return Ok(DONE);
    }
    screen.table(
        &table(&decisions, format, Timestamp::now()),
        !args.output.no_headers,
    )?;
    Ok(DONE)
}

fn table(decisions: &[Decision], format: Option<Format>, now: Timestamp) -> Table {
    let wide = format == Some(Format::Wide);
    let mut table = Table::new(&["AGE", "AGAIN", "OUTCOME", "DECIDED"])
        .cut_unless(wide, &["OUTCOME", "DECIDED"]);
    for one in decisions {
        let again = one.wake.map(|wake| wake.duration_since(one.time).as_secs());
        let tone = if one.bad { Tone::Bad } else { Tone::Plain };
        let repeated = match one.repeated {
            0 => String::new(),
            times => format!(" (×{})", times + 1),
        };
        table.row([
            Cell::new(age(Some(one.time), now), Tone::Plain),
            Cell::new(again.map_or_else(|| "-".to_owned(), duration), Tone::Plain),
            Cell::new(format!("{}{repeated}", one.outcome), tone),
            Cell::new(one.steps.join("; "), Tone::Plain),
        ]);
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
        assert_eq!(subject("jobs.batch/fix"), Ok(job));
        for wrong in ["", "pod/fix", "job/", "job/a/b", "ccj/"] {
            assert!(subject(wrong).is_err(), "{wrong:?}");
        }
    }
}
