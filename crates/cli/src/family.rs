//! A job and its retries, as stored.

use std::collections::BTreeSet;

use anyhow::Result;
use carillon_plan::view::broadcast_job::family::{Relative, retries};
use carillon_plan::view::read;
use carillon_plan::view::read::StoredJob;
use serde_json::{Value, json};

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

/// A retry that was deleted: it starts nothing any more, and its results have stayed.
fn gone_retry(first: &Value, listed: &Value) -> StoredJob {
    let namespace = &first["metadata"]["namespace"];
    read::job(&json!({
        "metadata": {
            "name": listed["name"], "uid": listed["uid"], "namespace": namespace,
            "deletionTimestamp": "1970-01-01T00:00:00Z",
        },
        "spec": {
            "retryOf": {"name": first["metadata"]["name"], "uid": first["metadata"]["uid"]},
        },
    }))
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
    let listed = first["status"]["retries"].as_array();
    let gone = listed.into_iter().flatten().filter(|listed| {
        let mut others = others.iter();
        !others.any(|other| other["metadata"]["uid"] == listed["uid"])
    });
    let gone = gone.map(|listed| gone_retry(&first, listed));
    let all = others.iter().map(read::job).chain(gone).collect();
    let jobs = retries(&first_job.job, all);
    let mut members = Vec::new();
    for stored in std::iter::once(first_job).chain(jobs) {
        let slices = api.slices(&stored).await?;
        members.push(Relative::new(stored, slices));
    }
    let taken = others.iter().map(name_of).collect();
    Ok(Family {
        first,
        members,
        taken,
    })
}
