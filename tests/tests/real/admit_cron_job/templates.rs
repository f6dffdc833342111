//! What a run is: nothing that a native CronJob may have is refused.

use serde_json::{Value, json};

use super::{
    NATIVE, OURS, broadcast_cron_job, cron_job, each_is_accepted, each_is_refused, try_create, with,
};

const JOB: &str = "/spec/jobTemplate/spec";
const POD: &str = "/spec/jobTemplate/spec/template/spec";

/// (what, path, value): accepted in batch/v1, and often seen, or odd.
fn accepted_in_jobs() -> Vec<(&'static str, String, Value)> {
    let job = |field: &str| format!("{JOB}/{field}");
    let pod = |field: &str| format!("{POD}/{field}");
    let container = |field: &str| format!("{POD}/containers/0/{field}");
    let indexed = json!({
        "parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 1, "suspend": true, "manualSelector": false, "selector": null,
        "ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 0, "backoffLimit": 0,
        "podReplacementPolicy": "Failed", "managedBy": "example.com/other",
        "podFailurePolicy": {"rules": [
            {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 2]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]},
        "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
        "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}],
        }},
    });
    #[rustfmt::skip]
    let table = vec![
        ("all fields of a Job", JOB.to_owned(), indexed),
        ("rules left out", job("podFailurePolicy"), json!(null)),
        ("metadata of tools", "/spec/jobTemplate/metadata".to_owned(), json!({
            "creationTimestamp": null, "name": "ignored", "namespace": "ignored", "finalizers": ["example.com/ignored"],
            "labels": {"a": ""}, "annotations": null, "ownerReferences": [],
        })),
        ("our labels on the pods", job("template/metadata"), json!({"labels": {"carillon.dev/mine": "a"}})),
        ("many finalizers", job("template/metadata"), json!({"finalizers": vec!["example.com/x"; 200]})),
        ("a node by name", pod("nodeName"), json!("node-a")),
        ("nothing in ephemeralContainers", pod("ephemeralContainers"), json!([])),
        ("nulls", pod("volumes"), json!(null)),
        ("a null argument", container("args"), json!(["a", null])),
        ("a node selector term for nothing", pod("affinity"), json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [null]}}})),
        ("a projection of nothing", pod("volumes"), json!([{"name": "v", "projected": {"sources": [null]}}])),
        ("null groups", pod("securityContext"), json!({"supplementalGroups": [null]})),
        ("null environment", container("env"), json!(null)),
        ("null resources", container("resources"), json!({"limits": null, "requests": {"cpu": null}})),
        ("quantities", container("resources"), json!({"limits": {"cpu": 0.5, "memory": " 1Gi ", "example.com/x": 1}})),
        ("a pull secret without a name", pod("imagePullSecrets"), json!([{}, null, {"name": "a"}])),
        ("a header without a value", container("livenessProbe"), json!({"httpGet": {"port": 80, "httpHeaders": [{"name": "X"}]}})),
        ("no sleep", container("lifecycle"), json!({"preStop": {"sleep": {}}})),
        ("a sysctl without a value", pod("securityContext"), json!({"sysctls": [{"name": "kernel.shm_rmid_forced"}]})),
        ("a preference for nothing", pod("affinity"), json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}})),
        ("the first LUN", pod("volumes"), json!([{"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a"}}])),
        ("environment of one name", container("env"), json!([{"name": "A"}, {"name": "A", "value": ""}])),
        ("a sidecar", pod("initContainers"), json!([{"name": "side", "image": "busybox", "restartPolicy": "Always"}])),
        ("150 containers", pod("initContainers"), (0..150).map(|n| json!({"name": format!("c{n}"), "image": "a"})).collect()),
    ];
    table
}

#[test]
fn each_job_template_that_batch_v1_accepts_is_accepted() {
    for api_version in [NATIVE, OURS] {
        each_is_accepted(accepted_in_jobs().into_iter().map(|(what, path, value)| {
            let cron_job = with(cron_job(api_version, "x"), &path, value);
            (format!("{api_version} {what}"), cron_job)
        }));
    }
    let mut policy = cron_job(NATIVE, "x");
    policy = with(policy, &format!("{POD}/restartPolicy"), json!("Never"));
    policy = with(policy, &format!("{JOB}/podFailurePolicy"), json!({}));
    try_create(&policy).unwrap();
    policy["apiVersion"] = OURS.into();
    try_create(&policy).unwrap();
}

#[test]
fn each_refused_job_template_is_refused_with_the_field_and_the_remedy() {
    #[rustfmt::skip]
    let table = vec![
        ("no spec", "/spec/jobTemplate", json!({}), "spec.jobTemplate.spec: Required value"),
        ("no template", "/spec/jobTemplate/spec", json!({}), "spec.jobTemplate.spec.template: Required value"),
        ("no pod spec", "/spec/jobTemplate/spec/template", json!({}), "spec.jobTemplate.spec.template.spec: Required value"),
        ("no containers", "/spec/jobTemplate/spec/template/spec", json!({"restartPolicy": "Never"}), "template.spec.containers: Required value"),
        ("empty containers", "/spec/jobTemplate/spec/template/spec/containers", json!([]), "containers in body should have at least 1 items"),
        ("container without image", "/spec/jobTemplate/spec/template/spec/containers/0/image", json!(null), "containers[0].image: Required value"),
        ("no restart policy", "/spec/jobTemplate/spec/template/spec/restartPolicy", json!(null),
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""),
        ("restart policy Always", "/spec/jobTemplate/spec/template/spec/restartPolicy", json!("Always"), "valid values: \"OnFailure\", \"Never\""),
        ("ephemeral containers", "/spec/jobTemplate/spec/template/spec/ephemeralContainers", json!([{"name": "a", "image": "b"}]),
            "ephemeralContainers: Forbidden: must not be set"),
        ("null toleration", "/spec/jobTemplate/spec/template/spec/tolerations", json!([null]), "template.spec.tolerations[0] in body must be of type object"),
        ("selector", "/spec/jobTemplate/spec/selector", json!({"matchLabels": {"a": "b"}}),
            "spec.jobTemplate.spec.selector: Forbidden: `selector` will be auto-generated"),
        ("empty selector", "/spec/jobTemplate/spec/selector", json!({}), "`selector` will be auto-generated"),
        ("manual selector", "/spec/jobTemplate/spec/manualSelector", json!(true), "spec.jobTemplate.spec.manualSelector: Invalid value: must not be true"),
        ("negative parallelism", "/spec/jobTemplate/spec/parallelism", json!(-1), "spec.jobTemplate.spec.parallelism in body should be greater than or equal to 0"),
        ("completions in quotes", "/spec/jobTemplate/spec/completions", json!("3"), "spec.jobTemplate.spec.completions in body must be of type integer"),
        ("label a number", "/spec/jobTemplate/metadata/labels", json!({"a": 1}), "spec.jobTemplate.metadata.labels.a in body must be of type string"),
    ];
    for (what, path, value, _) in &table {
        let native = with(cron_job(NATIVE, "x"), path, value.clone());
        assert!(try_create(&native).is_err(), "batch/v1 accepts: {what}");
    }
    each_is_refused(&cron_job(OURS, "x"), table);
}

#[test]
fn labels_and_annotations_of_runs_must_not_have_our_prefix() {
    let words = "must not use the prefix carillon.dev/";
    for field in ["labels", "annotations"] {
        let value = json!({"carillon.dev/run-now": "a"});
        for (base, template) in [
            (cron_job(OURS, "x"), "jobTemplate"),
            (broadcast_cron_job("x"), "broadcastJobTemplate"),
        ] {
            let path = format!("/spec/{template}/metadata/{field}");
            let complaint = super::not_refused(&with(base, &path, value.clone()), words);
            assert_eq!(complaint, None);
        }
    }
}

#[test]
fn a_broadcast_job_template_follows_the_rules_of_a_broadcast_job() {
    let spec = "/spec/broadcastJobTemplate/spec";
    let defaults = try_create(&broadcast_cron_job("x")).unwrap();
    let stored = defaults.pointer(&format!("{spec}/failurePolicy")).unwrap();
    let expected = json!({"type": "FailFast", "maxFailedNodes": 0});
    assert_eq!(*stored, expected);
    #[rustfmt::skip]
    let table = vec![
        ("no pods at a time", "/spec/broadcastJobTemplate/spec/parallelism", json!(0),
            "spec.broadcastJobTemplate.spec.parallelism: Invalid value: 0: must be a number from 1"),
        ("a node by name", "/spec/broadcastJobTemplate/spec/template/spec/nodeName", json!("a"), "the job runs on every node that fits"),
        ("restarts without restarts", "/spec/broadcastJobTemplate/spec/executionPolicy", json!("AtMostOnce"),
            "must not be AtMostOnce with restartPolicy OnFailure, the kubelet would run the container again: \
             set spec.broadcastJobTemplate.spec.template.spec.restartPolicy: Never"),
        ("unknown field", "/spec/broadcastJobTemplate/spec/paralelism", json!(1), "unknown field \"spec.broadcastJobTemplate.spec.paralelism\""),
        ("a job that never ends", "/spec/broadcastJobTemplate/spec/completionPolicy", json!({"type": "Never"}),
            "spec.broadcastJobTemplate.spec.completionPolicy.type: Forbidden: must not be Never in a CronJob, each run \
             would stay open for ever: remove it or set spec.broadcastJobTemplate.spec.completionPolicy.type: Always"),
        ("a budget that nothing uses", "/spec/broadcastJobTemplate/spec/failurePolicy", json!({"type": "Continue", "maxFailedNodes": "10%"}),
            "spec.broadcastJobTemplate.spec.failurePolicy.maxFailedNodes: Forbidden: must not be set with type Continue"),
        ("label of OpenKruise", "/spec/broadcastJobTemplate/spec/template/metadata", json!({"labels": {"broadcastjob-name": "a"}}), "OpenKruise sets those"),
    ];
    each_is_refused(&broadcast_cron_job("x"), table);
}
