//! Records and jobs for the tests of the views.

use carillon_api::NodeState;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::record::{Record, Slice};
use crate::uid::Uid;
use crate::view::read;
use crate::view::read::StoredJob;

pub(crate) fn uid(n: u32) -> Uid {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// An attempt on the node `n<number>`, which ran from second 0 to 10.
pub(crate) fn record(node: &str, attempt: u32, state: NodeState) -> Record {
    let number: u32 = node.trim_start_matches('n').parse().unwrap_or(0);
    let ended = state != NodeState::Started;
    Record {
        node: node.into(),
        node_uid: uid(number),
        attempt,
        state,
        pod: format!("fix-{node}-{attempt}").into(),
        pod_uid: Some(uid(1000 + number)),
        reason: if state == NodeState::Failed {
            "NonZeroExitCode".into()
        } else {
            "".into()
        },
        exit_code: match state {
            NodeState::Failed => Some(3),
            NodeState::Succeeded => Some(0),
            _ => None,
        },
        started: Some(at(0)),
        finished: ended.then(|| at(10)),
        ..Record::default()
    }
}

pub(crate) fn slice(records: Vec<Record>) -> [Slice; 1] {
    [Slice {
        records: records.into(),
        ..Slice::default()
    }]
}

/// A job named `fix`; `spec` and `status` are laid over a usable one.
pub(crate) fn job(spec: &Value, status: &Value) -> StoredJob {
    let mut object = json!({
        "metadata": {"name": "fix", "namespace": "ops", "uid": uid(500).to_string(),
                     "creationTimestamp": at(-60).to_string()},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": status,
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    read::job(&object)
}

pub(crate) fn condition(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": message,
           "lastTransitionTime": at(0).to_string()})
}
