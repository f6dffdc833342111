//! Pods, by the job that owns them.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::pod::{PodRow, Pods};

use super::{Row, Tables, Wake, in_scope};
use crate::flight_recorder::Remembered;
use crate::gate::Kind;
use crate::slim::SlimPod;

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

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = self.labelled_owner() else {
            return;
        };
        // The label is how pods are found, the reference is whose they are. Where the two differ
        // somebody else wrote the label.
        if self.metadata.broadcast_job() != Some(owner) {
            self.leave(tables, wakes);
            return;
        }
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
            wakes.push(Wake::Soon(owner));
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = self.labelled_owner() else {
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
            wakes.push(Wake::Soon(owner));
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
                wakes.push(Wake::Soon(*owner));
            }
        }
        tables.pods.retain(|_, of_job| !of_job.pods.is_empty());
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

impl SlimPod {
    fn labelled_owner(&self) -> Option<Uid> {
        self.metadata.labels.as_ref()?.job_uid.parse().ok()
    }
}
