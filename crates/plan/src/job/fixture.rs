//! Jobs and pods for the tests of the files here.

use jiff::Timestamp;
use serde_json::json;

use super::pod::{JobPod, JobPods};
use super::spec::Spec;
use crate::pod::{Failure, PodPhase};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An Indexed Job with a limit for each index.
pub(super) fn spec(completions: i32, limit: i32) -> Spec {
    let template = json!({"spec": {"restartPolicy": "Never"}});
    Spec::read(&json!({
        "completionMode": "Indexed",
        "completions": completions,
        "backoffLimitPerIndex": limit,
        "template": template,
    }))
}

/// Ignores exit code 1, counts 2, and fails the index with 3 and the Job with 4.
pub(super) fn ruled(limit: i32) -> Spec {
    let rule = |action: &str, code: i32| {
        let codes = json!({"operator": "In", "values": [code]});
        json!({"action": action, "onExitCodes": codes})
    };
    let codes = [
        rule("Ignore", 1),
        rule("Count", 2),
        rule("FailIndex", 3),
        rule("FailJob", 4),
    ];
    Spec {
        failure_rules: serde_json::from_value(json!(codes)).unwrap(),
        replaces_only_failed: true,
        ..spec(9, limit)
    }
}

/// A pod that is not counted yet.
pub(super) fn pod(phase: PodPhase, index: u32, failures: u32) -> JobPod {
    JobPod {
        phase,
        tracked: true,
        index: Some(index),
        failures,
        ..JobPod::default()
    }
}

pub(super) fn failed(index: u32, failures: u32) -> JobPod {
    pod(PodPhase::Failed, index, failures)
}

pub(super) fn ended_at(second: i64, pod: JobPod) -> JobPod {
    JobPod {
        finished: Some(at(second)),
        ..pod
    }
}

pub(super) fn exited(code: i32, pod: JobPod) -> JobPod {
    let failure = Failure {
        exits: Box::new([("main".into(), code)]),
        ..Failure::default()
    };
    JobPod {
        failure: Some(failure.into()),
        ..pod
    }
}

pub(super) fn by_name<const N: usize>(pods: [(&str, JobPod); N]) -> JobPods {
    pods.map(|(name, pod)| (name.into(), pod)).into()
}
