//! What a leader sees: of each kind one version, and what it remembers.

use std::collections::{BTreeMap, BTreeSet};

use carillon_plan::broadcast_job::family::{count, lacks_results};
use carillon_plan::broadcast_job::{
    BroadcastJob, Family, Member, Snapshot, Taken, TakenPod, TakenPods, Template,
};
use carillon_plan::pod::Pods;
use carillon_plan::record::Slice;
use carillon_plan::{Uid, condition};

use super::leader::Memory;
use super::objects::{PodObjects, Slices};
use super::world::World;

const MAX_POD_CHANGES: usize = 500;

/// Of each kind the number of the version that is seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Seen {
    pub(super) jobs: usize,
    pub(super) slices: usize,
    pub(super) pods: usize,
    pub(super) nodes: usize,
}

/// A job of the family: its name, its slices, its pods, and those that were taken from it.
struct Relative {
    name: String,
    uid: Uid,
    slices: Vec<Slice>,
    pods: Pods,
    taken: TakenPods,
}

fn slices_of(slices: &Slices, job: Uid) -> Vec<Slice> {
    let slices = slices.range((job, 0)..=(job, u32::MAX));
    slices.map(|(_, slice)| slice.slice.clone()).collect()
}

fn pods_of(pods: &PodObjects, job: Uid) -> Pods {
    let watched = pods.values().filter(|pod| pod.label && pod.of == job);
    let pods = watched.filter(|pod| pod.owned);
    pods.map(|pod| (pod.name.clone(), pod.row.clone()))
        .collect()
}

fn taken_from(pods: &PodObjects, job: Uid) -> TakenPods {
    let watched = pods.values().filter(|pod| pod.label && pod.of == job);
    let taken = watched.filter(|pod| !pod.owned).map(|pod| {
        let taken = TakenPod {
            pod: pod.row.clone(),
            why: "nothing controls it".into(),
            asked: None,
        };
        (pod.name.clone(), taken)
    });
    taken.collect()
}

impl Memory {
    /// Forgets what the caches say by now.
    fn follow(&mut self, job: Uid, slices: &[Slice], pods: &PodObjects) {
        let watched = |uid: &Uid| {
            let mut watched = pods.values().filter(|pod| pod.label && pod.of == job);
            watched.any(|pod| pod.row.uid == *uid)
        };
        self.asked.retain(|uid, _| !watched(uid));
        let records = slices.iter().flat_map(|slice| &slice.records);
        let open = records.filter(|record| record.pod_uid.is_none() && !record.is_final());
        let open: BTreeSet<&str> = open.map(|record| &*record.pod).collect();
        self.created.retain(|pod, _| open.contains(&**pod));
    }
}

impl World {
    /// What there is.
    pub(super) fn newest(&self) -> Seen {
        Seen {
            jobs: self.jobs.last(),
            slices: self.slices.last(),
            pods: self.pods.last(),
            nodes: self.nodes.last(),
        }
    }

    /// Each kind as it is, or as it was a little earlier.
    pub(super) fn some_view(&mut self) -> Seen {
        let newest = self.newest();
        let rng = &mut self.rng;
        let mut some = |last: usize| {
            let back = if rng.usize(0..3) == 0 {
                rng.usize(0..5)
            } else {
                0
            };
            last.saturating_sub(back)
        };
        Seen {
            jobs: some(newest.jobs),
            slices: some(newest.slices),
            pods: some(newest.pods),
            nodes: some(newest.nodes),
        }
    }

    /// Looks at the snapshot of a job. `None`: there is none, or results are awaited that its status has counted.
    pub(super) fn look<T>(
        &self,
        seen: Seen,
        job: Uid,
        memory: &mut Memory,
        look: impl FnOnce(&Snapshot<'_>) -> T,
    ) -> Option<T> {
        let jobs = self.jobs.at(seen.jobs);
        let slices = self.slices.at(seen.slices);
        let pods = self.pods.at(seen.pods);
        let nodes = self.nodes.at(seen.nodes);
        let job = jobs.get(&job)?.read();
        let uid = job.meta.owner.uid;
        let own = slices_of(&slices, uid);
        if !job.meta.deleting && lacks_results(&job.status, |state| count(&own, state)) {
            return None;
        }
        memory.follow(uid, &own, &pods);
        let jobs: BTreeMap<Uid, BroadcastJob> =
            jobs.iter().map(|(uid, job)| (*uid, job.read())).collect();
        let relatives: Vec<Relative> = relatives(&job, &jobs)
            .into_iter()
            .map(|(name, uid)| Relative {
                name,
                uid,
                slices: slices_of(&slices, uid),
                pods: pods_of(&pods, uid),
                taken: taken_from(&pods, uid),
            })
            .collect();
        let family = family(&job, &jobs, &relatives);
        Some(look(&Snapshot {
            index: None,
            job: &job,
            nodes: &nodes,
            pods: &pods_of(&pods, uid),
            taken: Taken {
                watched: &taken_from(&pods, uid),
                asked: &memory.asked,
            },
            created: &memory.created,
            slices: &own,
            template: &Template::Accepted,
            gone: &memory.gone,
            conflicts: &memory.conflicts,
            disputed: &memory.disputed,
            creation_problem: None,
            refused: &BTreeMap::new(),
            refusal: None,
            family: family.as_ref(),
            max_pod_changes: MAX_POD_CHANGES,
        }))
    }
}

/// Name and uid of the first job and of all that it lists, for a retry.
fn relatives(job: &BroadcastJob, jobs: &BTreeMap<Uid, BroadcastJob>) -> Vec<(String, Uid)> {
    let first = job.retry_of.as_ref().and_then(|first| jobs.get(&first.uid));
    let Some(first) = first else {
        return Vec::new();
    };
    let listed = first.status.retries.iter();
    let listed = listed.map(|retry| (retry.name.clone(), retry.uid.parse().unwrap_or_default()));
    let first = (first.meta.owner.name.clone(), first.meta.owner.uid);
    std::iter::once(first).chain(listed).collect()
}

fn family<'a>(
    job: &BroadcastJob,
    jobs: &'a BTreeMap<Uid, BroadcastJob>,
    relatives: &'a [Relative],
) -> Option<Family<'a>> {
    if job.retry_of.is_none() {
        let of_this = |retry: &&BroadcastJob| {
            let first = retry.retry_of.as_ref();
            first.is_some_and(|first| first.uid == job.meta.owner.uid)
        };
        let ended =
            |retry: &BroadcastJob, type_| condition::is_true(&retry.status.conditions, type_);
        let open = |retry: &&BroadcastJob| !ended(retry, "Complete") && !ended(retry, "Failed");
        let open = jobs.values().filter(of_this).find(open)?;
        return Some(Family {
            open: Some(&open.meta.owner.name),
            ..Family::default()
        });
    }
    let mut members = relatives.iter().map(|relative| Member {
        name: &relative.name,
        uid: relative.uid,
        job: jobs.get(&relative.uid),
        slices: &relative.slices,
        pods: &relative.pods,
        taken: Some(&relative.taken),
        problem: None,
    });
    Some(Family {
        first: members.next(),
        retries: members.collect(),
        ..Family::default()
    })
}
