//! Names of child objects, made from what they are for.
//!
//! A name that follows from (owner uid, node, attempt) is a lock held by the API server: a lost
//! reply, a crash or a second leader can never make a second child.

use sha2::{Digest, Sha256};

use crate::uid::Uid;

/// DNS label limit, which pod names keep so that they can be host names.
const MAX_LABEL: usize = 63;
/// Characters of the hash: 50 bits, so that two of a million children collide once in a thousand
/// jobs; a collision is found by the owner uid and reported, never acted on.
const HASH_CHARS: usize = 10;
/// Characters of the API server's own random suffixes.
const GENERATED_CHARS: usize = 5;
/// Names of CronJobs have up to 52 characters, and those of Jobs up to 63.
const REQUEST_CHARS: usize = 9;
/// No vowels and no look-alikes, as Kubernetes' own random suffixes.
const ALPHABET: &[u8; 32] = b"bcdfghjklmnpqrstvwxz245678901367";

/// Name of the pod of `attempt` on `node`. The node's name, not its uid: two leaders that disagree
/// about a re-created node must still collide.
pub fn pod(job: &str, job_uid: Uid, node: &str, attempt: u32) -> String {
    with_hash(job, &[&job_uid.to_string(), node, &attempt.to_string()])
}

/// Whether this could be the name of a pod of some BroadcastJob: one that [`pod`] makes.
pub fn is_pod(name: &str) -> bool {
    let of_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    name.rsplit_once('-').is_some_and(|(job, hash)| {
        !job.is_empty()
            && name.len() <= MAX_LABEL
            && job.bytes().all(of_name)
            && hash.len() == HASH_CHARS
            && hash.bytes().all(|byte| ALPHABET.contains(&byte))
    })
}

/// Whether this could be the name of a pod of this BroadcastJob.
pub fn is_pod_of(job: &str, name: &str) -> bool {
    let of_job = |(found, _): (&str, &str)| found == pod_prefix(job);
    is_pod(name) && name.rsplit_once('-').is_some_and(of_job)
}

/// What the names of a Job's pods begin with, as the API server would be asked to generate them; the
/// index is to be read from it.
pub fn job_pod_prefix(job: &str, index: Option<u32>) -> String {
    let end = index.map_or_else(|| "-".to_owned(), |index| format!("-{index}-"));
    // With a mode without indexes the API server cuts what is too long.
    let room = index.map_or(usize::MAX, |_| MAX_LABEL - GENERATED_CHARS - end.len());
    let job: String = job.chars().take(room).collect();
    job + &end
}

/// Name of the `ordinal`-th pod that a Job creates while its status counts `epoch`; the index is to be
/// read from it.
pub fn job_pod(
    job: &str,
    job_uid: Uid,
    index: Option<u32>,
    epoch: [i64; 3],
    ordinal: u32,
) -> String {
    let index = index.map(|index| index.to_string()).unwrap_or_default();
    let epoch = epoch.map(|count| count.to_string());
    let hash = hash(&[
        &job_uid.to_string(),
        "job",
        &index,
        &epoch[0],
        &epoch[1],
        &epoch[2],
        &ordinal.to_string(),
    ]);
    let room = MAX_LABEL - HASH_CHARS - 1 - if index.is_empty() { 0 } else { index.len() + 1 };
    let job: String = job.chars().take(room).collect();
    let job = job.trim_end_matches(['-', '.']);
    match index.as_str() {
        "" => format!("{job}-{hash}"),
        index => format!("{job}-{index}-{hash}"),
    }
}

/// Name of the `index`-th result slice.
pub fn slice(job: &str, job_uid: Uid, index: u32) -> String {
    with_hash(job, &[&job_uid.to_string(), "results", &index.to_string()])
}

/// The part of a name that stands for a request for a run: 9 characters.
pub fn request(cron_job: Uid, request: &str) -> String {
    let mut text = hash(&[&cron_job.to_string(), "run-now", request]);
    text.truncate(REQUEST_CHARS);
    text
}

fn with_hash(prefix: &str, parts: &[&str]) -> String {
    format!("{}-{}", pod_prefix(prefix), hash(parts))
}

fn pod_prefix(job: &str) -> &str {
    let room = MAX_LABEL - HASH_CHARS - 1;
    let end = job.char_indices().nth(room).map_or(job.len(), |(at, _)| at);
    job[..end].trim_end_matches(['-', '.'])
}

/// The first 64 bits of a digest.
pub(crate) fn bits(digest: &[u8]) -> u64 {
    let bytes = digest.iter().take(8);
    bytes.fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length makes ("ab","c") and ("a","bc") differ.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let bits = bits(&hasher.finalize());
    let characters = 0..HASH_CHARS;
    characters
        .map(|at| char::from(ALPHABET[(bits >> (5 * at) & 31) as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(last: char) -> Uid {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f0{last}")
            .parse()
            .unwrap()
    }

    #[test]
    fn a_name_never_changes_between_versions() {
        // Two versions of Carillon may lead in turn; other names would run the job twice.
        assert_eq!(pod("fix-kernel", uid('0'), "node-0017", 1), GOLDEN_POD);
    }

    const GOLDEN_POD: &str = "fix-kernel-w4q9tn659t";

    #[test]
    fn each_of_job_node_and_attempt_makes_another_name() {
        let names = [
            pod("a", uid('0'), "n1", 1),
            pod("a", uid('1'), "n1", 1),
            pod("a", uid('0'), "n2", 1),
            pod("a", uid('0'), "n1", 2),
            slice("a", uid('0'), 1),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn names_are_dns_labels_however_long_the_job_name() {
        for job in [
            "a",
            &"x".repeat(63),
            &format!("{}-{}", "y".repeat(51), "z"),
            &"w.".repeat(126),
        ] {
            let name = pod(job, uid('0'), &"n".repeat(253), u32::MAX);
            assert!(
                name.len() <= 63 && !name.contains("--") && !name.contains(".-"),
                "{name}"
            );
        }
    }

    #[test]
    fn of_a_long_job_name_the_prefix_leaves_room_for_the_index() {
        let long = "hhhhhooooo".repeat(7);
        for (job, index, expected) in [
            ("indexed-job", Some(1), "indexed-job-1-".to_owned()),
            (&long, Some(1), format!("{}-1-", &long[..55])),
            (&long[..57], Some(1), format!("{}-1-", &long[..55])),
            (&long, Some(99_999), format!("{}-99999-", &long[..51])),
            ("job", None, "job-".to_owned()),
        ] {
            let prefix = job_pod_prefix(job, index);
            assert_eq!(prefix, expected);
            let name = job_pod(job, uid('0'), index, [0; 3], 0);
            assert!(name.len() <= 63, "{name}");
            let index = index.map_or(String::new(), |index| format!("-{index}-"));
            assert!(name.contains(&index), "{name}");
        }
    }
}
