//! CronJobs, of carillon.dev and of batch/v1, and what they start.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use carillon_api::names::LABEL_CRON_JOB_UID;
use carillon_api::path::Resource;
use carillon_plan::cron_job::{Api as Side, ChildKind, Children};
use carillon_plan::view::cron_job::read::{self, Controller, StoredCron};
use serde_json::Value;

use super::{Answer, Api, JOBS, code};
use crate::names::ApiName;
use crate::two_apis::CRONS;

pub(crate) const NATIVE_JOBS: Resource = Resource {
    group: "batch",
    version: "v1",
    plural: "jobs",
};

fn children(kind: ChildKind) -> Resource {
    match kind {
        ChildKind::BroadcastJob => JOBS,
        ChildKind::Job => NATIVE_JOBS,
    }
}

impl Api {
    /// A CronJob as stored: that of carillon.dev, or else that of batch/v1.
    pub(crate) async fn cron(&self, wanted: &ApiName) -> Result<Value> {
        self.of_two(&CRONS, wanted).await
    }

    /// The same, if there is one.
    pub(crate) async fn cron_if_any(&self, wanted: &ApiName) -> Result<Option<Value>> {
        self.of_two_if_any(&CRONS, wanted).await
    }

    /// Names of the CronJobs of both APIs.
    pub(crate) async fn cron_names(&self) -> Vec<String> {
        self.names_of_both(&CRONS).await
    }

    /// Merges a patch into a CronJob, or only asks whether it could be.
    pub(crate) async fn merge_cron(
        &self,
        id: (Side, &str),
        dry_run: bool,
        patch: &Value,
    ) -> Answer<Value> {
        self.merge_of_two(&CRONS, id, dry_run, patch).await
    }

    /// The Jobs and BroadcastJobs that a CronJob controls.
    pub(crate) async fn children(&self, stored: &StoredCron) -> Result<Children> {
        self.list_children(stored, false).await
    }

    /// Those of them that whoever asks may list. The status of the CronJob tells of the others, too.
    pub(crate) async fn children_if_allowed(&self, stored: &StoredCron) -> Result<Children> {
        self.list_children(stored, true).await
    }

    /// The jobs of all CronJobs of an API, by CronJob, as far as whoever asks may list them.
    pub(crate) async fn runs_if_allowed(
        &self,
        side: Side,
        all: bool,
    ) -> Result<BTreeMap<Controller, Children>> {
        let (selector, kinds) = match side {
            Side::Native => ("", &[ChildKind::Job][..]),
            Side::Carillon => (LABEL_CRON_JOB_UID, &ChildKind::ALL[..]),
        };
        let mut known: BTreeMap<Controller, Children> = BTreeMap::new();
        for kind in kinds {
            let path = self.collection(children(*kind), all);
            match self.list(path, selector, |job| read::run_of(&job)).await {
                Ok(runs) => {
                    for (owner, name, child) in runs.into_iter().flatten() {
                        known.entry(owner).or_default().insert((*kind, name), child);
                    }
                }
                Err(error) if code(&error) == Some(403) => {}
                Err(error) => {
                    let what = format!("listing the {}s of CronJobs", kind.kind());
                    return Err(self.explain(error, &what).await);
                }
            }
        }
        Ok(known)
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
        // A manifest need not name one.
        let namespace = match owner.namespace.as_str() {
            "" => &self.namespace,
            _ => &owner.namespace,
        };
        for kind in kinds {
            let path = children(*kind).within(namespace);
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
