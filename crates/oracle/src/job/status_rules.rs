//! What the API server refuses in the status of a Job (`ValidateJobUpdateStatus` of 1.36), each rule
//! judged where the thing it is about changes: old damage is in nobody's way.

use std::collections::BTreeSet;

use serde_json::Value;

use super::indexes;
use crate::object::{at, is_true, list, number, text, time};

/// A field of a status, and why it is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// From the root of the Job.
    pub field: &'static str,
    /// In the API server's words, where those are short.
    pub why: String,
}

const CONDITIONS: &str = "status.conditions";
/// Conditions that stay once they are True.
const FOR_EVER: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];
/// Conditions that are not True at the same time.
const APART: [(&str, &str); 4] = [
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
];

/// What is wrong with a Job whose status was `old`'s.
pub fn refused(old: &Value, new: &Value) -> Vec<Refused> {
    let mut found = Vec::new();
    let change = Change { old, new };
    change.counts(&mut found);
    change.uncounted(&mut found);
    change.conditions(&mut found);
    change.end(&mut found);
    change.times(&mut found);
    change.indexes(&mut found);
    found
}

struct Change<'v> {
    old: &'v Value,
    new: &'v Value,
}

fn refuse(found: &mut Vec<Refused>, field: &'static str, holds: bool, why: &str) {
    if !holds {
        let why = why.to_owned();
        found.push(Refused { field, why });
    }
}

impl Change<'_> {
    fn changed(&self, path: &[&str]) -> bool {
        let of = |job| at(job, &["status"]).and_then(|status| at(status, path));
        of(self.old) != of(self.new)
    }

    fn turned_on(&self, type_: &str) -> bool {
        is_true(self.new, type_) && !is_true(self.old, type_)
    }

    /// Complete or Failed.
    fn is_finished(&self) -> bool {
        is_true(self.new, "Complete") || is_true(self.new, "Failed")
    }

    fn finishes(&self) -> bool {
        self.turned_on("Complete") || self.turned_on("Failed")
    }

    fn counts(&self, found: &mut Vec<Refused>) {
        let of = |job, field| number(job, &["status", field]);
        for (name, field) in [
            ("active", "status.active"),
            ("ready", "status.ready"),
            ("succeeded", "status.succeeded"),
            ("failed", "status.failed"),
            ("terminating", "status.terminating"),
        ] {
            let positive = of(self.new, name) >= 0;
            refuse(found, field, positive, "must be greater than or equal to 0");
        }
        let fell = |field| of(self.new, field) < of(self.old, field);
        let why = "cannot decrease the counter";
        refuse(found, "status.failed", !fell("failed"), why);
        let spec = &self.new["spec"];
        let elastic = is_indexed(self.new)
            && spec["completions"].is_i64()
            && spec["completions"] == spec["parallelism"];
        let kept = elastic || !fell("succeeded");
        refuse(found, "status.succeeded", kept, why);
        let judged = self.changed(&["ready"]) || self.changed(&["active"]);
        let less = of(self.new, "ready") <= of(self.new, "active");
        let why = "cannot set more ready pods than active";
        refuse(found, "status.ready", !judged || less, why);
    }

    fn uncounted(&self, found: &mut Vec<Refused>) {
        let field = "status.uncountedTerminatedPods";
        let mut known = BTreeSet::new();
        for uid in uncounted(self.new) {
            refuse(found, field, !uid.is_empty(), "must not be empty");
            refuse(found, field, known.insert(uid), "Duplicate value");
        }
    }

    fn conditions(&self, found: &mut Vec<Refused>) {
        for type_ in FOR_EVER {
            let kept = is_true(self.new, type_) || !is_true(self.old, type_);
            let why = format!("cannot disable the {type_}=True condition");
            refuse(found, CONDITIONS, kept, &why);
        }
        for (one, other) in APART {
            let judged = self.turned_on(one) || self.turned_on(other);
            let both = is_true(self.new, one) && is_true(self.new, other);
            let why = format!("cannot set {one}=True and {other}=True conditions");
            refuse(found, CONDITIONS, !(judged && both), &why);
        }
        let target = is_true(self.new, "FailureTarget");
        let judged = self.turned_on("Failed") || self.changed(&["failedIndexes"]);
        let early = judged && is_true(self.new, "Failed") && !target;
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        refuse(found, CONDITIONS, !early, why);
        let met = is_true(self.new, "SuccessCriteriaMet");
        let early = self.turned_on("Complete") && !met;
        let why =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        refuse(found, CONDITIONS, !early, why);
        let late = self.turned_on("SuccessCriteriaMet") && is_true(self.old, "Complete");
        let why = "cannot set SuccessCriteriaMet=True for a Job that is already Complete";
        refuse(found, CONDITIONS, !late, why);
    }

    /// Nothing runs, and nothing is left to count, in a Job that has ended.
    fn end(&self, found: &mut Vec<Refused>) {
        for (name, field) in [
            ("active", "status.active"),
            ("terminating", "status.terminating"),
        ] {
            let judged = self.finishes() || self.changed(&[name]);
            let none = number(self.new, &["status", name]) == 0;
            let why = format!("{name}>0 is invalid for finished job");
            refuse(found, field, !(judged && self.is_finished()) || none, &why);
        }
        let judged = self.finishes() || self.changed(&["uncountedTerminatedPods"]);
        let none = uncounted(self.new).next().is_none();
        let why = "uncountedTerminatedPods needs to be empty for finished job";
        let field = "status.uncountedTerminatedPods";
        refuse(found, field, !(judged && self.is_finished()) || none, why);
    }

    fn times(&self, found: &mut Vec<Refused>) {
        let spec = &self.new["spec"];
        let start = |job| time(job, &["status", "startTime"]);
        let judged = self.finishes() || self.changed(&["startTime"]);
        let never_started = spec["suspend"] == true && spec["completions"] == 0;
        let known = start(self.new).is_some() || never_started;
        let field = "status.startTime";
        let why = "startTime is required for finished job";
        refuse(found, field, !(judged && self.is_finished()) || known, why);
        let resumes = is_true(self.old, "Suspended") && !is_true(self.new, "Suspended");
        let moved = start(self.old).is_some() && start(self.old) != start(self.new);
        let fixed = spec["suspend"] != true && !resumes;
        let why = "startTime cannot be modified for an unsuspended Job";
        refuse(found, field, !(moved && fixed), why);

        let done = |job| time(job, &["status", "completionTime"]);
        let field = "status.completionTime";
        let complete = is_true(self.new, "Complete");
        let judged = self.finishes() || self.changed(&["completionTime"]);
        let without = judged && complete && done(self.new).is_none();
        refuse(
            found,
            field,
            !without,
            "completionTime is required for Complete jobs",
        );
        let with = judged && !complete && done(self.new).is_some();
        let why = "completionTime cannot be set for an incomplete job";
        refuse(found, field, !with, why);
        let rewritten = done(self.old).is_some() && done(self.old) != done(self.new);
        refuse(found, field, !rewritten, "field is immutable");
        let early = done(self.new).is_some() && done(self.new) < start(self.new);
        let why = "completionTime cannot be set before startTime";
        refuse(found, field, !(judged && early), why);
    }

    fn indexes(&self, found: &mut Vec<Refused>) {
        let spec = &self.new["spec"];
        let completions = number(spec, &["completions"]);
        let of = |field| text(self.new, &["status", field]);
        for (name, field) in [
            ("completedIndexes", "status.completedIndexes"),
            ("failedIndexes", "status.failedIndexes"),
        ] {
            if !self.changed(&[name]) {
                continue;
            }
            let readable = indexes::strictly(of(name), completions).is_some();
            let why = format!("{:?} is no list of indexes below {completions}", of(name));
            refuse(found, field, readable, &why);
        }
        let indexed = is_indexed(self.new) || of("completedIndexes").is_empty();
        let judged = self.changed(&["completedIndexes"]);
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        refuse(found, "status.completedIndexes", !judged || indexed, why);
        let per_index = at(spec, &["backoffLimitPerIndex"]).is_some();
        let none = at(self.new, &["status", "failedIndexes"]).is_none();
        let judged = self.changed(&["failedIndexes"]);
        let field = "status.failedIndexes";
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        refuse(found, field, !judged || none || per_index, why);
        let judged = judged || self.changed(&["completedIndexes"]);
        let read = |field| indexes::leniently(of(field), completions);
        let both = read("completedIndexes")
            .intersection(&read("failedIndexes"))
            .next()
            .copied();
        let why = "failedIndexes and completedIndexes overlap";
        refuse(found, field, !(judged && both.is_some()), why);
    }
}

fn is_indexed(job: &Value) -> bool {
    text(job, &["spec", "completionMode"]) == "Indexed"
}

/// Uids of both lists.
fn uncounted(job: &Value) -> impl Iterator<Item = &str> {
    ["succeeded", "failed"]
        .into_iter()
        .flat_map(|of| list(job, &["status", "uncountedTerminatedPods", of]))
        .map(|uid| uid.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(spec: &Value, status: &Value) -> Value {
        json!({"spec": spec, "status": status})
    }

    fn on(types: &[&str]) -> Value {
        let conditions = types.iter().map(|t| json!({"type": t, "status": "True"}));
        conditions.collect()
    }

    /// The fields that are refused when a status becomes another one.
    fn fields(spec: &Value, old: &Value, new: &Value) -> Vec<&'static str> {
        let found = refused(&job(spec, old), &job(spec, new));
        found.into_iter().map(|refused| refused.field).collect()
    }

    fn complete() -> Value {
        json!({
            "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:05Z",
            "succeeded": 1, "conditions": on(&["SuccessCriteriaMet", "Complete"]),
        })
    }

    fn failed() -> Value {
        json!({
            "startTime": "2026-01-01T00:00:00Z", "failed": 1,
            "conditions": on(&["FailureTarget", "Failed"]),
        })
    }

    #[test]
    fn an_end_in_one_write_or_in_two_is_taken() {
        let spec = json!({"completions": 1});
        let none = json!({});
        assert_eq!(fields(&spec, &none, &complete()), Vec::<&str>::new());
        assert_eq!(fields(&spec, &none, &failed()), Vec::<&str>::new());
        let met =
            json!({"startTime": "2026-01-01T00:00:00Z", "conditions": on(&["SuccessCriteriaMet"])});
        assert_eq!(fields(&spec, &met, &complete()), Vec::<&str>::new());
    }

    #[test]
    fn each_rule_refuses_what_breaks_it() {
        let (none, spec) = (json!({}), json!({"completions": 3, "parallelism": 2}));
        let with = |mut status: Value, field: &str, value: Value| {
            status[field] = value;
            status
        };
        let two = json!({"failed": 2, "succeeded": 2});
        let started = json!({"startTime": "2026-01-01T00:00:00Z"});
        let cases = [
            (&none, json!({"terminating": -1}), "status.terminating"),
            (&two, json!({"failed": 1, "succeeded": 2}), "status.failed"),
            (
                &two,
                json!({"failed": 2, "succeeded": 1}),
                "status.succeeded",
            ),
            (&none, json!({"active": 1, "ready": 2}), "status.ready"),
            (
                &none,
                json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}}),
                "status.uncountedTerminatedPods",
            ),
            (
                &none,
                json!({"uncountedTerminatedPods": {"failed": [""]}}),
                "status.uncountedTerminatedPods",
            ),
            (&none, with(complete(), "active", json!(1)), "status.active"),
            (
                &none,
                with(failed(), "terminating", json!(1)),
                "status.terminating",
            ),
            (
                &none,
                with(
                    failed(),
                    "uncountedTerminatedPods",
                    json!({"failed": ["a"]}),
                ),
                "status.uncountedTerminatedPods",
            ),
            (
                &none,
                with(failed(), "startTime", Value::Null),
                "status.startTime",
            ),
            (
                &started,
                json!({"startTime": "2026-01-01T00:00:01Z"}),
                "status.startTime",
            ),
            (&started, none.clone(), "status.startTime"),
            (
                &none,
                with(complete(), "completionTime", Value::Null),
                "status.completionTime",
            ),
            (
                &none,
                with(failed(), "completionTime", json!("2026-01-01T00:00:05Z")),
                "status.completionTime",
            ),
            (
                &complete(),
                with(complete(), "completionTime", json!("2026-01-01T00:00:06Z")),
                "status.completionTime",
            ),
            (
                &none,
                with(complete(), "completionTime", json!("2025-12-31T23:59:59Z")),
                "status.completionTime",
            ),
            (
                &none,
                json!({"completedIndexes": "0"}),
                "status.completedIndexes",
            ),
            (&none, json!({"failedIndexes": ""}), "status.failedIndexes"),
        ];
        for (old, new, field) in cases {
            assert_eq!(fields(&spec, old, &new), [field], "{new}");
        }
    }

    #[test]
    fn conditions_stay_come_in_order_and_exclude_each_other() {
        let spec = json!({"completions": 1});
        let status = |types: &[&str]| {
            let mut status = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": on(types)});
            if types.contains(&"Complete") {
                status["completionTime"] = json!("2026-01-01T00:00:05Z");
            }
            status
        };
        for (old, new) in [
            (&["FailureTarget"][..], &[][..]),
            (&["SuccessCriteriaMet"], &[]),
            (&[], &["Failed"]),
            (&[], &["Complete"]),
            (
                &["SuccessCriteriaMet"],
                &["SuccessCriteriaMet", "FailureTarget"],
            ),
        ] {
            let found = fields(&spec, &status(old), &status(new));
            assert_eq!(found, [CONDITIONS], "{old:?} to {new:?}");
        }
        let found = fields(&spec, &failed(), &status(&["FailureTarget"]));
        assert!(found.contains(&CONDITIONS));
        let found = fields(&spec, &complete(), &status(&["SuccessCriteriaMet"]));
        assert!(found.contains(&CONDITIONS));
    }

    #[test]
    fn indexes_are_in_order_below_completions_and_in_one_list_only() {
        let spec = json!({
            "completionMode": "Indexed", "completions": 5, "parallelism": 2, "backoffLimitPerIndex": 1,
        });
        let none = json!({});
        let good = json!({"completedIndexes": "0,2-3", "failedIndexes": "1"});
        assert_eq!(fields(&spec, &none, &good), Vec::<&str>::new());
        for bad in ["1,0", "5", "3-3", "a", "0-1,1", "0,", "4-2"] {
            let found = fields(&spec, &none, &json!({"completedIndexes": bad}));
            assert_eq!(found, ["status.completedIndexes"], "{bad}");
        }
        let both = json!({"completedIndexes": "0-2", "failedIndexes": "1"});
        assert_eq!(fields(&spec, &none, &both), ["status.failedIndexes"]);
    }

    #[test]
    fn succeeded_may_fall_where_completions_may() {
        let elastic = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
        let (three, two) = (json!({"succeeded": 3}), json!({"succeeded": 2}));
        assert_eq!(fields(&elastic, &three, &two), Vec::<&str>::new());
    }

    #[test]
    fn start_time_moves_when_a_job_is_suspended_or_resumed() {
        let suspended = json!({"suspend": true});
        let (spec, none) = (json!({"suspend": false}), json!({}));
        let started = json!({"startTime": "2026-01-01T00:00:00Z"});
        assert_eq!(fields(&suspended, &started, &none), Vec::<&str>::new());
        let old = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": on(&["Suspended"])});
        let resumed = json!({"startTime": "2026-01-01T00:00:09Z", "conditions": [
            {"type": "Suspended", "status": "False"}]});
        assert_eq!(fields(&spec, &old, &resumed), Vec::<&str>::new());
    }

    #[test]
    fn old_damage_is_in_nobodys_way() {
        let spec = json!({"completions": 3, "parallelism": 2});
        let damaged = json!({"conditions": on(&["Failed", "Complete"]), "active": 1,
            "completedIndexes": "7,1", "ready": 0});
        let mut touched = damaged.clone();
        touched["terminating"] = json!(0);
        let found = fields(&spec, &damaged, &touched);
        assert_eq!(found, Vec::<&str>::new());
    }

    #[test]
    fn a_suspended_job_without_work_ends_without_a_start() {
        let spec = json!({"suspend": true, "completions": 0});
        let mut ended = complete();
        ended["startTime"] = Value::Null;
        assert_eq!(fields(&spec, &json!({}), &ended), Vec::<&str>::new());
    }
}
