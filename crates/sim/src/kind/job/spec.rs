//! What the spec of a Job may be, and which of it may change.

use serde_json::{Map, Value, json};

use crate::kind::{non_negative, pod_template};
use crate::status::Cause;

const MOST_INDEXED: i64 = 100_000;
const MOST_RULES: usize = 20;
const LONGEST_LABEL: usize = 63;
const ACTIONS: [&str; 4] = ["FailJob", "FailIndex", "Ignore", "Count"];
/// Of a spec these are as they were when it was created.
const FIXED: [&str; 6] = [
    "completionMode",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "selector",
];

/// What is wrong with a spec by itself.
pub(super) fn check(job: &Value, causes: &mut Vec<Cause>) {
    let spec = &job["spec"];
    pod_template::check(&spec["template"], "spec.template", causes);
    non_negative::at_least_nothing(
        spec,
        "spec",
        &[
            "parallelism",
            "completions",
            "backoffLimit",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
            "activeDeadlineSeconds",
            "ttlSecondsAfterFinished",
        ],
        causes,
    );
    let mut rules = Rules { spec, causes };
    rules.mode(job["metadata"]["name"].as_str().unwrap_or_default());
    rules.per_index();
    rules.failure_policy();
    rules.success_policy();
    rules.replacement();
    rules.selector();
    rules.manager();
}

struct Rules<'a> {
    spec: &'a Value,
    causes: &'a mut Vec<Cause>,
}

impl Rules<'_> {
    fn require(&mut self, holds: bool, field: &str, why: &str) {
        if !holds {
            let found = self.spec.pointer(&pointer(field)).cloned();
            let cause = Cause::invalid(field, &found.unwrap_or_default(), why);
            self.causes.push(cause);
        }
    }

    fn number(&self, field: &str) -> Option<i64> {
        self.spec[field].as_i64()
    }

    fn is_indexed(&self) -> bool {
        self.spec["completionMode"] == "Indexed"
    }

    fn mode(&mut self, name: &str) {
        let mode = &self.spec["completionMode"];
        if mode != "NonIndexed" && mode != "Indexed" {
            let message = format!("Unsupported value: {mode}");
            let cause = Cause::new("FieldValueNotSupported", "spec.completionMode", message);
            self.causes.push(cause);
        }
        if !self.is_indexed() {
            return;
        }
        let Some(completions) = self.number("completions") else {
            let mut cause = Cause::required("spec.completions");
            cause.message += ": when completion mode is Indexed";
            return self.causes.push(cause);
        };
        let few = self.number("parallelism").unwrap_or(0) <= MOST_INDEXED;
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        self.require(few, "spec.parallelism", why);
        let host = format!("{name}-{}", completions.max(1) - 1);
        if host.len() > LONGEST_LABEL {
            let why = "will not able to create pod with invalid DNS label: must be no more than 63 characters";
            let cause = Cause::invalid("metadata.name", &json!(name), why);
            self.causes.push(cause);
        }
    }

    fn per_index(&mut self) {
        let (limit, most) = (
            self.number("backoffLimitPerIndex"),
            self.number("maxFailedIndexes"),
        );
        let indexed = self.is_indexed();
        let why = "requires indexed completion mode";
        self.require(limit.is_none() || indexed, "spec.backoffLimitPerIndex", why);
        let Some(most) = most else { return };
        let field = "spec.maxFailedIndexes";
        self.require(limit.is_some(), field, "requires backoffLimitPerIndex");
        let few = self.number("completions").is_none_or(|all| most <= all);
        self.require(few, field, "must be less than or equal to completions");
    }

    fn failure_policy(&mut self) {
        if self.spec["podFailurePolicy"].is_null() {
            return;
        }
        let policy = &self.spec["template"]["spec"]["restartPolicy"];
        let field = "spec.template.spec.restartPolicy";
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        self.require(policy == "Never", field, why);
        let rules = self.spec["podFailurePolicy"]["rules"].as_array();
        let rules = rules.map_or(&[][..], Vec::as_slice);
        let field = "spec.podFailurePolicy.rules";
        self.require(
            rules.len() <= MOST_RULES,
            field,
            "must have at most 20 items",
        );
        for (at, rule) in rules.iter().enumerate() {
            let of = |name: &str| format!("{field}[{at}]{name}");
            let action = &rule["action"];
            let known = ACTIONS.iter().any(|known| action == *known);
            self.require(
                known,
                &of(".action"),
                "supported values: FailJob, FailIndex, Ignore, Count",
            );
            let allowed = action != "FailIndex" || self.number("backoffLimitPerIndex").is_some();
            self.require(allowed, &of(".action"), "requires backoffLimitPerIndex");
            let (codes, conditions) = (&rule["onExitCodes"], &rule["onPodConditions"]);
            let one = codes.is_object() != conditions.is_array();
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            self.require(one, &of(""), why);
            if codes.is_object() {
                let values: Vec<i64> = codes["values"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_i64)
                    .collect();
                let sorted = !values.is_empty() && values.is_sorted_by(|a, b| a < b);
                self.require(
                    sorted,
                    &of(".onExitCodes.values"),
                    "must be ordered and unique",
                );
                let nothing = codes["operator"] == "In" && values.contains(&0);
                let why = "must not be 0 for the In operator";
                self.require(!nothing, &of(".onExitCodes.values"), why);
            }
        }
    }

    fn success_policy(&mut self) {
        if self.spec["successPolicy"].is_null() {
            return;
        }
        let indexed = self.is_indexed();
        let why = "requires indexed completion mode";
        self.require(indexed, "spec.successPolicy", why);
        let rules = self.spec["successPolicy"]["rules"].as_array();
        let rules = rules.map_or(&[][..], Vec::as_slice);
        let field = "spec.successPolicy.rules";
        let some = (1..=MOST_RULES).contains(&rules.len());
        self.require(some, field, "must have 1 to 20 items");
        for (at, rule) in rules.iter().enumerate() {
            let (list, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
            let one = list.is_string() || count.is_i64();
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            self.require(one, &format!("{field}[{at}]"), why);
            let count = count.as_i64().unwrap_or(1);
            let few = self.number("completions").is_none_or(|all| count <= all);
            let of_count = format!("{field}[{at}].succeededCount");
            self.require(few, &of_count, "must be less than or equal to completions");
        }
    }

    fn replacement(&mut self) {
        let policy = &self.spec["podReplacementPolicy"];
        let free = self.spec["podFailurePolicy"].is_null();
        let known = policy == "Failed" || free && policy == "TerminatingOrFailed";
        let why = "only Failed with podFailurePolicy, else Failed or TerminatingOrFailed";
        self.require(known, "spec.podReplacementPolicy", why);
    }

    fn selector(&mut self) {
        let wanted = self.spec["selector"]["matchLabels"].as_object();
        let labels = &self.spec["template"]["metadata"]["labels"];
        let mut wanted = wanted.into_iter().flatten();
        let selects = wanted.all(|(key, value)| labels[key] == *value);
        let why = "`selector` does not match template `labels`";
        self.require(selects, "spec.template.metadata.labels", why);
    }

    fn manager(&mut self) {
        let Some(manager) = self.spec["managedBy"].as_str() else {
            return;
        };
        let path = manager
            .split_once('/')
            .is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty());
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        self.require(path, "spec.managedBy", why);
        let short = manager.len() <= LONGEST_LABEL;
        self.require(
            short,
            "spec.managedBy",
            "Too long: may not be more than 63 bytes",
        );
    }
}

/// Where a field of the spec is.
fn pointer(field: &str) -> String {
    field
        .replacen("spec", "", 1)
        .replace(['.', '['], "/")
        .replace(']', "")
}

/// What has changed that may not.
pub(super) fn check_change(job: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let (new_spec, old_spec) = (&job["spec"], &old["spec"]);
    let mut fixed = |field: &str| {
        if new_spec[field] != old_spec[field] {
            let path = format!("spec.{field}");
            causes.push(Cause::invalid(path, &json!("…"), "field is immutable"));
        }
    };
    for field in FIXED {
        fixed(field);
    }
    let completions = &new_spec["completions"];
    let elastic = new_spec["completionMode"] == "Indexed"
        && completions.is_i64()
        && *completions == new_spec["parallelism"];
    if !elastic {
        fixed("completions");
    }
    let of = |job: &Value| {
        let template = job["spec"]["template"].clone();
        if is_relaxed(old) {
            unscheduled(template)
        } else {
            template
        }
    };
    if of(job) != of(old) {
        let why = "field is immutable";
        causes.push(Cause::invalid("spec.template", &json!("…"), why));
    }
}

/// Where a Job is suspended and nothing of it runs, where and how its pods run may change.
fn is_relaxed(old: &Value) -> bool {
    let status = &old["status"];
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let suspended = conditions.any(|c| c["type"] == "Suspended" && c["status"] == "True");
    let stopped = suspended || status["startTime"].is_null();
    old["spec"]["suspend"] == true && stopped && status["active"].as_i64().unwrap_or(0) == 0
}

/// A template without that.
fn unscheduled(mut template: Value) -> Value {
    let mut without = |path: &str, fields: &[&str]| {
        let object = template.pointer_mut(path).and_then(Value::as_object_mut);
        if let Some(object) = object {
            object.retain(|field, _| !fields.contains(&field.as_str()));
        }
    };
    without("/metadata", &["labels", "annotations"]);
    without("/spec/affinity", &["nodeAffinity"]);
    let scheduling = ["nodeSelector", "tolerations", "schedulingGates"];
    without("/spec", &scheduling);
    if template["spec"]["affinity"]
        .as_object()
        .is_some_and(Map::is_empty)
        && let Some(spec) = template["spec"].as_object_mut()
    {
        spec.remove("affinity");
    }
    for list in ["containers", "initContainers"] {
        let containers = template["spec"][list].as_array_mut();
        for container in containers.into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("resources");
            }
        }
    }
    if template["metadata"].as_object().is_some_and(Map::is_empty)
        && let Some(template) = template.as_object_mut()
    {
        template.remove("metadata");
    }
    template
}

#[cfg(test)]
mod tests {
    use crate::kind::job::tests::created;
    use crate::kind::job::{check, fill};
    use serde_json::{Value, json};

    fn fields(spec: &Value) -> Vec<String> {
        let causes = check(&created(spec), None);
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn what_a_job_may_not_be_is_named() {
        let none: Vec<String> = Vec::new();
        let rule = |rule: Value| json!({"rules": [rule]});
        let code = |values: Value| json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": values}});
        let good = json!({
            "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 2, "podFailurePolicy": rule(code(json!([3, 4]))),
            "successPolicy": rule(json!({"succeededCount": 2})),
            "managedBy": "carillon.dev/job-controller",
        });
        assert_eq!(fields(&good), none);
        for (spec, field) in [
            (json!({"completionMode": "Other"}), "spec.completionMode"),
            (
                json!({"completionMode": "Indexed", "completions": null, "parallelism": 1}),
                "spec.completions",
            ),
            (json!({"completions": -1}), "spec.completions"),
            (
                json!({"backoffLimitPerIndex": 1}),
                "spec.backoffLimitPerIndex",
            ),
            (json!({"maxFailedIndexes": 1}), "spec.maxFailedIndexes"),
            (
                json!({"podFailurePolicy": rule(code(json!([4, 3])))}),
                "spec.podFailurePolicy.rules[0].onExitCodes.values",
            ),
            (
                json!({"podFailurePolicy": rule(code(json!([0])))}),
                "spec.podFailurePolicy.rules[0].onExitCodes.values",
            ),
            (
                json!({"podFailurePolicy": rule(json!({"action": "FailJob"}))}),
                "spec.podFailurePolicy.rules[0]",
            ),
            (
                json!({"podFailurePolicy": rule(json!({"action": "FailIndex", "onPodConditions": []}))}),
                "spec.podFailurePolicy.rules[0].action",
            ),
            (
                json!({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}),
                "spec.podReplacementPolicy",
            ),
            (
                json!({"successPolicy": rule(json!({"succeededCount": 1}))}),
                "spec.successPolicy",
            ),
            (json!({"managedBy": "carillon"}), "spec.managedBy"),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}, "manualSelector": true}),
                "spec.template.metadata.labels",
            ),
        ] {
            assert_eq!(fields(&spec), [field], "{spec}");
        }
    }

    #[test]
    fn an_index_of_a_job_becomes_the_name_of_a_host() {
        let mut job = created(&json!({"completionMode": "Indexed", "completions": 11}));
        job["metadata"]["name"] = json!("a".repeat(61));
        assert_eq!(check(&job, None)[0].field, "metadata.name");
    }

    fn changed(old: &Value, change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = old.clone();
        change(&mut new);
        fill(&mut new);
        let causes = check(&new, Some(old));
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn completions_change_with_parallelism_where_they_have_indexes() {
        let plain = created(&json!({"completions": 3}));
        let edit = |job: &mut Value| {
            job["spec"]["completions"] = json!(5);
            job["spec"]["parallelism"] = json!(5);
        };
        assert_eq!(changed(&plain, edit), ["spec.completions"]);
        let indexed = created(&json!({"completions": 3, "completionMode": "Indexed"}));
        assert_eq!(changed(&indexed, edit), Vec::<String>::new());
        let alone = |job: &mut Value| job["spec"]["completions"] = json!(5);
        assert_eq!(changed(&indexed, alone), ["spec.completions"]);
        for field in [
            "managedBy",
            "backoffLimitPerIndex",
            "successPolicy",
            "selector",
        ] {
            let found = changed(&indexed, |job| job["spec"][field] = json!({}));
            assert!(found.contains(&format!("spec.{field}")), "{found:?}");
        }
    }

    #[test]
    fn where_a_suspended_job_runs_may_change_and_what_it_runs_may_not() {
        let schedule = |job: &mut Value| {
            let template = &mut job["spec"]["template"];
            template["metadata"]["annotations"] = json!({"a": "b"});
            template["spec"]["nodeSelector"] = json!({"disk": "ssd"});
            template["spec"]["affinity"] = json!({"nodeAffinity": {}});
            template["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
            job["spec"]["suspend"] = json!(false);
        };
        let image = |job: &mut Value| {
            job["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
        };
        let mut job = created(&json!({"suspend": true}));
        assert_eq!(changed(&job, schedule), Vec::<String>::new());
        assert_eq!(changed(&job, image), ["spec.template"]);
        job["status"] = json!({"startTime": "2026-01-01T00:00:00Z"});
        assert_eq!(changed(&job, schedule), ["spec.template"]);
        job["status"]["conditions"] = json!([{"type": "Suspended", "status": "True"}]);
        assert_eq!(changed(&job, schedule), Vec::<String>::new());
        job["status"]["active"] = json!(1);
        assert_eq!(changed(&job, schedule), ["spec.template"]);
        let running = created(&json!({}));
        assert_eq!(changed(&running, schedule), ["spec.template"]);
    }
}
