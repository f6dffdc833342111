//! Jobs and CronJobs: what a sync costs with so many completions, or so much that is active.

use std::collections::BTreeSet;

use carillon_plan::cron_job::{self, Child, ChildKind, Children, CronJob};
use carillon_plan::job::action::Action;
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::unanswered::Unanswered;
use carillon_plan::job::{self, Job, JobPod, JobPods, Limits};
use carillon_plan::meta::Meta;
use carillon_plan::object_key::{CRON_JOB, JOB, ObjectKey};
use carillon_plan::pod::PodPhase;
use carillon_plan::{Uid, interlock};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cost::Cost;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn uid(n: usize) -> Uid {
    let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
    uid.parse().expect("a uid")
}

fn job(spec: &Value, status: &Value) -> Job {
    let meta = Meta::new(
        ObjectKey::of(JOB, "ops", "render", Uid::MAX),
        now() - SignedDuration::from_mins(1),
    );
    Job::read(meta, spec, status)
}

/// A Job with its pods.
struct Native {
    job: Job,
    pods: JobPods,
}

impl Native {
    fn snapshot<T>(&self, look: impl FnOnce(&job::Snapshot<'_>) -> T) -> T {
        look(&job::Snapshot {
            job: &self.job,
            pods: &self.pods,
            free: &JobPods::new(),
            backoff: &BackoffRecord::default(),
            unanswered: &Unanswered::new(),
            limits: &Limits::default(),
        })
    }

    fn measure(&self, repeats: usize) -> Cost {
        self.snapshot(|snapshot| {
            Cost::of_plans(
                repeats,
                || job::plan(snapshot, now()),
                |plan| interlock::job::verify(snapshot, plan, now()),
            )
        })
    }
}

/// An Indexed Job of which every second index is done, with no pods: the next 500 are created.
pub(crate) fn completions(done: usize, repeats: usize) -> Cost {
    let indexes: Vec<String> = (0..done).map(|n| (2 * n).to_string()).collect();
    let spec = json!({
        "completionMode": "Indexed", "completions": 2 * done, "parallelism": 2 * done,
        "template": {"spec": {"restartPolicy": "Never"}},
    });
    let status = json!({
        "succeeded": done, "completedIndexes": indexes.join(","), "active": 0, "ready": 0,
        "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {},
    });
    let native = Native {
        job: job(&spec, &status),
        pods: JobPods::new(),
    };
    native.measure(repeats)
}

/// A Job with so many pods that run, and room for one more.
pub(crate) fn active(pods: usize, repeats: usize) -> Cost {
    let spec = |parallelism: usize| {
        json!({
            "parallelism": parallelism, "completions": 2 * pods,
            "template": {"spec": {"restartPolicy": "Never"}},
        })
    };
    let mut native = Native {
        job: job(&spec(pods), &json!({})),
        pods: JobPods::new(),
    };
    while native.pods.len() < pods {
        let plan = native.snapshot(|snapshot| job::plan(snapshot, now()));
        for action in plan.steps.into_iter().flat_map(|step| step.actions) {
            match action {
                Action::CreatePod(new) => {
                    let pod = JobPod {
                        uid: uid(native.pods.len()),
                        phase: PodPhase::Running,
                        tracked: true,
                        created: now(),
                        ..JobPod::default()
                    };
                    native.pods.insert(new.name.into(), pod);
                }
                Action::WriteStatus(write) => native.job.status = write.status,
                _ => {}
            }
        }
    }
    native.job = Job {
        status: native.job.status,
        ..job(&spec(pods + 1), &json!({}))
    };
    native.measure(repeats)
}

/// A CronJob of which so many runs are active, and the next is due.
pub(crate) fn runs(active: usize, repeats: usize) -> Cost {
    let name = |n: usize| format!("sync-{n:08}");
    let references = (0..active).map(|n| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "ops", "name": name(n), "uid": uid(n).to_string()})
    });
    let references: Vec<Value> = references.collect();
    let owner = ObjectKey::of(CRON_JOB, "ops", "sync", Uid::MAX);
    let meta = Meta::new(owner, now() - SignedDuration::from_hours(1));
    let spec = json!({
        "schedule": "* * * * *", "concurrencyPolicy": "Allow",
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never"}}}},
    });
    let last = now() - SignedDuration::from_mins(1);
    let status = json!({
        "active": references, "running": active, "observedGeneration": 1,
        "lastScheduleTime": last.to_string(),
    });
    let cron = CronJob::read(meta, None, &spec, &status);
    let child = |n: usize| {
        let child = Child {
            uid: uid(n),
            rv: 1,
            scheduled: Some(last),
            started: Some(last),
            ..Child::default()
        };
        ((ChildKind::Job, name(n).into()), child)
    };
    let children: Children = (0..active).map(child).collect();
    let snapshot = cron_job::Snapshot {
        cron: &cron,
        children: &children,
        gone: &BTreeSet::new(),
        absent: &BTreeSet::new(),
        conflicts: &BTreeSet::new(),
        template: &cron_job::Template::Accepted,
        refusal: None,
    };
    Cost::of_plans(
        repeats,
        || cron_job::plan(&snapshot, now()),
        |plan| interlock::cron_job::verify(&snapshot, plan, now()),
    )
}
