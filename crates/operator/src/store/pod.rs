//! Pods: of BroadcastJobs, of Jobs, and of nobody. One watch has them all.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::key::Wake;
use super::row::Row;
use super::tables::Tables;
use crate::gate::Kind;
use crate::slim::SlimPod;
use crate::watch::{Held, Listed};

impl Row for SlimPod {
    const KIND: Kind = Kind::Pod;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        tables.enter_broadcast_job_pod(&self, wakes);
        tables.enter_job_pod(&self, wakes);
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        tables.leave_broadcast_job_pod(&self.metadata, wakes);
        tables.leave_job_pod(&self.metadata, wakes);
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables.sweep_broadcast_job_pods(namespace, listed, wakes);
        tables.sweep_job_pods(namespace, listed, wakes);
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let of_broadcast_job = tables.holds_broadcast_job_pod(object);
        of_broadcast_job.and(tables.holds_job_pod(object))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        tables.each_broadcast_job_pod(namespace, each);
        tables.each_job_pod(namespace, each);
    }
}
