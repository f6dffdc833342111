//! `get --watch`: a row whenever one changes.
//!
//! Of whole kinds, watches tell that something has changed, and all is read again then: a row follows from several
//! kinds (results of a job, jobs of a CronJob). That is once a second at most, as a person reads no faster. A few
//! objects by name are read each second. Results of a job that has not changed are not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use carillon_api::path::Resource;
use carillon_plan::cron_job::Api as Side;
use futures::future::join_all;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::columns::Columns;
use super::shown::{Found, Question, Shown, TABLES, are_of_several_kinds, read, table};
use super::wanted::{Kind, Wanted};
use crate::client::cron_jobs::NATIVE_JOBS;
use crate::client::{Api, JOBS};
use crate::render::{Format, Screen};
use crate::two_apis::{CRONS, SETS};

const EVERY: Duration = Duration::from_secs(1);

/// The kinds whose objects a row follows from; which of them the selector of the question selects.
fn followed(kinds: &[Kind]) -> Vec<(Resource, bool)> {
    let mut found = BTreeSet::new();
    let mut all = Vec::new();
    let mut add = |of: Resource, selected| {
        if found.insert((of.group, of.plural, selected)) {
            all.push((of, selected));
        }
    };
    for kind in kinds {
        match kind {
            Kind::Jobs => add(JOBS, true),
            Kind::Sets(side) => add(SETS.of(*side), true),
            Kind::Crons(side) => {
                add(CRONS.of(*side), true);
                add(NATIVE_JOBS, false);
                if *side == Side::Carillon {
                    add(JOBS, false);
                }
            }
        }
    }
    all
}

/// What was printed so far.
#[derive(Default)]
pub(super) struct Printed {
    /// By namespace and name: what it looked like.
    states: BTreeMap<(String, String), String>,
    /// The table that the last row was of.
    table: Option<usize>,
    widths: [Vec<usize>; TABLES],
    prefix: bool,
}

impl Printed {
    /// Those that do not look as they did, and the names of those that are gone.
    fn news<'s>(&mut self, shown: &'s [Shown]) -> (Vec<&'s Shown>, Vec<String>) {
        let now: BTreeMap<_, _> = shown.iter().map(|one| (one.id(), one.state())).collect();
        let is_new = |one: &&Shown| self.states.get(&one.id()) != now.get(&one.id());
        let changed = shown.iter().filter(is_new).collect();
        let gone = self.states.keys().filter(|id| !now.contains_key(*id));
        let gone = gone.map(|(namespace, name)| format!("{name} in namespace {namespace} is gone"));
        let gone = gone.collect();
        self.states = now;
        (changed, gone)
    }

    fn print(
        &mut self,
        changed: &[&Shown],
        columns: Columns,
        (format, headers): (Option<Format>, bool),
        screen: &mut Screen,
    ) -> Result<()> {
        match format {
            Some(Format::Json | Format::Yaml) => {
                for one in changed {
                    if format == Some(Format::Yaml) {
                        screen.line("---")?;
                    }
                    screen.document(format, one)?;
                }
            }
            Some(Format::Name) => {
                for one in changed {
                    screen.line(&one.id().1)?;
                }
            }
            None | Some(Format::Wide) => {
                for which in 0..TABLES {
                    let Some(mut table) = table(which, changed, columns, self.prefix) else {
                        continue;
                    };
                    let headers = headers && self.table.replace(which) != Some(which);
                    table.at_least(&self.widths[which]);
                    // Those without headers stand below those with them.
                    self.widths[which] = table.widths(screen.style(headers));
                    screen.table(&table, headers)?;
                }
            }
        }
        Ok(())
    }
}

/// Prints what there is, and then what changes, until nobody reads it any more.
pub(super) async fn watch(
    api: &Api,
    question: &Question<'_>,
    columns: Columns,
    how: (Option<Format>, bool),
    screen: &mut Screen,
) -> Result<()> {
    let Wanted::Kinds(kinds) = question.wanted else {
        let each_second = Notify::new();
        let rows = rows(api, question, columns, how, (screen, &each_second));
        let mut clock = tokio::time::interval(EVERY);
        let tick = async {
            loop {
                clock.tick().await;
                each_second.notify_one();
            }
        };
        return tokio::select! {
            done = rows => done,
            () = tick => Ok(()),
        };
    };
    let changed = Notify::new();
    let watches = followed(kinds).into_iter().map(|(of, selected)| {
        let selector = if selected { question.selector } else { "" };
        api.each_change(of, question.all, selector, || changed.notify_one())
    });
    let watches = join_all(watches);
    tokio::select! {
        done = rows(api, question, columns, how, (screen, &changed)) => done,
        _ = watches => Ok(()),
    }
}

/// Reads now, and again when something has changed.
async fn rows(
    api: &Api,
    question: &Question<'_>,
    columns: Columns,
    how: (Option<Format>, bool),
    (screen, changed): (&mut Screen, &Notify),
) -> Result<()> {
    let mut printed = Printed::default();
    let mut known = Vec::new();
    let mut reached = false;
    loop {
        let begun = Instant::now();
        match read(api, question, known, screen).await {
            Ok(Found { shown, problems }) => {
                match problems.into_iter().next() {
                    Some(problem) if !reached => return Err(problem),
                    // What was named is gone: nothing of it will change any more.
                    Some(problem) if shown.is_empty() => return Err(problem),
                    _ => {}
                }
                // Names once begun with their kind stay so.
                printed.prefix |= are_of_several_kinds(&shown);
                let (changed, gone) = printed.news(&shown);
                printed.print(&changed, columns, how, screen)?;
                for gone in gone {
                    screen.aside(&gone);
                }
                known = shown;
                reached = true;
            }
            // A server that does not answer for a moment changes nothing.
            Err(error) if reached => {
                screen.aside(&format!("{error:#}"));
                known = Vec::new();
                changed.notify_one();
            }
            Err(error) => return Err(error),
        }
        if screen.is_closed() {
            return Ok(());
        }
        sleep_until(begun + EVERY).await;
        changed.notified().await;
    }
}
