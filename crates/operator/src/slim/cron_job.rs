//! CronJobs, of carillon.dev and of batch/v1.

use std::marker::PhantomData;

use carillon_api::CronJobStatus;
use carillon_plan::Owner;
use carillon_plan::cron_job::{Api, CronJob, CronJobMeta, stored};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
    #[serde(skip)]
    side: PhantomData<fn(S)>,
}

impl<S: Side> SlimCronJob<S> {
    /// The CronJob as the planner reads it. `known` is the one with this uid as it was before: most
    /// changes are our own writes of the status, and a spec that is the same need not be read again.
    pub fn cron_job(&self, known: Option<&CronJob>) -> Option<CronJob> {
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
        let status = self.status();
        let same = |known: &&CronJob| {
            known.meta.api == meta.api
                && known.meta.generation == meta.generation
                && meta.generation > 0
                // A zone that was not there may be there now.
                && known.timetable.is_ok()
        };
        Some(match known.filter(same) {
            Some(known) => known.later(meta, status),
            None => CronJob::read(meta, &value(self.spec.as_deref()), status),
        })
    }

    fn status(&self) -> CronJobStatus {
        let text = self.status.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).unwrap_or_else(|_| stored(&value(self.status.as_deref())))
    }
}

fn value(text: Option<&RawValue>) -> Value {
    let value = text.and_then(|text| serde_json::from_str(text.get()).ok());
    value.unwrap_or_default()
}
