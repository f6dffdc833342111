//! Properties of the generated CRDs that need no API server.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;
use std::sync::LazyLock;

use carillon_api::cron_job::{
    DEFAULT_SUCCESSFUL_JOBS_HISTORY_LIMIT, MAX_JITTER_SECONDS, MAX_NAME_LENGTH,
};
use carillon_api::{
    BroadcastJobStatus, ConcurrencyPolicy, CronJobSpec, CronJobStatus, DaemonSetStatus, DstPolicy,
    MissedRunPolicy, RunReference, crds,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// By kind.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let schema = |crd: CustomResourceDefinition| {
        let schema = &crd.spec.versions[0].schema.as_ref().unwrap();
        let schema = serde_json::to_value(&schema.open_api_v3_schema).unwrap();
        (crd.spec.names.kind, schema)
    };
    crds().into_iter().map(schema).collect()
});

fn schema_of(kind: &str) -> Value {
    SCHEMAS[kind].clone()
}

/// The schemas that are Kubernetes' own types: the pod template of a BroadcastJob, and the same
/// and the spec of a Job in a CronJob.
fn native_parts() -> Vec<(&'static str, Value)> {
    let cron_job = schema_of("CronJob");
    let part = |schema: &Value, path: &str| {
        let path = path.replace('/', "/properties/");
        schema.pointer(&path).unwrap().clone()
    };
    let broadcast = part(&schema_of("BroadcastJob"), "/spec/template");
    let in_cron = part(&cron_job, "/spec/broadcastJobTemplate/spec/template");
    let job = part(&cron_job, "/spec/jobTemplate/spec");
    vec![
        ("template", broadcast),
        ("broadcastJobTemplate", in_cron),
        ("jobTemplate", job),
    ]
}

/// Calls `look` with every schema below and including this one, and its path.
fn each(path: &str, schema: &Value, look: &mut dyn FnMut(&str, &Value)) {
    look(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            each(&format!("{path}.{name}"), property, look);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            each(&format!("{path}.{key}"), &schema[key], look);
        }
    }
}

/// Whoever applies on the server owns items of a list, or the whole: the default of an unmarked list may change.
#[test]
fn each_list_says_how_it_is_merged() {
    for (kind, schema) in &*SCHEMAS {
        each(kind, schema, &mut |path, schema| {
            if schema["type"] == "array" {
                assert!(schema["x-kubernetes-list-type"].is_string(), "{path}");
            }
        });
    }
}

/// Two who apply on the server would each own some of the names, and none could take one away.
#[test]
fn the_names_of_nodes_have_one_owner() {
    let path = "/properties/spec/properties/nodeNames";
    let in_cron = format!("/properties/spec/properties/broadcastJobTemplate{path}");
    for (kind, path) in [("BroadcastJob", path), ("CronJob", &*in_cron)] {
        let schema = schema_of(kind);
        let names = schema.pointer(path).unwrap();
        assert_eq!(names["type"], "array", "{kind}");
        assert_eq!(names["x-kubernetes-list-type"], "atomic", "{kind}");
    }
}

/// kstatus calls an object in progress whose `observedGeneration` is not its generation.
#[test]
fn a_status_that_nobody_has_written_says_so() {
    for kind in ["BroadcastJob", "CronJob", "DaemonSet"] {
        let status = &schema_of(kind)["properties"]["status"];
        assert_eq!(
            status["default"],
            json!({"observedGeneration": -1}),
            "{kind}"
        );
    }
}

/// Else what nobody has looked at would have been looked at in its generation -1.
#[test]
fn a_status_that_nobody_has_written_is_read_as_none() {
    fn read<T: DeserializeOwned>(seen: &Value) -> T {
        serde_json::from_value(json!({"observedGeneration": seen})).unwrap()
    }
    let unseen = json!(-1);
    assert_eq!(
        read::<BroadcastJobStatus>(&unseen),
        BroadcastJobStatus::default()
    );
    assert_eq!(read::<CronJobStatus>(&unseen), CronJobStatus::default());
    assert_eq!(read::<DaemonSetStatus>(&unseen), DaemonSetStatus::default());
    for (seen, expected) in [
        (Value::Null, None),
        (json!(-1), None),
        (json!(0), Some(0)),
        (json!(3), Some(3)),
    ] {
        let of_job = read::<BroadcastJobStatus>(&seen).observed_generation;
        let of_cron = read::<CronJobStatus>(&seen).observed_generation;
        let of_set = read::<DaemonSetStatus>(&seen).observed_generation;
        assert_eq!([of_job, of_cron, of_set], [expected; 3], "{seen}");
    }
}

/// Old CRDs must store what a later operator writes.
#[test]
fn words_to_which_a_later_version_may_add_are_open() {
    let phase = &schema_of("BroadcastJob")["properties"]["status"]["properties"]["phase"];
    let results = &schema_of("NodeResultSlice")["properties"]["results"];
    let state = &results["items"]["properties"]["state"];
    for word in [phase, state] {
        assert_eq!(
            (&word["type"], &word["enum"]),
            (&json!("string"), &Value::Null)
        );
    }
    let status: BroadcastJobStatus =
        serde_json::from_value(json!({"phase": "hibernating", "failed": 3})).unwrap();
    assert_eq!((status.phase, status.failed), (None, 3));
}

/// `kubectl apply` keeps the object as compact JSON in an annotation, and annotations end at 256 KiB.
#[test]
fn what_kubectl_apply_stores_beside_the_object_fits_its_limit() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < 250_000, "{}: {size} bytes", crd.spec.names.kind);
    }
}

#[test]
fn a_template_describes_nothing_and_lets_unknown_fields_pass() {
    for (name, part) in native_parts() {
        each(name, &part, &mut |path, schema| {
            if path != name {
                assert_eq!(schema.get("description"), None, "{path}");
            }
            if schema.get("properties").is_some() {
                assert_eq!(
                    schema["x-kubernetes-preserve-unknown-fields"], true,
                    "{path}"
                );
            }
        });
    }
}

#[test]
fn a_template_takes_null_for_every_field_a_pod_can_do_without() {
    for (name, part) in native_parts() {
        each(name, &part, &mut |path, schema| {
            let empty = Vec::new();
            let required = schema["required"].as_array().unwrap_or(&empty);
            let Some(properties) = schema["properties"].as_object() else {
                return;
            };
            for (name, property) in properties {
                let nullable = property.get("nullable").is_some();
                assert_ne!(nullable, required.contains(&json!(name)), "{path}.{name}");
            }
        });
    }
}

/// It may be changed at any time, for later runs.
#[test]
fn nothing_in_a_template_of_a_cron_job_is_immutable() {
    let spec = schema_of("CronJob")["properties"]["spec"]["properties"].clone();
    for template in ["jobTemplate", "broadcastJobTemplate"] {
        each(template, &spec[template], &mut |path, schema| {
            let text = format!(
                "{}{}",
                schema["x-kubernetes-validations"], schema["description"]
            );
            let text = text.to_lowercase();
            assert!(
                !text.contains("oldself") && !text.contains("mmutable"),
                "{path}: {text}"
            );
        });
    }
}

#[test]
fn every_field_outside_the_template_is_described() {
    for (kind, part) in [
        ("BroadcastJob", "spec"),
        ("BroadcastJob", "status"),
        ("CronJob", "spec"),
        ("CronJob", "status"),
        ("NodeResultSlice", "results"),
    ] {
        each(
            part,
            &schema_of(kind)["properties"][part],
            &mut |path, schema| {
                let native = path.contains("template.") || path.contains("jobTemplate.spec.");
                if !native && !path.contains("etadata.") && !path.contains(".items") {
                    assert!(schema["description"].is_string(), "{kind} {path}");
                }
            },
        );
    }
}

#[test]
fn each_rule_says_what_to_do() {
    for kind in ["BroadcastJob", "CronJob", "NodeResultSlice"] {
        each(kind, &schema_of(kind), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert!(rule["message"].is_string(), "{path}: {}", rule["rule"]);
            }
        });
    }
}

#[test]
fn the_enums_of_the_schema_are_those_of_the_types() {
    let spec = schema_of("BroadcastJob")["properties"]["spec"]["properties"].clone();
    let completion = &spec["completionPolicy"]["properties"]["type"]["enum"];
    assert_eq!(*completion, json!(["Always", "Never"]));
    let failure = &spec["failurePolicy"]["properties"]["type"]["enum"];
    assert_eq!(*failure, json!(["FailFast", "Continue", "Pause"]));
    let spec = schema_of("CronJob")["properties"]["spec"]["properties"].clone();
    // The empty word is what batch/v1 takes for the default.
    let concurrency = &spec["concurrencyPolicy"]["enum"];
    assert_eq!(*concurrency, json!(["Allow", "Forbid", "Replace", ""]));
    for word in concurrency.as_array().unwrap() {
        serde_json::from_value::<ConcurrencyPolicy>(word.clone()).unwrap();
    }
    let missed = &spec["missedRunPolicy"]["enum"];
    assert_eq!(*missed, json!(["Latest", "Skip", "All"]));
    let dst = &spec["dstPolicy"]["enum"];
    assert_eq!(*dst, json!(["AsWritten", "Once"]));
}

#[test]
fn bounds_in_rules_and_messages_are_the_constants() {
    let schema = schema_of("CronJob").to_string();
    for bound in [
        format!("size() <= {MAX_NAME_LENGTH}"),
        format!("no more than {MAX_NAME_LENGTH} characters"),
        format!("self <= {MAX_JITTER_SECONDS}"),
        format!("\"default\":{DEFAULT_SUCCESSFUL_JOBS_HISTORY_LIMIT},"),
    ] {
        assert!(schema.contains(&bound), "{bound}");
    }
}

#[test]
fn a_cron_job_of_before_a_field_and_one_full_of_nulls_can_be_read() {
    let bare = json!({"schedule": "@daily"});
    let mut nulls = bare.clone();
    let spec = schema_of("CronJob")["properties"]["spec"].clone();
    for field in spec["properties"].as_object().unwrap().keys() {
        if field != "schedule" {
            nulls[field] = json!(null);
        }
    }
    for spec in [bare, nulls] {
        let spec: CronJobSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(spec.concurrency_policy, ConcurrencyPolicy::Allow);
        assert_eq!(spec.missed_run_policy, MissedRunPolicy::Latest);
        assert_eq!(spec.dst_policy, DstPolicy::AsWritten);
        assert!(!spec.suspend);
        let kept = (
            spec.successful_jobs_history_limit,
            spec.failed_jobs_history_limit,
        );
        assert_eq!(kept, (3, 1));
    }

    let status = schema_of("CronJob")["properties"]["status"].clone();
    let mut nulls = json!({});
    for field in status["properties"].as_object().unwrap().keys() {
        nulls[field] = json!(null);
    }
    for status in [json!({}), nulls] {
        let status: CronJobStatus = serde_json::from_value(status).unwrap();
        assert_eq!(status, CronJobStatus::default());
    }
    let reference = json!({"kind": "Job", "uid": null, "name": null});
    let reference: RunReference = serde_json::from_value(reference).unwrap();
    assert_eq!(reference.uid, None);
}
