//! Messages that are encoded here by the same schema; that its numbers are the API server's is shown
//! by a pod that one has encoded (`tests/protobuf.rs`).
#![cfg(test)]

use carillon_plan::object_key::JOB;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::schema::Holds;
use super::{Malformed, Message, POD, STATUS, WatchEvent, read};
use crate::slim::{Interner, SlimMeta, SlimPod};
use crate::transport::status_of;
use crate::writes::{SendError, decode};

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn field(number: u32, content: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn number(of: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(of) << 3, out);
    varint(value, out);
}

fn text(value: &Json) -> &[u8] {
    value.as_str().unwrap().as_bytes()
}

/// As an API server would encode an object with these fields.
fn encode(object: &Json, schema: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    // What is newer than the schema is skipped.
    field(900, b"later", &mut out);
    for (of, name, holds) in schema.0 {
        let value = &object[*name];
        match holds {
            _ if value.is_null() => {}
            Holds::Text => field(*of, text(value), &mut out),
            Holds::Integer => number(*of, value.as_i64().unwrap().cast_unsigned(), &mut out),
            Holds::Bool => number(*of, u64::from(value.as_bool().unwrap()), &mut out),
            Holds::Time => {
                let mut time = Vec::new();
                if let Ok(set) = value.as_str().unwrap().parse::<jiff::Timestamp>() {
                    number(1, set.as_second().cast_unsigned(), &mut time);
                    number(2, 0, &mut time);
                }
                field(*of, &time, &mut out);
            }
            Holds::One(schema) => field(*of, &encode(value, schema), &mut out),
            Holds::Texts => {
                let all = value.as_array().unwrap();
                for value in all {
                    field(*of, text(value), &mut out);
                }
            }
            Holds::Many(schema) => {
                let all = value.as_array().unwrap();
                for value in all {
                    field(*of, &encode(value, schema), &mut out);
                }
            }
            Holds::Map => {
                for (key, value) in value.as_object().unwrap() {
                    let mut entry = Vec::new();
                    field(1, key.as_bytes(), &mut entry);
                    field(2, text(value), &mut entry);
                    field(*of, &entry, &mut out);
                }
            }
        }
    }
    out
}

/// An object as a reply has it.
fn reply(object: &[u8]) -> Vec<u8> {
    let mut reply = b"k8s\0".to_vec();
    field(1, b"", &mut reply);
    field(2, object, &mut reply);
    reply
}

fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let (mut extension, mut event) = (Vec::new(), Vec::new());
    field(1, &reply(object), &mut extension);
    field(1, kind.as_bytes(), &mut event);
    field(2, &extension, &mut event);
    event
}

fn pod() -> Json {
    json!({
        "metadata": {
            "name": "sum-x", "namespace": "ops", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000009",
            "resourceVersion": "41", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30,
            "labels": {"a": "1", "b": "2"}, "finalizers": ["batch.kubernetes.io/job-tracking", "x"],
            "annotations": {"batch.kubernetes.io/job-completion-index": "7", "other": ""},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "sum",
                "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000001", "controller": true}],
        },
        "spec": {"nodeName": "n", "initContainers": [{"name": "mesh", "restartPolicy": "Always"}]},
        "status": {
            "phase": "Failed",
            "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:07Z"},
                {"type": "DisruptionTarget", "status": "True"}],
            "initContainerStatuses": [{"name": "mesh", "restartCount": 7}],
            "containerStatuses": [{"name": "c", "restartCount": 2, "state": {"terminated": {
                "exitCode": -3, "finishedAt": "2026-01-01T00:00:09Z"}}}],
        },
    })
}

#[test]
fn a_pod_says_the_same_in_protobuf_as_in_json() {
    let json: SlimPod = serde_json::from_value(pod()).unwrap();
    let event = frame("MODIFIED", &encode(&pod(), &POD));
    let event = WatchEvent::read(&event).unwrap();
    assert_eq!(event.kind, "MODIFIED");
    let protobuf: SlimPod = event.decode(&POD).unwrap();
    let strings = &mut Interner::default();
    let row = protobuf.job_row(None, strings).unwrap();
    assert_eq!(Some(&row), json.job_row(None, strings).as_ref());
    assert!(row.tracked && row.finished.is_some() && row.index == Some(7));
    assert_eq!(protobuf.row(strings).unwrap(), json.row(strings).unwrap());
    assert_eq!(protobuf.metadata.owner(JOB), json.metadata.owner(JOB));
}

#[test]
fn a_time_that_is_not_set_is_none() {
    let mut unset = pod();
    let ended = "/status/containerStatuses/0/state/terminated/finishedAt";
    *unset.pointer_mut(ended).unwrap() = json!("");
    let pod: SlimPod = read(&encode(&unset, &POD), &POD).unwrap();
    let row = pod.job_row(None, &mut Interner::default()).unwrap();
    assert_eq!(row.finished, Some("2026-01-01T00:00:07Z".parse().unwrap()));
}

#[test]
fn what_the_server_says_instead_of_an_object_is_understood() {
    let status =
        json!({"status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
    let event = frame("ERROR", &encode(&status, &STATUS));
    let status: kube::core::Status = WatchEvent::read(&event).unwrap().decode(&STATUS).unwrap();
    assert_eq!((status.code, &*status.reason), (410, "Expired"));
}

#[test]
fn a_reply_to_a_write_is_read_for_its_metadata() {
    #[derive(Debug, Deserialize)]
    struct Object {
        metadata: SlimMeta,
    }
    let written: Object = decode(&reply(&encode(&pod(), &POD))).unwrap();
    assert_eq!(
        (&*written.metadata.name, written.metadata.rv()),
        ("sum-x", 41)
    );
    let cut_off = decode::<Object>(b"k8s\0\x12\x05").unwrap_err();
    assert!(matches!(cut_off, SendError::Unknown(_)), "{cut_off}");
}

#[test]
fn a_refusal_says_the_same_in_protobuf_as_in_json() {
    let refusal = json!({
        "status": "Failure", "message": "Pod \"a\" is invalid", "reason": "Invalid", "code": 422,
        "details": {
            "name": "a", "group": "", "kind": "Pod", "uid": "u", "retryAfterSeconds": 3,
            "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "metadata.uid"}],
        },
    });
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    let protobuf = status_of(code, &reply(&encode(&refusal, &STATUS)));
    let json = status_of(code, refusal.to_string().as_bytes());
    assert_eq!(
        serde_json::to_value(protobuf).unwrap(),
        serde_json::to_value(json).unwrap()
    );
    assert_eq!(status_of(code, b"k8s\0\x12\x05").code, 422);
}

#[test]
fn what_is_no_object_is_refused() {
    #[derive(Debug, Deserialize)]
    struct Never {}
    let event = frame("ADDED", b"\x0a\xff");
    let refused = WatchEvent::read(&event).unwrap().decode::<SlimPod>(&POD);
    assert_eq!(refused.unwrap_err(), Malformed::Short);
    let (mut extension, mut event) = (Vec::new(), Vec::new());
    field(1, b"{}", &mut extension);
    field(2, &extension, &mut event);
    assert_eq!(
        WatchEvent::read(&event).unwrap_err(),
        Malformed::NotKubernetes
    );
    assert!(read::<Never>(b"\x0a", &POD).is_err());
}
