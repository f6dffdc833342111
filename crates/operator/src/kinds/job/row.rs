//! Jobs of batch/v1, which may be runs of CronJobs.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::cron_job::ChildKind;
use carillon_plan::job::{Job, MANAGED_BY};
use carillon_plan::object_key::JOB;

use super::object::SlimJob;
use super::tables::CONTROLLER;
use crate::gate::Kind;
use crate::kinds::cron_job::children;
use crate::store::{Key, Row, Tables, Wake, held_at, in_scope, is_gone};
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl Row for SlimJob {
    const KIND: Kind = Kind::NativeJob;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let kind = ChildKind::Job;
        children::enter(tables, kind, &self.metadata, self.child(), wakes);
        let Some(job) = self.job(!tables.jobs.leaves_native).map(Arc::new) else {
            return;
        };
        let ours = tables.jobs.is_ours(&job);
        if job.spec.managed_by.as_deref() == Some(MANAGED_BY) {
            tables
                .jobs
                .has_managed
                .send_if_modified(|has| !mem::replace(has, true));
        }
        let old = tables.jobs.by_key.insert(job.clone(), ours);
        if let (None, Some(name)) = (&old, &job.spec.managed_by) {
            tables.jobs.counts.manages(name);
        }
        if ours {
            wakes.extend(wake(old.as_deref(), &job));
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        children::leave(tables, ChildKind::Job, &self.metadata, wakes);
        if let Some(key) = self.metadata.key(JOB)
            && tables.jobs.by_key.remove(&key)
        {
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        children::sweep(tables, ChildKind::Job, namespace, listed, wakes);
        let keys = tables.jobs.by_key.rows.keys();
        let gone = keys.filter(|key| is_gone(key, namespace, listed));
        for key in gone.cloned().collect::<Vec<_>>() {
            tables.jobs.by_key.remove(&key);
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let key = object.key(JOB);
        let job = key.and_then(|key| tables.jobs.by_key.get(&key));
        held_at(job.map(|job| job.meta.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for job in tables.jobs.by_key.values() {
            let key = &job.meta.owner;
            if in_scope(&key.namespace, namespace) {
                each(&key.name, key.uid, job.meta.rv);
            }
        }
    }
}

/// What a new state of a Job is worth. One that has ended is only waited for to be deleted, by
/// somebody or by its time to live.
fn wake(old: Option<&Job>, new: &Job) -> Option<Wake> {
    let key = Key::of(CONTROLLER, new.meta.owner.clone());
    let old = old.filter(|old| new.meta.asks_the_same(&old.meta));
    let ended = new.has_finished();
    if let Some(old) = old {
        // A change of status is our own write coming back, unless somebody else wrote it.
        return (!ended || !old.has_finished()).then_some(Wake::Soon(key));
    }
    let expires = new.spec.ttl_seconds_after_finished.is_some();
    (!ended || expires || new.meta.deleting).then_some(Wake::Now(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_plan::ObjectKey;
    use serde_json::{Value, json};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

    fn key() -> Arc<ObjectKey> {
        ObjectKey::of(JOB, "ops", "sum", UID.parse().unwrap())
    }

    fn job(rv: u64, generation: i64, spec: &Value, status: &Value) -> SlimJob {
        let job = json!({
            "metadata": {"name": "sum", "namespace": "ops", "uid": UID, "generation": generation,
                "resourceVersion": rv.to_string()},
            "spec": spec, "status": status,
        });
        serde_json::from_value(job).unwrap()
    }

    fn woken(tables: &mut Tables, job: SlimJob) -> Vec<Wake> {
        let mut wakes = Vec::new();
        job.enter(tables, &mut wakes);
        wakes
    }

    #[test]
    fn the_first_job_that_names_us_is_noticed() {
        let tables = &mut Tables::default();
        let noticed = tables.jobs.has_managed.subscribe();
        for (managed_by, is_ours) in [
            (None, false),
            (Some("example.com/other"), false),
            (Some(MANAGED_BY), true),
            (None, true),
        ] {
            woken(
                tables,
                job(5, 1, &json!({"managedBy": managed_by}), &json!({})),
            );
            assert_eq!(*noticed.borrow(), is_ours, "{managed_by:?}");
        }
    }

    #[test]
    fn a_change_of_what_is_wanted_wakes_a_job_at_once_and_one_of_its_status_soon() {
        let tables = &mut Tables::default();
        let (none, active) = (json!({}), json!({"active": 1}));
        let now = || Wake::now(CONTROLLER, key());
        let soon = || Wake::soon(CONTROLLER, key());
        assert_eq!(woken(tables, job(5, 1, &none, &none)), [now()]);
        assert_eq!(woken(tables, job(6, 1, &none, &active)), [soon()]);
        assert_eq!(woken(tables, job(7, 2, &none, &active)), [now()]);
        let mut deleted = job(8, 2, &none, &active);
        deleted.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(woken(tables, deleted), [now()]);
        let mut wakes = Vec::new();
        job(9, 2, &none, &active).leave(tables, &mut wakes);
        assert_eq!(wakes, [now()]);
        assert!(tables.jobs.get(&key()).is_none());
    }

    #[test]
    fn a_job_that_has_ended_is_woken_to_be_deleted_only() {
        let ended = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let (none, ttl) = (json!({}), json!({"ttlSecondsAfterFinished": 5}));
        let now = || Wake::now(CONTROLLER, key());
        let soon = || Wake::soon(CONTROLLER, key());
        let tables = &mut Tables::default();
        assert_eq!(woken(tables, job(5, 1, &none, &ended)), []);
        assert_eq!(woken(tables, job(6, 1, &none, &ended)), []);
        assert_eq!(woken(tables, job(7, 2, &ttl, &ended)), [now()]);
        assert_eq!(woken(tables, job(8, 2, &ttl, &ended)), []);
        // Its end was just written: it may have a time to live.
        let tables = &mut Tables::default();
        woken(tables, job(5, 1, &ttl, &none));
        assert_eq!(woken(tables, job(6, 1, &ttl, &ended)), [soon()]);
    }

    #[test]
    fn a_job_that_a_list_no_longer_has_is_gone() {
        let tables = &mut Tables::default();
        let none = json!({});
        woken(tables, job(5, 1, &none, &none));
        let (nothing, mut wakes) = (HashSet::new(), Vec::new());
        SlimJob::sweep(tables, Some("other"), &nothing, &mut wakes);
        assert!(wakes.is_empty());
        SlimJob::sweep(tables, Some("ops"), &nothing, &mut wakes);
        assert_eq!(wakes, [Wake::now(CONTROLLER, key())]);
        assert!(tables.jobs.get(&key()).is_none());
    }
}
