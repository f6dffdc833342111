//! The requests that only Jobs need.

use carillon_plan::job::FINALIZER_JOB_TRACKING;
use carillon_plan::{ObjectKey, Uid};
use http::Method;
use serde_json::json;

use crate::gate::Kind;
use crate::request::{
    Call, JSON, adoption, build, delete_options, disownment, encode, metadata_without,
    patch_metadata, path, without,
};

/// Removes the mark of a pod of a Job that may not be counted yet, and leaves those of others.
pub fn release_pod(namespace: &str, name: &str, uid: Uid) -> Call {
    without(Kind::Pod, namespace, name, uid, FINALIZER_JOB_TRACKING)
}

/// The same for a pod that no Job controls, if it is still as it was seen.
pub fn release_orphan_pod(namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    let mut metadata = metadata_without(uid, FINALIZER_JOB_TRACKING);
    metadata["resourceVersion"] = json!(rv.to_string());
    patch_metadata(Kind::Pod, namespace, name, &metadata)
}

/// Gives a pod to a Job, which counts it from now on.
pub fn adopt_pod(owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    let mut metadata = adoption(owner, uid);
    metadata["finalizers"] = json!([FINALIZER_JOB_TRACKING]);
    patch_metadata(Kind::Pod, &owner.namespace, name, &metadata)
}

/// Takes a pod from a Job, which does not count it.
pub fn disown_pod(owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    let mut metadata = metadata_without(uid, FINALIZER_JOB_TRACKING);
    metadata["ownerReferences"] = disownment(owner, uid)["ownerReferences"].take();
    patch_metadata(Kind::Pod, &owner.namespace, name, &metadata)
}

/// Deletes a Job after its pods, as its time to live wants it.
pub fn delete_job(owner: &ObjectKey) -> Call {
    let mut body = delete_options(owner.uid, None);
    body["propagationPolicy"] = json!("Foreground");
    let path = path(Kind::NativeJob, &owner.namespace, &owner.name);
    build(Method::DELETE, path, JSON, encode(&body))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use carillon_plan::object_key::JOB;

    use super::*;
    use crate::request::delete;
    use crate::request::shown::{body, request};

    fn owner() -> Arc<ObjectKey> {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap();
        ObjectKey::of(JOB, "ops", "fix", uid)
    }

    #[test]
    fn pods_are_named_by_uid_and_a_job_that_expired_goes_after_its_pods() {
        let precondition = json!({"uid": owner().uid.to_string()});
        let pod = request(delete(Kind::Pod, "ops", "p", owner().uid));
        assert_eq!(pod.uri(), "/api/v1/namespaces/ops/pods/p");
        let pod = body(delete(Kind::Pod, "ops", "p", owner().uid));
        assert_eq!(pod["preconditions"], precondition);
        let job = request(delete_job(&owner()));
        assert_eq!(job.uri(), "/apis/batch/v1/namespaces/ops/jobs/fix");
        let job = body(delete_job(&owner()));
        assert_eq!(job["preconditions"], precondition);
        assert_eq!(job["propagationPolicy"], "Foreground");
        let released = body(release_pod("ops", "p", owner().uid));
        let finalizers = json!(["batch.kubernetes.io/job-tracking"]);
        assert_eq!(
            released["metadata"],
            json!({"uid": owner().uid.to_string(), "$deleteFromPrimitiveList/finalizers": finalizers})
        );
    }

    #[test]
    fn a_pod_is_adopted_with_owner_and_finalizer_and_disowned_without_them() {
        let of_job = owner();
        let adopted = body(adopt_pod(&of_job, "p", of_job.uid));
        let uid = of_job.uid.to_string();
        assert_eq!(
            adopted["metadata"],
            json!({"uid": uid, "ownerReferences": [of_job.reference()],
                "finalizers": ["batch.kubernetes.io/job-tracking"]})
        );
        let finalizers = json!(["batch.kubernetes.io/job-tracking"]);
        let disowned = body(disown_pod(&of_job, "p", of_job.uid));
        assert_eq!(
            disowned["metadata"],
            json!({"uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers,
                "ownerReferences": [{"$patch": "delete", "uid": uid}]})
        );
        let orphan = body(release_orphan_pod("ops", "p", of_job.uid, 7));
        assert_eq!(
            orphan["metadata"],
            json!({"uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers,
                "resourceVersion": "7"})
        );
    }
}
