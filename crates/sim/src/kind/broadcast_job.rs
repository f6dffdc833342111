//! The CEL rules of BroadcastJobs.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::meta::is_dns_label;
use super::schema;
use crate::status::Cause;

pub(super) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        schema::of_crd(include_str!(
            "../../../../crds/carillon.dev_broadcastjobs.yaml"
        ))
    })
}

pub(super) fn check(job: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut rule = |holds: bool, field: &str, found: &Value, why: &str| {
        if !holds {
            causes.push(Cause::invalid(field, found, why));
        }
    };
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    rule(
        old.is_some() || is_dns_label(name),
        "",
        &json!(name),
        "metadata.name must have at most 63 characters, only a-z, 0-9 and -",
    );
    let spec = &job["spec"];
    let completion = &spec["completionPolicy"];
    for field in ["activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        let value = &completion[field];
        let path = format!("spec.completionPolicy.{field}");
        rule(
            value.as_i64().is_none_or(|value| value >= 0),
            &path,
            value,
            "must be 0 or more seconds",
        );
        rule(
            completion["type"] != "Never" || value.is_null(),
            &path,
            value,
            "must not be set with type Never",
        );
    }
    fields(spec, &mut rule);
    let restarts = &spec["failurePolicy"]["restartLimit"];
    rule(
        restarts.as_i64().is_none_or(|limit| limit >= 0),
        "spec.failurePolicy.restartLimit",
        restarts,
        "must be 0 or more",
    );
    let pod = &spec["template"]["spec"];
    rule(
        restarts.is_null() || pod["restartPolicy"] != "Never",
        "spec.failurePolicy.restartLimit",
        restarts,
        "needs restartPolicy OnFailure, with Never no container restarts",
    );
    rule(
        parallelism(&spec["parallelism"]),
        "spec.parallelism",
        &spec["parallelism"],
        "must be a number from 1 to 2147483647 or a percentage from 1% to 100%",
    );
    rule(
        ["OnFailure", "Never"]
            .iter()
            .any(|policy| pod["restartPolicy"] == **policy),
        "spec.template.spec.restartPolicy",
        &pod["restartPolicy"],
        "must be OnFailure or Never",
    );
    for field in ["nodeName", "ephemeralContainers"] {
        let value = &pod[field];
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let path = format!("spec.template.spec.{field}");
        rule(empty, &path, value, "must not be set");
    }
    let meta = &spec["template"]["metadata"];
    for field in ["labels", "annotations", "finalizers"] {
        let path = format!("spec.template.metadata.{field}");
        rule(
            !keys(&meta[field]).any(|key| key.starts_with("carillon.dev/")),
            &path,
            &meta[field],
            "must not use the prefix carillon.dev/",
        );
    }
    rule(
        !keys(&meta["labels"])
            .any(|key| key == "broadcastjob-name" || key == "broadcastjob-controller-uid"),
        "spec.template.metadata.labels",
        &meta["labels"],
        "must not have broadcastjob-name or broadcastjob-controller-uid",
    );
    policies(spec, &mut rule);
    if let Some(old) = old {
        unchanged(spec, &old["spec"], &mut rule);
    }
    causes
}

/// Judges one rule: whether it holds, the field, what was found there, and what is expected.
type Rule<'r> = dyn FnMut(bool, &str, &Value, &str) + 'r;

/// Bounds of single fields, and fields that only Jobs have.
fn fields(spec: &Value, rule: &mut Rule<'_>) {
    for field in ["nodeLostTimeoutSeconds", "podTerminationTimeoutSeconds"] {
        rule(
            spec[field].as_i64().is_none_or(|seconds| seconds >= 10),
            &format!("spec.{field}"),
            &spec[field],
            "must be 10 or more seconds",
        );
    }
    for field in [
        "activeDeadlineSeconds",
        "backoffLimit",
        "suspend",
        "ttlSecondsAfterFinished",
    ] {
        rule(
            spec[field].is_null(),
            &format!("spec.{field}"),
            &spec[field],
            "is a field of Jobs",
        );
    }
}

/// Which policies do not go together.
fn policies(spec: &Value, rule: &mut Rule<'_>) {
    let (completion, pod) = (&spec["completionPolicy"], &spec["template"]["spec"]);
    let once = spec["executionPolicy"] == "AtMostOnce";
    let (policy, tries) = (&spec["podFailurePolicy"], &spec["backoffLimitPerNode"]);
    rule(
        !once || tries.as_i64().unwrap_or(0) == 0,
        "spec.backoffLimitPerNode",
        tries,
        "must be 0 with executionPolicy AtMostOnce",
    );
    rule(
        !once || pod["restartPolicy"] != "OnFailure",
        "spec.executionPolicy",
        &spec["executionPolicy"],
        "must not be AtMostOnce with restartPolicy OnFailure",
    );
    let mut rules = policy["rules"].as_array().into_iter().flatten();
    rule(
        !once || rules.all(|rule| rule["action"] != "Ignore"),
        "spec.podFailurePolicy",
        policy,
        "must not have the action Ignore with executionPolicy AtMostOnce",
    );
    rule(
        policy.is_null() || pod["restartPolicy"] == "Never",
        "spec.podFailurePolicy",
        policy,
        "needs restartPolicy Never",
    );
    rule(
        completion["type"] != "Never" || spec["noEligibleNodesPolicy"] == "Wait",
        "spec.noEligibleNodesPolicy",
        &spec["noEligibleNodesPolicy"],
        "must be Wait with completionPolicy type Never",
    );
    rule(
        completion["type"] != "Never" || spec["retryOf"].is_null(),
        "spec.retryOf",
        &spec["retryOf"],
        "must not be set with completionPolicy type Never",
    );
}

/// Which fields never change.
fn unchanged(spec: &Value, old: &Value, rule: &mut Rule<'_>) {
    let completion = &spec["completionPolicy"];
    for field in ["executionPolicy", "nodeNames", "retryOf"] {
        let path = format!("spec.{field}");
        let holds = spec[field] == old[field];
        rule(holds, &path, &spec[field], "is immutable");
    }
    rule(
        completion["type"] == old["completionPolicy"]["type"],
        "spec.completionPolicy.type",
        &completion["type"],
        "is immutable",
    );
    rule(
        spec["template"] == old["template"],
        "spec.template",
        &json!("object"),
        "is immutable",
    );
}

fn parallelism(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.strip_suffix('%').is_some_and(|number| {
            let plain =
                number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
            plain
                && number
                    .parse()
                    .is_ok_and(|number: u8| (1..=100).contains(&number))
        }),
        value => value
            .as_i64()
            .is_some_and(|number| (1..=i64::from(i32::MAX)).contains(&number)),
    }
}

/// Keys of a map, or items of a list.
fn keys(value: &Value) -> impl Iterator<Item = &str> {
    let map = value.as_object().into_iter().flat_map(Map::keys);
    map.map(String::as_str).chain(super::meta::texts(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn job(spec: &Value) -> Value {
        let mut job = json!({"metadata": {"name": "a"}, "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        }});
        for (key, value) in spec.as_object().unwrap() {
            job["spec"][key] = value.clone();
        }
        job
    }

    fn problems(mut job: Value, old: Option<&Value>) -> Vec<String> {
        let kind = Kind::named("broadcastjobs").unwrap();
        kind.decode(&mut job).unwrap();
        let problems = kind.problems(&job, old);
        problems.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn a_job_is_filled_in_and_kept_to_its_rules() {
        let mut good = job(&json!({}));
        Kind::named("broadcastjobs")
            .unwrap()
            .decode(&mut good)
            .unwrap();
        assert_eq!(good["spec"]["completionPolicy"], json!({"type": "Always"}));
        assert!(good["spec"]["parallelism"].is_null());
        assert_eq!(problems(good.clone(), None), [""; 0]);
        for (spec, field) in [
            (json!({"parallelism": 0}), "spec.parallelism"),
            (json!({"parallelism": "101%"}), "spec.parallelism"),
            (json!({"parallelism": true}), "spec.parallelism"),
            (json!({"suspend": true}), "spec.suspend"),
            (
                json!({"podTerminationTimeoutSeconds": 9}),
                "spec.podTerminationTimeoutSeconds",
            ),
            (
                json!({"failurePolicy": {"restartLimit": 1}}),
                "spec.failurePolicy.restartLimit",
            ),
            (
                json!({"completionPolicy": {"type": "Never", "ttlSecondsAfterFinished": 1}}),
                "spec.completionPolicy.ttlSecondsAfterFinished",
            ),
            (
                json!({"failurePolicy": {"type": "Retry"}}),
                "spec.failurePolicy.type",
            ),
            (
                json!({"executionPolicy": "AtMostOnce", "backoffLimitPerNode": 1}),
                "spec.backoffLimitPerNode",
            ),
            (
                json!({"executionPolicy": "AtMostOnce", "podFailurePolicy": {"rules": [{
                    "action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]},
                }]}}),
                "spec.podFailurePolicy",
            ),
            (
                json!({"completionPolicy": {"type": "Never"}, "noEligibleNodesPolicy": "Fail"}),
                "spec.noEligibleNodesPolicy",
            ),
            (
                json!({"template": {"spec": {}}}),
                "spec.template.spec.containers",
            ),
        ] {
            assert_eq!(problems(job(&spec), None), [field], "{spec}");
        }
    }

    #[test]
    fn what_a_job_runs_does_not_change() {
        let mut old = job(&json!({}));
        Kind::named("broadcastjobs")
            .unwrap()
            .decode(&mut old)
            .unwrap();
        assert_eq!(
            problems(job(&json!({"parallelism": "5%"})), Some(&old)),
            [""; 0]
        );
        for (field, value) in [
            ("executionPolicy", json!("AtMostOnce")),
            ("nodeNames", json!(["n1"])),
            (
                "retryOf",
                json!({"name": "other", "uid": "8e1f7555-983a-492f-b54e-0f1600cc4d19"}),
            ),
        ] {
            let found = problems(job(&json!({field: value})), Some(&old));
            assert_eq!(found, [format!("spec.{field}")]);
        }
        let mut new = job(&json!({"completionPolicy": {"type": "Never"}}));
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
        assert_eq!(
            problems(new, Some(&old)),
            ["spec.completionPolicy.type", "spec.template"]
        );
    }
}
