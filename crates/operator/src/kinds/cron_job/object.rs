//! CronJobs, of carillon.dev and of batch/v1.

use std::marker::PhantomData;
use std::sync::Arc;

use carillon_plan::Written;
use carillon_plan::cron_job::{Api, CronJob};
use serde::Deserialize;

use super::tables::CronJobRow;
use crate::gate::Kind;
use crate::slim::{KEPT_BYTES, SlimMeta};
use crate::store::watched;

/// One of the two APIs that have CronJobs.
pub trait Side: Send + 'static {
    /// Which one.
    const API: Api;
    /// Its kind.
    const KIND: Kind;
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
}

impl Side for Native {
    const API: Api = Api::Native;
    const KIND: Kind = Kind::NativeCronJob;
}

/// A CronJob: few, and read whole.
#[derive(Debug, Deserialize)]
#[serde(bound = "")]
pub struct SlimCronJob<S> {
    /// Metadata.
    #[serde(default)]
    pub metadata: SlimMeta,
    #[serde(default)]
    spec: Written,
    #[serde(default)]
    status: Written,
    #[serde(skip)]
    side: PhantomData<fn(S)>,
}

watched!(SlimCronJob<S> where S: Side);

impl<S: Side> SlimCronJob<S> {
    /// The CronJob as the planner reads it. Most changes are our own writes of the status: what is
    /// `known` of the object is not read again from a spec that is the same.
    pub fn cron_job(&self, known: Option<&CronJobRow>) -> Option<CronJobRow> {
        let meta = self.metadata.meta(S::API.kind())?;
        let annotations = self.metadata.annotations.as_ref();
        let run_now = annotations.and_then(|annotations| annotations.run_now.clone());
        let status = self.status.value();
        // A zone that was not there may be there now.
        let same =
            |known: &&CronJobRow| known.spec.is_same(&self.spec) && known.cron.timetable.is_ok();
        let cron = if let Some(known) = known.filter(same) {
            known.cron.later(meta, run_now, &status)
        } else {
            let cron = CronJob::read(meta, run_now, &self.spec.value(), &status);
            let template = cron.template.at_most(KEPT_BYTES);
            CronJob { template, ..cron }
        };
        Some(CronJobRow {
            cron: Arc::new(cron),
            spec: self.spec.clone().at_most(KEPT_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value, status: &Value) -> SlimCronJob<Native> {
        let object = json!({
            "metadata": {"name": "night", "namespace": "ops", "resourceVersion": "7", "generation": 1,
                "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"},
            "spec": spec, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_spec_is_read_again_when_it_differs_whatever_its_generation_says() {
        let spec = |schedule: &str| json!({"schedule": schedule, "jobTemplate": {"spec": {}}});
        let status = json!({"lastScheduleTime": "2026-01-01T00:00:00Z"});
        let first = read(&spec("0 1 * * *"), &json!({})).cron_job(None).unwrap();
        let same = read(&spec("0 1 * * *"), &status).cron_job(Some(&first));
        let same = same.unwrap().cron;
        assert!(same.template.is_clone_of(&first.cron.template));
        assert!(same.status.last_schedule_time.is_some());
        let other = read(&spec("0 2 * * *"), &status).cron_job(Some(&first));
        assert_eq!(other.unwrap().cron.written, "0 2 * * *");
    }

    #[test]
    fn a_zone_that_was_missing_is_looked_for_again() {
        let spec =
            json!({"schedule": "0 1 * * *", "timeZone": "Nowhere/At_All", "jobTemplate": {}});
        let first = read(&spec, &json!({})).cron_job(None).unwrap();
        let again = read(&spec, &json!({})).cron_job(Some(&first)).unwrap();
        assert!(!again.cron.template.is_clone_of(&first.cron.template));
    }
}
