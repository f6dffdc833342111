//! CronJobs, of carillon.dev and of batch/v1.

use std::marker::PhantomData;

use carillon_plan::Owner;
use carillon_plan::cron_job::{Api, CronJob, CronJobMeta};
use serde::Deserialize;
use serde_json::Value;

use super::SlimMeta;
use crate::gate::Kind;

/// One of the two APIs that have CronJobs.
pub trait Side: Send + 'static {
    /// Which one.
    const API: Api;
    /// Its kind.
    const KIND: Kind;
    /// `apiVersion` of its objects.
    const API_VERSION: &'static str;
}

/// `carillon.dev/v1alpha1`.
#[derive(Debug)]
pub struct Carillon;

/// `batch/v1`.
#[derive(Debug)]
pub struct Native;

impl Side for Carillon {
    const API: Api = Api::Carillon;
    const KIND: Kind = Kind::CronJob;
    const API_VERSION: &'static str = carillon_api::names::API_VERSION;
}

impl Side for Native {
    const API: Api = Api::Native;
    const KIND: Kind = Kind::NativeCronJob;
    const API_VERSION: &'static str = "batch/v1";
}

/// A CronJob: few, and read whole.
#[derive(Debug, Deserialize)]
#[serde(bound = "")]
pub struct SlimCronJob<S> {
    /// Metadata.
    #[serde(default)]
    pub metadata: SlimMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
    #[serde(skip)]
    side: PhantomData<fn(S)>,
}

impl<S: Side> SlimCronJob<S> {
    /// The CronJob as the planner reads it.
    pub fn cron_job(&self) -> Option<CronJob> {
        let meta = &self.metadata;
        let annotations = meta.annotations.as_ref();
        let meta = CronJobMeta {
            owner: Owner {
                api_version: S::API_VERSION,
                kind: "CronJob",
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid()?,
            },
            api: S::API,
            generation: meta.generation,
            rv: meta.rv(),
            deleting: meta.deletion_timestamp.is_some(),
            created: meta.creation_timestamp.unwrap_or_default(),
            run_now: annotations.and_then(|annotations| annotations.run_now.clone()),
        };
        Some(CronJob::read(meta, &self.spec, &self.status))
    }
}
