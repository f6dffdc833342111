//! Objects that look like those of the scenario.

use carillon_api::names;
use carillon_plan::job::FINALIZER_JOB_TRACKING;
use carillon_plan::{Uid, name};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::scenario::{CRON, View};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// A finalizer of its own, which the garbage collector respects.
const KEPT: &str = "evil.example.com/keep";
/// What a name in an owner reference may be: anything that is not empty.
const NAMES: [&str; 6] = [
    "other",
    "x?watch=true",
    "../../work/pods/x",
    "x/status",
    "%2e%2e%2f",
    "job?fieldManager=x&dryRun=All",
];

/// What a tenant sees of others, and a job of its own.
#[derive(Debug)]
pub(super) struct Sights<'a> {
    pub(super) view: View<'a>,
    pub(super) own: Option<Value>,
}

impl Sights<'_> {
    /// What counterfeits are made for: what the scenario serves, or sometimes its own.
    fn served(&self, rng: &mut Rng) -> Option<Value> {
        let own = self.own.clone().filter(|_| rng.u32(0..3) == 0);
        let served = || self.view.job().or_else(|| self.view.cron());
        own.or_else(|| served().map(|served| (*served).clone()))
    }
}

/// A copy of an object, with none, one or two things changed.
pub(super) fn of(original: &Value, rng: &mut Rng, sights: &Sights<'_>) -> Value {
    let meta = &original["metadata"];
    let mut copy = json!({
        "apiVersion": original["apiVersion"],
        "kind": original["kind"],
        "metadata": {
            "name": meta["name"],
            "labels": meta["labels"],
            "annotations": meta["annotations"],
            "ownerReferences": meta["ownerReferences"],
            "finalizers": meta["finalizers"],
        },
        "spec": original["spec"],
    });
    if let Some(spec) = copy["spec"].as_object_mut()
        && rng.bool()
    {
        spec.remove("nodeName");
    }
    if let Some(spec) = copy["spec"].as_object_mut() {
        // The API server makes the selector, and gives the labels for it.
        spec.remove("selector");
    }
    if rng.u32(0..3) > 0 {
        hold(&mut copy, rng);
    }
    for _ in 0..rng.u32(0..3) {
        let change = change(&copy, rng, sights);
        merge(&mut copy, &change);
    }
    if rng.u32(0..4) == 0 {
        let tail = rng.u32(0..4);
        copy["metadata"]["name"] = json!(format!("{}-{tail}", text(&meta["name"])));
    }
    copy
}

/// An object as its author has written it: nobody's, and free.
pub(super) fn plain(original: &Value, rng: &mut Rng) -> Value {
    let mut order = json!({
        "apiVersion": original["apiVersion"],
        "kind": original["kind"],
        "metadata": {"name": original["metadata"]["name"]},
        "spec": original["spec"],
    });
    if let Some(template) = order["spec"]["template"]["metadata"].as_object_mut() {
        template.remove("labels");
    }
    if let Some(spec) = order["spec"].as_object_mut() {
        spec.remove("selector");
    }
    if rng.bool() {
        order["metadata"]["name"] = json!(format!("own-{}", rng.u32(0..4)));
    }
    order
}

/// A pod of the next attempt, the next pod of a Job, or a run of one of the next minutes.
pub(super) fn of_a_coming_name(rng: &mut Rng, sights: &Sights<'_>) -> Option<Value> {
    if let Some(cron) = sights.view.cron().filter(|_| rng.u32(0..4) > 0) {
        return Some(run(&cron, rng, sights));
    }
    let job = sights.served(rng)?;
    let named = text(&job["metadata"]["name"]);
    let uid: Uid = text(&job["metadata"]["uid"]).parse().ok()?;
    let count = |field: &str| job["status"][field].as_i64().unwrap_or(0);
    let of_batch = job["kind"] == "Job";
    let pod = if of_batch {
        let index = rng.bool().then(|| rng.u32(0..4));
        let epoch = [0, count("failed"), count("succeeded") + rng.i64(0..2)];
        name::JobPods::new(named, uid, index, epoch).name(rng.u32(0..3))
    } else {
        let node = format!("node-{}", rng.u32(0..6));
        name::pod(named, uid, &node, rng.u32(1..4))
    };
    let node = format!("node-{}", rng.u32(0..6));
    let (labels, finalizer) = if of_batch {
        let labels = json!({CONTROLLER_UID: uid.to_string(), "controller-uid": uid.to_string()});
        (labels, FINALIZER_JOB_TRACKING)
    } else {
        let labels = json!({
            names::LABEL_BROADCAST_JOB_NAME: named, names::LABEL_BROADCAST_JOB_UID: uid.to_string(),
        });
        (labels, names::FINALIZER_RESULT_TRACKING)
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod, "labels": labels, "finalizers": [KEPT, finalizer],
            "ownerReferences": [reference(&job)],
        },
        "spec": {
            "restartPolicy": "Never", "nodeName": node,
            "containers": [{"name": "main", "image": "example.com/evil:1"}],
        },
    });
    if rng.bool() {
        let owner = &mut pod["metadata"]["ownerReferences"][0];
        match rng.u32(0..4) {
            0 => owner["apiVersion"] = json!("example.com/v1"),
            1 => owner["controller"] = json!(false),
            2 => owner["kind"] = json!(["Job", "BroadcastJob"][rng.usize(0..2)]),
            _ => owner["name"] = json!(NAMES[rng.usize(0..NAMES.len())]),
        }
    }
    if of_batch {
        let index = rng.u32(0..4).to_string();
        pod["metadata"]["annotations"][INDEX] = json!(index);
    }
    Some(pod)
}

/// A run of a CronJob.
fn run(cron: &Value, rng: &mut Rng, sights: &Sights<'_>) -> Value {
    let minute = sights.view.server().now().as_second() / 60 + rng.i64(0..4);
    let broadcast = cron["spec"]["broadcastJobTemplate"].is_object();
    let template = &cron["spec"][if broadcast {
        "broadcastJobTemplate"
    } else {
        "jobTemplate"
    }];
    let mut finalizers = vec![json!(names::FINALIZER_RUN_TRACKING)];
    if rng.bool() {
        finalizers.push(json!(KEPT));
    }
    let mut run = json!({
        "apiVersion": if broadcast { "carillon.dev/v1alpha1" } else { "batch/v1" },
        "kind": if broadcast { "BroadcastJob" } else { "Job" },
        "metadata": {
            "name": format!("{CRON}-{minute}"),
            "annotations": template["metadata"]["annotations"],
            "finalizers": finalizers,
        },
        "spec": template["spec"],
    });
    if rng.u32(0..4) > 0 {
        run["metadata"]["ownerReferences"] = json!([reference(cron)]);
    }
    let time = jiff::Timestamp::from_second(minute * 60).unwrap_or_default();
    run["metadata"]["annotations"][SCHEDULED] = json!(time.to_string());
    if rng.bool() {
        run["spec"]["suspend"] = json!(true);
    }
    run
}

/// One change, as a merge patch.
pub(super) fn change(object: &Value, rng: &mut Rng, sights: &Sights<'_>) -> Value {
    match rng.u32(0..8) {
        0..3 => json!({"metadata": {"ownerReferences": owners(object, rng, sights)}}),
        3 => json!({"metadata": {"labels": labels(rng, sights)}}),
        4 | 5 => json!({"metadata": {"annotations": annotations(rng)}}),
        6 => {
            let mut held = json!({"metadata": object["metadata"].clone()});
            hold(&mut held, rng);
            json!({"metadata": {"finalizers": held["metadata"]["finalizers"]}})
        }
        _ => {
            let mut odd = json!({"kind": object["kind"], "spec": {}});
            super::odd::spec(&mut odd, rng);
            json!({"spec": odd["spec"]})
        }
    }
}

/// Owners such as anybody can write.
fn owners(object: &Value, rng: &mut Rng, sights: &Sights<'_>) -> Value {
    let known = object["metadata"]["ownerReferences"][0].clone();
    let served = sights.served(rng);
    let mut owner = match served {
        Some(served) if known.is_null() || rng.u32(0..3) == 0 => reference(&served),
        _ => known,
    };
    if owner.is_null() {
        return json!([]);
    }
    match rng.u32(0..10) {
        0 => owner["apiVersion"] = json!("example.com/v1"),
        1 => owner["apiVersion"] = json!("carillon.dev/v9"),
        2 => {
            let kinds = ["Job", "BroadcastJob", "CronJob", "Deployment", "Node"];
            owner["kind"] = json!(kinds[rng.usize(0..kinds.len())]);
        }
        3 => owner["name"] = json!(NAMES[rng.usize(0..NAMES.len())]),
        4 => owner["controller"] = json!(false),
        5 => {
            let upper = text(&owner["uid"]).to_uppercase();
            owner["uid"] = json!(["not-a-uid", "*", &upper][rng.usize(0..3)]);
        }
        6 => {
            let node = sights.view.actor().get("nodes", "", "node-0").ok();
            owner["uid"] = node.map_or(Value::Null, |node| node["metadata"]["uid"].clone());
        }
        7 => return json!([]),
        8 => {
            let mut first = owner.clone();
            first["controller"] = json!(false);
            owner["name"] = json!("second");
            return json!([first, owner]);
        }
        _ => {}
    }
    json!([owner])
}

fn labels(rng: &mut Rng, sights: &Sights<'_>) -> Value {
    let served = sights.served(rng);
    let uid = served.map_or(Value::Null, |served| served["metadata"]["uid"].clone());
    let label = [
        names::LABEL_BROADCAST_JOB_UID,
        CONTROLLER_UID,
        "controller-uid",
        names::LABEL_CRON_JOB_NAME,
    ][rng.usize(0..4)];
    let value = [uid, Value::Null, json!("x"), json!("")][rng.usize(0..4)].clone();
    json!({label: value})
}

fn annotations(rng: &mut Rng) -> Value {
    let long = "x,".repeat(2000);
    let odd = [
        "",
        "-1",
        "99999999999999999999",
        "0x1",
        "\u{202e}evil",
        "1",
        &long,
    ];
    let value = json!(odd[rng.usize(0..odd.len())]);
    let annotation = [
        INDEX,
        SCHEDULED,
        "carillon.dev/retry",
        "carillon.dev/resume",
        "carillon.dev/run-now",
        "carillon.dev/retry-of",
        "batch.kubernetes.io/job-index-failure-count",
        "cronjob.kubernetes.io/instantiate",
    ][rng.usize(0..8)];
    json!({annotation: value})
}

/// Adds or removes finalizers: its own, and ours.
fn hold(object: &mut Value, rng: &mut Rng) {
    let finalizer = [
        KEPT,
        KEPT,
        KEPT,
        names::FINALIZER_RESULT_TRACKING,
        FINALIZER_JOB_TRACKING,
        names::FINALIZER_RUN_TRACKING,
    ][rng.usize(0..6)];
    let mut all = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !all.contains(&json!(finalizer)) {
        all.push(json!(finalizer));
    } else if finalizer != KEPT {
        all.retain(|known| known != finalizer);
    }
    object["metadata"]["finalizers"] = json!(all);
}

/// A reference to an object as its controller.
fn reference(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Merges as a merge patch does.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            if let Some(object) = object.as_object_mut() {
                object.remove(name);
            }
        } else {
            merge(&mut object[name], value);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
