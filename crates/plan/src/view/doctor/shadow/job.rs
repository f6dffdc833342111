//! What Carillon would do now with a Job that kube-controller-manager serves.
//!
//! All that a planner has to know of a Job is stored, but for the back-off: each process remembers for itself when pods
//! have failed. It is told what pods tell that are still there. Where that may be less than kube-controller-manager
//! remembers, nothing is said of new pods.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use serde_json::{Value, json};

use super::{Shadow, WRITES_STATUS, changes};
use crate::job::action::{Action, Plan};
use crate::job::backoff::BackoffRecord;
use crate::job::unanswered::Unanswered;
use crate::job::{CompletionMode, Job, JobPod, JobPods, Limits, Snapshot, is_ours, plan};
use crate::object_key::{JOB, ObjectKey};
use crate::plan::Act;
use crate::pod::PodPhase;
use crate::view::read::{list, metadata, text};
use crate::written::Written;

/// Why nothing is said of new pods.
pub const BACKOFF_UNKNOWN: &str = "whether new pods are due: some that have failed are gone, and kube-controller-manager \
     alone remembers when; it waits up to ten minutes";
/// Why nothing is said of the end of a Job.
pub const END_UNKNOWN: &str = "how it has ended: its status does not say what was decided, as that of Kubernetes \
     before 1.31, and its counts alone do not lead there";
/// Why nothing is said of a Job at all.
pub const MODE_UNKNOWN: &str = "anything: it has a completion mode that Carillon does not know";

/// How a Job may end: what is decided first, and what says that it has happened.
const ENDS: [(&str, &str); 2] = [
    ("SuccessCriteriaMet", "Complete"),
    ("FailureTarget", "Failed"),
];

/// A Job of which a shadow can be made.
#[derive(Clone, Debug)]
pub struct StoredJob {
    job: Job,
    /// When its status was last written.
    written: Option<Timestamp>,
}

impl StoredJob {
    /// Reads a Job. `None`: it is not one that kube-controller-manager serves.
    pub fn read(object: &Value) -> Option<Self> {
        let meta = metadata(JOB, &object["metadata"]);
        let mut job = Job::read(meta, &object["spec"], &object["status"]);
        let by = job.spec.managed_by.as_deref();
        if !is_ours(by, true) || is_ours(by, false) {
            return None;
        }
        // No pod is made of it here, and there may be many.
        job.template = Written::default();
        let entries = list(&object["metadata"]["managedFields"]);
        let of_status = entries.filter(|one| one["subresource"] == "status");
        let times = of_status.filter_map(|one| text(&one["time"]).parse().ok());
        Some(Self {
            job,
            written: times.max(),
        })
    }

    /// Who it is.
    pub fn owner(&self) -> &ObjectKey {
        &self.job.meta.owner
    }
}

/// What would be done with a Job. `free`: the pods of its namespace that nothing controls.
pub fn job(stored: &StoredJob, pods: &JobPods, free: &JobPods, now: Timestamp) -> Shadow {
    let job = &stored.job;
    let owner = stored.owner();
    let mut shadow = Shadow {
        place: format!("Job {}/{}", owner.namespace, owner.name),
        status: json!(job.status),
        known: "docs/job.md#what-is-different",
        ..Shadow::default()
    };
    if let CompletionMode::Unknown(_) = job.spec.mode {
        shadow.not_compared = Some(MODE_UNKNOWN);
        return shadow;
    }
    let with = |backoff: &BackoffRecord| {
        let planned = planned(job, (pods, free), backoff, now);
        done(job, &planned)
    };
    let seen = seen(job, pods);
    let longest = longest(stored, pods, seen, now);
    let (soonest, latest) = (with(&seen), with(&longest));
    if soonest.iter().any(|one| !latest.contains(one)) {
        shadow.not_compared = Some(BACKOFF_UNKNOWN);
    }
    shadow.done = soonest;
    shadow.done.retain(|one| latest.contains(one));
    match ended_otherwise(job) {
        Ended::AsItWouldHere => {}
        Ended::Otherwise(how) => shadow.done.push(how),
        Ended::Unknown => shadow.not_compared = Some(END_UNKNOWN),
    }
    shadow
}

fn planned(
    job: &Job,
    (pods, free): (&JobPods, &JobPods),
    backoff: &BackoffRecord,
    now: Timestamp,
) -> Plan {
    plan(
        &Snapshot {
            job,
            pods,
            free,
            backoff,
            unanswered: &Unanswered::new(),
            limits: &Limits::default(),
        },
        now,
    )
}

/// Whether what became of a pod was known when the status was last written.
fn is_known(job: &Job, pod: &JobPod) -> bool {
    let uids = job.status.uncounted_terminated_pods.as_ref();
    let uid = pod.uid.to_string();
    let has = |uids: Option<&Vec<String>>| uids.is_some_and(|uids| uids.contains(&uid));
    !pod.tracked
        || uids.is_some_and(|uids| has(uids.succeeded.as_ref()) || has(uids.failed.as_ref()))
}

/// The back-off, as far as pods tell that are still there. Those that are new to the status the planner adds itself.
fn seen(job: &Job, pods: &JobPods) -> BackoffRecord {
    let known = || pods.values().filter(|pod| is_known(job, pod));
    let succeeded = known().filter(|pod| pod.phase == PodPhase::Succeeded);
    let failed = known().filter(|pod| pod.has_failed(job.spec.replaces_only_failed));
    BackoffRecord::default().after(
        succeeded.filter_map(|pod| pod.finished),
        failed.filter_map(|pod| pod.finished),
    )
}

/// The most that kube-controller-manager may remember: all failures that it has counted, and that the last of them was
/// when it has last written the status.
fn longest(
    stored: &StoredJob,
    pods: &JobPods,
    seen: BackoffRecord,
    now: Timestamp,
) -> BackoffRecord {
    let job = &stored.job;
    let failed =
        |pod: &&JobPod| is_known(job, pod) && pod.has_failed(job.spec.replaces_only_failed);
    let there = pods.values().filter(failed).count();
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let uncounted = uncounted.and_then(|uids| uids.failed.as_ref());
    let counted = usize::try_from(job.status.failed.unwrap_or(0)).unwrap_or(0);
    let counted = counted + uncounted.map_or(0, Vec::len);
    let rules = job.spec.failure_rules.iter().flatten();
    // Ignored failures are in no count.
    let ignores = rules.clone().any(|rule| rule.action == "Ignore");
    if counted <= there && !ignores {
        return seen;
    }
    let counted = u32::try_from(counted).unwrap_or(u32::MAX);
    BackoffRecord {
        failures: if ignores {
            u32::MAX
        } else {
            counted.max(seen.failures)
        },
        last: Some(stored.written.unwrap_or(now)).max(seen.last),
    }
}

/// Each thing that a plan does: the verb with the field that it follows from, and to what.
fn done(job: &Job, plan: &Plan) -> Vec<(String, String)> {
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let running = actions()
        .filter(|action| matches!(action, Action::RemovePod { .. }))
        .count();
    let mut all = Vec::new();
    for action in actions() {
        let object = action.object().unwrap_or_default();
        match action {
            Action::ConfirmCurrent | Action::ConfirmAbsent { .. } => {}
            Action::WriteStatus(write) => {
                all.extend(conditions(&job.status, &write.status));
                let changes = counts(&job.status, &write.status);
                if !changes.is_empty() {
                    all.push((WRITES_STATUS.to_owned(), changes));
                }
            }
            Action::CreatePod(pod) => {
                let object = match pod.index {
                    Some(index) => format!("{object} for index {index}"),
                    None => object,
                };
                all.push((format!("create a pod ({})", wanted(job)), object));
            }
            Action::RemovePod { .. } if job.spec.suspend => {
                all.push(("delete a pod (spec.suspend)".to_owned(), object));
            }
            Action::RemovePod { .. } => {
                let why = format!("{running} more than {}", wanted(job));
                all.push((format!("delete a pod ({why})"), object));
            }
            Action::StopPod { .. } => {
                all.push(("delete a pod (the Job ends)".to_owned(), object));
            }
            Action::AdoptPod { .. } => {
                all.push(("adopt a pod (spec.selector)".to_owned(), object));
            }
            Action::DisownPod { .. } => {
                all.push(("give a pod away (spec.selector)".to_owned(), object));
            }
            Action::ReleasePod { .. } => {
                let verb = if job.has_finished() || job.meta.deleting {
                    "let a pod go (finalizer batch.kubernetes.io/job-tracking)"
                } else {
                    "count a pod, and take its finalizer"
                };
                all.push((verb.to_owned(), object));
            }
            Action::DeleteJob => {
                let seconds = job.spec.ttl_seconds_after_finished.unwrap_or(0);
                let since = format!("spec.ttlSecondsAfterFinished {seconds}");
                all.push(("delete it".to_owned(), since));
            }
        }
    }
    all
}

/// How many pods are wanted, in the words of the spec.
fn wanted(job: &Job) -> String {
    let parallelism = format!("spec.parallelism {}", job.spec.parallelism);
    match job.spec.completions {
        Some(completions) => format!("{parallelism}, spec.completions {completions}"),
        None => parallelism,
    }
}

/// Conditions that are new or say something else, as what would be done.
fn conditions(old: &JobStatus, new: &JobStatus) -> Vec<(String, String)> {
    let says = |one: &JobCondition| (one.type_.clone(), one.status.clone(), one.reason.clone());
    let known: HashSet<_> = old.conditions.iter().flatten().map(says).collect();
    let new = new.conditions.iter().flatten();
    let new = new.filter(|one| !known.contains(&says(one)));
    let mut all: Vec<(String, String)> = new.map(condition).collect();
    all.dedup();
    all
}

fn condition(one: &JobCondition) -> (String, String) {
    let reason = one.reason.as_deref().unwrap_or_default();
    let verb = match &*one.type_ {
        "SuccessCriteriaMet" | "Complete" => "complete it",
        "FailureTarget" | "Failed" => "fail it",
        "Suspended" if one.status == "True" => {
            return ("suspend it".to_owned(), "spec.suspend".to_owned());
        }
        "Suspended" => return ("resume it".to_owned(), "spec.suspend".to_owned()),
        other => return (format!("write condition {other}"), one.status.clone()),
    };
    let object = match field_of(reason) {
        Some(field) => format!("{reason} ({field})"),
        None => reason.to_owned(),
    };
    (verb.to_owned(), object)
}

/// The field that ends a Job for this reason.
fn field_of(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "CompletionsReached" => "spec.completions",
        "SuccessPolicy" => "spec.successPolicy",
        "PodFailurePolicy" => "spec.podFailurePolicy",
        "BackoffLimitExceeded" => "spec.backoffLimit",
        "DeadlineExceeded" => "spec.activeDeadlineSeconds",
        "MaxFailedIndexesExceeded" => "spec.maxFailedIndexes",
        "FailedIndexes" => "spec.backoffLimitPerIndex",
        _ => return None,
    })
}

/// What else of the status would be another. What is not there is none; times are of the moment, and what is not
/// counted yet is told with the pods.
fn counts(old: &JobStatus, new: &JobStatus) -> String {
    let plain = |status: &JobStatus| {
        let mut status = json!(status);
        let Some(fields) = status.as_object_mut() else {
            return status;
        };
        for other in ["conditions", "uncountedTerminatedPods"] {
            fields.remove(other);
        }
        for count in ["active", "ready", "terminating", "succeeded", "failed"] {
            fields.entry(count).or_insert(json!(0));
        }
        for indexes in ["completedIndexes", "failedIndexes"] {
            fields.entry(indexes).or_insert(json!(""));
        }
        for time in ["startTime", "completionTime"] {
            if let Some(value) = fields.get_mut(time) {
                *value = json!("set");
            }
        }
        status
    };
    changes(&plain(old), &plain(new))
}

/// Whether a Job that has ended would have ended so here.
#[derive(Debug, Eq, PartialEq)]
enum Ended {
    /// Or it has not ended.
    AsItWouldHere,
    Otherwise((String, String)),
    Unknown,
}

fn ended_otherwise(job: &Job) -> Ended {
    let Some(told) = job.ended() else {
        return Ended::AsItWouldHere;
    };
    let at = told.last_transition_time.as_ref().map(|time| time.0);
    let mut before = job.clone();
    let conditions = before.status.conditions.get_or_insert_default();
    conditions.retain(|one| !ENDS.iter().any(|(_, terminal)| one.type_ == *terminal));
    let is_decided = ENDS.iter().any(|(interim, _)| before.has(interim));
    // Its pods may be gone, and those that are there were counted.
    let none = JobPods::default();
    let planned = planned(
        &before,
        (&none, &none),
        &BackoffRecord::default(),
        at.unwrap_or_default(),
    );
    let mut actions = planned.steps.iter().flat_map(|step| &step.actions);
    let status = actions.find_map(|action| match action {
        Action::WriteStatus(write) => Some(&write.status),
        _ => None,
    });
    let here = ENDS.iter().find_map(|(interim, terminal)| {
        let all = status?.conditions.iter().flatten();
        let mut true_ones = all.filter(|one| one.status == "True");
        let found = true_ones.find(|one| one.type_ == *interim)?;
        Some((*terminal, found.reason.as_deref().unwrap_or_default()))
    });
    let reason = told.reason.as_deref().unwrap_or_default();
    match here {
        Some((type_, why)) if type_ == told.type_ && (why == reason || !is_decided) => {
            Ended::AsItWouldHere
        }
        Some((type_, why)) if is_decided => {
            let object = format!("{type_} {why}, and not {} {reason}", told.type_);
            Ended::Otherwise(("have ended it as was decided".to_owned(), object))
        }
        _ => Ended::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::job_pods::PodsOfJobs;
    use super::*;

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn uid(n: u32) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")
    }

    /// A Job as kube-controller-manager leaves it; `spec` and `status` are laid over a usable one.
    fn object(spec: &Value, status: &Value) -> Value {
        let mut object = json!({
            "metadata": {"namespace": "ops", "name": "sum", "uid": UID, "creationTimestamp": at(0).to_string(),
                "managedFields": [{"subresource": "status", "time": at(5).to_string()}]},
            "spec": {"parallelism": 2, "completions": 5,
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
                "template": {"spec": {"restartPolicy": "Never"}}},
            "status": {"startTime": at(0).to_string(), "active": 2, "ready": 0, "terminating": 0,
                "uncountedTerminatedPods": {}},
        });
        for (part, fields) in [("spec", spec), ("status", status)] {
            for (key, value) in fields.as_object().into_iter().flatten() {
                object[part][key] = value.clone();
            }
        }
        object
    }

    /// A pod of it; whether it is to be counted, and what of it is otherwise.
    fn pod(n: u32, phase: &str, tracked: bool) -> Value {
        let finalizers: &[&str] = if tracked {
            &["batch.kubernetes.io/job-tracking"]
        } else {
            &[]
        };
        let ended = json!([{"name": "c", "state": {"terminated": {"exitCode": 3, "finishedAt": at(4).to_string()}}}]);
        let has_ended = matches!(phase, "Failed" | "Succeeded");
        json!({
            "metadata": {"namespace": "ops", "name": format!("sum-{n}"), "uid": uid(10 + n), "finalizers": finalizers,
                "creationTimestamp": at(1).to_string(),
                "labels": {"batch.kubernetes.io/controller-uid": UID},
                "annotations": {"batch.kubernetes.io/job-completion-index": (n - 1).to_string()},
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "uid": UID, "controller": true}]},
            "status": {"phase": phase, "containerStatuses": if has_ended { ended } else { json!([]) }},
        })
    }

    fn running(n: u32) -> Value {
        pod(n, "Running", true)
    }

    fn shadow(object: &Value, pods: &[Value], now: i64) -> Shadow {
        let stored = StoredJob::read(object).unwrap();
        let mut known = PodsOfJobs::default();
        for pod in pods {
            known.add(pod);
        }
        let owner = stored.owner();
        job(&stored, known.owned(owner), known.free("ops"), at(now))
    }

    fn words(shadow: &Shadow) -> Vec<String> {
        let all = shadow.done.iter();
        all.map(|(verb, object)| format!("{verb}: {object}"))
            .collect()
    }

    fn told(type_: &str, reason: &str) -> Value {
        json!({"type": type_, "status": "True", "reason": reason, "message": "m",
               "lastTransitionTime": at(8).to_string()})
    }

    /// An Indexed Job of which each index may fail once.
    fn indexed() -> Value {
        json!({"completionMode": "Indexed", "backoffLimitPerIndex": 1})
    }

    #[test]
    fn with_a_job_that_kube_controller_manager_is_done_with_nothing_would_be_done() {
        let none = json!({});
        let suspended = json!([told("Suspended", "JobSuspended")]);
        let mut suspended = object(
            &json!({"suspend": true}),
            &json!({"active": 0, "conditions": suspended}),
        );
        suspended["status"]["conditions"][0]["message"] = json!("Job suspended");
        suspended["status"]
            .as_object_mut()
            .unwrap()
            .remove("startTime");
        let ended = json!([
            told("SuccessCriteriaMet", "CompletionsReached"),
            told("Complete", "CompletionsReached")
        ]);
        let failed = json!([told("Failed", "BackoffLimitExceeded")]);
        for (what, object, pods) in [
            (
                "it runs",
                object(&none, &none),
                vec![running(1), running(2)],
            ),
            ("it is suspended", suspended, vec![]),
            (
                "some have succeeded",
                object(&none, &json!({"succeeded": 4, "active": 1})),
                vec![running(1), pod(2, "Succeeded", false)],
            ),
            (
                "a failed pod is replaced when its back-off is over",
                object(&none, &json!({"failed": 1, "active": 1})),
                vec![running(1), pod(2, "Failed", false)],
            ),
            (
                "a failed pod of an index waits for its back-off",
                object(&indexed(), &json!({"active": 1})),
                vec![running(1), pod(2, "Failed", true)],
            ),
            (
                "it is complete",
                object(
                    &none,
                    &json!({"succeeded": 5, "active": 0, "conditions": ended}),
                ),
                vec![],
            ),
            (
                "it has failed, in a Kubernetes that does not say what it has decided",
                object(
                    &none,
                    &json!({"failed": 7, "active": 0, "conditions": failed}),
                ),
                vec![],
            ),
        ] {
            let mut object = object;
            if what.contains("index") {
                object["status"]["completedIndexes"] = json!("2-4");
                object["status"]["succeeded"] = json!(3);
            }
            let shadow = shadow(&object, &pods, 6);
            assert_eq!(
                (words(&shadow), shadow.not_compared),
                (vec![], None),
                "{what}"
            );
        }
    }

    /// Panics unless each of these is among what would be done.
    #[track_caller]
    fn assert_done(cases: &[(Value, Vec<Value>, i64, &str)]) {
        for (object, pods, now, says) in cases {
            let shadow = shadow(object, pods, *now);
            let words = words(&shadow);
            assert!(
                words.iter().any(|one| one.contains(says)),
                "{says}: {words:#?}"
            );
        }
    }

    #[test]
    fn pods_that_would_be_created_or_deleted_name_the_field_that_it_follows_from() {
        let none = json!({});
        let both = || vec![running(1), running(2)];
        let one_failed = json!({"active": 1, "completedIndexes": "2-4", "succeeded": 3});
        assert_done(&[
            (
                object(&none, &none),
                vec![running(1)],
                6,
                "create a pod (spec.parallelism 2, spec.completions 5): sum-",
            ),
            (
                object(&json!({"parallelism": 1}), &none),
                both(),
                6,
                "delete a pod (1 more than spec.parallelism 1, spec.completions 5): sum-",
            ),
            (
                object(&json!({"suspend": true}), &none),
                both(),
                6,
                "delete a pod (spec.suspend): sum-1",
            ),
            (
                object(&json!({"suspend": true}), &none),
                both(),
                6,
                "suspend it: spec.suspend",
            ),
            (
                object(&indexed(), &one_failed),
                vec![running(1), pod(2, "Failed", true)],
                60,
                "for index 1",
            ),
        ]);
    }

    #[test]
    fn an_end_that_would_come_names_the_field_that_it_follows_from() {
        let (none, both) = (json!({}), vec![running(1), running(2)]);
        let deadline = object(&json!({"activeDeadlineSeconds": 60}), &none);
        let ended = json!([
            told("SuccessCriteriaMet", "CompletionsReached"),
            told("Complete", "CompletionsReached")
        ]);
        let ended = json!({"succeeded": 5, "active": 0, "conditions": ended});
        assert_done(&[
            (
                deadline.clone(),
                both.clone(),
                61,
                "fail it: DeadlineExceeded (spec.activeDeadlineSeconds)",
            ),
            (deadline, both, 61, "delete a pod (the Job ends): sum-1"),
            (
                object(&json!({"backoffLimit": 0}), &none),
                vec![running(1), pod(2, "Failed", true)],
                6,
                "fail it: BackoffLimitExceeded (spec.backoffLimit)",
            ),
            (
                object(&json!({"ttlSecondsAfterFinished": 30}), &ended),
                vec![],
                60,
                "delete it: spec.ttlSecondsAfterFinished 30",
            ),
            (
                object(&none, &ended),
                vec![pod(1, "Succeeded", true)],
                9,
                "let a pod go (finalizer batch.kubernetes.io/job-tracking): sum-1",
            ),
        ]);
    }

    #[test]
    fn pods_that_would_be_counted_adopted_or_given_away_are_named() {
        let none = json!({});
        let changed = |n: u32, field: &str, value: Value| {
            let mut pod = running(n);
            pod["metadata"][field] = value;
            pod
        };
        let free = changed(3, "ownerReferences", json!([]));
        let relabelled = changed(2, "labels", json!({}));
        assert_done(&[
            (
                object(&none, &none),
                vec![running(1), pod(2, "Succeeded", true)],
                6,
                "count a pod, and take its finalizer: sum-2",
            ),
            (
                object(&none, &none),
                vec![running(1), running(2), free],
                6,
                "adopt a pod (spec.selector): sum-3",
            ),
            (
                object(&none, &none),
                vec![running(1), relabelled],
                6,
                "give a pod away (spec.selector): sum-2",
            ),
            (
                object(&none, &json!({"active": 1})),
                vec![running(1), running(2)],
                6,
                "write its status: active 1 -> 2",
            ),
        ]);
    }

    #[test]
    fn of_pods_that_may_wait_for_a_back_off_nobody_sees_nothing_is_said() {
        let gone = object(&json!({}), &json!({"failed": 3, "active": 1}));
        let pods = [running(1)];
        let early = shadow(&gone, &pods, 40);
        assert_eq!(
            (words(&early), early.not_compared),
            (vec![], Some(BACKOFF_UNKNOWN))
        );
        // The status was last written at 5, and the third failure holds creations back for 40 s.
        let late = shadow(&gone, &pods, 46);
        assert!(words(&late)[0].starts_with("create a pod"), "{late:?}");
        assert_eq!(late.not_compared, None);
        let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
        let ignores = object(
            &json!({"podFailurePolicy": {"rules": rules}}),
            &json!({"active": 1}),
        );
        assert_eq!(
            shadow(&ignores, &pods, 500).not_compared,
            Some(BACKOFF_UNKNOWN)
        );
        assert_eq!(shadow(&ignores, &pods, 606).not_compared, None);
    }

    #[test]
    fn a_job_that_has_ended_otherwise_than_was_decided_is_a_difference() {
        let ended = |conditions: &[Value]| {
            let status = json!({"succeeded": 5, "active": 0, "conditions": conditions});
            shadow(&object(&json!({}), &status), &[], 9)
        };
        let contrary = ended(&[
            told("FailureTarget", "DeadlineExceeded"),
            told("Complete", "CompletionsReached"),
        ]);
        let says = "have ended it as was decided: Failed DeadlineExceeded, and not Complete CompletionsReached";
        assert_eq!(words(&contrary), [says]);
        let unfounded = ended(&[told("Failed", "PodFailurePolicy")]);
        assert_eq!(
            (words(&unfounded), unfounded.not_compared),
            (vec![], Some(END_UNKNOWN))
        );
    }

    #[test]
    fn jobs_of_others_and_of_a_mode_that_nobody_knows_are_not_compared() {
        for (managed_by, read) in [
            (None, true),
            (Some("kubernetes.io/job-controller"), true),
            (Some("carillon.dev/job-controller"), false),
            (Some("example.com/other"), false),
        ] {
            let object = object(&json!({"managedBy": managed_by}), &json!({}));
            assert_eq!(StoredJob::read(&object).is_some(), read, "{managed_by:?}");
        }
        let later = object(&json!({"completionMode": "Later"}), &json!({}));
        assert_eq!(shadow(&later, &[], 9).not_compared, Some(MODE_UNKNOWN));
    }

    #[test]
    fn what_is_said_once_is_said_only_if_it_is_said_again_of_the_same_status() {
        let (none, one) = (json!({}), json!({"active": 1}));
        let both = [running(1), running(2)];
        let first = shadow(&object(&none, &one), &both, 6);
        assert_eq!(words(&first).len(), 1);
        assert_eq!(
            words(&first.still(shadow(&object(&none, &one), &both, 8))).len(),
            1
        );
        let written = object(&none, &json!({"active": 1, "ready": 1}));
        assert!(first.still(shadow(&written, &both, 8)).says_nothing());
        let settled = shadow(&object(&none, &none), &both, 8);
        assert!(first.still(settled).says_nothing());
        // A deadline that has passed is the same, though its time is another.
        let late = object(&json!({"activeDeadlineSeconds": 60}), &none);
        let look = |now| shadow(&late, &both, now);
        let still = look(61).still(look(63));
        assert_eq!(words(&still), words(&look(61)));
    }
}
