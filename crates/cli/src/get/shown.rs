//! What `get` shows: objects of all kinds, read and in tables.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Error, Result, anyhow};
use carillon_plan::cron_job::{Api as Side, Children};
use carillon_plan::view::cron_job::read::{self as read_cron, Controller};
use carillon_plan::view::daemon_set::progress::Progress as SetProgress;
use serde::Serialize;
use serde_json::{Value, json};

use super::columns::Columns;
use super::cron_jobs::{self, Cron};
use super::daemon_sets;
use super::jobs::{self, Job};
use super::wanted::{Kind, One, Wanted};
use crate::client::{Api, Asked};
use crate::names::ApiName;
use crate::render::{Screen, Table};
use crate::two_apis::{CRONS, SETS, TwoApis};

/// One answer.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
    Job(#[serde(serialize_with = "progress_of_job")] Box<Job>),
    Cron(#[serde(serialize_with = "progress_of_cron")] Box<Cron>),
    Set(Box<SetProgress>),
}

fn progress_of_job<S: serde::Serializer>(job: &Job, to: S) -> Result<S::Ok, S::Error> {
    job.progress.serialize(to)
}

fn progress_of_cron<S: serde::Serializer>(cron: &Cron, to: S) -> Result<S::Ok, S::Error> {
    cron.progress.serialize(to)
}

impl Shown {
    /// As in `broadcastjob.carillon.dev/NAME`, with the namespace before it.
    pub(super) fn id(&self) -> (String, String) {
        let (namespace, name) = match self {
            Self::Job(job) => (&job.progress.namespace, &job.progress.name),
            Self::Cron(cron) => (&cron.progress.namespace, &cron.progress.name),
            Self::Set(set) => (&set.namespace, &set.name),
        };
        let resource = match self {
            Self::Job(_) => "broadcastjob.carillon.dev",
            Self::Cron(cron) => cron.progress.resource(),
            Self::Set(set) => set.resource,
        };
        (namespace.clone(), format!("{resource}/{name}"))
    }

    /// What tells that there is something new to show; what only the clock changes is not in it.
    pub(super) fn state(&self) -> String {
        let mut state = json!(self);
        if let Some(fields) = state.as_object_mut() {
            fields.retain(|name, _| !name.starts_with("eta"));
        }
        state.to_string()
    }

    /// Which table it stands in.
    pub(super) fn table(&self) -> usize {
        match self {
            Self::Job(_) => 0,
            Self::Cron(_) => 1,
            Self::Set(_) => 2,
        }
    }

    fn prefix(&self) -> &'static str {
        match self {
            Self::Job(_) => "cbj/",
            Self::Cron(cron) => cron_jobs::prefix(cron.progress.api),
            Self::Set(set) => daemon_sets::prefix(set),
        }
    }
}

/// Whether names have to tell the kind, as kubectl's do where several are shown.
pub(super) fn are_of_several_kinds(shown: &[Shown]) -> bool {
    let mut prefixes = shown.iter().map(Shown::prefix);
    let first = prefixes.next();
    prefixes.any(|prefix| Some(prefix) != first)
}

/// A table of those that stand in it; `None` if none does.
pub(super) fn table(
    which: usize,
    shown: &[&Shown],
    columns: Columns,
    prefix: bool,
) -> Option<Table> {
    let (mut of_jobs, mut of_crons, mut of_sets) = (Vec::new(), Vec::new(), Vec::new());
    for one in shown.iter().filter(|one| one.table() == which) {
        match one {
            Shown::Job(job) => of_jobs.push(&**job),
            Shown::Cron(cron) => of_crons.push(&**cron),
            Shown::Set(set) => of_sets.push(&**set),
        }
    }
    let table = match which {
        0 => jobs::table(&of_jobs, columns, prefix),
        1 => cron_jobs::table(&of_crons, columns, prefix),
        _ => daemon_sets::table(&of_sets, columns, prefix),
    };
    (table.height() > 0).then_some(table)
}

/// How many tables there may be.
pub(super) const TABLES: usize = 3;

/// What is asked about.
pub(super) struct Question<'a> {
    pub(super) wanted: &'a Wanted,
    /// Of all namespaces.
    pub(super) all: bool,
    /// A label selector, or empty.
    pub(super) selector: &'a str,
}

/// What was read, and what could not be.
#[derive(Default)]
pub(super) struct Found {
    pub(super) shown: Vec<Shown>,
    /// Why some of what was named is not shown.
    pub(super) problems: Vec<Error>,
}

/// Reads what is asked about. What was `known` before and has not changed since is not asked about again.
pub(super) async fn read(
    api: &Api,
    question: &Question<'_>,
    known: Vec<Shown>,
    screen: &mut Screen,
) -> Result<Found> {
    let mut found = Found::default();
    let mut known = Known::of(known);
    match question.wanted {
        Wanted::Kinds(kinds) => {
            for kind in kinds {
                let read = of_kind(api, *kind, question, &mut known, screen).await?;
                found.shown.extend(read);
            }
        }
        Wanted::Names(names) => {
            let alone = names.len() == 1;
            for name in names {
                match by_name(api, name, alone, &mut known).await {
                    Ok(one) => found.shown.push(one),
                    Err(error) => found.problems.push(error),
                }
            }
        }
    }
    let mut ids = BTreeSet::new();
    found.shown.retain(|one| ids.insert(one.id()));
    found.shown.sort_by_key(Shown::table);
    Ok(found)
}

/// Jobs that were read before, by uid and version.
struct Known(BTreeMap<(String, String), Box<Job>>);

impl Known {
    fn of(shown: Vec<Shown>) -> Self {
        let jobs = shown.into_iter().filter_map(|one| match one {
            Shown::Job(job) => Some((version(&job.object), job)),
            _ => None,
        });
        Self(jobs.collect())
    }

    async fn job(&mut self, api: &Api, object: Value) -> Result<Shown> {
        Ok(Shown::Job(match self.0.remove(&version(&object)) {
            Some(job) => job,
            None => Box::new(jobs::job(api, object).await?),
        }))
    }
}

fn version(object: &Value) -> (String, String) {
    let field = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    (field("uid"), field("resourceVersion"))
}

async fn of_kind(
    api: &Api,
    kind: Kind,
    question: &Question<'_>,
    known: &mut Known,
    screen: &mut Screen,
) -> Result<Vec<Shown>> {
    let mut shown = Vec::new();
    match kind {
        Kind::Jobs => {
            for object in api.jobs_selected(question.all, question.selector).await? {
                shown.push(known.job(api, object).await?);
            }
        }
        Kind::Crons(side) => {
            let objects = listed(api, (&CRONS, side), question, screen).await?;
            let mut runs = if objects.is_empty() {
                BTreeMap::new()
            } else {
                api.runs_if_allowed(side, question.all).await?
            };
            for object in objects {
                let children = runs.remove(&Controller::stored(&read_cron::cron(&object)));
                let cron = cron_jobs::cron(object, &children.unwrap_or_default());
                shown.push(Shown::Cron(Box::new(cron)));
            }
        }
        Kind::Sets(side) => {
            for object in listed(api, (&SETS, side), question, screen).await? {
                let set = daemon_sets::progress(api, &object, false).await?;
                shown.push(Shown::Set(Box::new(set)));
            }
        }
    }
    Ok(shown)
}

/// The objects of a kind. In a list of several kinds one that is not there, or not for whoever asks, is left out.
async fn listed(
    api: &Api,
    (kind, side): (&TwoApis, Side),
    question: &Question<'_>,
    screen: &mut Screen,
) -> Result<Vec<Value>> {
    let alone = matches!(question.wanted, Wanted::Kinds(kinds) if kinds.len() == 1);
    let asked = api.all_of((kind, side), question.all, question.selector);
    match asked.await? {
        Asked::Found(objects) => Ok(objects),
        Asked::Missing if alone => Err(api.not_served(kind, side)),
        Asked::NotAllowed if alone => Err(api.not_allowed(kind, side)),
        Asked::Missing => Ok(Vec::new()),
        Asked::NotAllowed => {
            let resource = kind.resource(side);
            screen.aside(&format!("note: you may not list {resource}"));
            Ok(Vec::new())
        }
    }
}

/// `alone`: nothing else is asked about, so that more is looked for.
async fn by_name(api: &Api, name: &One, alone: bool, known: &mut Known) -> Result<Shown> {
    let name = match name {
        One::Job(name) => return known.job(api, api.job(name).await?).await,
        One::Cron(name) => return cron(api, api.cron(name).await?).await,
        One::Set(name) => return set(api, &api.set(name).await?, alone).await,
        One::Any(name) => name,
    };
    let any = ApiName::any(name);
    let job = api.job_if_any(name).await;
    let the_cron = api.cron_if_any(&any).await;
    let the_set = api.of_two_if_any(&SETS, &any).await;
    let native = |found: &Value, group: &str| {
        let version = found["apiVersion"].as_str().unwrap_or_default();
        version.starts_with(group)
    };
    let short = |found: &Result<Option<Value>>, (group, theirs, ours): (&str, _, _)| {
        let found = found.as_ref().ok().and_then(Option::as_ref)?;
        Some(if native(found, group) { theirs } else { ours })
    };
    let there = [
        ("BroadcastJob", short(&job, ("-", "cbj", "cbj"))),
        ("CronJob", short(&the_cron, ("batch/", "cj", "ccj"))),
        ("DaemonSet", short(&the_set, ("apps/", "ds", "cds"))),
    ];
    let there: Vec<(&str, &str)> = there
        .into_iter()
        .filter_map(|(kind, short)| Some((kind, short?)))
        .collect();
    if let [(first, write), (second, or), ..] = there[..] {
        return Err(anyhow!(
            "there are a {first} and a {second} {name}: write {write}/{name}, or {or}/{name}"
        ));
    }
    // Whoever may not see those of one kind means another.
    match (job, the_cron, the_set) {
        (Ok(Some(object)), ..) => known.job(api, object).await,
        (_, Ok(Some(object)), _) => cron(api, object).await,
        (.., Ok(Some(object))) => set(api, &object, alone).await,
        (Err(error), ..) => Err(error),
        (Ok(None), the_cron, the_set) => {
            let mut said = vec![api.missing(name).await.to_string()];
            for (kind, looked) in [(&CRONS, the_cron.is_ok()), (&SETS, the_set.is_ok())] {
                if looked {
                    said.push(api.no_such(kind, &any).await.to_string());
                }
            }
            Err(anyhow!(said.join("\n")))
        }
    }
}

async fn cron(api: &Api, object: Value) -> Result<Shown> {
    let children: Children = api.children_if_allowed(&read_cron::cron(&object)).await?;
    Ok(Shown::Cron(Box::new(cron_jobs::cron(object, &children))))
}

async fn set(api: &Api, object: &Value, alone: bool) -> Result<Shown> {
    let progress = daemon_sets::progress(api, object, alone).await?;
    Ok(Shown::Set(Box::new(progress)))
}
