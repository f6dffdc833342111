//! A job and its retries, as stored.

use std::collections::BTreeSet;

use anyhow::Result;
use carillon_plan::view::broadcast_job::family::Relative;
use carillon_plan::view::broadcast_job::kin;
use serde_json::Value;

use crate::client::{Api, name_of};

/// A family.
pub(crate) struct Family {
    /// The first job.
    pub(crate) first: Value,
    /// It and its retries, in the order in which they had or will have their turn.
    pub(crate) members: Vec<Relative>,
    /// Names of all jobs of the namespace.
    pub(crate) taken: BTreeSet<String>,
}

/// The family of a job. One whose first job is gone is alone.
pub(crate) async fn family(api: &Api, object: &Value) -> Result<Family> {
    let others = api.jobs(false).await?;
    let (first, all) = kin::family(object, &others.iter().collect::<Vec<_>>());
    let mut members = Vec::new();
    for stored in all {
        let slices = api.slices(&stored).await?;
        members.push(Relative::new(stored, slices));
    }
    let taken = others.iter().map(name_of).collect();
    Ok(Family {
        first: first.clone(),
        members,
        taken,
    })
}
