//! A job and its retries, as `spec.retryOf` and `status.retries` say.

use serde_json::Value;

use super::world::{Job, World};
use crate::object::{self, Record, list, number, text};

/// Uid of the first job of a family, of a job or of what is to become one.
pub(crate) fn first_of(job: &Value) -> &str {
    match text(job, &["spec", "retryOf", "uid"]) {
        "" => object::uid(job),
        first => first,
    }
}

/// The list that a first job has in its status: uids, in their order.
pub(crate) fn listed(first: &Value) -> impl Iterator<Item = &str> {
    let retries = list(first, &["status", "retries"]).iter();
    retries.map(|retry| text(retry, &["uid"]))
}

/// The others of the family of a job, also those that are gone, by uid.
pub(crate) fn others<'w, 'h>(
    world: &'w World<'h>,
    job: &'w Value,
) -> impl Iterator<Item = (&'h str, &'w Job<'h>)> {
    let (own, first) = (object::uid(job), first_of(job));
    let all = world.jobs.iter().map(|(uid, job)| (*uid, job));
    all.filter(move |(uid, other)| *uid != own && first_of(other.last) == first)
}

/// Those retries that had their turn before `job`, and that its maker did not know.
pub(crate) fn unknown_before<'w>(
    world: &'w World<'_>,
    job: &'w Value,
) -> impl Iterator<Item = &'w str> {
    let own = object::uid(job);
    let first = world.jobs.get(first_of(job)).map(|first| first.last);
    let before = first
        .into_iter()
        .flat_map(listed)
        .take_while(move |uid| *uid != own);
    let known = number(job, &["spec", "retryOf", "knownRetries"]);
    before.skip(usize::try_from(known).unwrap_or(0))
}

/// Whether a job is one of another's retries.
pub(crate) fn is_retry(job: &Value) -> bool {
    !text(job, &["spec", "retryOf", "uid"]).is_empty()
}

/// Whether what a job has done is kept when it is gone: it is a retry, and the first job is there.
pub(crate) fn outlives(world: &World<'_>, job: &Job<'_>) -> bool {
    let first = world.jobs.get(first_of(job.last));
    is_retry(job.last) && first.is_some_and(Job::is_alive)
}

/// Whether nothing is left to do for a retry on a node, as others of its family have done it.
pub(crate) fn is_settled(world: &World<'_>, job: &Value, node: &Value) -> bool {
    if !is_retry(job) {
        return false;
    }
    let here = |record: &Record<'_>| record.node_uid() == object::uid(node);
    let succeeded = others(world, job).any(|(_, other)| {
        let mut records = other.records.values().filter(|record| here(record));
        records.any(|record| record.state() == "Succeeded")
    });
    let tried = |uid: &str| {
        let other = world.jobs.get(uid).map(|other| &other.records);
        let mut records = other.into_iter().flat_map(|records| records.values());
        records.any(|record| {
            let ran = matches!(record.state(), "Failed" | "Disrupted" | "Unknown");
            here(record) && ran && record.reason() != "Withdrawn"
        })
    };
    let lost = others(world, job).any(|(_, other)| {
        let mut records = other.records.values().filter(|record| here(record));
        records.any(|record| record.reason() == "JobDeleted")
    });
    succeeded || lost || unknown_before(world, job).any(tried)
}

/// Why a retry may not start a pod now, if so: it is not its turn.
pub(crate) fn has_no_turn(world: &World<'_>, job: &Value) -> Option<String> {
    if !is_retry(job) {
        return None;
    }
    let own = object::uid(job);
    let first = world.jobs.get(first_of(job))?;
    let place = listed(first.last).position(|uid| uid == own);
    let Some(place) = place else {
        return Some("it is not in the list of its family".to_owned());
    };
    let before = listed(first.last)
        .take(place)
        .chain([object::uid(first.last)]);
    let mut open = before.filter(|uid| {
        let ended = |job: &Job<'_>| job.gone.is_some() || object::is_terminal(job.last);
        !world.jobs.get(*uid).is_some_and(ended)
    });
    open.next()
        .map(|uid| format!("job {uid}, which is before it, has not ended"))
}

/// Whether a retry has a reason to be open: another one of its family is.
pub(crate) fn waits(world: &World<'_>, job: &Value) -> bool {
    let open = |other: &Job<'_>| other.is_alive() && !object::is_terminal(other.last);
    is_retry(job) && others(world, job).any(|(_, other)| open(other))
}

/// Whether a retry may stall: the first job of its family is gone.
pub(crate) fn is_broken(world: &World<'_>, job: &Value) -> bool {
    if !is_retry(job) {
        return false;
    }
    let first = world.jobs.get(first_of(job));
    !first.is_some_and(Job::is_alive)
}
