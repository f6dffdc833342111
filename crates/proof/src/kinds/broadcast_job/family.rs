//! A BroadcastJob and its retries, which are decided on together.

use serde_json::Value;

/// Uids of a BroadcastJob and of all that are of its family, and of who has the name of the first.
pub(super) fn family(jobs: &[&Value], uid: &str) -> Vec<String> {
    let jobs = || jobs.iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let own = jobs().find(|job| job["metadata"]["uid"] == uid);
    let first = own.and_then(|job| text(&job["spec"]["retryOf"]["uid"]));
    let first = first.unwrap_or_else(|| uid.to_owned());
    let retries = jobs().filter(|job| job["spec"]["retryOf"]["uid"] == *first);
    let retries = retries.filter_map(|job| text(&job["metadata"]["uid"]));
    let listed = jobs().filter(|job| job["metadata"]["uid"] == *first);
    let listed = listed.filter_map(|job| job["status"]["retries"].as_array());
    let listed = listed.flatten().filter_map(|retry| text(&retry["uid"]));
    let named = own.map(|job| &job["spec"]["retryOf"]["name"]);
    let of_name = |job: &&&Value| {
        let namespace = own.map(|job| &job["metadata"]["namespace"]);
        let meta = &job["metadata"];
        named == Some(&meta["name"]) && namespace == Some(&meta["namespace"])
    };
    let other = jobs().filter(of_name);
    let other = other.filter_map(|job| text(&job["metadata"]["uid"]));
    let mut family: Vec<String> = retries.chain(listed).chain(other).collect();
    family.extend([first, uid.to_owned()]);
    family
}
