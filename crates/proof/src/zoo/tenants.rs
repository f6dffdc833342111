//! Bugs of namespaces: what a tenant could do to others, and to the operator, before each of them was mended.

use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use std::collections::HashSet;

use carillon_plan::broadcast_job::Snapshot;
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::interlock::{self, Trip};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cases::under;
use super::mutant::Mutant;
use crate::case::Case;
use crate::disturbance::Disturbance;
use crate::scenario::NAMESPACE;
use crate::tenant::{ELSEWHERE, Tenant};
use crate::wire::{Message, Wire};

const EVERY_NODE: &str = "every node succeeds";
const FOUR: &str = "a job runs four pods, two at a time";
/// Where they were found.
const FOUND: &str = "Carillon before 0.1.0, issue 22";

pub(super) fn mutants() -> Vec<Mutant> {
    [rows(), owners(), runs(), requests()].concat()
}

fn rows() -> Vec<Mutant> {
    vec![
        told(
            "pods are known by the uid of their owner alone",
            beside(EVERY_NODE, 1..4),
            |path, object| {
                if path.contains("/pods") {
                    take_for_ours(object);
                }
            },
        ),
        told(
            "a pod that has ended is its attempt's, wherever it is",
            beside("a quota is full for a while", 1..6),
            |path, object| {
                let phase = object["status"]["phase"].as_str();
                if path.contains("/pods") && matches!(phase, Some("Succeeded" | "Failed")) {
                    take_for_ours(object);
                }
            },
        ),
        told(
            "whose a pod is follows from its label",
            beside(EVERY_NODE, 1..8),
            |path, object| {
                let labels = &object["metadata"]["labels"];
                let of = |what: &str| labels[format!("carillon.dev/broadcastjob-{what}")].clone();
                let (name, uid) = (of("name"), of("uid"));
                if path.contains("/pods") && name.is_string() && uid.is_string() {
                    object["metadata"]["ownerReferences"] = json!([{
                        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                        "name": name, "uid": uid, "controller": true,
                    }]);
                    take_for_ours(object);
                }
            },
        ),
        told(
            "pods of another namespace complete a Job",
            beside(FOUR, 1..6),
            |path, object| {
                if path.contains("/pods") {
                    take_for_ours(object);
                }
            },
        ),
        told(
            "a pod of another namespace that a Job does not select is disowned for ever",
            beside(FOUR, 1..6),
            |path, object| {
                let of_job = object["metadata"]["ownerReferences"][0]["kind"] == "Job";
                if path.contains("/pods") && of_job && is_tenants(object) {
                    object["metadata"]["labels"] = json!({});
                    take_for_ours(object);
                }
            },
        ),
    ]
}

fn owners() -> Vec<Mutant> {
    vec![
        told(
            "an owner of another API group is ours",
            beside(FOUR, 1..60),
            |path, object| {
                change_owner(path, object, |owner| {
                    if owner["kind"] == "Job" {
                        owner["apiVersion"] = json!("batch/v1");
                    }
                });
            },
        ),
        Mutant::new(
            "a pod beside those of the plan trips the interlock",
            FOUND,
            &["S17"],
            beside(EVERY_NODE, 1..12),
        )
        .verifies::<BroadcastJobs>(trips_on_strays),
    ]
}

fn runs() -> Vec<Mutant> {
    vec![
        told(
            "a Job of another namespace makes a tick count as run",
            beside("each tick starts a job", 1..6),
            |path, object| {
                if path.contains("/jobs") {
                    take_for_ours(object);
                }
            },
        ),
        told(
            "a Job of another namespace that we are to hold keeps all runs from starting",
            beside("with Forbid each run waits for the one before", 1..8),
            |path, object| {
                let finalizers = object["metadata"]["finalizers"].to_string();
                if path.contains("/jobs") && finalizers.contains("run-tracking") {
                    take_for_ours(object);
                }
            },
        ),
        told(
            "a BroadcastJob of another namespace is a run of a CronJob",
            beside("each tick starts a BroadcastJob", 1..8),
            |path, object| {
                let owner = &object["metadata"]["ownerReferences"][0];
                if path.contains("/broadcastjobs") && owner["kind"] == "CronJob" {
                    take_for_ours(object);
                }
            },
        ),
    ]
}

fn requests() -> Vec<Mutant> {
    vec![
        speaks(
            "pods are released in the namespace of whoever carries the uid of their owner",
            beside("the job is deleted while it runs", 1..4),
            Wire {
                rewrites: Some(|message| redirect(message, NAMESPACE, ELSEWHERE)),
                ..Wire::default()
            },
        ),
        speaks(
            "a pod is released in the namespace of the job whose uid it carries",
            beside(FOUR, 1..8),
            Wire {
                rewrites: Some(|message| redirect(message, ELSEWHERE, NAMESPACE)),
                ..Wire::default()
            },
        ),
        speaks(
            "the name of an owner is put into a path as it is",
            beside(FOUR, 1..12),
            Wire {
                asks: Some(|path| {
                    *path = path
                        .replace("%3F", "?")
                        .replace("%2F", "/")
                        .replace("%3D", "=");
                }),
                ..Wire::default()
            },
        ),
        speaks(
            "what is refused is sent again at once",
            beside(EVERY_NODE, 1..12),
            Wire {
                insists: true,
                ..Wire::default()
            },
        ),
    ]
}

/// The cache is told something else than is so.
fn told(name: &'static str, cases: Vec<Case>, hears: fn(&str, &mut Value)) -> Mutant {
    let wire = Wire {
        hears: Some(hears),
        ..Wire::default()
    };
    speaks(name, cases, wire)
}

fn speaks(name: &'static str, cases: Vec<Case>, wire: Wire) -> Mutant {
    Mutant::new(name, FOUND, &["S18"], cases).speaks(wire)
}

/// Runs of a scenario beside a tenant of another namespace.
fn beside(scenario: &str, seeds: std::ops::Range<u64>) -> Vec<Case> {
    let tenant = Disturbance {
        tenant: Some(Tenant::Elsewhere),
        ..Disturbance::none(1)
    };
    let case = |seed| Case {
        seed,
        ..under(scenario, tenant.clone())
    };
    seeds.map(case).collect()
}

/// Pods have another owner, all else being so that it could be theirs.
fn change_owner(path: &str, object: &mut Value, change: fn(&mut Value)) {
    let owner = object.pointer_mut("/metadata/ownerReferences/0");
    let Some(owner) = owner.filter(|_| path.contains("/pods")) else {
        return;
    };
    change(owner);
    if owner["kind"] == "BroadcastJob" {
        let uid = owner["uid"].clone();
        object["metadata"]["labels"]["carillon.dev/broadcastjob-uid"] = uid;
    }
}

/// As if each pod had to be one that is recorded.
fn trips_on_strays(snapshot: &Snapshot<'_>, plan: &Plan, _: Timestamp) -> Result<(), Trip> {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let recorded: HashSet<&str> = records.map(|record| &*record.pod).collect();
    let stray = |name: &str| !recorded.contains(name);
    let strays = snapshot
        .pods
        .iter()
        .any(|(name, pod)| stray(name) && !pod.phase.has_ended());
    if strays && !plan.steps.is_empty() {
        let (rule, what) = (
            interlock::broadcast_job::rules::ONE_PER_NODE,
            "a stray".to_owned(),
        );
        return Err(Trip { rule, what });
    }
    Ok(())
}

fn is_tenants(object: &Value) -> bool {
    object["metadata"]["namespace"] == ELSEWHERE
}

/// Where it is makes no difference.
fn take_for_ours(object: &mut Value) {
    if is_tenants(object) {
        object["metadata"]["namespace"] = json!(NAMESPACE);
    }
}

/// Patches of pods go to another namespace.
fn redirect(message: &mut Message, from: &str, to: &str) {
    let pods = |namespace: &str| format!("/namespaces/{namespace}/pods/");
    if message.method == "PATCH" {
        message.path = message.path.replace(&pods(from), &pods(to));
    }
}
