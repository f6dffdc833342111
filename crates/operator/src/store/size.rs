//! What the cache holds, in rows and bytes.

use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::broadcast_job;
use carillon_plan::cron_job::{Api, Child, ChildKind};
use carillon_plan::job::{Job, JobPod};
use carillon_plan::node::NodeRow;
use carillon_plan::pod::PodRow;
use carillon_plan::record::{Record, Slice};

use super::tables::Tables;
use crate::gate::Kind;
use crate::slim::CronJobRow;

impl Tables {
    /// Rows and estimated bytes held, by kind.
    pub fn size(&self) -> [(Kind, usize, usize); 7] {
        let end = |pod: &PodRow| {
            pod.end.as_ref().map_or(0, |end| {
                size_of_val(&**end) + end.reason.len() + end.message.len()
            })
        };
        let rest = |pod: &PodRow| {
            let waiting = pod.waiting.as_ref();
            waiting.map_or(0, |w| size_of_val(&**w) + w.message.len())
        };
        let pods = self.pods.values().flat_map(|pods| pods.iter());
        let taken = self.taken_pods.values().flatten();
        let pods = pods.map(|(name, pod)| (&**name, pod));
        let pods = pods.chain(taken.map(|(name, taken)| (&**name, &taken.pod)));
        let pod_bytes = |(name, pod): (&str, &PodRow)| {
            entry(size_of::<Box<str>>() + size_of_val(pod)) + text(name) + end(pod) + rest(pod)
        };
        let node_bytes = |(name, node): (&Arc<str>, &NodeRow)| {
            // A B-tree keeps about a third free.
            (size_of_val(name) + size_of_val(node)) * 3 / 2 + text(name)
        };
        let slices = self.slices.values().flat_map(|ledger| &ledger.slices);
        let slice_bytes = |slice: &Slice| {
            let rest = |r: &Record| {
                let rest = r.rest.as_ref();
                // As text; as values it is some more.
                rest.map_or(0, |rest| serde_json::json!(**rest).to_string().len())
            };
            let record = |r: &Record| size_of_val(r) + text(&r.pod) + text(&r.message) + rest(r);
            size_of_val(slice) + slice.records.iter().map(record).sum::<usize>()
        };
        let job_bytes =
            |job: &Arc<broadcast_job::Job>| size_of_val(&**job) + job.template.bytes_held();
        let cron_jobs = |api| {
            let of_api = self
                .cron_jobs
                .values()
                .filter(move |row| row.cron.meta.api == api);
            let bytes = |row: &CronJobRow| {
                let cron = &*row.cron;
                size_of_val(cron) + cron.template.bytes_held() + row.bytes_of_text()
            };
            (of_api.clone().count(), of_api.map(bytes).sum())
        };
        let job_pods = self.size_of_job_pods();
        let (ours, native) = (cron_jobs(Api::Carillon), cron_jobs(Api::Native));
        let children = self.families.values().flatten();
        // BroadcastJobs are counted above.
        let children = children.filter(|((kind, _), _)| *kind == ChildKind::Job);
        let child_bytes = |((_, name), child): (&(ChildKind, Box<str>), &Child)| {
            let row = (size_of_val(child) + 24) * 3 / 2 + text(name);
            row + entry(2 * size_of::<Uid>())
        };
        let children = (children.clone().count(), children.map(child_bytes).sum());
        [
            (
                Kind::Pod,
                pods.clone().count() + job_pods.0,
                pods.map(pod_bytes).sum::<usize>() + job_pods.1 + self.strings.bytes_of_failures(),
            ),
            (
                Kind::Node,
                self.nodes.len(),
                self.nodes.iter().map(node_bytes).sum::<usize>() + self.strings.bytes_of_sets(),
            ),
            (
                Kind::Slice,
                slices.clone().count(),
                slices.map(slice_bytes).sum(),
            ),
            (
                Kind::BroadcastJob,
                self.jobs.len(),
                self.jobs.values().map(job_bytes).sum(),
            ),
            (Kind::CronJob, ours.0, ours.1),
            (Kind::NativeCronJob, native.0, native.1),
            self.size_of_jobs(children),
        ]
    }
    /// `runs` are rows and bytes of the children of CronJobs among them.
    fn size_of_jobs(&self, runs: (usize, usize)) -> (Kind, usize, usize) {
        let bytes = |job: &Arc<Job>| {
            let uncounted = job.status.uncounted_terminated_pods.as_ref();
            let uids = uncounted.into_iter().flat_map(|uncounted| {
                let lists = [&uncounted.succeeded, &uncounted.failed];
                lists.into_iter().flatten().flatten()
            });
            let uids: usize = uids.map(|uid| uid.len() + size_of_val(uid)).sum();
            entry(size_of::<Uid>()) + size_of_val(&**job) + job.template.bytes_held() + uids
        };
        let bytes: usize = self.native_jobs.values().map(bytes).sum();
        // Where Jobs are served all of them are held, and the runs of CronJobs are among them.
        let rows = self.native_jobs.values().len().max(runs.0);
        (Kind::NativeJob, rows, bytes + runs.1)
    }

    fn size_of_job_pods(&self) -> (usize, usize) {
        let pods = self.job_pods.values().flatten();
        let pods = pods.chain(self.orphan_pods.values().flatten());
        // A B-tree keeps about a third free.
        let row =
            (size_of::<Box<str>>() + size_of::<JobPod>()) * 3 / 2 + entry(2 * size_of::<Uid>());
        let bytes: usize = pods.clone().map(|(name, _)| row + text(name)).sum();
        let labels = self.strings.bytes_of_pod_labels();
        (pods.count(), bytes + labels)
    }
}

/// A text of its own on the heap.
fn text(text: &str) -> usize {
    text.len() + 16
}

/// In a hash table, which keeps an eighth free and a byte of tag per entry.
fn entry(bytes: usize) -> usize {
    (bytes + 1) * 8 / 7
}
