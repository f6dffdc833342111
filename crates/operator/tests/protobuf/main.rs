//! A pod as a watch of Kubernetes v1.36.3 has sent it, in JSON and in protobuf: what we read of it is
//! the same. So the numbers of the fields are right.

#![allow(clippy::unwrap_used)]

use carillon_operator::protobuf::{POD, WatchEvent};
use carillon_operator::slim::{Interner, SlimPod};
use carillon_plan::object_key::JOB;
use serde_json::Value;

const IN_JSON: &str = include_str!("failed-pod.json");
/// Behind the four bytes of its length.
const IN_PROTOBUF: &[u8] = include_bytes!("failed-pod.pb");

#[test]
fn a_pod_of_a_real_api_server_says_the_same_in_both() {
    let event: Value = serde_json::from_str(IN_JSON).unwrap();
    let json = |field: &str| event["object"]["metadata"][field].as_str();
    let frame = WatchEvent::read(&IN_PROTOBUF[4..]).unwrap();
    assert_eq!(Some(frame.kind), event["type"].as_str());
    let strings = &mut Interner::default();

    let pod: SlimPod = frame.decode(&POD).unwrap();
    let same: SlimPod = serde_json::from_value(event["object"].clone()).unwrap();
    assert_eq!(Some(&*pod.metadata.name), json("name"));
    assert!(pod.metadata.owner(JOB).is_some());
    assert_eq!(pod.metadata.owner(JOB), same.metadata.owner(JOB));

    let row = pod.job_row(None, strings).unwrap();
    assert_eq!(Some(&row), same.job_row(None, strings).as_ref());
    assert!(!row.tracked && row.assigned && row.finished.is_some());
    assert_eq!(row.labels.len(), 5);
    assert_eq!(row.failure.unwrap().exits[0].1, 1);

    let row = pod.row(strings).unwrap();
    assert_eq!(Some(&row), same.row(strings).as_ref());
    assert!(row.1.started.is_some() && row.1.end.is_some() && row.1.node.is_some());
}
