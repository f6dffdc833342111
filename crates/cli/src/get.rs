//! `get`: how far BroadcastJobs and DaemonSets are, why they stand where they stand, when they may be done, and what
//! CronJobs have run and run next.

mod columns;
mod cron_jobs;
pub(crate) mod daemon_sets;
mod jobs;
mod shown;
mod wanted;
mod watch;

use anyhow::{Error, Result, bail};
use carillon_plan::cron_job::Api as Side;
use clap_complete::ArgValueCandidates;

use self::columns::Columns;
use self::shown::{Question, Shown, TABLES, are_of_several_kinds, read, table};
use self::wanted::{Kind, OURS, Wanted, wanted};
use crate::candidates;
use crate::client::Api;
use crate::exit::{DONE, ERROR};
use crate::flags::Output;
use crate::render::{Format, Screen};

/// Show BroadcastJobs, CronJobs and DaemonSets: how far, why not further, and when they may be done or run next
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # BroadcastJobs, CronJobs and DaemonSets of carillon.dev
  kubectl carillon get

  # Only DaemonSets of carillon.dev; CronJobs of both APIs
  kubectl carillon get cds
  kubectl carillon get ccj,cj

  # Some of them by name; those with a label, and each change
  kubectl carillon get fix-kernel ccj/close-books
  kubectl carillon get cbj -l team=storage -w

  # One, with the nodes that it waits for
  kubectl carillon get cds/agent")]
pub(crate) struct Get {
    /// Names, also as cbj/NAME, ccj/NAME or cj/NAME (a CronJob of batch/v1), cds/NAME or ds/NAME (a DaemonSet of
    /// apps/v1); or a kind, several joined by commas: cbj, ccj, cj, cds, ds; or a kind and names of it. All of
    /// carillon.dev in the namespace when absent
    #[arg(value_name = "NAME|KIND", add = ArgValueCandidates::new(candidates::jobs_crons_and_sets))]
    wanted: Vec<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Those with these labels, such as team=storage or team in (a,b),tier!=web
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Go on, and print each one that changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) async fn run(api: &Api, args: &Get, screen: &mut Screen) -> Result<u8> {
    let wanted = wanted(&args.wanted).map_err(Error::msg)?;
    if let Wanted::Names(_) = wanted {
        if args.all_namespaces {
            bail!("a name is one of one namespace: leave out -A, or name only a kind");
        }
        if args.selector.is_some() {
            bail!("-l chooses by labels: leave out the names, or name only a kind");
        }
    }
    let question = Question {
        wanted: &wanted,
        all: args.all_namespaces,
        selector: args.selector.as_deref().unwrap_or_default(),
    };
    let format = args.output.output;
    let columns = Columns {
        namespace: args.all_namespaces,
        wide: format == Some(Format::Wide),
    };
    let headers = !args.output.no_headers;
    if args.watch {
        watch::watch(api, &question, columns, (format, headers), screen).await?;
        return Ok(DONE);
    }
    let found = read(api, &question, Vec::new(), screen).await?;
    let alone = matches!(&wanted, Wanted::Names(names) if names.len() == 1);
    if let [problem] = &found.problems[..]
        && alone
    {
        bail!("{problem:#}");
    }
    print(&found.shown, columns, (format, headers, alone), screen)?;
    if found.shown.is_empty() && found.problems.is_empty() && !is_document(format) {
        screen.aside(&nothing(api, &question));
    }
    for problem in &found.problems {
        screen.error(problem);
    }
    Ok(if found.problems.is_empty() {
        DONE
    } else {
        ERROR
    })
}

fn is_document(format: Option<Format>) -> bool {
    matches!(format, Some(Format::Json | Format::Yaml))
}

fn print(
    shown: &[Shown],
    columns: Columns,
    (format, headers, alone): (Option<Format>, bool, bool),
    screen: &mut Screen,
) -> Result<()> {
    if screen.documents(format, shown, alone)? {
        return Ok(());
    }
    if format == Some(Format::Name) {
        for one in shown {
            screen.line(&one.id().1)?;
        }
        return Ok(());
    }
    let prefix = are_of_several_kinds(shown);
    let all: Vec<&Shown> = shown.iter().collect();
    let tables = (0..TABLES).filter_map(|which| table(which, &all, columns, prefix));
    for (at, table) in tables.enumerate() {
        if at > 0 {
            screen.blank()?;
        }
        screen.table(&table, headers)?;
    }
    if let ([Shown::Set(set)], true) = (shown, alone) {
        daemon_sets::print_nodes(set, headers, screen)?;
    }
    Ok(())
}

fn nothing(api: &Api, question: &Question<'_>) -> String {
    let word = |kind: &Kind| match kind {
        Kind::Jobs => "BroadcastJobs",
        Kind::Crons(Side::Carillon) => "CronJobs of carillon.dev",
        Kind::Crons(Side::Native) => "CronJobs of batch/v1",
        Kind::Sets(Side::Carillon) => "DaemonSets of carillon.dev",
        Kind::Sets(Side::Native) => "DaemonSets of apps/v1",
    };
    let what = match question.wanted {
        Wanted::Kinds(kinds) if kinds[..] == OURS => {
            "BroadcastJobs, CronJobs or DaemonSets of carillon.dev".to_owned()
        }
        Wanted::Kinds(kinds) => kinds.iter().map(word).collect::<Vec<_>>().join(" or "),
        Wanted::Names(_) => "objects".to_owned(),
    };
    let labels = match question.selector {
        "" => String::new(),
        selector => format!(" with labels {selector}"),
    };
    if question.all {
        format!("No {what}{labels} found.")
    } else {
        format!("No {what}{labels} found in {} namespace.", api.namespace)
    }
}
