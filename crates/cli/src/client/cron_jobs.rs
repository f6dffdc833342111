//! CronJobs, of carillon.dev and of batch/v1, and what they start.

use anyhow::{Result, anyhow};
use carillon_api::names::LABEL_CRON_JOB_UID;
use carillon_api::path::Resource;
use carillon_plan::cron_job::{Api as Side, ChildKind, Children};
use carillon_plan::view::cron_job::read::{self, StoredCron};
use carillon_plan::view::cron_job::resource;
use serde_json::Value;

use super::{Answer, Api, CRON_JOBS, JOBS, MERGE, by_us, code, dry, name_of};
use crate::names::CronName;
use crate::problem;

const NATIVE_CRON_JOBS: Resource = batch("cronjobs");
pub(super) const NATIVE_JOBS: Resource = batch("jobs");

const fn batch(plural: &'static str) -> Resource {
    Resource {
        group: "batch",
        version: "v1",
        plural,
    }
}

fn crons(side: Side) -> Resource {
    match side {
        Side::Carillon => CRON_JOBS,
        Side::Native => NATIVE_CRON_JOBS,
    }
}

fn children(kind: ChildKind) -> Resource {
    match kind {
        ChildKind::BroadcastJob => JOBS,
        ChildKind::Job => NATIVE_JOBS,
    }
}

impl Api {
    /// A CronJob as stored: that of carillon.dev, or else that of batch/v1.
    pub(crate) async fn cron(&self, wanted: &CronName) -> Result<Value> {
        match self.cron_if_any(wanted).await? {
            Some(cron) => Ok(cron),
            None => Err(self.no_cron(wanted).await),
        }
    }

    /// The same, if there is one.
    pub(crate) async fn cron_if_any(&self, wanted: &CronName) -> Result<Option<Value>> {
        let name = &wanted.name;
        for side in wanted.sides() {
            match self.get(self.path(crons(*side), name)).await {
                Ok(cron) => return Ok(Some(cron)),
                Err(error) if code(&error) == Some(404) => {}
                // Whoever asks for any of that name need not know that there are two APIs.
                Err(error) if code(&error) == Some(403) && *side != wanted.sides()[0] => {}
                Err(error) => {
                    let what = format!("reading {}/{name}", resource(*side));
                    return Err(self.explain(error, &what).await);
                }
            }
        }
        Ok(None)
    }

    async fn no_cron(&self, wanted: &CronName) -> anyhow::Error {
        let mut others = Vec::new();
        for side in wanted.sides() {
            let path = crons(*side).within(&self.namespace);
            match self.list(path, "", |cron| name_of(&cron)).await {
                Ok(names) => others.extend(names),
                Err(error) if *wanted.sides() == [*side] => {
                    return self.explain(error, "listing CronJobs").await;
                }
                Err(_) => {}
            }
        }
        others.sort();
        others.dedup();
        problem::no_cron(wanted, &self.namespace, &others)
    }

    /// Names of the CronJobs of both APIs.
    pub(crate) async fn cron_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for side in [Side::Carillon, Side::Native] {
            let path = crons(side).within(&self.namespace);
            let listed = self.list(path, "", |cron| name_of(&cron)).await;
            names.extend(listed.unwrap_or_default());
        }
        names.sort();
        names.dedup();
        names
    }

    /// Merges a patch into a CronJob, or only asks whether it could be.
    pub(crate) async fn merge_cron(
        &self,
        (side, name): (Side, &str),
        dry_run: bool,
        patch: &Value,
    ) -> Answer<Value> {
        let cron = self.path(crons(side), name);
        let cron = cron.map(|path| dry(by_us(path), dry_run));
        self.send("PATCH", cron, MERGE, Some(patch)).await
    }

    /// The Jobs and BroadcastJobs that a CronJob controls.
    pub(crate) async fn children(&self, stored: &StoredCron) -> Result<Children> {
        self.list_children(stored, false).await
    }

    /// Those of them that whoever asks may list. The status of the CronJob tells of the others, too.
    pub(crate) async fn children_if_allowed(&self, stored: &StoredCron) -> Result<Children> {
        self.list_children(stored, true).await
    }

    async fn list_children(&self, stored: &StoredCron, if_allowed: bool) -> Result<Children> {
        let owner = &stored.cron.meta.owner;
        // Jobs of native CronJobs have no label of ours.
        let (selector, kinds) = if stored.cron.is_native() {
            (String::new(), &[ChildKind::Job][..])
        } else {
            (
                format!("{LABEL_CRON_JOB_UID}={}", owner.uid),
                &ChildKind::ALL[..],
            )
        };
        let mut known = Children::new();
        for kind in kinds {
            let path = children(*kind).within(&self.namespace);
            let listed = self.list(path, &selector, |job| {
                read::children(owner.uid, *kind, &[job])
            });
            match listed.await {
                Ok(found) => known.extend(found.into_iter().flatten()),
                Err(error) if if_allowed && code(&error) == Some(403) => {}
                Err(error) => {
                    let what = format!("listing {}s of {}", kind.kind(), owner.name);
                    return Err(self.explain(error, &what).await);
                }
            }
        }
        Ok(known)
    }

    /// A Job or BroadcastJob, if it is there.
    pub(crate) async fn child(&self, kind: ChildKind, name: &str) -> Result<Option<Value>> {
        match self.get(self.path(children(kind), name)).await {
            Ok(child) => Ok(Some(child)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => {
                let what = format!("reading {} {name}", kind.kind());
                Err(self.explain(error, &what).await)
            }
        }
    }

    /// A BroadcastJob, if there is one of that name.
    pub(crate) async fn job_if_any(&self, name: &str) -> Result<Option<Value>> {
        self.child(ChildKind::BroadcastJob, name).await
    }

    /// Neither a BroadcastJob nor a CronJob has this name.
    pub(crate) async fn nothing_called(&self, name: &str) -> anyhow::Error {
        let missing = self.missing(name).await;
        anyhow!("{missing}\nThere is no CronJob {name} either")
    }
}
