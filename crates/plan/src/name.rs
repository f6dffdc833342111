//! Names of child objects, made from what they are for.
//!
//! A name that follows from (owner uid, node, attempt) is a lock held by the API server: a lost
//! reply, a crash or a second leader can never make a second child.

use sha2::{Digest, Sha256};

use crate::uid::Uid;

/// DNS label limit, which pod names keep so that they can be host names.
const MAX_LABEL: usize = 63;
/// Limit of the names of most objects.
pub(crate) const MAX_NAME: usize = 253;
/// Characters of the hash: 50 bits, so that two of a million children collide once in a thousand
/// jobs; a collision is found by the owner uid and reported, never acted on.
const HASH_CHARS: usize = 10;
/// Characters of the API server's own random suffixes.
const GENERATED_CHARS: usize = 5;
/// Names of CronJobs have up to 52 characters, and those of Jobs up to 63.
const REQUEST_CHARS: usize = 9;
/// No vowels and no look-alikes, as Kubernetes' own random suffixes.
const ALPHABET: &[u8; 32] = b"bcdfghjklmnpqrstvwxz245678901367";
/// So many of them, from the first on, are different.
const DISTINCT: u64 = 30;
/// So many ends do they make.
const JOB_PODS: u64 = DISTINCT.pow(HASH_CHARS as u32);
/// Where in it a byte stands.
const VALUES: [Option<u64>; 256] = {
    let mut values = [None; 256];
    let mut at = 0;
    while at < DISTINCT {
        values[ALPHABET[at as usize] as usize] = Some(at);
        at += 1;
    }
    values
};

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

/// Names of the pods that a Job creates while its status counts the same: one hash, and what counts on
/// from it.
#[derive(Debug)]
pub struct JobPods {
    /// What all of them begin with.
    pub prefix: String,
    first: u64,
}

impl JobPods {
    /// The names while the status counts `epoch`; the index is to be read from them.
    pub fn new(job: &str, job_uid: Uid, index: Option<u32>, epoch: [i64; 3]) -> Self {
        let index = index.map_or_else(String::new, |index| format!("{index}-"));
        let epoch = epoch.map(|count| count.to_string());
        let uid = job_uid.to_string();
        let first = digest(&[&uid, "job", &index, &epoch[0], &epoch[1], &epoch[2]]);
        let room = MAX_LABEL - HASH_CHARS - 1 - index.len();
        let job: String = job.chars().take(room).collect();
        Self {
            prefix: format!("{}-{index}", job.trim_end_matches(['-', '.'])),
            first: first % JOB_PODS,
        }
    }

    /// The name with this number; no two are the same.
    pub fn name(&self, ordinal: u32) -> String {
        let mut number = self.first + u64::from(ordinal);
        let mut end = ['-'; HASH_CHARS];
        for character in end.iter_mut().rev() {
            *character = char::from(ALPHABET[(number % DISTINCT) as usize]);
            number /= DISTINCT;
        }
        let mut name = self.prefix.clone();
        name.extend(end);
        name
    }

    /// The number of a name. `None`: it is not one of these.
    pub fn ordinal(&self, name: &str) -> Option<u32> {
        let end = name.strip_prefix(&self.prefix)?.as_bytes();
        if end.len() != HASH_CHARS {
            return None;
        }
        let mut values = end.iter().map(|byte| VALUES[usize::from(*byte)]);
        let number = values.try_fold(0, |sum, value| Some(sum * DISTINCT + value?))?;
        u32::try_from((number + JOB_PODS - self.first) % JOB_PODS).ok()
    }
}

/// Name of the `index`-th result slice.
pub fn slice(job: &str, job_uid: Uid, index: u32) -> String {
    with_hash(job, &[&job_uid.to_string(), "results", &index.to_string()])
}

/// Name of the pod of a DaemonSet in this slot of a node: by the node's name, as [`pod`].
pub fn daemon_pod(set: &str, set_uid: Uid, node: &str, slot: u32) -> String {
    with_hash(
        set,
        &[&set_uid.to_string(), "daemon", node, &slot.to_string()],
    )
}

/// The hash of a revision by what its data says: 10 characters. `collisions`: how often the name that would follow
/// from it was taken.
pub fn revision_hash(data: u128, collisions: Option<i32>) -> String {
    let collisions = collisions.unwrap_or(0).to_string();
    hash(&["revision", &format!("{data:032x}"), &collisions])
}

/// Name of the revision with this hash.
pub fn revision(set: &str, hash: &str) -> String {
    let room = MAX_NAME - HASH_CHARS - 1;
    let set: String = set.chars().take(room).collect();
    format!("{}-{hash}", set.trim_end_matches(['-', '.']))
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
    let first = digest.first_chunk();
    first.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn hash(parts: &[&str]) -> String {
    let bits = digest(parts);
    let characters = 0..HASH_CHARS;
    characters
        .map(|at| char::from(ALPHABET[(bits >> (5 * at) & 31) as usize]))
        .collect()
}

fn digest(parts: &[&str]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length makes ("ab","c") and ("a","bc") differ.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    bits(&hasher.finalize())
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
    fn only_what_has_the_form_of_a_name_of_ours_may_be_one() {
        for (name, any, of_fix) in [
            ("fix-w4q9tn659t", true, true),
            ("fix-kernel-w4q9tn659t", true, false),
            ("w4q9tn659t", false, false),
            ("-w4q9tn659t", false, false),
            ("fix-w4q9tn659", false, false),
            ("fix-w4q9tn659tt", false, false),
            ("fix-aeiouaeiou", false, false),
            ("Fix-w4q9tn659t", false, false),
            ("f_x-w4q9tn659t", false, false),
        ] {
            assert_eq!(
                (is_pod(name), is_pod_of("fix", name)),
                (any, of_fix),
                "{name}"
            );
        }
        for (many, expected) in [
            (MAX_LABEL - HASH_CHARS - 1, true),
            (MAX_LABEL - HASH_CHARS, false),
        ] {
            assert_eq!(
                is_pod(&format!("{}-w4q9tn659t", "x".repeat(many))),
                expected
            );
        }
    }

    #[test]
    fn a_slice_and_a_request_have_names_of_their_own() {
        let slices = [1, 2].map(|index| slice("fix", uid('0'), index));
        assert!(slices[0] != slices[1] && slices.iter().all(|name| is_pod_of("fix", name)));
        let requests = ["a", "b"].map(|text| request(uid('0'), text));
        assert!(
            requests[0] != requests[1] && requests.iter().all(|name| name.len() == REQUEST_CHARS)
        );
    }

    #[test]
    fn each_of_set_node_and_slot_makes_another_name() {
        let names = [
            daemon_pod("a", uid('0'), "n1", 0),
            daemon_pod("a", uid('0'), "n1", 1),
            daemon_pod("a", uid('0'), "n2", 0),
            daemon_pod("a", uid('1'), "n1", 0),
            pod("a", uid('0'), "n1", 0),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_revision_has_a_hash_by_its_data_and_a_name_that_fits() {
        let hashes = [(1, None), (2, None), (1, Some(1))];
        let hashes = hashes.map(|(data, collisions)| revision_hash(data, collisions));
        assert_eq!(revision_hash(1, Some(0)), hashes[0]);
        assert!(hashes[0] != hashes[1] && hashes[0] != hashes[2]);
        assert_eq!(
            revision("agent", &hashes[0]),
            format!("agent-{}", hashes[0])
        );
        assert_eq!(revision(&"x".repeat(253), &hashes[0]).len(), 253);
    }

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
            let name = JobPods::new(job, uid('0'), index, [0; 3]).name(0);
            assert!(name.len() <= 63, "{name}");
            let index = index.map_or(String::new(), |index| format!("-{index}-"));
            assert!(name.contains(&index), "{name}");
        }
    }

    #[test]
    fn a_job_has_a_name_for_each_of_many_pods_and_knows_which_it_is() {
        let (first, second) = (
            JobPods::new("sum", uid('0'), None, [0; 3]),
            JobPods::new("sum", uid('0'), None, [0, 0, 1]),
        );
        let mut all = std::collections::HashSet::new();
        for ordinal in (0..2000).chain([99_999, u32::MAX]) {
            for (names, others) in [(&first, &second), (&second, &first)] {
                let name = names.name(ordinal);
                assert!(is_pod_of("sum", &name), "{name}");
                assert_eq!(names.ordinal(&name), Some(ordinal));
                assert_eq!(others.ordinal(&name), None, "{name}");
                assert!(all.insert(name));
            }
        }
    }

    #[test]
    fn the_names_of_a_job_go_on_behind_the_last_that_could_be_written() {
        let names = JobPods {
            prefix: "sum-".to_owned(),
            first: JOB_PODS - 1,
        };
        assert_eq!(names.name(0), "sum-3333333333");
        assert_eq!(names.name(1), "sum-bbbbbbbbbb");
        assert_eq!(names.ordinal("sum-bbbbbbbbbb"), Some(1));
        assert_eq!(names.ordinal("sum-3333333333"), Some(0));
    }
}
