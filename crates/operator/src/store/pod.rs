//! Pods, by the job that owns them.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::pod::{PodRow, Pods};

use super::{Key, Row, Tables, Wake, held_at, in_scope};
use crate::controllers::broadcast_job::Remembered;
use crate::gate::Kind;
use crate::slim::{SlimMeta, SlimPod};
use crate::watch::{Held, Listed};

/// The pods of one job.
#[derive(Debug, Default)]
pub struct OwnedPods {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// Name of the job, as its label says.
    pub job: Arc<str>,
    /// By name.
    pub pods: Pods,
}

impl Row for SlimPod {
    const KIND: Kind = Kind::Pod;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = owner(&self.metadata) else {
            self.leave(tables, wakes);
            return;
        };
        let Some((name, mut row)) = self.row(&mut tables.strings) else {
            return;
        };
        let namespace = tables.strings.share(&self.metadata.namespace);
        let job = self
            .metadata
            .labels
            .as_ref()
            .map_or("", |labels| &labels.job_name);
        let job = tables.strings.share(job);
        let of_job = tables.pods.entry(owner).or_insert_with(|| OwnedPods {
            namespace,
            job,
            pods: Pods::default(),
        });
        let changed = match of_job.pods.get(&name).filter(|old| old.uid == row.uid) {
            Some(old) => {
                row.remember(old);
                // Why a pod waits only matters when it has waited for too long.
                PodRow {
                    rv: row.rv,
                    waiting: row.waiting.clone(),
                    ..old.clone()
                } != row
            }
            None => true,
        };
        of_job.pods.insert(name, row);
        if changed {
            wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = labelled_owner(&self.metadata) else {
            return;
        };
        let Some(of_job) = tables.pods.get_mut(&owner) else {
            return;
        };
        let same = of_job
            .pods
            .get(&*self.metadata.name)
            .is_some_and(|row| Some(row.uid) == self.metadata.uid());
        if same {
            of_job.pods.remove(&*self.metadata.name);
            wakes.push(Wake::Soon(Key::BroadcastJob(owner)));
        }
        if of_job.pods.is_empty() {
            tables.pods.remove(&owner);
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        for (owner, of_job) in &mut tables.pods {
            if !in_scope(&of_job.namespace, namespace) {
                continue;
            }
            let before = of_job.pods.len();
            of_job.pods.retain(|_, row| listed.contains(&row.uid));
            if of_job.pods.len() != before {
                wakes.push(Wake::Soon(Key::BroadcastJob(*owner)));
            }
        }
        tables.pods.retain(|_, of_job| !of_job.pods.is_empty());
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let Some(owner) = owner(object) else {
            return Held::LeftOut;
        };
        let of_job = tables.pods.get(&owner);
        let row = of_job.and_then(|of_job| of_job.pods.get(&*object.name));
        let row = row.filter(|row| Some(row.uid) == object.uid());
        held_at(row.map(|row| row.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for of_job in tables.pods.values() {
            if in_scope(&of_job.namespace, namespace) {
                for (name, row) in &of_job.pods {
                    each(name, row.uid, row.rv);
                }
            }
        }
    }
}

impl Tables {
    /// Puts back what rows of `job` remembered of earlier states of their pods.
    pub fn recall(&mut self, job: Uid, remembered: &[Remembered]) {
        let Some(of_job) = self.pods.get_mut(&job) else {
            return;
        };
        for entry in remembered {
            let Some(row) = of_job.pods.get_mut(&*entry.pod) else {
                continue;
            };
            row.interrupted |= entry.interrupted;
            if let (Some(end), Some(words)) = (&mut row.end, &entry.end) {
                end.exit_code = words.exit_code;
                end.reason = words.reason.as_str().into();
                end.message = words.message.as_str().into();
            }
        }
    }
}

/// The job of a pod. The label is how pods are found, the reference is whose they are. Where the
/// two differ somebody else wrote the label.
fn owner(pod: &SlimMeta) -> Option<Uid> {
    labelled_owner(pod).filter(|owner| pod.broadcast_job() == Some(*owner))
}

fn labelled_owner(pod: &SlimMeta) -> Option<Uid> {
    pod.labels.as_ref()?.job_uid.parse().ok()
}
