//! What the rules refuse and let pass.

mod pods;
mod status;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{rules, verify};
use crate::job::action::{Action, NewPod, Plan, StatusWrite, Step};
use crate::job::backoff::BackoffRecord;
use crate::job::unanswered::Unanswered;
use crate::job::{Job, JobPod, JobPods, Limits, Snapshot, plan};
use crate::meta::Meta;
use crate::object_key::{JOB, ObjectKey};
use crate::pod::PodPhase;
use crate::uid::Uid;

fn uid(n: u64) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn job(spec: &Value, status: &Value) -> Job {
    let mut spec = spec.clone();
    spec["template"] = json!({"spec": {"restartPolicy": "Never"}});
    let meta = Meta::new(ObjectKey::of(JOB, "ops", "sum", uid(0)), now());
    Job::read(meta, &spec, status)
}

fn pod(n: u64, phase: PodPhase, index: Option<u32>) -> (Box<str>, JobPod) {
    let pod = JobPod {
        uid: uid(n),
        phase,
        index,
        tracked: true,
        created: now(),
        finished: Some(now()),
        ..JobPod::default()
    };
    (format!("p{n}").into(), pod)
}

fn judge(job: &Job, pods: &JobPods, actions: Vec<Action>) -> Result<(), &'static str> {
    let steps = actions.into_iter().map(|action| Step::needed(vec![action]));
    judge_steps(job, pods, steps.collect())
}

fn judge_steps(job: &Job, pods: &JobPods, steps: Vec<Step>) -> Result<(), &'static str> {
    let plan = Plan {
        steps,
        ..Plan::default()
    };
    on(job, pods, |snapshot| verify(snapshot, &plan, now())).map_err(|trip| trip.rule)
}

fn on<T>(job: &Job, pods: &JobPods, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
    look(&Snapshot {
        job,
        pods,
        free: &JobPods::new(),
        backoff: &BackoffRecord::default(),
        unanswered: &Unanswered::new(),
        limits: &Limits::default(),
    })
}

/// Of a Job without pods, some of which may still come to be.
fn verified(job: &Job, unanswered: &Unanswered, plan: &Plan) -> Result<(), &'static str> {
    on(job, &JobPods::new(), |snapshot| {
        let snapshot = Snapshot {
            unanswered,
            ..*snapshot
        };
        verify(&snapshot, plan, now()).map_err(|trip| trip.rule)
    })
}

fn create(name: &str, index: Option<u32>) -> Action {
    Action::CreatePod(NewPod {
        name: name.to_owned(),
        index,
        ..NewPod::default()
    })
}

fn write(status: Value) -> Action {
    Action::WriteStatus(Box::new(StatusWrite {
        status: serde_json::from_value(status).unwrap(),
        created: 0,
        removed: 0,
        backoff: BackoffRecord::default(),
    }))
}

fn release(n: u64) -> Action {
    Action::ReleasePod {
        name: format!("p{n}"),
        uid: uid(n),
        handled: None,
    }
}

fn stop(n: u64) -> Action {
    let name = format!("p{n}");
    Action::StopPod { name, uid: uid(n) }
}

fn remove(n: u64) -> Action {
    Action::RemovePod {
        name: format!("p{n}"),
        uid: uid(n),
        tracked: true,
    }
}

fn on_true(types: &[&str]) -> Value {
    let all = types.iter().map(|t| json!({"type": t, "status": "True"}));
    all.collect()
}

#[test]
fn the_planners_own_plans_pass() {
    let spec = json!({"parallelism": 3, "completions": 6});
    let mut pods = JobPods::new();
    for phases in [
        vec![],
        vec![PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed],
        vec![PodPhase::Running; 5],
    ] {
        pods.extend((1..).zip(phases).map(|(n, phase)| pod(n, phase, None)));
        let job = job(&spec, &json!({}));
        let verdict = on(&job, &pods, |snapshot| {
            verify(snapshot, &plan(snapshot, now()), now())
        });
        assert_eq!(verdict, Ok(()));
    }
}

#[test]
fn pods_are_created_by_who_has_asked_and_only_as_many_as_may_run() {
    let spec = json!({"parallelism": 2, "completions": 6});
    let open = job(&spec, &json!({}));
    let pods = JobPods::from([pod(1, PodPhase::Running, None)]);
    let confirm = Action::ConfirmCurrent;
    let asked = |creates: Vec<Action>| [vec![confirm.clone()], creates].concat();
    assert_eq!(judge(&open, &pods, asked(vec![create("a", None)])), Ok(()));
    let unasked = judge(&open, &pods, vec![create("a", None)]);
    assert_eq!(unasked, Err(rules::CONFIRMED_FIRST));
    let two = asked(vec![create("a", None), create("b", None)]);
    assert_eq!(judge(&open, &pods, two), Err(rules::PARALLELISM));
    let taken = asked(vec![create("p1", None)]);
    assert_eq!(judge(&open, &pods, taken), Err(rules::ONE_PER_INDEX));
    let mut suspended = spec.clone();
    suspended["suspend"] = json!(true);
    let ending = json!({"conditions": on_true(&["FailureTarget"])});
    for job in [job(&suspended, &json!({})), job(&spec, &ending)] {
        let one = asked(vec![create("a", None)]);
        assert_eq!(judge(&job, &pods, one), Err(rules::STARTS));
    }
}

#[test]
fn an_index_has_one_pod() {
    let spec = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed"});
    let job = job(&spec, &json!({"completedIndexes": "1", "succeeded": 1}));
    let pods = JobPods::from([pod(1, PodPhase::Running, Some(0))]);
    let created = |index| {
        let actions = vec![Action::ConfirmCurrent, create("a", index)];
        judge(&job, &pods, actions)
    };
    assert_eq!(created(Some(2)), Ok(()));
    for index in [Some(0), Some(1), Some(4), None] {
        assert_eq!(created(index), Err(rules::ONE_PER_INDEX), "{index:?}");
    }
}

#[test]
fn a_pod_is_listed_then_released_then_counted() {
    let spec = json!({"parallelism": 2, "completions": 6});
    let pods = JobPods::from([pod(1, PodPhase::Succeeded, None)]);
    let listed = json!({"uncountedTerminatedPods": {"succeeded": [uid(1).to_string()]}});
    let (fresh, known) = (job(&spec, &json!({})), job(&spec, &listed));
    let both = vec![write(listed.clone()), release(1)];
    assert_eq!(judge(&fresh, &pods, both), Ok(()));
    assert_eq!(judge(&fresh, &pods, vec![release(1)]), Err(rules::RELEASE));
    let counted = || write(json!({"succeeded": 1}));
    assert_eq!(judge(&known, &pods, vec![counted()]), Err(rules::COUNTS));
    assert_eq!(judge(&known, &JobPods::new(), vec![counted()]), Ok(()));
    assert_eq!(judge(&fresh, &pods, vec![counted()]), Err(rules::COUNTS));
    let unknown = judge(&fresh, &JobPods::new(), vec![write(listed)]);
    assert_eq!(unknown, Err(rules::COUNTS));
}

#[test]
fn a_job_ends_when_nothing_runs_and_never_comes_back() {
    let spec = json!({"parallelism": 2, "completions": 1});
    let met = json!({"conditions": on_true(&["SuccessCriteriaMet"])});
    let done = || write(json!({"conditions": on_true(&["SuccessCriteriaMet", "Complete"])}));
    let job = job(&spec, &met);
    let pods = JobPods::from([pod(1, PodPhase::Running, None)]);
    assert_eq!(judge(&job, &pods, vec![done()]), Err(rules::END));
    assert_eq!(judge(&job, &JobPods::new(), vec![done()]), Ok(()));
    let unanswered: Unanswered = [("sum-x".to_owned(), now())].into();
    let plan = Plan {
        steps: vec![Step::needed(vec![done()])],
        ..Plan::default()
    };
    assert_eq!(verified(&job, &unanswered, &plan), Err(rules::END));
    let back = judge(&job, &pods, vec![write(json!({}))]);
    assert_eq!(back, Err(rules::TERMINAL));
}

#[test]
fn a_job_is_complete_with_as_many_successes_as_it_asks_for() {
    let met = |failed: &[u64], succeeded: i32, indexes: &str| {
        let failed: Vec<String> = failed.iter().map(|n| uid(*n).to_string()).collect();
        let reached = json!({"type": "SuccessCriteriaMet", "status": "True",
            "reason": "CompletionsReached"});
        write(json!({
            "conditions": [reached], "succeeded": succeeded, "completedIndexes": indexes,
            "uncountedTerminatedPods": {"failed": failed},
        }))
    };
    let ends = |spec: &Value, status: &Value, index, write| {
        let pods = JobPods::from([pod(1, PodPhase::Succeeded, index)]);
        judge(&job(spec, status), &pods, vec![write])
    };
    let (none, listed) = (
        json!({}),
        json!({"uncountedTerminatedPods": {"failed": [uid(1).to_string()]}}),
    );
    let queue = json!({"parallelism": 1});
    assert_eq!(ends(&queue, &none, None, met(&[], 0, "")), Ok(()));
    let counted = ends(&queue, &listed, None, met(&[1], 0, ""));
    assert_eq!(counted, Err(rules::END));
    let two = json!({"parallelism": 1, "completions": 2, "completionMode": "Indexed"});
    let half = json!({"completedIndexes": "1", "succeeded": 1});
    assert_eq!(ends(&two, &half, Some(0), met(&[], 1, "1")), Ok(()));
    assert_eq!(ends(&two, &none, Some(0), met(&[], 0, "")), Err(rules::END));
}

#[test]
fn pods_are_stopped_for_a_reason_and_jobs_deleted_in_time() {
    let spec = json!({"parallelism": 1, "completions": 6, "ttlSecondsAfterFinished": 60});
    let open = job(&spec, &json!({}));
    let one = JobPods::from([pod(1, PodPhase::Running, None)]);
    let mut two = one.clone();
    two.extend([pod(2, PodPhase::Running, None)]);
    assert_eq!(judge(&open, &two, vec![remove(2)]), Ok(()));
    assert_eq!(judge(&open, &one, vec![remove(1)]), Err(rules::DELETE));
    assert_eq!(judge(&open, &one, vec![remove(2)]), Err(rules::DELETE));
    assert_eq!(judge(&open, &one, vec![stop(1)]), Err(rules::DELETE));
    let fails = write(json!({"conditions": on_true(&["FailureTarget"])}));
    assert_eq!(judge(&open, &one, vec![stop(1), fails]), Ok(()));
    let delete = || vec![Action::ConfirmCurrent, Action::DeleteJob];
    let ended = |seconds: i64| {
        let time = now() - SignedDuration::from_secs(seconds);
        let end = json!([{"type": "Complete", "status": "True",
            "lastTransitionTime": time.to_string()}]);
        job(&spec, &json!({"conditions": end}))
    };
    assert_eq!(judge(&ended(60), &one, delete()), Ok(()));
    assert_eq!(judge(&ended(59), &one, delete()), Err(rules::TIME_TO_LIVE));
    assert_eq!(judge(&open, &one, delete()), Err(rules::TIME_TO_LIVE));
}
