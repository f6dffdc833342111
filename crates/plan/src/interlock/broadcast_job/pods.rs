//! Rules of pods: which may be created, deleted, released, and how many.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use carillon_api::condition::{results, types};
use jiff::Timestamp;

use super::log::{Entry, starts_nothing};
use super::stored::is;
use super::{Check, rules};
use crate::interlock::trip::{Trip, trip};
use crate::parallelism::Parallelism;
use crate::pod::{PodPhase, PodRow};
use crate::uid::Uid;

impl<'a> Check<'a> {
    pub(super) fn create(&mut self, pod: &'a str, node: &'a str, slice: u32) -> Result<(), Trip> {
        let refused = |(rule, what)| trip(rule, format!("pod {pod} for node {node}: {what}"));
        self.may_create(pod, node, slice).or_else(refused)?;
        self.created.push((pod, node));
        let most = self.snapshot.max_pod_changes;
        if self.created.len() > most {
            let what = format!("expected at most {most} creations in one plan");
            return refused((rules::POD_CHANGES, what));
        }
        Ok(())
    }

    /// Whether a pod may be created on a node; or the rule that forbids it, and why.
    fn may_create(&self, pod: &str, node: &str, slice: u32) -> Result<(), (&'static str, String)> {
        let nothing = |rule, why: &str| Err((rule, format!("created; expected nothing, {why}")));
        if let Some(why) = starts_nothing(self.snapshot) {
            return nothing(rules::STARTS, why);
        }
        if self.log.is_sealed() || self.stopping {
            return nothing(rules::STARTS, "this plan ends the job");
        }
        let before = |what: String| Err((rules::RESERVED_FIRST, what));
        let reserved = self.log.attempt(pod);
        let backed = |entry: &Entry<'_>| {
            let promised = entry.is_open() && entry.pod_uid.is_none() && entry.reason.is_empty();
            entry.node == node && entry.slice == slice && promised
        };
        let Some(entry) = reserved.filter(backed) else {
            return before(format!(
                "created; expected an attempt stored before in slice {slice}, found {reserved:?}"
            ));
        };
        if !self.log.job_present {
            return before("created; expected that the job is asked about before".to_owned());
        }
        if !self.log.is_present(entry.slice) {
            return before(format!(
                "created; expected that slice {} is written or asked about before",
                entry.slice
            ));
        }
        if self.log.has_succeeded(&entry) {
            return nothing(rules::RUN_ONCE, "the node has succeeded");
        }
        let identity = self.snapshot.nodes.get(node).map(|node| node.uid);
        if identity != Some(entry.node_uid) {
            return before(format!(
                "created for uid {}; expected the node there is, found {identity:?}",
                entry.node_uid
            ));
        }
        Ok(())
    }

    /// A pod of the snapshot, by name and uid.
    fn pod(&self, pod: &str, uid: Uid) -> Result<&'a PodRow, String> {
        let taken = self.snapshot.taken_pod(pod, uid).map(|taken| &taken.pod);
        let controlled = self.snapshot.pods.get(pod);
        match controlled
            .filter(|row| row.uid == uid)
            .or(taken)
            .or(controlled)
        {
            Some(row) if row.uid == uid => Ok(row),
            Some(row) => Err(format!(
                "pod {pod}: named by uid {uid}; expected {}",
                row.uid
            )),
            None => Err(format!("pod {pod}: expected a pod that the job controls")),
        }
    }

    pub(super) fn delete(&self, pod: &str, uid: Uid, rv: u64) -> Result<(), Trip> {
        let row = self
            .pod(pod, uid)
            .or_else(|what| trip(rules::DELETE, what))?;
        let controlled = self
            .snapshot
            .pods
            .get(pod)
            .is_some_and(|row| row.uid == uid);
        let recorded = self.log.attempt(pod).and_then(|entry| entry.pod_uid);
        if !controlled && recorded != Some(uid) {
            return trip(
                rules::DELETE,
                format!(
                    "pod {pod} ({uid}): deleted though the job does not control it; expected that a record has its uid, found {recorded:?}"
                ),
            );
        }
        if row.rv != rv {
            return trip(
                rules::DELETE,
                format!(
                    "pod {pod}: deleted at resourceVersion {rv}; expected {}",
                    row.rv
                ),
            );
        }
        if row.phase.has_ended() {
            return trip(
                rules::DELETE,
                format!("pod {pod}: deleted; expected that a pod that has ended is left alone"),
            );
        }
        let restarted = |limit| row.restarts > limit;
        let over_limit = self.snapshot.job.restart_limit.is_some_and(restarted);
        let reason = self.stopping
            || over_limit
            || row.node.is_none()
            || self.is_over(pod)
            || self.never_started(pod, row);
        if reason {
            return Ok(());
        }
        trip(
            rules::DELETE,
            format!(
                "pod {pod}: deleted while it runs; expected a failing job, too many restarts, a start deadline that has passed or an attempt that is over"
            ),
        )
    }

    /// A label goes back on a pod that a record names and that the job does not see.
    pub(super) fn label(&self, pod: &str, uid: Uid) -> Result<(), Trip> {
        let recorded = self.log.attempt(pod).and_then(|entry| entry.pod_uid);
        let seen = self
            .snapshot
            .pods
            .get(pod)
            .is_some_and(|row| row.uid == uid);
        if recorded == Some(uid) && !seen && self.snapshot.taken_pod(pod, uid).is_some() {
            return Ok(());
        }
        trip(
            rules::RELEASE,
            format!(
                "pod {pod} ({uid}): labelled; expected one that was taken from the job and that a record names, found {recorded:?}"
            ),
        )
    }

    pub(super) fn release(&self, pod: &str, uid: Uid) -> Result<(), Trip> {
        let row = self
            .pod(pod, uid)
            .or_else(|what| trip(rules::RELEASE, what))?;
        let is_ours = self.snapshot.pods.contains_key(pod) && !self.snapshot.job.meta.deleting;
        if is_ours && !row.phase.has_ended() && row.deletion.is_none() {
            return trip(
                rules::RELEASE,
                format!(
                    "pod {pod}: released while it runs; expected that it was told to stop before"
                ),
            );
        }
        if self.snapshot.job.meta.deleting || self.is_over(pod) {
            return Ok(());
        }
        let found = self.log.attempt(pod);
        trip(
            rules::RELEASE,
            format!(
                "pod {pod}: released; expected that its outcome is stored before, found {found:?}"
            ),
        )
    }

    /// Whether the pod's attempt is over and stored as such by an earlier step, or the pod belongs
    /// to none and never will. A pod of that name with another uid is one too many: not the one
    /// that was counted.
    fn is_over(&self, pod: &str) -> bool {
        match self.log.attempt(pod) {
            Some(entry) => !entry.is_open(),
            None => self.log.is_sealed(),
        }
    }

    /// Whether a pod has not started in time, and that it is given up is stored.
    fn never_started(&self, pod: &str, row: &PodRow) -> bool {
        let stored = self.log.attempt(pod);
        let stored = stored.is_some_and(|entry| {
            entry.is_open() && entry.pod_uid == Some(row.uid) && !entry.reason.is_empty()
        });
        let wait = self.snapshot.job.policies.start_deadline;
        let age = row.created.map(|created| self.now.duration_since(created));
        let late = wait.zip(age).is_some_and(|(wait, age)| age >= wait);
        stored && late && row.phase == PodPhase::Pending && row.started.is_none()
    }

    pub(super) fn delete_job(&self) -> Result<(), Trip> {
        let job = self.snapshot.job;
        let ended = is(job, types::COMPLETE) || is(job, types::FAILED);
        let since = job.status.completion_time.as_ref();
        let age = since.map(|time| self.now.duration_since(time.0).as_secs());
        let over = job
            .ttl_seconds
            .zip(age)
            .is_some_and(|(ttl, age)| age >= ttl);
        if let Some(whose) = self.needs_results() {
            return trip(
                rules::TIME_TO_LIVE,
                format!(
                    "job {}: deleted; expected that it stays while {whose} is there",
                    job.meta.owner.name
                ),
            );
        }
        if ended && over {
            return Ok(());
        }
        let ttl = job.ttl_seconds;
        trip(
            rules::TIME_TO_LIVE,
            format!(
                "job {}: deleted; expected an ended job (found {ended}), its end (found {age:?} s ago) longer ago than its time to live (found {ttl:?} s)",
                job.meta.owner.name
            ),
        )
    }

    /// What the plan starts, taken together with what there is.
    pub(super) fn starts(&self) -> Result<(), Trip> {
        if self.created.is_empty() && self.log.reserved.is_empty() {
            return Ok(());
        }
        self.one_per_node()?;
        self.family_lets()?;
        let allowed = self.allowed()?;
        let created: HashSet<&str> = self.created.iter().map(|(pod, _)| *pod).collect();
        let has_pod = |entry: &Entry<'_>| {
            let known = entry.pod_uid.is_some() || self.pod_of(entry).is_some();
            known || created.contains(entry.pod)
        };
        let entries = self.open_or_alive().into_values();
        let taken: Vec<_> = entries.filter(|entry| self.takes_a_place(entry)).collect();
        let quiet = self.log.unchanged(self.index.quiet());
        let pods = quiet + taken.iter().filter(|entry| has_pod(entry)).count();
        let taken = quiet + taken.len();
        // Promises made under another parallelism are kept when there are places for their pods.
        let promises = !self.log.reserved.is_empty() && taken > allowed;
        if promises || !created.is_empty() && pods > allowed {
            return trip(
                rules::PARALLELISM,
                format!(
                    "job {}: {pods} pods exist or are created, {taken} exist or are promised; expected at most {allowed}",
                    self.snapshot.job.meta.owner.name,
                ),
            );
        }
        Ok(())
    }

    /// The attempts under way, and those whose pod is there though they are over; without the quiet ones that
    /// this plan leaves alone.
    fn open_or_alive(&self) -> BTreeMap<&str, Entry<'a>> {
        let mut entries: BTreeMap<&str, Entry<'a>> = BTreeMap::new();
        let open = self.log.open_among(self.index.awake());
        entries.extend(open.map(|entry| (entry.pod, entry)));
        let snapshot = self.snapshot;
        let watched = snapshot.taken.watched_rows().map(|(name, _)| name);
        let pods = snapshot.pods_of(self.index);
        let pods = pods.map(|(name, _)| name).chain(watched);
        let of_pods = pods.filter_map(|pod| self.log.attempt(pod));
        entries.extend(of_pods.map(|entry| (entry.pod, entry)));
        let asked = self.log.of_uids(snapshot.taken.asked);
        entries.extend(asked.map(|entry| (entry.pod, entry)));
        entries
    }

    /// The pod of an attempt. While that is under way, another one of its name is none of it.
    fn pod_of(&self, entry: &Entry<'_>) -> Option<&'a PodRow> {
        let other =
            |pod: &PodRow| entry.is_open() && entry.pod_uid.is_some_and(|uid| uid != pod.uid);
        let named = self.snapshot.pods.get(entry.pod);
        named
            .filter(|pod| !other(pod))
            .or_else(|| self.taken(entry))
    }

    /// The pod of an attempt, if it was taken from the job.
    fn taken(&self, entry: &Entry<'_>) -> Option<&'a PodRow> {
        let taken = self.snapshot.taken_pod(entry.pod, entry.pod_uid?);
        taken.map(|taken| &taken.pod)
    }

    /// Attempts under way take a place, and so do pods that have not ended though their attempt is
    /// over; those of lost nodes do not, they must not hold up others.
    fn takes_a_place(&self, entry: &Entry<'_>) -> bool {
        let Some(pod) = self.pod_of(entry) else {
            return entry.is_open();
        };
        let counts = entry.is_open() || !pod.phase.has_ended();
        counts && entry.reason != results::NODE_LOST && !self.is_lost(entry, pod)
    }

    /// Whether nothing was heard of a pod that was bound for longer than the job waits.
    fn is_lost(&self, entry: &Entry<'_>, pod: &PodRow) -> bool {
        let row = self.snapshot.nodes.get(entry.node);
        let node = match row.filter(|node| node.uid == entry.node_uid) {
            Some(node) => node.not_ready_since,
            None => entry.node_gone,
        };
        let killed = pod.deletion.map(|deletion| deletion.due);
        let policies = &self.snapshot.job.policies;
        let is_over = |since: Option<Timestamp>, timeout| {
            since.is_some_and(|since| self.now.duration_since(since) >= timeout)
        };
        is_over(
            node.filter(|_| pod.node.is_some()),
            policies.node_lost_timeout,
        ) || is_over(killed, policies.pod_termination_timeout)
    }

    /// Pods that parallelism allows. What it is a percentage of is taken from the status that goes
    /// with the plan, within what records and nodes make possible.
    fn allowed(&self) -> Result<usize, Trip> {
        let percent = match self.snapshot.job.parallelism {
            Parallelism::Count(count) => return Ok(count as usize),
            Parallelism::Percent(percent) => percent as usize,
        };
        let desired = usize::try_from(self.desired).unwrap_or(0);
        let possible = self.snapshot.nodes.len() + self.log.len();
        if desired > possible {
            return trip(
                rules::PARALLELISM,
                format!(
                    "status.desired: {desired}; expected at most {possible}, the nodes there are or were"
                ),
            );
        }
        // It is of the nodes of now.
        let hundredths = desired.min(self.snapshot.nodes.len()) * percent;
        Ok(hundredths / 100 + usize::from(hundredths % 100 != 0))
    }

    fn one_per_node(&self) -> Result<(), Trip> {
        let created = self.created.iter().map(|(_, node)| node);
        for node in self.log.reserved.iter().chain(created) {
            let found = self.log.open_on(node);
            if found > 1 {
                return trip(
                    rules::ONE_PER_NODE,
                    format!("node {node}: {found} attempts under way; expected 1"),
                );
            }
        }
        // Node and pod of everything that has not ended or is created.
        let mut occupied: BTreeSet<(&str, &str)> = BTreeSet::new();
        let alive = self.snapshot.pods_of(self.index);
        for (pod, row) in alive.filter(|(_, row)| !row.phase.has_ended()) {
            let recorded = self.log.attempt(pod).map(|entry| entry.node);
            let nodes = row.node.as_deref().into_iter().chain(recorded);
            occupied.extend(nodes.map(|node| (node, pod)));
        }
        for entry in self.open_or_alive().values() {
            let Some(row) = self.taken(entry).filter(|row| !row.phase.has_ended()) else {
                continue;
            };
            let nodes = row.node.as_deref().into_iter().chain([entry.node]);
            occupied.extend(nodes.map(|node| (node, entry.pod)));
        }
        for (pod, node) in &self.created {
            occupied.insert((node, pod));
            let of_node = occupied.range((*node, "")..);
            let mut of_node = of_node.take_while(|(on, _)| on == node);
            if let Some((_, other)) = of_node.find(|(_, other)| other != pod) {
                return trip(
                    rules::ONE_PER_NODE,
                    format!(
                        "node {node}: pod {pod} is created; expected nothing while pod {other} is there"
                    ),
                );
            }
        }
        Ok(())
    }
}
