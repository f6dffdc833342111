//! The requests that only CronJobs need.

use carillon_api::names::FINALIZER_RUN_TRACKING;
use carillon_plan::Uid;
use http::Method;
use serde_json::json;

use crate::gate::Kind;
use crate::request::{Call, MERGE, build, encode, path, without};
use crate::slim::SlimMeta;

/// Removes our finalizer from a Job and leaves those of others.
pub fn release_job(namespace: &str, name: &str, uid: Uid) -> Call {
    without(
        Kind::NativeJob,
        namespace,
        name,
        uid,
        FINALIZER_RUN_TRACKING,
    )
}

/// Removes our finalizer from a BroadcastJob, if its finalizers are still these. Lists of custom
/// resources know no strategic merge, so the version says which list is meant.
pub fn release_broadcast_job(namespace: &str, job: &SlimMeta) -> Call {
    let finalizers: Vec<&String> = job
        .finalizers
        .iter()
        .flatten()
        .filter(|finalizer| *finalizer != FINALIZER_RUN_TRACKING)
        .collect();
    let body = json!({"metadata": {
        "uid": job.uid,
        "resourceVersion": job.resource_version,
        "finalizers": finalizers,
    }});
    let path = path(Kind::BroadcastJob, namespace, &job.name);
    build(Method::PATCH, path, MERGE, encode(&body))
}
