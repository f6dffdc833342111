//! Everything in this crate that reads what came over the wire, given strange bytes (`cargo xtask fuzz`).

use carillon_fuzz::check;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::args::duration::duration;
use crate::flight_recorder::FlightRecorder;
use crate::kinds::broadcast_job::object::SlimBroadcastJob;
use crate::kinds::broadcast_job::slice::SlimSlice;
use crate::kinds::cron_job::child::SlimNativeJob;
use crate::kinds::cron_job::object::{Carillon, Native, SlimCronJob};
use crate::kinds::job::object::SlimJob;
use crate::protobuf::{METADATA, POD, STATUS, WatchEvent, read, read_reply};
use crate::slim::{SlimMeta, SlimNode, SlimPod};
use crate::store::{Row, Tables};
use crate::transport::status_of;
use crate::watch;
use crate::writes::decode;

const POD_JSON: &[u8] = include_bytes!("../tests/protobuf/failed-pod.json");
const POD_PROTOBUF: &[u8] = include_bytes!("../tests/protobuf/failed-pod.pb");

const JOB: &[u8] = br#"{"metadata":{"name":"sum","namespace":"ops","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
"resourceVersion":"41","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z","finalizers":["carillon.dev/run-tracking"],
"annotations":{"carillon.dev/run-now":"x","carillon.dev/retry":"fix-a"},"labels":{"carillon.dev/broadcastjob-uid":"u"},
"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"night","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f01",
"controller":true}],"managedFields":[{"manager":"kubectl","fieldsV1":{"f:spec":{}}}]},
"spec":{"managedBy":"carillon.dev/job-controller","parallelism":3,"schedule":"*/5 * * * *","timeZone":"Europe/Berlin",
"selector":{"matchLabels":{"a":"b"}},"jobTemplate":{"spec":{}},"template":{"spec":{"restartPolicy":"Never",
"containers":[{"name":"c","env":[{"name":"A","value":"b"}]}]}}},
"status":{"active":2,"startTime":"2026-01-01T00:00:00Z","uncountedTerminatedPods":{"succeeded":["u"]},
"conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

const NODE: &[u8] = br#"{"metadata":{"name":"n","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","labels":{"a":"b"}},
"spec":{"unschedulable":true,"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]},"status":{"allocatable":
{"cpu":"15890m","memory":"62144932Ki"},"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

const SLICE: &[u8] = br#"{"metadata":{"name":"s","uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f02","labels":
{"carillon.dev/slice-index":"3","carillon.dev/broadcastjob-uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"},
"ownerReferences":[{"apiVersion":"carillon.dev/v1alpha1","kind":"BroadcastJob","name":"fix","controller":true,
"uid":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00"}]},"sealed":true,"results":[{"nodeName":"n","attempt":1,"state":"Failed",
"nodeUID":"4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00","podName":"p","exitCode":3,"startTime":"2026-01-01T00:00:00Z","later":[1]}]}"#;

const REFUSAL: &[u8] = br#"{"kind":"Status","status":"Failure","reason":"Invalid","message":"m","code":422,
"details":{"name":"n","retryAfterSeconds":3,"causes":[{"reason":"r","message":"m","field":"metadata.uid"}]}}"#;

/// An object as it is seen, changed and lost.
fn live<R: Row + DeserializeOwned>(bytes: &[u8]) {
    let object = || serde_json::from_slice::<R>(bytes).ok();
    let (mut tables, mut wakes) = (Tables::default(), Vec::new());
    for row in [object(), object()].into_iter().flatten() {
        row.enter(&mut tables, &mut wakes);
    }
    crate::kinds::sizes(&tables);
    if let Some(row) = object() {
        row.leave(&mut tables, &mut wakes);
    }
}

#[test]
fn pods() {
    check("pods", &[POD_JSON], |bytes| {
        live::<SlimPod>(bytes);
    });
}

#[test]
fn jobs() {
    check("jobs", &[JOB], |bytes| {
        live::<SlimJob>(bytes);
        live::<SlimNativeJob>(bytes);
        live::<SlimBroadcastJob>(bytes);
    });
}

#[test]
fn cron_jobs() {
    check("cron_jobs", &[JOB], |bytes| {
        live::<SlimCronJob<Carillon>>(bytes);
        live::<SlimCronJob<Native>>(bytes);
    });
}

#[test]
fn nodes_and_slices() {
    check("nodes_and_slices", &[NODE, SLICE], |bytes| {
        live::<SlimNode>(bytes);
        live::<SlimSlice>(bytes);
    });
}

#[test]
fn protobuf() {
    let event = [
        &b"\x0a\x05ADDED\x12"[..],
        &[POD_PROTOBUF.len() as u8 | 0x80, 1],
        POD_PROTOBUF,
    ];
    check(
        "protobuf",
        &[POD_PROTOBUF, &event.concat(), REFUSAL],
        |bytes| {
            let _ = read::<SlimPod>(bytes, &POD);
            let _ = read_reply::<SlimMeta>(bytes, &METADATA);
            let _ = read_reply::<SlimPod>(bytes, &POD);
            let _ = decode::<SlimMeta>(bytes);
            if let Ok(event) = WatchEvent::read(bytes) {
                let _ = event.decode::<SlimPod>(&POD);
                let _ = event.decode::<kube::core::Status>(&STATUS);
            }
        },
    );
}

#[test]
fn refusals() {
    check("refusals", &[REFUSAL, b"404 page not found"], |bytes| {
        let status = status_of(http::StatusCode::NOT_FOUND, bytes);
        assert!(!status.reason.is_empty());
    });
}

#[test]
fn list() {
    let one = [
        br#"{"kind":"L","metadata":{"resourceVersion":"7","continue":"x"},"items":["#,
        JOB,
        b"]}",
    ];
    let two = [
        b"{\"items\":[",
        NODE,
        b",",
        SLICE,
        b"],\"metadata\":{\"resourceVersion\":\"7\"}}",
    ];
    let samples: &[&[u8]] = &[
        &one.concat(),
        &two.concat(),
        b"{\"items\":null,\"metadata\":{}}",
    ];
    check("list", samples, watch::fuzz::list);
}

#[test]
fn watch_of_json() {
    let line = |kind: &str, object: &[u8]| {
        [
            format!("{{\"type\":\"{kind}\",\"object\":").as_bytes(),
            object,
            b"}\n",
        ]
        .concat()
    };
    let bookmark = line("BOOKMARK", br#"{"metadata":{"resourceVersion":"9"}}"#);
    let lines = [line("ADDED", POD_JSON), bookmark, line("ERROR", REFUSAL)].concat();
    check(
        "watch_of_json",
        &[&lines, &line("DELETED", NODE)],
        watch::fuzz::lines,
    );
}

#[test]
fn watch_of_protobuf() {
    let frame = [&(POD_PROTOBUF.len() as u32).to_be_bytes(), POD_PROTOBUF].concat();
    let short = b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03cde";
    check("watch_of_protobuf", &[&frame, short], watch::fuzz::frames);
}

#[test]
fn words() {
    let samples: &[&[u8]] = &[b"1h30m", b"500ms", b"uid=a&namespace=b&name=c", b"15s"];
    check("words", samples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = duration(&text);
        FlightRecorder::default().page(&text);
        let _ = serde_json::from_str::<&RawValue>(&text);
    });
}
