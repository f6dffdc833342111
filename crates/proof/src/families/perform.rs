//! What each action of a plan asks of the API server, and what the leader learns from the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::{BroadcastJobStatus, Retry};
use carillon_plan::Uid;
use carillon_plan::broadcast_job::action::{Action, SliceWrite};
use carillon_plan::broadcast_job::{TakenPod, settle};
use carillon_plan::pod::PodRow;
use carillon_plan::record::{Records, Slice};
use jiff::SignedDuration;
use serde_json::Value;

use super::leader::Running;
use super::objects::{Of, Pod, SliceObject};
use super::rules::{SEALED, UNRECORDED};
use super::world::World;

/// How long a creation may rely on what was asked for.
const CONFIRMED_FOR: SignedDuration = SignedDuration::from_secs(1);

impl World {
    /// Carries an action out. Whether it went through.
    pub(super) fn perform(&mut self, leader: usize, plan: &mut Running, action: Action) -> bool {
        let me = plan.job.meta.owner.uid;
        match action {
            Action::CheckTemplate { .. } => true,
            Action::ConfirmGone { pod, uid } => {
                self.ask_for(leader, plan, &pod, uid);
                true
            }
            Action::ConfirmJob => {
                plan.asked_for_job.get_or_insert(self.now);
                self.is_as_read(plan)
            }
            Action::ConfirmSlice { index, rv } => {
                plan.relies_on.insert(index, rv);
                self.slice_is(me, index, rv)
            }
            Action::ConfirmPod { pod, seen } => self.confirm_pod(leader, me, pod, seen),
            Action::WriteSlice(write) => {
                let written = self.write_slice(me, plan, &write);
                plan.relies_on
                    .extend(written.map(|version| (write.index, version)));
                written.is_some()
            }
            Action::CloseLog { uid, write, .. } => self.write_slice(uid, plan, &write).is_some(),
            Action::CreatePod { pod, node, slice } => self.create(leader, plan, pod, node, slice),
            Action::DeletePod { pod, uid, rv } => {
                self.memory(leader, me).asked.remove(&uid);
                let same = |found: &Pod| found.row.uid == uid && found.row.rv == rv;
                if self.pod(&pod).is_some_and(same) {
                    self.delete_pod(&pod);
                }
                true
            }
            Action::LabelPod { pod, uid } => {
                self.memory(leader, me).asked.remove(&uid);
                if self.pod(&pod).is_some_and(|found| found.row.uid == uid) {
                    self.change_pod(&pod, |pod| pod.label = true);
                }
                true
            }
            Action::ReleasePod { pod, uid } => {
                self.memory(leader, me).asked.remove(&uid);
                self.release(&pod, uid);
                true
            }
            Action::WriteStatus(status) => self.write_status(plan, *status),
            Action::JoinFamily {
                uid, rv, retries, ..
            } => self.join(uid, rv, retries),
            Action::DeleteJob => {
                let same = self.is_as_read(plan);
                if same {
                    self.remove_job(me);
                }
                same
            }
        }
    }

    fn is_as_read(&self, plan: &Running) -> bool {
        let found = self.jobs.now().get(&plan.job.meta.owner.uid);
        found.is_some_and(|job| job.rv == plan.job.meta.rv)
    }

    fn slice_is(&self, job: Uid, index: u32, version: u64) -> bool {
        let found = self.slices.now().get(&(job, index));
        found.is_some_and(|slice| slice.slice.rv == version)
    }

    fn ask_for(&mut self, leader: usize, plan: &Running, name: &str, uid: Uid) {
        let me = plan.job.meta.owner.uid;
        let found = self.pod(name).filter(|pod| pod.row.uid == uid).cloned();
        let Some(found) = found else {
            let memory = self.memory(leader, me);
            memory.asked.remove(&uid);
            memory.gone.insert(uid);
            return;
        };
        let is_watched = found.label && found.owned;
        let of_relative = found.of != me && !plan.own.contains(&uid);
        if is_watched && (of_relative || found.of == me) {
            return;
        }
        let mut pod = found.row;
        let memory = self.memory(leader, me);
        if let Some(old) = memory.asked.get(&uid) {
            pod.remember(&old.pod);
        }
        let taken = TakenPod {
            pod,
            why: "it was taken".into(),
            asked: Some(plan.made_at),
        };
        memory.asked.insert(uid, taken);
    }

    fn confirm_pod(
        &mut self,
        leader: usize,
        me: Uid,
        name: Box<str>,
        seen: Option<(Uid, u64)>,
    ) -> bool {
        let now = self.now;
        let found = self.pod(&name).cloned();
        let there = found.as_ref().map(|pod| (pod.row.uid, pod.row.rv));
        if there == seen {
            return true;
        }
        let ours = found.as_ref().is_some_and(|pod| pod.owned && pod.of == me);
        let memory = self.memory(leader, me);
        match found {
            Some(found) if seen.is_none() && ours => {
                memory.created.insert(name.clone(), found.row.uid);
                memory.learn_disputed(name, now);
            }
            Some(_) if seen.is_none() => {
                memory.conflicts.insert(name);
            }
            _ => memory.learn_disputed(name, now),
        }
        false
    }

    fn write_status(&mut self, plan: &Running, mut status: BroadcastJobStatus) -> bool {
        settle(&mut status, plan.created);
        let (Ok(status), true) = (serde_json::to_value(&status), self.is_as_read(plan)) else {
            return false;
        };
        let version = self.version();
        if let Some(job) = self.jobs.change().get_mut(&plan.job.meta.owner.uid)
            && job.status != status
        {
            job.status = status;
            job.rv = version;
        }
        true
    }

    fn join(&mut self, first: Uid, version: u64, retries: Vec<Retry>) -> bool {
        let found = self.jobs.now().get(&first);
        let (true, Ok(list)) = (
            found.is_some_and(|job| job.rv == version),
            serde_json::to_value(&retries),
        ) else {
            return false;
        };
        let version = self.version();
        if let Some(job) = self.jobs.change().get_mut(&first) {
            if job.status.is_null() {
                job.status = Value::Object(serde_json::Map::default());
            }
            job.status["retries"] = list;
            job.rv = version;
        }
        self.judge_list(retries);
        true
    }

    /// The version that was written.
    fn write_slice(&mut self, of: Uid, plan: &Running, write: &SliceWrite) -> Option<u64> {
        let old = self.slices.now().get(&(of, write.index)).cloned();
        let old = old.map(|slice| slice.slice);
        if old.as_ref().map(|slice| slice.rv) != write.rv {
            return None;
        }
        let records: Records = write.records().cloned().collect();
        if let Some(old) = old.as_ref().filter(|slice| slice.sealed)
            && (records.len() > old.records.len() || !write.sealed)
        {
            self.break_rule(
                SEALED,
                format!("slice {} of {}", write.index, self.name(of)),
            );
            return None;
        }
        let me = plan.job.meta.owner.uid;
        for (at, record) in records.iter().enumerate() {
            self.judge_record((of, write.index, at), record, of != me);
        }
        let rv = self.version();
        let uid = match old {
            Some(old) => old.uid,
            None => self.uid(Of::Slice),
        };
        let slice = Slice {
            index: write.index,
            uid,
            rv,
            sealed: write.sealed,
            records,
        };
        let mut owners = BTreeSet::from([of]);
        owners.extend(plan.job.retry_of.as_ref().map(|first| first.uid));
        let slice = SliceObject { slice, of, owners };
        self.slices.change().insert((of, write.index), slice);
        Some(rv)
    }

    /// Whether what a creation relies on is so. The API server does not look at owners, and a request is under
    /// way for a while.
    fn may_create(&self, plan: &Running, slice: u32) -> bool {
        if plan.is_old(self.now) {
            return false;
        }
        let fresh = |at| self.now.duration_since(at) < CONFIRMED_FOR;
        let job = match plan.asked_for_job {
            Some(at) if self.mode.late_creations && fresh(at) => true,
            Some(_) => self.is_as_read(plan),
            None => true,
        };
        let version = plan.relies_on.get(&slice);
        let same = |version: &u64| self.slice_is(plan.job.meta.owner.uid, slice, *version);
        job && version.is_none_or(same)
    }

    fn create(
        &mut self,
        leader: usize,
        plan: &mut Running,
        name: Box<str>,
        node: Arc<str>,
        slice: u32,
    ) -> bool {
        let me = plan.job.meta.owner.uid;
        if !self.may_create(plan, slice) {
            return false;
        }
        if let Some(found) = self.pod(&name) {
            let (uid, ours) = (found.row.uid, found.owned && found.of == me);
            let memory = self.memory(leader, me);
            if ours {
                memory.created.insert(name, uid);
            } else {
                memory.conflicts.insert(name);
            }
            return true;
        }
        let slices = self.slices.now().range((me, 0)..=(me, u32::MAX));
        let mut records = slices.flat_map(|(_, slice)| &slice.slice.records);
        let Some(record) = records.find(|record| record.pod == name).cloned() else {
            self.break_rule(UNRECORDED, name.into());
            return false;
        };
        let late = self.staying(me).is_none();
        if late {
            self.judge_late(&name, me);
        } else {
            self.judge_creation(plan, &record);
        }
        let row = PodRow {
            uid: self.uid(Of::Pod),
            rv: self.version(),
            tracked: true,
            created: Some(self.now),
            ..PodRow::default()
        };
        self.memory(leader, me)
            .created
            .insert(name.clone(), row.uid);
        self.put(Pod {
            name,
            row,
            of: me,
            node,
            node_uid: record.node_uid,
            label: true,
            owned: true,
            late,
        });
        plan.created += 1;
        true
    }
}
