//! The readers of this crate, given strange bytes (`cargo xtask fuzz`).

use std::sync::Arc;

use carillon_fuzz::check;
use jiff::Timestamp;
use serde_json::Value;

use crate::broadcast_job::{BroadcastJob, Requests};
use crate::cron_job::action::Run;
use crate::cron_job::{ChildKind, CronJob};
use crate::job::indexes::Indexes;
use crate::max_failed_nodes::MaxFailedNodes;
use crate::meta::Meta;
use crate::object_key::{self, ApiKind, ObjectKey};
use crate::parallelism::Parallelism;
use crate::record::Record;
use crate::schedule::{Schedule, zone};
use crate::view::cron_job::read as cron;
use crate::view::daemon_set::known::Known;
use crate::view::daemon_set::look::Look;
use crate::view::daemon_set::progress::Progress;
use crate::view::daemon_set::read::{SetPods, SetRevisions};
use crate::view::{daemon_set, read};
use crate::{Uid, job, pod, quantity, selector};

const BROADCAST_JOB: &[u8] = br#"{"metadata":{"name":"fix","namespace":"ops","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
"generation":3,"resourceVersion":"7","annotations":{"carillon.dev/retry":"fix-a,fix-b","carillon.dev/resume":"x"}},
"spec":{"parallelism":"20%","paused":true,"nodeNames":["a","b"],"executionPolicy":"AtMostOnce","backoffLimitPerNode":3,
"completionPolicy":{"type":"Always","activeDeadlineSeconds":60,"ttlSecondsAfterFinished":5},
"failurePolicy":{"type":"Pause","restartLimit":2,"maxFailedNodes":"10%"},"podStartDeadlineSeconds":9,"nodeLostTimeoutSeconds":30,"podTerminationTimeoutSeconds":40,
"podFailurePolicy":{"rules":[{"action":"Ignore","onExitCodes":{"operator":"In","values":[1,2]}},
{"action":"Count","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]},
"template":{"spec":{"restartPolicy":"OnFailure","nodeSelector":{"a":"b"},"tolerations":[{"key":"k","operator":"Exists"}],
"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":
[{"key":"k","operator":"Gt","values":["3"]}],"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}},
"containers":[{"name":"c","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]}}},
"status":{"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}],"desired":3}}"#;

const CRON_JOB: &[u8] = br#"{"metadata":{"name":"night","namespace":"ops","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"},
"spec":{"schedule":"*/5 1-3 * JAN-MAR MON","timeZone":"Europe/Berlin","jitterSeconds":60,"startingDeadlineSeconds":100,
"concurrencyPolicy":"Forbid","missedRunPolicy":"All","dstPolicy":"Once","suspend":false,"successfulJobsHistoryLimit":3,
"jobTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"template":{"spec":{"containers":[]}}}}},
"status":{"lastScheduleTime":"2026-01-01T00:00:00Z","active":[{"kind":"Job","name":"night-1","uid":"u"}]}}"#;

const JOB: &[u8] = br#"{"metadata":{"name":"sum","namespace":"ops","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
"annotations":{"batch.kubernetes.io/cronjob-scheduled-timestamp":"2026-01-01T00:00:00Z"},
"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"n","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01",
"controller":true}]},"spec":{"parallelism":3,"completions":5,"completionMode":"Indexed","backoffLimitPerIndex":1,
"maxFailedIndexes":2,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"NotIn","values":["v"]}]},
"podFailurePolicy":{"rules":[{"action":"FailIndex","onExitCodes":{"operator":"NotIn","values":[0]}}]},
"successPolicy":{"rules":[{"succeededIndexes":"0-2","succeededCount":2}]},
"template":{"spec":{"restartPolicy":"OnFailure","containers":[{"name":"c","env":null}]}}},
"status":{"completedIndexes":"1,3-5","failedIndexes":"0","uncountedTerminatedPods":{"succeeded":["u"]},
"conditions":[{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

const DAEMON_SET: &[u8] = br#"{"apiVersion":"carillon.dev/v1alpha1","metadata":{"name":"agent","namespace":"ops",
"uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z",
"annotations":{"deprecated.daemonset.template.generation":"2"}},"spec":{"selector":{"matchLabels":{"a":"b"},
"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]},"minReadySeconds":3,"revisionHistoryLimit":2,
"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"10%","partition":1,"paused":true,
"selector":{"matchLabels":{"a":"b"}}}},"burstReplicas":"5%","template":{"metadata":{"labels":{"a":"b"}},
"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}},"status":{"observedGeneration":3,
"desiredNumberScheduled":2,"updatedNumberScheduled":1,"waitingFor":[{"reason":"PodNotReady","count":1,"sample":["n"]}],
"conditions":[{"type":"Ready","status":"False","reason":"Updating","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

const OF_SET: &[u8] = br#"{"metadata":{"name":"agent-x","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01","resourceVersion":"7",
"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:09Z","deletionGracePeriodSeconds":30,
"labels":{"controller-revision-hash":"h"},"annotations":{"kubernetes.io/change-cause":"c"},"ownerReferences":
[{"apiVersion":"carillon.dev/v1alpha1","kind":"DaemonSet","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","controller":true}]},
"revision":3,"data":{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"b"}}}}},"spec":{"affinity":
{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":
[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}},"status":{"phase":"Running","containerStatuses":
[{"restartCount":1}],"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:09Z"}]}}"#;

const SLICE: &[u8] = br#"{"metadata":{"name":"s","labels":{"carillon.dev/slice-index":"3"}},"sealed":true,"results":
[{"nodeName":"n","nodeUID":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","attempt":1,"state":"Failed","podName":"p","exitCode":3,
"podUID":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01","reason":"r","startTime":"2026-01-01T00:00:00Z","message":"m","later":{"a":[1]}}]}"#;

const NODE: &[u8] = br#"{"metadata":{"name":"n","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","labels":{"a":"b"}},
"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}],"unschedulable":true},
"status":{"allocatable":{"cpu":"15890m","memory":"62144932Ki"},"conditions":[{"type":"Ready","status":"False"}]}}"#;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is no JSON has been refused before.
fn value(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

#[test]
fn quantity() {
    let samples: &[&[u8]] = &[
        b"100m",
        b"1.5Gi",
        b"1e3",
        b"-2E6",
        b"0.1",
        b"12345678901234567890n",
    ];
    check("quantity", samples, |bytes| {
        quantity::parse(&text(bytes));
    });
}

#[test]
fn schedule() {
    let samples: &[&[u8]] = &[
        b"*/5 1-3,7 1,15 JAN-MAR/2 MON-FRI",
        b"TZ=Europe/Berlin 30 2 * * *",
        b"CRON_TZ=America/New_York 0 0 29 2 ?",
        b"@every 1h30m5s",
        b"@daily",
        b"0 0 31 2 *",
    ];
    check("schedule", samples, |bytes| {
        let Ok(schedule) = Schedule::parse(&text(bytes)) else {
            return;
        };
        let after: Timestamp = "2026-03-28T12:00:00Z".parse().unwrap();
        let until: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        for schedule in [schedule.clone(), schedule.once_per_wall_clock()] {
            for from in [after, until, Timestamp::MIN, Timestamp::MAX] {
                assert!(schedule.next(from).is_none_or(|next| next > from));
            }
            let latest = schedule.latest(after, until);
            assert!(latest.is_none_or(|tick| after < tick && tick <= until));
            let count = schedule.count(after, until, 1000);
            let oldest = schedule.oldest(after, until, 3);
            assert_eq!(oldest.len() as u64, count.min(3));
            assert_eq!(latest.is_some(), count > 0);
        }
    });
}

#[test]
fn time_zone() {
    let samples: &[&[u8]] = &[
        b"Europe/Berlin",
        b"UTC",
        b"../../etc/passwd",
        b"Etc/GMT+5",
        b"Local",
    ];
    check("time_zone", samples, |bytes| {
        let _ = zone::load(&text(bytes));
    });
}

#[test]
fn indexes() {
    let samples: &[&[u8]] = &[
        b"1,3-5,7",
        b"0-99999",
        b"5-3,1,1-2",
        b"-1-3",
        b"1-",
        b"4294967295",
    ];
    check("indexes", samples, |bytes| {
        for completions in [0, 1, 100, u32::MAX] {
            let read = Indexes::read(&text(bytes), completions);
            assert!(read.len() <= completions);
            assert_eq!(Indexes::read(&read.to_string(), completions), read);
            assert_eq!(read.intersection_len(&read), read.len());
        }
    });
}

fn owner(kind: ApiKind) -> Arc<ObjectKey> {
    ObjectKey::of(kind, "ops", "fix", Uid::MAX)
}

#[test]
fn broadcast_job() {
    check("broadcast_job", &[BROADCAST_JOB], |bytes| {
        let Some(object) = value(bytes) else { return };
        read::job(&object);
        let meta = Meta::new(owner(object_key::BROADCAST_JOB), Timestamp::UNIX_EPOCH);
        BroadcastJob::read(meta, Requests::default(), &object, &object["status"]);
    });
}

#[test]
fn cron_job() {
    check("cron_job", &[CRON_JOB], |bytes| {
        let Some(object) = value(bytes) else { return };
        let stored = cron::cron(&object);
        let Some(template) = object["spec"].get("jobTemplate") else {
            return;
        };
        let run = Run {
            kind: stored.cron.child,
            name: "night-1".to_owned(),
            time: Timestamp::UNIX_EPOCH,
            request: None,
        };
        serde_json::to_vec(&stored.cron.child_body(template, &run)).unwrap();
        CronJob::read(stored.cron.meta, None, &object, &object["status"]);
    });
}

#[test]
fn native_job() {
    check("native_job", &[JOB], |bytes| {
        let Some(object) = value(bytes) else { return };
        let meta = Meta::new(owner(object_key::JOB), Timestamp::UNIX_EPOCH);
        let job = job::Job::read(meta, &object["spec"], &object["status"]);
        if let Some(of_job) = &job.spec.selector {
            selector::selects(of_job, &crate::node::Labels::default());
        }
        cron::child(&object);
        cron::children(Uid::default(), ChildKind::Job, &[object]);
    });
}

/// All that is asked of one, of its pods and of its revisions.
fn ask_of_set(object: &Value, of_set: &Value) {
    let stored = daemon_set::read::set(object);
    daemon_set::read::selector(&stored.set);
    let owner = stored.set.meta.owner.clone();
    let (mut pods, mut revisions) = (SetPods::default(), SetRevisions::default());
    pods.add(&owner, of_set);
    revisions.add(&owner, of_set);
    let nodes = value(NODE)
        .as_ref()
        .and_then(read::node)
        .into_iter()
        .collect();
    let mut known = Known::new(stored, Some(pods), Some(revisions), nodes);
    let now = Timestamp::UNIX_EPOCH;
    let mut progress = Progress::of(&known.stored);
    let look = Look::at(&known, now);
    progress.look(&look);
    progress.line();
    daemon_set::explain::all(&look);
    daemon_set::explain::node(&look, "n");
    daemon_set::preview::preview(&mut known, now);
    let _ = daemon_set::history::undo(&known, None);
}

#[test]
fn daemon_set() {
    let of_set = value(OF_SET).unwrap();
    check("daemon_set", &[DAEMON_SET], |bytes| {
        if let Some(object) = value(bytes) {
            ask_of_set(&object, &of_set);
        }
    });
}

#[test]
fn pod_and_revision_of_a_daemon_set() {
    let object = value(DAEMON_SET).unwrap();
    check("of_daemon_set", &[OF_SET], |bytes| {
        if let Some(of_set) = value(bytes) {
            ask_of_set(&object, &of_set);
        }
    });
}

#[test]
fn node() {
    check("node", &[NODE], |bytes| {
        if let Some(object) = value(bytes) {
            read::node(&object);
        }
    });
}

#[test]
fn slice() {
    check("slice", &[SLICE], |bytes| {
        let Some(object) = value(bytes) else { return };
        let Ok(slices) = read::slices(&[object]) else {
            return;
        };
        for record in slices.iter().flat_map(|slice| &slice.records) {
            assert_eq!(Record::read(&record.write()).as_ref(), Some(record));
        }
    });
}

#[test]
fn small_values() {
    let samples: &[&[u8]] = &[b"\"50%\"", b"3", b"-1", b"\"101%\"", b"1.5", b"null"];
    check("small_values", samples, |bytes| {
        if let Some(value) = value(bytes) {
            for total in [0, 1, 100_000] {
                let _ = Parallelism::read(&value).map(|read| read.of(total));
                let _ = MaxFailedNodes::read(&value).map(|read| read.of(total));
            }
        }
        let text = text(bytes);
        let _ = text.parse::<Uid>();
        pod::PodPhase::read(&text);
        assert!(!pod::printable(&text).contains(char::is_control));
    });
}
