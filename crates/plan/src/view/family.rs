//! A job and its retries, as people ask for them: one outcome for each node, and who tries it again.

use std::collections::BTreeMap;

use carillon_api::NodeState;

use super::ledger::Ledger;
use super::progress::{Standing, standing};
use super::read::StoredJob;
use crate::broadcast_job::{Job, NodeStanding, standing_after};
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// A job of a family, and what it has done.
#[derive(Clone, Debug)]
pub struct Relative {
    /// The job.
    pub stored: StoredJob,
    /// Its result slices, by index.
    pub slices: Vec<Slice>,
}

impl Relative {
    fn job(&self) -> &Job {
        &self.stored.job
    }

    /// Whether it has not ended, and has not given up this node. One that failed there may try again.
    fn is_for(&self, node: &str) -> bool {
        let job = self.job();
        let only = job.placement.only.as_ref();
        let listed = only.is_none_or(|only| only.contains(node));
        let ledger = Ledger::read(&self.slices);
        let stands = standing_after(job, ledger.attempts_on_last(node), true);
        let given_up = stands == Some(NodeStanding::Failed);
        listed && !given_up && !job.deleting && !standing(job).0.has_ended()
    }

    /// Why it starts nothing until a person acts, if so.
    fn stalled(&self) -> Option<String> {
        match standing(self.job()) {
            (Standing::Stalled, Some(why)) => Some(format!("{}: {}", why.reason, why.message)),
            _ => None,
        }
    }
}

/// Puts the retries of `first` among these jobs into their order: those that have had their turn, then
/// those that wait for it, by name.
pub fn retries(first: &Job, jobs: Vec<StoredJob>) -> Vec<StoredJob> {
    let of_first = |stored: &StoredJob| {
        let retry_of = stored.job.retry_of.as_ref();
        retry_of.is_some_and(|named| named.uid == first.owner.uid && named.name == first.owner.name)
    };
    let mut retries: Vec<StoredJob> = jobs.into_iter().filter(of_first).collect();
    let place = |stored: &StoredJob| {
        let uid = stored.job.owner.uid.to_string();
        let mut listed = first.status.retries.iter();
        let place = listed.position(|retry| retry.uid == uid);
        (place.unwrap_or(usize::MAX), stored.job.owner.name.clone())
    };
    retries.sort_by_cached_key(place);
    retries
}

/// The last outcome on each node, by name, and the job it is of. A later job decides, unless it ended
/// before anything ran there; a success stays.
pub fn latest(family: &[Relative]) -> Vec<(&str, &Record)> {
    let mut nodes: BTreeMap<(&str, Uid), (&str, &Record)> = BTreeMap::new();
    for relative in family {
        let whose = &*relative.job().owner.name;
        for (name, uid, attempts) in Ledger::read(&relative.slices).nodes() {
            let Some(last) = attempts.last() else {
                continue;
            };
            let known = nodes.get(&(name, uid)).map(|(_, record)| record.state);
            let stays = known == Some(NodeState::Succeeded)
                || known.is_some() && last.state == NodeState::Skipped;
            if !stays {
                nodes.insert((name, uid), (whose, last));
            }
        }
    }
    nodes.into_values().collect()
}

/// A job of the family that has not ended and tries this node, now or later.
pub fn tried_by<'a>(family: &'a [Relative], node: &str) -> Option<&'a str> {
    let mut all = family.iter();
    let found = all.find(|relative| relative.is_for(node) && relative.stalled().is_none())?;
    Some(&found.job().owner.name)
}

/// The jobs of the family that are made for this node, and that start nothing until a person acts; and why.
pub fn stalled_for<'a>(family: &'a [Relative], node: &'a str) -> impl Iterator<Item = String> + 'a {
    let made = family.iter().filter(|relative| relative.is_for(node));
    made.filter_map(|relative| {
        let name = &relative.job().owner.name;
        Some(format!("{name} ({})", relative.stalled()?))
    })
}
