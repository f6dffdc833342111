//! CronJobs of batch/v1.

use carillon_oracle::cron_job::schedule::Schedule;
use serde_json::{Value, json};

use super::{non_negative, pod_template};
use crate::status::Cause;

/// The name of a Job has this one in it, and the minutes.
const LONGEST_NAME: usize = 52;

pub(super) fn fill(cron: &mut Value) {
    for part in ["spec", "status"] {
        if !cron[part].is_object() {
            cron[part] = json!({});
        }
    }
    if let Some(spec) = cron["spec"].as_object_mut() {
        spec.retain(|field, value| field != "concurrencyPolicy" || value != "");
        for (field, value) in [
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(3)),
            ("failedJobsHistoryLimit", json!(1)),
        ] {
            spec.entry(field).or_insert(value);
        }
    }
    // The Job gets its own defaults when it is created.
    let template = &mut cron["spec"]["jobTemplate"]["spec"]["template"];
    if template.is_object() {
        pod_template::fill(template);
    }
    if let Some(status) = cron["status"].as_object_mut()
        && status.get("active") == Some(&json!([]))
    {
        status.remove("active");
    }
}

pub(super) fn begin(cron: &mut Value) {
    cron["status"] = json!({});
}

pub(super) fn check(cron: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &cron["spec"];
    let mut causes = Vec::new();
    let name = cron["metadata"]["name"].as_str().unwrap_or_default();
    if old.is_none() && name.len() > LONGEST_NAME {
        let why = "must be no more than 52 characters";
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    if schedule.is_empty() {
        causes.push(Cause::required("spec.schedule"));
    } else if Schedule::parse(schedule, "").is_none() {
        let why = "cannot be parsed";
        causes.push(Cause::invalid("spec.schedule", &json!(schedule), why));
    } else if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        causes.push(Cause::invalid("spec.schedule", &json!(schedule), why));
    }
    let zone = &spec["timeZone"];
    let changed = old.is_none_or(|old| old["spec"]["timeZone"] != *zone);
    if zone == "" {
        let why = "timeZone must be nil or non-empty string";
        causes.push(Cause::invalid("spec.timeZone", zone, why));
    } else if let Some(name) = zone.as_str().filter(|_| changed)
        && Schedule::parse("@daily", name).is_none()
    {
        causes.push(Cause::invalid("spec.timeZone", zone, "unknown time zone"));
    }
    let policy = &spec["concurrencyPolicy"];
    if !["Allow", "Forbid", "Replace"]
        .iter()
        .any(|known| policy == *known)
    {
        let message = format!("Unsupported value: {policy}");
        causes.push(Cause::new(
            "FieldValueNotSupported",
            "spec.concurrencyPolicy",
            message,
        ));
    }
    let counts = [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ];
    non_negative::at_least_nothing(spec, "spec", &counts, &mut causes);
    let of_job = &spec["jobTemplate"]["spec"];
    if !of_job["selector"].is_null() {
        let message = "Invalid value: selector: `selector` will be auto-generated";
        let path = "spec.jobTemplate.spec.selector";
        causes.push(Cause::new("FieldValueInvalid", path, message));
    }
    let path = "spec.jobTemplate.spec.template";
    pod_template::check(&of_job["template"], path, &mut causes);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(spec: &Value) -> Value {
        let mut cron = json!({"metadata": {"name": "a"}, "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}},
        }});
        for (key, value) in spec.as_object().unwrap() {
            cron["spec"][key] = value.clone();
        }
        fill(&mut cron);
        cron
    }

    #[test]
    fn a_cron_job_is_filled_in_and_kept_to_its_rules() {
        let good = cron(&json!({"concurrencyPolicy": ""}));
        assert_eq!(good["spec"]["concurrencyPolicy"], "Allow");
        assert_eq!(good["spec"]["successfulJobsHistoryLimit"], 3);
        assert_eq!(good["status"], json!({}));
        assert_eq!(check(&good, None), []);
        for (spec, field) in [
            (json!({"schedule": "* * * *"}), "spec.schedule"),
            (json!({"schedule": ""}), "spec.schedule"),
            (json!({"schedule": "TZ=UTC @daily"}), "spec.schedule"),
            (json!({"schedule": "60 * * * *"}), "spec.schedule"),
            (json!({"timeZone": ""}), "spec.timeZone"),
            (json!({"timeZone": "No/Where"}), "spec.timeZone"),
            (
                json!({"concurrencyPolicy": "Maybe"}),
                "spec.concurrencyPolicy",
            ),
            (
                json!({"failedJobsHistoryLimit": -1}),
                "spec.failedJobsHistoryLimit",
            ),
        ] {
            let causes = check(&cron(&spec), None);
            assert_eq!(causes.len(), 1, "{causes:?}");
            assert_eq!(causes[0].field, field);
        }
    }

    #[test]
    fn only_a_new_name_has_to_be_short() {
        let mut long = cron(&json!({}));
        long["metadata"]["name"] = json!("a".repeat(53));
        assert_eq!(check(&long, None)[0].field, "metadata.name");
        assert_eq!(check(&long, Some(&long)), []);
    }
}
