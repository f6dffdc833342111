//! Result slices, read so that nothing in them is overlooked.

use std::fmt;

use carillon_api::NodeState;
use carillon_api::names::LABEL_SLICE_INDEX;
use carillon_api::node_result_slice::Rest;
use carillon_plan::record::{Record, Slice, kept};
use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::slim::{Interner, SlimMeta};
use crate::store::watched;

/// A result slice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimSlice {
    /// Metadata.
    pub metadata: SlimMeta,
    sealed: bool,
    results: Vec<SlimResult>,
}

watched!(SlimSlice);

/// An entry as stored; every field may be missing or of a later version.
#[derive(Debug, Default)]
struct SlimResult {
    node_name: String,
    node_uid: String,
    attempt: u32,
    state: String,
    pod_name: String,
    pod_uid: String,
    reason: String,
    exit_code: Option<i32>,
    start_time: Option<Timestamp>,
    completion_time: Option<Timestamp>,
    node_gone_time: Option<Timestamp>,
    message: String,
    requested: bool,
    accepted: bool,
    rest: Rest,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    NodeName,
    #[serde(rename = "nodeUID")]
    NodeUid,
    Attempt,
    State,
    PodName,
    #[serde(rename = "podUID")]
    PodUid,
    Reason,
    ExitCode,
    StartTime,
    CompletionTime,
    NodeGoneTime,
    Message,
    Requested,
    Accepted,
    Other(String),
}

/// By hand, because serde's derive would gather every entry in memory for the sake of fields that
/// nearly none has.
impl<'de> Deserialize<'de> for SlimResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = SlimResult;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a result")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SlimResult, A::Error> {
                let mut result = SlimResult::default();
                while let Some(field) = map.next_key()? {
                    match field {
                        Field::NodeName => result.node_name = map.next_value()?,
                        Field::NodeUid => result.node_uid = map.next_value()?,
                        Field::Attempt => result.attempt = map.next_value()?,
                        Field::State => result.state = map.next_value()?,
                        Field::PodName => result.pod_name = map.next_value()?,
                        Field::PodUid => result.pod_uid = map.next_value()?,
                        Field::Reason => result.reason = map.next_value()?,
                        Field::ExitCode => result.exit_code = map.next_value()?,
                        Field::StartTime => result.start_time = map.next_value()?,
                        Field::CompletionTime => result.completion_time = map.next_value()?,
                        Field::NodeGoneTime => result.node_gone_time = map.next_value()?,
                        Field::Message => result.message = map.next_value()?,
                        Field::Requested => result.requested = map.next_value()?,
                        Field::Accepted => result.accepted = map.next_value()?,
                        Field::Other(name) => {
                            result.rest.insert(name, map.next_value()?);
                        }
                    }
                }
                Ok(result)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl SlimSlice {
    /// The slice, or what about it cannot be read. A log that cannot be read whole must not be
    /// acted on: what it hides might be run again.
    pub fn row(&self, strings: &mut Interner) -> Result<Slice, String> {
        let labels = self.metadata.labels.as_ref();
        let index = labels
            .and_then(|labels| labels.slice_index.parse().ok())
            .ok_or_else(|| {
                format!(
                    "NodeResultSlice {}: label {LABEL_SLICE_INDEX} is missing or no number",
                    self.metadata.name
                )
            })?;
        let records: Option<Vec<Record>> = self
            .results
            .iter()
            .map(|result| result.record(strings))
            .collect();
        let records = records.ok_or_else(|| {
            format!(
                "NodeResultSlice {}: has a result this version cannot read",
                self.metadata.name
            )
        })?;
        let uid = self.metadata.uid().unwrap_or_default();
        Ok(Slice {
            index,
            uid,
            rv: self.metadata.rv(),
            sealed: self.sealed,
            records: records.into(),
        })
    }
}

impl SlimResult {
    fn record(&self, strings: &mut Interner) -> Option<Record> {
        let state = match self.state.as_str() {
            "Started" => NodeState::Started,
            "Succeeded" => NodeState::Succeeded,
            "Failed" => NodeState::Failed,
            "Disrupted" => NodeState::Disrupted,
            "Unknown" => NodeState::Unknown,
            "Skipped" => NodeState::Skipped,
            _ => return None,
        };
        let pod_uid = match self.pod_uid.as_str() {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        Some(Record {
            node: strings.share(&self.node_name),
            node_uid: self.node_uid.parse().ok()?,
            attempt: self.attempt,
            state,
            pod: self.pod_name.as_str().into(),
            pod_uid,
            reason: strings.share(&self.reason),
            exit_code: self.exit_code,
            started: self.start_time,
            finished: self.completion_time,
            node_gone: self.node_gone_time,
            message: self.message.as_str().into(),
            requested: self.requested,
            accepted: self.accepted,
            rest: kept(self.rest.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    #[test]
    fn a_slice_with_a_result_of_a_later_version_is_not_acted_on() {
        let mut entry = json!({"nodeName": "n", "nodeUID": UID, "attempt": 1, "state": "Started", "podName": "p"});
        let slice = |entry: &Value| -> Result<Slice, String> {
            let slice: SlimSlice = serde_json::from_value(json!({
                "metadata": {"name": "s", "labels": {LABEL_SLICE_INDEX: "3"}},
                "results": [entry],
            }))
            .unwrap();
            slice.row(&mut Interner::default())
        };
        assert_eq!(slice(&entry).unwrap().index, 3);
        entry["state"] = json!("Teleported");
        assert!(slice(&entry).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn a_result_is_read_as_the_planner_wrote_it() {
        let uid: carillon_plan::Uid = UID.parse().unwrap();
        for (state, pod_uid) in [
            (NodeState::Started, None),
            (NodeState::Started, Some(uid)),
            (NodeState::Succeeded, Some(uid)),
            (NodeState::Failed, Some(uid)),
            (NodeState::Disrupted, Some(uid)),
            (NodeState::Unknown, Some(uid)),
            (NodeState::Skipped, None),
        ] {
            let record = Record {
                node: "n1".into(),
                node_uid: uid,
                attempt: 2,
                state,
                pod: "fix-abc".into(),
                pod_uid,
                reason: "PodDeleted".into(),
                exit_code: Some(3),
                started: Some(Timestamp::from_second(1_700_000_000).unwrap()),
                finished: Some(Timestamp::from_second(1_700_000_009).unwrap()),
                node_gone: Some(Timestamp::from_second(1_700_000_005).unwrap()),
                message: "no space left".into(),
                requested: true,
                accepted: true,
                rest: kept(Rest::from([(
                    "nodePool".to_owned(),
                    json!(["a", {"b": 1}]),
                )])),
            };
            let stored = json!({
                "metadata": {"labels": {LABEL_SLICE_INDEX: "0"}},
                "results": [record.write()],
            });
            let slice: SlimSlice = serde_json::from_value(stored).unwrap();
            assert_eq!(
                *slice.row(&mut Interner::default()).unwrap().records,
                [record]
            );
        }
    }
}
