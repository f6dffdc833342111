//! Which CronJob is meant: one of the cluster, of a file, or only a schedule.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Error, Result, bail};
use carillon_plan::view::cron_job::read::{self, StoredCron};
use clap::Args;
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, PathCompleter, ValueCompleter};
use serde_json::{Value, json};

use crate::candidates;
use crate::client::Api;
use crate::flags::Global;
use crate::manifest::{self, STDIN};
use crate::names::{ApiName, cron_name};
use crate::render::Screen;

/// A CronJob by name.
#[derive(Clone, Debug, Args)]
pub(crate) struct Cron {
    /// Name of the CronJob, also as ccj/NAME; cj/NAME is one of batch/v1
    #[arg(value_parser = cron_name, add = ArgValueCandidates::new(candidates::crons))]
    pub(crate) cron: ApiName,
}

/// A CronJob by name, CronJobs of a file, or a schedule.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// Name of a CronJob, also as ccj/NAME; cj/NAME is one of batch/v1. Or a file with CronJobs, YAML
    /// or JSON; - is standard input
    #[arg(value_name = "CRON|FILE", required_unless_present = "schedule",
          conflicts_with = "schedule", add = ArgValueCompleter::new(names_and_files))]
    cron: Option<String>,
    /// A schedule to try, without a CronJob
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<String>,
    /// Time zone of that schedule; UTC when absent
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    time_zone: Option<String>,
}

/// What a [`Source`] leads to.
pub(crate) enum Found {
    /// One of the cluster.
    Stored(Api, Box<StoredCron>),
    /// Those of a file.
    Manifests(Vec<StoredCron>),
    /// Only a schedule.
    Schedule(Box<StoredCron>),
}

impl Found {
    /// All of them.
    pub(crate) fn crons(&self) -> &[StoredCron] {
        match self {
            Self::Stored(_, one) | Self::Schedule(one) => std::slice::from_ref(one),
            Self::Manifests(many) => many,
        }
    }

    /// Whether there may be several.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::Manifests(_))
    }

    /// Asks a view about each; what is wrong with any of them is the error.
    pub(crate) fn each<T>(&self, ask: impl Fn(&StoredCron) -> Result<T, String>) -> Result<Vec<T>> {
        let (mut answers, mut problems) = (Vec::new(), Vec::new());
        for one in self.crons() {
            match ask(one) {
                Ok(answer) => answers.push(answer),
                Err(problem) => problems.push(self.in_words(one, &problem)),
            }
        }
        if problems.is_empty() {
            Ok(answers)
        } else {
            Err(Error::msg(problems.join("\n")))
        }
    }

    fn in_words(&self, one: &StoredCron, problem: &str) -> String {
        if let Self::Schedule(_) = self {
            let problem = problem.replacen("spec.schedule:", "--schedule:", 1);
            return problem.replacen("spec.timeZone:", "--time-zone:", 1);
        }
        format!("CronJob {}: {problem}", one.cron.meta.owner.name)
    }
}

impl Source {
    /// Reads it. The cluster is asked only for what is neither a file nor a schedule.
    pub(crate) async fn read(&self, global: &Global, screen: &mut Screen) -> Result<Found> {
        if let Some(schedule) = &self.schedule {
            let spec = json!({"schedule": schedule, "timeZone": self.time_zone});
            let one = read::cron(&json!({"spec": spec}));
            return Ok(Found::Schedule(Box::new(one)));
        }
        let text = self.cron.as_deref().unwrap_or_default();
        if text == STDIN || (Path::new(text).exists() && !Path::new(text).is_dir()) {
            let is_cron = |object: &Value| object["kind"] == "CronJob";
            let objects = manifest::read(text, "CronJob", is_cron, screen).await?;
            return Ok(Found::Manifests(objects.iter().map(read::cron).collect()));
        }
        let name = match cron_name(text) {
            Ok(name) if !looks_like_a_file(text) => name,
            Ok(_) => bail!("there is no file {text}"),
            Err(forms) => bail!("there is no file {text}, and no CronJob is called so: {forms}"),
        };
        let api = Api::connect(&global.target()).await?;
        let stored = read::cron(&api.cron(&name).await?);
        Ok(Found::Stored(api, Box::new(stored)))
    }
}

/// A CronJob may be called `report.yaml`, and can be written as `cronjob/report.yaml`.
fn looks_like_a_file(text: &str) -> bool {
    let mut endings = [".yaml", ".yml", ".json"].iter();
    !text.contains('/') && endings.any(|ending| text.ends_with(ending))
}

fn names_and_files(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let mut found = candidates::crons();
    found.retain(|name| name.get_value().to_string_lossy().starts_with(&*start));
    found.extend(PathCompleter::file().complete(current));
    found.retain(|name| candidates::is_offered(&name.get_value().to_string_lossy()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Color;

    fn error(source: &Source) -> String {
        let screen = &mut Screen::new(Color::Never, String::new());
        let global = Global::default();
        let read = source.read(&global, screen);
        let read = crate::client::block_on(read).unwrap();
        let asked = read.each(|one| {
            let now = jiff::Timestamp::UNIX_EPOCH;
            carillon_plan::view::cron_job::timetable(one, now).map(|_| ())
        });
        asked.unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_schedule_names_the_flag_and_in_a_file_the_field() {
        let tried = |schedule: &str, zone: Option<&str>| {
            error(&Source {
                cron: None,
                schedule: Some(schedule.to_owned()),
                time_zone: zone.map(str::to_owned),
            })
        };
        assert!(tried("0 25 * * *", None).starts_with("--schedule: hour: \"25\""));
        let zone = tried("0 2 * * *", Some("europe/berlin"));
        assert!(
            zone.starts_with("--time-zone: ") && zone.contains("Europe/Berlin"),
            "{zone}"
        );
        assert!(tried("0 0 31 2 *", None).starts_with("--schedule: \"0 0 31 2 *\" never comes"));
        let manifest = json!({"metadata": {"name": "report"}, "spec": {"schedule": "soon"}});
        let file = Found::Manifests(vec![read::cron(&manifest)]);
        let said = file.each(|_| Err::<(), _>("spec.schedule: 1 field".to_owned()));
        let said = said.unwrap_err().to_string();
        assert_eq!(said, "CronJob report: spec.schedule: 1 field");
    }
}
