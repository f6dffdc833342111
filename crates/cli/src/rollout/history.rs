//! `rollout history`.

use anyhow::{Error, Result};
use carillon_plan::view::daemon_set::history::{Entry, history, one};
use jiff::Timestamp;

use super::set::{SetName, with_revisions};
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::Output;
use crate::render::{Cell, Format, Screen, Table, Tone, age, indented, yaml};

/// Show the revisions of a DaemonSet, what they were made for, and how many pods are of each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
CHANGE-CAUSE is the annotation kubernetes.io/change-cause that the DaemonSet had when the revision was made.")]
pub(super) struct History {
    #[command(flatten)]
    set: SetName,
    /// The template of this revision
    #[arg(long, value_name = "N")]
    revision: Option<i64>,
    #[command(flatten)]
    output: Output,
}

pub(super) async fn run(api: &Api, args: &History, screen: &mut Screen) -> Result<u8> {
    let known = with_revisions(api, &args.set).await?;
    let entries = match args.revision {
        Some(number) => vec![one(&known, number).map_err(Error::msg)?],
        None => history(&known),
    };
    let format = args.output.output;
    if screen.documents(format, &entries, args.revision.is_some())? {
        return Ok(DONE);
    }
    if format == Some(Format::Name) {
        for entry in &entries {
            screen.line(&format!("controllerrevision.apps/{}", entry.name))?;
        }
        return Ok(DONE);
    }
    if known.pods.is_none() {
        screen.aside("note: you may not list pods: how many are of a revision is not known");
    }
    if entries.is_empty() {
        screen.aside("No revision found: no operator has acted on it yet.");
        return Ok(DONE);
    }
    let wide = format == Some(Format::Wide);
    screen.table(&table(&entries, wide), !args.output.no_headers)?;
    if args.revision.is_some() {
        for entry in &entries {
            screen.blank()?;
            screen.line("Template:")?;
            screen.text(&indented(&yaml(&entry.template)?, 2))?;
        }
    }
    Ok(DONE)
}

fn table(entries: &[Entry], wide: bool) -> Table {
    let mut headers = vec!["REVISION", "PODS", "AGE", "CHANGE-CAUSE"];
    headers.extend(wide.then_some("NAME"));
    let mut table = Table::new(&headers).cut_unless(wide, &["CHANGE-CAUSE"]);
    let now = Timestamp::now();
    for entry in entries {
        let (current, tone) = if entry.current {
            (" (current)", Tone::Good)
        } else {
            ("", Tone::Plain)
        };
        let cause = match &*entry.change_cause {
            "" => "<none>",
            cause => cause,
        };
        let pods = entry
            .pods
            .map_or_else(|| "-".to_owned(), |pods| pods.to_string());
        let mut row: Vec<Cell> = vec![
            Cell::new(format!("{}{current}", entry.revision), tone),
            pods.into(),
            age(entry.created, now).into(),
            Cell::from(cause),
        ];
        row.extend(wide.then(|| Cell::from(&entry.name)));
        table.row(row);
    }
    table
}
