//! What is kept between plans, how a snapshot is made with it, and how it is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use carillon_api::condition::reasons;
use carillon_plan::broadcast_job::{
    BroadcastJob, Index, Refused, Snapshot, Taken, TakenPod, TakenPods, Template,
};
use carillon_plan::pod::{PodPhase, PodRow, Pods, is_kill};
use carillon_plan::{ObjectKey, Uid, broadcast_job, condition};
use jiff::Timestamp;

use super::inputs::{Inputs, LastWords, Refusal, Remembered, TemplateAnswer};
use super::kept::Kept;
use super::ledger::Ledger;
use super::performer::RefusedPod;
use crate::store::Tables;

const DISPUTED: Duration = broadcast_job::DISPUTED.unsigned_abs();
/// Entries of each kind that a record of inputs holds.
const ENTRIES: usize = 64;
/// Answers of each kind that are remembered. A job that has needed more asks again.
const ANSWERS: usize = 20_000;
const RESULTS_LOST: &str = "NodeResultSlices were deleted: status counts more results than there \
    are; what they held might run again, so delete the job and create a new one";

/// Answers of the API server that a plan needs. Losing them costs a question, never a decision.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) template: Template,
    pub(super) gone: BTreeSet<Uid>,
    /// Pods that were asked for and were taken from the job.
    taken: BTreeMap<Uid, TakenPod>,
    /// Uids of pods that were created, or found under the name of an attempt, until its record names them.
    created: BTreeMap<Box<str>, Uid>,
    /// Pods that have ended and are still to be released.
    held: BTreeMap<Uid, PodPhase>,
    /// Pods that were released since the job is gone: not once more at each event, as long as records name them.
    released: BTreeSet<Uid>,
    pub(super) conflicts: BTreeSet<Box<str>>,
    disputed: BTreeSet<Box<str>>,
    /// When the first of them was learnt.
    disputed_since: Option<Instant>,
    /// Why creations are refused, and the pod of which it was said.
    creation_problem: Option<(Box<str>, Refused)>,
    /// Pods whose creation was refused: the highest number was the last one.
    refused: BTreeMap<Box<str>, u64>,
    /// What else is refused again and again.
    pub(super) refusal: Option<condition::Refusal>,
    /// Whether results are missing that the status has counted.
    pub(super) results_lost: bool,
    /// What is kept from plan to plan. It is no answer, and can be made again.
    pub(super) kept: Option<Box<Kept>>,
}

/// The snapshot of a job, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    job: &BroadcastJob,
    memory: &Memory,
    max_pod_changes: usize,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let none = Pods::default();
    let no_taken = TakenPods::default();
    let ledger = tables.broadcast_jobs.ledger(&job.meta.owner);
    let damaged;
    let mut job = job;
    let lost = || memory.results_lost.then(|| RESULTS_LOST.to_owned());
    if let Some(problem) = ledger.and_then(Ledger::problem).or_else(lost) {
        let mut copy = job.clone();
        copy.problems.push(problem);
        damaged = copy;
        job = &damaged;
    }
    let family = tables.retry_family(job, &none);
    look(&Snapshot {
        job,
        nodes: tables.nodes(),
        pods: tables
            .broadcast_jobs
            .pods(&job.meta.owner)
            .map_or(&none, |pods| pods),
        taken: Taken {
            watched: tables
                .broadcast_jobs
                .taken_pods(&job.meta.owner)
                .unwrap_or(&no_taken),
            asked: &memory.taken,
        },
        created: &memory.created,
        slices: ledger.map_or(&[], |ledger| &ledger.slices),
        template: &memory.template,
        gone: &memory.gone,
        conflicts: &memory.conflicts,
        disputed: &memory.disputed,
        creation_problem: memory.creation_problem.as_ref().map(|(_, why)| why),
        refused: &memory.refused,
        refusal: memory.refusal.as_ref(),
        family: family.as_ref(),
        max_pod_changes,
        index: memory.kept.as_ref().map(|kept| &kept.index),
    })
}

impl Memory {
    /// Learns the uid of the pod of an attempt.
    pub(super) fn learn_created(&mut self, pod: Box<str>, uid: Uid) {
        if self.created.len() >= ANSWERS {
            self.created.clear();
        }
        self.created.insert(pod, uid);
    }

    /// Pods that no record names yet.
    pub(super) fn created(&self) -> impl Iterator<Item = (&str, Uid)> {
        self.created.iter().map(|(pod, uid)| (&**pod, *uid))
    }

    /// Learns that a pod is gone. True when that is new.
    pub(super) fn learn_gone(&mut self, pod: Uid) -> bool {
        if self.gone.len() >= ANSWERS {
            self.gone.clear();
        }
        self.taken.remove(&pod);
        self.held.remove(&pod);
        self.gone.insert(pod)
    }

    /// Learns that a pod of a job that is gone was released, or is gone, too.
    pub(super) fn learn_released(&mut self, pod: Uid) {
        self.released.insert(pod);
    }

    /// Whether that was learnt.
    pub(super) fn was_released(&self, pod: Uid) -> bool {
        self.released.contains(&pod)
    }

    /// That alone.
    pub(super) fn only_what_was_released(self) -> Self {
        Self {
            released: self.released,
            ..Self::default()
        }
    }

    /// Whether nothing was learnt. What is refused again and again, and what is lost, is known from elsewhere.
    pub(super) fn is_blank(&self) -> bool {
        let sets = [&self.gone, &self.released];
        let names = [&self.conflicts, &self.disputed];
        self.kept.is_none()
            && self.template == Template::Unknown
            && self.creation_problem.is_none()
            && sets.iter().all(|pods| pods.is_empty())
            && names.iter().all(|pods| pods.is_empty())
            && self.taken.is_empty()
            && self.created.is_empty()
            && self.held.is_empty()
            && self.refused.is_empty()
    }

    /// Brings what is kept, and so what is remembered, up to date.
    pub(super) fn catch_up(&mut self, tables: &Tables, job: &BroadcastJob, now: Timestamp) {
        let mut kept = self.kept.take().unwrap_or_default();
        self.results_lost = kept.catch_up(tables, job);
        self.follow(tables, &job.meta.owner, &kept.index, now);
        self.kept = Some(kept);
    }

    /// Learns that a pod is there and was taken from the job. True when it was not known like this.
    pub(super) fn learn_taken(&mut self, mut taken: TakenPod) -> bool {
        let (uid, rv) = (taken.pod.uid, taken.pod.rv);
        let old = self.taken.remove(&uid);
        if let Some(old) = &old {
            taken.pod.remember(&old.pod);
        }
        if self.taken.len() >= ANSWERS {
            self.taken.clear();
        }
        self.taken.insert(uid, taken);
        old.is_none_or(|old| old.pod.rv != rv)
    }

    /// Forgets what was read of pods that are watched by now, and keeps which have to be released: one that loses
    /// its label after its outcome was stored is asked for by nobody.
    fn follow(&mut self, tables: &Tables, job: &ObjectKey, index: &Index, now: Timestamp) {
        let records = index.records();
        self.taken
            .retain(|pod, _| !tables.broadcast_jobs.is_watched(job, *pod));
        let unnamed = |place| {
            let (record, _) = records.at(place);
            record.pod_uid.is_none() && !record.is_final()
        };
        (self.created).retain(|pod, _| records.of_pod(pod).any(unnamed));
        (self.refused).retain(|pod, _| records.of_pod(pod).any(unnamed));
        let rows = tables.broadcast_jobs.pods(job);
        let ended = index.ended().iter();
        let ended = ended.map(|place| &records.at(*place).0.pod);
        let pods = index.pods().iter().chain(ended);
        let pods = pods.filter_map(|pod| rows?.get(pod));
        let taken = tables.broadcast_jobs.taken_pods(job).into_iter().flatten();
        let pods = pods.chain(taken.map(|(_, taken)| &taken.pod));
        let held = pods.filter(|row| row.tracked && row.phase.has_ended());
        let held = held.take(ANSWERS).map(|row| (row.uid, row.phase)).collect();
        let mut left = std::mem::replace(&mut self.held, held);
        left.retain(|pod, _| !tables.broadcast_jobs.is_watched(job, *pod));
        if left.is_empty() {
            return;
        }
        let mut named = BTreeMap::new();
        for (_, record) in records.all() {
            let Some((uid, phase)) = record.pod_uid.and_then(|pod| left.remove_entry(&pod)) else {
                continue;
            };
            if !record.is_final() {
                named.insert(uid, phase);
                continue;
            }
            let row = PodRow {
                uid,
                phase,
                tracked: true,
                ..PodRow::default()
            };
            self.taken.entry(uid).or_insert_with(|| TakenPod {
                pod: row,
                why: "it is not seen any more".into(),
                asked: Some(now),
            });
        }
        // Those are asked for, and are released when their outcome is stored.
        self.held.extend(named);
    }

    /// Pods that were taken from the job and are not watched.
    pub(super) fn unwatched(&self) -> BTreeSet<Uid> {
        self.taken.keys().copied().collect()
    }

    /// Learns that a pod was written: what was read of it before is of no use.
    pub(super) fn learn_written(&mut self, pod: Uid) {
        self.taken.remove(&pod);
        self.held.remove(&pod);
    }

    /// Whether the creation of this pod was refused.
    pub(super) fn is_refused(&self, pod: &str) -> bool {
        self.refused.contains_key(pod)
    }

    /// Learns that a creation was refused. True when no other one will go through, whichever pod it is for.
    pub(super) fn learn_creation_refused(&mut self, refused: RefusedPod, now: Timestamp) -> bool {
        let RefusedPod {
            pod,
            problem,
            of_one,
        } = refused;
        if of_one {
            if self.refused.len() >= ANSWERS {
                self.refused.clear();
            }
            let last = self.refused.values().max().copied().unwrap_or(0);
            self.refused.insert(pod.clone(), last + 1);
        }
        if problem.reason == reasons::INVALID_TEMPLATE {
            self.template = Template::Refused { problem, at: now };
            return true;
        }
        // Of several each may have words of its own: those of one are told as long as it is refused.
        let stays = self.creation_problem.as_ref().is_some_and(|(of, known)| {
            *of != pod && known.reason == problem.reason && self.is_refused(of)
        });
        if !stays {
            self.creation_problem = Some((pod, problem));
        }
        false
    }

    /// Learns that a pod was created. True when it is the one of which it was told that it was refused.
    pub(super) fn learn_accepted(&mut self, pod: &str) -> bool {
        self.refused.remove(pod);
        let of_this = |(of, _): &mut (Box<str>, Refused)| **of == *pod;
        self.creation_problem.take_if(of_this).is_some()
    }

    /// Learns that all creations went through. True when that is new.
    pub(super) fn learn_all_accepted(&mut self) -> bool {
        self.creation_problem.take().is_some()
    }

    /// Learns that a name is somebody else's. True when that is new.
    pub(super) fn learn_conflict(&mut self, pod: Box<str>) -> bool {
        if self.conflicts.len() >= ANSWERS {
            self.conflicts.clear();
        }
        self.conflicts.insert(pod)
    }

    /// Learns that a pod is other than as it was read. True when that is new.
    pub(super) fn learn_disputed(&mut self, pod: Box<str>, now: Instant) -> bool {
        self.forget_disputed(now);
        if self.disputed.len() >= ANSWERS {
            self.disputed.clear();
        }
        self.disputed_since.get_or_insert(now);
        self.disputed.insert(pod)
    }

    /// Forgets which pods were other than as they were read, when that was long ago.
    pub(super) fn forget_disputed(&mut self, now: Instant) {
        let old = |since: &mut Instant| now.saturating_duration_since(*since) >= DISPUTED;
        if self.disputed_since.take_if(old).is_some() {
            self.disputed.clear();
        }
    }

    /// What goes into the flight recorder besides the versions of the objects.
    pub(super) fn inputs(&self, snapshot: &Snapshot<'_>) -> Inputs {
        let refusal = |refused: &Refused| Refusal {
            reason: refused.reason.to_owned(),
            message: refused.message.clone(),
        };
        let mut remembered = remembered(snapshot);
        let mut incomplete = None;
        for (count, what) in [
            (self.gone.len(), "vanished pods"),
            (self.conflicts.len(), "names in conflict"),
            (self.disputed.len(), "pods other than as they were read"),
            (self.created.len(), "pods whose uid is not stored yet"),
            (self.refused.len(), "refused pods"),
            (remembered.len(), "earlier states of pods"),
        ] {
            if count > ENTRIES {
                incomplete = Some(format!("{count} {what}, of which {ENTRIES} are recorded"));
            }
        }
        if !self.taken.is_empty() {
            let count = self.taken.len();
            incomplete = Some(format!(
                "{count} pods that were taken from the job, asked for"
            ));
        }
        remembered.truncate(ENTRIES);
        Inputs {
            template: match &self.template {
                Template::Unknown => TemplateAnswer::Unknown,
                Template::Accepted => TemplateAnswer::Accepted,
                Template::Refused { problem, at } => TemplateAnswer::Refused {
                    why: refusal(problem),
                    at: *at,
                },
            },
            created: self
                .created()
                .take(ENTRIES)
                .map(|(pod, uid)| (pod.to_owned(), uid.to_string()))
                .collect(),
            gone: self.gone.iter().take(ENTRIES).map(Uid::to_string).collect(),
            conflicts: self
                .conflicts
                .iter()
                .take(ENTRIES)
                .map(Box::to_string)
                .collect(),
            disputed: self
                .disputed
                .iter()
                .take(ENTRIES)
                .map(Box::to_string)
                .collect(),
            creation_problem: self.creation_problem.as_ref().map(|(_, why)| refusal(why)),
            refused: self
                .refused
                .iter()
                .take(ENTRIES)
                .map(|(pod, last)| (pod.to_string(), *last))
                .collect(),
            refusal: self.refusal.as_ref().map(|refusal| refusal.0.clone()),
            remembered,
            max_pod_changes: snapshot.max_pod_changes,
            incomplete,
        }
    }

    /// The memory that was written down. The error names what cannot be read.
    pub(super) fn recorded(inputs: &Inputs) -> Result<Self, String> {
        let uid = |text: &String| text.parse::<Uid>().map_err(|error| error.to_string());
        Ok(Self {
            template: match &inputs.template {
                TemplateAnswer::Unknown => Template::Unknown,
                TemplateAnswer::Accepted => Template::Accepted,
                TemplateAnswer::Refused { why, at } => Template::Refused {
                    problem: refused(why)?,
                    at: *at,
                },
            },
            gone: inputs.gone.iter().map(uid).collect::<Result<_, _>>()?,
            conflicts: inputs.conflicts.iter().map(|n| n.as_str().into()).collect(),
            disputed: inputs.disputed.iter().map(|n| n.as_str().into()).collect(),
            disputed_since: None,
            taken: BTreeMap::new(),
            created: inputs
                .created
                .iter()
                .map(|(pod, text)| Ok((pod.as_str().into(), uid(text)?)))
                .collect::<Result<_, String>>()?,
            held: BTreeMap::new(),
            released: BTreeSet::new(),
            creation_problem: inputs
                .creation_problem
                .as_ref()
                .map(|why| Ok::<_, String>((Box::default(), refused(why)?)))
                .transpose()?,
            refused: inputs
                .refused
                .iter()
                .map(|(pod, last)| (pod.as_str().into(), *last))
                .collect(),
            refusal: inputs.refusal.clone().map(condition::Refusal),
            results_lost: false,
            kept: None,
        })
    }
}

fn refused(refusal: &Refusal) -> Result<Refused, String> {
    let reason = [
        reasons::INVALID_TEMPLATE,
        reasons::POD_FORBIDDEN,
        reasons::QUOTA_EXCEEDED,
        reasons::POD_CREATION_FAILING,
    ]
    .into_iter()
    .find(|known| *known == refusal.reason)
    .ok_or_else(|| format!("unknown reason {:?}", refusal.reason))?;
    Ok(Refused {
        reason,
        message: refusal.message.clone(),
    })
}

/// What rows say that a pod read anew may not say, of pods that are still to be judged: those of the job, and
/// those of retries that are gone, whose log it may have to close.
fn remembered(snapshot: &Snapshot<'_>) -> Vec<Remembered> {
    let family = snapshot.family.into_iter().flat_map(|f| &f.retries);
    let gone = family.filter(|member| member.job.is_none());
    let pods = gone.clone().flat_map(|member| member.pods);
    let mut found: Vec<Remembered> = pods
        .map(|(name, row)| (&**name, row))
        .chain(snapshot.noticed_pods())
        .chain(snapshot.taken.watched_rows())
        .filter_map(|(name, row)| {
            let interrupted = row.interrupted && (row.phase.has_ended() || row.deletion.is_none());
            let started = row.started.filter(|_| row.started_earlier);
            let end = earlier_end(row);
            // Of most pods there is nothing to remember.
            (interrupted || started.is_some() || end.is_some()).then(|| Remembered {
                pod: name.to_string(),
                interrupted,
                started,
                end,
            })
        })
        .collect();
    if !found.is_empty() {
        let slices = gone.flat_map(|member| member.slices);
        let own = snapshot.slices.iter();
        let records = slices.chain(own).flat_map(|slice| &slice.records);
        let judged: BTreeSet<&str> = records
            .filter(|record| record.is_final())
            .map(|record| &*record.pod)
            .collect();
        found.retain(|entry| !judged.contains(entry.pod.as_str()));
        found.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
    }
    found
}

/// An end that may be that of an earlier state; see [`PodRow::remember`].
fn earlier_end(row: &PodRow) -> Option<LastWords> {
    row.deletion?;
    let end = row.end.as_deref()?;
    end.exit_code.filter(|code| *code != 0 && !is_kill(*code))?;
    Some(LastWords {
        exit_code: end.exit_code,
        reason: end.reason.to_string(),
        message: end.message.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use carillon_api::names::{
        FINALIZER_RESULT_TRACKING, LABEL_BROADCAST_JOB_UID, LABEL_SLICE_INDEX,
    };
    use carillon_api::{NodeResult, NodeState};
    use carillon_plan::Act;
    use carillon_plan::object_key::BROADCAST_JOB;
    use serde_json::json;

    use super::*;
    use crate::kinds::broadcast_job::object::SlimBroadcastJob;
    use crate::kinds::broadcast_job::slice::SlimSlice;
    use crate::slim::SlimPod;
    use crate::store::Row;

    #[test]
    fn a_job_remembers_so_many_answers_and_no_more() {
        let mut memory = Memory::default();
        for n in 0..=ANSWERS {
            let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
            assert!(memory.learn_gone(uid.parse().unwrap()));
            assert!(memory.learn_conflict(format!("fix-{n}").into()));
            assert!(memory.learn_disputed(format!("fix-{n}").into(), Instant::now()));
        }
        assert_eq!((memory.gone.len(), memory.conflicts.len()), (1, 1));
        assert_eq!(memory.disputed.len(), 1);
    }

    #[test]
    fn a_pod_that_was_not_as_it_was_read_is_asked_about_again_after_a_while() {
        let (mut memory, begin) = (Memory::default(), Instant::now());
        assert!(memory.learn_disputed("fix-1".into(), begin));
        assert!(!memory.learn_disputed("fix-1".into(), begin + DISPUTED / 2));
        memory.forget_disputed(begin + DISPUTED / 2);
        assert_eq!(memory.disputed.len(), 1);
        memory.forget_disputed(begin + DISPUTED);
        assert!(memory.disputed.is_empty());
        assert!(memory.learn_disputed("fix-1".into(), begin + DISPUTED));
    }

    const POD: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000009";

    fn taken(rv: u64, interrupted: bool) -> TakenPod {
        TakenPod {
            pod: PodRow {
                uid: POD.parse().unwrap(),
                rv,
                interrupted,
                ..PodRow::default()
            },
            ..TakenPod::default()
        }
    }

    #[test]
    fn what_was_read_of_a_pod_that_was_taken_counts_when_it_is_read_again() {
        let mut memory = Memory::default();
        assert!(memory.learn_taken(taken(1, true)));
        assert!(memory.learn_taken(taken(2, false)));
        assert!(!memory.learn_taken(taken(2, false)));
        assert!(memory.taken.values().all(|taken| taken.pod.interrupted));
    }

    #[test]
    fn a_pod_that_was_taken_is_remembered_until_it_is_watched_again() {
        let job = ObjectKey::of(BROADCAST_JOB, "ops", "patch", Uid::MAX);
        let other = ObjectKey::of(BROADCAST_JOB, "ops", "other", Uid::MIN);
        let mut memory = Memory::default();
        memory.learn_taken(taken(1, false));
        for (of, stays) in [(&other, 1), (&job, 0)] {
            let pod = json!({"metadata": {
                "name": "patch-bcdfghjklm", "namespace": "ops", "uid": POD, "resourceVersion": "5",
                "labels": {LABEL_BROADCAST_JOB_UID: of.uid.to_string()},
                "ownerReferences": [of.reference()],
            }});
            let pod: SlimPod = serde_json::from_value(pod).unwrap();
            let mut tables = Tables::default();
            pod.enter(&mut tables, &mut Vec::new());
            memory.follow(&tables, &job, &Index::default(), Timestamp::UNIX_EPOCH);
            assert_eq!(memory.unwatched().len(), stays);
        }
    }

    #[test]
    fn a_pod_that_loses_its_label_after_its_outcome_was_stored_is_released() {
        let job = ObjectKey::of(BROADCAST_JOB, "ops", "patch", Uid::MAX);
        let meta = |name: &str, uid: &str| {
            json!({
                "name": name, "namespace": "ops", "uid": uid, "resourceVersion": "5",
                "labels": {LABEL_BROADCAST_JOB_UID: job.uid.to_string(), LABEL_SLICE_INDEX: "0"},
                "ownerReferences": [job.reference()], "finalizers": [FINALIZER_RESULT_TRACKING],
            })
        };
        let pod = || -> SlimPod {
            let pod = json!({
                "metadata": meta("patch-bcdfghjklm", POD), "status": {"phase": "Succeeded"},
            });
            serde_json::from_value(pod).unwrap()
        };
        let slice = |state: NodeState| -> SlimSlice {
            let result = NodeResult {
                node_name: "n1".to_owned(),
                node_uid: POD.to_owned(),
                attempt: 1,
                state,
                pod_name: "patch-bcdfghjklm".to_owned(),
                pod_uid: POD.to_owned(),
                ..NodeResult::default()
            };
            let slice = json!({"metadata": meta("patch-results", POD), "results": [result]});
            serde_json::from_value(slice).unwrap()
        };
        let served = json!({
            "metadata": meta("patch", &job.uid.to_string()), "spec": {"template": {}},
        });
        let served: SlimBroadcastJob = serde_json::from_value(served).unwrap();
        let (mut tables, wakes) = (Tables::default(), &mut Vec::new());
        served.enter(&mut tables, wakes);
        pod().enter(&mut tables, wakes);
        slice(NodeState::Started).enter(&mut tables, wakes);
        let mut memory = Memory::default();
        let follow = |memory: &mut Memory, tables: &Tables| {
            memory.catch_up(
                tables,
                tables.broadcast_jobs.get(&job).unwrap(),
                Timestamp::UNIX_EPOCH,
            );
        };
        follow(&mut memory, &tables);
        slice(NodeState::Succeeded).enter(&mut tables, wakes);
        // The plan that has stored it has not come to let it go, and it is not seen any more.
        pod().leave(&mut tables, wakes);
        let lets_go = |memory: &Memory| {
            let job = tables.broadcast_jobs.get(&job).unwrap();
            let plan = snapshot(&tables, job, memory, 500, |snapshot| {
                broadcast_job::plan(snapshot, Timestamp::UNIX_EPOCH)
            });
            let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
            actions.any(|action| action.word() == "release_pod")
        };
        follow(&mut memory, &tables);
        assert!(lets_go(&memory));
        memory.learn_written(POD.parse().unwrap());
        follow(&mut memory, &tables);
        assert!(!lets_go(&memory));
    }
}
