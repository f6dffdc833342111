//! Which of the jobs of a namespace are the family of one.

use serde_json::{Value, json};

use super::family::retries;
use crate::view::read;
use crate::view::read::StoredJob;

/// The first job of a family as it is stored, and all its members in the order in which they had or will have
/// their turn. `others` are the jobs of the namespace. One whose first job is gone is alone.
pub fn family<'v>(object: &'v Value, others: &[&'v Value]) -> (&'v Value, Vec<StoredJob>) {
    let stored = read::job(object);
    let named = stored.job.retry_of.as_ref();
    let is_first = |other: &&&Value| {
        named.is_some_and(|named| other["metadata"]["uid"] == named.uid.to_string())
    };
    let first = others.iter().find(is_first).copied().unwrap_or(object);
    let first_job = read::job(first);
    let listed = first["status"]["retries"].as_array();
    let gone = listed.into_iter().flatten().filter(|listed| {
        let mut others = others.iter();
        !others.any(|other| other["metadata"]["uid"] == listed["uid"])
    });
    let gone = gone.map(|listed| gone_retry(first, listed));
    let all = others
        .iter()
        .map(|other| read::job(other))
        .chain(gone)
        .collect();
    let retries = retries(&first_job.job, all);
    let members = std::iter::once(first_job).chain(retries).collect();
    (first, members)
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

#[cfg(test)]
mod tests {
    use super::*;

    const UIDS: [&str; 3] = [
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000002",
        "00000000-0000-0000-0000-000000000003",
    ];

    #[test]
    fn a_family_has_the_first_job_its_retries_and_those_of_them_that_are_gone() {
        let first = json!({
            "metadata": {"name": "fix", "uid": UIDS[0], "namespace": "a"},
            "status": {"retries": [{"name": "fix-retry-1", "uid": UIDS[1]}]},
        });
        let retry = json!({
            "metadata": {"name": "fix-retry-2", "uid": UIDS[2], "namespace": "a"},
            "spec": {"retryOf": {"name": "fix", "uid": UIDS[0]}},
        });
        let (found, members) = family(&retry, &[&retry, &first]);
        assert_eq!(found["metadata"]["name"], "fix");
        let names: Vec<&str> = members
            .iter()
            .map(|one| &*one.job.meta.owner.name)
            .collect();
        assert_eq!(names, ["fix", "fix-retry-1", "fix-retry-2"]);
        // Without the first one it is alone.
        let (found, members) = family(&retry, &[&retry]);
        assert_eq!(
            (&found["metadata"]["name"], members.len()),
            (&json!("fix-retry-2"), 1)
        );
    }
}
