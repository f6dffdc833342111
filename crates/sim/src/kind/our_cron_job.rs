//! The CEL rules of CronJobs of carillon.dev. Those about the text of a schedule are taken together:
//! it can be read, or it cannot.

use std::sync::OnceLock;

use carillon_oracle::cron_job::schedule::Schedule;
use serde_json::{Map, Value, json};

use super::{broadcast_job, non_negative, schema};
use crate::status::Cause;

/// The name of a child has this one in it, and the minutes.
const LONGEST_NAME: usize = 52;
const A_DAY: i64 = 86_400;

pub(super) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA
        .get_or_init(|| schema::of_crd(include_str!("../../../../crds/carillon.dev_cronjobs.yaml")))
}

pub(super) fn check(cron: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &cron["spec"];
    let mut causes = Vec::new();
    let counts = [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "jitterSeconds",
    ];
    non_negative::at_least_nothing(spec, "spec", &counts, &mut causes);
    let mut rule = |holds: bool, field: &str, found: &Value, why: &str| {
        if !holds {
            causes.push(Cause::invalid(field, found, why));
        }
    };
    let name = cron["metadata"]["name"].as_str().unwrap_or_default();
    rule(
        old.is_some() || name.len() <= LONGEST_NAME,
        "metadata.name",
        &json!(name),
        "must be no more than 52 characters",
    );
    let [of_job, of_broadcast_job] =
        ["jobTemplate", "broadcastJobTemplate"].map(|field| &spec[field]);
    rule(
        of_job.is_object() != of_broadcast_job.is_object(),
        "spec",
        &json!("object"),
        "must have exactly one of jobTemplate and broadcastJobTemplate",
    );
    rule(
        old.is_some() || !of_broadcast_job.is_object() || !name.contains('.'),
        "metadata.name",
        &json!(name),
        "must not have dots with broadcastJobTemplate",
    );
    rule(
        spec["missedRunPolicy"] != "All" || spec["concurrencyPolicy"] != "Replace",
        "spec.missedRunPolicy",
        &spec["missedRunPolicy"],
        "must not be All with concurrencyPolicy Replace",
    );
    rule(
        spec["jitterSeconds"].as_i64().is_none_or(|s| s <= A_DAY),
        "spec.jitterSeconds",
        &spec["jitterSeconds"],
        "must be 0 to 86400 seconds",
    );
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let kept = old.is_some_and(|old| old["spec"]["schedule"] == *schedule);
    rule(
        kept || Schedule::parse(schedule, "").is_some() && !schedule.contains("TZ"),
        "spec.schedule",
        &spec["schedule"],
        "is no schedule",
    );
    rule(
        spec["timeZone"].is_null() || !schedule.contains("TZ"),
        "spec.timeZone",
        &spec["timeZone"],
        "cannot be used together with TZ or CRON_TZ in schedule",
    );
    for field in ["jobTemplate", "broadcastJobTemplate"] {
        for part in ["labels", "annotations"] {
            let words = &spec[field]["metadata"][part];
            let ours = words.as_object().into_iter().flat_map(Map::keys);
            rule(
                !ours.into_iter().any(|key| key.starts_with("carillon.dev/")),
                &format!("spec.{field}.metadata.{part}"),
                words,
                "must not use the prefix carillon.dev/",
            );
        }
    }
    if of_job.is_object() {
        let policy = &of_job["spec"]["template"]["spec"]["restartPolicy"];
        rule(
            ["OnFailure", "Never"].iter().any(|known| policy == *known),
            "spec.jobTemplate.spec.template.spec.restartPolicy",
            policy,
            "must be OnFailure or Never",
        );
        rule(
            of_job["spec"]["selector"].is_null(),
            "spec.jobTemplate.spec.selector",
            &of_job["spec"]["selector"],
            "will be auto-generated",
        );
    }
    if of_broadcast_job.is_object() {
        let job = json!({"metadata": {"name": "a"}, "spec": of_broadcast_job["spec"]});
        causes.extend(broadcast_job::check(&job, None));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn cron(spec: &Value) -> Value {
        let mut cron = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}},
        }});
        for (key, value) in spec.as_object().unwrap() {
            cron["spec"][key] = value.clone();
        }
        cron
    }

    fn kind() -> &'static Kind {
        Kind::named("cronjobs.carillon.dev").unwrap()
    }

    #[test]
    fn defaults_come_from_the_schema() {
        let mut cron = cron(&json!({}));
        kind().decode(&mut cron).unwrap();
        assert_eq!(kind().problems(&cron, None), []);
        let spec = &cron["spec"];
        assert_eq!(spec["missedRunPolicy"], "Latest");
        assert_eq!(spec["successfulJobsHistoryLimit"], 3);
        assert_eq!(spec["suspend"], false);
    }

    #[test]
    fn a_zone_may_be_one_that_nobody_knows() {
        let unknown = cron(&json!({"timeZone": "No/Where"}));
        assert_eq!(check(&unknown, None), []);
    }

    #[test]
    fn what_the_rules_forbid_is_named() {
        for (spec, field) in [
            (json!({"jobTemplate": null}), "spec"),
            (json!({"schedule": "60 * * * *"}), "spec.schedule"),
            (json!({"schedule": "TZ=UTC @daily"}), "spec.schedule"),
            (json!({"jitterSeconds": 86_401}), "spec.jitterSeconds"),
            (json!({"jitterSeconds": -1}), "spec.jitterSeconds"),
            (
                json!({"startingDeadlineSeconds": -1}),
                "spec.startingDeadlineSeconds",
            ),
            (
                json!({"missedRunPolicy": "All", "concurrencyPolicy": "Replace"}),
                "spec.missedRunPolicy",
            ),
            (
                json!({"jobTemplate": null, "broadcastJobTemplate": {"spec": {"template": {}}}}),
                "spec.template.spec.restartPolicy",
            ),
        ] {
            let causes = check(&cron(&spec), None);
            assert_eq!(causes.len(), 1, "{spec}: {causes:?}");
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
