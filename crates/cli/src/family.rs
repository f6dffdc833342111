//! A job and its retries, as stored.

use anyhow::Result;
use carillon_plan::view::family::{Relative, retries};
use carillon_plan::view::read;
use serde_json::Value;

use crate::client::Api;

/// A family.
pub(crate) struct Family {
    /// The first job.
    pub(crate) first: Value,
    /// It and its retries, in the order in which they had or will have their turn.
    pub(crate) members: Vec<Relative>,
}

/// The family of a job. One whose first job is gone is alone.
pub(crate) async fn family(api: &Api, object: &Value) -> Result<Family> {
    let stored = read::job(object);
    let others = api.jobs(false).await?;
    let named = stored.job.retry_of.as_ref();
    let is_first = |other: &&Value| {
        named.is_some_and(|named| other["metadata"]["uid"] == named.uid.to_string())
    };
    let first = others.iter().find(is_first).unwrap_or(object).clone();
    let first_job = read::job(&first);
    let all = others.iter().map(read::job).collect();
    let jobs = retries(&first_job.job, all);
    let mut members = Vec::new();
    for stored in std::iter::once(first_job).chain(jobs) {
        let slices = api.slices(&stored).await?;
        members.push(Relative { stored, slices });
    }
    Ok(Family { first, members })
}
